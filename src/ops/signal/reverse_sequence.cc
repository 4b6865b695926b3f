#include <cstring>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ReverseSequence";

struct Axes {
  int64_t batch = 1, time = 0;
};
Result<Axes> ReadAxes(const op::Attrs* attrs) {
  const Axes a = {op::AttrsOf(attrs).Int("batch_axis", 1), op::AttrsOf(attrs).Int("time_axis", 0)};
  if (a.batch != a.time) return a;
  return InvalidArgument("%s: attributes batch_axis and time_axis are both %lld; allowed: one 0, the other 1",
                         kOp, static_cast<long long>(a.batch));
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &lengths = *c.inputs[1];
  OPSNN_ASSIGN_OR_RETURN(const Axes axes, ReadAxes(c.attrs));
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 2, kMaxRank));
  const int64_t batch = x.dims[static_cast<int>(axes.batch)];
  if (lengths.known_rank && IsKnown(lengths.dims) && batch != kUnknownDim && lengths.dims != Dims{batch}) {
    return InvalidArgument("%s: sequence_lens has shape %s; allowed: [%lld]", kOp,
                           opsnn::ToString(lengths.dims).c_str(), static_cast<long long>(batch));
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const Axes axes, ReadAxes(c.attrs));
  const bool batch_first = axes.batch == 0;
  const int64_t batch = x.dims[batch_first ? 0 : 1], time = x.dims[batch_first ? 1 : 0];
  int64_t row = static_cast<int64_t>(SizeOf(x.dtype));
  for (int i = 2; i < x.dims.rank(); ++i) row *= x.dims[i];
  return Staged(c, MakeKernel("rows", [=](const op::RunArgs& args) -> Status {
                  const auto* lengths = static_cast<const int64_t*>(args.inputs[1]);
                  for (int64_t b = 0; b < batch; ++b) {
                    if (lengths[b] >= 0 && lengths[b] <= time) continue;
                    return InvalidArgument("%s: sequence_lens[%lld] is %lld; allowed: 0 to %lld", kOp,
                                           static_cast<long long>(b), static_cast<long long>(lengths[b]),
                                           static_cast<long long>(time));
                  }
                  const auto at = [&](int64_t b, int64_t t) {
                    return (batch_first ? b * time + t : t * batch + b) * row;
                  };
                  ParallelFor(time, [&](int64_t t, int) {
                    for (int64_t b = 0; b < batch; ++b) {
                      const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
                      std::memcpy(static_cast<char*>(args.outputs[0]) + at(b, t),
                                  static_cast<const char*>(args.inputs[0]) + at(b, from),
                                  static_cast<size_t>(row));
                    }
                  });
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ReverseSequence) {
  def.infer = Infer;
  def.plan = Plan;
}
