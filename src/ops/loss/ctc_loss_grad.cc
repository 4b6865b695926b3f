#include "base/parallel.h"
#include "ops/loss/ctc.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CtcLossGrad";

Status Infer(op::InferContext& c) {
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "log_probs", c.inputs[1]->dims, 3, 3));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "log_alpha", c.inputs[4]->dims, 3, 3));
  return SetOutput(c, Desc(c.inputs[1]->dtype, c.inputs[1]->dims));
}

template <typename T>
void Sequence(const CtcShape& s, int64_t n, const op::RunArgs& args) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const T grad = static_cast<const T*>(args.inputs[0])[n], loss = static_cast<const T*>(args.inputs[3])[n];
  const T* probs = static_cast<const T*>(args.inputs[1]) + n * s.classes;
  const auto i = static_cast<size_t>(n);
  const CtcLabels labels = {static_cast<const int64_t*>(args.inputs[2]) + s.target_starts[i],
                            s.target_lengths[i], s.blank};
  const T* alpha = static_cast<const T*>(args.inputs[4]) + n * s.times * s.width;
  T* y = static_cast<T*>(args.outputs[0]) + n * s.classes;
  const int64_t end = s.input_lengths[i], states = labels.states(), step = s.batch * s.classes;
  // A loss that was infinite is 0 where infinities are zeroed, although no path leads to the end.
  const T* last = end > 0 ? alpha + (end - 1) * s.width : nullptr;
  const bool none =
      last == nullptr || (last[states - 1] == kNone && (states < 2 || last[states - 2] == kNone));
  const bool zero = s.zero_infinity && (none || std::isinf(loss));
  std::vector<T> beta(static_cast<size_t>(states)), through(static_cast<size_t>(s.classes));
  for (int64_t t = s.times - 1; t >= 0; --t) {
    T* row = y + t * step;
    if (t >= end || zero) {
      std::fill(row, row + s.classes, T{0});
      continue;
    }
    std::fill(through.begin(), through.end(), kNone);
    for (int64_t k = 0; k < states; ++k) {  // from the front: what lies behind k is still of time t + 1
      T sum = t == end - 1 ? (k >= states - 2 ? T{0} : kNone) : beta[static_cast<size_t>(k)];
      if (t < end - 1 && k + 1 < states) sum = LogAdd(sum, beta[static_cast<size_t>(k) + 1]);
      if (t < end - 1 && k + 2 < states && labels.Skips(k + 2))
        sum = LogAdd(sum, beta[static_cast<size_t>(k) + 2]);
      beta[static_cast<size_t>(k)] = sum == kNone ? kNone : sum + probs[t * step + labels[k]];
      T& share = through[static_cast<size_t>(labels[k])];
      share = LogAdd(share, alpha[t * s.width + k] + beta[static_cast<size_t>(k)]);
    }
    for (int64_t c = 0; c < s.classes; ++c) {
      const T p = probs[t * step + c];
      // The share of no path is 0; of an infinite loss, which has no gradient, it is NaN.
      const T share = through[static_cast<size_t>(c)];
      const T part = share == kNone && std::isfinite(loss) ? T{0} : std::exp(share + loss - p);
      row[c] = (std::exp(p) - part) * grad;
    }
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const CtcShape s =
      CtcShape::Of(op::AttrsOf(c.attrs), c.inputs[1]->dims, c.inputs[2]->dims, c.inputs[4]->dims[2]);
  const auto run = [s, t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    OPSNN_RETURN_IF_ERROR(s.CheckTargets(kOp, static_cast<const int64_t*>(args.inputs[2])));
    ParallelFor(s.batch, [&](int64_t n, int) {
      return t == DType::kF64 ? Sequence<double>(s, n, args) : Sequence<float>(s, n, args);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("backward variables", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CtcLossGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
