// Builders of the row programs that have a row template. An operator that wants the fast path builds its
// program here; the engine recognises exactly these. Each reduces over the row given by RunTensors' row_rank.
#ifndef OPSNN_VECTOR_CANONICAL_PROGRAMS_H_
#define OPSNN_VECTOR_CANONICAL_PROGRAMS_H_

#include "program/program.h"

namespace opsnn::vector {

// y = (x - mean) * rstd [* gamma] [+ beta], two-pass variance, rstd = 1 / sqrt(var + eps).
// Inputs: x, then gamma and beta where present (they broadcast along the rows). Outputs: y, then mean and
// rstd (per row) where `statistics`. `narrow`: x holds f16 or bf16 (program/moments.h).
struct NormOptions {
  double eps = 1e-5;
  bool gamma = false, beta = false;
  bool statistics = false;
  bool narrow = false;
};
Program LayerNormProgram(const NormOptions& options);
// y = x * rstd [* gamma], rstd = 1 / sqrt(mean(x^2) + eps). `beta` and `narrow` are not used; statistics:
// rstd only.
Program RmsNormProgram(const NormOptions& options);

// e^(x - max) * (1 / sum)
Program SoftmaxProgram();
// (x - max) - log(sum e^(x - max))
Program LogSoftmaxProgram();

enum class RowFamily : uint8_t { kNone, kLayerNorm, kRmsNorm, kSoftmax, kLogSoftmax };
struct RowTemplate {
  RowFamily family = RowFamily::kNone;
  NormOptions norm;
};
// Which of the above `p` is.
RowTemplate RecogniseRowTemplate(const Program& p);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_CANONICAL_PROGRAMS_H_
