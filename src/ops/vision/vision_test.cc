// GridSample, RoiAlign and NonMaxSuppression.
#include <cmath>
#include <limits>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

// A pixel by the rule of the padding; nothing where it counts as 0.
double PixelAt(const std::vector<double>& x, int64_t plane, int64_t h, int64_t w, int64_t i, int64_t j,
               const std::string& padding, bool align) {
  const auto place = [&](int64_t k, int64_t n) {
    if (k >= 0 && k < n) return k;
    if (padding == "border") return std::clamp<int64_t>(k, 0, n - 1);
    if (padding == "zeros") return int64_t{-1};
    while (k < 0 || k >= n) {  // one reflection at a time; borders lie at -0.5 and n - 0.5, or on pixels
      if (k < 0) k = align ? -k : -k - 1;
      if (k >= n) k = align ? 2 * (n - 1) - k : 2 * n - 1 - k;
      if (n == 1) return int64_t{0};
    }
    return k;
  };
  const int64_t a = place(i, h), b = place(j, w);
  return a < 0 || b < 0 ? 0 : x[static_cast<size_t>((plane * h + a) * w + b)];
}

double ReflectReal(double v, int64_t n, bool align) {
  const double lo = align ? 0 : -0.5, hi = align ? static_cast<double>(n - 1) : static_cast<double>(n) - 0.5;
  if (lo >= hi) return 0;
  while (v < lo || v > hi) v = v < lo ? 2 * lo - v : 2 * hi - v;
  return v;
}

TEST(GridSample, RandomGrids) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int64_t n = rng.Int(1, 2), c = rng.Int(1, 3), h = rng.Int(1, 6), w = rng.Int(1, 6),
                  oh = rng.Int(0, 5), ow = rng.Int(1, 20);
    const char* modes[] = {"linear", "nearest", "cubic"};
    const char* paddings[] = {"zeros", "border", "reflection"};
    const std::string mode = modes[rng.Int(0, 2)], padding = paddings[rng.Int(0, 2)];
    const bool align = rng.Chance(0.5);
    const DType type = rng.Chance(0.7) ? DType::kF32 : rng.Chance(0.5) ? DType::kF64 : DType::kF16;
    GuardedTensor x(type, {n, c, h, w}, &rng, rng.Chance(0.3)),
        grid(DType::kF64, {n, oh, ow, 2}, &rng, rng.Chance(0.3));
    x.FillRandom(rng), grid.FillRandom(rng, -1.6, 1.6);
    OpTester t("GridSample");
    t.In(x).In(grid).Attr("mode", mode).Attr("padding_mode", padding).Attr("align_corners", int64_t{align});
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get(), g = grid.Get(), got = t.Out().Get();
    std::vector<double> want(got.size());
    std::vector<bool> doubtful(got.size());
    const auto pixel = [align](double p, int64_t size) {
      const auto s = static_cast<double>(size);
      return align ? (p + 1) / 2 * (s - 1) : ((p + 1) * s - 1) / 2;
    };
    for (int64_t b = 0; b < n; ++b) {
      for (int64_t o = 0; o < oh * ow; ++o) {
        double px = pixel(g[static_cast<size_t>((b * oh * ow + o) * 2)], w);
        double py = pixel(g[static_cast<size_t>((b * oh * ow + o) * 2 + 1)], h);
        if (mode != "cubic" && padding == "border") {
          px = std::clamp(px, 0.0, static_cast<double>(w - 1));
          py = std::clamp(py, 0.0, static_cast<double>(h - 1));
        } else if (mode != "cubic" && padding == "reflection") {
          px = ReflectReal(px, w, align), py = ReflectReal(py, h, align);
        }
        const auto near_edge = [](double p, double offset) {
          return std::fabs(p + offset - std::nearbyint(p + offset)) < 1e-5;
        };
        for (int64_t k = 0; k < c; ++k) {
          const auto at = [&](double i, double j) {
            return PixelAt(v, b * c + k, h, w, static_cast<int64_t>(i), static_cast<int64_t>(j), padding,
                           align);
          };
          const auto out = static_cast<size_t>((b * c + k) * oh * ow + o);
          if (mode == "nearest") {
            want[out] = at(std::nearbyint(py), std::nearbyint(px));
            doubtful[out] = near_edge(px, 0.5) || near_edge(py, 0.5);
            continue;
          }
          const double fy = std::floor(py), fx = std::floor(px);
          const auto weight = [&](double d) {
            d = std::fabs(d);
            if (mode == "linear") return std::max(0.0, 1 - d);
            const double a = -0.75;
            return d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                   : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4)
                           : 0;
          };
          for (int i = -1; i <= 2; ++i)
            for (int j = -1; j <= 2; ++j)
              want[out] += weight(py - fy - i) * weight(px - fx - j) * at(fy + i, fx + j);
        }
      }
    }
    // Grid positions are rounded to f32, which moves a sample by 6 pixels' ulps; weights change by 4 per
    // pixel.
    const double slack = type == DType::kF64 ? 1e-12 : 6 * 8 * 4 * testing::Epsilon(DType::kF32);
    for (size_t i = 0; i < got.size(); ++i) {
      if (doubtful[i]) continue;
      ASSERT_NEAR(got[i], want[i], slack + 2 * testing::Epsilon(type) * std::fabs(want[i]))
          << mode << " " << padding << " align " << align << " " << h << "x" << w << " element " << i;
    }
  }
}

TEST(AffineGrid, IdentityAndShift) {
  GuardedTensor theta(DType::kF64, {1, 2, 3});
  theta.Set({1, 0, 0.5, 0, 2, -1});
  OpTester t("AffineGrid");
  t.In(theta).In(HostTensor::From<int64_t>({4}, {1, 1, 2, 3})).Attr("align_corners", int64_t{1});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dims, (Dims{1, 2, 3, 2}));
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{-0.5, -3, 0.5, -3, 1.5, -3, -0.5, 1, 0.5, 1, 1.5, 1}));
  OpTester half("AffineGrid");
  half.In(theta).In(HostTensor::From<int64_t>({4}, {1, 1, 2, 2}));
  ASSERT_TRUE(half.Run().ok());
  EXPECT_EQ(half.Out().Get(), (std::vector<double>{0, -2, 1, -2, 0, 0, 1, 0}));
  OpTester bad("AffineGrid");
  bad.In(theta).In(HostTensor::From<int64_t>({5}, {1, 1, 2, 2, 2}));
  EXPECT_EQ(bad.Run().code(), Code::kInvalid);
}

TEST(RoiAlign, MeanOfSamples) {
  GuardedTensor x(DType::kF32, {1, 1, 4, 4}), rois(DType::kF32, {1, 4}), batch(DType::kS64, {1});
  std::vector<double> v(16);
  for (size_t i = 0; i < 16; ++i)
    v[i] = static_cast<double>(i / 4) * 10 + static_cast<double>(i % 4);  // linear
  x.Set(v);
  rois.Set({0.5, 0.5, 2.5, 2.5});
  batch.Set({0});
  OpTester t("RoiAlign");
  t.In(x)
      .In(rois)
      .In(batch)
      .Attr("output_height", int64_t{2})
      .Attr("output_width", int64_t{2})
      .Attr("sampling_ratio", int64_t{2});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  // Samples of a linear image average to its value at the centre of each cell: (0.5, 0.5), (0.5, 1.5), ...
  EXPECT_EQ("", testing::Compare(t.Out().Get(), {5.5, 6.5, 15.5, 16.5}, 1e-5, 0));
  batch.Set({1});
  OpTester bad("RoiAlign");
  bad.In(x).In(rois).In(batch);
  EXPECT_EQ(bad.Run().message(), "RoiAlign: batch_indices[0] is 1; allowed: 0 to 0");
}

TEST(RoiAlign, EmptyImagesAndWildBoxes) {
  GuardedTensor x(DType::kF32, {1, 1, 4, 4}), none(DType::kF32, {1, 1, 0, 4}), rois(DType::kF32, {2, 4}),
      batch(DType::kS64, {2});
  std::vector<double> v(16, 1);
  v[0] = std::numeric_limits<double>::infinity();
  x.Set(v);
  batch.Set({0, 0});
  const double nan = std::nan("");
  for (const char* mode : {"avg", "max"}) {
    for (const int64_t ratio : {0, 2}) {
      rois.Set({1, 1, 3, 3, nan, 0, nan, 3});
      OpTester empty("RoiAlign");
      empty.In(none).In(rois).In(batch).Attr("mode", std::string(mode)).Attr("sampling_ratio", ratio);
      ASSERT_TRUE(empty.Run().ok()) << empty.status().message();
      EXPECT_EQ(empty.Out().Get(), (std::vector<double>{0, 0}));
      // Outside of the image nothing is met, whatever its first pixel holds; nor does a box of NaN meet any.
      rois.Set({8, 8, 12, 12, nan, 0, nan, 3});
      OpTester outside("RoiAlign");
      outside.In(x).In(rois).In(batch).Attr("mode", std::string(mode)).Attr("sampling_ratio", ratio);
      ASSERT_TRUE(outside.Run().ok()) << outside.status().message();
      EXPECT_EQ(outside.Out().Get(), (std::vector<double>{0, 0}));
    }
  }
  v[0] = 1, v[5] = nan;
  x.Set(v);
  rois.Set({0, 0, 4, 4, 2.5, 2.5, 4, 4});
  for (const char* mode : {"avg", "max"}) {
    OpTester t("RoiAlign");
    t.In(x).In(rois).In(batch).Attr("mode", std::string(mode));
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_TRUE(std::isnan(t.Out().Get()[0])) << mode;
    EXPECT_FALSE(std::isnan(t.Out().Get()[1])) << mode;
  }
  OpTester wild("RoiAlign");
  wild.In(x).In(rois).In(batch).Attr("sampling_ratio", std::numeric_limits<int64_t>::max());
  EXPECT_EQ(wild.Run().code(), Code::kInvalid);
}

TEST(MaxRoiPool, BoxesOfNanMeetNothing) {
  GuardedTensor x(DType::kF32, {1, 1, 4, 4}), rois(DType::kF32, {4, 5});
  x.Set(std::vector<double>(16, 3));
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  rois.Set({0, nan, 0, 3, 3, 0, 0, 0, 3, nan, 0, nan, nan, nan, nan, 0, 0, 0, inf, 3});
  OpTester t("MaxRoiPool");
  t.In(x).In(rois).Attr("pooled_shape", std::vector<int64_t>{1, 1});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{0, 0, 0, 3}));
}

TEST(MaxRoiPool, MaximumOfEachCell) {
  GuardedTensor x(DType::kF32, {1, 1, 4, 4}), rois(DType::kF32, {2, 5});
  std::vector<double> v(16);
  for (size_t i = 0; i < 16; ++i) v[i] = static_cast<double>(i);
  x.Set(v);
  rois.Set({0, 0, 0, 3, 3, 0, 2, 2, 9, 9});
  OpTester t("MaxRoiPool");
  t.In(x).In(rois).Attr("pooled_shape", std::vector<int64_t>{2, 2});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  // The second box is 8 x 8 from (2, 2): its first cell holds what is left of the image, the others nothing.
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{5, 7, 13, 15, 15, 0, 0, 0}));
  rois.Set({1, 0, 0, 3, 3, 0, 2, 2, 9, 9});
  OpTester bad("MaxRoiPool");
  bad.In(x).In(rois).Attr("pooled_shape", std::vector<int64_t>{2, 2});
  EXPECT_EQ(bad.Run().message(), "MaxRoiPool: box 0 names image 1; allowed: 0 to 0");
}

TEST(NonMaxSuppression, NoLimitAndNanScores) {
  Rng rng;
  // No box covers another, so the result is the order: NaN last, in the order of the boxes.
  constexpr int64_t kBoxes = 200;
  std::vector<float> boxes, scores;
  for (int64_t i = 0; i < kBoxes; ++i) {
    const auto y = static_cast<float>(2 * i);
    boxes.insert(boxes.end(), {y, 0, y + 1, 1});
    scores.push_back(rng.Chance(0.3) ? std::nanf("") : static_cast<float>(rng.Real(0, 1)));
  }
  OpTester t("NonMaxSuppression");
  t.In(HostTensor::From<float>({1, kBoxes, 4}, boxes)).In(HostTensor::From<float>({1, 1, kBoxes}, scores));
  t.In(HostTensor::From<int64_t>({1}, {std::numeric_limits<int64_t>::max()}));
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  const std::vector<double> got = t.Out().Get();
  ASSERT_EQ(got.size(), static_cast<size_t>(3 * kBoxes));
  for (size_t i = 1; i < kBoxes; ++i) {
    const auto before = static_cast<size_t>(got[3 * i - 1]), at = static_cast<size_t>(got[3 * i + 2]);
    if (std::isnan(scores[at])) {
      EXPECT_TRUE(!std::isnan(scores[before]) || before < at) << i;
    } else {
      EXPECT_GE(scores[before], scores[at]) << i;
    }
  }
}

TEST(NonMaxSuppression, KeepsTheBestOfOverlappingBoxes) {
  const ConstTensor boxes = HostTensor::From<float>({1, 3, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11});
  const ConstTensor scores = HostTensor::From<float>({1, 1, 3}, {0.8f, 0.9f, 0.5f});
  const ConstTensor most = HostTensor::From<int64_t>({1}, {3}), iou = HostTensor::From<float>({1}, {0.5f});
  OpTester t("NonMaxSuppression");
  t.In(boxes).In(scores).In(most).In(iou);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{0, 0, 1, 0, 0, 2}));
  const ConstTensor above = HostTensor::From<float>({1}, {0.6f});
  OpTester limited("NonMaxSuppression");
  limited.In(boxes).In(scores).In(most).In(iou).In(above);
  ASSERT_TRUE(limited.Run().ok());
  EXPECT_EQ(limited.Out().Get(), (std::vector<double>{0, 0, 1}));
  GuardedTensor unknown(DType::kF32, {1, 3, 4});
  OpTester later("NonMaxSuppression");
  later.In(unknown).In(scores).In(most);
  ASSERT_TRUE(later.Infer().ok());
  EXPECT_EQ(later.OutDesc().dims, (Dims{kUnknownDim, 3}));
}

}  // namespace
}  // namespace opsnn::op
