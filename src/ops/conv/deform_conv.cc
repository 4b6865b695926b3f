#include <array>
#include <limits>
#include <utility>

#include "kernels/conv/deform.h"
#include "op/pointwise.h"
#include "ops/conv/conv_op.h"
#include "ops/conv/floats.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;
using ll = long long;

constexpr const char* kName = "DeformConv";
enum Input : uint8_t { kX, kW, kOffset, kB, kMask, kInputs };

const TensorDesc* InputAt(op::InputDescs inputs, size_t i) { return i < inputs.size() ? inputs[i] : nullptr; }

struct DeformCall {
  ConvCall conv;
  int64_t offset_groups = 1;
  int64_t channels = 1;  // of offset per value: offset_groups * kernel positions
  bool planes = false;
  bool mask_inside = false;  // the third part of offset
};

// `want` has sizes that are not known where it cannot say.
Status CheckDims(const char* input, const Dims& got, const Dims& want) {
  bool fits = got.rank() == want.rank();
  for (int i = 0; fits && i < want.rank(); ++i)
    fits = got[i] == want[i] || got[i] == kUnknownDim || want[i] == kUnknownDim;
  if (fits) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %s", kName, input, ToString(got).c_str(),
                         ToString(want).c_str());
}

Result<DeformCall> Resolve(op::InputDescs inputs, const op::Attrs& attrs) {
  const Dims &x = inputs[kX]->dims, &w = inputs[kW]->dims, &offset = inputs[kOffset]->dims;
  if (x.rank() != 4) {
    return InvalidArgument("%s: X has shape %s; allowed: rank 4 (N, C, H, W)", kName, ToString(x).c_str());
  }
  DeformCall call;
  OPSNN_ASSIGN_OR_RETURN(call.conv, ResolveConv(kName, false, x, w, attrs));
  call.offset_groups = attrs.Int("offset_group", 1);
  call.planes = attrs.Int("offset_planes", 0) != 0;
  if (call.offset_groups < 1 || (x[1] >= 0 && x[1] % call.offset_groups != 0)) {
    return InvalidArgument("%s: attribute offset_group is %lld; allowed: a divisor of the %lld channels of X",
                           kName, ll{call.offset_groups}, ll{x[1]});
  }
  constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max() - 1;
  int64_t pixels = 0;
  if (x[2] >= 0 && x[3] >= 0 && (__builtin_mul_overflow(x[2], x[3], &pixels) || pixels > kMostPixels)) {
    return InvalidArgument("%s: X has shape %s; allowed: up to 2^31 - 2 pixels", kName, ToString(x).c_str());
  }
  const Dims& out = call.conv.out;
  if (!IsKnown(w)) return call;
  if (__builtin_mul_overflow(call.offset_groups, w[2] * w[3], &call.channels)) {
    return InvalidArgument("%s: attribute offset_group is %lld; allowed: a divisor of the channels of X",
                           kName, ll{call.offset_groups});
  }
  const bool has_mask = InputAt(inputs, kMask) != nullptr;
  call.mask_inside = call.planes && !has_mask && offset.rank() == 4 && offset[1] == 3 * call.channels;
  OPSNN_RETURN_IF_ERROR(
      CheckDims("offset", offset, {x[0], (call.mask_inside ? 3 : 2) * call.channels, out[2], out[3]}));
  if (has_mask)
    OPSNN_RETURN_IF_ERROR(CheckDims("mask", inputs[kMask]->dims, {x[0], call.channels, out[2], out[3]}));
  if (const TensorDesc* b = InputAt(inputs, kB)) OPSNN_RETURN_IF_ERROR(CheckDims("B", b->dims, Dims{out[1]}));
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
