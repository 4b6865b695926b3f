#include "kernels/gather/compact.h"
#include "ops/index/counted.h"

namespace opsnn::ops {
namespace {

bool Transposed(const op::Attrs* attrs) { return op::AttrsOf(attrs).Int("transposed", 0) != 0; }

Status Infer(op::InferContext& c) {
  const int64_t room = RoomOf(c.attrs), rank = c.inputs[0]->dims.rank();
  c.outputs = {Desc(DType::kS64, Transposed(c.attrs) ? Dims{rank, room} : Dims{room, rank}),
               Desc(DType::kS64, {})};
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  const int64_t n = NumElements(x.dims);
  const auto run = [dims = x.dims, dtype = x.dtype, y, n, room = RoomOf(c.attrs),
                    transposed = Transposed(c.attrs),
                    exact = op::AttrsOf(c.attrs).Int("exact", 0) != 0](const op::RunArgs& args) -> Status {
    auto* to = static_cast<int64_t*>(args.outputs[0]);
    auto* counts = static_cast<int64_t*>(args.workspace);
    const int64_t rank = dims.rank();
    int64_t found = 0;
    kernels::WithZeroTest(args.inputs[0], dtype, [&](auto is_zero) {
      const auto keep = [&](int64_t i) { return !is_zero(i); };
      // A transposed result is as wide as what is found, which is known only after counting.
      int64_t columns = room;
      if (transposed && y.IsContiguous()) {
        columns = kernels::Compact(n, -1, counts, keep, [](int64_t, int64_t) {});
        if (columns > room) columns = room;
      }
      ClearStrided(y, to);
      found = kernels::Compact(n, room, counts, keep, [&](int64_t i, int64_t k) {
        for (int d = dims.rank() - 1; d >= 0; --d) {
          to[transposed ? d * columns + k : k * rank + d] = i % dims[d];
          i /= dims[d];
        }
      });
    });
    if (exact && found != room) {
      return InvalidArgument(
          "CountedNonZero: X names %lld elements; allowed: %lld, as many as there are places",
          static_cast<long long>(found), static_cast<long long>(room));
    }
    if (found > room) return NoRoom("CountedNonZero", found, room);
    *static_cast<int64_t*>(args.outputs[1]) = found;
    return OkStatus();
  };
  return Staged(c, MakeKernel("scan", run, static_cast<size_t>(kernels::CompactChunks(n)) * sizeof(int64_t)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CountedNonZero) {
  def.infer = Infer;
  def.plan = Plan;
}
