#include <array>
#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ConstantOfShape";

Status Infer(op::InferContext& c) {
  const ConstTensor value = op::AttrsOf(c.attrs).Tensor("value");
  if (value != nullptr && value->size() != 1) {
    return InvalidArgument("%s: attribute value has %lld elements; allowed: 1", kOp,
                           static_cast<long long>(value->size()));
  }
  const DType dtype = value ? value->dtype() : DType::kF32;
  const auto shape = ConstantInts(c.inputs, 0);
  if (!shape) {
    const op::TensorDesc& s = *c.inputs[0];
    if (!s.known_rank || s.dims.rank() != 1 || s.dims[0] == kUnknownDim)
      return SetOutput(c, UnknownRank(dtype));
    OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, s.dims[0]));
    return SetOutput(c, Desc(dtype, Dims::Filled(static_cast<int>(s.dims[0]), kUnknownDim)));
  }
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, static_cast<int64_t>(shape->size())));
  for (const int64_t d : *shape) {
    if (d < 0) return InvalidArgument("%s: input is %s; allowed: sizes >= 0", kOp, ToString(*shape).c_str());
  }
  const Dims dims{std::span<const int64_t>(*shape)};
  if (!CheckedNumElements(dims)) {
    return InvalidArgument("%s: input is %s; allowed: shapes whose size fits 63 bits", kOp,
                           ToString(*shape).c_str());
  }
  return SetOutput(c, Desc(dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView to = c.outputs[0].View(nullptr);
  std::array<char, 8> element = {};
  if (const ConstTensor value = op::AttrsOf(c.attrs).Tensor("value")) {
    std::memcpy(element.data(), value->data(), value->bytes());
  }
  const kernels::CopyPlan fill(static_cast<int>(SizeOf(to.dtype)), to.dims, Dims::Filled(to.rank(), 0),
                               to.strides);
  return MakeKernel("fill", [element, fill](const op::RunArgs& args) {
    fill.Run(element.data(), args.outputs[0]);
    return OkStatus();
  });
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ConstantOfShape) {
  def.infer = Infer;
  def.plan = Plan;
}
