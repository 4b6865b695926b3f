#include <chrono>
#include <cmath>
#include <cstdio>

#include "cli/cli.h"
#include "opsnn/system.h"

namespace cli {
namespace {

// Into the same outputs every time, as a loop over frames would run.
Result<double> TimeMs(opsnn::Model& model, const opsnn::Feeds& feeds, std::vector<opsnn::Tensor>* outputs) {
  const auto start = std::chrono::steady_clock::now();
  if (opsnn::Status s = model.Run(feeds, outputs); !s.ok()) return s;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Json Summary(const std::vector<double>& ms) {
  return {{"min", *std::min_element(ms.begin(), ms.end())}, {"median", Median(ms)}};
}

// The hottest nodes with their share of the time, and how many of them take four fifths of it.
struct HotList {
  std::vector<opsnn::NodeTime> nodes;  // slowest first
  double total = 0;
  size_t most = 0;  // of the time is in these

  explicit HotList(std::vector<opsnn::NodeTime> of) : nodes(std::move(of)) {
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.us > b.us; });
    for (const auto& n : nodes) total += n.us;
    for (double us = 0; most < nodes.size() && us < 0.8 * total; ++most) us += nodes[most].us;
  }
};

double BytesPerOperation(const opsnn::NodeTime& n) {
  return n.operations > 0 ? static_cast<double>(n.bytes) / n.operations : 0;
}

Json ToJson(const HotList& hot, size_t top) {
  Json list = Json::array();
  double sum = 0;
  for (size_t i = 0; i < std::min(top, hot.nodes.size()); ++i) {
    const auto& n = hot.nodes[i];
    sum += n.us;
    list.push_back({{"node", n.node},
                    {"op", n.op},
                    {"variant", n.variant},
                    {"us", n.us},
                    {"share", n.us / hot.total},
                    {"cumulative_share", sum / hot.total},
                    {"bytes", n.bytes},
                    {"operations", n.operations},
                    {"bytes_per_operation", n.operations > 0 ? Json(BytesPerOperation(n)) : Json()}});
  }
  return {{"nodes", hot.nodes.size()}, {"nodes_with_80_percent", hot.most}, {"hottest", list}};
}

void Print(const HotList& hot, size_t top) {
  std::printf("  %9s %6s %6s %8s %8s %9s  %-36s %-22s %s\n", "us", "share", "sum", "GB/s", "B/op", "live MiB",
              "node", "output", "operator / variant");
  double sum = 0;
  for (size_t i = 0; i < std::min(top, hot.nodes.size()); ++i) {
    const auto& n = hot.nodes[i];
    sum += n.us;
    char ratio[32] = "-";
    if (n.operations > 0) std::snprintf(ratio, sizeof ratio, "%.3f", BytesPerOperation(n));
    std::printf("  %9.1f %5.1f%% %5.1f%% %8.1f %8s %9.2f  %-36.36s %-22.22s %s / %s\n", n.us,
                100 * n.us / hot.total, 100 * sum / hot.total, n.us > 0 ? n.bytes / n.us / 1e3 : 0.0, ratio,
                n.live_bytes / 1048576.0, n.node.c_str(), n.shape.c_str(), n.op.c_str(), n.variant.c_str());
  }
  std::printf("  80 %% of the time is in %zu of %zu nodes\n", hot.most, hot.nodes.size());
}

Result<HotList> Profile(opsnn::Model& model, const opsnn::Feeds& feeds) {
  opsnn::RunStats stats;
  if (auto out = model.RunProfiled(feeds, &stats); !out.ok()) return out.status();
  return HotList(std::move(stats.nodes));
}

Json TimesJson(const opsnn::PlanTimes& t) {
  Json passes = Json::object();
  for (const auto& [name, us] : t.pass_us) passes[name] = us;
  return {{"import", t.import_us}, {"load", t.load_us},   {"shapes", t.shapes_us},
          {"passes", t.passes_us}, {"judge", t.judge_us}, {"kernels", t.kernels_us},
          {"memory", t.memory_us}, {"by_pass", passes},   {"edges", t.edges},
          {"edges_fused", t.fused}};
}

// By layers, and after how many runs fusing has paid for what it adds to planning.
void PrintPhases(const opsnn::RunStats& fused, const opsnn::RunStats& unfused, double fused_ms,
                 double unfused_ms) {
  const opsnn::PlanTimes &t = fused.times, &u = unfused.times;
  std::printf("  %-34s %12s %12s\n", "before a run, us", "fused", "unfused");
  const auto line = [](const char* what, double a, double b) {
    std::printf("  %-34s %12.1f %12.1f\n", what, a, b);
  };
  line("once: import of the file", t.import_us, u.import_us);
  line("once: passes of loading, packing", t.load_us, u.load_us);
  line("a size: shapes", t.shapes_us, u.shapes_us);
  line("a size: passes", t.passes_us, u.passes_us);
  line("  of them the judge's verdicts", t.judge_us, u.judge_us);
  line("a size: kernels chosen", t.kernels_us, u.kernels_us);
  line("a size: memory laid out", t.memory_us, u.memory_us);
  line("a size together", t.plan_us(), u.plan_us());
  line("a run", fused_ms * 1e3, unfused_ms * 1e3);
  std::printf("  %d edges asked about, %d fused; %d nodes of the model, %d run (unfused %d)\n", t.edges,
              t.fused, fused.nodes_imported, fused.nodes_run, unfused.nodes_run);
  const double more = t.plan_us() - u.plan_us(), gain = (unfused_ms - fused_ms) * 1e3;
  if (gain > 0 && more > 0)
    std::printf("  planning to fuse takes %.1f us more, a run %.1f us less: paid after %.0f runs\n", more,
                gain, std::ceil(more / gain));
  if (gain > 0 && more <= 0)
    std::printf("  planning to fuse took no longer, a run takes %.1f us less\n", gain);
  if (gain <= 0) std::printf("  a run takes no less fused: planning to fuse is not paid for\n");
}

// Of the plan alone where nothing is compared.
void PrintPhases(const opsnn::RunStats& one, double ms) {
  const opsnn::PlanTimes& t = one.times;
  std::printf(
      "  before a run, us: import %.1f, load %.1f, shapes %.1f, passes %.1f, kernels %.1f, memory %.1f; "
      "a run %.1f\n",
      t.import_us, t.load_us, t.shapes_us, t.passes_us, t.kernels_us, t.memory_us, ms * 1e3);
}

struct BenchOptions {
  int runs = 15, top = 0;
  bool json = false, phases = false;
};

// What a bench of one target found.
struct BenchTimes {
  double first_ms = 0;
  std::vector<double> fused_ms, unfused_ms;  // in turns
  opsnn::RunStats fused, unfused;            // of the first run behind the first call
  // After all runs: plans of the model in its chosen form that were made, and found by later runs; the
  // planner's caches; calls that ran by regions.
  int64_t plans_made = 0, plans_found = 0;
  opsnn::PlanCaches caches;
  opsnn::RegionCounters regions;
};

Status CountPlans(opsnn::Model& model, const opsnn::Feeds& feeds, BenchTimes* t) {
  opsnn::RunStats last;
  if (auto out = model.RunProfiled(feeds, &last); !out.ok()) return out.status();
  t->plans_made = last.plans_made, t->plans_found = last.plans_found;
  t->caches = opsnn::PlanCachesUsed();
  t->regions = opsnn::RegionsRun();
  return opsnn::OkStatus();
}

// Is fusion off, by the option or else the setting? There is one form then.
bool FusionOff(const Target& target) {
  if (!target.fusion.empty()) return target.fusion == "off";
  for (const auto& k : opsnn::ListOptions())
    if (k.key == "fusion") return k.value == "off";
  return false;
}

Result<BenchTimes> MeasureUnfused(opsnn::Model& unfused, const opsnn::Feeds& feeds, int runs) {
  BenchTimes t;
  std::vector<opsnn::Tensor> outputs;
  auto first = TimeMs(unfused, feeds, &outputs);
  if (!first.ok()) return first.status();
  t.first_ms = *first;
  if (auto profiled = unfused.RunProfiled(feeds, &t.unfused); !profiled.ok()) return profiled.status();
  Progress progress("bench");
  for (int i = 0; i < runs; ++i) {
    auto ms = TimeMs(unfused, feeds, &outputs);
    if (!ms.ok()) return ms.status();
    t.unfused_ms.push_back(*ms);
    progress.Update(i + 1, runs);
  }
  if (Status s = CountPlans(unfused, feeds, &t); !s.ok()) return s;
  return t;
}

Result<BenchTimes> Measure(opsnn::Model& fused, opsnn::Model& unfused, const opsnn::Feeds& feeds, int runs) {
  BenchTimes t;
  std::vector<opsnn::Tensor> outputs;
  auto first = TimeMs(fused, feeds, &outputs);
  if (!first.ok()) return first.status();
  t.first_ms = *first;
  if (auto profiled = fused.RunProfiled(feeds, &t.fused); !profiled.ok()) return profiled.status();
  if (auto warm = unfused.RunProfiled(feeds, &t.unfused); !warm.ok()) return warm.status();
  Progress progress("bench");
  for (int i = 0; i < runs; ++i) {
    auto x = TimeMs(fused, feeds, &outputs);
    if (!x.ok()) return x.status();
    auto y = TimeMs(unfused, feeds, &outputs);
    if (!y.ok()) return y.status();
    t.fused_ms.push_back(*x);
    t.unfused_ms.push_back(*y);
    progress.Update(i + 1, runs);
  }
  if (Status s = CountPlans(fused, feeds, &t); !s.ok()) return s;
  return t;
}

Json ReportJson(const Target& target, const BenchOptions& o, const BenchTimes& t) {
  const bool off = t.fused_ms.empty();
  const opsnn::RunStats& run = off ? t.unfused : t.fused;
  Json before = Json::array();
  if (!off) before.push_back(TimesJson(t.fused.times));
  before.push_back(TimesJson(t.unfused.times));
  return {
      {"model", target.Describe()},
      {"threads", opsnn::GetSystemInfo().threads},
      {"runs", o.runs},
      {"first_ms", t.first_ms},
      {"fused_ms", off ? Json() : Summary(t.fused_ms)},
      {"unfused_ms", Summary(t.unfused_ms)},
      {"peak_bytes", run.peak_bytes},
      {"bytes_moved", run.bytes_moved},
      {"unfused_bytes_moved", t.unfused.bytes_moved},
      {"weight_bytes", run.weight_bytes},
      {"nodes_imported", run.nodes_imported},
      {"nodes_run", run.nodes_run},
      {"before_us", before},
      {"plans", {{"made", t.plans_made}, {"found", t.plans_found}}},
      {"verdict_cache", cli::ToJson(t.caches.verdicts)},
      {"regions",
       {{"calls", t.regions.calls}, {"blocks_fused", t.regions.fused}, {"blocks_split", t.regions.split}}},
      {"notes", Notes()}};
}

void PrintReport(const Target& target, const BenchOptions& o, const BenchTimes& t) {
  const int threads = opsnn::GetSystemInfo().threads;
  const bool off = t.fused_ms.empty();
  const double fused = Median(t.fused_ms), unfused = Median(t.unfused_ms);
  const auto row = [](const char* name, const std::vector<double>& ms) {
    std::printf("  %-10s median %.3f ms, min %.3f ms\n", name, Median(ms),
                *std::min_element(ms.begin(), ms.end()));
  };
  std::printf("%s, %d thread%s, %d run%s%s\n", target.Describe().c_str(), threads, threads == 1 ? "" : "s",
              o.runs, o.runs == 1 ? "" : "s", off ? "; fusion is off" : " in turns");
  std::printf("  first call %.3f ms\n", t.first_ms);
  if (!off) row("fused", t.fused_ms);
  row("unfused", t.unfused_ms);
  if (!off) std::printf("  unfused / fused %.2f\n", unfused / fused);
  const opsnn::RunStats& run = off ? t.unfused : t.fused;
  std::printf("  peak %.2f MiB, moved %.2f MiB, weights %.2f MiB, nodes %d -> %d\n",
              run.peak_bytes / 1048576.0, run.bytes_moved / 1048576.0, run.weight_bytes / 1048576.0,
              run.nodes_imported, run.nodes_run);
  if (!off && t.unfused.bytes_moved > 0)
    std::printf("  moved unfused %.2f MiB in %d nodes: fusing and merging leave %.0f %% of it\n",
                t.unfused.bytes_moved / 1048576.0, t.unfused.nodes_run,
                100.0 * static_cast<double>(run.bytes_moved) / static_cast<double>(t.unfused.bytes_moved));
  const auto ll = [](int64_t v) { return static_cast<long long>(v); };
  const opsnn::PlanCacheUse& v = t.caches.verdicts;
  std::printf(
      "  plans made by runs %lld, found by runs %lld; verdicts by shape class: %lld decided, %lld found, "
      "%lld "
      "of %lld bytes kept\n",
      ll(t.plans_made), ll(t.plans_found), ll(v.misses), ll(v.hits), ll(v.bytes), ll(t.caches.bound_bytes));
  if (t.regions.calls > 0)
    std::printf("  %lld calls by regions: %lld blocks of rows ran fused, %lld split\n", ll(t.regions.calls),
                ll(t.regions.fused), ll(t.regions.split));
  if (o.phases && off) PrintPhases(t.unfused, unfused);
  if (o.phases && !off) PrintPhases(t.fused, t.unfused, fused, unfused);
}

Status Bench(const Target& target, const BenchOptions& o) {
  if (target.name.empty())
    return Status(opsnn::Code::kInvalid,
                  "bench: no model given; allowed: an ONNX file, an operator, judge, plan");
  auto fused = target.Load();
  if (!fused.ok()) return fused.status();
  auto feeds = target.MakeFeeds(*fused);
  if (!feeds.ok()) return feeds.status();
  const auto measure = [&]() -> Result<BenchTimes> {
    if (FusionOff(target)) return MeasureUnfused(*fused, *feeds, o.runs);
    auto unfused = target.Load("off");
    if (!unfused.ok()) return unfused.status();
    return Measure(*fused, *unfused, *feeds, o.runs);
  };
  auto times = measure();
  if (!times.ok()) return times.status();
  const auto top = static_cast<size_t>(o.top);
  if (o.json) {
    Json report = ReportJson(target, o, *times);
    if (top > 0) {
      auto hot = Profile(*fused, *feeds);
      if (!hot.ok()) return hot.status();
      report["top"] = ToJson(*hot, top);
    }
    PrintJson(report);
    return opsnn::OkStatus();
  }
  PrintReport(target, o, *times);
  if (top == 0) return opsnn::OkStatus();
  auto hot = Profile(*fused, *feeds);
  if (hot.ok()) Print(*hot, top);
  return hot.status();
}

}  // namespace

void AddBench(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("bench", "Time a model or an operator: first call, then fused and unfused in turns");
  auto target = std::make_shared<Target>();
  auto options = std::make_shared<BenchOptions>();
  target->AddTo(*cmd, true);
  cmd->get_option("MODEL|OP")->required(false);  // judge and plan take none
  cmd->add_option("--runs", options->runs, "Timed runs of each form")->check(IntIn(1, 100000));
  cmd->add_option("--top", options->top, "Also list the N hottest nodes")->check(IntIn(0, 100000));
  AddFlag(*cmd, "--json", options->json, "Print JSON");
  AddFlag(*cmd, "--phases", options->phases,
          "Also what came before a run: which layer took the time, and when fusing has paid for itself");
  AddBenchPlanner(*cmd, run);
  cmd->callback([&run, cmd, target, options] {
    if (cmd->get_subcommands().empty()) run = [target, options] { return Bench(*target, *options); };
  });
}

}  // namespace cli
