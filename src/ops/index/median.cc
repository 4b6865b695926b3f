#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/sort_keys.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Median";

struct Rows {
  DType dtype = DType::kF32;
  int64_t outer = 1, n = 1, inner = 1;
  bool ignore_nan = false;
};

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", -1), rank);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  if (x.dims[axis] == 0) {
    return InvalidArgument("%s: X has shape %s; allowed: one element or more along axis %d", kOp,
                           opsnn::ToString(x.dims).c_str(), axis);
  }
  Dims dims = x.dims;
  dims[axis] = 1;
  c.outputs = {Desc(x.dtype, dims), Desc(DType::kS64, dims)};
  if (c.num_outputs < 2) c.outputs.resize(1);
  return OkStatus();
}

// Where the median of a row is; the items are the row's elements with their positions.
int64_t FindMedian(std::vector<kernels::KeyedPosition>& row, const Rows& r) {
  auto end = row.end();
  if (IsFloat(r.dtype)) {
    // NaN to the back, in their order.
    end = std::stable_partition(row.begin(), row.end(),
                                [](const kernels::KeyedPosition& p) { return p.key != kernels::kNanKey; });
    if (end != row.end() && (!r.ignore_nan || end == row.begin())) return end->position;
  }
  const auto middle = row.begin() + (end - row.begin() - 1) / 2;
  std::nth_element(row.begin(), middle, end);
  return middle->position;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  Rows r;
  r.dtype = x.dtype;
  r.n = x.dims[axis];
  r.ignore_nan = op::AttrsOf(c.attrs).Int("ignore_nan", 0) != 0;
  for (int i = 0; i < axis; ++i) r.outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) r.inner *= x.dims[i];
  const auto run = [r](const op::RunArgs& args) {
    const char* from = static_cast<const char*>(args.inputs[0]);
    char* values = static_cast<char*>(args.outputs[0]);
    auto* positions = static_cast<int64_t*>(args.outputs[1]);
    const auto bytes = SizeOf(r.dtype);
    auto* keys = static_cast<uint64_t*>(args.workspace);
    kernels::SortKeys(from, r.dtype, r.outer * r.n * r.inner, keys);
    ParallelFor(r.outer * r.inner, [&](int64_t row, int) {
      const int64_t first = row / r.inner * r.n * r.inner + row % r.inner;
      std::vector<kernels::KeyedPosition> items(static_cast<size_t>(r.n));
      for (int64_t i = 0; i < r.n; ++i) items[static_cast<size_t>(i)] = {keys[first + i * r.inner], i};
      const int64_t at = FindMedian(items, r);
      std::memcpy(values + static_cast<size_t>(row) * bytes,
                  from + static_cast<size_t>(first + at * r.inner) * bytes, bytes);
      if (positions != nullptr) positions[row] = at;
    });
    return OkStatus();
  };
  const bool has_positions = c.outputs.size() > 1;
  const auto keys = static_cast<size_t>(r.outer * r.n * r.inner) * sizeof(uint64_t);
  return Staged(c, MakeKernel(
                       "partial sort",
                       [run, has_positions](const op::RunArgs& args) {
                         if (has_positions) return run(args);
                         void* outputs[] = {args.outputs[0], nullptr};
                         op::RunArgs own = args;
                         own.outputs = outputs;
                         return run(own);
                       },
                       keys));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Median) {
  def.infer = Infer;
  def.plan = Plan;
}
