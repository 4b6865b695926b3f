#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "RepeatSources";
using ll = long long;

struct Count {
  int64_t sources, total;
};
Count CountOf(const op::Attrs* attrs) {
  return {op::AttrsOf(attrs).Int("sources", 0), op::AttrsOf(attrs).Int("total", 0)};
}

Status Infer(op::InferContext& c) {
  const Dims& repeats = c.inputs[0]->dims;
  const auto [sources, total] = CountOf(c.attrs);
  if (sources < 0 || total < 0) {
    return InvalidArgument("%s: attributes sources and total are %lld and %lld; allowed: 0 or more", kOp,
                           ll{sources}, ll{total});
  }
  if (repeats.rank() != 1 || (repeats[0] != 1 && repeats[0] != sources)) {
    return InvalidArgument("%s: input repeats has shape %s; allowed: [1] or [%lld]", kOp,
                           opsnn::ToString(repeats).c_str(), ll{sources});
  }
  return SetOutput(c, Desc(DType::kS64, {total}));
}

template <typename T>
Status Fill(const T* repeats, int64_t given, Count count, int64_t* y) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count.sources; ++i) {
    const int64_t r = repeats[given == 1 ? 0 : i];
    if (r < 0) return InvalidArgument("%s: repeats has %lld at %lld; allowed: 0 or more", kOp, ll{r}, ll{i});
    if (__builtin_add_overflow(sum, r, &sum))
      return InvalidArgument("%s: repeats add up to more than 64 bits hold", kOp);
  }
  if (sum != count.total) {
    return InvalidArgument("%s: repeats add up to %lld; allowed: %lld, as many as the result has room for",
                           kOp, ll{sum}, ll{count.total});
  }
  for (int64_t i = 0; i < count.sources; ++i) y = std::fill_n(y, repeats[given == 1 ? 0 : i], i);
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const int64_t given = c.inputs[0]->dims[0];
  const bool narrow = c.inputs[0]->dtype == DType::kS32;
  const auto run = [=, count = CountOf(c.attrs)](const op::RunArgs& args) -> Status {
    auto* y = static_cast<int64_t*>(args.outputs[0]);
    return narrow ? Fill(static_cast<const int32_t*>(args.inputs[0]), given, count, y)
                  : Fill(static_cast<const int64_t*>(args.inputs[0]), given, count, y);
  };
  return Staged(c, MakeKernel("fill", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(RepeatSources) {
  def.infer = Infer;
  def.plan = Plan;
}
