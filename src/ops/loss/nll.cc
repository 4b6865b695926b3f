#include "ops/loss/nll.h"

#include "op/dims.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

using ll = long long;

double Read(const void* data, DType t, int64_t i) {
  return ReadElement(static_cast<const char*>(data) + i * static_cast<int64_t>(SizeOf(t)), t);
}
void Write(void* data, DType t, int64_t i, double v) {
  WriteElement(static_cast<char*>(data) + i * static_cast<int64_t>(SizeOf(t)), t, v);
}

}  // namespace

Status InferNll(const char* op, op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &target = *c.inputs[1];
  const op::TensorDesc* weight = InputOrNull(c.inputs, 2);
  const bool reduced = op::AttrsOf(c.attrs).String("reduction", "mean") != "none";
  if (x.known_rank) {
    OPSNN_RETURN_IF_ERROR(CheckRank(op, "the first input", x.dims, 2, kMaxRank));
    if (weight != nullptr && weight->known_rank &&
        (weight->dims.rank() != 1 || op::Differ(weight->dims[0], x.dims[1]))) {
      return InvalidArgument("%s: weights has shape %s; allowed: [%lld], one value per class", op,
                             opsnn::ToString(weight->dims).c_str(), ll{x.dims[1]});
    }
  }
  if (x.known_rank && target.known_rank) {
    Dims want = x.dims;
    want.erase(1);
    bool fits = want.rank() == target.dims.rank();
    for (int i = 0; fits && i < want.rank(); ++i) fits = !op::Differ(want[i], target.dims[i]);
    if (!fits) {
      return InvalidArgument(
          "%s: the targets have shape %s; allowed: %s, that of the first input without "
          "its classes",
          op, opsnn::ToString(target.dims).c_str(), opsnn::ToString(want).c_str());
    }
  }
  if (reduced) return SetOutput(c, Desc(x.dtype, {}));
  return SetOutput(c, target.known_rank ? Desc(x.dtype, target.dims) : UnknownRank(x.dtype));
}

NllPlan NllPlan::Make(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const op::TensorDesc &x = *c.inputs[0], *weight = InputOrNull(c.inputs, 2);
  NllPlan p;
  p.batch = x.dims[0];
  p.classes = x.dims[1];
  for (int i = 2; i < x.dims.rank(); ++i) p.inner *= x.dims[i];
  p.x_dtype = x.dtype;
  p.target_dtype = c.inputs[1]->dtype;
  p.y_dtype = c.outputs[0].dtype;
  p.weighted = weight != nullptr;
  if (weight != nullptr) p.weight_dtype = weight->dtype;
  if (attrs.Has("ignore_index")) p.ignore = attrs.Int("ignore_index", 0);
  const std::string reduction = attrs.String("reduction", "mean");
  p.reduction = reduction == "none"  ? LossReduction::kNone
                : reduction == "sum" ? LossReduction::kSum
                                     : LossReduction::kMean;
  return p;
}

Status NllPlan::Run(const char* op, const void* x, const void* target, const void* weight, void* y) const {
  const auto log_prob = [&](int64_t i, int64_t t) {
    return Read(x, x_dtype, (i / inner * classes + t) * inner + i % inner);
  };
  return Run(op, log_prob, target, weight, y);
}

Status NllPlan::Run(const char* op, FunctionRef<double(int64_t, int64_t)> log_prob, const void* target,
                    const void* weight, void* y) const {
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < batch * inner; ++i) {
    const auto t = static_cast<int64_t>(Read(target, target_dtype, i));
    double loss = 0;
    if (!ignore || t != *ignore) {
      if (t < 0 || t >= classes) {
        return InvalidArgument("%s: target %lld at position %lld; allowed: 0 to %lld%s", op, ll{t}, ll{i},
                               ll{classes - 1}, ignore ? " and ignore_index" : "");
      }
      const double w = weighted ? Read(weight, weight_dtype, t) : 1;
      loss = -log_prob(i, t) * w;
      weights += w;
    }
    if (reduction == LossReduction::kNone) {
      Write(y, y_dtype, i, loss);
    } else {
      sum += loss;
    }
  }
  if (reduction == LossReduction::kSum) Write(y, y_dtype, 0, sum);
  if (reduction == LossReduction::kMean) Write(y, y_dtype, 0, sum / weights);
  return OkStatus();
}

}  // namespace opsnn::ops
