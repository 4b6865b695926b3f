#include <cmath>
#include <cstdio>

#include "cli/cli.h"

namespace cli {
namespace {

// JSON has no NaN or infinity.
Json Number(double v) {
  return std::isfinite(v) ? Json(v) : Json(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

Json ToJson(const opsnn::NodeCheck& c) {
  return {{"node", c.node},
          {"op", c.op},
          {"cosine", Number(c.cosine)},
          {"max_abs", Number(c.max_abs)},
          {"max_rel", Number(c.max_rel)},
          {"bound", Number(c.bound)},
          {"share", Number(c.share)},
          {"ok", c.ok},
          {"checked", c.checked},
          {"note", c.note}};
}

}  // namespace

void AddVerify(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "verify",
      "Check every node, fused and unfused, against a double-precision reference; name what is wrong");
  auto target = std::make_shared<Target>();
  auto json = std::make_shared<bool>(false), all = std::make_shared<bool>(false);
  target->AddTo(*cmd, true);
  cmd->add_flag("--all", *all, "List every value, not only the worst");
  cmd->add_flag("--json", *json, "Print JSON");
  cmd->callback([&run, target, json, all] {
    run = [target, json, all]() -> Status {
      auto model = target->Load();
      if (!model.ok()) return model.status();
      auto feeds = target->MakeFeeds(*model);
      if (!feeds.ok()) return feeds.status();
      Result<opsnn::VerifyReport> report = [&] {
        Progress progress("verify");
        return model->Verify(*feeds, [&](int done, int total) { progress.Update(done, total); });
      }();
      if (!report.ok()) return report.status();
      const opsnn::VerifyReport& r = *report;
      if (*json) {
        Json out = {{"ok", r.ok},
                    {"nodes", r.nodes},
                    {"unchecked", r.unchecked},
                    {"worst", ToJson(r.worst)},
                    {"first_bad", r.first_bad.empty() ? Json() : Json(r.first_bad)},
                    {"first_difference", r.first_difference.empty() ? Json() : Json(r.first_difference)},
                    {"guilty_pass", r.guilty_pass.empty() ? Json() : Json(r.guilty_pass)}};
        if (*all) {
          for (const auto& c : r.checks) out["checks"].push_back(ToJson(c));
        }
        PrintJson(out);
      } else {
        auto line = [](const opsnn::NodeCheck& c) {
          std::printf("  %-4s %-40.40s %-24.24s ",
                      !c.checked ? "-"
                      : c.ok     ? "ok"
                                 : "BAD",
                      c.node.c_str(), c.op.c_str());
          if (c.checked)
            std::printf("cosine %.9f, max abs %.3g, max rel %.3g; worst element at %.3g %% of its bound %.3g",
                        c.cosine, c.max_abs, c.max_rel, 100 * c.share, c.bound);
          std::printf("%s%s\n", c.checked && !c.note.empty() ? "; " : "", c.note.c_str());
        };
        if (*all) {
          for (const auto& c : r.checks) line(c);
        }
        std::printf("%s: %d values checked, fused and unfused, %s", target->Describe().c_str(), r.nodes,
                    r.ok ? "all within bounds" : "NOT all within bounds");
        if (r.unchecked > 0) std::printf("; %d without a reference", r.unchecked);
        std::printf("\n");
        if (!r.worst.node.empty()) line(r.worst);
        if (!r.first_difference.empty())
          std::printf("  fused and unfused differ first at %s\n", r.first_difference.c_str());
        if (!r.ok)
          std::printf("  graph pass at fault: %s\n",
                      r.guilty_pass.empty() ? "none, it fails with every pass off" : r.guilty_pass.c_str());
      }
      if (r.ok) return opsnn::OkStatus();
      const std::string what = r.first_bad.empty() ? "fused and unfused differ at " + r.first_difference
                                                   : "first node out of bounds: " + r.first_bad;
      return Status(opsnn::Code::kInvalid,
                    "verify failed: " + what +
                        (r.guilty_pass.empty() ? "" : "; graph pass at fault: " + r.guilty_pass));
    };
  });
}

}  // namespace cli
