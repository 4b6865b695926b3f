#include <algorithm>

#include "base/half.h"
#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ApplyBitMask";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t bytes = (NumElements(x.dims) + 127) / 128 * 16;
  if (NumElements(c.inputs[1]->dims) != bytes) {
    return InvalidArgument("%s: mask has shape %s; allowed: %lld elements, a bit for each of X", kOp,
                           opsnn::ToString(c.inputs[1]->dims).c_str(), static_cast<long long>(bytes));
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

float Load(float v) { return v; }
double Load(double v) { return v; }
template <typename T>
float Load(T v) {
  return ToFloat(v);
}
template <typename T, typename V>
T Round(V v) {
  if constexpr (std::is_same_v<T, F16>) {
    return ToF16(v);
  } else if constexpr (std::is_same_v<T, BF16>) {
    return ToBF16(v);
  } else {
    return v;
  }
}

struct Masking {
  int64_t n = 0;
  double scale = 1;
  bool product = false;
};

template <typename T>
void Range(const Masking& m, int64_t begin, int64_t end, const op::RunArgs& args) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  const auto* mask = static_cast<const uint8_t*>(args.inputs[1]);
  T* y = static_cast<T*>(args.outputs[0]);
  using V = decltype(Load(T{}));
  const V scale = static_cast<V>(m.scale), off = 0;
  for (int64_t i = begin; i < end; ++i) {
    const bool on = (mask[i / 8] >> (i % 8) & 1) != 0;
    y[i] = Round<T>(on ? Load(x[i]) * scale : m.product ? Load(x[i]) * off * scale : off);
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  constexpr int64_t kTask = 16 << 10;
  const op::TensorDesc& x = *c.inputs[0];
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const Masking m = {NumElements(x.dims), attrs.Float("scale", 1), attrs.Int("product", 0) != 0};
  const auto run = [m, t = x.dtype](const op::RunArgs& args) {
    ParallelFor((m.n + kTask - 1) / kTask, [&](int64_t task, int) {
      const int64_t begin = task * kTask, end = std::min(m.n, begin + kTask);
      switch (t) {
        case DType::kF64:
          return Range<double>(m, begin, end, args);
        case DType::kF16:
          return Range<F16>(m, begin, end, args);
        case DType::kBF16:
          return Range<BF16>(m, begin, end, args);
        default:
          return Range<float>(m, begin, end, args);
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("bits", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ApplyBitMask) {
  def.infer = Infer;
  def.plan = Plan;
}
