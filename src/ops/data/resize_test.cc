// The Resize operator: how scales, sizes, axes and layouts become passes. The sampling itself is tested
// beside its kernel.
#include <gtest/gtest.h>

#include "op/op_tester.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;

ConstTensor Scales(const std::vector<float>& v) {
  return HostTensor::From<float>({static_cast<int64_t>(v.size())}, v);
}
ConstTensor Sizes(const std::vector<int64_t>& v) {
  return HostTensor::From<int64_t>({static_cast<int64_t>(v.size())}, v);
}

TEST(ResizeOpTest, NearestByScalesAndBySizes) {
  GuardedTensor x(DType::kF32, {1, 1, 2, 2});
  x.Set({1, 2, 3, 4});
  const std::vector<double> want = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  OpTester scales("Resize");
  scales.In(x).Absent().In(Scales({1, 1, 2, 2}));
  ASSERT_TRUE(scales.Run().ok()) << scales.status().message();
  EXPECT_EQ(scales.Out().Get(), want);
  OpTester sizes("Resize");
  sizes.In(x).Absent().Absent().In(Sizes({4, 4})).Attr("axes", std::vector<int64_t>{2, 3});
  ASSERT_TRUE(sizes.Run().ok()) << sizes.status().message();
  EXPECT_EQ(sizes.Out().Get(), want);
}

TEST(ResizeOpTest, LinearAndCubicKnownValues) {
  GuardedTensor x(DType::kF32, {1, 1, 2, 2});
  x.Set({1, 2, 3, 4});
  OpTester linear("Resize");
  linear.In(x).Absent().In(Scales({1, 1, 2, 2})).Attr("mode", std::string("linear"));
  ASSERT_TRUE(linear.Run().ok()) << linear.status().message();
  EXPECT_EQ(linear.Out().Get(), (std::vector<double>{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25,
                                                     3.5, 3, 3.25, 3.75, 4}));
  OpTester corners("Resize");
  corners.In(x).Absent().Absent().In(Sizes({1, 1, 3, 3})).Attr("mode", std::string("linear"));
  corners.Attr("coordinate_transformation_mode", std::string("align_corners"));
  ASSERT_TRUE(corners.Run().ok()) << corners.status().message();
  EXPECT_EQ(corners.Out().Get(), (std::vector<double>{1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4}));
}

// Axes far apart and more than two of them: axis by axis, the same as one after the other by hand.
TEST(ResizeOpTest, ManyAxesEqualSingleSteps) {
  testing::Rng rng;
  for (const DType t : {DType::kF32, DType::kF64, DType::kF16}) {
    for (const std::string mode : {"nearest", "linear"}) {
      GuardedTensor x(t, {2, 3, 4, 5});
      x.FillRandom(rng);
      OpTester all("Resize");
      all.In(x).Absent().Absent().In(Sizes({3, 3, 7, 8})).Attr("mode", mode);
      ASSERT_TRUE(all.Run().ok()) << all.status().message();
      std::vector<std::unique_ptr<OpTester>> steps;
      const GuardedTensor* from = &x;
      for (const auto& [axis, size] : {std::pair<int64_t, int64_t>{0, 3}, {2, 7}, {3, 8}}) {
        steps.push_back(std::make_unique<OpTester>("Resize"));
        OpTester& s = *steps.back();
        s.In(*from)
            .Absent()
            .Absent()
            .In(Sizes({size}))
            .Attr("axes", std::vector<int64_t>{axis})
            .Attr("mode", mode);
        ASSERT_TRUE(s.Run().ok()) << s.status().message();
        from = &s.Out();
      }
      // Single steps round to the dtype three times, the whole once: values lie in [-2, 2].
      const double bound =
          mode == "nearest" ? 0 : 2 * 3 * 2 * testing::Epsilon(t) + 16 * testing::Epsilon(DType::kF32);
      EXPECT_EQ("", testing::Compare(all.Out().Get(), from->Get(), bound, 0)) << Name(t) << mode;
    }
  }
}

TEST(ResizeOpTest, BlockedEqualsLogical) {
  testing::Rng rng;
  const Layout blocked = {Format::kNC1HWC0, 16};
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    const Dims dims = {2, 20, 5, 6};
    GuardedTensor x(DType::kF32, dims);
    x.FillRandom(rng);
    OpTester plain("Resize"), to_blocks("TransData"), resized("Resize"), back("TransData");
    plain.In(x).Absent().In(Scales({1, 1, 2, 1.5f})).Attr("mode", mode);
    to_blocks.In(x).OutLayout(0, blocked);
    ASSERT_TRUE(plain.Run().ok() && to_blocks.Run().ok());
    resized.In(to_blocks.Out(), dims, blocked).Absent().In(Scales({1, 1, 2, 1.5f})).Attr("mode", mode);
    resized.OutLayout(0, blocked);
    ASSERT_TRUE(resized.Run().ok()) << resized.status().message();
    back.In(resized.Out(), resized.OutDesc().dims, blocked);
    ASSERT_TRUE(back.Run().ok());
    EXPECT_EQ(back.Out().Get(), plain.Out().Get()) << mode;
  }
}

TEST(ResizeOpTest, AspectRatioPolicies) {
  GuardedTensor x(DType::kF32, {10, 20});
  const auto dims = [&](const std::string& policy) {
    OpTester t("Resize");
    t.In(x).Absent().Absent().In(Sizes({5, 40})).Attr("keep_aspect_ratio_policy", policy);
    EXPECT_TRUE(t.Infer().ok()) << t.status().message();
    return t.OutDesc().dims;
  };
  EXPECT_EQ(dims("stretch"), (Dims{5, 40}));
  EXPECT_EQ(dims("not_larger"), (Dims{5, 10}));
  EXPECT_EQ(dims("not_smaller"), (Dims{20, 40}));
}

TEST(ResizeOpTest, CropTakesExtrapolationOutside) {
  GuardedTensor x(DType::kF32, {3});
  x.Set({1, 2, 3});
  OpTester t("Resize");
  t.In(x).In(Scales({-0.5f, 1.5f})).Absent().In(Sizes({5})).Attr("mode", std::string("linear"));
  t.Attr("coordinate_transformation_mode", std::string("tf_crop_and_resize"))
      .Attr("extrapolation_value", 9.0);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();  // positions -1, 0, 1, 2, 3
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{9, 1, 2, 3, 9}));
}

TEST(ResizeOpTest, Errors) {
  GuardedTensor x(DType::kF32, {1, 1, 2, 2});
  OpTester none("Resize");
  none.In(x);
  EXPECT_EQ(none.Infer().message(), "Resize: none of scales and sizes given; allowed: exactly one");
  OpTester few("Resize");
  few.In(x).Absent().In(Scales({2, 2}));
  EXPECT_EQ(few.Infer().message(), "Resize: scales has 2 values; allowed: 4, one per axis");
  OpTester zero("Resize");
  zero.In(x).Absent().In(Scales({1, 1, 0, 2}));
  EXPECT_EQ(zero.Infer().message(), "Resize: scales[2] is 0; allowed: above 0");
  OpTester mode("Resize");
  mode.In(x).Absent().In(Scales({1, 1, 2, 2})).Attr("mode", std::string("area"));
  EXPECT_EQ(mode.Infer().code(), Code::kInvalid);
}

}  // namespace
}  // namespace opsnn::ops
