#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Trilu";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 2, kMaxRank));
  return SetOutput(c, Desc(x.dtype, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t cols = x.dims.back(), rows = x.dims[x.dims.rank() - 2];
  const int64_t all_rows = cols == 0 ? 0 : NumElements(x.dims) / cols;
  const bool upper = op::AttrsOf(c.attrs).Int("upper", 1) != 0;
  const bool has_k = IsGiven(c.inputs, 1);
  const auto elem = static_cast<int64_t>(SizeOf(x.dtype));
  return Staged(c, MakeKernel("rows", [=](const op::RunArgs& args) {
                  const bool given = has_k && args.inputs[1] != nullptr;
                  const int64_t k = given ? *static_cast<const int64_t*>(args.inputs[1]) : 0;
                  const auto row = [&](int64_t r, int) {
                    // Columns [begin, end) are kept; the bounds are clamped first, so that no k overflows.
                    const int64_t i = r % rows, diagonal = std::clamp(k, -rows, cols) + i;
                    const int64_t begin = upper ? std::clamp<int64_t>(diagonal, 0, cols) : 0;
                    const int64_t end = upper ? cols : std::clamp<int64_t>(diagonal + 1, 0, cols);
                    const char* from = static_cast<const char*>(args.inputs[0]) + r * cols * elem;
                    char* to = static_cast<char*>(args.outputs[0]) + r * cols * elem;
                    if (from != to) {
                      std::memcpy(to + begin * elem, from + begin * elem,
                                  static_cast<size_t>((end - begin) * elem));
                    }
                    std::memset(to, 0, static_cast<size_t>(begin * elem));
                    std::memset(to + end * elem, 0, static_cast<size_t>((cols - end) * elem));
                  };
                  constexpr int64_t kParallelBytes = 256 << 10;
                  if (all_rows * cols * elem >= kParallelBytes && cols * elem >= 4096) {
                    ParallelFor(all_rows, row);
                  } else {
                    for (int64_t r = 0; r < all_rows; ++r) row(r, 0);
                  }
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Trilu) {
  def.infer = Infer;
  def.plan = Plan;
}
