#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "isa/tier.h"
#include "kernels/reduce/plane_norm_grad.h"
#include "kernels/reduce/row_norm_grad.h"
#include "testing/testing.h"

namespace opsnn::kernels {
namespace {

using testing::GuardedTensor;
using testing::Rng;

class NormGradTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { isa::SetMaxTier(static_cast<isa::Tier>(GetParam())); }
  void TearDown() override { isa::SetMaxTier(saved_); }
  isa::Tier saved_ = isa::ActiveTier();
  Rng rng_;
};
INSTANTIATE_TEST_SUITE_P(Tiers, NormGradTest, ::testing::Range(0, isa::kNumTiers),
                         [](const auto& i) { return isa::Name(static_cast<isa::Tier>(i.param)); });

// The operands of one call over groups of elements that share a mean and rstd, and its results on one and on
// two threads, which are the same bits.
struct Case {
  Case(Rng& rng, DType t, const Dims& dims, int64_t groups, int64_t gammas)
      : dy(t, dims),
        x(t, dims),
        dx(t, dims),
        mean(DType::kF32, {groups}),
        rstd(DType::kF32, {groups}),
        gamma(DType::kF32, {gammas}),
        dgamma(DType::kF32, {gammas}),
        dbeta(DType::kF32, {gammas}) {
    for (GuardedTensor* g : {&dy, &x, &gamma}) g->FillRandom(rng);
    mean.FillRandom(rng, -0.5, 0.5), rstd.FillRandom(rng, 0.5, 1.5);
  }
  template <class Run>
  void OnOneAndTwoThreads(const Run& run) {
    std::vector<double> first[3];
    for (int threads = 1; threads <= 2; ++threads) {
      SetNumThreads(threads);
      run();
      GuardedTensor* const results[] = {&dx, &dgamma, &dbeta};
      for (int k = 0; k < 3; ++k) {
        ASSERT_TRUE(results[k]->GuardsIntact());
        if (threads == 1) first[k] = results[k]->Get();
        ASSERT_EQ(first[k], results[k]->Get());
      }
    }
    SetNumThreads(0);
  }
  GuardedTensor dy, x, dx, mean, rstd, gamma, dgamma, dbeta;
};

// What both kernels compute: element i belongs to group[i] and has gamma[which[i]]. Tolerances follow from
// the lengths of the sums and the sums of the magnitudes.
void Check(const Case& c, const std::vector<size_t>& group, const std::vector<size_t>& which, bool centred,
           bool scaled, bool means) {
  const std::vector<double> dy = c.dy.Get(), x = c.x.Get(), mean = c.mean.Get(), rstd = c.rstd.Get(),
                            gamma = c.gamma.Get();
  struct Sum {
    double g = 0, gn = 0, g_size = 0, gn_size = 0, count = 0;
  };
  std::vector<Sum> groups(mean.size()), columns(gamma.size());
  std::vector<double> normal(x.size()), g(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    normal[i] = (x[i] - (centred ? mean[group[i]] : 0)) * rstd[group[i]];
    g[i] = dy[i] * (scaled ? gamma[which[i]] : 1);
    const auto add = [&](Sum& s, double v) {
      s.g += v, s.gn += v * normal[i], s.g_size += std::fabs(v), s.gn_size += std::fabs(v * normal[i]);
      s.count += 1;
    };
    add(groups[group[i]], g[i]), add(columns[which[i]], dy[i]);
  }
  const double eps = testing::Epsilon(DType::kF32), out = testing::Epsilon(c.x.view().dtype);
  // A sum of n rounded products; each normal value has three roundings of its own.
  const auto bound = [&](double size, double n) { return size * (2 * std::sqrt(n) + 8) * eps; };
  std::vector<double> want, tolerance;
  for (size_t i = 0; i < x.size(); ++i) {
    const Sum& s = groups[group[i]];
    const double mg = means && centred ? s.g / s.count : 0, mgn = means ? s.gn / s.count : 0,
                 r = rstd[group[i]];
    const double v = (g[i] - mg - normal[i] * mgn) * r;
    want.push_back(v);
    const double error = bound(s.g_size, s.count) / s.count +
                         std::fabs(normal[i]) * bound(s.gn_size, s.count) / s.count +
                         8 * eps * (std::fabs(g[i]) + std::fabs(mg) + std::fabs(normal[i] * mgn));
    constexpr double kSmallestHalf = 0x1p-24;  // what f16 values near 0 are multiples of
    tolerance.push_back(error * r + 2 * out * std::fabs(v) +
                        (c.x.view().dtype == DType::kF16 ? kSmallestHalf : 0));
  }
  ASSERT_EQ(testing::Compare(c.dx.Get(), want, tolerance), "");
  std::vector<double> sums[2], bounds[2];
  for (const Sum& s : columns) {
    sums[0].push_back(s.gn), bounds[0].push_back(bound(s.gn_size, s.count));
    sums[1].push_back(s.g), bounds[1].push_back(bound(s.g_size, s.count));
  }
  ASSERT_EQ(testing::Compare(c.dgamma.Get(), sums[0], bounds[0]), "");
  ASSERT_EQ(testing::Compare(c.dbeta.Get(), sums[1], bounds[1]), "");
}

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
const float* Floats(const GuardedTensor& t) { return static_cast<const float*>(t.view().data); }
float* Results(const GuardedTensor& t) { return static_cast<float*>(t.view().data); }

TEST_P(NormGradTest, Rows) {
  for (auto _ : testing::FuzzFor(300)) {
    const int64_t rows = rng_.Int(1, 150), cols = rng_.Chance(0.1) ? rng_.Int(4000, 9000) : rng_.Int(1, 200);
    Case c(rng_, kTypes[rng_.Int(0, 2)], {rows, cols}, rows, cols);
    const bool centred = rng_.Chance(0.7), scaled = rng_.Chance(0.7), in_place = rng_.Chance(0.2);
    SCOPED_TRACE(StrFormat("%d x %d %s centred %d scaled %d in place %d", int(rows), int(cols),
                           Name(c.x.view().dtype), centred, scaled, in_place));
    std::vector<char> scratch(RowNormGradScratch(rows, cols));
    const std::vector<double> dy = c.dy.Get();
    c.OnOneAndTwoThreads([&] {
      RowNormGrad p{rows, cols, c.x.view().dtype, c.dy.view().data, c.x.view().data};
      if (centred) p.mean = Floats(c.mean);
      p.rstd = Floats(c.rstd);
      if (scaled) p.gamma = Floats(c.gamma);
      p.dx = c.dx.view().data, p.dgamma = Results(c.dgamma), p.dbeta = Results(c.dbeta);
      if (in_place) c.dx.Set(dy), p.dy = p.dx;
      RunRowNormGrad(p, scratch.data());
    });
    std::vector<size_t> group, which;
    for (int64_t i = 0; i < rows * cols; ++i) {
      group.push_back(static_cast<size_t>(i / cols)), which.push_back(static_cast<size_t>(i % cols));
    }
    Check(c, group, which, centred, scaled, true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormGradTest, Planes) {
  for (auto _ : testing::FuzzFor(300)) {
    // Some channels beyond a core's cache, some planes of several pieces.
    const bool large = rng_.Chance(0.03);
    const int64_t n = large ? 1 : rng_.Int(1, 5), channels = rng_.Int(1, large ? 2 : 20),
                  pixels = large ? rng_.Int(140000, 150000) : rng_.Int(1, 300);
    Case c(rng_, kTypes[rng_.Int(0, 2)], {n, channels, pixels}, channels, channels);
    const bool training = rng_.Chance(0.7), scaled = rng_.Chance(0.7);
    SCOPED_TRACE(StrFormat("%d x %d x %d %s training %d scaled %d", int(n), int(channels), int(pixels),
                           Name(c.x.view().dtype), training, scaled));
    std::vector<double> scratch(PlaneNormGradScratch(n, channels, pixels) / sizeof(double));
    c.OnOneAndTwoThreads([&] {
      PlaneNormGrad p{n, channels, pixels, c.x.view().dtype, c.dy.view().data, c.x.view().data};
      p.mean = Floats(c.mean), p.rstd = Floats(c.rstd), p.training = training;
      if (scaled) p.gamma = Floats(c.gamma);
      p.dx = c.dx.view().data, p.dgamma = Results(c.dgamma), p.dbeta = Results(c.dbeta);
      RunPlaneNormGrad(p, scratch.data());
    });
    std::vector<size_t> of;
    for (int64_t i = 0; i < n * channels * pixels; ++i)
      of.push_back(static_cast<size_t>(i / pixels % channels));
    Check(c, of, of, true, scaled, training);
    if (HasFatalFailure()) return;
  }
}

// With running statistics x does not enter the gradient; and the gradients of the weights may lie where the
// weights do.
TEST(NormGrad, EvaluationLooksAtNoInput) {
  const float inf = std::numeric_limits<float>::infinity();
  const float dy[] = {1, 2, 3, 4}, x[] = {inf, std::nanf(""), -inf, 1}, mean[] = {0, 0}, rstd[] = {2, 3};
  float gamma[] = {5, 7}, dx[4];
  std::vector<double> scratch(PlaneNormGradScratch(1, 2, 2) / sizeof(double));
  PlaneNormGrad p{1, 2, 2, DType::kF32, dy, x, mean, rstd, gamma};
  p.training = false, p.dx = dx, p.dgamma = gamma;
  RunPlaneNormGrad(p, scratch.data());
  EXPECT_EQ(std::vector<float>(dx, dx + 4), (std::vector<float>{10, 20, 63, 84}));
}

TEST(NormGrad, NothingIsFine) {
  RunRowNormGrad({}, nullptr);
  RunPlaneNormGrad({}, nullptr);
}

}  // namespace
}  // namespace opsnn::kernels
