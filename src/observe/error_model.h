// First-order error bounds for chains of reference operators: what a correct kernel in a given precision may
// be off by, element by element.
//
// A Bounded tensor carries the exact value (f64) and a bound on the error of the computed one. Operands that
// were read from memory as the kernel read them have error 0. Each operator adds its own rounding error
//     eps * (2 sqrt(L) + 4) * sum |terms|    for contractions and reductions over L terms,
//     eps * 4 * |value|                      for everything else that computes,
//     0                                      for operators that only move elements,
// (a convolution by Winograd's algorithm: eps * growth * sum |w| max |x|, see kernels/conv/conv.h)
// (sums inside chains that a pass may have rewritten: eps * 4 * sum |terms|, since the rewritten form need
// not add in the written order)
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
  std::vector<double> error;   // of operands and of the operator itself; empty: exact
  std::vector<double> passed;  // the part of it that came with the operands; empty: nothing
  // Captured: all of its error came from elsewhere. Else `passed` says which part was there before the chain.
  bool captured = false;
};

struct BoundedCall {
  std::string_view op;
  const op::Attrs* attrs = nullptr;
  std::span<const Bounded* const> inputs;  // null where absent
  int num_outputs = 1;
  std::span<const Dims> output_dims;
  DType output_dtype = DType::kF32;
  // The operator is part of a chain that may have been rewritten: sums may round relative to their terms.
  bool rewritten = false;
  int winograd = 0;  // a Conv that ran with this tile of Winograd's algorithm; 0: as a plain sum
};

Result<std::vector<Bounded>> EvaluateBounded(const BoundedCall& call);
// |a| + |b| + ... of each element of a sum (Add, Sub, Sum); empty for other operators.
Status TermSums(const BoundedCall& call, std::vector<double>* sums);

// Below the normal range rounding is absolute: one step of the subnormals of f16, about the smallest normal
// number of the other types.
constexpr double SmallestStep(DType t) { return t == DType::kF16 ? 0x1p-24 : 1e-37; }
double UnitRoundoff(DType t);  // 2^-24, 2^-53, 2^-11, 2^-8; 2^-24 for integers

// Safety factor between the first-order bound and what `verify` accepts: covers second-order terms and the
// polynomial error of elementary functions (a few ulp).
inline constexpr double kBoundFactor = 4;

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_ERROR_MODEL_H_
