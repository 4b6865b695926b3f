// Reserved addresses, as those who read and write memory must know them.
#ifndef OPSNN_CAPI_API_RESERVED_H_
#define OPSNN_CAPI_API_RESERVED_H_

#include <cstddef>

namespace opsnn::capi {

// The first byte of [at, at + bytes) that is reserved (aclrtReserveMemAddress) and that no memory is mapped
// to: whoever touches it ends the process. Null where there is none; other memory cannot be judged.
const char* FindHole(const char* at, size_t bytes);
// Are any addresses reserved?
bool AnyReserved();

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_RESERVED_H_
