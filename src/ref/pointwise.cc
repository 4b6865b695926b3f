// Element-wise operators, by their textbook formulas in f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

template <typename F>
Status Unary(Call& c, F f) {
  Tensor y = Tensor::Make(c.in(0).dtype, c.in(0).dims);
  for (int64_t i = 0; i < y.size(); ++i) y.v[i] = f(c.in(0).v[i]);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// The same for formulas whose terms cancel: also fills abs_sum with scale(x, y), the magnitude that rounding
// errors of a straightforward evaluation in floating point are relative to.
template <typename F, typename S>
Status Unary(Call& c, F f, S scale) {
  OPSNN_RETURN_IF_ERROR(Unary(c, f));
  const Tensor& y = c.outputs[0];
  c.abs_sum.resize(y.v.size());
  for (int64_t i = 0; i < y.size(); ++i) c.abs_sum[i] = std::fabs(scale(c.in(0).v[i], y.v[i]));
  return OkStatus();
}

template <typename F>
Tensor Combine(const Tensor& a, const Tensor& b, const Dims& dims, F f) {
  Tensor y = Tensor::Make(a.dtype, dims);
  const int64_t n = y.size();
  if (n == 0) return y;
  // The two commonest cases without index arithmetic: `verify` runs on whole models.
  if (a.size() == n && (b.size() == n || b.size() == 1)) {
    for (int64_t i = 0; i < n; ++i) y.v[i] = f(a.v[i], b.v[b.size() == 1 ? 0 : i]);
    return y;
  }
  std::vector<int64_t> index(dims.rank(), 0);
  int64_t i = 0;
  do {
    y.v[i++] = f(a.v[BroadcastOffset(index, a.dims)], b.v[BroadcastOffset(index, b.dims)]);
  } while (Next(index, dims));
  return y;
}

template <typename F>
Status Binary(Call& c, F f) {
  OPSNN_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(c.in(0).dims, c.in(1).dims));
  c.outputs.push_back(Combine(c.in(0), c.in(1), dims, f));
  return OkStatus();
}

// Variadic left fold.
template <typename F>
Status Fold(Call& c, F f) {
  Tensor acc = c.in(0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    OPSNN_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(acc.dims, c.in(static_cast<int>(i)).dims));
    acc = Combine(acc, c.in(static_cast<int>(i)), dims, f);
  }
  c.outputs.push_back(std::move(acc));
  return OkStatus();
}

double ScaleX(double x, double y) { return std::max(std::fabs(x), std::fabs(y)); }
double ScaleOne(double, double y) { return std::max(1.0, std::fabs(y)); }
double Clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
double SigmoidOf(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double SoftplusOf(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double GeluErfOf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double GeluTanhOf(double x) {
  const double k = std::sqrt(2.0 / M_PI);
  return 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
}

// Of floats; integers are in exact.cc.
double ModOf(double a, double b, bool fmod) {
  const double r = std::fmod(a, b);
  return !fmod && r != 0 && ((r < 0) != (b < 0)) ? r + b : r;  // sign of the divisor
}

double MaxOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : a < b ? b : a; }
double MinOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : b < a ? b : a; }

Status Clip(Call& c) {
  const double inf = std::numeric_limits<double>::infinity();
  const double lo = c.has(1) ? c.in(1).v[0] : -inf, hi = c.has(2) ? c.in(2).v[0] : inf;
  return Unary(c, [=](double x) { return std::isnan(x) ? x : std::min(std::max(x, lo), hi); });
}

Status Gelu(Call& c) {
  // 1 + erf cancels for negative x: errors are relative to x.
  return c.attrs->String("approximate", "none") == "tanh" ? Unary(c, GeluTanhOf, ScaleX)
                                                          : Unary(c, GeluErfOf, ScaleX);
}

Status LeakyRelu(Call& c) {
  const double a = c.attrs->Float("alpha", 0.01);
  return Unary(c, [=](double x) { return x < 0 ? a * x : x; });
}

Status Elu(Call& c) {
  const double a = c.attrs->Float("alpha", 1.0);
  return Unary(
      c, [=](double x) { return x > 0 ? x : a * std::expm1(x); },
      [=](double x, double y) { return x > 0 ? y : a; });
}

Status HardSigmoid(Call& c) {
  const double a = c.attrs->Float("alpha", 0.2), b = c.attrs->Float("beta", 0.5);
  return Unary(
      c, [=](double x) { return std::isnan(x) ? x : Clamp01(a * x + b); },
      [=](double x, double y) {
        return y > 0 && y < 1 ? std::fabs(a * x) + std::fabs(b) : std::fabs(a) + std::fabs(b);
      });
}

Status Where(Call& c) {
  OPSNN_ASSIGN_OR_RETURN(Dims ab, BroadcastDims(c.in(1).dims, c.in(2).dims));
  OPSNN_ASSIGN_OR_RETURN(Dims dims, BroadcastDims(c.in(0).dims, ab));
  Tensor y = Tensor::Make(c.in(1).dtype, dims);
  std::vector<int64_t> index(dims.rank(), 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(index, dims)) {
    const Tensor& from = c.in(0).v[BroadcastOffset(index, c.in(0).dims)] != 0 ? c.in(1) : c.in(2);
    y.v[i] = from.v[BroadcastOffset(index, from.dims)];
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status HardSwish(Call& c) {
  return Unary(
      c, [](double x) { return x * Clamp01(x / 6 + 0.5); },
      [](double x, double) { return std::fabs(x) * (std::fabs(x) < 4 ? std::fabs(x) / 6 + 0.5 : 1); });
}

// exp(b log a): an error in the exponent is relative to its size.
Status Pow(Call& c) {
  OPSNN_RETURN_IF_ERROR(Binary(c, [](double a, double b) { return std::pow(a, b); }));
  const Tensor& y = c.outputs[0];
  c.abs_sum.resize(y.v.size());
  for (int64_t i = 0; i < y.size(); ++i) {
    const double v = std::fabs(y.v[i]);
    c.abs_sum[i] = v > 0 && std::isfinite(v) ? v * (1 + std::fabs(std::log(v))) : 0;
  }
  return OkStatus();
}

Status IsInf(Call& c) {
  const bool neg = c.attrs->Int("detect_negative", 1), pos = c.attrs->Int("detect_positive", 1);
  return Unary(c, [=](double x) { return std::isinf(x) && (x < 0 ? neg : pos) ? 1.0 : 0.0; });
}

// Of inference: everything stays.
Status Dropout(Call& c) {
  OPSNN_RETURN_IF_ERROR(Unary(c, [](double x) { return x; }));
  c.outputs.push_back(Tensor::Make(DType::kBool, c.in(0).dims, 1));
  return OkStatus();
}

Status Mean(Call& c) {
  OPSNN_RETURN_IF_ERROR(Fold(c, [](double a, double b) { return a + b; }));
  for (double& x : c.outputs[0].v) x /= static_cast<double>(c.inputs.size());
  return OkStatus();
}

constexpr Entry kTable[] = {
    {"Relu", [](Call& c) { return Unary(c, [](double x) { return x < 0 ? 0 : x; }); }},
    {"LeakyRelu", LeakyRelu},
    {"PRelu", [](Call& c) { return Binary(c, [](double x, double s) { return x < 0 ? s * x : x; }); }},
    {"Clip", Clip},
    {"Gelu", Gelu},
    {"Elu", Elu},
    {"HardSigmoid", HardSigmoid},
    {"Sigmoid", [](Call& c) { return Unary(c, SigmoidOf); }},
    {"Swish", [](Call& c) { return Unary(c, [](double x) { return x * SigmoidOf(x); }); }},
    {"HardSwish", HardSwish},
    {"Softplus", [](Call& c) { return Unary(c, SoftplusOf, ScaleX); }},
    {"Mish",
     [](Call& c) {
       return Unary(
           c, [](double x) { return x * std::tanh(SoftplusOf(x)); }, ScaleX);
     }},
    {"Tanh", [](Call& c) { return Unary(c, [](double x) { return std::tanh(x); }); }},
    {"Erf", [](Call& c) { return Unary(c, [](double x) { return std::erf(x); }); }},
    {"Exp", [](Call& c) { return Unary(c, [](double x) { return std::exp(x); }); }},
    {"Log", [](Call& c) { return Unary(c, [](double x) { return std::log(x); }); }},
    {"Sqrt", [](Call& c) { return Unary(c, [](double x) { return std::sqrt(x); }); }},
    {"Reciprocal", [](Call& c) { return Unary(c, [](double x) { return 1 / x; }); }},
    {"Neg", [](Call& c) { return Unary(c, [](double x) { return -x; }); }},
    {"Abs", [](Call& c) { return Unary(c, [](double x) { return std::fabs(x); }); }},
    {"Sign", [](Call& c) { return Unary(c, [](double x) { return x > 0   ? 1.0
                                                                 : x < 0 ? -1.0
                                                                         : x; }); }},
    {"Floor", [](Call& c) { return Unary(c, [](double x) { return std::floor(x); }); }},
    {"Ceil", [](Call& c) { return Unary(c, [](double x) { return std::ceil(x); }); }},
    {"Round", [](Call& c) { return Unary(c, [](double x) { return std::nearbyint(x); }); }},
    {"Sin",
     [](Call& c) {
       return Unary(
           c, [](double x) { return std::sin(x); }, ScaleOne);
     }},
    {"Cos",
     [](Call& c) {
       return Unary(
           c, [](double x) { return std::cos(x); }, ScaleOne);
     }},
    {"Not", [](Call& c) { return Unary(c, [](double x) { return x == 0 ? 1.0 : 0.0; }); }},
    {"IsNaN", [](Call& c) { return Unary(c, [](double x) { return std::isnan(x) ? 1.0 : 0.0; }); }},
    {"IsInf", IsInf},
    {"Identity", [](Call& c) { return Unary(c, [](double x) { return x; }); }},
    {"Dropout", Dropout},
    {"Cast", [](Call& c) { return Unary(c, [](double x) { return x; }); }},  // to floats; else see exact.cc
    {"Add", [](Call& c) { return Binary(c, [](double a, double b) { return a + b; }); }},
    {"Sub", [](Call& c) { return Binary(c, [](double a, double b) { return a - b; }); }},
    {"Mul", [](Call& c) { return Binary(c, [](double a, double b) { return a * b; }); }},
    {"Div", [](Call& c) { return Binary(c, [](double a, double b) { return a / b; }); }},
    {"Mod",
     [](Call& c) {
       const bool f = c.attrs->Int("fmod", 0);
       return Binary(c, [=](double a, double b) { return ModOf(a, b, f); });
     }},
    {"Pow", Pow},
    {"Max", [](Call& c) { return Fold(c, MaxOf); }},
    {"Min", [](Call& c) { return Fold(c, MinOf); }},
    {"Sum", [](Call& c) { return Fold(c, [](double a, double b) { return a + b; }); }},
    {"Mean", Mean},
    {"Equal", [](Call& c) { return Binary(c, [](double a, double b) { return a == b ? 1.0 : 0.0; }); }},
    {"Less", [](Call& c) { return Binary(c, [](double a, double b) { return a < b ? 1.0 : 0.0; }); }},
    {"LessOrEqual", [](Call& c) { return Binary(c, [](double a, double b) { return a <= b ? 1.0 : 0.0; }); }},
    {"Greater", [](Call& c) { return Binary(c, [](double a, double b) { return a > b ? 1.0 : 0.0; }); }},
    {"GreaterOrEqual",
     [](Call& c) { return Binary(c, [](double a, double b) { return a >= b ? 1.0 : 0.0; }); }},
    {"And",
     [](Call& c) { return Binary(c, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }); }},
    {"Or",
     [](Call& c) { return Binary(c, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }); }},
    {"Xor",
     [](Call& c) { return Binary(c, [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }); }},
    {"Where", Where},
};

}  // namespace

std::span<const Entry> PointwiseTable() { return kTable; }

}  // namespace opsnn::ref
