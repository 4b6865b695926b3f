#include <cstring>

#include "kernels/gather/compact.h"
#include "kernels/gather/scatter_reduce.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/index/scatter_reduction.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MaskedPut";

Status Infer(op::InferContext& c) {
  const Dims &x = c.inputs[0]->dims, &mask = c.inputs[1]->dims, &values = c.inputs[2]->dims;
  bool fits = mask.rank() <= x.rank() && values.rank() == x.rank() - mask.rank() + 1;
  for (int i = 0; fits && i < x.rank(); ++i)
    fits = x[i] == (i < mask.rank() ? mask[i] : values[i - mask.rank() + 1]);
  if (!fits) {
    return InvalidArgument("%s: X %s, mask %s and values %s do not go together", kOp,
                           opsnn::ToString(x).c_str(), opsnn::ToString(mask).c_str(),
                           opsnn::ToString(values).c_str());
  }
  if (c.inputs[0]->dtype == DType::kBool && FindReduction(op::AttrsOf(c.attrs)))
    return InvalidArgument("%s: X has dtype bool; allowed with a reduction: numbers", kOp);
  return SetOutput(c, Desc(c.inputs[0]->dtype, x));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t n = NumElements(c.inputs[1]->dims), given = c.inputs[2]->dims[0];
  const auto bytes = static_cast<int64_t>(x.View(nullptr).bytes());
  const bool surplus = op::AttrsOf(c.attrs).Int("surplus", 0) != 0;
  const bool one = given == 1 && !surplus;  // for all
  const auto run = [=, dtype = x.dtype,
                    reduction = FindReduction(op::AttrsOf(c.attrs))](const op::RunArgs& args) -> Status {
    const auto* mask = static_cast<const uint8_t*>(args.inputs[1]);
    auto* counts = static_cast<int64_t*>(args.workspace);
    const auto keep = [mask](int64_t i) { return mask[i] != 0; };
    const int64_t found = kernels::Compact(n, -1, counts, keep, [](int64_t, int64_t) {});
    if (!one && (surplus ? given < found : given != found)) {
      return InvalidArgument(
          "%s: values has %lld slices for %lld that the mask names; allowed: as many, or %s", kOp,
          static_cast<long long>(given), static_cast<long long>(found), surplus ? "more" : "one");
    }
    char* y = static_cast<char*>(args.outputs[0]);
    if (args.inputs[0] != y && bytes > 0) std::memcpy(y, args.inputs[0], static_cast<size_t>(bytes));
    const int64_t slice = n == 0 ? 0 : bytes / n;
    const char* values = static_cast<const char*>(args.inputs[2]);
    kernels::Compact(n, n, counts, keep, [&](int64_t i, int64_t k) {
      const char* from = values + (one ? 0 : k) * slice;
      if (reduction) return kernels::FindReduce(dtype)(*reduction, from, y + i * slice, slice);
      std::memcpy(y + i * slice, from, static_cast<size_t>(slice));
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("scan", run, static_cast<size_t>(kernels::CompactChunks(n)) * sizeof(int64_t)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MaskedPut) {
  def.infer = Infer;
  def.plan = Plan;
}
