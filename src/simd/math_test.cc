#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/math_test.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/act-inl.h"
#include "simd/exp-inl.h"
#include "simd/pow-inl.h"

#ifndef OPSNN_SIMD_MATH_TEST_FUNCTIONS
#define OPSNN_SIMD_MATH_TEST_FUNCTIONS
namespace opsnn {
enum class Fn {
  kExpUsual,
  kExpWide,
  kExp,
  kExpm1,
  kLog,
  kErf,
  kTanh,
  kSigmoid,
  kSin,
  kCos,
  kSilu,
  kGeluErf,
  kGeluTanh,
  kElu,
  kSoftplus,
  kMish,
  kPow,
  kMax,
  kMin,
  kRelu,
  kClip
};
}
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

template <class D, class V = VecF<D>>
HWY_INLINE V Eval(D d, Fn fn, V x, V y) {
  switch (fn) {
    case Fn::kExpUsual:
      return ExpUsual(d, x);
    case Fn::kExpWide:
      return ExpWide(d, x);
    case Fn::kExp:
      return Exp(d, x);
    case Fn::kExpm1:
      return Expm1(d, x);
    case Fn::kLog:
      return Log(d, x);
    case Fn::kErf:
      return Erf(d, x);
    case Fn::kTanh:
      return Tanh(d, x);
    case Fn::kSigmoid:
      return Sigmoid(d, x);
    case Fn::kSin:
      return Sin(d, x);
    case Fn::kCos:
      return Cos(d, x);
    case Fn::kSilu:
      return Silu(d, x);
    case Fn::kGeluErf:
      return GeluErf(d, x);
    case Fn::kGeluTanh:
      return GeluTanh(d, x);
    case Fn::kElu:
      return Elu(d, x, 1.0f);
    case Fn::kSoftplus:
      return Softplus(d, x);
    case Fn::kMish:
      return Mish(d, x);
    case Fn::kPow:
      return Pow(d, x, y);
    case Fn::kMax:
      return MaxNan(d, x, y);
    case Fn::kMin:
      return MinNan(d, x, y);
    case Fn::kRelu:
      return Relu(d, x);
    case Fn::kClip:
      return ClipNan(d, x, -1.0f, 2.0f);
  }
  return x;
}

// n is a multiple of 16.
void EvalAll(Fn fn, const float* x, const float* y, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(Eval(d, fn, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i);
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "testing/testing.h"

namespace opsnn {
namespace {

OPSNN_TIER_TABLE(EvalAll);
constexpr float kInf = __builtin_inff();
const float kNan = std::nanf("");

std::vector<float> RunFn(int tier, Fn fn, std::vector<float> x, std::vector<float> y) {
  const size_t n = x.size(), padded = (n + 15) / 16 * 16;
  x.resize(padded, 0.5f), y.resize(padded, 0.5f);
  std::vector<float> out(padded);
  EvalAll_tiers[tier](fn, x.data(), y.data(), out.data(), padded);
  out.resize(n);
  return out;
}

// Every `step`-th float of [lo, hi], both given by value with lo < hi of one sign.
std::vector<float> Floats(float lo, float hi, uint32_t step) {
  uint32_t a = std::bit_cast<uint32_t>(lo), b = std::bit_cast<uint32_t>(hi);
  if (a > b) std::swap(a, b);
  std::vector<float> v;
  for (uint64_t u = a; u <= b; u += step) v.push_back(std::bit_cast<float>(static_cast<uint32_t>(u)));
  return v;
}

double UlpError(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0.0;
  if (std::isinf(got) || std::isinf(rounded)) return 1e9;
  int e = 0;
  std::frexp(want, &e);
  const double ulp = std::ldexp(1.0, std::max(e - 24, -149));
  return std::fabs(static_cast<double>(got) - want) / ulp;
}

struct Bound {
  Fn fn;
  const char* name;
  double (*ref)(double);
  float lo, hi;
  double ulp;
};

double Sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }

TEST(SimdMath, UlpBounds) {
  const Bound kBounds[] = {
      {Fn::kExp, "exp", [](double x) { return std::exp(x); }, 0x1p-30f, 89.5f, 1.5},
      {Fn::kExp, "exp-", [](double x) { return std::exp(x); }, -105.0f, -0x1p-30f, 1.5},
      {Fn::kExpUsual, "exp of passes", [](double x) { return std::exp(x); }, 0x1p-30f, 89.5f, 1.5},
      {Fn::kExpUsual, "exp- of passes", [](double x) { return std::exp(x); }, -105.0f, -0x1p-30f, 1.5},
      {Fn::kLog, "log", [](double x) { return std::log(x); }, 0x1p-149f, 0x1.fffffep127f, 1},
      {Fn::kErf, "erf", [](double x) { return std::erf(x); }, 0x1p-149f, 10.0f, 1.5},
      {Fn::kTanh, "tanh", [](double x) { return std::tanh(x); }, 0x1p-100f, 20.0f, 3},
      {Fn::kTanh, "tanh-", [](double x) { return std::tanh(x); }, -20.0f, -0x1p-100f, 3},
      {Fn::kExpm1, "expm1", [](double x) { return std::expm1(x); }, 0x1p-100f, 88.0f, 1.5},
      {Fn::kExpm1, "expm1-", [](double x) { return std::expm1(x); }, -200.0f, -0x1p-100f, 1.5},
      {Fn::kSigmoid, "sigmoid", Sigmoid64, 0x1p-60f, 200.0f, 2.5},
      {Fn::kSigmoid, "sigmoid-", Sigmoid64, -87.0f, -0x1p-60f, 2.5},
      {Fn::kSin, "sin", [](double x) { return std::sin(x); }, 0x1p-149f, 1e6f, 2},
      {Fn::kSin, "sin huge", [](double x) { return std::sin(x); }, 0x1p27f, 0x1.fffffep127f, 2},
      {Fn::kCos, "cos", [](double x) { return std::cos(x); }, -1e6f, -0x1p-149f, 2},
      {Fn::kSoftplus, "softplus", [](double x) { return std::log1p(std::exp(x)); }, -80.0f, -0x1p-30f, 3},
      {Fn::kSoftplus, "softplus+", [](double x) { return x + std::log1p(std::exp(-x)); }, 0x1p-30f, 200.0f,
       5},
      {Fn::kMish, "mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 0x1p-30f, 100.0f,
       8},
      {Fn::kElu, "elu", [](double x) { return x > 0 ? x : std::expm1(x); }, -100.0f, -0x1p-100f, 1.5},
  };
  for (const Bound& b : kBounds) {
    const std::vector<float> x = Floats(b.lo, b.hi, 1009);
    for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
      const std::vector<float> got = RunFn(tier, b.fn, x, x);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = UlpError(got[i], b.ref(x[i]));
        if (e > worst) worst = e, at = i;
      }
      EXPECT_LE(worst, b.ulp) << b.name << " tier " << isa::Name(static_cast<isa::Tier>(tier))
                              << " x = " << x[at] << " got " << got[at] << " want " << b.ref(x[at]);
      RecordProperty(b.name, std::to_string(worst));
    }
  }
}

TEST(SimdMath, ExpUsualHasTheBitsOfExpWide) {
  testing::Rng rng;
  std::vector<float> x = Floats(-110.0f, -0x1p-30f, 40009);
  const std::vector<float> positive = Floats(0x1p-30f, 100.0f, 40009);
  x.insert(x.end(), positive.begin(), positive.end());
  std::shuffle(x.begin(), x.end(), rng.engine());
  x.insert(x.end(), {kNan, kInf, -kInf, 0.0f, -0.0f});
  for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
    const std::vector<float> a = RunFn(tier, Fn::kExpWide, x, x), b = RunFn(tier, Fn::kExpUsual, x, x);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << tier;
    const std::vector<float> small(1000, -1.25f);  // all on the short way
    EXPECT_EQ(RunFn(tier, Fn::kExpWide, small, small), RunFn(tier, Fn::kExpUsual, small, small));
    for (float v = -90; v < 90; v += 0.37f) {
      const std::vector<float> same(16, v);
      ASSERT_EQ(RunFn(tier, Fn::kExpWide, same, same), RunFn(tier, Fn::kExpUsual, same, same)) << v;
    }
  }
}

// The exponential of register epilogues and that of passes: the same bits where both are the polynomial (up
// to AVX2), else as far apart as their bounds of 1.5 ulp allow, and the same at the ends.
TEST(SimdMath, ExpOfRegistersIsNearThatOfPasses) {
  std::vector<float> x = Floats(-110.0f, -0x1p-30f, 40009);
  const std::vector<float> positive = Floats(0x1p-30f, 100.0f, 40009);
  x.insert(x.end(), positive.begin(), positive.end());
  const std::vector<float> ends = {kInf, -kInf, 0.0f, -0.0f, 89.0f, 200.0f, -104.0f, -200.0f};
  for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
    const std::vector<float> a = RunFn(tier, Fn::kExp, x, x), b = RunFn(tier, Fn::kExpUsual, x, x);
    const int64_t allowed = tier <= static_cast<int>(isa::Tier::kAvx2) ? 0 : 3;
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t apart = int64_t{std::bit_cast<int32_t>(a[i])} - std::bit_cast<int32_t>(b[i]);
      ASSERT_LE(std::abs(apart), allowed) << "tier " << tier << " x " << x[i] << ": " << a[i] << " " << b[i];
    }
    EXPECT_EQ(RunFn(tier, Fn::kExp, ends, ends), RunFn(tier, Fn::kExpUsual, ends, ends)) << tier;
    const std::vector<float> nan = {kNan, -kNan};
    for (const float v : RunFn(tier, Fn::kExp, nan, nan)) EXPECT_TRUE(std::isnan(v));
    for (const float v : RunFn(tier, Fn::kExpUsual, nan, nan)) EXPECT_TRUE(std::isnan(v));
  }
}

// |error| <= abs * max(|x|, tiny) everywhere, relative error <= rel where |x| <= 6.
void CheckGated(Fn fn, double (*ref)(double), double abs, double rel) {
  for (float sign : {1.0f, -1.0f}) {
    std::vector<float> x = Floats(0x1p-60f, 0x1p60f, 2003);
    for (float& v : x) v *= sign;
    for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
      const std::vector<float> got = RunFn(tier, fn, x, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = ref(x[i]), e = std::fabs(got[i] - want);
        ASSERT_LE(e, abs * std::fabs(x[i]))
            << "tier " << tier << " x " << x[i] << " got " << got[i] << " want " << want;
        if (std::fabs(x[i]) <= 6) {
          ASSERT_LE(e, rel * std::fabs(want)) << "tier " << tier << " x " << x[i] << " got " << got[i];
        }
      }
    }
  }
}
TEST(SimdMath, GeluErf) {
  CheckGated(
      Fn::kGeluErf, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }, 2.5e-7, 5e-4);
}
TEST(SimdMath, GeluTanh) {
  CheckGated(
      Fn::kGeluTanh,
      [](double x) {
        const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
        return x / (1 + std::exp(-2 * u));
      },
      2.5e-7, 5e-4);
}
TEST(SimdMath, Silu) {
  CheckGated(
      Fn::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, 2.5e-7, 1e-6);
}

TEST(SimdMath, PowMatchesLibm) {
  testing::Rng rng;
  std::vector<float> x, y;
  const float special[] = {0.0f,  -0.0f, 1.0f,  -1.0f, 2.0f,  3.0f,      -2.0f,  -3.0f, 0.5f,
                           -0.5f, kInf,  -kInf, kNan,  1e30f, 0x1p-149f, 1e-30f, 2.5f,  1e9f};
  for (float a : special)
    for (float b : special) x.push_back(a), y.push_back(b);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng.engine()())));
    y.push_back(static_cast<float>(rng.Real(-10, 10)));
    x.push_back(static_cast<float>(rng.Real(0, 3)));
    y.push_back(static_cast<float>(rng.Real(-90, 90)));
  }
  for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
    const std::vector<float> got = RunFn(tier, Fn::kPow, x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(UlpError(got[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))), 0.51)
          << x[i] << " ^ " << y[i] << " = " << got[i];
    }
  }
}

TEST(SimdMath, SpecialsInEveryLane) {
  struct Case {
    Fn fn;
    float x, y, want;
  };
  const Case kCases[] = {
      {Fn::kExp, kNan, 0, kNan},
      {Fn::kExp, kInf, 0, kInf},
      {Fn::kExp, -kInf, 0, 0},
      {Fn::kExp, -0.0f, 0, 1},
      {Fn::kExp, 88.8f, 0, kInf},
      {Fn::kExpUsual, kNan, 0, kNan},
      {Fn::kExpUsual, kInf, 0, kInf},
      {Fn::kExpUsual, -kInf, 0, 0},
      {Fn::kExpUsual, -0.0f, 0, 1},
      {Fn::kExpUsual, 88.8f, 0, kInf},
      {Fn::kLog, kNan, 0, kNan},
      {Fn::kLog, kInf, 0, kInf},
      {Fn::kLog, 0, 0, -kInf},
      {Fn::kLog, -0.0f, 0, -kInf},
      {Fn::kLog, -1, 0, kNan},
      {Fn::kLog, -kInf, 0, kNan},
      {Fn::kLog, 1, 0, 0},
      {Fn::kErf, kNan, 0, kNan},
      {Fn::kErf, kInf, 0, 1},
      {Fn::kErf, -kInf, 0, -1},
      {Fn::kErf, -0.0f, 0, -0.0f},
      {Fn::kTanh, kNan, 0, kNan},
      {Fn::kTanh, kInf, 0, 1},
      {Fn::kTanh, -kInf, 0, -1},
      {Fn::kTanh, -0.0f, 0, -0.0f},
      {Fn::kSigmoid, kNan, 0, kNan},
      {Fn::kSigmoid, kInf, 0, 1},
      {Fn::kSigmoid, -kInf, 0, 0},
      {Fn::kSin, kNan, 0, kNan},
      {Fn::kSin, kInf, 0, kNan},
      {Fn::kSin, -0.0f, 0, -0.0f},
      {Fn::kCos, kInf, 0, kNan},
      {Fn::kCos, 0, 0, 1},
      {Fn::kSilu, kNan, 0, kNan},
      {Fn::kSilu, kInf, 0, kInf},
      {Fn::kSilu, -kInf, 0, -0.0f},
      {Fn::kSilu, -200, 0, -0.0f},
      {Fn::kGeluErf, kNan, 0, kNan},
      {Fn::kGeluErf, kInf, 0, kInf},
      {Fn::kGeluErf, -kInf, 0, 0},
      {Fn::kGeluErf, -200, 0, 0},
      {Fn::kGeluErf, 1e20f, 0, 1e20f},
      {Fn::kGeluTanh, kNan, 0, kNan},
      {Fn::kGeluTanh, kInf, 0, kInf},
      {Fn::kGeluTanh, -kInf, 0, -0.0f},
      {Fn::kGeluTanh, 1e20f, 0, 1e20f},
      {Fn::kElu, kNan, 0, kNan},
      {Fn::kElu, -kInf, 0, -1},
      {Fn::kElu, kInf, 0, kInf},
      {Fn::kSoftplus, kNan, 0, kNan},
      {Fn::kSoftplus, kInf, 0, kInf},
      {Fn::kSoftplus, -kInf, 0, 0},
      {Fn::kMish, kNan, 0, kNan},
      {Fn::kMish, kInf, 0, kInf},
      {Fn::kMish, -kInf, 0, 0},
      {Fn::kMax, kNan, 1, kNan},
      {Fn::kMax, 1, kNan, kNan},
      {Fn::kMax, 1, 2, 2},
      {Fn::kMin, kNan, 1, kNan},
      {Fn::kMin, 1, kNan, kNan},
      {Fn::kMin, 1, 2, 1},
      {Fn::kRelu, kNan, 0, kNan},
      {Fn::kRelu, -kInf, 0, 0},
      {Fn::kClip, kNan, 0, kNan},
      {Fn::kClip, kInf, 0, 2},
      {Fn::kClip, -kInf, 0, -1},
  };
  for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
    for (const Case& c : kCases) {
      for (size_t lane = 0; lane < 16; ++lane) {
        std::vector<float> x(16, 0.25f), y(16, 0.25f);
        x[lane] = c.x, y[lane] = c.y;
        const float got = RunFn(tier, c.fn, x, y)[lane];
        if (std::isnan(c.want)) {
          EXPECT_TRUE(std::isnan(got)) << static_cast<int>(c.fn) << " of " << c.x << " gives " << got;
        } else {
          EXPECT_EQ(got, c.want) << static_cast<int>(c.fn) << " of " << c.x << " lane " << lane << " tier "
                                 << tier;
          if (c.want == 0 && c.x == 0) {
            EXPECT_EQ(std::signbit(got), std::signbit(c.want)) << static_cast<int>(c.fn);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace opsnn
#endif
