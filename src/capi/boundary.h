// The C boundary: statuses become codes with their sentence kept for aclGetRecentErrMsg; no exception passes.
#ifndef OPSNN_CAPI_BOUNDARY_H_
#define OPSNN_CAPI_BOUNDARY_H_

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "base/status.h"

// Marks a function of the runtime API as implemented: tools/gen_capi.py looks for it and makes the C symbol
// call it.
#define OPSNN_ACL_API

namespace opsnn::capi {

inline constexpr int kAclBadAlloc = 200000;    // ACL_ERROR_BAD_ALLOC
inline constexpr int kAclnnBadAlloc = 361001;  // ACLNN_ERR_RUNTIME_ERROR
inline constexpr int kInternalError = 500000;  // ACL_ERROR_INTERNAL_ERROR
inline constexpr int kAclnnInternal = 561000;  // ACLNN_ERR_INNER

// Keeps "function: message" for this thread and returns `code`.
int Fail(const char* function, int code, const std::string& message);
// The same with the aclnn code of the status; 0 when it is ok.
int Fail(const char* function, const Status& status);
// A pointer of the runtime API that must not be null is.
int FailNull(const char* function, const char* argument);
// An exception that reached the boundary: remembers it and returns `code`.
int CaughtException(const char* function, const char* what, int code);

// What the user is told of an exception that is not about memory.
inline constexpr const char* kUnexpected =
    "something failed that should not: a fault of opsnn, please report it";

// Calls body(); an exception becomes `oom_code` (integers), or null, 0 (everything else).
template <typename R, typename F>
R Guard(const char* function, int oom_code, F&& body) noexcept {
  int code;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    code = CaughtException(function, "out of memory", oom_code);
  } catch (const std::length_error&) {  // of a container whose size overflows
    code = CaughtException(function, "out of memory", oom_code);
  } catch (...) {
    code =
        CaughtException(function, kUnexpected, oom_code == kAclnnBadAlloc ? kAclnnInternal : kInternalError);
  }
  if constexpr (std::is_same_v<R, int>) {
    return code;
  } else {
    static_cast<void>(code);
    return R{};
  }
}
template <typename F>
void GuardVoid(F&& body) noexcept {
  try {
    body();
  } catch (...) {
    CaughtException("", kUnexpected, kInternalError);
  }
}

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_BOUNDARY_H_
