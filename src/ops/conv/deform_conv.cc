#include <array>
#include <utility>

#include "kernels/conv/deform/deform.h"
#include "op/pointwise.h"
#include "ops/conv/deform_op.h"
#include "ops/conv/floats.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;

constexpr const char* kName = "DeformConv";
enum Input : uint8_t { kX, kW, kOffset, kB, kMask, kInputs };

const TensorDesc* InputAt(op::InputDescs inputs, size_t i) { return i < inputs.size() ? inputs[i] : nullptr; }

Result<DeformCall> Resolve(op::InputDescs inputs, const op::Attrs& attrs) {
  const bool planes = attrs.Int("offset_planes", 0) != 0, has_mask = InputAt(inputs, kMask) != nullptr;
  OPSNN_ASSIGN_OR_RETURN(DeformCall call,
                         ResolveDeform(kName, {inputs[kX]->dims, inputs[kW]->dims, inputs[kOffset]->dims},
                                       planes, planes && !has_mask, attrs));
  if (!IsKnown(inputs[kW]->dims)) return call;
  const Dims& out = call.conv.out;
  if (has_mask)
    OPSNN_RETURN_IF_ERROR(CheckDeformDims(kName, "mask", inputs[kMask]->dims,
                                          {inputs[kX]->dims[0], call.channels, out[2], out[3]}));
  if (const TensorDesc* b = InputAt(inputs, kB))
    OPSNN_RETURN_IF_ERROR(CheckDeformDims(kName, "B", b->dims, Dims{out[1]}));
  return call;
}

Dims ColumnDims(const Dims& x, const Dims& w, const Dims& out) {
  const auto times = [](int64_t a, int64_t b) { return a < 0 || b < 0 ? kUnknownDim : a * b; };
  return {x[0], x[1], times(out[2], w[2]), times(out[3], w[3])};
}

Status InferDeformConv(op::InferContext& c) {
  TensorDesc y;
  y.dtype = c.inputs[kX]->dtype;
  bool known = true;
  for (const TensorDesc* d : c.inputs) known = known && (!d || d->known_rank);
  c.outputs.assign(static_cast<size_t>(c.num_outputs), y);
  if (!known) {
    for (TensorDesc& d : c.outputs) d.known_rank = false;
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const DeformCall call, Resolve(c.inputs, op::AttrsOf(c.attrs)));
  c.outputs[0].dims = call.conv.out;
  if (c.outputs.size() > 1)
    c.outputs[1].dims = ColumnDims(c.inputs[kX]->dims, c.inputs[kW]->dims, call.conv.out);
  return OkStatus();
}

class DeformConvKernel : public op::Kernel {
 public:
  DeformConvKernel(const op::PlanContext& c, const conv::ConvShape& s, const DeformCall& call)
      : call_(call), plan_(conv::PlanDeform(s, call.offset_groups)) {
    bytes_ = plan_.workspace_bytes;
    for (size_t i = 0; i < kInputs; ++i)
      if (const TensorDesc* d = InputAt(c.inputs, i)) inputs_[i] = Floats(*d, &bytes_);
    for (const TensorDesc& d : c.outputs) outputs_.emplace_back(d, &bytes_);
  }
  Status Run(const op::RunArgs& args) const override;
  size_t workspace_bytes() const override { return bytes_; }
  std::string variant() const override { return plan_.Describe(); }

 private:
  DeformCall call_;
  conv::DeformPlan plan_;
  std::array<Floats, kInputs> inputs_;
  std::vector<Floats> outputs_;
  size_t bytes_ = 0;
};

Status DeformConvKernel::Run(const op::RunArgs& args) const {
  std::array<const float*, kInputs> in{};
  for (size_t i = 0; i < kInputs; ++i)
    if (inputs_[i].given()) in[i] = inputs_[i].Read(args.inputs[i], args);
  conv::DeformArgs a;
  a.x = in[kX], a.w = in[kW], a.bias = in[kB], a.workspace = args.workspace;
  const int64_t plane = plan_.shape.out_plane(), part = call_.channels * plane;
  if (call_.planes) {
    const int64_t image = (call_.mask_inside ? 3 : 2) * part;
    a.dx = {in[kOffset], image, plane}, a.dy = {in[kOffset] + part, image, plane};
    if (call_.mask_inside) a.mask = {in[kOffset] + 2 * part, image, plane};
  } else {
    a.dy = {in[kOffset], 2 * part, 2 * plane}, a.dx = {in[kOffset] + plane, 2 * part, 2 * plane};
  }
  if (in[kMask]) a.mask = {in[kMask], part, plane};
  std::array<float*, 2> out{};
  for (size_t i = 0; i < outputs_.size(); ++i) out[i] = outputs_[i].Write(args.outputs[i], args);
  a.y = out[0], a.columns = out[1];
  conv::RunDeform(plan_, a);
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].Finish(args.outputs[i], args);
  return OkStatus();
}

Result<op::KernelPtr> PlanDeformConv(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(const DeformCall call, Resolve(c.inputs, attrs));
  OPSNN_ASSIGN_OR_RETURN(const conv::ConvShape s,
                         ShapeOfCall(kName, false, c.inputs[kX]->dims, c.inputs[kW]->dims, attrs));
  return op::KernelPtr(std::make_shared<DeformConvKernel>(c, s, call));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DeformConv) {
  def.infer = [](op::InferContext& c) { return ops::InferDeformConv(c); };
  def.plan = [](const op::PlanContext& c) { return ops::PlanDeformConv(c); };
}
