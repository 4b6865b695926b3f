#include "kernels/conv/deform/deform_grad.h"

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
  std::vector<float> x, w, dy, down, right, mask;
  bool masked = true;

  int64_t places() const { return s.n * offset_groups * s.taps() * s.out_plane(); }
};

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
  fill(&k.x, s.n * s.c * s.plane(), 1), fill(&k.w, s.oc * (s.c / s.groups) * s.taps(), 1);
  fill(&k.dy, s.n * s.oc * s.out_plane(), 1);
  fill(&k.down, k.places(), 4), fill(&k.right, k.places(), 4), fill(&k.mask, k.places(), 2);
  k.masked = rng.Chance(0.6);
  return k;
}

// Gradients, and what their rounding is relative to.
template <typename T>
struct Grads {
  std::vector<T> x, down, right, mask;
  explicit Grads(const Case& k)
      : x(k.x.size()), down(k.down.size()), right(k.right.size()), mask(k.mask.size()) {}
};

void Reference(const Case& k, Grads<double>* want, Grads<double>* size) {
  const ConvShape& s = k.s;
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, cd = s.c / k.offset_groups, pixels = s.out_plane();
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t c = 0; c < s.c; ++c)
      for (int64_t t = 0; t < s.taps(); ++t)
        for (int64_t p = 0; p < pixels; ++p) {
          const auto at = static_cast<size_t>(((n * k.offset_groups + c / cd) * s.taps() + t) * pixels + p);
          const double y = double(p / s.ow * s.sh - s.pt + t / s.kw * s.dh) + k.down[at],
                       x = double(p % s.ow * s.sw - s.pl + t % s.kw * s.dw) + k.right[at];
          if (y <= -1 || x <= -1 || y >= double(s.h) || x >= double(s.w)) continue;
          double g = 0, all = 0;
          for (int64_t o = c / cg * og; o < (c / cg + 1) * og; ++o) {
            const double term = double{k.w[static_cast<size_t>((o * cg + c % cg) * s.taps() + t)]} *
                                k.dy[static_cast<size_t>((n * s.oc + o) * pixels + p)];
            g += term, all += std::fabs(term);
          }
          const double mask = k.masked ? k.mask[at] : 1.0, top = std::floor(y), left = std::floor(x);
          for (int i = 0; i < 4; ++i) {
            const double row = top + i / 2, column = left + i % 2;
            if (row < 0 || column < 0 || row >= double(s.h) || column >= double(s.w)) continue;
            const auto pixel =
                static_cast<size_t>((n * s.c + c) * s.plane() + int64_t(row) * s.w + int64_t(column));
            const double v = k.x[pixel], across = i % 2 ? x - left : left + 1 - x,
                         along = i / 2 ? y - top : top + 1 - y;
            want->x[pixel] += g * mask * along * across, size->x[pixel] += all * std::fabs(mask);
            want->mask[at] += g * v * along * across, size->mask[at] += all * std::fabs(v);
            want->down[at] += g * v * mask * across * (i / 2 ? 1 : -1);
            want->right[at] += g * v * mask * along * (i % 2 ? 1 : -1);
            size->down[at] += all * std::fabs(v * mask), size->right[at] += all * std::fabs(v * mask);
          }
        }
}

Grads<float> RunCase(const Case& k, int threads) {
  const ConvShape& s = k.s;
  const DeformGradPlan plan = PlanDeformGrad(s, k.offset_groups);
  constexpr size_t kGuard = 16;
  constexpr float kMark = 777;
  AlignedBuffer workspace(std::max<size_t>(plan.workspace_bytes, 64));
  std::memset(workspace.data(), 0xff, workspace.bytes());
  const int64_t pixels = s.out_plane(), image = k.offset_groups * s.taps() * pixels;
  std::vector<std::vector<float>> guarded;
  for (const std::vector<float>* v : {&k.x, &k.down, &k.right, &k.mask})
    guarded.emplace_back(v->size() + 2 * kGuard, kMark);
  const auto at = [&](size_t i) { return guarded[i].data() + kGuard; };
  DeformGradArgs a;
  a.x = k.x.data(), a.w = k.w.data(), a.dy = k.dy.data(), a.workspace = workspace.data();
  a.down = {k.down.data(), image, pixels}, a.right = {k.right.data(), image, pixels};
  a.dx = at(0), a.ddown = {at(1), image, pixels}, a.dright = {at(2), image, pixels};
  if (k.masked) a.mask = {k.mask.data(), image, pixels}, a.dmask = {at(3), image, pixels};
  SetNumThreads(threads);
  RunDeformGrad(plan, a);
  SetNumThreads(0);
  Grads<float> r(k);
  std::vector<float>* const to[] = {&r.x, &r.down, &r.right, &r.mask};
  for (size_t i = 0; i < 4; ++i) {
    if (i == 3 && !k.masked) continue;
    std::copy_n(at(i), to[i]->size(), to[i]->begin());
    for (size_t j = 0; j < kGuard; ++j)
      EXPECT_TRUE(guarded[i][j] == kMark && guarded[i][guarded[i].size() - 1 - j] == kMark);
  }
  return r;
}

void Check(const Case& k) {
  const Grads<float> r = RunCase(k, 1), again = RunCase(k, 3);
  Grads<double> want(k), size(k);
  Reference(k, &want, &size);
  const auto same = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  const auto compare = [&](const char* what, const std::vector<float>& got, const std::vector<float>& threads,
                           const std::vector<double>& want, const std::vector<double>& size, int64_t terms) {
    EXPECT_TRUE(std::equal(got.begin(), got.end(), threads.begin(), same)) << what << " by threads";
    std::vector<double> tolerance;
    for (size_t i = 0; i < want.size(); ++i)
      tolerance.push_back(testing::ContractionTolerance(size[i], want[i], terms, DType::kF32, DType::kF32));
    EXPECT_EQ(testing::Compare({got.begin(), got.end()}, want, tolerance), "") << what;
  };
  // Shares and masks round a few times, products over og, sums over channels or over the places of a pixel.
  constexpr int64_t kSampling = 8;
  const ConvShape& s = k.s;
  const int64_t product = s.oc / s.groups + kSampling, channels = s.c / k.offset_groups + product;
  compare("x", r.x, again.x, want.x, size.x, s.taps() * s.out_plane() + product);
  compare("down", r.down, again.down, want.down, size.down, channels);
  compare("right", r.right, again.right, want.right, size.right, channels);
  if (k.masked) compare("mask", r.mask, again.mask, want.mask, size.mask, channels);
}

class DeformGrad : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(DeformGrad, RandomShapes) {
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

// Columns beyond a chunk; places that are no numbers or far away; infinities of one channel.
TEST_P(DeformGrad, ChunksAndOddPlaces) {
  Rng rng;
  Case k;
  k.s.c = 50, k.s.h = k.s.w = k.s.oh = k.s.ow = 30, k.s.oc = 20, k.s.kh = k.s.kw = 3, k.s.pt = k.s.pl = 1;
  const size_t pixels = 30 * 30;
  k.x.resize(50 * pixels), k.w.resize(20 * 50 * 9), k.dy.resize(20 * pixels);
  k.down.resize(9 * pixels), k.right.resize(9 * pixels), k.mask.resize(9 * pixels), k.masked = false;
  for (auto* v : {&k.x, &k.w, &k.dy, &k.down, &k.right})
    for (float& f : *v) f = static_cast<float>(rng.Real(-1, 1));
  ASSERT_LT(PlanDeformGrad(k.s, 1).chunk_rows, k.s.oh);
  Check(k);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float& f : k.down) f = kInf;
  k.down[5] = std::nanf("");
  const Grads<float> r = RunCase(k, 1);
  for (float v : r.x) EXPECT_EQ(v, 0);  // nothing lies outside
  for (size_t p = 0; p < k.down.size(); ++p) {
    EXPECT_EQ(std::isnan(r.down[p]), p == 5) << p;
    EXPECT_EQ(std::isnan(r.right[p]), p == 5) << p;
  }
  // An infinite gradient of one pixel reaches its places and the pixels around them, and nothing else.
  std::fill(k.down.begin(), k.down.end(), 0.25f), std::fill(k.right.begin(), k.right.end(), 0.25f);
  std::fill(k.w.begin(), k.w.end(), 1.0f), std::fill(k.x.begin(), k.x.end(), 1.0f);
  k.dy[3 * pixels + 10 * 30 + 10] = kInf;
  const Grads<float> g = RunCase(k, 1);
  for (size_t c = 0; c < 50; ++c)
    for (size_t p = 0; p < pixels; ++p) {
      const size_t row = p / 30, column = p % 30;
      const bool around = row >= 9 && row <= 12 && column >= 9 && column <= 12;
      EXPECT_EQ(std::isinf(g.x[c * pixels + p]), around) << c << " " << p;
    }
}

INSTANTIATE_TEST_SUITE_P(Tiers, DeformGrad,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
