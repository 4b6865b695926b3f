#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/norm/axes_norm.h"
#include "program/moments.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "BatchNormalizationTraining";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (x.known_rank) OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, kMaxRank));
  for (size_t i = 1; i < 5; ++i) {
    const op::TensorDesc& p = *c.inputs[i];
    if (!p.known_rank || !x.known_rank || !IsKnown(p.dims) || x.dims[1] == kUnknownDim) continue;
    if (p.dims == Dims{x.dims[1]}) continue;
    return InvalidArgument("%s: input %zu has shape %s; allowed: [%lld], one value per channel of X", kOp, i,
                           opsnn::ToString(p.dims).c_str(), static_cast<long long>(x.dims[1]));
  }
  const size_t outputs = static_cast<size_t>(std::clamp(c.num_outputs, 1, 3));
  op::TensorDesc y = Desc(x.dtype, x.dims);
  y.known_rank = x.known_rank;
  const op::TensorDesc &mean = *c.inputs[3], &var = *c.inputs[4];
  c.outputs = {y, Desc(mean.dtype, mean.dims), Desc(var.dtype, var.dims)};
  c.outputs.resize(outputs);
  return OkStatus();
}

// A vector of values per channel as an operand of X with the channels first and all else as 1.
TensorView PerChannel(const TensorView& p, int rank) {
  TensorView v = p;
  v.dims = Dims::Filled(rank, 1);
  v.strides = Dims::Filled(rank, 0);
  v.dims[0] = p.dims[0];
  v.strides[0] = p.strides[0];
  return v;
}

class TrainingKernel : public op::Kernel {
 public:
  static Result<op::KernelPtr> Make(const op::PlanContext& c) {
    auto k = std::make_shared<TrainingKernel>();
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    std::vector<int> others;  // all axes but the channels
    for (int i = 0; i < c.inputs[0]->dims.rank(); ++i) {
      if (i != 1) others.push_back(i);
    }
    k->x_ = AxesLast(c.inputs[0]->View(nullptr), others);
    k->y_ = AxesLast(c.outputs[0].View(nullptr), others);
    for (size_t i = 0; i < 4; ++i) k->params_[i] = PerChannel(c.inputs[i + 1]->View(nullptr), k->x_.rank());
    for (size_t i = 1; i < c.outputs.size(); ++i)
      k->running_.push_back(PerChannel(c.outputs[i].View(nullptr), k->x_.rank()));
    const ComputeType type = ComputeTypeOf(c.inputs[0]->dtype);
    k->statistic_ = type == ComputeType::kF64 ? DType::kF64 : DType::kF32;

    ProgramBuilder rows, mix, apply;
    SlotId missed_by_mean;
    const RowMoments moments = AddRowMoments(rows, rows.Input(type), &missed_by_mean);
    rows.Output(moments.mean);
    rows.Output(moments.variance);
    rows.Output(missed_by_mean);
    const double momentum = attrs.Float("momentum", 0.9);
    const SlotId before = mix.Input(ComputeTypeOf(c.inputs[3]->dtype)), now = mix.Input(type);
    mix.Output(mix.Binary(StageOp::kAdd, mix.Unary(StageOp::kAffine, mix.Convert(before, type), momentum, 0),
                          mix.Unary(StageOp::kAffine, now, 1 - momentum, 0)));
    const SlotId in = apply.Input(type), m = apply.Input(type), v = apply.Input(type),
                 scale = apply.Input(ComputeTypeOf(c.inputs[1]->dtype)),
                 shift = apply.Input(ComputeTypeOf(c.inputs[2]->dtype)), missed = apply.Input(type);
    const SlotId inverse =
        apply.Unary(StageOp::kRsqrt, apply.Unary(StageOp::kAffine, v, 1, attrs.Float("epsilon", 1e-5)));
    const SlotId centred = apply.Binary(StageOp::kSub, apply.Binary(StageOp::kSub, in, m), missed);
    const SlotId normal = apply.Binary(StageOp::kMul, centred, inverse);
    apply.Output(
        apply.Ternary(StageOp::kMulAdd, normal, apply.Convert(scale, type), apply.Convert(shift, type)));
    OPSNN_ASSIGN_OR_RETURN(k->rows_, vector::Compile(std::move(rows).Build()));
    OPSNN_ASSIGN_OR_RETURN(k->blend_, vector::Compile(std::move(mix).Build()));
    OPSNN_ASSIGN_OR_RETURN(k->apply_, vector::Compile(std::move(apply).Build()));
    return op::KernelPtr(std::move(k));
  }

  Status Run(const op::RunArgs& args) const override {
    TensorView x = x_, y = y_, statistics[kStatistics];
    x.data = args.inputs[0];
    y.data = args.outputs[0];
    const int64_t channels = x_.dims[0];
    for (int i = 0; i < kStatistics; ++i) {
      const int64_t at = i * channels * static_cast<int64_t>(SizeOf(statistic_));
      Dims dims = Dims::Filled(x_.rank(), 1);
      dims[0] = channels;
      statistics[i] = TensorView::Contiguous(static_cast<char*>(args.workspace) + at, statistic_, dims);
    }
    vector::RunTensors(*rows_, {&x, 1}, statistics, x_.rank() - 1);
    for (size_t i = 0; i < running_.size(); ++i) {
      if (args.outputs[i + 1] == nullptr) continue;
      TensorView in[2] = {params_[i + 2], statistics[i]}, out = running_[i];
      in[0].data = args.inputs[i + 3];
      out.data = args.outputs[i + 1];
      vector::RunTensors(*blend_, in, {&out, 1});
    }
    if (x_.size() == 0) return OkStatus();
    TensorView in[6] = {x, statistics[0], statistics[1], params_[0], params_[1], statistics[2]};
    in[3].data = args.inputs[1];
    in[4].data = args.inputs[2];
    for (int i = 1; i < 6; ++i) in[i] = BroadcastTo(in[i], x_.dims);
    vector::RunTensors(*apply_, in, {&y, 1});
    return OkStatus();
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(kStatistics * x_.dims[0]) * SizeOf(statistic_);
  }
  std::string variant() const override { return "statistics, then a program"; }

 private:
  static constexpr int kStatistics = 3;  // mean, variance, what the mean's rounding misses

  TensorView x_, y_, params_[4];
  std::vector<TensorView> running_;
  DType statistic_ = DType::kF32;
  std::shared_ptr<const vector::CompiledProgram> rows_, blend_, apply_;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(BatchNormalizationTraining) {
  def.infer = Infer;
  def.plan = TrainingKernel::Make;
}
