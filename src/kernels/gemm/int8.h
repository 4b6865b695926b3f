// Products of 8-bit integers, exact in s32: C[i][j] = sum over k of (a[i][k] - a_zero[i]) * (b[k][j] -
// b_zero[j]), modulo 2^32. Signed and unsigned operands in any combination, any strides.
//
// One packed format for every tier: groups of four k, A unsigned and B signed, which is what AVX512-VNNI
// multiplies in one instruction; tiers without it widen to 16 bits. The shift by 128 that this takes of a
// signed A or an unsigned B goes into the zero points, whose products with row and column sums are subtracted
// at the end.
#ifndef OPSNN_KERNELS_GEMM_INT8_H_
#define OPSNN_KERNELS_GEMM_INT8_H_

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

// One value for all, or one per row of A or column of B.
struct ZeroPoints {
  const int32_t* data = nullptr;  // null: zero
  int64_t stride = 0;             // 0 or 1
  int32_t At(int64_t i) const { return data ? data[i * stride] : 0; }
};

struct Int8Params {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;  // s8 or u8
  ZeroPoints a_zero, b_zero;
  int32_t* c = nullptr;  // unit column stride
  int64_t c_row_stride = 0, c_batch_stride = 0;
};
void RunInt8(const Int8Params& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_H_
