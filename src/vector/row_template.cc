// Binds a recognised row program to its template: f32 rows in place, other float types through a row of
// scratch.
#include "vector/row_template.h"

#include "base/buffer.h"
#include "vector/compiled.h"
#include "vector/convert.h"

namespace opsnn::vector {
namespace {

// One row of f32 for input and output each, and gamma and beta converted once; grows and stays.
float* RowScratch(size_t floats) {
  static thread_local AlignedBuffer buffer;
  if (buffer.bytes() < floats * sizeof(float)) buffer = AlignedBuffer(floats * sizeof(float) * 3 / 2);
  return buffer.as<float>();
}

bool IsDenseF32(const BlockArg& a) { return a.dtype == DType::kF32 && a.col_stride == 1; }
char* Row(const BlockArg& a, int64_t r) {
  return static_cast<char*>(a.data) + r * a.row_stride * static_cast<int64_t>(SizeOf(a.dtype));
}

}  // namespace

bool ExecuteRowTemplate(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args,
                        const ExecuteOptions& options) {
  const RowTemplate& t = p.row_template;
  if (t.family == RowFamily::kNone || cols == 0) return false;
  RowArgs a;
  a.kind = t;
  a.rows = rows, a.cols = cols;
  int next = 0;
  const BlockArg& x = args[next++];
  const BlockArg* gamma = t.norm.gamma ? &args[next++] : nullptr;
  const BlockArg* beta = t.norm.beta ? &args[next++] : nullptr;
  const BlockArg& y = args[next++];
  if (x.col_stride != 1 || y.col_stride != 1) return false;
  if (SizeOf(x.dtype) == 8 || SizeOf(y.dtype) == 8) return false;
  for (const BlockArg* v : {gamma, beta}) {
    if (v != nullptr && (v->row_stride != 0 || v->col_stride != 1)) return false;
  }
  if (t.norm.statistics) {
    const BlockArg* mean = t.family == RowFamily::kLayerNorm ? &args[next++] : nullptr;
    const BlockArg& rstd = args[next];
    if (rstd.dtype != DType::kF32 || (mean != nullptr && mean->dtype != DType::kF32)) return false;
    a.rstd = static_cast<float*>(rstd.data), a.rstd_stride = rstd.row_stride;
    if (mean != nullptr) a.mean = static_cast<float*>(mean->data), a.mean_stride = mean->row_stride;
  }

  float* scratch = RowScratch(static_cast<size_t>(cols) * 4 + 64);
  auto vector_of = [&](const BlockArg* v, float* to) -> const float* {
    if (v == nullptr || v->dtype == DType::kF32)
      return v == nullptr ? nullptr : static_cast<const float*>(v->data);
    LoadConvert(v->dtype, v->data, 1, ComputeType::kF32, to, cols);
    return to;
  };
  a.scratch = scratch;
  a.gamma = vector_of(gamma, scratch + 2 * cols);
  a.beta = vector_of(beta, scratch + 3 * cols);
  if (IsDenseF32(x) && IsDenseF32(y)) {
    a.x = static_cast<const float*>(x.data), a.x_stride = x.row_stride;
    a.y = static_cast<float*>(y.data), a.y_stride = y.row_stride;
    a.prefetch_next = rows > 1;
    a.stream = options.stream;
    RunRowTemplate(a);
    return true;
  }
  a.rows = 1;
  for (int64_t r = 0; r < rows; ++r) {
    a.x = scratch;
    if (IsDenseF32(x))
      a.x = reinterpret_cast<const float*>(Row(x, r));
    else
      LoadConvert(x.dtype, Row(x, r), 1, ComputeType::kF32, scratch, cols);
    a.y = IsDenseF32(y) ? reinterpret_cast<float*>(Row(y, r)) : scratch + cols;
    RunRowTemplate(a);
    if (!IsDenseF32(y)) StoreConvert(ComputeType::kF32, a.y, y.dtype, Row(y, r), 1, cols);
    if (a.mean != nullptr) a.mean += a.mean_stride;
    if (a.rstd != nullptr) a.rstd += a.rstd_stride;
  }
  return true;
}

}  // namespace opsnn::vector
