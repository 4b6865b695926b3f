// Operands of bf16 as words of pairs: where they lie so already, and packing the others.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/gemm/bf16_internal.h"

namespace opsnn::gemm {

Operand AsWords(const Operand& x, int64_t k, int64_t k_stride, int64_t other_stride, int64_t batch) {
  if (k_stride != 1 || k % 2 != 0 || other_stride % 2 != 0) return x;
  if (reinterpret_cast<uintptr_t>(x.data) % sizeof(uint32_t) != 0)
    return x;  // a view that begins between words
  if (batch > 1 && x.batch_stride % 2 != 0) return x;
  Operand words = x;
  words.dtype = DType::kF32;
  if (x.row_stride != 1) words.row_stride /= 2;
  if (x.col_stride != 1) words.col_stride /= 2;
  words.batch_stride /= 2;
  return words;
}

namespace {

// Unit stride along k: whole rows of words first, zero behind an odd end.
void PackCopied(const PackSource& s, int64_t width, int64_t depth, float* dst, int64_t ld) {
  float* rows = ThreadScratch(Scratch::kConvert, width * depth);
  if (!rows) return std::fill(dst, dst + depth * ld, 0.0f);  // the failure is noted
  const auto* src = static_cast<const uint16_t*>(s.data);
  const int64_t values = std::min(2 * depth, s.pair_k);
  for (int64_t i = 0; i < width; ++i) {
    if (values < 2 * depth) rows[(i + 1) * depth - 1] = 0;
    memcpy(rows + i * depth, src + i * s.i_stride, static_cast<size_t>(values) * sizeof(uint16_t));
  }
  PackPanel({rows, DType::kF32, depth, 1}, width, depth, dst, ld);
}

}  // namespace

void PackPairs(const PackSource& s, int64_t width, int64_t depth, float* dst, int64_t ld) {
  const auto* src = static_cast<const uint16_t*>(s.data);
  if (s.i_stride == 1) {
    PairRows rows;
    rows.src = src, rows.row_stride = s.k_stride, rows.rows = s.pair_k;
    rows.width = width, rows.fill = ld, rows.depth = depth;
    return PackPairRows(rows, reinterpret_cast<uint32_t*>(dst), ld);
  }
  if (s.k_stride == 1) return PackCopied(s, width, depth, dst, ld);
  for (int64_t k = 0; k < depth; ++k) {
    std::fill(dst + k * ld, dst + (k + 1) * ld, 0.0f);
    for (int64_t i = 0; i < width; ++i) {
      const uint16_t* at = src + i * s.i_stride + 2 * k * s.k_stride;
      const uint16_t word[2] = {at[0], 2 * k + 1 < s.pair_k ? at[s.k_stride] : uint16_t{0}};
      memcpy(dst + k * ld + i, word, sizeof(word));
    }
  }
}

}  // namespace opsnn::gemm
