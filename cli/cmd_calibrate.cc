#include <cstdio>

#include "cli/cli.h"
#include "opsnn/planner.h"

namespace cli {
namespace {

const char* Drift(const opsnn::Rate& r) {
  if (r.used <= 0) return "not kept yet";
  if (r.checked) return r.drifts ? "YES" : "no";
  return r.drifts ? "yes, not checked" : "no, not checked";
}

// No term is off by this where nothing else ran.
void DoubtTerms(const std::vector<opsnn::TermError>& terms, int runs) {
  constexpr double kBeyondBelief = 10;
  std::string doubtful;
  for (const auto& t : terms)
    if (t.worst > kBeyondBelief) doubtful += (doubtful.empty() ? "\"" : ", \"") + t.term + "\"";
  if (doubtful.empty()) return;
  Note("the machine was busy, or " + std::to_string(runs) + " runs are too few: points of " + doubtful +
       " are off by more than ten, which is no error of the model; --runs asks for more");
}

}  // namespace

void AddCalibrate(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "calibrate", "Measure this machine's rates for the planner, compare with those it uses, keep them");
  auto json = std::make_shared<bool>(false), check = std::make_shared<bool>(false);
  auto runs = std::make_shared<int>(7);
  cmd->add_option("--runs", *runs, "Timed runs behind each term's error; 0: leave the terms out")
      ->check(IntIn(0, 1000));
  AddFlag(*cmd, "--check", *check, "Keep nothing; fail where the rates in use are missing or stale");
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, json, check, runs] {
    run = [json, check, runs]() -> Status {
      const opsnn::Calibration c = opsnn::Calibrate(!*check);
      std::vector<opsnn::TermError> terms;
      if (*runs > 0) {
        auto measured = opsnn::MeasureTerms(*runs);
        if (!measured.ok()) return measured.status();
        terms = std::move(*measured);
      }
      if (*json) {
        Json rates = Json::array();
        for (const auto& r : c.rates)
          rates.push_back({{"name", r.name},
                           {"unit", r.unit},
                           {"used", r.used},
                           {"now", r.now},
                           {"checked", r.checked},
                           {"drifts", r.drifts}});
        Json errors = Json::array();
        for (const auto& t : terms) {
          errors.push_back({{"term", t.term},
                            {"points", t.points},
                            {"predicted_over_measured", t.bias},
                            {"factor", t.factor},
                            {"worst", t.worst}});
        }
        PrintJson({{"file", c.file},
                   {"stale", c.stale},
                   {"kept", !*check && !c.file.empty()},
                   {"rates", rates},
                   {"terms", errors}});
      } else {
        std::printf("%-26s %12s %12s %-8s %s\n", "", "in use", "now", "", "off by more than a quarter?");
        for (const auto& r : c.rates) {
          std::printf("%-26s %12.2f %12.2f %-8s %s\n", r.name.c_str(), r.used, r.now, r.unit.c_str(),
                      Drift(r));
        }
        if (!terms.empty())
          std::printf("%-34s %6s %9s %9s %9s\n", "term of the cost model", "points", "pred/meas", "off by",
                      "worst");
        for (const auto& t : terms)
          std::printf("%-34s %6d %9.2f %9.2f %9.2f\n", t.term.c_str(), t.points, t.bias, t.factor, t.worst);
        if (!*check && !c.file.empty()) std::printf("kept in %s\n", c.file.c_str());
      }
      DoubtTerms(terms, *runs);
      if (*check && c.stale)
        return Status(opsnn::Code::kRuntime,
                      "the rates in use are missing or off by more than a quarter; opsnn calibrate measures "
                      "and keeps them");
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
