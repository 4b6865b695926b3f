#include "plan/judge_terms.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/status.h"

namespace opsnn::plan {
namespace {

// Below a thousandth of the split time neither the model nor a measurement can tell the two apart: do not
// fuse.
constexpr double kGreyZone = 0.001;

double Sum(const std::vector<CostTerm>& terms) {
  double us = 0;
  for (const CostTerm& t : terms) us += t.us;
  return us;
}

}  // namespace

bool Rule(Decision& d, Verdict v, std::string reason) {
  d.verdict = v;
  d.reason = std::move(reason);
  return true;
}

void SumUp(const Knobs& knobs, Decision& d) {
  SumUp(knobs, Sum(d.split_terms), Sum(d.fused_terms), d);
  if (d.fused_terms.empty()) d.benefit_us = 0;
}

void SumUp(const Knobs& knobs, double split_us, double fused_us, Decision& d) {
  d.time_fused_us = fused_us;
  d.time_split_us = split_us;
  d.benefit_us = split_us - fused_us;
  d.threshold_us = std::max(knobs.fuse_threshold, kGreyZone) * d.time_split_us;
}

void DecideByCost(Decision& d) {
  d.verdict = d.benefit_us > d.threshold_us ? Verdict::kFuse : Verdict::kSplit;
}

void DecideByCost(const Knobs& knobs, double fused_without, double split_without, const std::string& context,
                  Decision& d) {
  DecideByCost(d);
  const bool fuse = d.verdict == Verdict::kFuse;
  // The largest difference between the sides, for the reader: what the verdict hangs on.
  const std::vector<CostTerm>& side = fuse ? d.split_terms : d.fused_terms;
  const std::vector<CostTerm>& other = fuse ? d.fused_terms : d.split_terms;
  std::string largest;
  double most = 0;
  for (const CostTerm& t : side) {
    double us = t.us;
    for (const CostTerm& o : other) {
      if (o.name == t.name) us -= o.us;
    }
    if (us > most) {
      most = us;
      largest = t.name;
    }
  }
  const char* relation = fuse ? "exceeds" : "does not exceed";
  d.reason = StrFormat("benefit %.3g us %s the threshold of %.3g us", d.benefit_us, relation, d.threshold_us);
  if (!largest.empty()) {
    d.reason += StrFormat(fuse ? "; saves mostly \"%s\" (%.3g us)" : "; costs mostly \"%s\" (%.3g us)",
                          largest.c_str(), most);
  }
  d.reason += "; " + context;

  const double threshold = std::max(knobs.fuse_threshold, kGreyZone) * split_without;
  d.rests_on_assumed = (split_without - fused_without > threshold) != fuse;
}

double SplitWithoutAssumed(const Decision& d, const device::DeviceProfile& p) {
  double us = d.time_split_us;
  for (const CostTerm& t : d.split_terms) {
    const std::string_view name = t.name;
    if ((name == "launch" && p.assumed(device::Field::k_launch_us)) ||
        (name == "join cores" && p.assumed(device::Field::k_sync_us))) {
      us -= t.us;
    }
  }
  return us;
}

void NameEpilogueBlocks(const Program* tail, Decision& d) {
  const std::string name = tail && !tail->stages.empty() ? Info(tail->stages.back().op).name : "chain";
  for (BudgetItem& item : d.budget) {
    if (item.block.rfind("epilogue", 0) == 0) item.block.replace(0, 8, "epilogue:" + name);
  }
}

std::string SizeText(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (b >= 1 << 30) return StrFormat("%.3g GiB", b / (1 << 30));
  if (b >= 1 << 20) return StrFormat("%.3g MiB", b / (1 << 20));
  if (b >= 1 << 10) return StrFormat("%.3g KiB", b / (1 << 10));
  return StrFormat("%lld bytes", static_cast<long long>(bytes));
}

}  // namespace opsnn::plan
