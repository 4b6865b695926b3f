// Where a tensor argument lies: the bytes of its view, held to the allocation that its address belongs to.
#ifndef OPSNN_CAPI_FOOTPRINT_H_
#define OPSNN_CAPI_FOOTPRINT_H_

#include <cstdint>

#include "base/status.h"
#include "capi/objects.h"

namespace opsnn::capi {

struct Footprint {
  int64_t low = 0, high = 0;  // first and one-past-last byte, counted from the tensor's address
  uint64_t block = 0;         // serial of the allocation; 0: not allocated by the runtime, or nothing touched
};

// Bytes that the view touches; block stays 0. False when they are not within 63 bits.
bool TouchedBytes(const Tensor& t, Footprint* f);

// Finds the block of `address` and refuses a view that leaves it. `api`, `param` and `member` (-1: no list)
// are for the message. A null address and memory of the caller's own are taken as they are.
Status HoldToBlock(const char* api, const char* param, int member, const void* address, Footprint* f);

// Refuses a tensor whose block was freed since HoldToBlock.
Status CheckStillLive(const char* api, const char* param, int member, const void* address,
                      const Footprint& f);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_FOOTPRINT_H_
