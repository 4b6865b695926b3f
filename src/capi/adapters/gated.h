// The two operands of a gated unit: the halves of a tensor.
#ifndef OPSNN_CAPI_ADAPTERS_GATED_H_
#define OPSNN_CAPI_ADAPTERS_GATED_H_

#include "capi/adapters/common.h"

namespace opsnn::capi {

struct Halves {
  Operand left, right;
};

// The tensor cut along `dim`, in the middle or into even and odd positions.
Result<Halves> Cut(const Call& call, const Operand& x, int dim, bool interleaved);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_GATED_H_
