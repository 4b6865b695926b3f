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
  const float* gamma = nullptr;  // cols values each, or null
  const float* beta = nullptr;
  bool finite_weights = false;  // gamma and beta hold neither NaN nor infinities
  float* scratch = nullptr;     // RowScratchValues(cols)
  float* mean = nullptr;        // one per row each, or null
  float* rstd = nullptr;
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
bool RunShortRowTemplate(const RowArgs& a);  // its part for rows of few vectors of f32; false: too long

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_ROW_TEMPLATE_H_
