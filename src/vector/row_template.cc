// Binds a recognised row program to its template: f32 rows in place, other float types through a row of
// scratch.
#include "vector/row_template.h"

#include <algorithm>
#include <bit>

#include "base/buffer.h"
#include "isa/tier.h"
#include "vector/compiled.h"
#include "vector/convert.h"
#include "vector/convert_simd.h"
#include "vector/scratch_failures.h"
#include "vector/transpose_tile.h"

namespace opsnn::vector {
namespace {

// Rows of f32 for input and output, five for the templates, gamma and beta converted; grows and stays.
// Null when there is no memory.
float* RowScratch(size_t floats) {
  static thread_local AlignedBuffer buffer;
  if (buffer.bytes() < floats * sizeof(float)) buffer = AlignedBuffer(floats * sizeof(float) * 3 / 2);
  return buffer.as<float>();
}

bool IsDenseF32(const BlockArg& a) { return a.dtype == DType::kF32 && a.col_stride == 1; }
bool DenseOfOneType(const BlockArg& x, const BlockArg& y) {
  return x.dtype == y.dtype && IsFloat(x.dtype) && x.col_stride == 1 && y.col_stride == 1;
}
char* Row(const BlockArg& a, int64_t r) {
  return static_cast<char*>(a.data) + r * a.row_stride * static_cast<int64_t>(SizeOf(a.dtype));
}

bool AllFinite(const float* v, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; v && i < n; ++i) most = std::max(most, std::bit_cast<uint32_t>(v[i]) & 0x7FFFFFFF);
  return most < 0x7F800000;
}

bool LiesInColumns(const BlockArg& a) {
  return a.dtype == DType::kF32 && a.row_stride == 1 && a.col_stride > 1;
}

// n rows from r on as dense f32 rows in `to`.
void GatherRows(const BlockArg& a, int64_t r, int64_t n, int64_t cols, float* to) {
  if (LiesInColumns(a)) {
    return TransposeTile(reinterpret_cast<const float*>(Row(a, r)), a.col_stride, to, cols, n, cols);
  }
  for (int64_t i = 0; i < n; ++i) {
    LoadConvert(a.dtype, Row(a, r + i), a.col_stride, ComputeType::kF32, to + i * cols, cols);
  }
}
void ScatterRows(const float* from, const BlockArg& a, int64_t r, int64_t n, int64_t cols, bool stream) {
  if (LiesInColumns(a)) {
    return TransposeTile(from, cols, reinterpret_cast<float*>(Row(a, r)), a.col_stride, cols, n);
  }
  if (stream && a.col_stride == 1 && IsHalf(a.dtype)) {
    for (int64_t i = 0; i < n; ++i) StreamHalf(from + i * cols, a.dtype, Row(a, r + i), cols);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    StoreConvert(ComputeType::kF32, from + i * cols, a.dtype, Row(a, r + i), a.col_stride, cols);
  }
}

void SkipStatistics(RowArgs& a, int64_t rows) {
  if (a.mean != nullptr) a.mean += rows * a.mean_stride;
  if (a.rstd != nullptr) a.rstd += rows * a.rstd_stride;
}
void SkipRows(RowArgs& a, int64_t rows) {  // of f32
  a.x = static_cast<const float*>(a.x) + rows * a.x_stride;
  a.y = static_cast<float*>(a.y) + rows * a.y_stride;
  a.rows -= rows;
  SkipStatistics(a, rows);
}

}  // namespace

int64_t LongestShortRow() {
  constexpr int64_t kVectors = 4;  // of row_kernels_short.cc
  const isa::Tier tier = isa::ActiveTier();
  return kVectors * (tier == isa::Tier::kAvx512 ? 16 : tier == isa::Tier::kAvx2 ? 8 : 4);
}

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
  if (y.col_stride == 0 && cols > 1) return false;
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

  // Rows that lie in columns are worked on by the cache line.
  constexpr int64_t kLineRows = 16;
  const int64_t group = LiesInColumns(x) || LiesInColumns(y) ? std::min(kLineRows, rows) : 1;
  float* scratch = RowScratch(static_cast<size_t>(cols * (2 * group + 2) + RowScratchValues(cols) + 64));
  if (scratch == nullptr) {
    NoteScratchFailure();
    return true;
  }
  // Factors of 1 and summands of -0 change nothing.
  auto vector_of = [&](const BlockArg* v, float neutral, float* to) -> const float* {
    if (v != nullptr && v->dtype == DType::kF32) return static_cast<const float*>(v->data);
    if (v == nullptr)
      std::fill_n(to, cols, neutral);
    else
      LoadConvert(v->dtype, v->data, 1, ComputeType::kF32, to, cols);
    return to;
  };
  if (t.family == RowFamily::kLayerNorm || t.family == RowFamily::kRmsNorm)
    a.gamma = vector_of(gamma, 1.0f, scratch);
  if (t.family == RowFamily::kLayerNorm) a.beta = vector_of(beta, -0.0f, scratch + cols);
  if (x.dtype == DType::kBF16) a.finite_weights = AllFinite(a.gamma, cols) && AllFinite(a.beta, cols);
  a.scratch = scratch + 2 * cols;
  if (DenseOfOneType(x, y)) {
    a.type = x.dtype;
    a.x = x.data, a.x_stride = x.row_stride;
    a.y = y.data, a.y_stride = y.row_stride;
    a.prefetch_next = rows > 1;
    a.stream = options.stream;
    if (a.type == DType::kF32) SkipRows(a, RunShortRowTemplate(a));
    if (a.rows > 0) RunRowTemplate(a);
    return true;
  }
  float *x_rows = a.scratch + RowScratchValues(cols), *y_rows = x_rows + group * cols;
  for (int64_t r = 0; r < rows; r += group) {
    a.rows = std::min(group, rows - r);
    a.x = x_rows, a.x_stride = cols;
    if (IsDenseF32(x))
      a.x = Row(x, r), a.x_stride = x.row_stride;
    else
      GatherRows(x, r, a.rows, cols, x_rows);
    a.y = y_rows, a.y_stride = cols;
    if (IsDenseF32(y)) a.y = Row(y, r), a.y_stride = y.row_stride;
    a.ahead = nullptr;
    if (group == 1 && r + 1 < rows && x.col_stride == 1) {  // while this row is worked on
      a.ahead = Row(x, r + 1);
      a.ahead_bytes = cols * static_cast<int64_t>(SizeOf(x.dtype));
    }
    RunRowTemplate(a);
    if (!IsDenseF32(y)) ScatterRows(y_rows, y, r, a.rows, cols, options.stream);
    SkipStatistics(a, a.rows);
  }
  return true;
}

void RunLogSums(DType type, const void* x, int64_t stride, int64_t rows, int64_t cols, float* most,
                float* log_sum) {
  RowArgs a;
  a.kind.family = RowFamily::kLogSoftmax;
  a.type = type;
  a.rows = rows, a.cols = cols;
  a.x = x, a.x_stride = stride;
  a.mean = most, a.mean_stride = 1;
  a.rstd = log_sum, a.rstd_stride = 1;
  a.prefetch_next = rows > 1;
  RunRowTemplate(a);
}

}  // namespace opsnn::vector
