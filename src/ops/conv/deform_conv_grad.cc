#include <array>

#include "kernels/conv/deform/deform_grad.h"
#include "op/pointwise.h"
#include "ops/conv/deform_op.h"
#include "ops/conv/floats.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;

constexpr const char* kName = "DeformConvGrad";
enum Input : uint8_t { kX, kW, kOffset, kDy, kInputs };

Result<DeformCall> Resolve(op::InputDescs inputs, const op::Attrs& attrs) {
  OPSNN_ASSIGN_OR_RETURN(
      DeformCall call,
      ResolveDeform(kName, {inputs[kX]->dims, inputs[kW]->dims, inputs[kOffset]->dims}, true, true, attrs));
  OPSNN_RETURN_IF_ERROR(CheckDeformDims(kName, "dY", inputs[kDy]->dims, call.conv.out));
  return call;
}

Status InferDeformConvGrad(op::InferContext& c) {
  c.outputs.assign(2, *c.inputs[kX]);
  c.outputs[1] = *c.inputs[kOffset];
  for (TensorDesc& d : c.outputs) {
    const Dims dims = d.dims;
    const bool known = d.known_rank;
    d = TensorDesc();
    d.dtype = c.inputs[kX]->dtype, d.dims = dims, d.known_rank = known;
  }
  for (const TensorDesc* d : c.inputs)
    if (!d->known_rank) return OkStatus();
  const Result<DeformCall> call = Resolve(c.inputs, op::AttrsOf(c.attrs));
  return call.ok() ? OkStatus() : call.status();
}

class DeformConvGradKernel : public op::Kernel {
 public:
  DeformConvGradKernel(const op::PlanContext& c, const conv::ConvShape& s, const DeformCall& call)
      : call_(call), plan_(conv::PlanDeformGrad(s, call.offset_groups)) {
    bytes_ = plan_.workspace_bytes;
    for (size_t i = 0; i < kInputs; ++i) inputs_[i] = Floats(*c.inputs[i], &bytes_);
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = Floats(c.outputs[i], &bytes_);
  }
  Status Run(const op::RunArgs& args) const override;
  size_t workspace_bytes() const override { return bytes_; }
  std::string variant() const override { return plan_.Describe(); }

 private:
  DeformCall call_;
  conv::DeformGradPlan plan_;
  std::array<Floats, kInputs> inputs_;
  std::array<Floats, 2> outputs_;
  size_t bytes_ = 0;
};

Status DeformConvGradKernel::Run(const op::RunArgs& args) const {
  std::array<const float*, kInputs> in{};
  for (size_t i = 0; i < kInputs; ++i) in[i] = inputs_[i].Read(args.inputs[i], args);
  std::array<float*, 2> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = outputs_[i].Write(args.outputs[i], args);
  const int64_t plane = plan_.shape.out_plane(), part = call_.channels * plane,
                image = (call_.mask_inside ? 3 : 2) * part;
  conv::DeformGradArgs a;
  a.x = in[kX], a.w = in[kW], a.dy = in[kDy], a.workspace = args.workspace;
  a.right = {in[kOffset], image, plane}, a.down = {in[kOffset] + part, image, plane};
  a.dx = out[0];
  a.dright = {out[1], image, plane}, a.ddown = {out[1] + part, image, plane};
  if (call_.mask_inside) {
    a.mask = {in[kOffset] + 2 * part, image, plane};
    a.dmask = {out[1] + 2 * part, image, plane};
  }
  const vector::ScratchCheck scratch;
  conv::RunDeformGrad(plan_, a);
  OPSNN_RETURN_IF_ERROR(scratch.Check(kName));
  for (size_t i = 0; i < out.size(); ++i) outputs_[i].Finish(args.outputs[i], args);
  return OkStatus();
}

Result<op::KernelPtr> PlanDeformConvGrad(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(const DeformCall call, Resolve(c.inputs, attrs));
  OPSNN_ASSIGN_OR_RETURN(const conv::ConvShape s,
                         ShapeOfCall(kName, false, c.inputs[kX]->dims, c.inputs[kW]->dims, attrs));
  return op::KernelPtr(std::make_shared<DeformConvGradKernel>(c, s, call));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DeformConvGrad) {
  def.infer = [](op::InferContext& c) { return ops::InferDeformConvGrad(c); };
  def.plan = [](const op::PlanContext& c) { return ops::PlanDeformConvGrad(c); };
}
