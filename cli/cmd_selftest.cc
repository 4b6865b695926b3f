#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "cli/cli.h"
#include "opsnn/selftest.h"
#include "opsnn/system.h"

namespace cli {

void AddSelftest(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("selftest", "Run and verify a small convolution model through the whole path");
  auto keep = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  cmd->add_option("--keep-model", *keep, "Also write the model to this ONNX file; its folder must exist")
      ->check(NotEmpty("the name of a file"));
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, keep, json] {
    run = [keep, json]() -> Status {
      const std::string bytes = opsnn::SelftestModel();
      if (!keep->empty()) {
        errno = 0;
        std::ofstream file(*keep, std::ios::binary);
        if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
          return Status(opsnn::Code::kInvalid,
                        "--keep-model: " + *keep + " cannot be written" +
                            (errno ? " (" + std::string(std::strerror(errno)) + ")" : ""));
        }
      }
      auto model = opsnn::Model::LoadBytes(bytes.data(), bytes.size());
      if (!model.ok()) return model.status();
      auto feeds = model->RandomFeeds({{"image", {1, 3, 33, 47}}}, 1);
      if (!feeds.ok()) return feeds.status();
      auto report = model->Verify(*feeds);
      if (!report.ok()) return report.status();
      const opsnn::SystemInfo info = opsnn::GetSystemInfo();
      if (*json) {
        PrintJson(
            {{"ok", report->ok}, {"nodes", report->nodes}, {"isa", info.isa}, {"threads", info.threads}});
      } else {
        std::printf("selftest: %d nodes, %s (isa %s, %d threads)\n", report->nodes,
                    report->ok ? "all within bounds" : "FAILED", info.isa.c_str(), info.threads);
      }
      return report->ok ? opsnn::OkStatus()
                        : Status(opsnn::Code::kInternal,
                                 "selftest failed at " + report->first_bad + report->first_difference);
    };
  });
}

}  // namespace cli
