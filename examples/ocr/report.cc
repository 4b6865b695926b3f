#include "ocr/report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

namespace ocr {
namespace {

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

opsnn::Result<double> TimeRun(opsnn::Model& model, const opsnn::Tensor& input) {
  const auto start = std::chrono::steady_clock::now();
  auto out = model.Run({{model.inputs()[0].name, input}});
  if (!out.ok()) return out.status();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

opsnn::Status PrintHottest(Pipeline& pipeline, const std::vector<Feed>& feeds) {
  struct Row {
    std::string model;
    opsnn::NodeTime time;
  };
  std::vector<Row> rows;
  double total = 0;
  for (const Feed& f : feeds) {
    opsnn::Model& m = pipeline.model(f.model);
    opsnn::RunStats stats;
    auto out = m.RunProfiled({{m.inputs()[0].name, f.tensor}}, &stats);
    if (!out.ok()) return out.status();
    for (opsnn::NodeTime& t : stats.nodes) {
      total += t.us;
      rows.push_back({f.model, std::move(t)});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time.us > b.time.us; });
  std::printf("\nHottest nodes (%.1f ms in all)\n  %-5s %9s %6s  %-34s %-22s %s\n", total / 1e3, "model",
              "us", "share", "node", "output", "operator / variant");
  for (size_t i = 0; i < std::min<size_t>(12, rows.size()); ++i) {
    const Row& r = rows[i];
    std::printf("  %-5s %9.1f %5.1f%%  %-34.34s %-22.22s %s / %s\n", r.model.c_str(), r.time.us,
                100 * r.time.us / total, r.time.node.c_str(), r.time.shape.c_str(), r.time.op.c_str(),
                r.time.variant.substr(0, r.time.variant.find(';')).c_str());  // not why others were refused
  }
  return opsnn::OkStatus();
}

opsnn::Status PrintFusion(Pipeline& pipeline, const std::vector<Feed>& feeds) {
  std::printf("\nFused\n  %-5s %8s %8s %7s %7s %7s  %s\n", "model", "imported", "run", "fuse", "split",
              "refuse", "chains");
  std::string done;
  for (const Feed& f : feeds) {
    if (done.find(f.model) != std::string::npos) continue;
    done += f.model + " ";
    opsnn::Model& m = pipeline.model(f.model);
    const opsnn::Shapes shapes{{m.inputs()[0].name, f.tensor.dims()}};
    auto stats = m.Plan(shapes);
    if (!stats.ok()) return stats.status();
    auto decisions = m.Explain(shapes);
    if (!decisions.ok()) return decisions.status();
    int verdicts[4] = {};
    std::map<std::string, int> chains;
    for (const auto& d : *decisions) {
      ++verdicts[static_cast<int>(d.verdict)];
      if (d.verdict == opsnn::plan::Verdict::kFuse) ++chains[d.chain];
    }
    std::vector<std::pair<int, std::string>> top;
    for (const auto& [chain, n] : chains) top.push_back({n, chain});
    std::sort(top.rbegin(), top.rend());
    std::string list;
    for (size_t i = 0; i < std::min<size_t>(5, top.size()); ++i) {
      list += (i ? ", " : "") + std::to_string(top[i].first) + " x " + top[i].second;
    }
    std::printf("  %-5s %8d %8d %7d %7d %7d  %s\n", f.model.c_str(), stats->nodes_imported, stats->nodes_run,
                verdicts[0], verdicts[1], verdicts[2], list.c_str());
  }
  return opsnn::OkStatus();
}

}  // namespace

opsnn::Status PrintReport(Pipeline& fused, Pipeline& unfused, const std::vector<Feed>& feeds, int runs) {
  if (auto s = PrintHottest(fused, feeds); !s.ok()) return s;
  if (auto s = PrintFusion(fused, feeds); !s.ok()) return s;
  std::printf("\nFused against unfused (medians of %d runs in turns)\n  %-5s %-18s %10s %10s %7s\n", runs,
              "model", "input", "fused ms", "unfused ms", "ratio");
  for (const Feed& f : feeds) {
    std::vector<double> a, b;
    for (int i = 0; i <= runs; ++i) {  // the first pass warms both up
      auto x = TimeRun(fused.model(f.model), f.tensor);
      if (!x.ok()) return x.status();
      auto y = TimeRun(unfused.model(f.model), f.tensor);
      if (!y.ok()) return y.status();
      if (i == 0) continue;
      a.push_back(*x);
      b.push_back(*y);
    }
    std::string dims;
    for (int64_t d : f.tensor.dims()) dims += (dims.empty() ? "" : "x") + std::to_string(d);
    std::printf("  %-5s %-18s %10.2f %10.2f %6.2fx\n", f.model.c_str(), dims.c_str(), Median(a), Median(b),
                Median(b) / Median(a));
  }
  return opsnn::OkStatus();
}

}  // namespace ocr
