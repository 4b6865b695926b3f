#include "ops/norm/row_norm.h"

#include "op/declaration.h"
#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

Result<int> Axis(const op::OpDef& def, const op::Attrs* attrs, int rank) {
  auto axis = NormalizeAxis(op::AttrsOf(attrs).Int("axis", -1), rank);
  return axis.ok() ? axis : Result<int>(axis.status().WithContext(def.name + ": attribute axis"));
}

}  // namespace

bool AllF32(op::InputDescs inputs) {
  for (const op::TensorDesc* x : inputs) {
    if (x != nullptr && ComputeTypeOf(x->dtype) != ComputeType::kF32) return false;
  }
  return true;
}

Status InferRowNorm(const op::OpDef& def, op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  op::TensorDesc y, statistics;
  y.dtype = x.dtype;
  y.dims = x.dims;
  y.known_rank = statistics.known_rank = x.known_rank;
  statistics.dtype = x.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (x.known_rank) {
    OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(def, c.attrs, x.dims.rank()));
    Dims normalised;
    statistics.dims = x.dims;
    for (int i = axis; i < x.dims.rank(); ++i) {
      normalised.push_back(x.dims[i]);
      statistics.dims[i] = 1;
    }
    for (size_t i = 1; i < c.inputs.size(); ++i) {
      const op::TensorDesc* p = c.inputs[i];
      if (p == nullptr || !p->known_rank || !IsKnown(p->dims) || !IsKnown(normalised)) continue;
      auto dims = BroadcastDims(normalised, p->dims);
      if (dims.ok() && dims.value() == normalised) continue;
      return InvalidArgument("%s: input %s has shape %s; allowed: %s, the dims of X from axis %d on",
                             def.name.c_str(), def.declaration->inputs[i].name, ToString(p->dims).c_str(),
                             ToString(normalised).c_str(), axis);
    }
  }
  c.outputs.assign(static_cast<size_t>(c.num_outputs), statistics);
  c.outputs[0] = y;
  return OkStatus();
}

Result<op::KernelPtr> PlanRowNorm(const op::OpDef& def, const op::PlanContext& c, const Program& program) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(def, c.attrs, x.dims.rank()));
  std::vector<op::KernelOperand> inputs, outputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i] != nullptr) inputs.push_back({static_cast<int>(i), c.inputs[i]->View(nullptr)});
  }
  for (size_t i = 0; i < c.outputs.size(); ++i)
    outputs.push_back({static_cast<int>(i), c.outputs[i].View(nullptr)});
  return op::MakeProgramKernel(program, x.dims, std::move(inputs), std::move(outputs), x.dims.rank() - axis,
                               "row program");
}

}  // namespace opsnn::ops
