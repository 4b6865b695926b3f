// The row templates' entry point: rows of a norm or a softmax, input and output of one floating type.
#ifndef OPSNN_VECTOR_ROW_TEMPLATE_H_
#define OPSNN_VECTOR_ROW_TEMPLATE_H_

#include "vector/canonical_programs.h"

namespace opsnn::vector {

// Rows of scratch are read and written side by side, and a load waits for a store in flight whose address is
// a multiple of 4 KiB away: they lie some lines more than that apart.
inline int64_t ScratchStride(int64_t cols) {
  constexpr int64_t kPage = 4096 / sizeof(float), kSkew = 160;
  return (cols + kPage - 1) / kPage * kPage + kSkew;
}
inline constexpr int64_t kScratchRows = 6;
inline int64_t RowScratchValues(int64_t cols) { return kScratchRows * ScratchStride(cols); }

struct RowArgs {
  RowTemplate kind;
  int64_t rows = 0, cols = 0;
  DType type = DType::kF32;  // of x and y: f32, f16 or bf16
  const void* x = nullptr;
  int64_t x_stride = 0;  // between rows, elements
  void* y = nullptr;
  int64_t y_stride = 0;
  const float* gamma = nullptr;  // of norms, cols values
  const float* beta = nullptr;   // of LayerNorm, cols values
  bool finite_weights = false;   // gamma and beta hold neither NaN nor infinities
  float* scratch = nullptr;      // RowScratchValues(cols)
  float* mean = nullptr;         // one per row each, or null; of a log softmax the two that it takes off, and
  float* rstd = nullptr;         // y may be null then
  int64_t mean_stride = 0, rstd_stride = 0;
  bool prefetch_next = false;   // the next row follows in memory
  const char* ahead = nullptr;  // what to fetch during each row instead, or null
  int64_t ahead_bytes = 0;
  bool stream = false;
};
void RunRowTemplate(const RowArgs& a);
void RunF16RowTemplate(const RowArgs& a);   // its parts for f16 and bf16, files of their own: they take
void RunBf16RowTemplate(const RowArgs& a);  // long to compile
// Its part for a bf16 softmax with AVX512-BF16: rows from `first` on, up to one that wants the template,
// which is returned.
int64_t RunBf16SoftmaxRows(const RowArgs& a, int64_t first);
int64_t LongestShortRow();  // values of f32 up to which rows stay in registers, on the active tier
// Its part for many rows of few vectors of f32: how many it has done, 0 where they are longer or too few.
int64_t RunShortRowTemplate(const RowArgs& a);

// The logarithms of a softmax over rows of f32, f16 or bf16 are (x - most) - log_sum: these two for each row.
void RunLogSums(DType type, const void* x, int64_t stride, int64_t rows, int64_t cols, float* most,
                float* log_sum);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_ROW_TEMPLATE_H_
