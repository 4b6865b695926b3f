#include "kernels/conv/grad/weight_grad.h"
#include "op/empty_kernel.h"
#include "op/pointwise.h"
#include "ops/conv/conv_op.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

constexpr const char* kName = "ConvWeightGrad";

// The dims of W, and a check that a Conv of x with it gives what dy is the gradient of.
Result<Dims> WeightDims(const Dims& x, const Dims& dy, const op::Attrs& attrs) {
  if (x.rank() < 3 || x.rank() > 5 || dy.rank() != x.rank()) {
    return InvalidArgument("%s: X has shape %s and dY %s; allowed: equal ranks from 3 to 5", kName,
                           ToString(x).c_str(), ToString(dy).c_str());
  }
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  if (static_cast<int>(kernel.size()) != x.rank() - 2) {
    return InvalidArgument(
        "%s: attribute kernel_shape has %zu values; allowed: %d, one per spatial dimension", kName,
        kernel.size(), x.rank() - 2);
  }
  const int64_t groups = attrs.Int("group", 1);
  if (groups < 1 || x[1] % groups != 0) {
    return InvalidArgument("%s: attribute group is %lld; allowed: a divisor of the %lld channels of X", kName,
                           static_cast<long long>(groups), static_cast<long long>(x[1]));
  }
  Dims w{dy[1], x[1] / groups};
  for (int64_t k : kernel) w.push_back(k);
  OPSNN_ASSIGN_OR_RETURN(const ConvCall call, ResolveConv(kName, false, x, w, attrs));
  if (!(call.out == dy)) {
    return InvalidArgument("%s: dY has shape %s; allowed: %s, the result of the convolution", kName,
                           ToString(dy).c_str(), ToString(call.out).c_str());
  }
  return w;
}

Status InferWeightGrad(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &dy = *c.inputs[1];
  op::TensorDesc w;
  w.dtype = x.dtype;
  if (!x.known_rank || !dy.known_rank || !IsKnown(x.dims) || !IsKnown(dy.dims)) {
    w.known_rank = false;
  } else {
    OPSNN_ASSIGN_OR_RETURN(w.dims, WeightDims(x.dims, dy.dims, op::AttrsOf(c.attrs)));
  }
  c.outputs.assign(1, w);
  return OkStatus();
}

class WeightGradKernel : public op::Kernel {
 public:
  explicit WeightGradKernel(const conv::ConvShape& s) : plan_(conv::PlanWeightGrad(s)) {}
  Status Run(const op::RunArgs& args) const override {
    const vector::ScratchCheck scratch;
    conv::RunWeightGrad(plan_, static_cast<const float*>(args.inputs[0]),
                        static_cast<const float*>(args.inputs[1]), static_cast<float*>(args.outputs[0]),
                        args.workspace);
    return scratch.Check("gradient of the weights");
  }
  size_t workspace_bytes() const override { return plan_.workspace_bytes; }
  std::string variant() const override { return plan_.Describe(); }

 private:
  conv::WeightGradPlan plan_;
};

Result<op::KernelPtr> PlanWeightGradient(const op::PlanContext& c) {
  for (const op::TensorDesc* d : {c.inputs[0], c.inputs[1], &c.outputs[0]}) {
    if (!d->IsContiguous()) {
      return Errorf(Code::kNotImplemented, "%s: a strided operand; implemented: contiguous ones", kName);
    }
  }
  if (NumElements(c.outputs[0].dims) == 0) return op::MakeEmptyKernel();
  OPSNN_ASSIGN_OR_RETURN(const conv::ConvShape s, ShapeOfCall(kName, false, c.inputs[0]->dims,
                                                              c.outputs[0].dims, op::AttrsOf(c.attrs)));
  return op::KernelPtr(std::make_shared<WeightGradKernel>(s));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ConvWeightGrad) {
  def.infer = [](op::InferContext& c) { return ops::InferWeightGrad(c); };
  def.plan = [](const op::PlanContext& c) { return ops::PlanWeightGradient(c); };
}
