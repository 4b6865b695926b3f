#include "ops/data/data_op.h"

OPSNN_DEFINE_OPERATOR(Size) {
  def.infer = [](op::InferContext& c) {
    const op::TensorDesc& x = *c.inputs[0];
    op::TensorDesc y = Desc(DType::kS64, {});
    if (x.known_rank && IsKnown(x.dims)) y.constant = HostTensor::From<int64_t>({}, {NumElements(x.dims)});
    return SetOutput(c, std::move(y));
  };
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    return MakeKernel("dims", [n = NumElements(c.inputs[0]->dims)](const op::RunArgs& args) {
      *static_cast<int64_t*>(args.outputs[0]) = n;
      return OkStatus();
    });
  };
}
