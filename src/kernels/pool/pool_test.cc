#include "kernels/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "isa/tier.h"
#include "kernels/pool/lanes.h"
#include "testing/testing.h"
#include "vector/streaming.h"

namespace opsnn::pool {
namespace {

using testing::Rng;
constexpr int64_t kC0 = 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = 12345.0f;
constexpr size_t kGuards = 32;

size_t Stored(int64_t n, int64_t c, int64_t pixels, bool blocked) {
  return static_cast<size_t>(n * (blocked ? (c + kC0 - 1) / kC0 * kC0 : c) * pixels);
}
size_t At(int64_t n, int64_t c, int64_t channels, int64_t pixels, int64_t p, bool blocked) {
  if (!blocked) return static_cast<size_t>((n * channels + c) * pixels + p);
  return static_cast<size_t>(((n * ((channels + kC0 - 1) / kC0) + c / kC0) * pixels + p) * kC0 + c % kC0);
}

double Reference(const PoolShape& s, const std::vector<float>& x, int64_t n, int64_t c, int64_t oy,
                 int64_t ox) {
  double best = -std::numeric_limits<double>::infinity(), sum = 0;
  int64_t count = 0;
  for (int64_t ky = 0; ky < s.kh; ++ky)
    for (int64_t kx = 0; kx < s.kw; ++kx) {
      const int64_t y = oy * s.sh - s.pt + ky * s.dh, xx = ox * s.sw - s.pl + kx * s.dw;
      const bool in = y >= 0 && y < s.h && xx >= 0 && xx < s.w;
      if (in || (s.include_pad && y < s.h + s.pb && xx < s.w + s.pr)) ++count;
      if (!in) continue;
      const double v = x[At(n, c, s.c, s.h * s.w, y * s.w + xx, s.x_blocked)];
      if (std::isnan(v) || std::isnan(best)) {
        best = kNan;
      } else {
        best = std::max(best, v);
      }
      sum += v;
    }
  if (s.kind == Kind::kMax) return best;
  return count ? sum / static_cast<double>(count) : 0.0;
}

PoolShape RandomShape(Rng& rng) {
  PoolShape s;
  s.kind = rng.Chance(0.5) ? Kind::kMax : Kind::kAverage;
  s.n = rng.Int(1, 3), s.c = rng.Int(1, 40), s.h = rng.Int(1, 30), s.w = rng.Int(1, 40);
  s.kh = rng.Int(1, 4), s.kw = rng.Int(1, 4), s.sh = rng.Int(1, 3), s.sw = rng.Int(1, 3);
  if (rng.Chance(0.3)) s.dh = rng.Int(1, 2), s.dw = rng.Int(1, 3);
  s.pt = rng.Int(0, s.kh - 1), s.pb = rng.Int(0, s.kh - 1), s.pl = rng.Int(0, s.kw - 1),
  s.pr = rng.Int(0, s.kw - 1);
  s.include_pad = rng.Chance(0.5), s.x_blocked = rng.Chance(0.6), s.y_blocked = rng.Chance(0.6);
  const int64_t eh = (s.kh - 1) * s.dh + 1, ew = (s.kw - 1) * s.dw + 1;
  s.h = std::max(s.h, eh), s.w = std::max(s.w, ew);
  const bool ceil_mode = rng.Chance(0.4);
  const auto out = [&](int64_t in, int64_t e, int64_t stride, int64_t before, int64_t after) {
    int64_t o = (in + before + after - e + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    return (o - 1) * stride >= in + before ? o - 1 : o;
  };
  s.oh = out(s.h, eh, s.sh, s.pt, s.pb), s.ow = out(s.w, ew, s.sw, s.pl, s.pr);
  return s;
}

class PoolTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

// The windows that vision models begin with, and results that are written past the caches: those of parts of
// a large result.
TEST_P(PoolTest, UsualWindowsAndResultsPastTheCaches) {
  Rng rng;
  for (auto _ : testing::FuzzFor(500)) {
    PoolShape s = RandomShape(rng);
    s.x_blocked = s.y_blocked = false;
    s.w = rng.Int(1, 150), s.c = rng.Int(1, 4);
    if (rng.Chance(0.4)) {
      s.kind = Kind::kMax;
      s.kh = s.kw = 3, s.sh = s.sw = 2, s.dh = s.dw = 1, s.pt = s.pl = s.pb = s.pr = 1;
    } else if (rng.Chance(0.5)) {
      s.kh = s.kw = 2, s.sh = s.sw = 2, s.dh = s.dw = 1, s.pt = s.pl = s.pb = s.pr = 0;
      s.h = std::max<int64_t>(s.h, 2), s.w = std::max<int64_t>(s.w, 2);
    } else {
      s.w = std::max(s.w, (s.kw - 1) * s.dw + 1);
    }
    const bool up = rng.Chance(0.3);
    const auto out = [&](int64_t in, int64_t e, int64_t stride, int64_t before, int64_t after) {
      const int64_t o = (in + before + after - e + (up ? stride - 1 : 0)) / stride + 1;
      return (o - 1) * stride >= in + before ? o - 1 : o;
    };
    s.oh = out(s.h, (s.kh - 1) * s.dh + 1, s.sh, s.pt, s.pb);
    s.ow = out(s.w, (s.kw - 1) * s.dw + 1, s.sw, s.pl, s.pr);
    std::vector<float> x(Stored(s.n, s.c, s.h * s.w, false));
    const double nan = rng.Chance(0.5) ? 0.002 : 0;
    for (float& v : x) v = rng.Chance(nan) ? kNan : static_cast<float>(rng.Real(-2, 2));
    std::vector<float> y[2];
    for (int mode = 0; mode < 2; ++mode) {
      SetNumThreads(mode + 1);
      const vector::PartOfResult whole(mode == 0 ? 0 : vector::StreamingThreshold());
      y[mode].assign(Stored(s.n, s.c, s.oh * s.ow, false) + 2 * kGuards, kGuard);
      ASSERT_TRUE(RunPool(s, x.data(), y[mode].data() + kGuards).ok());
    }
    SetNumThreads(0);
    SCOPED_TRACE(StrFormat("%dx%d -> %dx%d k%dx%d s%dx%d p%d,%d", int(s.h), int(s.w), int(s.oh), int(s.ow),
                           int(s.kh), int(s.kw), int(s.sh), int(s.sw), int(s.pt), int(s.pl)));
    ASSERT_EQ(std::memcmp(y[0].data(), y[1].data(), y[0].size() * sizeof(float)), 0);
    for (size_t i = 0; i < kGuards; ++i)
      ASSERT_TRUE(y[0][i] == kGuard && y[0][y[0].size() - 1 - i] == kGuard);
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t c = 0; c < s.c; ++c)
        for (int64_t p = 0; p < s.oh * s.ow; ++p) {
          const double want = Reference(s, x, n, c, p / s.ow, p % s.ow);
          const double got = y[0][kGuards + At(n, c, s.c, s.oh * s.ow, p, false)];
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want || std::abs(got - want) < 1e-5)
              << "plane " << c << " at " << p << ": " << got << " instead of " << want;
        }
  }
}

TEST_P(PoolTest, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(500)) {
    const PoolShape s = RandomShape(rng);
    SCOPED_TRACE(
        StrFormat("kind %d n%d c%d %dx%d -> %dx%d k%dx%d s%dx%d d%dx%d p%d,%d,%d,%d include %d x%d y%d",
                  int(s.kind), int(s.n), int(s.c), int(s.h), int(s.w), int(s.oh), int(s.ow), int(s.kh),
                  int(s.kw), int(s.sh), int(s.sw), int(s.dh), int(s.dw), int(s.pt), int(s.pl), int(s.pb),
                  int(s.pr), s.include_pad, s.x_blocked, s.y_blocked));
    std::vector<float> x(Stored(s.n, s.c, s.h * s.w, s.x_blocked), kNan);
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t c = 0; c < s.c; ++c)
        for (int64_t p = 0; p < s.h * s.w; ++p)
          x[At(n, c, s.c, s.h * s.w, p, s.x_blocked)] =
              rng.Chance(0.01) ? kNan : static_cast<float>(rng.Real(-2, 2));
    const size_t stored = Stored(s.n, s.c, s.oh * s.ow, s.y_blocked);
    std::vector<float> y, first;
    for (int threads = 1; threads <= 2; ++threads) {
      SetNumThreads(threads);
      y.assign(stored + 2 * kGuards, kGuard);
      ASSERT_TRUE(RunPool(s, x.data(), y.data() + kGuards).ok());
      if (threads == 1) first = y;
    }
    SetNumThreads(0);
    ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)), 0);
    for (size_t i = 0; i < kGuards; ++i) ASSERT_TRUE(y[i] == kGuard && y[y.size() - 1 - i] == kGuard);
    std::vector<double> got, want, tolerance;
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t c = 0; c < s.c; ++c)
        for (int64_t p = 0; p < s.oh * s.ow; ++p) {
          got.push_back(y[kGuards + At(n, c, s.c, s.oh * s.ow, p, s.y_blocked)]);
          want.push_back(Reference(s, x, n, c, p / s.ow, p % s.ow));
          tolerance.push_back(s.kind == Kind::kMax ? 0
                                                   : testing::ContractionTolerance(2, 2, s.kh * s.kw,
                                                                                   DType::kF32, DType::kF32));
        }
    ASSERT_EQ(testing::Compare(got, want, tolerance), "");
  }
}

// One window of 2x2 in a vector of 128 lanes, and as many as a row has.
TEST(Lanes, AreUsedByManyWindowsOrChannels) {
  PoolShape s;
  s.c = 64, s.kh = s.kw = 2, s.oh = s.ow = 112;
  constexpr int64_t kNpu = 128;
  EXPECT_DOUBLE_EQ(LanesUsed(Form::kNaive, s, kNpu), 4.0 / kNpu);
  EXPECT_GT(LanesUsed(Form::kPlanes, s, kNpu), 0.8);
  EXPECT_DOUBLE_EQ(LanesUsed(Form::kBlocked, s, kNpu), 0.5);
  for (const Form form : {Form::kPlanes, Form::kBlocked}) EXPECT_DOUBLE_EQ(LanesUsed(form, s, 16), 1);
  EXPECT_STREQ(Name(Form::kNaive), "naive");
}

TEST_P(PoolTest, Global) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int64_t n = rng.Int(1, 3), c = rng.Int(1, 50), pixels = rng.Int(1, 400);
    const bool xb = rng.Chance(0.5), yb = rng.Chance(0.5), nan = rng.Chance(0.2);
    std::vector<float> x(Stored(n, c, pixels, xb), kNan);
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < c; ++b)
        for (int64_t p = 0; p < pixels; ++p)
          x[At(a, b, c, pixels, p, xb)] =
              nan && rng.Chance(0.01) ? kNan : static_cast<float>(rng.Real(-2, 2));
    for (const Kind kind : {Kind::kMax, Kind::kAverage}) {
      std::vector<float> y(Stored(n, c, 1, yb) + 1, kGuard);
      RunGlobalPool(kind, n, c, pixels, xb, yb, x.data(), y.data());
      EXPECT_EQ(y.back(), kGuard);
      for (int64_t a = 0; a < n; ++a)
        for (int64_t b = 0; b < c; ++b) {
          double best = -INFINITY, sum = 0;
          bool any_nan = false;
          for (int64_t p = 0; p < pixels; ++p) {
            const double v = x[At(a, b, c, pixels, p, xb)];
            any_nan |= std::isnan(v);
            best = std::max(best, v), sum += v;
          }
          const double got = y[At(a, b, c, 1, 0, yb)];
          if (any_nan) {
            EXPECT_TRUE(std::isnan(got));
          } else if (kind == Kind::kMax) {
            EXPECT_EQ(got, best);
          } else {
            EXPECT_NEAR(got, sum / static_cast<double>(pixels),
                        testing::ContractionTolerance(2, 2, pixels, DType::kF32, DType::kF32));
          }
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, PoolTest,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::pool
