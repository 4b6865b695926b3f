// Status and Result<T> are part of the public C++ API (opsnn/status.h); here are the macros and the
// printf-like constructors that the inside uses.
#ifndef OPSNN_BASE_STATUS_H_
#define OPSNN_BASE_STATUS_H_

#include "opsnn/status.h"  // IWYU pragma: export

namespace opsnn {

// printf-like constructors; the message is a full sentence that names what was got and what is allowed.
[[gnu::format(printf, 2, 3)]] Status Errorf(Code code, const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status InvalidArgument(const char* format, ...);
[[gnu::format(printf, 1, 2)]] std::string StrFormat(const char* format, ...);

#define OPSNN_CONCAT_(a, b) a##b
#define OPSNN_CONCAT(a, b) OPSNN_CONCAT_(a, b)

#define OPSNN_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::opsnn::Status opsnn_status_ = (expr); !opsnn_status_.ok()) return opsnn_status_; \
  } while (0)

// OPSNN_ASSIGN_OR_RETURN(auto x, MakeX()): declares x or returns the failure.
#define OPSNN_ASSIGN_OR_RETURN(decl, expr) \
  OPSNN_ASSIGN_OR_RETURN_(OPSNN_CONCAT(opsnn_result_, __LINE__), decl, expr)
#define OPSNN_ASSIGN_OR_RETURN_(tmp, decl, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  decl = std::move(tmp).value()

}  // namespace opsnn

#endif  // OPSNN_BASE_STATUS_H_
