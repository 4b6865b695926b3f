#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "ops/random/philox.h"
#include "ops/random/random_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Multinomial";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t samples = op::AttrsOf(c.attrs).Int("sample_size", 1);
  OPSNN_ASSIGN_OR_RETURN(const DType t, DTypeAttr(kOp, op::AttrsOf(c.attrs), "dtype", DType::kS32));
  if (t != DType::kS32 && t != DType::kS64) {
    return InvalidArgument("%s: attribute dtype asks for %s; allowed: s32, s64", kOp, Name(t));
  }
  if (samples < 0) {
    return InvalidArgument("%s: attribute sample_size is %lld; allowed: 0 and above", kOp,
                           static_cast<long long>(samples));
  }
  if (!x.known_rank) return SetOutput(c, Desc(t, {kUnknownDim, samples}));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 2, 2));
  if (x.dims[1] == 0) {
    return InvalidArgument("%s: input has shape %s; allowed: at least one class", kOp,
                           opsnn::ToString(x.dims).c_str());
  }
  return SetOutput(c, Desc(t, {x.dims[0], samples}));
}

// A draw u picks the first class at which the running sum of probabilities exceeds u.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  const int64_t batch = x.dims[0], classes = x.dims[1], samples = y.dims[1];
  const size_t workspace = static_cast<size_t>(batch * classes) * sizeof(double);
  const auto run = [=, from = x.dtype, to = y.dtype, seed = SeedOf(c.attrs)](const op::RunArgs& args) {
    ParallelFor(batch, [&](int64_t b, int) {
      const char* logits =
          static_cast<const char*>(args.inputs[0]) + b * classes * static_cast<int64_t>(SizeOf(from));
      double* sums = static_cast<double*>(args.workspace) + b * classes;
      double most = -INFINITY, total = 0;
      for (int64_t i = 0; i < classes; ++i) {
        sums[i] = ReadElement(logits + i * static_cast<int64_t>(SizeOf(from)), from);
        most = std::max(most, sums[i]);
      }
      for (int64_t i = 0; i < classes; ++i) sums[i] = total += std::exp(sums[i] - most);
      for (int64_t s = 0; s < samples; ++s) {
        const double u = PhiloxUniform(seed, static_cast<uint64_t>(b * samples + s)) * total;
        const int64_t picked =
            std::min<int64_t>(std::upper_bound(sums, sums + classes, u) - sums, classes - 1);
        WriteElement(
            static_cast<char*>(args.outputs[0]) + (b * samples + s) * static_cast<int64_t>(SizeOf(to)), to,
            static_cast<double>(picked));
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("Philox", run, workspace));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Multinomial) {
  def.infer = Infer;
  def.plan = Plan;
}
