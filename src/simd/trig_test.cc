#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/trig_test.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/trig-inl.h"

#ifndef OPSNN_SIMD_TRIG_TEST_FUNCTIONS
#define OPSNN_SIMD_TRIG_TEST_FUNCTIONS
namespace opsnn {
enum class TrigFn { kTan, kSinh, kCosh, kAsin, kAcos, kAtan, kAsinh, kAcosh, kAtanh };
}
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

template <class D, class V = VecF<D>>
HWY_INLINE V EvalTrig(D d, TrigFn fn, V x) {
  switch (fn) {
    case TrigFn::kTan:
      return Tan(d, x);
    case TrigFn::kSinh:
      return Sinh(d, x);
    case TrigFn::kCosh:
      return Cosh(d, x);
    case TrigFn::kAsin:
      return Asin(d, x);
    case TrigFn::kAcos:
      return Acos(d, x);
    case TrigFn::kAtan:
      return Atan(d, x);
    case TrigFn::kAsinh:
      return Asinh(d, x);
    case TrigFn::kAcosh:
      return Acosh(d, x);
    case TrigFn::kAtanh:
      return Atanh(d, x);
  }
  return x;
}

// n is a multiple of 16.
void EvalTrigAll(TrigFn fn, const float* x, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(EvalTrig(d, fn, hn::LoadU(d, x + i)), d, out + i);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace opsnn {
namespace {

OPSNN_TIER_TABLE(EvalTrigAll);

std::vector<float> RunTrig(int tier, TrigFn fn, std::vector<float> x) {
  const size_t n = x.size(), padded = (n + 15) / 16 * 16;
  x.resize(padded, 0.5f);
  std::vector<float> out(padded);
  EvalTrigAll_tiers[tier](fn, x.data(), out.data(), padded);
  out.resize(n);
  return out;
}

// Every 1009th float of [lo, hi], with both signs where `both`.
std::vector<float> EveryFloat(float lo, float hi, bool both) {
  std::vector<float> v;
  for (uint64_t u = std::bit_cast<uint32_t>(lo); u <= std::bit_cast<uint32_t>(hi); u += 1009) {
    v.push_back(std::bit_cast<float>(static_cast<uint32_t>(u)));
    if (both) v.push_back(-v.back());
  }
  return v;
}

double UlpsOff(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (got == rounded || (std::isnan(want) && std::isnan(got))) return 0;
  if (std::isinf(got) || std::isinf(rounded) || std::isnan(want)) return 1e9;
  int e = 0;
  std::frexp(want, &e);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, std::max(e - 24, -149));
}

TEST(SimdTrig, UlpBounds) {
  struct Bound {
    TrigFn fn;
    const char* name;
    double (*ref)(double);
    float lo, hi;
    bool both;
    double ulp;
  };
  constexpr float kTiny = 0x1p-149f, kMax = std::numeric_limits<float>::max();
  const Bound kBounds[] = {
      {TrigFn::kTan, "tan", [](double x) { return std::tan(x); }, kTiny, 1e6f, true, 4.5},
      {TrigFn::kSinh, "sinh", [](double x) { return std::sinh(x); }, kTiny, 100.0f, true, 4.5},
      {TrigFn::kCosh, "cosh", [](double x) { return std::cosh(x); }, kTiny, 100.0f, true, 4.5},
      {TrigFn::kAsin, "asin", [](double x) { return std::asin(x); }, kTiny, 2.0f, true, 3},
      {TrigFn::kAcos, "acos", [](double x) { return std::acos(x); }, kTiny, 2.0f, true, 3},
      {TrigFn::kAtan, "atan", [](double x) { return std::atan(x); }, kTiny, kMax, true, 3},
      {TrigFn::kAsinh, "asinh", [](double x) { return std::asinh(x); }, kTiny, kMax, true, 4},
      {TrigFn::kAcosh, "acosh", [](double x) { return std::acosh(x); }, 0.5f, kMax, false, 4},
      {TrigFn::kAtanh, "atanh", [](double x) { return std::atanh(x); }, kTiny, 2.0f, true, 4},
  };
  for (const Bound& b : kBounds) {
    const std::vector<float> x = EveryFloat(b.lo, b.hi, b.both);
    for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
      const std::vector<float> got = RunTrig(tier, b.fn, x);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = UlpsOff(got[i], b.ref(x[i]));
        if (e > worst) worst = e, at = i;
      }
      EXPECT_LE(worst, b.ulp) << b.name << " tier " << isa::Name(static_cast<isa::Tier>(tier))
                              << " x = " << x[at] << " got " << got[at] << " want " << b.ref(x[at]);
      RecordProperty(b.name, std::to_string(worst));
    }
  }
}

TEST(SimdTrig, Specials) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    TrigFn fn;
    double (*ref)(double);
  };
  const Case kCases[] = {
      {TrigFn::kTan, [](double x) { return std::tan(x); }},
      {TrigFn::kSinh, [](double x) { return std::sinh(x); }},
      {TrigFn::kCosh, [](double x) { return std::cosh(x); }},
      {TrigFn::kAsin, [](double x) { return std::asin(x); }},
      {TrigFn::kAcos, [](double x) { return std::acos(x); }},
      {TrigFn::kAtan, [](double x) { return std::atan(x); }},
      {TrigFn::kAsinh, [](double x) { return std::asinh(x); }},
      {TrigFn::kAcosh, [](double x) { return std::acosh(x); }},
      {TrigFn::kAtanh, [](double x) { return std::atanh(x); }},
  };
  for (int tier = 0; tier <= static_cast<int>(isa::BestTier()); ++tier) {
    for (const Case& c : kCases) {
      for (const float v : {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kNan}) {
        for (size_t lane = 0; lane < 16; ++lane) {
          std::vector<float> x(16, 0.25f);
          x[lane] = v;
          const float got = RunTrig(tier, c.fn, x)[lane], want = static_cast<float>(c.ref(v));
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << static_cast<int>(c.fn) << " of " << v << " gives " << got;
          } else if (v == 0) {
            EXPECT_EQ(got, want) << static_cast<int>(c.fn) << " of " << v;
            EXPECT_EQ(std::signbit(got), std::signbit(want)) << static_cast<int>(c.fn) << " of " << v;
          } else {
            EXPECT_LE(UlpsOff(got, c.ref(v)), 4.5)
                << static_cast<int>(c.fn) << " of " << v << " gives " << got;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace opsnn
#endif
