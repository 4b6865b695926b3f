#include <cmath>
#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "OneHot";

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", -1), rank + 1);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &values = *c.inputs[2];
  if (values.known_rank && values.dims != Dims{2} && IsKnown(values.dims)) {
    return InvalidArgument("%s: values has shape %s; allowed: [2]", kOp,
                           opsnn::ToString(values.dims).c_str());
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(values.dtype));
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, x.dims.rank() + 1));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  int64_t depth = kUnknownDim;
  if (const ConstTensor& given = c.inputs[1]->constant) {
    constexpr double kMost = 1e12;
    const double value = given->size() == 1 ? ToDoubles(*given)[0] : 0;
    if (!(value >= 1 && value <= kMost)) {
      return InvalidArgument("%s: depth is %g in %lld elements; allowed: one value from 1 to %g", kOp, value,
                             static_cast<long long>(given->size()), kMost);
    }
    depth = static_cast<int64_t>(value);
  }
  Dims dims = x.dims;
  dims.insert(axis, depth);
  return SetOutput(c, Desc(values.dtype, dims));
}

// Row r of the result's last dims: the index as a position in [0, depth), or -1 when it names none.
int64_t Position(const void* indices, DType t, int64_t at, int64_t depth) {
  const char* element = static_cast<const char*>(indices) + at * static_cast<int64_t>(SizeOf(t));
  const double v = ReadElement(element, t);
  const double shifted = v < 0 ? v + static_cast<double>(depth) : v;
  return shifted >= 0 && shifted < static_cast<double>(depth) && shifted == std::floor(shifted)
             ? static_cast<int64_t>(shifted)
             : -1;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.dims[i];
  for (int i = axis; i < x.dims.rank(); ++i) inner *= x.dims[i];
  const kernels::CopyPlan fill(static_cast<int>(SizeOf(y.dtype)), {NumElements(y.dims)}, {0}, {1});
  const auto run = [outer, inner, fill, depth = y.dims[axis], elem = static_cast<int64_t>(SizeOf(y.dtype)),
                    index_type = x.dtype](const op::RunArgs& args) {
    const char* values = static_cast<const char*>(args.inputs[2]);
    char* out = static_cast<char*>(args.outputs[0]);
    fill.Run(values, out);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t k = Position(args.inputs[0], index_type, o * inner + i, depth);
        if (k >= 0) {
          std::memcpy(out + ((o * depth + k) * inner + i) * elem, values + elem, static_cast<size_t>(elem));
        }
      }
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("fill and set", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(OneHot) {
  def.infer = Infer;
  def.plan = Plan;
}
