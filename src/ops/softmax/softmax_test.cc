#include <cmath>

#include "base/parallel.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::Rng;

void RunOne(const char* op, DType dtype, const Dims& dims, int64_t axis, Rng& rng) {
  constexpr double kRange = 8;
  testing::GuardedTensor x(dtype, dims, &rng, rng.Chance(0.5));
  x.FillRandom(rng, -kRange / 2, kRange / 2);
  const ref::Tensor in = ToRef(x);
  OpTester call(op);
  call.In(x).Attr("axis", axis);
  const bool in_place = rng.Chance(0.3);
  if (in_place) {
    call.InPlace(0);
  } else if (rng.Chance(0.5)) {
    call.StridedOutputs(rng);
  }
  ASSERT_TRUE(call.Run().ok()) << op << ": " << call.status().message();
  const Attrs attrs = MakeAttrs({{"axis", axis}});
  const std::vector<double> want = Evaluate(op, attrs, {in}, dtype).outputs[0].v;
  const int64_t n = dims.rank() == 0 ? 1 : dims[static_cast<int>(axis < 0 ? axis + dims.rank() : axis)];
  // Rounding of x - max and of the sum, then a few ulps of exp or log.
  const double eps = testing::Epsilon(dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  const double relative = (2 * std::sqrt(static_cast<double>(n)) + 16 + kRange) * eps;
  std::vector<double> tolerance;
  for (double w : want) {
    const double scale = std::string(op) == "Softmax" ? std::fabs(w) : 1 + std::fabs(w);
    tolerance.push_back(relative * scale + 2 * testing::Epsilon(dtype) * std::fabs(w) + SmallestValue(dtype));
  }
  EXPECT_EQ("", testing::Compare(in_place ? x.Get() : call.Out().Get(), want, tolerance))
      << op << " " << Name(dtype) << " " << ToString(dims) << " axis " << axis << " " << call.variant();
}

TEST(Softmax, RandomShapesAndAxesMatchReference) {
  Rng rng;
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      for (auto _ : testing::FuzzFor(80)) {
        const Dims dims = rng.Shape(0, 5, 6000, true);
        const int64_t rank = std::max(dims.rank(), 1);
        RunOne(op, t, dims, rng.Int(-rank, rank - 1), rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Softmax, LongRowsAndColumns) {
  Rng rng;
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    RunOne(op, DType::kF32, {2, 70000}, -1, rng);  // beyond what stays resident
    RunOne(op, DType::kF32, {9000, 3}, 0, rng);
    RunOne(op, DType::kF32, {2, 21, 33, 35}, 1, rng);  // segmentation heads
    RunOne(op, DType::kF16, {2, 300, 40}, 1, rng);
  }
}

std::vector<double> Values(const char* op, const Dims& dims, const std::vector<double>& v, int64_t axis) {
  testing::GuardedTensor x(DType::kF32, dims);
  x.Set(v);
  OpTester call(op);
  call.In(x).Attr("axis", axis);
  EXPECT_TRUE(call.Run().ok()) << call.status().message();
  return call.Out().Get();
}

TEST(Softmax, SpecialValues) {
  const double inf = INFINITY;
  for (int64_t axis : {0, 1}) {  // row program and column kernel must agree on these
    const Dims dims = axis == 1 ? Dims{1, 3} : Dims{3, 1};
    const auto softmax = [&](std::vector<double> v) {
      if (axis == 1) return Values("Softmax", dims, v, 1);
      std::vector<double> wide, first;
      for (double x : v)
        wide.insert(wide.end(), {x, 0.0});  // a second column, so that the axis is not innermost
      const auto y = Values("Softmax", {3, 2}, wide, 0);
      for (size_t i = 0; i < y.size(); i += 2) first.push_back(y[i]);
      return first;
    };
    EXPECT_EQ(softmax({0, -inf, 0}), (std::vector<double>{0.5, 0, 0.5}));
    EXPECT_EQ(softmax({1000, -1000, -1000}), (std::vector<double>{1, 0, 0}));
    for (double y : softmax({-inf, -inf, -inf})) EXPECT_TRUE(std::isnan(y));
    for (double y : softmax({1, NAN, 2})) EXPECT_TRUE(std::isnan(y));
    for (double y : softmax({1, inf, 2})) EXPECT_TRUE(std::isnan(y));
  }
}

TEST(Softmax, SameBitsForAnyThreadCount) {
  Rng rng;
  testing::GuardedTensor x(DType::kF32, {64, 50, 130});
  x.FillRandom(rng);
  for (int64_t axis : {0, 1, 2}) {
    std::vector<double> first;
    for (int threads : {1, 2, 3}) {
      SetNumThreads(threads);
      OpTester call("Softmax");
      call.In(x).Attr("axis", axis);
      ASSERT_TRUE(call.Run().ok());
      if (first.empty()) first = call.Out().Get();
      EXPECT_EQ(first, call.Out().Get()) << threads << " threads, axis " << axis;
    }
  }
  SetNumThreads(0);
}

TEST(Softmax, BadAxisIsNamed) {
  testing::GuardedTensor x(DType::kF32, {2, 3});
  OpTester call("Softmax");
  call.In(x).Attr("axis", int64_t{2});
  EXPECT_EQ(call.Run().code(), Code::kInvalid);
  EXPECT_EQ(call.status().message().find("Softmax: attribute axis: "), 0u) << call.status().message();
}

}  // namespace
}  // namespace opsnn::op
