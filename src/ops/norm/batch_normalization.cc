#include <cmath>

#include "op/operator.h"
#include "op/pointwise.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

using op::InferContext;
using op::PlanContext;
using op::TensorDesc;
using ll = long long;

constexpr const char* kParams[] = {"scale", "B", "input_mean", "input_var"};

Status InferBatchNorm(InferContext& c) {
  if (op::AttrsOf(c.attrs).Int("training_mode", 0) != 0 || c.num_outputs > 1) {
    return Errorf(Code::kNotImplemented,
                  "BatchNormalization: training_mode %lld with %d outputs; implemented: training_mode 0 "
                  "with output Y",
                  ll{op::AttrsOf(c.attrs).Int("training_mode", 0)}, c.num_outputs);
  }
  const TensorDesc& x = *c.inputs[0];
  if (x.known_rank && x.dims.rank() < 2) {
    return InvalidArgument("BatchNormalization: X has shape %s; allowed: rank 2 or more (N, C, ...)",
                           ToString(x.dims).c_str());
  }
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const TensorDesc& p = *c.inputs[i];
    if (!p.known_rank || !x.known_rank) continue;
    const int64_t channels = x.dims[1];
    if (p.dims.rank() != 1 || (channels >= 0 && p.dims[0] >= 0 && p.dims[0] != channels)) {
      return InvalidArgument(
          "BatchNormalization: %s has shape %s; allowed: [%lld], one value per channel of X", kParams[i - 1],
          ToString(p.dims).c_str(), ll{channels});
    }
  }
  TensorDesc y;
  y.dtype = x.dtype;
  y.dims = x.dims;
  y.known_rank = x.known_rank;
  c.outputs.assign(1, y);
  return OkStatus();
}

// y = a[c] * x + b[c], with a and b worked out in the workspace.
class BatchNormKernel : public op::Kernel {
 public:
  Status Plan(const PlanContext& c) {
    const TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
    if (!(x.layout == y.layout)) {
      return Errorf(Code::kNotImplemented,
                    "BatchNormalization: X in layout %s and Y in %s; implemented: the same layout",
                    ToString(x.layout).c_str(), ToString(y.layout).c_str());
    }
    epsilon_ = op::AttrsOf(c.attrs).Float("epsilon", 1e-5);
    channels_ = x.dims[1];
    x_ = x.View(nullptr);
    y_ = y.View(nullptr);
    // The factors lie along the channels: axis 1, or axes 1 and 4 of a blocked image.
    factors_ = TensorView::Contiguous(nullptr, DType::kF32, Dims::Filled(x_.rank(), 1));
    factors_.dims[1] = x_.dims[1];
    if (x.layout.format == Format::kNC1HWC0 && x_.rank() == 5) factors_.dims[4] = x_.dims[4];
    if (x.layout.format == Format::kNHWC && x_.rank() == 4) {
      factors_.dims[1] = 1;
      factors_.dims[3] = channels_;
    }
    factors_.strides = ContiguousStrides(factors_.dims);
    for (size_t i = 0; i < 4; ++i) params_[i] = c.inputs[i + 1]->View(nullptr);
    ProgramBuilder b;
    const SlotId in = b.Input(), a = b.Input(), shift = b.Input();
    b.Output(b.Ternary(StageOp::kMulAdd, in, a, shift));
    OPSNN_ASSIGN_OR_RETURN(program_, vector::Compile(std::move(b).Build()));
    return OkStatus();
  }

  Status Run(const op::RunArgs& args) const override {
    if (y_.size() == 0) return OkStatus();
    const int64_t stored = factors_.size();
    float* a = static_cast<float*>(args.workspace);
    float* b = a + stored;
    float* raw = b + stored;
    for (size_t i = 0; i < 4; ++i) {
      TensorView from = params_[i];
      from.data = args.inputs[i + 1];
      vector::CopyConvert(
          from, TensorView::Contiguous(raw + static_cast<int64_t>(i) * channels_, DType::kF32, from.dims));
    }
    for (int64_t c = 0; c < stored; ++c) {
      if (c >= channels_) {
        a[c] = b[c] = 0.0f;
        continue;
      }
      const double factor = raw[c] / std::sqrt(static_cast<double>(raw[3 * channels_ + c]) + epsilon_);
      a[c] = static_cast<float>(factor);
      b[c] = static_cast<float>(raw[channels_ + c] - raw[2 * channels_ + c] * factor);
    }
    TensorView in[3] = {x_, factors_, factors_};
    TensorView out = y_;
    in[0].data = args.inputs[0];
    in[1].data = a;
    in[2].data = b;
    out.data = args.outputs[0];
    for (int i = 1; i < 3; ++i) in[i] = BroadcastTo(in[i], x_.dims);
    vector::RunTensors(*program_, in, {&out, 1});
    return OkStatus();
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(2 * factors_.size() + 4 * channels_) * sizeof(float);
  }
  std::string variant() const override { return "batch norm: scale and shift per channel"; }

 private:
  double epsilon_ = 0;
  int64_t channels_ = 0;
  TensorView x_, y_, factors_, params_[4];
  std::shared_ptr<const vector::CompiledProgram> program_;
};

// f64: the definition as a program over operands along the channels.
Result<op::KernelPtr> PlanF64(const PlanContext& c) {
  ProgramBuilder b;
  SlotId in[5];
  std::vector<op::KernelOperand> inputs;
  const TensorView x = c.inputs[0]->View(nullptr);
  for (int i = 0; i < 5; ++i) {
    const TensorDesc& d = *c.inputs[static_cast<size_t>(i)];
    in[i] = b.Input(ComputeTypeOf(d.dtype));
    TensorView v = d.View(nullptr);
    if (i > 0) {
      const int64_t stride = v.strides[0];
      v.dims = Dims::Filled(x.rank(), 1);
      v.strides = Dims::Filled(x.rank(), 0);
      v.dims[1] = x.dims[1];
      v.strides[1] = stride;
    }
    inputs.push_back({i, v});
  }
  for (SlotId& s : in) s = b.Convert(s, ComputeType::kF64);
  const double epsilon = op::AttrsOf(c.attrs).Float("epsilon", 1e-5);
  const SlotId inverse = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, in[4], 1, epsilon));
  const SlotId centred = b.Binary(StageOp::kSub, in[0], in[3]);
  b.Output(b.Ternary(StageOp::kMulAdd, b.Binary(StageOp::kMul, centred, inverse), in[1], in[2]));
  return op::MakeProgramKernel(std::move(b).Build(), x.dims, std::move(inputs),
                               {{0, c.outputs[0].View(nullptr)}}, 0, "program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(BatchNormalization) {
  def.infer = InferBatchNorm;
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    if (c.inputs[0]->dtype == DType::kF64 && c.inputs[0]->layout == Layout{} &&
        c.outputs[0].layout == Layout{}) {
      return PlanF64(c);
    }
    auto kernel = std::make_shared<BatchNormKernel>();
    OPSNN_RETURN_IF_ERROR(kernel->Plan(c));
    return op::KernelPtr(std::move(kernel));
  };
}
