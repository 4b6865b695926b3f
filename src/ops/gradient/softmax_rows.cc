#include "ops/gradient/softmax_rows.h"

#include <algorithm>

#include "op/declaration.h"
#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

// A scalar is a row of one element.
Result<int> Axis(const op::OpDef& def, const op::Attrs* attrs, int rank) {
  auto axis = NormalizeAxis(op::AttrsOf(attrs).Int("axis", -1), std::max(rank, 1));
  return axis.ok() ? axis : Result<int>(axis.status().WithContext(def.name + ": attribute axis"));
}

Status InferRows(const op::OpDef& def, op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(Axis(def, c.attrs, x.dims.rank()).status());
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.inputs[i]->dims == x.dims) continue;
    return InvalidArgument("%s: input %s has shape %s; allowed: %s, the shape of input %s", def.name.c_str(),
                           def.declaration->inputs[i].name, ToString(c.inputs[i]->dims).c_str(),
                           ToString(x.dims).c_str(), def.declaration->inputs[0].name);
  }
  op::TensorDesc y;
  y.dtype = x.dtype;
  y.dims = x.dims;
  c.outputs.assign(1, y);
  return OkStatus();
}

// The same tensor with `axis` last; one that lacks the axis is per row.
TensorView AxisLast(TensorView v, int axis, int rank) {
  int64_t size = 1, stride = 0;
  if (v.rank() == rank && rank > 0) {
    size = v.dims[axis], stride = v.strides[axis];
    v.dims.erase(axis);
    v.strides.erase(axis);
  }
  v.dims.push_back(size);
  v.strides.push_back(stride);
  return v;
}

}  // namespace

void DefineSoftmaxRows(op::OpDef& def, std::function<void(ProgramBuilder&, ComputeType)> build) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](op::InferContext& c) { return InferRows(*self, c); };
  def.plan = [self, build](const op::PlanContext& c) -> Result<op::KernelPtr> {
    const int rank = c.inputs[0]->dims.rank();
    OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(*self, c.attrs, rank));
    ProgramBuilder b;
    build(b, ComputeTypeOf(c.inputs[0]->dtype));
    std::vector<op::KernelOperand> inputs, outputs;
    for (size_t i = 0; i < c.inputs.size(); ++i)
      inputs.push_back({static_cast<int>(i), AxisLast(c.inputs[i]->View(nullptr), axis, rank)});
    for (size_t i = 0; i < c.outputs.size(); ++i)
      outputs.push_back({static_cast<int>(i), AxisLast(c.outputs[i].View(nullptr), axis, rank)});
    return op::MakeProgramKernel(std::move(b).Build(), inputs[0].view.dims, inputs, outputs, 1,
                                 "row program");
  };
}

}  // namespace opsnn::ops
