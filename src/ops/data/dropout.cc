#include <cstring>

#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const op::TensorDesc* training = InputOrNull(c.inputs, 2);
  if (training != nullptr && training->constant != nullptr && ToDoubles(*training->constant).at(0) != 0) {
    return Errorf(Code::kNotImplemented, "Dropout: training_mode is true; allowed: false");
  }
  op::TensorDesc y = Desc(x.dtype, x.dims);
  y.known_rank = x.known_rank;
  c.outputs.assign(1, y);
  y.dtype = DType::kBool;
  if (c.num_outputs > 1) c.outputs.push_back(y);
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(op::KernelPtr copy, PlanView(c));
  if (c.outputs.size() < 2) return copy;
  const size_t mask_bytes = c.outputs[1].View(nullptr).bytes();
  const Move data = {kernels::CopyPlan(static_cast<int>(SizeOf(c.outputs[0].dtype)),
                                       {c.outputs[0].View(nullptr).size()}, {1}, {1})};
  const op::KernelPtr inner = MakeMovesKernel({data}, "view");
  return Staged(c, MakeKernel("copy and mask", [inner, mask_bytes](const op::RunArgs& args) {
                  if (args.outputs[1] != nullptr) std::memset(args.outputs[1], 1, mask_bytes);
                  return inner->Run(args);
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Dropout) {
  def.infer = Infer;
  def.plan = Plan;
  def.is_view = true;
}
