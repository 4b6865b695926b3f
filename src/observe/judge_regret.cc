#include "observe/judge_regret.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "device/profile.h"
#include "observe/product_forms.h"
#include "plan/judge.h"

namespace opsnn::observe {
namespace {

const Point kPoints[] = {
    {16, 16, 16, 1},    {64, 64, 64, 1},      {64, 64, 64, 64},   {128, 128, 128, 1}, {256, 256, 256, 1},
    {512, 512, 512, 1}, {1024, 1024, 256, 1}, {1, 4096, 1024, 1}, {8, 4096, 64, 1},   {4096, 16, 64, 1},
    {3136, 64, 64, 1},  {12544, 32, 16, 1},   {12544, 16, 8, 1},  {2048, 2048, 8, 1}, {2048, 2048, 64, 1},
    {128, 768, 768, 1}, {128, 3072, 768, 1},  {16, 16, 16, 1024}, {128, 128, 64, 96}, {4096, 4096, 32, 1},
    {8200, 512, 16, 1},
};

double ChosenMicroseconds(const JudgePoint& p) {
  return p.verdict == plan::Verdict::kHybrid ? p.hybrid_us
         : p.verdict == plan::Verdict::kFuse ? p.fused_us
                                             : p.split_us;
}

// Times of each form, by measurement. Each measurement has memory of its own: how buffers lie to each other
// in the caches is chance.
struct Times {
  std::vector<double> fused, split, hybrid;
};
Status Measure(const Chain& chain, const Point& s, const plan::Decision& d, int runs, Times* t) {
  ProductForms forms(chain, s);
  OPSNN_RETURN_IF_ERROR(forms.Prepare());
  OPSNN_RETURN_IF_ERROR(forms.SetRegions(d.regions));
  std::vector<std::function<void()>> run = {[&] { forms.Fused(); }, [&] { forms.Split(); }};
  if (!d.regions.empty()) run.push_back([&] { forms.Hybrid(); });
  const std::vector<double> us = MedianMicroseconds(run, runs);
  t->fused.push_back(us[0]), t->split.push_back(us[1]);
  if (us.size() > 2) t->hybrid.push_back(us[2]);
  return OkStatus();
}

Result<JudgePoint> MeasurePoint(const Chain& chain, const Point& s, int threads, int runs) {
  const plan::ContractionEdge e = EdgeOf(chain, s, threads);
  const plan::Decision d = plan::JudgeContraction(e, device::HostProfile(), Knobs{});
  JudgePoint p;
  p.chain = e.chain, p.shape = ShapeText(s), p.threads = threads, p.verdict = d.verdict;
  p.predicted_fused_us = d.time_fused_us, p.predicted_split_us = d.time_split_us;
  const bool hybrid = d.verdict == plan::Verdict::kHybrid;
  if (hybrid) p.predicted_hybrid_us = d.time_hybrid_us;
  Times times;
  const auto measure = [&] {
    OPSNN_RETURN_IF_ERROR(Measure(chain, s, d, runs, &times));
    p.fused_us = Median(times.fused), p.split_us = Median(times.split);
    p.hybrid_us = hybrid ? Median(times.hybrid) : 0;
    p.regret = ChosenMicroseconds(p) / std::min({ChosenMicroseconds(p), p.fused_us, p.split_us});
    return OkStatus();
  };
  // An offender is measured twice more: the middle of three counts.
  constexpr double kOffender = 1.03;
  OPSNN_RETURN_IF_ERROR(measure());
  const bool offends = p.regret > kOffender;
  for (int i = 0; offends && i < 2; ++i) OPSNN_RETURN_IF_ERROR(measure());
  return p;
}

void SumUp(JudgeReport& r) {
  constexpr double kWins = 1.05;
  double log_regret = 0, log_error = 0;
  r.fused_vs_parts_worst = 0;
  if (r.points.empty()) return;
  for (const JudgePoint& p : r.points) {
    log_regret += std::log(p.regret);
    r.regret_worst = std::max(r.regret_worst, p.regret);
    log_error += std::fabs(std::log(p.predicted_fused_us / p.fused_us));
    r.split_wins += p.fused_us > kWins * p.split_us;
    r.fuse_wins += p.split_us > kWins * p.fused_us;
    r.hybrid_chosen += p.verdict == plan::Verdict::kHybrid;
    if (p.verdict == plan::Verdict::kSplit) continue;
    const double gain = p.split_us / ChosenMicroseconds(p);
    r.fused_vs_parts_worst = r.fused_vs_parts_worst == 0 ? gain : std::min(r.fused_vs_parts_worst, gain);
  }
  const double n = static_cast<double>(r.points.size());
  r.regret_geomean = std::exp(log_regret / n);
  r.prediction_error = std::exp(log_error / n);
}

}  // namespace

Result<JudgeReport> MeasureJudge(int runs, const std::function<void(int, int)>& progress,
                                 const JudgePoints& which) {
  const std::vector<Chain> chains = JudgedChains();
  std::vector<int> threads = {which.threads > 0 ? which.threads : 1};
  if (which.threads == 0 && NumThreads() > 1) threads.push_back(NumThreads());
  JudgeReport report;
  report.threads = threads.back();
  std::vector<std::pair<const Chain*, Point>> chosen;
  for (const Chain& chain : chains) {
    for (const Point& s : kPoints) {
      const std::string name = EdgeOf(chain, s, 1).chain + " " + ShapeText(s);
      if (name.find(which.only) != std::string::npos) chosen.emplace_back(&chain, s);
    }
  }
  if (chosen.empty())
    return InvalidArgument("judge: no point holds \"%s\"; allowed: parts of names such as %s %s",
                           which.only.c_str(), EdgeOf(chains[0], kPoints[0], 1).chain.c_str(),
                           ShapeText(kPoints[0]).c_str());
  const int total = static_cast<int>(threads.size() * chosen.size());
  for (const int t : threads) {
    ScopedThreadLimit limit(t);
    for (const auto& [chain, s] : chosen) {
      OPSNN_ASSIGN_OR_RETURN(JudgePoint p, MeasurePoint(*chain, s, t, runs));
      report.points.push_back(std::move(p));
      if (progress) progress(static_cast<int>(report.points.size()), total);
    }
  }
  SumUp(report);
  return report;
}

}  // namespace opsnn::observe
