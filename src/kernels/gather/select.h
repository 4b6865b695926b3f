// Finding positions by value: argmax, top-k; and running sums. Rows lie along one axis of an (outer, n,
// inner) tensor.
//
// Order of floats: for ArgExtreme NaN is the extreme in both directions, for TopK it is larger than
// everything, as in a sort; -0 equals 0. Equal values keep the order of their positions.
#ifndef OPSNN_KERNELS_GATHER_SELECT_H_
#define OPSNN_KERNELS_GATHER_SELECT_H_

#include <cstdint>

#include "base/dtype.h"

namespace opsnn::kernels {

struct AxisParams {
  DType dtype = DType::kF32;  // not bool
  int64_t outer = 1, n = 1, inner = 1;
  const void* src = nullptr;
};

// dst[o, i] = position of the extreme value of src[o, :, i]; n > 0. Among equals the first, or the last.
void ArgExtreme(const AxisParams& p, bool largest, bool last, int64_t* dst);

// The k most extreme values of every row and their positions, both (outer, k, inner). Sorted: most extreme
// first; else in the order of their positions.
void TopK(const AxisParams& p, int64_t k, bool largest, bool sorted, void* values, int64_t* positions);

// dst[o, j, i] = sum of src[o, 0..j, i], without element j if exclusive, from the other end if reverse.
// Halves add up in f32, each sum is rounded once; integers wrap.
void CumulativeSum(const AxisParams& p, bool exclusive, bool reverse, void* dst);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_SELECT_H_
