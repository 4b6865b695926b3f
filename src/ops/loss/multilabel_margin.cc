#include <algorithm>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MultilabelMargin";

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &labels = *c.inputs[1];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, 2));
  if (labels.dims != x.dims || x.dims[1] == 0) {
    return InvalidArgument("%s: X has shape %s and labels %s; allowed: the same, with one class or more", kOp,
                           opsnn::ToString(x.dims).c_str(), opsnn::ToString(labels.dims).c_str());
  }
  c.outputs = {Desc(x.dtype, {x.dims[0]}), Desc(x.dtype, x.dims)};
  return OkStatus();
}

// How many labels stand in front of the first -1.
int64_t Targets(const int64_t* labels, int64_t classes) {
  return std::find(labels, labels + classes, int64_t{-1}) - labels;
}

template <typename T>
Status Run(int64_t rows, int64_t classes, const op::RunArgs& args) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  const auto* labels = static_cast<const int64_t*>(args.inputs[1]);
  T *loss = static_cast<T*>(args.outputs[0]), *is_target = static_cast<T*>(args.outputs[1]);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t* own = labels + n * classes;
    for (int64_t j = 0; j < Targets(own, classes); ++j) {
      if (own[j] >= 0 && own[j] < classes) continue;
      return InvalidArgument("%s: labels: label %lld of row %lld is %lld; allowed: -1 to %lld", kOp,
                             static_cast<long long>(j), static_cast<long long>(n),
                             static_cast<long long>(own[j]), static_cast<long long>(classes - 1));
    }
  }
  ParallelFor(rows, [&](int64_t n, int) {
    const T* row = x + n * classes;
    T* flags = is_target + n * classes;
    const int64_t* own = labels + n * classes;
    const int64_t targets = Targets(own, classes);
    std::fill(flags, flags + classes, T{0});
    for (int64_t j = 0; j < targets; ++j) flags[own[j]] = 1;
    T sum = 0;
    for (int64_t j = 0; j < targets; ++j) {
      for (int64_t i = 0; i < classes; ++i) {
        const T margin = 1 - (row[own[j]] - row[i]);
        if (flags[i] == 0 && !(margin <= 0)) sum += margin;
      }
    }
    loss[n] = sum / static_cast<T>(classes);
  });
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto run = [rows = x.dims[0], classes = x.dims[1], t = x.dtype](const op::RunArgs& args) {
    return t == DType::kF64 ? Run<double>(rows, classes, args) : Run<float>(rows, classes, args);
  };
  return Staged(c, MakeKernel("pairs", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MultilabelMargin) {
  def.infer = Infer;
  def.plan = Plan;
}
