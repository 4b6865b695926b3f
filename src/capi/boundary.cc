#include "capi/boundary.h"

#include <cstdio>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "capi/aclnn_entry.h"
#include "runtime/last_error.h"

namespace opsnn::capi {

int Fail(const char* function, int code, const std::string& message) {
  runtime::AddErrorMessage(std::string(function) + ": " + message);
  return code;
}

int Fail(const char* function, const Status& status) {
  if (status.ok()) return 0;
  return Fail(function, static_cast<int>(status.code()), status.message());
}

int FailNull(const char* function, const char* argument) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, std::string(argument) + " is null; it is required");
}

int CaughtException(const char* function, const char* what, int code) {
  try {
    return Fail(function, code, what);
  } catch (const std::exception&) {
    return code;  // not even memory for the message
  }
}

}  // namespace opsnn::capi

extern "C" {

void opsnn_acl_log(int level, const char* function, const char* file, uint32_t line, const char* text) {
  static constexpr const char* kLevels[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  if (level < ACL_WARNING || level > ACL_ERROR) return;
  std::fprintf(stderr, "[%s] %s:%u %s: %s\n", kLevels[level], file ? file : "", line,
               function ? function : "", text);
}

aclError opsnn_acl_unsupported(const char* function) {
  return opsnn::capi::CaughtException(function, "declared, but not supported on this device",
                                      ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

aclnnStatus opsnn_aclnn_unsupported(const char* function) {
  return opsnn::capi::CaughtException(function, "declared, but there is no operator for it in this version",
                                      static_cast<int>(opsnn::Code::kNotImplemented));
}

aclnnStatus opsnn_aclnn_declared(const char* function, uint64_t* workspace_size, aclOpExecutor** executor) {
  if (workspace_size) *workspace_size = 0;
  if (executor) *executor = nullptr;
  return opsnn_aclnn_unsupported(function);
}
}
