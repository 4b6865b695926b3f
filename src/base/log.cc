#include "base/log.h"

#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>

#define FMT_HEADER_ONLY
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/knobs.h"

namespace opsnn {
namespace {

LogLevel Threshold() {
  static constexpr const char* kNames[] = {"trace", "debug", "info", "warn", "error", "off"};
  const std::string& name = GetKnobs().log_level;
  for (int i = 0; i < 6; ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarn;
}

spdlog::logger& Logger() {
  // A logger of our own, not in spdlog's registry: a program that uses spdlog itself is not disturbed.
  static spdlog::logger* const logger = [] {
    auto* l = new spdlog::logger("opsnn", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_level(spdlog::level::trace);
    l->set_pattern("opsnn %^%l%$: %v");
    return l;
  }();
  return *logger;
}

}  // namespace

bool LogEnabled(LogLevel level) { return level >= Threshold() && level != LogLevel::kOff; }

void Logf(LogLevel level, const char* format, ...) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug,
                                                          spdlog::level::info,  spdlog::level::warn,
                                                          spdlog::level::err,   spdlog::level::off};
  char line[2048];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof line, format, args);
  va_end(args);
  try {
    Logger().log(kLevels[static_cast<int>(level)], "{}", line);
  } catch (...) {
    // Losing a message is better than ending the caller's program.
  }
}

}  // namespace opsnn
