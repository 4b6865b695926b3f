// Products of f64 and s32 matrices: exact types without the blocking of the f32 kernels, adequate for
// operands that fit the caches. s32 wraps; f64 sums over k in ascending order.
#ifndef OPSNN_KERNELS_GEMM_PLAIN_H_
#define OPSNN_KERNELS_GEMM_PLAIN_H_

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

struct PlainParams {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;       // both of one dtype: f64 or s32
  void* c = nullptr;  // of the same dtype, unit column stride
  int64_t c_row_stride = 0, c_batch_stride = 0;
};
void RunPlain(const PlainParams& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_PLAIN_H_
