#include <chrono>
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

Status PrintNodes(opsnn::Model& model, const opsnn::Feeds& feeds, int top) {
  opsnn::RunStats stats;
  auto out = model.RunProfiled(feeds, &stats);
  if (!out.ok()) return out.status();
  std::sort(stats.nodes.begin(), stats.nodes.end(), [](const auto& a, const auto& b) { return a.us > b.us; });
  double total = 0;
  for (const auto& n : stats.nodes) total += n.us;
  std::printf("  %9s %6s %8s %9s  %-36s %-22s %s\n", "us", "share", "GB/s", "live MiB", "node", "output",
              "operator / variant");
  for (size_t i = 0; i < std::min<size_t>(top, stats.nodes.size()); ++i) {
    const auto& n = stats.nodes[i];
    std::printf("  %9.1f %5.1f%% %8.1f %9.2f  %-36.36s %-22.22s %s / %s\n", n.us, 100 * n.us / total,
                n.us > 0 ? n.bytes / n.us / 1e3 : 0.0, n.live_bytes / 1048576.0, n.node.c_str(),
                n.shape.c_str(), n.op.c_str(), n.variant.c_str());
  }
  return opsnn::OkStatus();
}

}  // namespace

void AddBench(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("bench", "Time a model or an operator: first call, then fused and unfused in turns");
  auto target = std::make_shared<Target>();
  auto runs = std::make_shared<int>(15), top = std::make_shared<int>(0);
  auto json = std::make_shared<bool>(false);
  target->AddTo(*cmd, true);
  cmd->get_option("MODEL|OP")->required(false);  // judge and plan take none
  cmd->add_option("--runs", *runs, "Timed runs of each form")->check(IntIn(1, 100000));
  cmd->add_option("--top", *top, "Also list the N hottest nodes")->check(IntIn(0, 100000));
  AddFlag(*cmd, "--json", *json, "Print JSON");
  AddBenchPlanner(*cmd, run);
  cmd->callback([&run, cmd, target, runs, top, json] {
    if (!cmd->get_subcommands().empty()) return;
    run = [target, runs, top, json]() -> Status {
      if (target->name.empty())
        return Status(opsnn::Code::kInvalid,
                      "bench: no model given; allowed: an ONNX file, an operator, judge, plan");
      auto fused = target->Load();
      if (!fused.ok()) return fused.status();
      auto unfused = target->Load("off");
      if (!unfused.ok()) return unfused.status();
      auto feeds = target->MakeFeeds(*fused);
      if (!feeds.ok()) return feeds.status();
      std::vector<opsnn::Tensor> outputs;
      auto first = TimeMs(*fused, *feeds, &outputs);
      if (!first.ok()) return first.status();
      opsnn::RunStats stats;
      if (auto profiled = fused->RunProfiled(*feeds, &stats); !profiled.ok()) return profiled.status();
      if (auto warm = TimeMs(*unfused, *feeds, &outputs); !warm.ok()) return warm.status();
      std::vector<double> a, b;
      Progress progress("bench");
      for (int i = 0; i < *runs; ++i) {
        auto x = TimeMs(*fused, *feeds, &outputs);
        if (!x.ok()) return x.status();
        auto y = TimeMs(*unfused, *feeds, &outputs);
        if (!y.ok()) return y.status();
        a.push_back(*x);
        b.push_back(*y);
        progress.Update(i + 1, *runs);
      }
      const int threads = opsnn::GetSystemInfo().threads;
      if (*json) {
        PrintJson({{"model", target->Describe()},
                   {"threads", threads},
                   {"runs", *runs},
                   {"first_ms", *first},
                   {"fused_ms", Summary(a)},
                   {"unfused_ms", Summary(b)},
                   {"peak_bytes", stats.peak_bytes},
                   {"bytes_moved", stats.bytes_moved},
                   {"weight_bytes", stats.weight_bytes},
                   {"nodes_imported", stats.nodes_imported},
                   {"nodes_run", stats.nodes_run},
                   {"notes", Notes()}});
        return opsnn::OkStatus();
      }
      std::printf("%s, %d thread%s, %d runs in turns\n", target->Describe().c_str(), threads,
                  threads == 1 ? "" : "s", *runs);
      std::printf(
          "  first call %.3f ms\n  fused      median %.3f ms, min %.3f ms\n  unfused    median %.3f ms, min "
          "%.3f ms\n  unfused / fused %.2f\n",
          *first, Median(a), *std::min_element(a.begin(), a.end()), Median(b),
          *std::min_element(b.begin(), b.end()), Median(b) / Median(a));
      std::printf("  peak %.2f MiB, moved %.2f MiB, weights %.2f MiB, nodes %d -> %d\n",
                  stats.peak_bytes / 1048576.0, stats.bytes_moved / 1048576.0, stats.weight_bytes / 1048576.0,
                  stats.nodes_imported, stats.nodes_run);
      return *top > 0 ? PrintNodes(*fused, *feeds, *top) : opsnn::OkStatus();
    };
  });
}

}  // namespace cli
