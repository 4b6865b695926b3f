// Logging to standard error. The least severe level that is printed comes from the log_level knob.
#ifndef OPSNN_BASE_LOG_H_
#define OPSNN_BASE_LOG_H_

namespace opsnn {

enum class LogLevel : int { kTrace, kDebug, kInfo, kWarn, kError, kOff };

bool LogEnabled(LogLevel level);
// One line; printf-like. Cheap when the level is off only if guarded by LogEnabled: use OPSNN_LOG.
[[gnu::format(printf, 2, 3)]] void Logf(LogLevel level, const char* format, ...);

#define OPSNN_LOG(level, ...)                                                                                \
  do {                                                                                                       \
    if (::opsnn::LogEnabled(::opsnn::LogLevel::level)) ::opsnn::Logf(::opsnn::LogLevel::level, __VA_ARGS__); \
  } while (0)

}  // namespace opsnn

#endif  // OPSNN_BASE_LOG_H_
