// What the operators with a size that the values decide share. Their first output has room for the largest
// size (attribute room); output 1 tells the actual one. The results lie dense from the front, as a tensor of
// the actual size; in a strided output they stay where the view has them, with zeros behind.
#ifndef OPSNN_OPS_INDEX_COUNTED_H_
#define OPSNN_OPS_INDEX_COUNTED_H_

#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {

inline int64_t RoomOf(const op::Attrs* attrs) { return op::AttrsOf(attrs).Int("room", 0); }

inline Status NoRoom(const char* op, int64_t found, int64_t room) {
  return InvalidArgument("%s: Y has room for %lld; the values give %lld", op, static_cast<long long>(room),
                         static_cast<long long>(found));
}

// Clears an output that is copied out as a whole.
inline void ClearStrided(const op::TensorDesc& y, void* data) {
  if (!y.IsContiguous()) std::memset(data, 0, static_cast<size_t>(NumElements(y.dims)) * SizeOf(y.dtype));
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_INDEX_COUNTED_H_
