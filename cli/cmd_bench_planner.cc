#include <cstdio>

#include "cli/cli.h"
#include "opsnn/planner.h"

namespace cli {
namespace {

Json ToJson(const opsnn::JudgePoint& p) {
  return {{"chain", p.chain},
          {"shape", p.shape},
          {"threads", p.threads},
          {"verdict", Name(p.verdict)},
          {"regret", p.regret},
          {"fused_us", p.fused_us},
          {"split_us", p.split_us},
          {"hybrid_us", p.hybrid_us},
          {"predicted_hybrid_us", p.predicted_hybrid_us},
          {"predicted_fused_us", p.predicted_fused_us},
          {"predicted_split_us", p.predicted_split_us}};
}

void Print(const opsnn::JudgeReport& r, size_t worst) {
  std::printf(
      "%zu points, up to %d threads: regret geometric mean %.4f, worst %.3f; a chosen fused form against its "
      "parts, worst %.3f\n",
      r.points.size(), r.threads, r.regret_geomean, r.regret_worst, r.fused_vs_parts_worst);
  std::printf(
      "splitting wins by 5 %% in %d, fusing in %d; %d run by regions; predicted times are off by a factor of "
      "%.2f\n",
      r.split_wins, r.fuse_wins, r.hybrid_chosen, r.prediction_error);
  std::printf("  %-18s %-20s %3s %10s %10s %10s | %10s %10s %10s  %-6s %s\n", "chain", "shape", "thr",
              "fused us", "split us", "regions us", "predicted", "predicted", "predicted", "chosen",
              "regret");
  for (const auto& p : r.Worst(worst)) {
    std::printf("  %-18s %-20s %3d %10.2f %10.2f %10.2f | %10.2f %10.2f %10.2f  %-6s %.3f\n", p.chain.c_str(),
                p.shape.c_str(), p.threads, p.fused_us, p.split_us, p.hybrid_us, p.predicted_fused_us,
                p.predicted_split_us, p.predicted_hybrid_us, Name(p.verdict), p.regret);
  }
}

Status BenchJudge(int runs, size_t worst_points, bool json, const opsnn::JudgePoints& which) {
  Progress progress("judge");
  auto report = opsnn::MeasureJudge(
      runs, [&](int done, int total) { progress.Update(done, total); }, which);
  if (!report.ok()) return report.status();
  if (!json) {
    Print(*report, worst_points);
    return opsnn::OkStatus();
  }
  Json worst = Json::array();
  for (const auto& p : report->Worst(worst_points)) worst.push_back(ToJson(p));
  PrintJson({{"points", report->points.size()},
             {"threads", report->threads},
             {"regret_geomean", report->regret_geomean},
             {"regret_worst", report->regret_worst},
             {"fused_vs_parts_worst", report->fused_vs_parts_worst},
             {"split_wins", report->split_wins},
             {"fuse_wins", report->fuse_wins},
             {"prediction_error", report->prediction_error},
             {"runs", runs},
             {"worst", worst}});
  return opsnn::OkStatus();
}

Status BenchPlan(bool json) {
  const opsnn::PlanningCost c = opsnn::MeasurePlanning();
  if (json) {
    PrintJson({{"new_class_us", c.new_class_us},
               {"cached_us", c.cached_us},
               {"classes", c.classes},
               {"hits", c.hits},
               {"misses", c.misses},
               {"cache_bytes", c.cache_bytes},
               {"bound_bytes", c.bound_bytes}});
  } else {
    std::printf(
        "a new shape class %.2f us (median of %lld), a cached one %.3f us; 1000 random shapes hold %lld of "
        "%lld bytes\n%lld look-ups in the cache: %lld hits, %lld misses\n",
        c.new_class_us, static_cast<long long>(c.classes), c.cached_us, static_cast<long long>(c.cache_bytes),
        static_cast<long long>(c.bound_bytes), static_cast<long long>(c.hits + c.misses),
        static_cast<long long>(c.hits), static_cast<long long>(c.misses));
  }
  return opsnn::OkStatus();
}

}  // namespace

void AddBenchPlanner(CLI::App& bench, Run& run) {
  auto* judge = bench.add_subcommand("judge", "Regret of the fusion judge: fused and split forms in turns");
  auto runs = std::make_shared<int>(31);
  auto json = std::make_shared<bool>(false);
  judge->add_option("--runs", *runs, "Timed runs of each form")->check(IntIn(1, 100000));
  AddFlag(*judge, "--json", *json, "Print JSON");
  auto worst = std::make_shared<int>(10);
  judge->add_option("--worst", *worst, "Points to list, worst first")->check(IntIn(1, 100000));
  auto which = std::make_shared<opsnn::JudgePoints>();
  judge
      ->add_option("--threads", which->threads, "With so many of the threads alone; 0: with one and with all")
      ->check(IntIn(0, 4096));
  judge
      ->add_option("--only", which->only,
                   "Points whose name holds this, as in \"matmul+relu 64x64x64\", \"gelu\", \"x4096x64\"")
      ->check(NotEmpty("part of a name"));
  judge->callback([&run, runs, worst, json, which] {
    run = [runs, worst, json, which] {
      return BenchJudge(*runs, static_cast<size_t>(*worst), *json, *which);
    };
  });
  auto* plan = bench.add_subcommand("plan", "What planning a new and a cached shape class costs");
  AddFlag(*plan, "--json", *json, "Print JSON");
  plan->callback([&run, json] { run = [json] { return BenchPlan(*json); }; });
}

}  // namespace cli
