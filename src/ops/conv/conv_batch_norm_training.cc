// Convolution with normalisation over the batch behind it: the statistics come from rows of the result that
// are still in the cache.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/int_math.h"
#include "kernels/conv/moments.h"
#include "op/pointwise.h"
#include "ops/conv/conv_op.h"
#include "ops/conv/floats.h"
#include "vector/run.h"
#include "vector/scratch_failures.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;
using ll = long long;

constexpr const char* kName = "ConvBatchNormTraining";
enum Input : uint8_t { kX, kW, kScale, kShift, kMean, kVar, kB, kInputs };

Status InferNormed(op::InferContext& c) {
  TensorDesc y, running;
  y.dtype = c.inputs[kX]->dtype;
  running.dtype = c.inputs[kMean]->dtype;
  const auto outputs = static_cast<size_t>(std::clamp(c.num_outputs, 1, 3));
  if (!c.inputs[kX]->known_rank || !c.inputs[kW]->known_rank) {
    y.known_rank = running.known_rank = false;
    c.outputs = {y, running, running};
    c.outputs.resize(outputs);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(const ConvCall call, ResolveConv(kName, false, c.inputs[kX]->dims,
                                                          c.inputs[kW]->dims, op::AttrsOf(c.attrs)));
  static constexpr const char* kNames[] = {"X", "W", "scale", "shift", "input_mean", "input_var", "B"};
  const int64_t channels = call.out[1];
  for (size_t i = kScale; i < std::min<size_t>(kInputs, c.inputs.size()); ++i) {
    const TensorDesc* p = c.inputs[i];
    if (!p || !p->known_rank || !IsKnown(p->dims) || channels == kUnknownDim || p->dims == Dims{channels})
      continue;
    return InvalidArgument("%s: %s has shape %s; allowed: [%lld], one value per output channel", kName,
                           kNames[i], ToString(p->dims).c_str(), ll{channels});
  }
  y.dims = call.out;
  running.dims = Dims{channels};
  c.outputs = {y, running, running};
  c.outputs.resize(outputs);
  return OkStatus();
}

class NormedKernel : public op::Kernel {
 public:
  static Result<op::KernelPtr> Make(const op::PlanContext& c);
  Status Run(const op::RunArgs& args) const override;
  size_t workspace_bytes() const override { return bytes_; }
  std::string variant() const override { return plan_.Describe() + ", statistics of its rows"; }

 private:
  size_t Reserve(int64_t floats) {
    constexpr size_t kLine = 64;
    const size_t at = RoundUp(bytes_, kLine);
    bytes_ = at + static_cast<size_t>(floats) * sizeof(float);
    return at;
  }
  static float* At(const op::RunArgs& args, size_t offset) {
    return reinterpret_cast<float*>(static_cast<char*>(args.workspace) + offset);
  }
  void Convolve(const std::array<const float*, kInputs>& in, float* y, const op::RunArgs& args) const;
  void Normalise(const std::array<const float*, kInputs>& in, const std::vector<double>& mean,
                 const std::vector<double>& variance, float* y, const op::RunArgs& args) const;

  conv::ConvPlan plan_;
  std::array<Floats, kInputs> inputs_;
  std::vector<Floats> outputs_;
  double epsilon_ = 0, momentum_ = 0;
  std::shared_ptr<const vector::CompiledProgram> apply_;  // the normalisation and what is fused behind it
  std::vector<TensorView> tail_;                          // operands of that, broadcast; no data yet
  size_t first_tail_ = 0;                                 // where those are in RunArgs::inputs
  size_t bytes_ = 0, packing_ = 0, moments_ = 0, factors_ = 0;
};

Result<op::KernelPtr> NormedKernel::Make(const op::PlanContext& c) {
  auto k = std::make_shared<NormedKernel>();
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(conv::ConvShape s,
                         ShapeOfCall(kName, false, c.inputs[kX]->dims, c.inputs[kW]->dims, attrs));
  s.x_blocked = s.y_blocked = false;
  s.winograd = static_cast<int>(attrs.Int("winograd", 0));
  k->plan_ = conv::PlanConv(s);
  k->bytes_ = k->plan_.workspace_bytes;
  for (size_t i = 0; i < std::min<size_t>(kInputs, c.inputs.size()); ++i)
    if (c.inputs[i]) k->inputs_[i] = Floats(*c.inputs[i], &k->bytes_);
  for (const TensorDesc& d : c.outputs) k->outputs_.emplace_back(d, &k->bytes_);
  k->packing_ = k->Reserve(k->plan_.packed_floats);
  k->moments_ = k->Reserve(conv::MomentFloats(k->plan_));
  constexpr int64_t kPerChannel = 3;  // mean, what its rounding misses, factor
  k->factors_ = k->Reserve(kPerChannel * s.oc);
  k->epsilon_ = attrs.Float("epsilon", 1e-5), k->momentum_ = attrs.Float("momentum", 0.9);
  ProgramBuilder apply;
  const SlotId v = apply.Input(), mean = apply.Input(), missed = apply.Input(), factor = apply.Input(),
               shift = apply.Input();
  const SlotId centred = apply.Binary(StageOp::kSub, apply.Binary(StageOp::kSub, v, mean), missed);
  apply.Output(apply.Ternary(StageOp::kMulAdd, centred, factor, shift));
  Program program = std::move(apply).Build();
  if (c.tail) {
    OPSNN_ASSIGN_OR_RETURN(program, Join(program, 0, c.tail->program, 0));
    k->first_tail_ = c.inputs.size();
    for (const TensorDesc* d : c.tail_inputs)
      k->tail_.push_back(BroadcastTo(d->View(nullptr), c.outputs[0].dims));
  }
  OPSNN_ASSIGN_OR_RETURN(k->apply_, vector::Compile(program));
  return op::KernelPtr(std::move(k));
}

void NormedKernel::Convolve(const std::array<const float*, kInputs>& in, float* y,
                            const op::RunArgs& args) const {
  conv::ConvArgs a;
  a.x = in[kX], a.y = y, a.plain_weights = in[kW], a.packing = At(args, packing_);
  a.workspace = args.workspace, a.moments = At(args, moments_), a.epilogue.bias = in[kB];
  conv::RunConv(plan_, a);
}

void NormedKernel::Normalise(const std::array<const float*, kInputs>& in, const std::vector<double>& mean,
                             const std::vector<double>& variance, float* y, const op::RunArgs& args) const {
  const Dims& dims = outputs_[0].dims();
  const int64_t channels = dims[1];
  float *const rounded = At(args, factors_), *const missed = rounded + channels,
               *const factor = missed + channels;
  for (int64_t o = 0; o < channels; ++o) {
    const auto at = static_cast<size_t>(o);
    rounded[o] = static_cast<float>(mean[at]);
    missed[o] = static_cast<float>(mean[at] - double{rounded[o]});
    factor[o] = static_cast<float>(double{in[kScale][o]} / std::sqrt(variance[at] + epsilon_));
  }
  Dims per_channel = Dims::Filled(dims.rank(), 1);
  per_channel[1] = channels;
  const auto operand = [&](const float* values) {
    return BroadcastTo(TensorView::Contiguous(const_cast<float*>(values), DType::kF32, per_channel), dims);
  };
  const TensorView v = TensorView::Contiguous(y, DType::kF32, dims);
  std::vector<TensorView> operands = {v, operand(rounded), operand(missed), operand(factor),
                                      operand(in[kShift])};
  for (size_t i = 0; i < tail_.size(); ++i) {
    operands.push_back(tail_[i]);
    operands.back().data = args.inputs[first_tail_ + i];
  }
  vector::RunTensors(*apply_, operands, {&v, 1});
}

Status NormedKernel::Run(const op::RunArgs& args) const {
  std::array<const float*, kInputs> in{};
  for (size_t i = 0; i < kInputs; ++i)
    if (inputs_[i].given()) in[i] = inputs_[i].Read(args.inputs[i], args);
  float* const y = outputs_[0].Write(args.outputs[0], args);
  const vector::ScratchCheck scratch;
  Convolve(in, y, args);
  OPSNN_RETURN_IF_ERROR(scratch.Check("convolution"));
  const auto channels = static_cast<size_t>(outputs_[0].dims()[1]);
  std::vector<double> statistics[2] = {std::vector<double>(channels), std::vector<double>(channels)};
  conv::JoinMoments(plan_, At(args, moments_), statistics[0].data(), statistics[1].data());
  for (size_t i = 1; i < outputs_.size(); ++i) {
    if (args.outputs[i] == nullptr) continue;
    float* const running = outputs_[i].Write(args.outputs[i], args);
    for (size_t o = 0; o < channels; ++o)
      running[o] = static_cast<float>(momentum_ * double{in[kMean + i - 1][o]} +
                                      (1 - momentum_) * statistics[i - 1][o]);
    outputs_[i].Finish(args.outputs[i], args);
  }
  if (NumElements(outputs_[0].dims()) == 0) return OkStatus();
  Normalise(in, statistics[0], statistics[1], y, args);
  outputs_[0].Finish(args.outputs[0], args);
  return OkStatus();
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ConvBatchNormTraining) {
  def.infer = ops::InferNormed;
  def.plan = ops::NormedKernel::Make;
}
