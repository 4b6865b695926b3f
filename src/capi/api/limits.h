// Time limits that other parts of the runtime API keep to.
#ifndef OPSNN_CAPI_API_LIMITS_H_
#define OPSNN_CAPI_API_LIMITS_H_

#include <chrono>

namespace opsnn::capi {

// How long a stream waits for an event where the call does not say (aclrtSetOpWaitTimeout); 0: for ever.
std::chrono::milliseconds EventWaitTimeout();

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_LIMITS_H_
