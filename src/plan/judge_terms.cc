#include "plan/judge_terms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

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

// Terms of the two sides that are about the same thing, where their names differ.
constexpr std::pair<std::string_view, std::string_view> kSubjects[] = {
    {"other operands", "operands and output"},
    {"write output", "operands and output"},
    {"short rows", "operands and output"},
    {"last block", "chain"},
    {"tiles", "chain"},
    {"program blocks", "chain"},
    {"write between", "what lies between"},
    {"read between", "what lies between"},
    {"between in", "what lies between"},
    {"between written and read", "what lies between"},
    {"between from other cores", "what lies between"},
    {"conversion pass", "conversion"},
    {"read original", "what the neighbour reads"},
    {"read converted", "what the neighbour reads"},
    {"strided access", "what the neighbour reads"},
};

// "write C" of "write C to HBM": where it goes differs between the sides.
std::string_view SubjectOf(std::string_view name) {
  for (const std::string_view level : {" L1", " L2", " HBM"}) {
    if (!name.ends_with(level)) continue;
    name.remove_suffix(level.size());
    name = name.substr(0, name.rfind(' '));
    break;
  }
  for (const auto& [term, subject] : kSubjects)
    if (name == term) return subject;
  return name;
}

struct Difference {
  std::string subject;
  double us = 0;
};

// Of what one side takes longer for than the other, most.
Difference LargestDifference(const Decision& d, bool saved) {
  std::map<std::string_view, double> by_subject;
  for (const CostTerm& t : d.split_terms) by_subject[SubjectOf(t.name)] += saved ? t.us : -t.us;
  for (const CostTerm& t : d.fused_terms) by_subject[SubjectOf(t.name)] -= saved ? t.us : -t.us;
  Difference most;
  for (const auto& [subject, us] : by_subject)
    if (us > most.us) most = {std::string(subject), us};
  return most;
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
  const bool by_knob = knobs.fuse_threshold > kGreyZone;
  d.reason = StrFormat("benefit %.3g us %s the threshold of %.3g us", d.benefit_us,
                       fuse ? "exceeds" : "does not exceed", d.threshold_us);
  if (by_knob) d.reason += StrFormat(" (fuse_threshold, %g of the split time)", knobs.fuse_threshold);
  if (!fuse && !by_knob && d.benefit_us > 0)
    d.reason += StrFormat(" (%g of the split time: the model cannot tell)", kGreyZone);
  // What the benefit comes from, or the lack of one.
  const Difference saved = LargestDifference(d, d.benefit_us > 0);
  if (saved.us > 0) {
    d.reason +=
        StrFormat(d.benefit_us > 0 ? "; saves mostly \"%s\" (%.3g us)" : "; costs mostly \"%s\" (%.3g us)",
                  saved.subject.c_str(), saved.us);
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
