#include "kernels/reduce/column_softmax.h"

#include <algorithm>
#include <atomic>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/reduce/column_reduce.h"

namespace opsnn::kernels {
namespace {

using vector::BlockArg;

// The strip is copied before it is worked on: rows of an image often lie a power of two apart, where a second
// read would find them evicted. It fits L1 where the rows are few; many rows still get whole cache lines of
// columns, and stay in L2.
constexpr int64_t kStripBytes = 16 << 10;
constexpr int64_t kMinCols = 64, kMaxCols = 512;

// acc[c] = the rows' values combined, in the order of ReduceColumns.
void CombineAll(Combine op, ComputeType type, const char* tile, int64_t row_bytes, int64_t rows, char* acc,
                char* partial, int64_t cols) {
  FillNeutral(op, type, acc, cols);
  for (int64_t first = 0; first < rows; first += kRowsPerPartial) {
    FillNeutral(op, type, partial, cols);
    const int64_t last = std::min(first + kRowsPerPartial, rows);
    for (int64_t r = first; r < last; r += 8) {
      const void* group[8];
      const int count = static_cast<int>(std::min<int64_t>(8, last - r));
      for (int i = 0; i < count; ++i) group[i] = tile + (r + i) * row_bytes;
      CombineRows(op, type, group, count, partial, cols);
    }
    const void* p = partial;
    CombineRows(op, type, &p, 1, acc, cols);
  }
}

}  // namespace

Result<std::shared_ptr<const ColumnSoftmaxPlan>> ColumnSoftmaxPlan::Make(const ColumnSoftmax& params) {
  auto plan = std::make_shared<ColumnSoftmaxPlan>();
  plan->p_ = params;
  plan->type_ = ComputeTypeOf(params.x_dtype);
  const int64_t row_bytes = plan->type_ == ComputeType::kF64 ? 8 : 4;
  plan->strip_cols_ = std::clamp(
      kStripBytes / std::max<int64_t>(1, params.rows * row_bytes) / kMinCols * kMinCols, kMinCols, kMaxCols);
  ProgramBuilder load;
  load.Output(load.Unary(StageOp::kCopy, load.Input(plan->type_)));
  OPSNN_ASSIGN_OR_RETURN(plan->load_, vector::Compile(std::move(load).Build()));
  ProgramBuilder exp;  // x, max
  const SlotId x = exp.Input(plan->type_), max = exp.Input(plan->type_);
  exp.Output(exp.Unary(StageOp::kExp, exp.Binary(StageOp::kSub, x, max)));
  OPSNN_ASSIGN_OR_RETURN(plan->exp_, vector::Compile(std::move(exp).Build()));
  ProgramBuilder reciprocal;
  reciprocal.Output(reciprocal.Unary(StageOp::kReciprocal, reciprocal.Input(plan->type_)));
  OPSNN_ASSIGN_OR_RETURN(plan->reciprocal_, vector::Compile(std::move(reciprocal).Build()));
  ProgramBuilder store;
  const SlotId value = store.Input(plan->type_);
  if (params.log) {  // x, max, sum
    const SlotId shift = store.Input(plan->type_), sum = store.Input(plan->type_);
    store.Output(store.Binary(StageOp::kSub, store.Binary(StageOp::kSub, value, shift),
                              store.Unary(StageOp::kLog, sum)));
  } else {  // exp, 1 / sum
    store.Output(store.Binary(StageOp::kMul, value, store.Input(plan->type_)));
  }
  OPSNN_ASSIGN_OR_RETURN(plan->store_, vector::Compile(std::move(store).Build()));
  return std::shared_ptr<const ColumnSoftmaxPlan>(std::move(plan));
}

bool ColumnSoftmaxPlan::RunStrip(const char* x, char* y, int64_t cols) const {
  const DType dtype = type_ == ComputeType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t row_bytes = strip_cols_ * static_cast<int64_t>(SizeOf(dtype));
  thread_local AlignedBuffer scratch;
  const size_t need = static_cast<size_t>(((p_.log ? 2 : 1) * p_.rows + 3) * row_bytes);
  if (scratch.bytes() < need) scratch = AlignedBuffer(need);
  if (!scratch) return false;
  char* values = scratch.as<char>();
  char *max = values + p_.rows * row_bytes, *sum = max + row_bytes, *partial = sum + row_bytes;
  // Log-softmax needs x again; else e^(x - max) takes its place.
  char* exps = p_.log ? partial + row_bytes : values;

  const BlockArg in = {const_cast<char*>(x), p_.x_dtype, p_.x_row_stride, p_.x_col_stride};
  const BlockArg tile = {values, dtype, strip_cols_, 1}, exp_tile = {exps, dtype, strip_cols_, 1};
  const BlockArg max_row = {max, dtype, 0, 1}, sum_row = {sum, dtype, 0, 1};
  const BlockArg load_args[] = {in, tile};
  vector::RunBlock(*load_, p_.rows, cols, load_args);
  CombineAll(Combine::kMax, type_, values, row_bytes, p_.rows, max, partial, cols);
  const BlockArg exp_args[] = {tile, max_row, exp_tile};
  vector::RunBlock(*exp_, p_.rows, cols, exp_args);
  CombineAll(Combine::kSum, type_, exps, row_bytes, p_.rows, sum, partial, cols);
  const BlockArg out = {y, p_.y_dtype, p_.y_row_stride, p_.y_col_stride};
  if (p_.log) {
    const BlockArg store_args[] = {tile, max_row, sum_row, out};
    vector::RunBlock(*store_, p_.rows, cols, store_args);
  } else {
    const BlockArg reciprocal_args[] = {sum_row, sum_row};
    vector::RunBlock(*reciprocal_, 1, cols, reciprocal_args);
    const BlockArg store_args[] = {exp_tile, sum_row, out};
    vector::RunBlock(*store_, p_.rows, cols, store_args);
  }
  return true;
}

Status ColumnSoftmaxPlan::Run(const void* x, void* y) const {
  const int64_t strips = (p_.cols + strip_cols_ - 1) / strip_cols_;
  std::atomic<bool> failed{false};
  ParallelFor(NumElements(p_.outer) * strips, [&](int64_t task, int) {
    const int64_t first = task % strips * strip_cols_;
    const int64_t x_off = OffsetOf(task / strips, p_.outer, p_.x_outer_strides) + first * p_.x_col_stride;
    const int64_t y_off = OffsetOf(task / strips, p_.outer, p_.y_outer_strides) + first * p_.y_col_stride;
    if (!RunStrip(static_cast<const char*>(x) + x_off * static_cast<int64_t>(SizeOf(p_.x_dtype)),
                  static_cast<char*>(y) + y_off * static_cast<int64_t>(SizeOf(p_.y_dtype)),
                  std::min(strip_cols_, p_.cols - first))) {
      failed = true;
    }
  });
  if (failed)
    return Errorf(Code::kRuntime, "softmax: no memory for columns of %lld rows.",
                  static_cast<long long>(p_.rows));
  return OkStatus();
}

}  // namespace opsnn::kernels
