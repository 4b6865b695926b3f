#include "kernels/conv/grad/weight_grad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/buffer.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

// Sums and sums of magnitudes from the definition, in double.
void Reference(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& dy,
               std::vector<double>* sum, std::vector<double>* magnitude) {
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups;
  sum->clear(), magnitude->clear();
  for (int64_t o = 0; o < s.oc; ++o)
    for (int64_t c = o / og * cg; c < (o / og + 1) * cg; ++c)
      for (int64_t kz = 0; kz < s.kd; ++kz)
        for (int64_t ky = 0; ky < s.kh; ++ky)
          for (int64_t kx = 0; kx < s.kw; ++kx) {
            double total = 0, all = 0;
            for (int64_t i = 0; i < s.n * s.out_plane(); ++i) {
              const int64_t n = i / s.out_plane(), ox = i % s.ow, oy = i / s.ow % s.oh,
                            oz = i / s.ow / s.oh % s.od;
              const int64_t iz = oz * s.sd - s.pf + kz * s.dd, iy = oy * s.sh - s.pt + ky * s.dh,
                            ix = ox * s.sw - s.pl + kx * s.dw;
              if (iz < 0 || iz >= s.d || iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
              const double product =
                  double{x[static_cast<size_t>((((n * s.c + c) * s.d + iz) * s.h + iy) * s.w + ix)]} *
                  dy[static_cast<size_t>((((n * s.oc + o) * s.od + oz) * s.oh + oy) * s.ow + ox)];
              total += product, all += std::fabs(product);
            }
            sum->push_back(total), magnitude->push_back(all);
          }
}

void Check(const ConvShape& s, Rng& rng) {
  const WeightGradPlan plan = PlanWeightGrad(s);
  SCOPED_TRACE(plan.Describe() + StrFormat(" n%d c%d %dx%dx%d -> %d %dx%dx%d g%d", int(s.n), int(s.c),
                                           int(s.d), int(s.h), int(s.w), int(s.oc), int(s.od), int(s.oh),
                                           int(s.ow), int(s.groups)));
  std::vector<float> x(static_cast<size_t>(s.n * s.c * s.plane())),
      dy(static_cast<size_t>(s.n * s.oc * s.out_plane()));
  for (float& v : x) v = static_cast<float>(rng.Real(-1, 1));
  for (float& v : dy) v = static_cast<float>(rng.Real(-1, 1));
  const size_t count = static_cast<size_t>(s.oc * (s.c / s.groups) * s.taps());
  constexpr float kGuard = 777;
  std::vector<float> first, dw;
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    dw.assign(count + 32, kGuard);
    AlignedBuffer workspace(plan.workspace_bytes + 64);
    std::memset(workspace.data(), 0xff, workspace.bytes());  // NaN: whatever is read must have been written
    RunWeightGrad(plan, x.data(), dy.data(), dw.data() + 16, workspace.data());
    for (size_t i = 0; i < 16; ++i) ASSERT_TRUE(dw[i] == kGuard && dw[count + 16 + i] == kGuard);
    if (threads == 1) first = dw;
    ASSERT_EQ(std::memcmp(first.data(), dw.data(), dw.size() * sizeof(float)), 0) << threads << " threads";
  }
  SetNumThreads(0);
  std::vector<double> want, magnitude, tolerance;
  Reference(s, x, dy, &want, &magnitude);
  for (size_t i = 0; i < want.size(); ++i) {
    tolerance.push_back(testing::ContractionTolerance(magnitude[i], want[i], s.n * s.out_plane() + 1,
                                                      DType::kF32, DType::kF32));
  }
  EXPECT_EQ(testing::Compare({dw.begin() + 16, dw.end() - 16}, want, tolerance), "");
}

ConvShape RandomShape(Rng& rng) {
  ConvShape s;
  s.n = rng.Int(0, 3);
  const int64_t groups[] = {1, 1, 1, 2, 3};
  s.groups = groups[rng.Int(0, 4)];
  s.c = s.groups * rng.Int(1, 20), s.oc = s.groups * rng.Int(1, 40);
  if (rng.Chance(0.2)) s.groups = s.oc = s.c;
  const bool volume = rng.Chance(0.3);
  s.h = rng.Int(1, 9), s.w = rng.Int(1, 12), s.d = volume ? rng.Int(1, 5) : 1;
  s.kh = rng.Int(1, 4), s.kw = rng.Int(1, 4), s.kd = volume ? rng.Int(1, 3) : 1;
  s.sh = rng.Int(1, 3), s.sw = rng.Int(1, 3), s.sd = volume ? rng.Int(1, 2) : 1;
  if (rng.Chance(0.3)) s.dh = rng.Int(1, 2), s.dw = rng.Int(1, 3), s.dd = volume ? rng.Int(1, 2) : 1;
  s.pt = rng.Int(0, 3), s.pl = rng.Int(0, 3), s.pf = volume ? rng.Int(0, 2) : 0;
  const auto out = [&rng](int64_t in, int64_t pad, int64_t kernel, int64_t stride, int64_t dilation) {
    return std::max<int64_t>(0, in + pad + rng.Int(0, 2) - (kernel - 1) * dilation - 1) / stride + 1;
  };
  s.oh = out(s.h, s.pt, s.kh, s.sh, s.dh), s.ow = out(s.w, s.pl, s.kw, s.sw, s.dw);
  s.od = volume ? out(s.d, s.pf, s.kd, s.sd, s.dd) : 1;
  return s;
}

class WeightGrad : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(WeightGrad, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(700)) {
    Check(RandomShape(rng), rng);
    if (HasFatalFailure()) return;
  }
}

// Few channels and rows long enough for lanes of pixels.
ConvShape RandomImages(Rng& rng) {
  ConvShape s;
  s.n = rng.Int(1, 3), s.c = rng.Int(1, 4), s.oc = rng.Int(1, 33);
  s.h = rng.Int(1, 12), s.w = rng.Int(20, 90);
  s.kh = rng.Int(1, 5), s.kw = rng.Int(2, 9), s.sh = rng.Int(1, 3), s.sw = rng.Int(1, 5);
  s.dh = rng.Int(1, 2), s.dw = rng.Int(1, 3);
  s.pt = rng.Int(-1, 4), s.pl = rng.Int(-3, 9);
  s.oh = std::max<int64_t>(0, s.h + s.pt + rng.Int(0, 3) - (s.kh - 1) * s.dh - 1) / s.sh + 1;
  s.ow = std::max<int64_t>(0, s.w + s.pl + rng.Int(0, 9) - (s.kw - 1) * s.dw - 1) / s.sw + 1;
  return s;
}

TEST_P(WeightGrad, FewChannels) {
  Rng rng;
  int few = 0;
  for (auto _ : testing::FuzzFor(700)) {
    const ConvShape s = RandomImages(rng);
    few += PlanWeightGrad(s).few_channels;
    Check(s, rng);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(few, 0);
}

// An infinite pixel, or an infinite gradient beside padding, reaches the gradients of the positions that meet
// it, and no others; as what the definition says.
TEST_P(WeightGrad, InfinityStaysWhereItIs) {
  Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    ConvShape s = rng.Chance(0.5) ? RandomImages(rng) : RandomShape(rng);
    s.n = std::max<int64_t>(1, s.n);
    std::vector<float> x(static_cast<size_t>(s.n * s.c * s.plane()), 1),
        dy(static_cast<size_t>(s.n * s.oc * s.out_plane()), 1);
    const bool in_x = rng.Chance(0.4), in_dy = !in_x || rng.Chance(0.2);
    if (in_x) x[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(x.size()) - 1))] = INFINITY;
    if (in_dy) dy[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(dy.size()) - 1))] = -INFINITY;
    const WeightGradPlan plan = PlanWeightGrad(s);
    AlignedBuffer workspace(plan.workspace_bytes + 64);
    std::vector<float> dw(static_cast<size_t>(s.oc * (s.c / s.groups) * s.taps())), again(dw.size());
    RunWeightGrad(plan, x.data(), dy.data(), dw.data(), workspace.data());
    SetNumThreads(2);
    RunWeightGrad(plan, x.data(), dy.data(), again.data(), workspace.data());
    SetNumThreads(0);
    ASSERT_EQ(std::memcmp(dw.data(), again.data(), dw.size() * sizeof(float)), 0) << plan.Describe();
    std::vector<double> want, magnitude;
    Reference(s, x, dy, &want, &magnitude);
    for (size_t i = 0; i < want.size(); ++i) {
      const bool same = std::isfinite(want[i]) ? std::isfinite(dw[i])
                        : std::isnan(want[i])  ? std::isnan(dw[i])
                                               : double{dw[i]} == want[i];
      ASSERT_TRUE(same) << plan.Describe() << " at " << i << ": " << dw[i] << " for " << want[i];
    }
  }
}

// Runs of several rows, several sweeps, tails of every kind.
TEST_P(WeightGrad, LargerShapes) {
  Rng rng;
  struct Row {
    int64_t n, c, size, oc, k, s, groups;
  };
  for (const Row& r : {Row{1, 70, 30, 50, 3, 1, 1},
                       {2, 3, 60, 20, 7, 2, 1},
                       {5, 4, 80, 9, 3, 1, 1},   // several images in a chunk of few channels
                       {1, 4, 300, 3, 3, 1, 1},  // several chunks in an image of few channels
                       {1, 96, 20, 96, 3, 1, 96},
                       {2, 24, 64, 17, 3, 1, 1},  // several chunks in an image
                       {5, 33, 28, 40, 1, 1, 1},  // several images in a chunk
                       {3, 20, 90, 17, 1, 2, 1},
                       {3, 64, 56, 64, 3, 2, 64}}) {
    ConvShape s;
    s.n = r.n, s.c = r.c, s.h = s.w = r.size, s.oc = r.oc, s.kh = s.kw = r.k, s.sh = s.sw = r.s;
    s.groups = r.groups, s.pt = s.pl = r.k / 2;
    s.oh = s.ow = (r.size + 2 * (r.k / 2) - r.k) / r.s + 1;
    Check(s, rng);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, WeightGrad,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
