#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "AffineGrid";

// theta (N, 2, 3) for size (N, C, H, W), (N, 3, 4) for (N, C, D, H, W).
Status CheckTheta(const Dims& theta, const std::vector<int64_t>& size) {
  const int spatial = static_cast<int>(size.size()) - 2;
  bool fits = (spatial == 2 || spatial == 3) && theta.rank() == 3;
  const int64_t want[] = {fits ? size[0] : 0, spatial, spatial + 1};
  for (int i = 0; fits && i < 3; ++i) fits = theta[i] == want[i] || theta[i] == kUnknownDim;
  for (const int64_t d : size) fits = fits && d >= 0;
  if (fits && CheckedNumElements(Dims(std::span<const int64_t>(size)))) return OkStatus();
  return InvalidArgument(
      "%s: theta has shape %s and size is %s; allowed: [N, 2, 3] with [N, C, H, W] or [N, 3, 4] "
      "with [N, C, D, H, W]",
      kOp, opsnn::ToString(theta).c_str(), ToString(size).c_str());
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& theta = *c.inputs[0];
  const auto size = ConstantInts(c.inputs, 1);
  if (!theta.known_rank || !size) return SetOutput(c, UnknownRank(theta.dtype));
  OPSNN_RETURN_IF_ERROR(CheckTheta(theta.dims, *size));
  Dims dims = {(*size)[0]};
  for (size_t i = 2; i < size->size(); ++i) dims.push_back((*size)[i]);
  dims.push_back(dims.rank() - 1);
  return SetOutput(c, Desc(theta.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const Dims dims = c.outputs[0].dims;
  const DType t = c.inputs[0]->dtype;
  const bool align = op::AttrsOf(c.attrs).Int("align_corners", 0) != 0;
  const int spatial = dims.rank() - 2;
  const int64_t pixels = dims[0] > 0 ? NumElements(dims) / (dims[0] * spatial) : 0;
  const auto run = [=](const op::RunArgs& args) {
    const auto elem = static_cast<int64_t>(SizeOf(t));
    ParallelFor(dims[0], [&](int64_t n, int) {
      double theta[3][4] = {};
      for (int i = 0; i < spatial; ++i) {
        for (int j = 0; j <= spatial; ++j) {
          const int64_t at = (n * spatial + i) * (spatial + 1) + j;
          theta[i][j] = ReadElement(static_cast<const char*>(args.inputs[0]) + at * elem, t);
        }
      }
      for (int64_t p = 0; p < pixels; ++p) {
        // Positions along the axes in [-1, 1], that along the last axis first.
        double x[3];
        int64_t rest = p;
        for (int k = 0; k < spatial; ++k) {
          const int64_t size = dims[spatial - k], i = rest % size;
          rest /= size;
          const auto s = static_cast<double>(size), v = static_cast<double>(i);
          x[k] = !align ? (2 * v + 1) / s - 1 : size > 1 ? 2 * v / (s - 1) - 1 : 0;
        }
        for (int i = 0; i < spatial; ++i) {
          double sum = theta[i][spatial];
          for (int k = 0; k < spatial; ++k) sum += theta[i][k] * x[k];
          WriteElement(static_cast<char*>(args.outputs[0]) + ((n * pixels + p) * spatial + i) * elem, t, sum);
        }
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("affine map of positions", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(AffineGrid) {
  def.infer = Infer;
  def.plan = Plan;
}
