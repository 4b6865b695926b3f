#include <cstdio>

#include "cli/cli.h"

namespace cli {
namespace {

void PrintTerms(const char* side, double total, const std::vector<opsnn::plan::CostTerm>& terms) {
  std::printf("    %-6s %10.2f us =", side, total);
  for (size_t i = 0; i < terms.size(); ++i)
    std::printf("%s %s %.2f", i ? " +" : "", terms[i].name.c_str(), terms[i].us);
  std::printf("\n");
}

void Print(const opsnn::plan::Decision& d) {
  std::printf("%s %s%s%s\n  %s, %s, profile %s\n  %s: %s%s\n", d.chain.c_str(), d.where.empty() ? "" : "at ",
              d.where.c_str(), "", d.shape.c_str(), d.dtype.c_str(), d.profile.c_str(), Name(d.verdict),
              d.reason.c_str(), d.rests_on_assumed ? " (rests on assumed figures)" : "");
  int64_t total = 0;
  for (const auto& b : d.budget) total += b.bytes;
  if (!d.budget.empty()) {
    std::printf("    budget %lld bytes =", static_cast<long long>(total));
    for (size_t i = 0; i < d.budget.size(); ++i) {
      std::printf("%s %s %lld (%s)", i ? " +" : "", d.budget[i].block.c_str(),
                  static_cast<long long>(d.budget[i].bytes), d.budget[i].pool.c_str());
    }
    std::printf("\n");
  }
  for (const auto& r : d.retries) {
    std::printf("    try %lldx%lldx%lld: %lld of %lld bytes, %s\n", static_cast<long long>(r.tile_m),
                static_cast<long long>(r.tile_n), static_cast<long long>(r.tile_k),
                static_cast<long long>(r.bytes), static_cast<long long>(r.available),
                r.fits ? "fits" : "does not fit");
  }
  if (!d.fused_terms.empty()) PrintTerms("fused", d.time_fused_us, d.fused_terms);
  if (!d.split_terms.empty()) PrintTerms("split", d.time_split_us, d.split_terms);
  if (!d.fused_terms.empty() || !d.split_terms.empty())
    std::printf("    benefit %.2f us, threshold %.2f us\n", d.benefit_us, d.threshold_us);
}

}  // namespace

void AddExplain(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "explain", "Why was it fused, or not: budget, tries, cost of both sides, verdict, for every edge");
  auto target = std::make_shared<Target>();
  auto profile = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false), graph = std::make_shared<bool>(false);
  target->AddTo(*cmd, true);
  cmd->add_option("--profile", *profile, "Device profile to ask, e.g. host, Ascend910B1")
      ->check(NotEmpty("the name of a device profile"));
  AddFlag(*cmd, "--graph", *graph, "Print the optimised graph as well");
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, target, profile, json, graph] {
    run = [target, profile, json, graph]() -> Status {
      auto model = target->Load(nullptr, true);
      if (!model.ok()) return model.status();
      opsnn::Shapes shapes;
      opsnn::Feeds values;  // shapes may be computed from them
      if (Status s = target->PlanInputs(*model, &shapes, &values); !s.ok()) return s;
      auto decisions = model->Explain(shapes, *profile, values);
      if (!decisions.ok()) return decisions.status();
      if (*json) {
        Json list = Json::array();
        for (const auto& d : *decisions) list.push_back(ToJson(d));
        PrintJson(list);
        return opsnn::OkStatus();
      }
      int verdicts[4] = {};
      for (const auto& d : *decisions) {
        ++verdicts[static_cast<int>(d.verdict)];
        Print(d);
      }
      if (decisions->empty()) std::printf("no edges: nothing follows that could be fused\n");
      if (!decisions->empty())
        std::printf("%zu edges: %d fuse, %d split, %d refuse, %d hybrid\n", decisions->size(), verdicts[0],
                    verdicts[1], verdicts[2], verdicts[3]);
      if (*graph) std::printf("%s", model->Dump(shapes, values).c_str());
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
