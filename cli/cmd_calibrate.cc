#include <cstdio>

#include "cli/cli.h"
#include "opsnn/planner.h"

namespace cli {

void AddCalibrate(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand(
      "calibrate", "Measure this machine's rates for the planner, compare with those it uses, keep them");
  auto json = std::make_shared<bool>(false), check = std::make_shared<bool>(false);
  AddFlag(*cmd, "--check", *check, "Keep nothing; fail where the rates in use are missing or stale");
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, json, check] {
    run = [json, check]() -> Status {
      const opsnn::Calibration c = opsnn::Calibrate(!*check);
      if (*json) {
        Json rates = Json::array();
        for (const auto& r : c.rates)
          rates.push_back({{"name", r.name}, {"unit", r.unit}, {"used", r.used}, {"now", r.now}});
        PrintJson(
            {{"file", c.file}, {"stale", c.stale}, {"kept", !*check && !c.file.empty()}, {"rates", rates}});
      } else {
        std::printf("%-26s %12s %12s\n", "", "in use", "now");
        for (const auto& r : c.rates) {
          std::printf("%-26s %12.2f %12.2f %s\n", r.name.c_str(), r.used, r.now, r.unit.c_str());
        }
        if (!*check && !c.file.empty()) std::printf("kept in %s\n", c.file.c_str());
      }
      if (*check && c.stale)
        return Status(opsnn::Code::kRuntime,
                      "the rates in use are missing or off by more than a quarter; opsnn calibrate measures "
                      "and keeps them");
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
