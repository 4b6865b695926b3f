// Products of 8-bit integers, exact in s32: C[i][j] = sum over k of (a[i][k] - a_zero[i]) * (b[k][j] -
// b_zero[j]), modulo 2^32. Signed and unsigned operands in any combination, any strides.
//
// One packed format for every tier: groups of four k, B of the other sign than A, which is what AVX512-VNNI
// multiplies in one instruction; tiers without it widen to 16 bits. So A is taken as it is, where its strides
// allow without a copy; the shift by 128 that B may need goes into its zero point. The products of zero
// points with row and column sums are subtracted as tiles are stored.
#ifndef OPSNN_KERNELS_GEMM_INT8_H_
#define OPSNN_KERNELS_GEMM_INT8_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/int8_chain.h"
#include "kernels/gemm/requantise.h"

namespace opsnn::gemm {

inline constexpr int64_t kInt8Group = 4;  // k that are multiplied together

// One value for all, or one per row of A or column of B.
struct ZeroPoints {
  const int32_t* data = nullptr;  // null: zero
  int64_t stride = 0;             // 0 or 1
  int32_t At(int64_t i) const { return data ? data[i * stride] : 0; }
};

// A constant B in panels, packed ahead of time for an A of one sign. Valid for every tier.
struct PackedInt8B {
  AlignedBuffer data;
  std::vector<int32_t> column_sums;  // of the packed values, per batch padded to whole panels
  int64_t k = 0, n = 0, batch = 1;
  bool a_signed = false;
};
// Null when there is no memory. `batch` matrices, b.batch_stride apart.
std::shared_ptr<const PackedInt8B> PackInt8B(const Operand& b, DType a_dtype, int64_t k, int64_t n,
                                             int64_t batch);

// The same from FRACTAL_NZ, whose strips are as wide as a panel: nothing is moved to rows first.
std::shared_ptr<const PackedInt8B> PackNzInt8B(const NzOperand& b, DType a_dtype, int64_t k, int64_t n,
                                               int64_t batch);

// Columns [col, col + cols) of rows [k0, k0 + depth) of B, flipped, as a panel (int8_internal.h).
using PackPanelFn = void(int64_t col, int64_t cols, int64_t k0, int64_t depth, uint8_t flip, uint8_t* panel);

struct Int8Params {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;  // s8 or u8
  const PackedInt8B* packed_b =
      nullptr;  // instead of b, whose dtype still counts; one of its batch or its only
  const FunctionRef<PackPanelFn>* pack_b = nullptr;  // the same; for a batch of one
  ZeroPoints a_zero, b_zero;
  int32_t* c = nullptr;  // unit column stride; null: program or requantise store
  int64_t c_row_stride = 0, c_batch_stride = 0;
  // Pointwise, on blocks that are still in cache. Its input 0 is the block, in s32; args are its further
  // inputs, then its outputs.
  const vector::CompiledProgram* program = nullptr;
  std::span<const vector::EpilogueArg> args;
  const Int8Chain* chain = nullptr;        // what the program is (MatchInt8Chain); null: none
  const Requantise* requantise = nullptr;  // instead of c and the program
};
void RunInt8(const Int8Params& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_H_
