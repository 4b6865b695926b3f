// The stream of a handle, for every function of the runtime API that takes one.
#ifndef OPSNN_CAPI_API_FIND_STREAM_H_
#define OPSNN_CAPI_API_FIND_STREAM_H_

#include <memory>

#include "acl/acl_rt.h"
#include "runtime/stream.h"

namespace opsnn::capi {

// Null stands for the default stream. A handle that is not alive is ACL_ERROR_RT_INVALID_HANDLE, its message
// kept.
int FindStream(const char* function, aclrtStream handle, std::shared_ptr<runtime::Stream>* stream);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_FIND_STREAM_H_
