#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Tile";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  const auto repeats = ConstantInts(c.inputs, 1);
  if (!repeats) return SetOutput(c, Desc(x.dtype, Dims::Filled(x.dims.rank(), kUnknownDim)));
  bool good = static_cast<int>(repeats->size()) == x.dims.rank();
  for (const int64_t r : *repeats) good = good && r >= 0;
  if (!good) {
    return InvalidArgument("%s: repeats is %s for an input of rank %d; allowed: one count >= 0 per axis", kOp,
                           ToString(*repeats).c_str(), x.dims.rank());
  }
  Dims dims = x.dims;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == kUnknownDim) continue;
    if (__builtin_mul_overflow(dims[i], (*repeats)[static_cast<size_t>(i)], &dims[i])) {
      return InvalidArgument("%s: repeats is %s for an input of shape %s; allowed: sizes that fit 63 bits",
                             kOp, ToString(*repeats).c_str(), opsnn::ToString(x.dims).c_str());
    }
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

// One copy whose axes are (repeat, position) for every repeated axis. Beyond the rank that Dims holds, the
// outermost repeats become copies of their own.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, RequireInts(kOp, "repeats", c.inputs, 1));
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  if (to.size() == 0) return MakeMovesKernel({});
  const auto e = static_cast<int64_t>(SizeOf(from.dtype));
  Dims dims, src, dst;
  struct Loop {
    int64_t count, bytes;
  };
  std::vector<Loop> loops;
  for (int i = from.rank() - 1; i >= 0; --i) {  // innermost first; order does not matter to CopyPlan
    const int64_t r = repeats[static_cast<size_t>(i)], n = from.dims[i];
    const int axes_left = i;  // each of them wants at least one place
    if (n != 1 || r == 1) {
      dims.push_back(n);
      src.push_back(from.strides[i]);
      dst.push_back(to.strides[i]);
    }
    if (r == 1) continue;
    if (dims.rank() + axes_left < kMaxRank) {
      dims.push_back(r);
      src.push_back(0);
      dst.push_back(n * to.strides[i]);
    } else {
      loops.push_back({r, n * to.strides[i] * e});
    }
  }
  Move move;
  move.plan = kernels::CopyPlan(static_cast<int>(e), dims, src, dst);
  std::vector<Move> moves = {move};
  for (const Loop& loop : loops) {
    const size_t have = moves.size();
    for (int64_t k = 1; k < loop.count; ++k) {
      for (size_t m = 0; m < have; ++m) {
        moves.push_back(moves[m]);
        moves.back().to_byte += k * loop.bytes;
      }
    }
  }
  return MakeMovesKernel(std::move(moves));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Tile) {
  def.infer = Infer;
  def.plan = Plan;
}
