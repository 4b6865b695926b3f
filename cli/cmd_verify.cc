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

void PrintLine(const opsnn::NodeCheck& c) {
  std::printf("  %-4s %-40.40s %-24.24s ",
              !c.checked ? "-"
              : c.ok     ? "ok"
                         : "BAD",
              c.node.c_str(), c.op.c_str());
  if (c.checked)
    std::printf("cosine %.9f, max abs %.3g, max rel %.3g; worst element at %.3g %% of its bound %.3g",
                c.cosine, c.max_abs, c.max_rel, 100 * c.share, c.bound);
  std::printf("%s%s\n", c.checked && !c.note.empty() ? "; " : "", c.note.c_str());
}

void PrintReport(const std::string& what, const opsnn::VerifyReport& r, bool all) {
  if (all) {
    for (const auto& c : r.checks) PrintLine(c);
  }
  std::printf("%s: %d values checked, fused and unfused, %s", what.c_str(), r.nodes,
              r.ok ? "all within bounds" : "NOT all within bounds");
  if (r.unchecked > 0) std::printf("; %d without a reference", r.unchecked);
  std::printf("\n");
  if (!r.worst.node.empty()) PrintLine(r.worst);
  if (!r.first_difference.empty())
    std::printf("  fused and unfused differ first at %s\n", r.first_difference.c_str());
  if (!r.ok)
    std::printf("  graph pass at fault: %s\n",
                r.guilty_pass.empty() ? "none, it fails with every pass off" : r.guilty_pass.c_str());
}

Json ToJson(const opsnn::VerifyReport& r, bool ok, bool all) {
  Json out = {{"ok", ok},
              {"nodes", r.nodes},
              {"unchecked", r.unchecked},
              {"worst", ToJson(r.worst)},
              {"first_bad", r.first_bad.empty() ? Json() : Json(r.first_bad)},
              {"first_difference", r.first_difference.empty() ? Json() : Json(r.first_difference)},
              {"guilty_pass", r.guilty_pass.empty() ? Json() : Json(r.guilty_pass)}};
  out["notes"] = Notes();
  if (all) {
    for (const auto& c : r.checks) out["checks"].push_back(ToJson(c));
  }
  return out;
}

// A model of which nothing could be checked has not been verified.
Status Verdict(const opsnn::VerifyReport& r, bool strict) {
  if (r.unchecked > 0 && (strict || r.nodes == 0))
    return Status(opsnn::Code::kInvalid, "verify failed: " + std::to_string(r.unchecked) + " of " +
                                             std::to_string(r.unchecked + r.nodes) +
                                             " values have no reference; --all lists them");
  if (r.ok) return opsnn::OkStatus();
  const std::string what = r.first_bad.empty() ? "fused and unfused differ at " + r.first_difference
                                               : "first node out of bounds: " + r.first_bad;
  return Status(
      opsnn::Code::kInvalid,
      "verify failed: " + what + (r.guilty_pass.empty() ? "" : "; graph pass at fault: " + r.guilty_pass));
}

}  // namespace

void AddVerify(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "verify",
      "Check every node, fused and unfused, against a double-precision reference; name what is wrong");
  struct Flags {
    bool json = false, all = false, strict = false;
  };
  auto target = std::make_shared<Target>();
  auto flags = std::make_shared<Flags>();
  target->AddTo(*cmd, true);
  AddFlag(*cmd, "--all", flags->all, "List every value, not only the worst");
  AddFlag(*cmd, "--strict", flags->strict, "Fail where a value has no reference to be checked against");
  AddFlag(*cmd, "--json", flags->json, "Print JSON");
  cmd->callback([&run, target, flags] {
    run = [target, flags]() -> Status {
      auto model = target->Load();
      if (!model.ok()) return model.status();
      auto feeds = target->MakeFeeds(*model);
      if (!feeds.ok()) return feeds.status();
      Result<opsnn::VerifyReport> report = [&] {
        Progress progress("verify");
        return model->Verify(*feeds, [&](int done, int total) { progress.Update(done, total); });
      }();
      if (!report.ok()) return report.status();
      const Status verdict = Verdict(*report, flags->strict);
      if (flags->json) {
        PrintJson(ToJson(*report, verdict.ok(), flags->all));
      } else {
        PrintReport(target->Describe(), *report, flags->all);
      }
      return verdict;
    };
  });
}

}  // namespace cli
