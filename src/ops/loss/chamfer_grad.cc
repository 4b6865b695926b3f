#include <algorithm>

#include "base/parallel.h"
#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ChamferGrad";

Status Infer(op::InferContext& c) {
  const Dims &a = c.inputs[0]->dims, &b = c.inputs[1]->dims;
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "xyz1", a, 3, 3));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "xyz2", b, 3, 3));
  bool fits = a[0] == b[0] && a[2] == b[2];
  for (size_t i = 2; i < 6; ++i) {
    const Dims& own = i % 2 == 0 ? a : b;
    fits = fits && c.inputs[i]->dims == Dims{own[0], own[1]};
  }
  if (!fits) {
    return InvalidArgument("%s: xyz1 %s, xyz2 %s and what belongs to their points do not go together", kOp,
                           opsnn::ToString(a).c_str(), opsnn::ToString(b).c_str());
  }
  c.outputs = {Desc(c.inputs[0]->dtype, a), Desc(c.inputs[0]->dtype, b)};
  return OkStatus();
}

// What the n points of a set give to the gradients of both sets.
template <typename T>
void Pull(int64_t n, int64_t dims, int64_t others, const T* own, const T* other, const int64_t* nearest,
          const T* grad, T* to_own, T* to_other) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t j = nearest[i] < 0 ? nearest[i] + others : nearest[i];
    for (int64_t d = 0; d < dims; ++d) {
      const T v = 2 * grad[i] * (own[i * dims + d] - other[j * dims + d]);
      to_own[i * dims + d] += v;
      to_other[j * dims + d] -= v;
    }
  }
}

template <typename T>
void Batch(int64_t b, int64_t n, int64_t m, int64_t dims, const op::RunArgs& args) {
  const auto part = [&](void* p, int64_t size) { return static_cast<T*>(p) + b * size; };
  const T *a = part(args.inputs[0], n * dims), *c = part(args.inputs[1], m * dims);
  T *to_a = part(args.outputs[0], n * dims), *to_c = part(args.outputs[1], m * dims);
  std::fill(to_a, to_a + n * dims, T{0});
  std::fill(to_c, to_c + m * dims, T{0});
  Pull<T>(n, dims, m, a, c, static_cast<const int64_t*>(args.inputs[2]) + b * n, part(args.inputs[4], n),
          to_a, to_c);
  Pull<T>(m, dims, n, c, a, static_cast<const int64_t*>(args.inputs[3]) + b * m, part(args.inputs[5], m),
          to_c, to_a);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const Dims &a = c.inputs[0]->dims, &b = c.inputs[1]->dims;
  const auto run = [batch = a[0], n = a[1], m = b[1], dims = a[2],
                    t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    OPSNN_RETURN_IF_ERROR(
        kernels::CheckIndices({args.inputs[2], true, batch * n}, m).WithContext("ChamferGrad: idx1"));
    OPSNN_RETURN_IF_ERROR(
        kernels::CheckIndices({args.inputs[3], true, batch * m}, n).WithContext("ChamferGrad: idx2"));
    ParallelFor(batch, [&](int64_t i, int) {
      return t == DType::kF64 ? Batch<double>(i, n, m, dims, args) : Batch<float>(i, n, m, dims, args);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("points", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ChamferGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
