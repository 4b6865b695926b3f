// Functions of formulas that are no stages: made of stages so that limits come out right and nothing cancels.
#ifndef OPSNN_OP_FORMULA_MATH_H_
#define OPSNN_OP_FORMULA_MATH_H_

#include <iterator>
#include <limits>

#include "op/formula.h"

namespace opsnn::op {

// e^x - 1 with full relative accuracy: the Elu stage has it for x <= 0, and e^x - 1 = -e^x * (e^-x - 1).
inline Term Expm1(Term x) {
  const Term below = x.formula->Unary(StageOp::kElu, x, 1.0);
  const Term above = -(Exp(x) * x.formula->Unary(StageOp::kElu, -x, 1.0));
  return Select(x > 0, above, below);
}

inline Term Exp2(Term x) { return Pow(2.0, x); }

// log(1 + x). Rounding in u = 1 + x is undone by the factor x / (u - 1).
inline Term Log1p(Term x) {
  const Term u = x + 1.0;
  const Term exact = Log(u) * (x / (u - 1.0));
  return Select(Equal(u, 1.0), x, Select(Equal(u, std::numeric_limits<double>::infinity()), u, exact));
}

// 1 - erf(x), with relative accuracy where it is small. In f32 it is Chebyshev's fit of W. Press et al.,
// t * exp(-x^2 + p(t)) with t = 1 / (1 + x / 2), good to 1.2e-7 for x > 0; the f64 stage of Gelu, which is
// 0.5 * y * erfc(-y / sqrt(2)), is exact in f64.
inline Term Erfc(Term x) {
  const Term size = Abs(x);
  Term above = x;
  if (x.formula->type() == ComputeType::kF64) {
    const Term y = size * -1.41421356237309504880;
    above = (GeluErf(y) / y) * 2.0;
  } else {
    static constexpr double kFit[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                      -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
    const Term t = 1.0 / (size * 0.5 + 1.0);
    Term p = t * kFit[0] + kFit[1];
    for (size_t i = 2; i < std::size(kFit); ++i) p = p * t + kFit[i];
    above = t * Exp(p - size * size);
  }
  return Select(size < 0.5, 1.0 - Erf(x), Select(x < 0, 2.0 - above, above));
}

// x held to where slopes of activations are not yet flat: products of a growing and a vanishing factor then
// have their limits at infinity. e^-1000 is 0 in f64 too.
inline Term Bounded(Term x) { return Clip(x, -1000, 1000); }

// The derivative of z * sigmoid(z).
inline Term SiluSlope(Term z) {
  const Term c = Bounded(z);
  return Sigmoid(c) * (c * Sigmoid(-c) + 1.0);
}

// The derivatives of the two forms of Gelu. Beyond 40 the Gaussian is 0 in f64 too.
inline Term GeluErfSlope(Term x) {
  constexpr double kSqrtHalf = 0.70710678118654752440, kInvSqrt2Pi = 0.39894228040143267794;
  const Term c = Clip(x, -40, 40);
  return (Erf(c * kSqrtHalf) * 0.5 + 0.5) + c * Exp(c * c * -0.5) * kInvSqrt2Pi;
}
inline Term GeluTanhSlope(Term x) {
  constexpr double kSqrt2ByPi = 0.79788456080286535588, kCubic = 0.044715;
  const Term c = Clip(x, -40, 40);
  const Term square = c * c;
  const Term t = Tanh(c * (square * kCubic + 1.0) * kSqrt2ByPi);
  const Term inner = (square * (3 * kCubic) + 1.0) * kSqrt2ByPi;
  return (t + 1.0) * 0.5 + c * 0.5 * (1.0 - t * t) * inner;
}

// The inverse of erf in f32: M. Giles's two polynomials in w = -log(1 - x^2), for the middle and for the
// tails.
inline Term Erfinv(Term x) {
  static constexpr double kMiddle[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                       -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                       -0.00417768164,  0.246640727,    1.50140941};
  static constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                     -0.00367342844,  0.00573950773,  -0.0076224613,
                                     0.00943887047,   1.00167406,     2.83297682};
  auto polynomial = [](const double(&c)[9], Term t) {
    Term p = t * c[0] + c[1];
    for (size_t i = 2; i < std::size(c); ++i) p = p * t + c[i];
    return p;
  };
  const Term w = -Log((1.0 - x) * (x + 1.0));
  const Term p = Select(w < 5.0, polynomial(kMiddle, w - 2.5), polynomial(kTail, Sqrt(w) - 3.0));
  // At the ends w is infinite and the polynomial may be of either sign.
  return Select(Equal(Abs(x), 1.0), x / 0.0, p * x);
}

}  // namespace opsnn::op

#endif  // OPSNN_OP_FORMULA_MATH_H_
