#include "base/status.h"

#include <cstdarg>
#include <cstdio>

namespace opsnn {
namespace {

std::string Format(const char* format, va_list args) {
  va_list copy;
  va_copy(copy, args);
  const int n = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string s(n > 0 ? n : 0, '\0');
  if (n > 0) std::vsnprintf(s.data(), n + 1, format, args);
  return s;
}

}  // namespace

Status Errorf(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string s = Format(format, args);
  va_end(args);
  return Status(code, std::move(s));
}

Status InvalidArgument(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string s = Format(format, args);
  va_end(args);
  return Status(Code::kInvalid, std::move(s));
}

std::string StrFormat(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string s = Format(format, args);
  va_end(args);
  return s;
}

}  // namespace opsnn
