// Questions about dims that may be unknown during inference.
#ifndef OPSNN_OP_DIMS_H_
#define OPSNN_OP_DIMS_H_

#include <cstdint>

#include "tensor/shape.h"

namespace opsnn::op {

// Both are known, and not equal.
inline bool Differ(int64_t a, int64_t b) { return a != kUnknownDim && b != kUnknownDim && a != b; }

}  // namespace opsnn::op

#endif  // OPSNN_OP_DIMS_H_
