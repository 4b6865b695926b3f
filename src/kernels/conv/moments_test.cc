#include "kernels/conv/moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

struct Moments {
  std::vector<float> y;  // NCHW
  std::vector<double> mean, variance;
};

Moments RunCase(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& w,
                const std::vector<float>& bias, int threads) {
  const ConvPlan plan = PlanConv(s);
  AlignedBuffer packing(static_cast<size_t>(plan.packed_floats + 1) * sizeof(float)),
      workspace(plan.workspace_bytes + 1),
      moments(static_cast<size_t>(MomentFloats(plan) + 1) * sizeof(float));
  constexpr float kMark = 777;
  std::memset(moments.data(), 0xff, moments.bytes());
  moments.as<float>()[MomentFloats(plan)] = kMark;
  Moments m;
  m.y.resize(static_cast<size_t>(s.n * s.oc * s.out_plane()));
  m.mean.resize(static_cast<size_t>(s.oc)), m.variance.resize(static_cast<size_t>(s.oc));
  ConvArgs a;
  a.x = x.data(), a.y = m.y.data(), a.plain_weights = w.data(), a.packing = packing.as<float>();
  a.workspace = workspace.data(), a.moments = moments.as<float>(), a.epilogue.bias = bias.data();
  SetNumThreads(threads);
  RunConv(plan, a);
  JoinMoments(plan, a.moments, m.mean.data(), m.variance.data());
  SetNumThreads(0);
  EXPECT_EQ(moments.as<float>()[MomentFloats(plan)], kMark);
  return m;
}

// Every variant: plain, strided, grouped, depthwise, transposed, Winograd, first layers, volumes.
ConvShape RandomShape(Rng& rng) {
  ConvShape s;
  s.n = rng.Int(0, 3);
  const int kind = static_cast<int>(rng.Int(0, 6));
  s.c = kind == 0 ? 3 : rng.Int(1, 40), s.oc = rng.Int(1, 40), s.h = rng.Int(3, 12), s.w = rng.Int(3, 40);
  s.kh = s.kw = rng.Int(1, 3), s.pt = s.pl = s.kh / 2, s.sh = s.sw = rng.Int(1, 2);
  if (kind == 1) s.groups = s.oc = s.c;
  if (kind == 2) s.groups = 3, s.c = 3 * rng.Int(1, 8), s.oc = 3 * rng.Int(1, 8);
  if (kind == 3) s.transposed = true;
  if (kind == 4) s.kh = s.kw = 3, s.pt = s.pl = 1, s.sh = s.sw = 1, s.winograd = rng.Chance(0.5) ? 2 : 4;
  if (kind == 5) s.d = rng.Int(2, 4), s.kd = 2, s.od = s.d - 1;
  const auto out = [&](int64_t in) {
    return s.transposed ? (in - 1) * s.sh + s.kh - 2 * s.pt : (in + 2 * s.pt - s.kh) / s.sh + 1;
  };
  s.oh = out(s.h), s.ow = out(s.w), s.x_blocked = s.y_blocked = false;
  return s;
}

class ConvMoments : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(ConvMoments, AreThoseOfTheResult) {
  Rng rng;
  for (auto _ : testing::FuzzFor(700)) {
    const ConvShape s = RandomShape(rng);
    const double far = rng.Chance(0.3) ? 1e4 : 0;  // channels that lie far from 0
    std::vector<float> x(static_cast<size_t>(s.n * s.c * s.plane())),
        w(static_cast<size_t>(s.oc * s.c / s.groups * s.taps())), bias(static_cast<size_t>(s.oc));
    for (auto* v : {&x, &w})
      for (float& f : *v) f = static_cast<float>(rng.Real(-1, 1));
    for (float& f : bias) f = static_cast<float>(far + rng.Real(-1, 1));
    const Moments m = RunCase(s, x, w, bias, 1), again = RunCase(s, x, w, bias, 2);
    const size_t bytes = m.mean.size() * sizeof(double);
    ASSERT_EQ(std::memcmp(m.mean.data(), again.mean.data(), bytes), 0);
    ASSERT_EQ(std::memcmp(m.variance.data(), again.variance.data(), bytes), 0);
    const int64_t plane = s.out_plane(), count = s.n * plane;
    for (int64_t o = 0; o < s.oc; ++o) {
      const auto at = static_cast<size_t>(o);
      if (count == 0) {
        EXPECT_TRUE(std::isnan(m.mean[at]) && std::isnan(m.variance[at]));
        continue;
      }
      double mean = 0, variance = 0, magnitude = 0;
      const auto each = [&](auto&& fn) {
        for (int64_t n = 0; n < s.n; ++n)
          for (int64_t p = 0; p < plane; ++p)
            fn(double{m.y[static_cast<size_t>((n * s.oc + o) * plane + p)]});
      };
      each([&](double v) { mean += v / double(count), magnitude = std::max(magnitude, std::fabs(v)); });
      each([&](double v) { variance += (v - mean) * (v - mean) / double(count); });
      // A row's sum is off by eps for each of its terms, all of that but its square is measured; distances
      // are rounded when they are taken and when their squares are added.
      const double eps = testing::Epsilon(DType::kF32), terms = double(s.ow + 4);
      const double of_mean = terms * eps * magnitude;
      ASSERT_NEAR(m.mean[at], mean, terms * eps * (std::sqrt(variance) * std::sqrt(double(count)) + of_mean));
      ASSERT_NEAR(m.variance[at], variance, 2 * terms * eps * variance * terms + of_mean * of_mean * terms)
          << PlanConv(s).Describe();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, ConvMoments,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
