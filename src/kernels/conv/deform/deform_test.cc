#include "kernels/conv/deform/deform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/buffer.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

struct Case {
  ConvShape s;
  int64_t offset_groups = 1;
  std::vector<float> x, w, bias, dy, dx, mask;
  bool masked = true;
};

double Pixel(const ConvShape& s, const float* plane, int64_t y, int64_t x) {
  return y >= 0 && y < s.h && x >= 0 && x < s.w ? double{plane[y * s.w + x]} : 0.0;
}

// The sampled value from the definition, and what its rounding is relative to: shares of pixels are
// differences, so their error is that of whole pixels.
double Sampled(const Case& k, int64_t n, int64_t c, int64_t tap, int64_t p, double* magnitude) {
  const ConvShape& s = k.s;
  const int64_t d = c / (s.c / k.offset_groups), pixels = s.oh * s.ow;
  const auto at = static_cast<size_t>(((n * k.offset_groups + d) * s.taps() + tap) * pixels + p);
  const double y = double(p / s.ow * s.sh - s.pt + tap / s.kw * s.dh) + k.dy[at],
               x = double(p % s.ow * s.sw - s.pl + tap % s.kw * s.dw) + k.dx[at];
  const double top = std::floor(y), left = std::floor(x);
  const float* plane = k.x.data() + (n * s.c + c) * s.plane();
  double value = 0, all = 0;
  for (int i = 0; i < 4; ++i) {
    const double share = (i / 2 ? y - top : top + 1 - y) * (i % 2 ? x - left : left + 1 - x);
    const double v = Pixel(s, plane, int64_t(top) + i / 2, int64_t(left) + i % 2);
    value += share * v, all += std::fabs(v);
  }
  const double mask = k.masked ? k.mask[at] : 1.0;
  *magnitude = all * std::fabs(mask);
  return value * mask;
}

Case RandomCase(Rng& rng) {
  Case k;
  ConvShape& s = k.s;
  s.n = rng.Int(0, 2);
  const int64_t groups[] = {1, 1, 2, 3}, offset_groups[] = {1, 1, 2, 3, 6};
  s.groups = groups[rng.Int(0, 3)], k.offset_groups = offset_groups[rng.Int(0, 4)];
  s.c = 6 * rng.Int(1, 6), s.oc = s.groups * rng.Int(1, 20);
  s.h = rng.Int(1, 9), s.w = rng.Int(1, 12);
  s.kh = rng.Int(1, 3), s.kw = rng.Int(1, 4), s.sh = rng.Int(1, 2), s.sw = rng.Int(1, 3);
  s.dh = rng.Int(1, 2), s.dw = rng.Int(1, 2), s.pt = rng.Int(0, 2), s.pl = rng.Int(0, 2);
  const auto out = [&](int64_t in, int64_t pad, int64_t kernel, int64_t stride, int64_t dilation) {
    return std::max<int64_t>(0, in + pad + rng.Int(0, 2) - (kernel - 1) * dilation - 1) / stride + 1;
  };
  s.oh = out(s.h, s.pt, s.kh, s.sh, s.dh), s.ow = out(s.w, s.pl, s.kw, s.sw, s.dw);
  const auto fill = [&](std::vector<float>* v, int64_t count, double range) {
    v->resize(static_cast<size_t>(count));
    // Some whole numbers: places that are pixels.
    for (float& f : *v) f = static_cast<float>(rng.Chance(0.2) ? rng.Int(-1, 1) : rng.Real(-range, range));
  };
  const int64_t places = s.n * k.offset_groups * s.taps() * s.oh * s.ow;
  fill(&k.x, s.n * s.c * s.plane(), 1), fill(&k.w, s.oc * (s.c / s.groups) * s.taps(), 1),
      fill(&k.bias, s.oc, 1);
  fill(&k.dy, places, 4), fill(&k.dx, places, 4), fill(&k.mask, places, 2);
  k.masked = rng.Chance(0.6);
  return k;
}

struct Result {
  std::vector<float> y, columns;
};
Result RunCase(const Case& k, int threads) {
  const ConvShape& s = k.s;
  const DeformPlan plan = PlanDeform(s, k.offset_groups);
  constexpr size_t kGuard = 16;
  constexpr float kMark = 777;
  const size_t y_count = static_cast<size_t>(s.n * s.oc * s.oh * s.ow),
               columns_count = static_cast<size_t>(s.n * s.c * s.oh * s.ow * s.taps());
  std::vector<float> y(y_count + 2 * kGuard, kMark), columns(columns_count + 2 * kGuard, kMark);
  AlignedBuffer workspace(std::max<size_t>(plan.workspace_bytes, 64));
  std::memset(workspace.data(), 0xff, workspace.bytes());
  const int64_t pixels = s.oh * s.ow, channels = k.offset_groups * s.taps();
  DeformArgs a;
  a.x = k.x.data(), a.w = k.w.data(), a.bias = k.bias.data();
  a.dy = {k.dy.data(), channels * pixels, pixels}, a.dx = {k.dx.data(), channels * pixels, pixels};
  if (k.masked) a.mask = {k.mask.data(), channels * pixels, pixels};
  a.y = y.data() + kGuard, a.columns = columns.data() + kGuard, a.workspace = workspace.data();
  SetNumThreads(threads);
  RunDeform(plan, a);
  SetNumThreads(0);
  for (size_t i = 0; i < kGuard; ++i) {
    EXPECT_TRUE(y[i] == kMark && y[y_count + kGuard + i] == kMark);
    EXPECT_TRUE(columns[i] == kMark && columns[columns_count + kGuard + i] == kMark);
  }
  const auto inner = [&](const std::vector<float>& v) {
    return std::vector<float>(v.begin() + kGuard, v.end() - kGuard);
  };
  return {inner(y), inner(columns)};
}

void Check(const Case& k) {
  const ConvShape& s = k.s;
  const Result r = RunCase(k, 1), again = RunCase(k, 3);
  ASSERT_EQ(r.y.size(), again.y.size());
  const auto same = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  EXPECT_TRUE(std::equal(r.y.begin(), r.y.end(), again.y.begin(), same)) << "by threads";
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups;
  constexpr int64_t kSamplingTerms = 8;  // four products, their factors and the mask
  std::vector<double> want, tolerance, want_columns(r.columns.size()), column_tolerance(r.columns.size());
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < s.oc; ++o)
      for (int64_t p = 0; p < s.oh * s.ow; ++p) {
        double sum = k.bias[static_cast<size_t>(o)], all = std::fabs(sum);
        for (int64_t c = o / og * cg; c < (o / og + 1) * cg; ++c)
          for (int64_t t = 0; t < s.taps(); ++t) {
            double magnitude;
            const double v = Sampled(k, n, c, t, p, &magnitude);
            const double w = k.w[static_cast<size_t>((o * cg + c % cg) * s.taps() + t)];
            sum += w * v, all += std::fabs(w) * magnitude;
            const auto at =
                static_cast<size_t>(((n * s.c + c) * s.oh * s.kh + p / s.ow * s.kh + t / s.kw) * s.ow * s.kw +
                                    p % s.ow * s.kw + t % s.kw);
            want_columns[at] = v;
            column_tolerance[at] =
                testing::ContractionTolerance(magnitude, v, kSamplingTerms, DType::kF32, DType::kF32);
          }
        want.push_back(sum);
        tolerance.push_back(testing::ContractionTolerance(all, sum, cg * s.taps() + kSamplingTerms + 1,
                                                          DType::kF32, DType::kF32));
      }
  EXPECT_EQ(testing::Compare({r.y.begin(), r.y.end()}, want, tolerance), "");
  EXPECT_EQ(testing::Compare({r.columns.begin(), r.columns.end()}, want_columns, column_tolerance), "");
}

class Deform : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(Deform, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(500)) {
    const Case k = RandomCase(rng);
    SCOPED_TRACE(StrFormat("n%d c%d %dx%d -> %d %dx%d k%dx%d g%d d%d", int(k.s.n), int(k.s.c), int(k.s.h),
                           int(k.s.w), int(k.s.oc), int(k.s.oh), int(k.s.ow), int(k.s.kh), int(k.s.kw),
                           int(k.s.groups), int(k.offset_groups)));
    Check(k);
    if (HasFailure()) return;
  }
}

// Columns beyond a chunk, and places that are no numbers or far away.
TEST_P(Deform, ChunksAndOddPlaces) {
  Rng rng;
  Case k;
  k.s.c = 48, k.s.h = k.s.w = k.s.oh = k.s.ow = 32, k.s.oc = 20, k.s.kh = k.s.kw = 3, k.s.pt = k.s.pl = 1;
  const size_t pixels = 32 * 32;
  k.x.resize(48 * pixels), k.w.resize(20 * 48 * 9), k.bias.resize(20);
  k.dy.resize(9 * pixels), k.dx.resize(9 * pixels), k.masked = false;
  for (auto* v : {&k.x, &k.w, &k.bias, &k.dy, &k.dx})
    for (float& f : *v) f = static_cast<float>(rng.Real(-1, 1));
  ASSERT_LT(PlanDeform(k.s, 1).chunk_rows, k.s.oh);
  Check(k);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float& f : k.dy) f = kInf;
  k.dy[5] = std::nanf("");
  k.dx[6] = -kInf;
  const Result r = RunCase(k, 1);
  for (size_t o = 0; o < 20; ++o)
    for (size_t p = 0; p < pixels; ++p) {
      if (p == 5) {
        EXPECT_TRUE(std::isnan(r.y[o * pixels + p]));
      } else {
        EXPECT_EQ(r.y[o * pixels + p], k.bias[o]);  // nothing but zeros outside the image
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Tiers, Deform,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
