#include "capi/api/find_stream.h"

#include "capi/boundary.h"
#include "runtime/device.h"

namespace opsnn::capi {

int FindStream(const char* function, aclrtStream handle, std::shared_ptr<runtime::Stream>* stream) {
  auto found = runtime::ResolveStream(handle);
  if (!found.ok()) return Fail(function, ACL_ERROR_RT_INVALID_HANDLE, found.status().message());
  *stream = *found;
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
