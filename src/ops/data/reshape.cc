#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Reshape";

Status BadShape(const std::vector<int64_t>& shape, const Dims& from, const char* why) {
  return InvalidArgument("%s: shape %s for an input of shape %s: %s", kOp, ToString(shape).c_str(),
                         opsnn::ToString(from).c_str(), why);
}

// The dims that `shape` means for an input of dims `from`; unknown where unknown input dims leave it open.
Result<Dims> Resolve(const std::vector<int64_t>& shape, const Dims& from, bool allow_zero) {
  if (shape.size() > kMaxRank) return BadShape(shape, from, "too many dims; allowed: at most 8");
  Dims dims;
  int inferred = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t d = shape[i];
    if (d < -1) return BadShape(shape, from, "a dim below -1; allowed: sizes, 0, and one -1");
    if (d == -1) {
      if (inferred >= 0) return BadShape(shape, from, "more than one -1; allowed: at most one");
      inferred = static_cast<int>(i);
      d = 1;
    } else if (d == 0 && !allow_zero) {
      if (static_cast<int>(i) >= from.rank()) {
        return BadShape(shape, from,
                        "a 0 keeps the input's dim, but there is none at its place; allowed: "
                        "0 in place of a dim of the input");
      }
      d = from[static_cast<int>(i)];
    }
    dims.push_back(d);
  }
  const bool open = !IsKnown(from) || !IsKnown(dims);
  if (open) {
    if (inferred >= 0) dims[inferred] = kUnknownDim;
    return dims;
  }
  const std::optional<int64_t> product = CheckedNumElements(dims);
  if (!product)
    return BadShape(shape, from, "the number of elements does not fit 63 bits; allowed: that of the input");
  const int64_t have = NumElements(from), want = *product;
  if (inferred < 0) {
    if (have == want) return dims;
    return BadShape(shape, from, "the numbers of elements differ; allowed: the same number");
  }
  if (want == 0 || have % want != 0) {
    return BadShape(shape, from,
                    "no size in place of -1 gives the same number of elements; allowed: other dims "
                    "whose product divides it");
  }
  dims[inferred] = have / want;
  return dims;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &shape = *c.inputs[1];
  if (shape.known_rank && shape.dims.rank() != 1) {
    return InvalidArgument("%s: shape has rank %d; allowed: 1", kOp, shape.dims.rank());
  }
  const auto values = ConstantInts(c.inputs, 1);
  if (values && x.known_rank) {
    const bool allow_zero = op::AttrsOf(c.attrs).Int("allowzero", 0) != 0;
    OPSNN_ASSIGN_OR_RETURN(const Dims dims, Resolve(*values, x.dims, allow_zero));
    return SetOutput(c, Desc(x.dtype, dims));
  }
  const int64_t rank =
      values ? static_cast<int64_t>(values->size()) : (shape.known_rank ? shape.dims[0] : kUnknownDim);
  if (rank == kUnknownDim) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, rank));
  Dims dims = Dims::Filled(static_cast<int>(rank), kUnknownDim);
  for (int i = 0; values && i < dims.rank(); ++i) dims[i] = (*values)[i] > 0 ? (*values)[i] : kUnknownDim;
  return SetOutput(c, Desc(x.dtype, dims));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Reshape) {
  def.infer = Infer;
  def.plan = PlanView;
  def.is_view = true;
}
