// Where a token of a sequence lies in a cache made of blocks.
#ifndef OPSNN_OPS_INDEX_SLOT_H_
#define OPSNN_OPS_INDEX_SLOT_H_

#include <cstdint>

namespace opsnn::ops {

// Place `position` of a sequence whose block there is number `block`; senseless numbers wrap.
inline int64_t SlotOf(int64_t block, int64_t size, int64_t position) {
  const uint64_t first = static_cast<uint64_t>(block) * static_cast<uint64_t>(size);
  return static_cast<int64_t>(first + static_cast<uint64_t>(position % size));
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_INDEX_SLOT_H_
