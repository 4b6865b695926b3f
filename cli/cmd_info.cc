#include <cstdio>

#include "cli/cli.h"
#include "opsnn/system.h"

namespace cli {
namespace {

std::string Copy(const opsnn::SystemInfo& info) {
  char text[48];
  std::snprintf(text, sizeof text, ", copied %.1f GB/s", info.copy_gbps);
  return info.copy_gbps > 0 ? text : "";
}

}  // namespace

void AddInfo(CLI::App& app, Run& run) {
  auto* cmd =
      app.add_subcommand("info", "Version, instruction set, threads, caches, device profile and knobs");
  auto json = std::make_shared<bool>(false), measure = std::make_shared<bool>(false);
  AddFlag(*cmd, "--json", *json, "Print JSON");
  AddFlag(*cmd, "--measure", *measure, "Also measure FMA and memory rates (once per machine)");
  cmd->callback([&run, json, measure] {
    run = [json, measure]() -> Status {
      const opsnn::SystemInfo info = opsnn::GetSystemInfo(*measure);
      Json caches = Json::object(), knobs = Json::object();
      for (const auto& c : info.caches) caches[c.name] = c.bytes;
      for (const auto& k : opsnn::ListOptions())
        knobs[k.key] = {{"value", k.value},           {"source", k.source},   {"env", k.env},
                        {"default", k.default_value}, {"allowed", k.allowed}, {"help", k.help}};
      if (*json) {
        PrintJson({{"version", info.version},
                   {"isa", info.isa},
                   {"cpu", info.cpu},
                   {"threads", info.threads},
                   {"caches", caches},
                   {"profile", info.profile},
                   {"fma_gflops", info.fma_gflops},
                   {"read_gbps", info.read_gbps},
                   {"copy_gbps", info.copy_gbps > 0 ? Json(info.copy_gbps) : Json()},
                   {"config_file", info.config_file.empty() ? Json() : Json(info.config_file)},
                   {"knobs", knobs}});
        return opsnn::OkStatus();
      }
      std::printf("opsnn %s\n  cpu      %s\n  isa      %s\n  threads  %d\n  profile  %s\n",
                  info.version.c_str(), info.cpu.c_str(), info.isa.c_str(), info.threads,
                  info.profile.c_str());
      for (const auto& c : info.caches)
        std::printf("  %-8s %lld KiB\n", c.name.c_str(), static_cast<long long>(c.bytes >> 10));
      if (info.fma_gflops > 0)
        std::printf("  measured %.0f GFLOP/s f32, memory read %.1f GB/s%s, one core\n", info.fma_gflops,
                    info.read_gbps, Copy(info).c_str());
      std::printf("  config   %s\n", info.config_file.empty()
                                         ? "none (neither ./opsnn.toml nor ~/.config/opsnn.toml)"
                                         : info.config_file.c_str());
      std::printf("knobs\n");
      for (const auto& k : opsnn::ListOptions()) {
        std::printf("  %-18s %-10s %-24s %s; allowed: %s (%s)\n", k.key.c_str(),
                    k.value.empty() ? "-" : k.value.c_str(), k.env.c_str(), k.help.c_str(), k.allowed.c_str(),
                    k.source.c_str());
      }
      return opsnn::OkStatus();
    };
  });
}

}  // namespace cli
