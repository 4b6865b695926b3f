// Initialisation, versions, error text.
#include <cstdio>
#include <mutex>
#include <string>

#include "base/knobs.h"
#include "capi/acl_exports.h"
#include "capi/api/observers.h"
#include "capi/boundary.h"
#include "device/profile.h"
#include "runtime/check.h"
#include "runtime/last_error.h"

namespace opsnn::capi {
namespace {

std::mutex init_mutex;
uint64_t init_count = 0;  // aclInit calls not yet undone

}  // namespace

OPSNN_ACL_API aclError aclInit(const char* configPath) {
  std::string config;
  if (configPath && *configPath) {
    // An empty JSON object is the usual content; the settings in it steer tools of the device. Only a missing
    // file is a mistake.
    std::FILE* f = std::fopen(configPath, "rb");
    if (!f) {
      return Fail("aclInit", ACL_ERROR_INVALID_FILE, StrFormat("cannot read configPath \"%s\"", configPath));
    }
    char part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, f)) > 0;) config.append(part, n);
    const bool failed = std::ferror(f) != 0;  // a folder opens but does not read
    std::fclose(f);
    if (failed) {
      return Fail("aclInit", ACL_ERROR_INVALID_FILE, StrFormat("cannot read configPath \"%s\"", configPath));
    }
  }
  if (Status s = InitKnobs(); !s.ok()) return Fail("aclInit", ACL_ERROR_INVALID_PARAM, s.message());
  if (const std::string& profile = GetKnobs().profile; profile != "host") {
    if (const auto found = device::FindProfile(profile); !found.ok())
      return Fail("aclInit", ACL_ERROR_INVALID_PARAM, "OPSNN_PROFILE: " + found.status().message());
  }
  {
    std::lock_guard lock(init_mutex);
    if (init_count++ > 0) {
      return Fail("aclInit", ACL_ERROR_REPEAT_INITIALIZE,
                  "the library is initialised already; this can be ignored");
    }
  }
  return TellInit(config);
}

namespace {
// What is left to do once nobody uses the library any more.
int End() {
  const int code = TellFinalize();
  if (runtime::Checks(runtime::kCheckLeak)) runtime::ReportLeaks();
  return code;
}
}  // namespace

OPSNN_ACL_API aclError aclFinalize() {
  {
    std::lock_guard lock(init_mutex);
    if (init_count == 0) {
      return Fail("aclFinalize", ACL_ERROR_UNINITIALIZE,
                  "the library is not initialised, or finalised already");
    }
    init_count = 0;
  }
  return End();
}

OPSNN_ACL_API aclError aclFinalizeReference(uint64_t* refCount) {
  uint64_t left = 0;
  {
    std::lock_guard lock(init_mutex);
    if (init_count == 0) {
      return Fail("aclFinalizeReference", ACL_ERROR_UNINITIALIZE,
                  "the library is not initialised, or finalised already");
    }
    left = --init_count;
  }
  if (refCount) *refCount = left;
  return left ? int{ACL_SUCCESS} : End();
}

OPSNN_ACL_API const char* aclGetRecentErrMsg() { return runtime::TakeErrorMessages(); }

OPSNN_ACL_API aclnnStatus aclnnInit(const char* configPath) {
  static_cast<void>(configPath);
  return Fail("aclnnInit", InitKnobs());
}

OPSNN_ACL_API aclnnStatus aclnnFinalize() { return 0; }

OPSNN_ACL_API aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  if (!majorVersion || !minorVersion || !patchVersion) {
    return Fail("aclrtGetVersion", ACL_ERROR_INVALID_PARAM,
                "majorVersion, minorVersion and patchVersion must not be null");
  }
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

// Errors are returned by the call that meets them, so none is ever pending here.
OPSNN_ACL_API aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  static_cast<void>(level);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetLastError(aclrtLastErrLevel level) {
  static_cast<void>(level);
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
