// Picking the loss of a class out of log-probabilities, weighting and reducing it.
#ifndef OPSNN_OPS_LOSS_NLL_H_
#define OPSNN_OPS_LOSS_NLL_H_

#include <optional>
#include <string>

#include "base/parallel.h"
#include "op/operator.h"

namespace opsnn::ops {

// x (N, C, d...), target (N, d...), weight (C): reads attributes, checks shapes and sets output 0.
Status InferNll(const char* op, op::InferContext& c);

enum class LossReduction : uint8_t { kNone, kSum, kMean };

struct NllPlan {
  int64_t batch = 1, classes = 1, inner = 1;  // x is contiguous
  DType x_dtype = DType::kF32, target_dtype = DType::kS64, weight_dtype = DType::kF32, y_dtype = DType::kF32;
  bool weighted = false;
  std::optional<int64_t> ignore;  // a target that counts for nothing
  LossReduction reduction = LossReduction::kMean;

  static NllPlan Make(const op::PlanContext& c);
  // Sums in f64, in order. An error names the first target that is no class.
  Status Run(const char* op, const void* x, const void* target, const void* weight, void* y) const;
  // The same with log_prob(i, t) for class t of target i.
  Status Run(const char* op, FunctionRef<double(int64_t, int64_t)> log_prob, const void* target,
             const void* weight, void* y) const;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_LOSS_NLL_H_
