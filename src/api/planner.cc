#include "opsnn/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "base/knobs.h"
#include "base/parallel.h"
#include "capi/plan_cache.h"
#include "device/host.h"
#include "device/profile.h"
#include "observe/judge_regret.h"
#include "observe/term_errors.h"
#include "plan/judge.h"
#include "plan/tile_buckets.h"
#include "program/program.h"

namespace opsnn {
namespace {

struct StageName {
  const char* name;
  StageOp op;
  bool binary = false;
};
constexpr StageName kStages[] = {
    {"relu", StageOp::kRelu},     {"gelu", StageOp::kGeluErf},    {"gelu_tanh", StageOp::kGeluTanh},
    {"silu", StageOp::kSilu},     {"sigmoid", StageOp::kSigmoid}, {"tanh", StageOp::kTanh},
    {"add", StageOp::kAdd, true}, {"mul", StageOp::kMul, true},
};

struct Tail {
  Program program;
  std::string chain = "matmul";
  int full_operands = 0;
  int64_t small_bytes = 0;
};

Result<Tail> MakeTail(const MatmulEdge& e) {
  Tail tail;
  ProgramBuilder b;
  SlotId x = b.Input();
  // Inputs of a program come before its stages.
  std::vector<SlotId> operands;
  for (const std::string& stage : e.epilogue) {
    if (stage == "bias" || stage == "add" || stage == "mul") operands.push_back(b.Input());
  }
  size_t next = 0;
  for (const std::string& stage : e.epilogue) {
    tail.chain += "+" + stage;
    if (stage == "bias") {
      x = b.Binary(StageOp::kAdd, x, operands[next++]);
      tail.small_bytes += e.n * static_cast<int64_t>(SizeOf(e.dtype));
      continue;
    }
    const StageName* found = std::find_if(std::begin(kStages), std::end(kStages),
                                          [&](const StageName& s) { return stage == s.name; });
    if (found == std::end(kStages)) {
      std::string names = "bias";
      for (const StageName& s : kStages) names += std::string(", ") + s.name;
      return InvalidArgument("matmul: unknown epilogue stage \"%s\"; allowed: %s", stage.c_str(),
                             names.c_str());
    }
    x = found->binary ? b.Binary(found->op, x, operands[next++]) : b.Unary(found->op, x);
    tail.full_operands += found->binary;
  }
  b.Output(x);
  tail.program = std::move(b).Build();
  return tail;
}

Status CheckEdge(const MatmulEdge& e) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const std::pair<const char*, int64_t> sizes[] = {{"m", e.m}, {"n", e.n}, {"k", e.k}, {"batch", e.batch}};
  for (const auto& [name, v] : sizes) {
    if (v < 0 || v > kMost) {
      return InvalidArgument("matmul: %s is %lld; allowed: 0 to %lld", name, static_cast<long long>(v),
                             static_cast<long long>(kMost));
    }
  }
  if (e.concurrent < 1 || e.concurrent > 4096)
    return InvalidArgument("matmul: concurrent is %d; allowed: 1 to 4096", e.concurrent);
  if (e.threads < 0) return InvalidArgument("matmul: threads is %d; allowed: 0 and up", e.threads);
  return OkStatus();
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

Result<plan::Decision> JudgeMatmul(const MatmulEdge& edge, const std::string& profile) {
  OPSNN_RETURN_IF_ERROR(CheckEdge(edge));
  const Knobs& knobs = GetKnobs();
  OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile p,
                         device::FindProfile(profile.empty() ? knobs.profile : profile));
  OPSNN_ASSIGN_OR_RETURN(const Tail tail, MakeTail(edge));
  plan::ContractionEdge e;
  e.chain = tail.chain;
  e.m = edge.m, e.n = edge.n, e.k = edge.k, e.batch = edge.batch;
  e.dtype = e.out_dtype = edge.dtype;
  e.tail = &tail.program;
  e.full_operands = tail.full_operands;
  e.small_operand_bytes = tail.small_bytes;
  e.threads = edge.threads;
  e.training = edge.training, e.precision_first = edge.precision_first, e.concurrent = edge.concurrent;
  return plan::JudgeContraction(e, p, knobs);
}

RegionCounters RegionsRun() {
  const plan::RegionCounters c = plan::RegionsRun();
  return {c.calls, c.fused, c.split};
}

PlanCaches PlanCachesUsed() {
  const auto use = [](const plan::CacheCounters& c) {
    return PlanCacheUse{c.hits, c.misses, c.entries, c.bytes};
  };
  const capi::PlanCacheUse calls = capi::GetPlanCacheUse();
  PlanCaches all;
  all.verdicts = use(plan::JudgeCacheCounters());
  all.tiles = use(plan::TileCacheCounters());
  all.calls = {static_cast<int64_t>(calls.hits), static_cast<int64_t>(calls.misses),
               static_cast<int64_t>(calls.plans), static_cast<int64_t>(calls.bytes)};
  all.bound_bytes = GetKnobs().plan_cache_bytes;
  return all;
}

PlanningCost MeasurePlanning() {
  constexpr int kShapes = 1000, kRepeats = 100;
  const Knobs& knobs = GetKnobs();
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kGeluErf, b.Input()));
  const Program tail = std::move(b).Build();
  std::mt19937 rng(20260719);
  std::vector<double> fresh, cached;
  PlanningCost cost;
  const plan::CacheCounters before = plan::JudgeCacheCounters();
  for (int i = 0; i < kShapes; ++i) {
    plan::ContractionEdge e;
    e.chain = "matmul+gelu";
    e.words = false;  // as a call asks
    const auto size = [&] { return static_cast<int64_t>(std::exp2(12.0 * rng() / 4294967296.0)) + 1; };
    e.m = size(), e.n = size(), e.k = size();
    e.tail = &tail;
    const int64_t misses = plan::JudgeCacheCounters().misses;
    const double t0 = Seconds();
    auto d = plan::CachedJudgeContraction(e, host, knobs);
    const double t1 = Seconds();
    if (plan::JudgeCacheCounters().misses > misses) fresh.push_back((t1 - t0) * 1e6);
    for (int r = 0; r < kRepeats; ++r) d = plan::CachedJudgeContraction(e, host, knobs);
    cached.push_back((Seconds() - t1) * 1e6 / kRepeats);
  }
  cost.new_class_us = fresh.empty() ? 0 : Median(fresh);
  cost.cached_us = Median(cached);
  cost.classes = static_cast<int64_t>(fresh.size());
  const plan::CacheCounters after = plan::JudgeCacheCounters();
  cost.hits = after.hits - before.hits, cost.misses = after.misses - before.misses;
  cost.cache_bytes = after.bytes;
  cost.bound_bytes = knobs.plan_cache_bytes;
  return cost;
}

std::vector<JudgePoint> JudgeReport::Worst(size_t n) const {
  std::vector<JudgePoint> worst = points;
  std::stable_sort(worst.begin(), worst.end(),
                   [](const JudgePoint& a, const JudgePoint& b) { return a.regret > b.regret; });
  if (worst.size() > n) worst.resize(n);
  return worst;
}

Result<JudgeReport> MeasureJudge(int runs, const std::function<void(int, int)>& progress,
                                 const JudgePoints& which) {
  if (runs < 1) return InvalidArgument("judge: runs is %d; allowed: 1 and up", runs);
  const int most = NumThreads();
  if (which.threads < 0 || which.threads > most)
    return InvalidArgument("judge: threads is %d; allowed: 0 to %d", which.threads, most);
  return observe::MeasureJudge(runs, progress, which);
}

Result<std::vector<TermError>> MeasureTerms(int runs) {
  if (runs < 1) return InvalidArgument("calibrate: runs is %d; allowed: 1 and up", runs);
  return observe::MeasureTerms(runs);
}

Calibration Calibrate(bool keep) {
  constexpr double kStale = 1.25;
  Calibration c;
  c.file = device::RateCachePath();
  device::HostRates used;
  const bool had = device::ReadRates(c.file, &used);
  const device::HostRates now = keep ? device::Recalibrate() : device::MeasureNow();
  c.stale = !had;
  const auto add = [&](const char* name, const char* unit, double before, double after, bool counts) {
    const bool drifts = had && std::max(before, after) > kStale * std::min(before, after);
    c.rates.push_back({name, unit, had ? before : 0, after, counts, drifts});
    c.stale |= counts && drifts;
  };
  add("clock", "GHz", used.clock_ghz, now.clock_ghz, true);
  add("fma", "GFLOP/s", used.fma_gflops, now.fma_gflops, true);
  add("l1d", "GB/s", used.l1d_gbps, now.l1d_gbps, true);
  add("l2", "GB/s", used.l2_gbps, now.l2_gbps, true);
  add("l3", "GB/s", used.l3_gbps, now.l3_gbps, false);  // shared with neighbours
  add("memory read", "GB/s", used.dram_read_gbps, now.dram_read_gbps, true);
  add("memory copy", "GB/s", used.dram_copy_gbps, now.dram_copy_gbps, false);
  add("memory read, all cores", "GB/s", used.dram_total_gbps, now.dram_total_gbps, false);
  add("join cores", "us", used.sync_us, now.sync_us, false);
  add("line of another core", "ns", used.cross_line_ns, now.cross_line_ns, false);
  add("shared cache to count on", "MiB", used.shared_mib, now.shared_mib, false);
  return c;
}

}  // namespace opsnn
