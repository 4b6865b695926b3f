#include "kernels/gather/compact.h"
#include "ops/index/counted.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CountedSelect";

Status Infer(op::InferContext& c) {
  if (c.inputs[0]->dims != c.inputs[1]->dims) {
    return InvalidArgument("%s: mask has shape %s; allowed: %s, that of X", kOp,
                           opsnn::ToString(c.inputs[1]->dims).c_str(),
                           opsnn::ToString(c.inputs[0]->dims).c_str());
  }
  c.outputs = {Desc(c.inputs[0]->dtype, {RoomOf(c.attrs)}), Desc(DType::kS64, {})};
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  const int64_t n = NumElements(x.dims);
  const auto run = [y, n, bytes = SizeOf(x.dtype),
                    room = RoomOf(c.attrs)](const op::RunArgs& args) -> Status {
    const char* from = static_cast<const char*>(args.inputs[0]);
    const auto* mask = static_cast<const uint8_t*>(args.inputs[1]);
    char* to = static_cast<char*>(args.outputs[0]);
    const auto step = static_cast<int64_t>(bytes);
    ClearStrided(y, to);
    const int64_t found = kernels::Compact(
        n, room, static_cast<int64_t*>(args.workspace), [&](int64_t i) { return mask[i] != 0; },
        [&](int64_t i, int64_t k) { std::memcpy(to + k * step, from + i * step, bytes); });
    if (found > room) return NoRoom(kOp, found, room);
    *static_cast<int64_t*>(args.outputs[1]) = found;
    return OkStatus();
  };
  return Staged(c, MakeKernel("scan", run, static_cast<size_t>(kernels::CompactChunks(n)) * sizeof(int64_t)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CountedSelect) {
  def.infer = Infer;
  def.plan = Plan;
}
