#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Transpose";

Result<Dims> Permutation(const op::Attrs* attrs, int rank) {
  Dims perm = Dims::Filled(rank, 0);
  const auto given = op::AttrsOf(attrs).Ints("perm");
  if (!op::AttrsOf(attrs).Has("perm")) {
    for (int i = 0; i < rank; ++i) perm[i] = rank - 1 - i;
    return perm;
  }
  bool seen[kMaxRank] = {};
  bool good = static_cast<int>(given.size()) == rank;
  for (int i = 0; good && i < rank; ++i) {
    good = given[i] >= 0 && given[i] < rank && !seen[given[i]];
    if (good) seen[perm[i] = given[i]] = true;
  }
  if (good) return perm;
  return InvalidArgument("%s: attribute perm is %s for an input of rank %d; allowed: a permutation of 0..%d",
                         kOp, ToString(given).c_str(), rank, rank - 1);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const Dims perm, Permutation(c.attrs, x.dims.rank()));
  Dims dims = x.dims;
  for (int i = 0; i < dims.rank(); ++i) dims[i] = x.dims[static_cast<int>(perm[i])];
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  OPSNN_ASSIGN_OR_RETURN(const Dims perm, Permutation(c.attrs, from.rank()));
  Dims strides = from.strides;
  for (int i = 0; i < from.rank(); ++i) strides[i] = from.strides[static_cast<int>(perm[i])];
  Move m;
  m.plan = kernels::CopyPlan(static_cast<int>(SizeOf(from.dtype)), to.dims, strides, to.strides);
  return MakeMovesKernel({m});
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Transpose) {
  def.infer = Infer;
  def.plan = Plan;
}
