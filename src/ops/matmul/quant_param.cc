#include "base/quant_param_bits.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QuantParam";

bool HasOffset(op::InputDescs inputs) { return inputs.size() > 1 && inputs[1] != nullptr; }

Status Infer(op::InferContext& c) {
  Dims dims = c.inputs[0]->dims;
  if (HasOffset(c.inputs)) {
    const Dims& other = c.inputs[1]->dims;
    if (NumElements(dims) == 1 && other.rank() == dims.rank()) {
      dims = other;
    } else if (!(other == dims) && NumElements(other) != 1) {
      return InvalidArgument("%s: offset has shape %s; allowed: one value or %s, the shape of scale", kOp,
                             opsnn::ToString(other).c_str(), opsnn::ToString(dims).c_str());
    }
  }
  return SetOutput(c, Desc(DType::kS64, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const int64_t n = NumElements(c.outputs[0].dims);
  const int64_t scale_step = NumElements(c.inputs[0]->dims) == 1 ? 0 : 1;
  const bool has_offset = HasOffset(c.inputs);
  const int64_t offset_step = has_offset && NumElements(c.inputs[1]->dims) != 1 ? 1 : 0;
  const bool rounds = op::AttrsOf(c.attrs).Int("round_scale", 0) != 0;
  return Staged(c, MakeKernel("pack", [=](const op::RunArgs& args) {
                  const auto* scale = static_cast<const float*>(args.inputs[0]);
                  const auto* offset = has_offset ? static_cast<const float*>(args.inputs[1]) : nullptr;
                  auto* y = static_cast<int64_t*>(args.outputs[0]);
                  for (int64_t i = 0; i < n; ++i) {
                    y[i] = PackQuantParam(scale[i * scale_step], offset ? offset + i * offset_step : nullptr,
                                          rounds);
                  }
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QuantParam) {
  def.infer = Infer;
  def.plan = Plan;
}
