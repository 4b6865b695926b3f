// First-order error bounds for chains of reference operators: what a correct kernel in a given precision may
// be off by, element by element.
//
// A Bounded tensor carries the exact value (f64) and a bound on the error of the computed one. Operands that
// were read from memory as the kernel read them have error 0. Each operator adds its own rounding error
//     eps * (2 sqrt(L) + 4) * sum |terms|    for contractions and reductions over L terms,
//     eps * 4 * |value|                      for everything else that computes,
//     0                                      for operators that only move elements,
// and passes on the errors of its operands: pointwise operators by evaluating at the shifted operands, linear
// ones by applying themselves to the errors, softmax and norms by their condition. eps is the unit roundoff
// of the compute type (f32 for f32 and half storage); a store to half adds eps(storage) * |value| once, by
// the caller. docs/numerics.md states the rule for users.
#ifndef OPSNN_OBSERVE_ERROR_MODEL_H_
#define OPSNN_OBSERVE_ERROR_MODEL_H_

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ref/ref.h"

namespace opsnn::observe {

struct Bounded {
  ref::Tensor value;
  std::vector<double> error;  // empty: exact
};

struct BoundedCall {
  std::string_view op;
  const op::Attrs* attrs = nullptr;
  std::span<const Bounded* const> inputs;  // null where absent
  int num_outputs = 1;
  std::span<const Dims> output_dims;
  DType output_dtype = DType::kF32;
};

Result<std::vector<Bounded>> EvaluateBounded(const BoundedCall& call);

// Safety factor between the first-order bound and what `verify` accepts: covers second-order terms and the
// polynomial error of elementary functions (a few ulp).
inline constexpr double kBoundFactor = 4;

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_ERROR_MODEL_H_
