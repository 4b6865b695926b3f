#include "base/parallel.h"
#include "ops/loss/ctc.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CtcLoss";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "log_probs", x.dims, 3, 3));
  c.outputs = {Desc(x.dtype, {x.dims[1]}),
               Desc(x.dtype, {x.dims[1], x.dims[0], op::AttrsOf(c.attrs).Int("width", 0)})};
  return OkStatus();
}

template <typename T>
void Sequence(const CtcShape& s, int64_t n, const op::RunArgs& args) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const T* probs = static_cast<const T*>(args.inputs[0]) + n * s.classes;
  const auto i = static_cast<size_t>(n);
  const CtcLabels labels = {static_cast<const int64_t*>(args.inputs[1]) + s.target_starts[i],
                            s.target_lengths[i], s.blank};
  T* alpha = static_cast<T*>(args.outputs[1]) + n * s.times * s.width;
  std::fill(alpha, alpha + s.times * s.width, kNone);
  const int64_t end = s.input_lengths[i], states = labels.states(), step = s.batch * s.classes;
  for (int64_t t = 0; t < end; ++t) {
    T* now = alpha + t * s.width;
    const T* before = now - s.width;
    for (int64_t k = 0; k < states; ++k) {
      T sum = t == 0 ? (k < 2 ? T{0} : kNone) : before[k];
      if (t > 0 && k > 0) sum = LogAdd(sum, before[k - 1]);
      if (t > 0 && labels.Skips(k)) sum = LogAdd(sum, before[k - 2]);
      now[k] = sum == kNone ? kNone : sum + probs[t * step + labels[k]];
    }
  }
  T loss = labels.length == 0 ? T{0} : std::numeric_limits<T>::infinity();
  if (end > 0) {
    const T* last = alpha + (end - 1) * s.width;
    loss = -(states > 1 ? LogAdd(last[states - 1], last[states - 2]) : last[0]);
  }
  if (s.zero_infinity && std::isinf(loss)) loss = 0;
  static_cast<T*>(args.outputs[0])[n] = loss;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const CtcShape s =
      CtcShape::Of(op::AttrsOf(c.attrs), c.inputs[0]->dims, c.inputs[1]->dims, c.outputs[1].dims[2]);
  const auto run = [s, t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    OPSNN_RETURN_IF_ERROR(s.CheckTargets(kOp, static_cast<const int64_t*>(args.inputs[1])));
    ParallelFor(s.batch, [&](int64_t n, int) {
      return t == DType::kF64 ? Sequence<double>(s, n, args) : Sequence<float>(s, n, args);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("forward variables", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CtcLoss) {
  def.infer = Infer;
  def.plan = Plan;
}
