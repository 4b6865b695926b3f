#include "kernels/resize/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::kernels {
namespace {

using testing::Rng;

constexpr CoordinateMode kModes[] = {
    CoordinateMode::kHalfPixel,        CoordinateMode::kHalfPixelSymmetric,
    CoordinateMode::kPytorchHalfPixel, CoordinateMode::kAlignCorners,
    CoordinateMode::kAsymmetric,       CoordinateMode::kTfHalfPixelForNearest,
    CoordinateMode::kTfCropAndResize};

AxisRule RandomRule(Rng& rng, Interpolation interpolation) {
  AxisRule r;
  r.interpolation = interpolation;
  r.in = rng.Size(40);
  r.out = rng.Chance(0.3) ? 2 * r.in : rng.Size(70);
  r.scale = static_cast<float>(r.out) / static_cast<float>(r.in);
  r.coordinates = kModes[rng.Int(0, 6)];
  r.nearest = static_cast<NearestMode>(rng.Int(0, 3));
  r.exclude_outside = rng.Chance(0.3);
  r.roi_start = static_cast<float>(rng.Real(-0.2, 0.4));
  r.roi_end = static_cast<float>(rng.Real(0.6, 1.2));
  return r;
}

TEST(AxisTapsTest, NearestByHand) {
  AxisRule r;
  r.in = 2;
  r.out = 6;
  r.scale = 3;
  r.coordinates = CoordinateMode::kAsymmetric;
  r.nearest = NearestMode::kFloor;
  EXPECT_EQ(MakeAxisTaps(r).index, (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  r.nearest = NearestMode::kCeil;
  EXPECT_EQ(MakeAxisTaps(r).index, (std::vector<int32_t>{0, 1, 1, 1, 1, 1}));
  r.coordinates = CoordinateMode::kHalfPixel;  // -1/3, 0, 1/3, 2/3, 1, 4/3
  r.nearest = NearestMode::kRoundPreferFloor;
  EXPECT_EQ(MakeAxisTaps(r).index, (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  r.in = 4;
  r.out = 2;
  r.scale = 0.5f;  // 0.5, 2.5: ties
  EXPECT_EQ(MakeAxisTaps(r).index, (std::vector<int32_t>{0, 2}));
  r.nearest = NearestMode::kRoundPreferCeil;
  EXPECT_EQ(MakeAxisTaps(r).index, (std::vector<int32_t>{1, 3}));
}

TEST(AxisTapsTest, ScaleThatIsNoBinaryFraction) {
  AxisRule r;
  r.in = 3;
  r.out = 4;
  r.scale = 4.0f / 3;
  r.coordinates = CoordinateMode::kAsymmetric;
  r.nearest = NearestMode::kFloor;
  r.in = 30;
  r.out = 40;
  const AxisTaps taps = MakeAxisTaps(r);
  for (int o = 0; o < 40; ++o) EXPECT_EQ(taps.index[o], o * 3 / 4) << o;
}

TEST(AxisTapsTest, LinearByHand) {
  AxisRule r;
  r.in = 2;
  r.out = 4;
  r.scale = 2;
  r.interpolation = Interpolation::kLinear;
  const AxisTaps half = MakeAxisTaps(r);  // -0.25, 0.25, 0.75, 1.25 clamped to [0, 1]
  EXPECT_EQ(half.index, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(half.weight, (std::vector<float>{1, 0.75f, 0.25f, 1, 0, 0.25f, 0.75f, 0}));
  r.coordinates = CoordinateMode::kAlignCorners;
  const AxisTaps corners = MakeAxisTaps(r);
  for (int o = 0; o < 4; ++o) {
    const double at = corners.index[o] * corners.weight[o] + corners.index[4 + o] * corners.weight[4 + o];
    EXPECT_NEAR(at, o / 3.0, 1e-6) << o;
  }
}

TEST(AxisTapsTest, CubicWeightsSumToOne) {
  Rng rng;
  for (auto _ : testing::FuzzFor(30)) {
    const AxisTaps a = MakeAxisTaps(RandomRule(rng, Interpolation::kCubic));
    for (int64_t o = 0; o < a.out && a.taps == 4; ++o) {
      double sum = 0;
      for (int t = 0; t < 4; ++t) sum += a.weight[t * a.out + o];
      // Four weights of magnitude up to 1.25, each rounded once, and once more where they are scaled.
      const bool counts = a.outside.empty() || !a.outside[o];
      ASSERT_NEAR(counts ? sum : 1.0, 1.0, 4 * 1.25 * 2 * testing::Epsilon(DType::kF32) * 2);
    }
  }
}

// The definition on doubles: y = sum over both axes of weight * x. Returns also the sum of magnitudes for
// bounds.
void Reference(const std::vector<double>& x, const AxisTaps& rows, const AxisTaps& cols, int64_t planes,
               int64_t lanes, double extrapolation, std::vector<double>* y, std::vector<double>* magnitude) {
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t r = 0; r < rows.out; ++r)
      for (int64_t c = 0; c < cols.out; ++c)
        for (int64_t l = 0; l < lanes; ++l) {
          double sum = 0, absolute = 0;
          for (int i = 0; i < rows.taps; ++i)
            for (int j = 0; j < cols.taps; ++j) {
              const double w = double{rows.weight[i * rows.out + r]} * double{cols.weight[j * cols.out + c]};
              const int64_t row = rows.index[i * rows.out + r], col = cols.index[j * cols.out + c];
              const double v = x[((p * rows.in + row) * cols.in + col) * lanes + l];
              if (w != 0) sum += w * v, absolute += std::abs(w * v);
            }
          const bool outside =
              (!rows.outside.empty() && rows.outside[r]) || (!cols.outside.empty() && cols.outside[c]);
          y->push_back(outside ? extrapolation : sum);
          magnitude->push_back(absolute);
        }
}

TEST(ResizeTest, RandomAgainstDefinition) {
  Rng rng;
  SetNumThreads(2);
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  for (auto _ : testing::FuzzFor(700)) {
    const auto interpolation = static_cast<Interpolation>(rng.Int(0, 2));
    const AxisTaps rows = MakeAxisTaps(RandomRule(rng, interpolation));
    const AxisTaps cols = MakeAxisTaps(RandomRule(rng, interpolation));
    const int64_t planes = rng.Int(0, 4), lanes_choice[] = {1, 1, 3, 8, 16, 32};
    const int64_t lanes = lanes_choice[rng.Int(0, 5)];
    const DType t = types[rng.Int(0, 3)];
    testing::GuardedTensor x(t, {planes, rows.in, cols.in, lanes}), y(t, {planes, rows.out, cols.out, lanes});
    x.FillRandom(rng);
    ResizeParams p = {t, planes, lanes, &rows, &cols, 0.5, x.view().data, y.view().data};
    interpolation == Interpolation::kNearest ? ResizeNearest(p) : ResizeWeighted(p);
    std::vector<double> want, magnitude, tolerance;
    Reference(x.Get(), rows, cols, planes, lanes, 0.5, &want, &magnitude);
    const int taps = interpolation == Interpolation::kNearest ? 0 : rows.taps * cols.taps;
    const DType acc = t == DType::kF64 ? DType::kF64 : DType::kF32;
    for (size_t i = 0; i < want.size(); ++i) {
      tolerance.push_back(taps == 0 ? 0 : testing::ContractionTolerance(magnitude[i], want[i], taps, acc, t));
    }
    ASSERT_EQ("", testing::Compare(y.Get(), want, tolerance))
        << Name(t) << " " << rows.in << "x" << cols.in << " -> " << rows.out << "x" << cols.out << " lanes "
        << lanes;
    ASSERT_TRUE(y.GuardsIntact());
  }
  SetNumThreads(0);
}

TEST(ResizeTest, NearestMovesAnyBytes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const AxisTaps rows = MakeAxisTaps(RandomRule(rng, Interpolation::kNearest));
    AxisRule rule = RandomRule(rng, Interpolation::kNearest);
    if (rng.Chance(0.4)) {
      rule.out = 2 * rule.in;
      rule.scale = 2;
      rule.coordinates = CoordinateMode::kAsymmetric;
      rule.nearest = NearestMode::kFloor;
    }
    const AxisTaps cols = MakeAxisTaps(rule);
    const DType types[] = {DType::kS8, DType::kS16, DType::kS64, DType::kF32};
    const DType t = types[rng.Int(0, 3)];
    const int64_t planes = rng.Int(1, 3), lanes = rng.Chance(0.5) ? 1 : rng.Int(1, 40);
    const int64_t pixel = lanes * static_cast<int64_t>(SizeOf(t));
    std::vector<uint8_t> x(planes * rows.in * cols.in * pixel),
        y(planes * rows.out * cols.out * pixel + 64, 0xA5);
    for (uint8_t& b : x) b = static_cast<uint8_t>(rng.Int(0, 255));
    std::vector<uint8_t> want = y;
    const std::vector<uint8_t> zero(pixel, 0);
    for (int64_t i = 0; i < planes * rows.out * cols.out; ++i) {
      const int64_t c = i % cols.out, r = i / cols.out % rows.out, p = i / cols.out / rows.out;
      const bool outside =
          (!rows.outside.empty() && rows.outside[r]) || (!cols.outside.empty() && cols.outside[c]);
      const uint8_t* from =
          outside ? zero.data() : &x[((p * rows.in + rows.index[r]) * cols.in + cols.index[c]) * pixel];
      std::memcpy(&want[i * pixel], from, pixel);
    }
    ResizeNearest({t, planes, lanes, &rows, &cols, 0.0, x.data(), y.data()});
    ASSERT_EQ(y, want) << rows.in << "x" << cols.in << " -> " << rows.out << "x" << cols.out << " pixel "
                       << pixel;
  }
}

TEST(ResizeTest, ThreadsDoNotChangeBits) {
  Rng rng;
  AxisRule rule;
  rule.interpolation = Interpolation::kLinear;
  rule.in = 61;
  rule.out = 150;
  rule.scale = 150.0f / 61;
  const AxisTaps taps = MakeAxisTaps(rule);
  testing::GuardedTensor x(DType::kF32, {8, 61, 61, 1}), a(DType::kF32, {8, 150, 150, 1}),
      b(DType::kF32, {8, 150, 150, 1});
  x.FillRandom(rng);
  SetNumThreads(1);
  ResizeWeighted({DType::kF32, 8, 1, &taps, &taps, 0, x.view().data, a.view().data});
  SetNumThreads(3);
  ResizeWeighted({DType::kF32, 8, 1, &taps, &taps, 0, x.view().data, b.view().data});
  SetNumThreads(0);
  EXPECT_EQ(a.Get(), b.Get());
}

}  // namespace
}  // namespace opsnn::kernels
