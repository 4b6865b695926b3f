// The element-wise functions of the activation family against their formulas in double.
#include <cmath>
#include <limits>

#include "capi/api_case.h"

namespace opsnn::capi {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double Sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double Silu(double x) { return x == -kInf ? 0 : x * Sigmoid(x); }
double SiluSlope(double x) { return std::isinf(x) ? x > 0 : Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }
double Gelu(double x) { return x == -kInf ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double GeluTanh(double x) {
  return x == -kInf ? 0 : 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) {
  if (std::isinf(x)) return x > 0;
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}
double GeluTanhSlope(double x) {
  if (std::isinf(x)) return x > 0;
  const double k = std::sqrt(2 / M_PI), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}
double MishSlope(double x) {
  if (std::isinf(x)) return x > 0;
  const double t = std::tanh(Softplus(x));
  return t + x * (1 - t * t) * Sigmoid(x);
}
double Clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }
constexpr double kAlpha = 1.6732632423543772848, kScale = 1.0507009873554804935;

// By Newton's method from the value that erf's own slope suggests.
double ErfInv(double y) {
  if (std::isnan(y) || std::fabs(y) > 1) return std::nan("");
  if (std::fabs(y) == 1) return y * kInf;
  double lo = -6, hi = 6;
  for (int i = 0; i < 200; ++i) {
    const double mid = (lo + hi) / 2;
    (std::erf(mid) < y ? lo : hi) = mid;
  }
  return (lo + hi) / 2;
}

const ApiCase kForward[] = {
    {.api = "aclnnRelu",
     .f = [](const double* x, const double*) { return x[0] > 0 || std::isnan(x[0]) ? x[0] : 0; },
     .ulps = 0},
    {.api = "aclnnSigmoid",
     .f = [](const double* x, const double*) { return Sigmoid(x[0]); },
     .result = &FloatResult},
    {.api = "aclnnTanh",
     .f = [](const double* x, const double*) { return std::tanh(x[0]); },
     .result = &FloatResult},
    {.api = "aclnnSilu", .f = [](const double* x, const double*) { return Silu(x[0]); }},
    {.api = "aclnnSwish",
     .f = [](const double* x, const double* s) { return Silu(x[0] * s[0]) / s[0]; },
     .scalars = {1.5}},
    {.api = "aclnnMish",
     .f = [](const double* x,
             const double*) { return x[0] == -kInf ? 0 : x[0] * std::tanh(Softplus(x[0])); }},
    {.api = "aclnnGelu", .f = [](const double* x, const double*) { return GeluTanh(x[0]); }, .absolute = 4},
    {.api = "aclnnGeluV2",
     .f = [](const double* x, const double*) { return Gelu(x[0]); },
     .scalars = {0},
     .absolute = 4},
    {.api = "aclnnGeluV2",
     .f = [](const double* x, const double*) { return GeluTanh(x[0]); },
     .scalars = {1},
     .absolute = 4},
    {.api = "aclnnFastGelu", .f = [](const double* x, const double*) { return Silu(1.702 * x[0]) / 1.702; }},
    {.api = "aclnnElu",
     .f = [](const double* x,
             const double* s) { return s[1] * (x[0] > 0 ? x[0] : s[0] * std::expm1(x[0] * s[2])); },
     .scalars = {1.25, 2, 0.5}},
    {.api = "aclnnCelu",
     .f = [](const double* x, const double* s) { return x[0] > 0 ? x[0] : s[0] * std::expm1(x[0] / s[0]); },
     .scalars = {1.5}},
    {.api = "aclnnSelu",
     .f = [](const double* x,
             const double*) { return kScale * (x[0] > 0 ? x[0] : kAlpha * std::expm1(x[0])); }},
    {.api = "aclnnErfinv",
     .f = [](const double* x, const double*) { return ErfInv(x[0]); },
     .lo = -0.999,
     .hi = 0.999,
     .ulps = 40,
     .result = &FloatResult,
     // 1 - |x| carries the rounding of x itself.
     .condition = [](const double* x, const double*) { return 1 + 1 / std::max(1e-3, 1 - std::fabs(x[0])); }},
    {.api = "aclnnHardsigmoid",
     .f = [](const double* x, const double*) { return Clip(x[0] / 6 + 0.5, 0, 1); },
     .absolute = 4},
    {.api = "aclnnHardswish",
     .f = [](const double* x, const double*) { return x[0] * Clip(x[0] / 6 + 0.5, 0, 1); },
     .absolute = 4},
    {.api = "aclnnHardshrink",
     .f = [](const double* x, const double* s) { return std::fabs(x[0]) > s[0] ? x[0] : 0; },
     .scalars = {0.75},
     .ulps = 0},
    {.api = "aclnnSoftshrink",
     .f = [](const double* x,
             const double* s) { return x[0] > s[0]    ? x[0] - s[0]
                                       : x[0] < -s[0] ? x[0] + s[0]
                                                      : 0; },
     .scalars = {0.75}},
    {.api = "aclnnShrink",
     .f = [](const double* x,
             const double* s) { return x[0] > s[0]    ? x[0] - s[1]
                                       : x[0] < -s[0] ? x[0] + s[1]
                                                      : 0; },
     .scalars = {0.75, 0.25}},
    {.api = "aclnnLeakyRelu",
     .f = [](const double* x, const double* s) { return x[0] > 0 ? x[0] : s[0] * x[0]; },
     .scalars = {0.125}},
    {.api = "aclnnRReluWithNoise",
     .f = [](const double* x, const double*) { return x[0] > 0 ? x[0] : 0.25 * x[0]; },
     .scalars = {0.125, 0.375, 0, 1, 2},
     .checks_shapes = false},
    {.api = "aclnnThreshold",
     .f = [](const double* x, const double* s) { return x[0] > s[0] ? x[0] : s[1]; },
     .scalars = {1, 2},
     .ulps = 0},
    {.api = "aclnnSoftplus",
     .f = [](const double* x,
             const double* s) { return x[0] * s[0] > s[1] ? x[0] : Softplus(x[0] * s[0]) / s[0]; },
     .lo = -8,
     .hi = 8,
     .scalars = {1.5, 6}},
    {.api = "aclnnLogSigmoid", .f = [](const double* x, const double*) { return -Softplus(-x[0]); }},
    {.api = "aclnnLogSigmoidForward",
     .f = [](const double* x, const double*) { return -Softplus(-x[0]); },
     .checks_shapes = false},
    {.api = "aclnnSquaredRelu",
     .f = [](const double* x, const double*) { return x[0] < 0 ? 0 : x[0] * x[0]; }},
    {.api = "aclnnHeaviside",
     .f = [](const double* x, const double*) { return x[0] == 0  ? x[1]
                                                      : x[0] > 0 ? 1.0
                                                                 : 0.0; },
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnAddRelu",
     .f =
         [](const double* x, const double* s) {
           const double y = x[0] + s[0] * x[1];
           return y > 0 || std::isnan(y) ? y : 0;
         },
     .scalars = {2},
     .absolute = 16,
     .broadcast = true},
};

const ApiCase kBackward[] = {
    {.api = "aclnnSigmoidBackward",
     .f = [](const double* x, const double*) { return x[0] * x[1] * (1 - x[1]); },
     .lo = -2,
     .hi = 2,
     .absolute = 16},
    {.api = "aclnnTanhBackward",
     .f = [](const double* x, const double*) { return x[0] * (1 - x[1] * x[1]); },
     .lo = -2,
     .hi = 2,
     .absolute = 16},
    {.api = "aclnnSiluBackward",
     .f = [](const double* x, const double*) { return x[0] * SiluSlope(x[1]); },
     .absolute = 16},
    {.api = "aclnnSwishBackward",
     .f = [](const double* x, const double* s) { return x[0] * SiluSlope(x[1] * s[0]); },
     .scalars = {1.5},
     .absolute = 32},
    {.api = "aclnnFastGeluBackward",
     .f = [](const double* x, const double*) { return x[0] * SiluSlope(1.702 * x[1]); },
     .absolute = 32},
    {.api = "aclnnGeluBackward",
     .f = [](const double* x, const double*) { return x[0] * GeluTanhSlope(x[1]); },
     .absolute = 64},
    {.api = "aclnnGeluBackwardV2",
     .f = [](const double* x, const double*) { return x[0] * GeluSlope(x[1]); },
     .absolute = 32,
     .text = "none"},
    {.api = "aclnnGeluBackwardV2",
     .f = [](const double* x, const double*) { return x[0] * GeluTanhSlope(x[1]); },
     .absolute = 64,
     .text = "tanh"},
    {.api = "aclnnMishBackward",
     .f = [](const double* x, const double*) { return x[0] * MishSlope(x[1]); },
     .absolute = 32},
    {.api = "aclnnEluBackward",
     .f =
         [](const double* x, const double* s) {
           return x[0] * (x[1] > 0 ? s[1] : s[2] * s[0] * s[1] * std::exp(x[1] * s[2]));
         },
     .scalars = {1.25, 2, 0.5, 0}},
    {.api = "aclnnEluBackward",
     .f = [](const double* x,
             const double* s) { return x[0] * (x[1] > 0 ? s[1] : s[2] * (x[1] + s[0] * s[1])); },
     .scalars = {1.25, 2, 0.5, 1},
     .absolute = 16},
    {.api = "aclnnSeluBackward",
     .f = [](const double* x, const double*) { return x[0] * (x[1] > 0 ? kScale : x[1] + kScale * kAlpha); },
     .absolute = 16},
    {.api = "aclnnHardshrinkBackward",
     .f = [](const double* x, const double* s) { return std::fabs(x[1]) > s[0] ? x[0] : 0; },
     .scalars = {0.75},
     .ulps = 0},
    {.api = "aclnnSoftshrinkBackward",
     .f = [](const double* x, const double* s) { return std::fabs(x[1]) > s[0] ? x[0] : 0; },
     .scalars = {0.75},
     .ulps = 0},
    {.api = "aclnnHardsigmoidBackward",
     .f = [](const double* x, const double*) { return std::fabs(x[1]) < 3 ? x[0] / 6 : 0; }},
    {.api = "aclnnHardswishBackward",
     .f =
         [](const double* x, const double*) {
           return x[0] * (x[1] < -3 ? 0 : x[1] > 3 ? 1 : x[1] / 3 + 0.5);
         },
     .absolute = 8},
    {.api = "aclnnHardswishBackwardV2",
     .f =
         [](const double* x, const double*) {
           return x[0] * (x[1] <= -3 ? 0 : x[1] >= 3 ? 1 : x[1] / 3 + 0.5);
         },
     .absolute = 8},
    {.api = "aclnnHardtanhBackward",
     .f = [](const double* x, const double* s) { return x[1] < s[0] || x[1] > s[1] ? 0 : x[0]; },
     .scalars = {-1.5, 1},
     .ulps = 0},
    {.api = "aclnnLeakyReluBackward",
     .f = [](const double* x, const double* s) { return x[1] > 0 ? x[0] : x[0] * s[0]; },
     .scalars = {0.125, 0},
     .broadcast = true},
    {.api = "aclnnLogSigmoidBackward",
     .f = [](const double* x, const double*) { return x[0] * Sigmoid(-x[1]); },
     .scalars = {}},
    {.api = "aclnnSoftplusBackward",
     .f = [](const double* x,
             const double* s) { return x[0] * (x[1] * s[0] > s[1] ? 1 : Sigmoid(x[1] * s[0])); },
     .scalars = {1.5, 3}},
    {.api = "aclnnThresholdBackward",
     .f = [](const double* x, const double* s) { return x[1] > s[0] ? x[0] : 0; },
     .scalars = {1},
     .ulps = 0},
    {.api = "aclnnBinaryCrossEntropyWithLogitsTargetBackward",
     .f = [](const double* x,
             const double*) { return x[0] * x[3] * (x[4] * Softplus(-x[1]) - Softplus(x[1])); },
     .scalars = {0},
     .absolute = 512,
     .special = false},
};

class ActivationApiTest : public ApiTest {};

TEST_F(ActivationApiTest, Forward) {
  Rng rng;
  for (const ApiCase& k : kForward) {
    TestApi(k, rng, stream_);
  }
}

TEST_F(ActivationApiTest, Backward) {
  Rng rng;
  for (const ApiCase& k : kBackward) {
    TestApi(k, rng, stream_);
  }
}

}  // namespace
}  // namespace opsnn::capi
