#include "kernels/conv/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

constexpr int kGuard = 64;
constexpr float kGuardValue = 4321.0f;

// A blocked image between guards; padding lanes are NaN.
struct Blocked {
  Blocked(int64_t n, int64_t c, int64_t h, int64_t w)
      : n(n),
        c(c),
        h(h),
        w(w),
        data(static_cast<size_t>(n * CeilDiv(c, kC0) * kC0 * h * w) + 2 * kGuard,
             std::numeric_limits<float>::quiet_NaN()) {
    std::fill_n(data.begin(), kGuard, kGuardValue);
    std::fill_n(data.end() - kGuard, kGuard, kGuardValue);
  }
  float& At(int64_t i, int64_t ch, int64_t y, int64_t x) {
    return data[static_cast<size_t>((((i * CeilDiv(c, kC0) + ch / kC0) * h + y) * w + x) * kC0 + ch % kC0 +
                                    kGuard)];
  }
  float* ptr() { return data.data() + kGuard; }
  void Fill(Rng& rng) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t ch = 0; ch < c; ++ch)
        for (int64_t y = 0; y < h; ++y)
          for (int64_t x = 0; x < w; ++x) At(i, ch, y, x) = static_cast<float>(rng.Real(-1, 1));
  }
  bool GuardsIntact() const {
    return std::all_of(data.begin(), data.begin() + kGuard, [](float v) { return v == kGuardValue; }) &&
           std::all_of(data.end() - kGuard, data.end(), [](float v) { return v == kGuardValue; });
  }
  int64_t n, c, h, w;
  std::vector<float> data;
};

struct Case {
  ConvShape s;
  bool bias = false, residual = false, in_place = false;
  RegAct act = RegAct::kNone;
};

ConvShape Shape(int64_t n, int64_t c, int64_t h, int64_t w, int64_t oc, int64_t pad, int m, int64_t r = 3) {
  ConvShape s;
  s.n = n, s.c = c, s.h = h, s.w = w, s.oc = oc, s.kh = s.kw = r, s.pt = s.pl = pad;
  s.oh = h + 2 * pad - r + 1, s.ow = w + 2 * pad - r + 1;
  s.winograd = m;
  return s;
}

// Outputs per side of a tile and kernels.
struct Form {
  int m, r;
};
constexpr Form kForms[] = {{2, 3}, {4, 3}, {2, 5}};

struct Sums {
  double sum = 0, bound = 0;
};

// The sum from its definition, and the bound that conv.h states: weights against the largest value nearby.
Sums Define(const ConvShape& s, Blocked& x, const std::vector<float>& w, int64_t n, int64_t o, int64_t oy,
            int64_t ox) {
  Sums r;
  for (int64_t c = 0; c < s.c; ++c) {
    double weights = 0, largest = 0;
    for (int64_t k = 0; k < s.taps(); ++k) {
      const double wv = w[static_cast<size_t>((o * s.c + c) * s.taps() + k)];
      const int64_t y = oy + k / s.kw - s.pt, xx = ox + k % s.kw - s.pl;
      weights += std::fabs(wv);
      if (y >= 0 && y < s.h && xx >= 0 && xx < s.w) r.sum += wv * double{x.At(n, c, y, xx)};
    }
    const int64_t before = s.winograd - 1, last = s.kh + s.winograd - 2;
    for (int64_t y = std::max<int64_t>(0, oy - s.pt - before); y <= std::min(s.h - 1, oy - s.pt + last); ++y)
      for (int64_t xx = std::max<int64_t>(0, ox - s.pl - before); xx <= std::min(s.w - 1, ox - s.pl + last);
           ++xx)
        largest = std::max(largest, std::fabs(double{x.At(n, c, y, xx)}));
    r.bound += weights * largest;
  }
  r.bound *= 0x1p-24 * WinogradGrowth(s.winograd, static_cast<int>(s.kh), s.c);
  return r;
}

std::vector<float> RunWith(const ConvPlan& plan, const Case& c, Blocked& x, Blocked& residual,
                           const std::vector<float>& w, const std::vector<float>& bias, Blocked* y) {
  std::vector<float> packed(static_cast<size_t>(plan.packed_floats) + 1, kGuardValue);
  PackWeights(plan, w.data(), packed.data());
  EXPECT_EQ(packed.back(), kGuardValue);
  AlignedBuffer workspace(std::max<size_t>(plan.workspace_bytes, 1));
  if (c.in_place) y->data = residual.data;
  ConvArgs a;
  a.x = x.ptr(), a.weights = packed.data(), a.y = y->ptr(), a.workspace = workspace.data();
  if (c.residual) a.residual = c.in_place ? y->ptr() : residual.ptr();
  if (c.bias) a.epilogue.bias = bias.data();
  a.epilogue.act = c.act;
  RunConv(plan, a);
  EXPECT_TRUE(y->GuardsIntact());
  return y->data;
}

void Check(const Case& c, Rng& rng, void (*spoil)(Blocked&) = nullptr,
           void (*spoil_weights)(std::vector<float>&) = nullptr) {
  const ConvShape& s = c.s;
  SCOPED_TRACE(StrFormat("n%d c%d %dx%d -> %d pad %d m%d r%d", int(s.n), int(s.c), int(s.h), int(s.w),
                         int(s.oc), int(s.pt), s.winograd, int(s.kh)));
  const ConvPlan plan = PlanConv(s);
  ASSERT_EQ(plan.variant, Variant::kWinograd);
  Blocked x(s.n, s.c, s.h, s.w), residual(s.n, s.oc, s.oh, s.ow);
  x.Fill(rng);
  residual.Fill(rng);
  if (spoil) spoil(x);
  std::vector<float> w(static_cast<size_t>(s.oc * s.c * s.taps())), bias(static_cast<size_t>(s.oc));
  for (float& v : w) v = static_cast<float>(rng.Real(-1, 1));
  for (float& v : bias) v = static_cast<float>(rng.Real(-1, 1));
  if (spoil_weights) spoil_weights(w);
  SetNumThreads(1);
  Blocked y(s.n, s.oc, s.oh, s.ow);
  const std::vector<float> one = RunWith(plan, c, x, residual, w, bias, &y);
  SetNumThreads(2);
  Blocked again(s.n, s.oc, s.oh, s.ow);
  const std::vector<float> two = RunWith(plan, c, x, residual, w, bias, &again);
  SetNumThreads(0);
  if (s.oc % kC0 == 0) {
    ASSERT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(float)), 0);
  }
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < s.oc; ++o)
      for (int64_t oy = 0; oy < s.oh; ++oy)
        for (int64_t ox = 0; ox < s.ow; ++ox) {
          Sums want = Define(s, x, w, n, o, oy, ox);
          if (c.bias) want.sum += double{bias[static_cast<size_t>(o)]};
          if (c.residual) want.sum += double{residual.At(n, o, oy, ox)};
          want.bound += 4 * 0x1p-24 * (std::fabs(want.sum) + 2);
          if (c.act == RegAct::kRelu) want.sum = std::max(want.sum, 0.0);
          if (c.act == RegAct::kSigmoid) want.sum = 1 / (1 + std::exp(-want.sum));
          const float got = y.At(n, o, oy, ox);
          if (std::isnan(want.sum)) {
            ASSERT_TRUE(std::isnan(got)) << n << " " << o << " " << oy << " " << ox << " got " << got;
          } else if (std::isinf(want.sum)) {
            ASSERT_EQ(got, want.sum) << n << " " << o << " " << oy << " " << ox;
          } else {
            ASSERT_TRUE(std::isfinite(got) &&
                        (!std::isfinite(want.bound) || std::fabs(got - want.sum) <= want.bound))
                << n << " " << o << " " << oy << " " << ox << " got " << got << " want " << want.sum
                << " bound " << want.bound;
          }
        }
}

TEST(Winograd, MatricesMultiplyOut) {  // A' (G g . B' d) is the correlation of d with g
  for (const auto [m, r] : kForms) {
    const WinogradMatrices t = MatricesOf(m, r);
    for (int i = 0; i < m; ++i)
      for (int k = 0; k < r; ++k)
        for (int j = 0; j < t.n; ++j) {
          double sum = 0;
          for (int p = 0; p < t.n; ++p) sum += t.out[i * t.n + p] * t.weights[p * r + k] * t.in[p * t.n + j];
          EXPECT_NEAR(sum, j == i + k ? 1 : 0, 1e-13) << m << " " << i << " " << k << " " << j;
        }
  }
}

TEST(Winograd, RandomShapes) {
  Rng rng;
  for (const auto [m, r] : kForms)
    for (int i = 0; i < 25; ++i) {
      Case c;
      const int64_t pad = rng.Int(0, r - 1);
      c.s = Shape(rng.Int(1, 2), rng.Int(1, 40), rng.Int(r, 15), rng.Int(r, 15), rng.Int(1, 40), pad, m, r);
      c.bias = rng.Int(0, 1), c.residual = rng.Int(0, 1), c.in_place = c.residual && rng.Int(0, 1);
      c.act = std::vector<RegAct>{RegAct::kNone, RegAct::kRelu,
                                  RegAct::kSigmoid}[static_cast<size_t>(rng.Int(0, 2))];
      Check(c, rng);
    }
}

TEST(Winograd, ChunksOfColumnsAndOfManyRows) {
  Rng rng;
  Check({Shape(1, 16, 6, 4000, 16, 1, 4), true, false, false, RegAct::kRelu}, rng);  // wider than a chunk
  Check({Shape(2, 32, 120, 30, 16, 1, 2), true, false, false, RegAct::kNone}, rng);  // many chunks
  Check({Shape(3, 130, 9, 9, 140, 1, 4), true, true, false, RegAct::kRelu}, rng);    // streamed weights
  Check({Shape(1, 16, 6, 2000, 16, 2, 2, 5), true, false, false, RegAct::kRelu}, rng);
  Check({Shape(2, 130, 9, 9, 140, 2, 2, 5), true, true, false, RegAct::kRelu}, rng);
}

// One huge value costs its neighbours no more than a plain sum would, and outputs that see nothing but
// padding are the bias.
TEST(Winograd, LargeValuesStayInTheirWindow) {
  Rng rng;
  for (const auto [m, r] : kForms)
    for (const float spike : {1e4f, 1e10f, 1e30f}) {
      ConvShape s = Shape(1, 40, 14, 14, 20, r, m, r);
      Blocked x(1, 40, 14, 14), residual(1, 20, s.oh, s.ow), y(1, 20, s.oh, s.ow);
      x.Fill(rng);
      x.At(0, 17, 6, 7) = spike;
      std::vector<float> w(static_cast<size_t>(20 * 40 * r * r)), bias(20);
      for (float& v : w) v = static_cast<float>(rng.Real(-1, 1));
      for (float& v : bias) v = static_cast<float>(rng.Real(-1, 1));
      RunWith(PlanConv(s), {s, true, false, false, RegAct::kNone}, x, residual, w, bias, &y);
      for (int64_t o = 0; o < 20; ++o)
        for (int64_t oy = 0; oy < s.oh; ++oy)
          for (int64_t ox = 0; ox < s.ow; ++ox) {
            const double b = double{bias[static_cast<size_t>(o)]}, got = double{y.At(0, o, oy, ox)};
            if (oy == 0 || ox == 0 || oy == s.oh - 1 || ox == s.ow - 1) {  // padded by r
              ASSERT_EQ(got, b) << o << " " << oy << " " << ox;
              continue;
            }
            double sum = b, largest = 0, weights = 0;
            for (int64_t c = 0; c < 40; ++c)
              for (int64_t k = 0; k < r * r; ++k) {
                const int64_t iy = oy + k / r - r, ix = ox + k % r - r;
                if (iy < 0 || iy >= 14 || ix < 0 || ix >= 14) continue;
                const double v = double{x.At(0, c, iy, ix)},
                             wv = w[static_cast<size_t>((o * 40 + c) * r * r + k)];
                sum += v * wv, weights += std::fabs(wv), largest = std::max(largest, std::fabs(v));
              }
            // What its own window explains: the tile may hold kWinogradRange times as much.
            const double bound = 0x1p-24 * 100 * double{kWinogradRange} * (weights * largest + std::fabs(b));
            ASSERT_LE(std::fabs(got - sum), bound)
                << m << " " << spike << ": " << o << " " << oy << " " << ox;
          }
    }
}

// NCHW results, whose rows are converted behind the tiles: in chunks of whole tile rows and of columns.
TEST(Winograd, NchwOutput) {
  Rng rng;
  for (const int64_t width : {17, 4000}) {
    const ConvShape blocked = Shape(2, 16, 6, width, 20, 1, 4);
    ConvShape plain = blocked;
    plain.y_blocked = false;
    Blocked x(2, 16, 6, width), residual(2, 20, 6, width), y(2, 20, 6, width);
    x.Fill(rng);
    std::vector<float> w(static_cast<size_t>(20 * 16 * 9)), bias(20);
    for (float& v : w) v = static_cast<float>(rng.Real(-1, 1));
    for (float& v : bias) v = static_cast<float>(rng.Real(-1, 1));
    const Case c{blocked, true, false, false, RegAct::kRelu};
    RunWith(PlanConv(blocked), c, x, residual, w, bias, &y);
    const ConvPlan plan = PlanConv(plain);
    std::vector<float> packed(static_cast<size_t>(plan.packed_floats));
    PackWeights(plan, w.data(), packed.data());
    AlignedBuffer workspace(plan.workspace_bytes);
    std::vector<float> got(static_cast<size_t>(2 * 20 * 6 * width) + 2, kGuardValue);
    ConvArgs a;
    a.x = x.ptr(), a.weights = packed.data(), a.y = got.data() + 1, a.workspace = workspace.data();
    a.epilogue.bias = bias.data();
    a.epilogue.act = RegAct::kRelu;
    RunConv(plan, a);
    EXPECT_EQ(got.front(), kGuardValue);
    EXPECT_EQ(got.back(), kGuardValue);
    for (int64_t n = 0, i = 1; n < 2; ++n)
      for (int64_t o = 0; o < 20; ++o)
        for (int64_t oy = 0; oy < 6; ++oy)
          for (int64_t ox = 0; ox < width; ++ox, ++i)
            ASSERT_EQ(got[static_cast<size_t>(i)], y.At(n, o, oy, ox))
                << n << " " << o << " " << oy << " " << ox;
  }
}

// Values that are not finite reach the outputs whose window covers them, and no others of the tile.
TEST(Winograd, NotFiniteStaysInItsWindow) {
  Rng rng;
  for (const auto [m, r] : kForms) {
    Check({Shape(1, 20, 13, 13, 20, r / 2, m, r)}, rng, [](Blocked& x) {
      x.At(0, 3, 6, 6) = std::numeric_limits<float>::infinity();
      x.At(0, 19, 0, 0) = -std::numeric_limits<float>::infinity();
      x.At(0, 7, 12, 5) = std::numeric_limits<float>::quiet_NaN();
      x.At(0, 2, 3, 12) = std::numeric_limits<float>::max();  // overflows inside the transforms
    });
  }
}

// Weights that are not finite meet pixels and never padding.
TEST(Winograd, NotFiniteWeightsLeavePaddingAlone) {
  Rng rng;
  for (int m : {2, 4}) {
    Check({Shape(1, 20, 13, 13, 32, 1, m)}, rng, nullptr, [](std::vector<float>& w) {
      w[(5 * 20 + 3) * 9] = std::numeric_limits<float>::infinity();  // up and left of the pixel
      w[(5 * 20 + 7) * 9 + 4] = -std::numeric_limits<float>::infinity();
      w[(21 * 20 + 19) * 9 + 8] = std::numeric_limits<float>::quiet_NaN();
    });
  }
  Check({Shape(1, 20, 13, 13, 32, 2, 2, 5)}, rng, nullptr, [](std::vector<float>& w) {
    w[(5 * 20 + 3) * 25] = std::numeric_limits<float>::infinity();
    w[(5 * 20 + 7) * 25 + 12] = -std::numeric_limits<float>::infinity();
    w[(21 * 20 + 19) * 25 + 24] = std::numeric_limits<float>::quiet_NaN();
  });
}

TEST(Winograd, RefusesOtherKernels) {
  ConvShape s = Shape(1, 16, 8, 8, 16, 1, 4);
  s.sh = 2;
  s.oh = 4;
  const ConvPlan plan = PlanConv(s);
  EXPECT_EQ(plan.variant, Variant::kDirect);
  EXPECT_NE(plan.refused.find("winograd: stride above 1"), std::string::npos) << plan.refused;
  EXPECT_EQ(ChooseWinograd(s), 0);
  for (const int64_t r : {2, 4, 5, 7}) {  // of 5x5 the large tiles alone
    const ConvPlan other = PlanConv(Shape(1, 16, 8, 8, 16, 1, 4, r));
    EXPECT_EQ(other.variant, Variant::kDirect);
    EXPECT_NE(other.refused.find("winograd: "), std::string::npos) << other.refused;
  }
}

// Few channels are left to the direct form, and wide layers are not, whatever the vectors.
TEST(Winograd, ChosenWhereItPays) {
  EXPECT_EQ(ChooseWinograd(Shape(1, 3, 32, 32, 16, 1, 0)), 0);
  EXPECT_EQ(ChooseWinograd(Shape(1, 64, 56, 56, 64, 1, 0)), 4);
  EXPECT_NE(ChooseWinograd(Shape(1, 256, 14, 14, 256, 1, 0)), 0);
  EXPECT_EQ(ChooseWinograd(Shape(1, 64, 56, 56, 64, 2, 0, 5)), 2);
  EXPECT_EQ(ChooseWinograd(Shape(1, 3, 32, 32, 16, 2, 0, 5)), 0);
}

}  // namespace
}  // namespace opsnn::conv
