#include "ops/norm/group_norm.h"

#include <algorithm>

#include "op/declaration.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/norm/axes_norm.h"
#include "program/moments.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

using ll = long long;

Result<int64_t> Groups(const op::OpDef& def, CountGroups groups, const op::Attrs* attrs, const Dims& x) {
  OPSNN_RETURN_IF_ERROR(CheckRank(def.name.c_str(), def.declaration->inputs[0].name, x, 2, kMaxRank - 1));
  const int64_t channels = x[1];
  if (channels == kUnknownDim) return int64_t{1};
  const int64_t g = groups(op::AttrsOf(attrs), channels);
  if (g > 0 && channels % g == 0) return g;
  return InvalidArgument("%s: attribute num_groups is %lld for %lld channels; allowed: divisors of that",
                         def.name.c_str(), ll{op::AttrsOf(attrs).Int("num_groups", 0)}, ll{channels});
}

Status InferGroupNorm(const op::OpDef& def, CountGroups groups, op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return InferLikeInput(c);
  OPSNN_ASSIGN_OR_RETURN(const int64_t g, Groups(def, groups, c.attrs, x.dims));
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const op::TensorDesc& p = *c.inputs[i];
    if (!p.known_rank || !IsKnown(p.dims) || x.dims[1] == kUnknownDim) continue;
    if (p.dims == Dims{x.dims[1]} || p.dims == Dims{g}) continue;
    return InvalidArgument(
        "%s: %s has shape %s; allowed: [%lld], one value per channel, or [%lld], one per group",
        def.name.c_str(), def.declaration->inputs[i].name, opsnn::ToString(p.dims).c_str(), ll{x.dims[1]},
        ll{g});
  }
  return InferLikeInput(c);
}

SlotId AddInverse(ProgramBuilder& b, SlotId variance, double epsilon) {
  return b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, variance, 1, epsilon));
}

// Scale and shift are values of the row: one program does it all.
Program WholeProgram(ComputeType type, double epsilon) {
  ProgramBuilder b;
  const SlotId x = b.Input(type), scale = b.Input(type, true), shift = b.Input(type, true);
  const RowMoments m = AddRowMoments(b, x);
  const SlotId factor = b.Binary(StageOp::kMul, AddInverse(b, m.variance, epsilon), scale);
  b.Output(b.Binary(StageOp::kAdd, b.Binary(StageOp::kMul, m.centred, factor), shift));
  return std::move(b).Build();
}

// Scale and shift differ within a row: statistics first, then a pointwise program, a few images at a time so
// that the second one reads from the caches.
class GroupKernel : public op::Kernel {
 public:
  static Result<op::KernelPtr> Make(std::vector<op::KernelOperand> in, const TensorView& y, double epsilon) {
    constexpr int64_t kPassBytes = 512 << 10;  // half of the smallest private L2 in use
    auto k = std::make_shared<GroupKernel>();
    const ComputeType type = ComputeTypeOf(y.dtype);
    for (size_t i = 0; i < 3; ++i) k->in_[i] = BroadcastTo(in[i].view, y.dims);
    k->y_ = y;
    k->statistic_ = type == ComputeType::kF64 ? DType::kF64 : DType::kF32;
    const int64_t image = y.dims[0] > 0 ? static_cast<int64_t>(y.bytes()) / y.dims[0] : 0;
    k->images_ =
        std::clamp<int64_t>(kPassBytes / std::max<int64_t>(image, 1), 1, std::max<int64_t>(y.dims[0], 1));
    ProgramBuilder first, second;
    SlotId missed_by_mean;
    const RowMoments m = AddRowMoments(first, first.Input(type), &missed_by_mean);
    first.Output(m.mean);
    first.Output(missed_by_mean);
    first.Output(AddInverse(first, m.variance, epsilon));
    const SlotId x = second.Input(type), scale = second.Input(type), shift = second.Input(type),
                 mean = second.Input(type), missed = second.Input(type), inverse = second.Input(type);
    const SlotId centred = second.Binary(StageOp::kSub, second.Binary(StageOp::kSub, x, mean), missed);
    const SlotId normal = second.Binary(StageOp::kMul, centred, inverse);
    second.Output(second.Ternary(StageOp::kMulAdd, normal, scale, shift));
    OPSNN_ASSIGN_OR_RETURN(k->first_, vector::Compile(std::move(first).Build()));
    OPSNN_ASSIGN_OR_RETURN(k->second_, vector::Compile(std::move(second).Build()));
    return op::KernelPtr(std::move(k));
  }

  Status Run(const op::RunArgs& args) const override {
    if (y_.size() == 0) return OkStatus();
    for (int64_t n = 0; n < y_.dims[0]; n += images_) RunImages(n, std::min(images_, y_.dims[0] - n), args);
    return OkStatus();
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(kStatistics * images_ * y_.dims[1]) * SizeOf(statistic_);
  }
  std::string variant() const override { return "statistics, then a program"; }

 private:
  static constexpr int kStatistics = 3;  // mean, what its rounding misses, 1 / sqrt(variance + epsilon)

  static TensorView Images(TensorView v, void* data, int64_t first, int64_t count) {
    v.data = static_cast<char*>(data) + first * v.strides[0] * static_cast<int64_t>(SizeOf(v.dtype));
    v.dims[0] = count;
    return v;
  }

  void RunImages(int64_t first, int64_t count, const op::RunArgs& args) const {
    Dims per_group = Dims::Filled(y_.rank(), 1);
    per_group[0] = count;
    per_group[1] = y_.dims[1];
    TensorView statistics[kStatistics];
    for (int i = 0; i < kStatistics; ++i) {
      const int64_t at = i * count * y_.dims[1] * static_cast<int64_t>(SizeOf(statistic_));
      statistics[i] = TensorView::Contiguous(static_cast<char*>(args.workspace) + at, statistic_, per_group);
    }
    TensorView in[3 + kStatistics];
    for (int i = 0; i < 3; ++i) in[i] = Images(in_[i], args.inputs[i], first, count);
    vector::RunTensors(*first_, {in, 1}, statistics, y_.rank() - 2);
    for (int i = 0; i < kStatistics; ++i) in[3 + i] = BroadcastTo(statistics[i], in[0].dims);
    const TensorView out = Images(y_, args.outputs[0], first, count);
    vector::RunTensors(*second_, in, {&out, 1});
  }

  TensorView in_[3], y_;
  DType statistic_ = DType::kF32;
  int64_t images_ = 1;
  std::shared_ptr<const vector::CompiledProgram> first_, second_;
};

// (N, C, rest...) as (N, groups, C / groups, rest...).
TensorView InGroups(TensorView v, int64_t groups) {
  const int64_t size = groups > 0 ? v.dims[1] / groups : 0;
  v.dims.insert(2, size);
  v.strides.insert(2, v.strides[1]);
  v.dims[1] = groups;
  v.strides[1] *= size;
  return v;
}

Result<op::KernelPtr> PlanGroupNorm(const op::OpDef& def, CountGroups groups, const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int64_t g, Groups(def, groups, c.attrs, x.dims));
  const TensorView from = InGroups(x.View(nullptr), g), to = InGroups(c.outputs[0].View(nullptr), g);
  const int row_rank = from.rank() - 2;
  std::vector<op::KernelOperand> inputs = {{0, from}};
  bool per_row = true;
  for (int i = 1; i <= 2; ++i) {
    const TensorView p = c.inputs[static_cast<size_t>(i)]->View(nullptr);
    const bool per_group = p.dims[0] == g;
    per_row = per_row && per_group;
    TensorView v = p;
    v.dims = Dims::Filled(from.rank(), 1);
    v.strides = Dims::Filled(from.rank(), 0);
    v.dims[1] = g;
    v.strides[1] = p.strides[0] * (per_group ? 1 : from.dims[2]);
    v.dims[2] = per_group ? 1 : from.dims[2];
    v.strides[2] = per_group ? 0 : p.strides[0];
    inputs.push_back({i, v});
  }
  const double epsilon = op::AttrsOf(c.attrs).Float("epsilon", 1e-5);
  if (!per_row) return GroupKernel::Make(std::move(inputs), to, epsilon);
  return op::MakeProgramKernel(WholeProgram(ComputeTypeOf(x.dtype), epsilon), to.dims, std::move(inputs),
                               {{0, to}}, row_rank, "row program");
}

}  // namespace

void DefineGroupNorm(op::OpDef& def, CountGroups groups) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self, groups](op::InferContext& c) { return InferGroupNorm(*self, groups, c); };
  def.plan = [self, groups](const op::PlanContext& c) { return PlanGroupNorm(*self, groups, c); };
}

}  // namespace opsnn::ops
