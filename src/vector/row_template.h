// The row templates' entry point per tier: rows of a norm or a softmax, f32 in and out.
#ifndef OPSNN_VECTOR_ROW_TEMPLATE_H_
#define OPSNN_VECTOR_ROW_TEMPLATE_H_

#include "vector/canonical_programs.h"

namespace opsnn::vector {

struct RowArgs {
  RowTemplate kind;
  int64_t rows = 0, cols = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;  // between rows, elements
  float* y = nullptr;
  int64_t y_stride = 0;
  const float* gamma = nullptr;  // cols values each, or null
  const float* beta = nullptr;
  float* scratch = nullptr;  // cols values
  float* mean = nullptr;     // one per row each, or null
  float* rstd = nullptr;
  int64_t mean_stride = 0, rstd_stride = 0;
  bool prefetch_next = false;  // the next row follows in memory
  bool stream = false;
};
void RunRowTemplate(const RowArgs& a);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_ROW_TEMPLATE_H_
