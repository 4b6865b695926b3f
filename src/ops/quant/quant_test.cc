// Quantisation against its definition on doubles.
#include <algorithm>
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

struct Params {
  GuardedTensor scale, zero;
  bool per_axis;
  size_t At(int64_t i, const Dims& dims, int axis) const {
    if (!per_axis) return 0;
    int64_t inner = 1;
    for (int d = axis + 1; d < dims.rank(); ++d) inner *= dims[d];
    return static_cast<size_t>(i / inner % dims[axis]);
  }
};

Params RandomParams(Rng& rng, DType scale_type, DType zero_type, const Dims& dims, int axis) {
  const bool per_axis = dims.rank() > 0 && dims[axis] != 1 && rng.Chance(0.5);
  const Dims d = per_axis ? Dims{dims[axis]} : Dims{};
  Params p{GuardedTensor(scale_type, d), GuardedTensor(zero_type, d), per_axis};
  p.scale.FillRandom(rng, 0.1, 2);
  p.zero.FillRandom(rng, Info(zero_type).is_signed ? -20 : 0, 20);
  return p;
}

TEST(Quantize, RandomShapes) {
  Rng rng;
  constexpr DType kTo[] = {DType::kU8, DType::kS8, DType::kS16},
                  kFrom[] = {DType::kF32, DType::kF16, DType::kS32};
  for (auto _ : testing::FuzzFor(200)) {
    const Dims dims = rng.Shape(0, 4, 1500, true);
    const int axis = dims.rank() ? static_cast<int>(rng.Int(0, dims.rank() - 1)) : 0;
    const DType from = kFrom[rng.Int(0, 2)], to = kTo[rng.Int(0, 2)];
    const Params p = RandomParams(rng, from == DType::kF16 ? from : DType::kF32, to, dims, axis);
    GuardedTensor x(from, dims, &rng, rng.Chance(0.5));
    x.FillRandom(rng, -300, 300);
    OpTester t("QuantizeLinear");
    t.In(x).In(p.scale).In(p.zero).Attr("axis", int64_t{axis - (rng.Chance(0.3) ? dims.rank() : 0)});
    if (rng.Chance(0.4)) t.StridedOutputs(rng);
    if (dims.rank() == 0) t.Attr("axis", int64_t{0});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_EQ(t.OutDesc().dtype, to);
    const std::vector<double> v = x.Get(), s = p.scale.Get(), z = p.zero.Get();
    std::vector<double> want, bounds;
    const double range = std::ldexp(1, static_cast<int>(SizeOf(to)) * 8),
                 lo = Info(to).is_signed ? -range / 2 : 0;
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t k = p.At(static_cast<int64_t>(i), dims, axis);
      const double q = v[i] / s[k];
      want.push_back(std::clamp(std::nearbyint(q) + z[k], lo, lo + range - 1));
      // The f32 quotient may round to the tie that the exact one just misses.
      bounds.push_back(std::fabs(std::fabs(q - std::floor(q)) - 0.5) <= std::fabs(q) * 0x1p-23 ? 1 : 0);
    }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, bounds)) << ToString(dims);
  }
}

TEST(Quantize, SpecialValuesAndDefaults) {
  GuardedTensor x(DType::kF32, {7}), scale(DType::kF32, {});
  x.Set({NAN, INFINITY, -INFINITY, 0.5, 1.5, 2.5, -1});
  scale.Set({1});
  OpTester t("QuantizeLinear");
  t.In(x).In(scale);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dtype, DType::kU8);
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{0, 255, 0, 0, 2, 2, 0}));
  GuardedTensor wrong(DType::kF32, {3});
  OpTester shape("QuantizeLinear");
  shape.In(x).In(wrong).Attr("axis", int64_t{0});
  EXPECT_NE(shape.Run().message().find("the scale has shape [3]; allowed: one element, or [7]"),
            std::string::npos)
      << shape.status().message();
}

TEST(Dequantize, RandomShapes) {
  Rng rng;
  constexpr DType kFrom[] = {DType::kU8, DType::kS8, DType::kS16, DType::kS32},
                  kTo[] = {DType::kF32, DType::kF16, DType::kBF16};
  for (auto _ : testing::FuzzFor(200)) {
    const Dims dims = rng.Shape(1, 4, 1500, true);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    const DType from = kFrom[rng.Int(0, 3)], to = kTo[rng.Int(0, 2)];
    const Params p = RandomParams(rng, to, from, dims, axis);
    GuardedTensor x(from, dims, &rng, rng.Chance(0.5));
    x.FillRandom(rng, Info(from).is_signed ? -120 : 0, 120);
    OpTester t("DequantizeLinear");
    t.In(x).In(p.scale).In(p.zero).Attr("axis", int64_t{axis});
    if (rng.Chance(0.4)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get(), s = p.scale.Get(), z = p.zero.Get();
    std::vector<double> want;
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t k = p.At(static_cast<int64_t>(i), dims, axis);
      want.push_back((v[i] - z[k]) * s[k]);
    }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, 0, 2 * testing::Epsilon(to))) << ToString(dims);
  }
}

TEST(DynamicQuantize, RangeIncludesZero) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const Dims dims = rng.Shape(0, 3, 700, true);
    GuardedTensor x(DType::kF32, dims, &rng, rng.Chance(0.5));
    const double lo = rng.Real(-5, 5), hi = rng.Chance(0.1) ? lo : rng.Real(lo, 6);
    x.FillRandom(rng, lo, hi);
    OpTester t("DynamicQuantizeLinear");
    t.In(x).Outputs(3);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get(), y = t.Out(0).Get();
    float least = 0, most = 0;
    for (const double e : v)
      least = std::min(least, static_cast<float>(e)), most = std::max(most, static_cast<float>(e));
    float scale = (most - least) / 255.0f;
    if (scale == 0) scale = 1;
    const double zero = std::clamp(std::nearbyint(-least / scale), 0.0f, 255.0f);
    EXPECT_EQ(t.Out(1).Get()[0], scale);
    EXPECT_EQ(t.Out(2).Get()[0], zero);
    for (size_t i = 0; i < v.size(); ++i) {
      const double q = std::clamp<double>(std::nearbyint(static_cast<float>(v[i]) / scale) + zero, 0, 255);
      ASSERT_EQ(y[i], q) << v[i];
    }
  }
}

}  // namespace
}  // namespace opsnn::op
