#include "ops/norm/group_norm.h"

#include "op/declaration.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/norm/axes_norm.h"

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

// Scale and shift are values of the row where each group is one channel: they are then applied as factors.
Program GroupProgram(ComputeType type, double epsilon, bool per_row) {
  ProgramBuilder b;
  const SlotId x = b.Input(type), scale = b.Input(type, per_row), shift = b.Input(type, per_row);
  const SlotId centred = b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMean, x));
  const SlotId variance = b.Unary(StageOp::kRowMean, b.Unary(StageOp::kSquare, centred));
  const SlotId inverse = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, variance, 1, epsilon));
  const SlotId y = per_row ? b.Binary(StageOp::kMul, centred, b.Binary(StageOp::kMul, inverse, scale))
                           : b.Binary(StageOp::kMul, b.Binary(StageOp::kMul, centred, inverse), scale);
  b.Output(b.Binary(StageOp::kAdd, y, shift));
  return std::move(b).Build();
}

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
  const ComputeType type = ComputeTypeOf(x.dtype);
  return op::MakeProgramKernel(GroupProgram(type, epsilon, per_row), to.dims, std::move(inputs), {{0, to}},
                               row_rank, "row program");
}

}  // namespace

void DefineGroupNorm(op::OpDef& def, CountGroups groups) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self, groups](op::InferContext& c) { return InferGroupNorm(*self, groups, c); };
  def.plan = [self, groups](const op::PlanContext& c) { return PlanGroupNorm(*self, groups, c); };
}

}  // namespace opsnn::ops
