// Cheap stages of two operands whose results are written past the caches.
#ifndef OPSNN_VECTOR_STREAM_PASS_H_
#define OPSNN_VECTOR_STREAM_PASS_H_

#include "vector/pass.h"

namespace opsnn::vector {

// For one row of operands that both walk along it; the bits of the common pass. Null where that is all there
// is.
PassFn FindStreamPass(StageOp op);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_STREAM_PASS_H_
