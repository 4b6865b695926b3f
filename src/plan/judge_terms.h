// What all judges share: adding up terms, comparing, wording the reason.
#ifndef OPSNN_PLAN_JUDGE_TERMS_H_
#define OPSNN_PLAN_JUDGE_TERMS_H_

#include <string>
#include <utility>
#include <vector>

#include "base/knobs.h"
#include "device/profile.h"
#include "plan/decision.h"
#include "program/program.h"

namespace opsnn::plan {

// The time of one side, added up term by term. Without a list the terms have no names.
class CostSum {
 public:
  explicit CostSum(std::vector<CostTerm>* terms) : terms_(terms) {}
  void Add(const char* name, double us) {
    us_ += us;
    if (terms_) Keep(name, us);
  }
  void Add(const char* what, const char* where, double us) {  // "write C to " and "HBM"
    us_ += us;
    if (terms_) Keep(std::string(what) + where, us);
  }
  double us() const { return us_; }

 private:
  void Keep(std::string name, double us) {  // two passes of one side may have a term each
    for (CostTerm& t : *terms_)
      if (t.name == name) return void(t.us += us);
    terms_->push_back({std::move(name), us});
  }

  std::vector<CostTerm>* terms_;
  double us_ = 0;
};

// Gives a verdict that costs do not enter; always true, so that a caller can return it.
bool Rule(Decision& d, Verdict v, std::string reason);
// Times, benefit and threshold from the terms. The threshold is the knob's share of the split time, but never
// less than the grey zone in which the model cannot tell.
void SumUp(const Knobs& knobs, Decision& d);
void SumUp(const Knobs& knobs, double split_us, double fused_us, Decision& d);
// The verdict by benefit against threshold.
void DecideByCost(Decision& d);
// The same in words; `context` ends the reason. `fused_without` and `split_without`
// are the times without what rests on assumed fields: if they give another verdict, this one rests on the
// assumptions.
void DecideByCost(const Knobs& knobs, double fused_without, double split_without, const std::string& context,
                  Decision& d);
// d.time_split_us without launch and joining, where the profile only assumes those.
double SplitWithoutAssumed(const Decision& d, const device::DeviceProfile& p);
// "epilogue" blocks named after the chain's last stage: "epilogue:gelu_erf".
void NameEpilogueBlocks(const Program* tail, Decision& d);
std::string SizeText(int64_t bytes);  // "1.5 MiB"

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_JUDGE_TERMS_H_
