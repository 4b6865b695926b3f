#include "base/quant_param_bits.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

Status InferValues(op::InferContext& c) {
  for (int i = 0; i < c.num_outputs; ++i) c.outputs.push_back(Desc(DType::kF32, c.inputs[0]->dims));
  return OkStatus();
}

Result<op::KernelPtr> PlanValues(const op::PlanContext& c) {
  const int64_t n = NumElements(c.outputs[0].dims);
  const bool has_offset = c.outputs.size() > 1;
  return Staged(c, MakeKernel("unpack", [=](const op::RunArgs& args) {
                  const auto* x = static_cast<const int64_t*>(args.inputs[0]);
                  auto* scale = static_cast<float*>(args.outputs[0]);
                  auto* offset = has_offset ? static_cast<float*>(args.outputs[1]) : nullptr;
                  for (int64_t i = 0; i < n; ++i) {
                    scale[i] = ScaleOfQuantParam(x[i]);
                    if (offset) offset[i] = OffsetOfQuantParam(x[i]);
                  }
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QuantParamValues) {
  def.infer = InferValues;
  def.plan = PlanValues;
}
