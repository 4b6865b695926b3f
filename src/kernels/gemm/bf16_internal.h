// Products of bf16 by the processor's own dot products of pairs (isa/bf16_dots.h), between the driver and the
// tier file. Not for other modules.
//
// Two values that are neighbours along k make one word of 32 bits, and where f32 kernels multiply a value of
// A with one of B and add, vdpbf16ps adds both products of two words to an f32 sum. So a product of bf16 over
// k is cut, packed and run like one of floats over half as many words; a last odd k is followed by zeros on
// both sides. The instruction adds the product at the odd k first, rounds after each of the two, and takes
// subnormals for zero, operands and results alike: docs/numerics.md.
#ifndef OPSNN_KERNELS_GEMM_BF16_INTERNAL_H_
#define OPSNN_KERNELS_GEMM_BF16_INTERNAL_H_

#include <cstdint>

#include "kernels/gemm/internal.h"

namespace opsnn::gemm {

// The operand, of which `k_stride` is the stride along k, as one of floats where whole words lie side by
// side; else as it is.
Operand AsWords(const Operand& x, int64_t k, int64_t k_stride, int64_t other_stride, int64_t batch);
// PackPanel for a source of pairs.
void PackPairs(const PackSource& source, int64_t width, int64_t depth, float* dst, int64_t ld);

// What follows needs isa::HasBf16().

// MacroBlock and WideBlock on words: a, b and the strides count words. Whole panels are packed already.
void PairBlock(const BlockArgs& args);
void PairWideBlock(const BlockArgs& args);

// dst[k * ld + i] = the word of rows 2k and 2k + 1 at column i, for i < width, k < depth; zero for width <= i
// < fill, and for rows from `rows` on. Row r begins at src + r * row_stride.
struct PairRows {
  const uint16_t* src = nullptr;
  int64_t row_stride = 0, rows = 0;
  int64_t width = 0, fill = 0, depth = 0;
};
void PackPairRows(const PairRows& from, uint32_t* dst, int64_t ld);

// GemvRows and GemvDots (internal.h) on bf16.
struct PairGemvArgs {
  int64_t rows = 0, cols = 0, depth = 0;  // depth in k
  const uint16_t* a = nullptr;
  int64_t lda = 0;
  const uint16_t* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};
void PairGemvRows(const PairGemvArgs& args);
void PairGemvDots(const PairGemvArgs& args);
// GemvStrips: b is the first strip, ldb lies between the starts of two.
void PairGemvStrips(const PairGemvArgs& args, bool adds);
// All rows of A against the columns of `at`, without epilogue; `dots` as in gemv_driver.cc.
void FewPairRows(const Params& p, const CBlock& at, bool dots, float* c, int64_t ldc);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_BF16_INTERNAL_H_
