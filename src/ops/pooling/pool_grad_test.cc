#include <algorithm>
#include <cmath>

#include "op/op_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

Dims RandomDims(Rng& rng, int rank, int64_t most) {
  Dims d;
  for (int i = 0; i < rank; ++i) d.push_back(rng.Int(1, most));
  return d;
}
std::vector<int64_t> List(const Dims& d) { return {d.begin(), d.end()}; }

// Values that meet at one position, in its order of additions.
TEST(MaxPoolGrad, AddsAtPositions) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const DType t = kTypes[rng.Int(0, 2)], index = rng.Chance(0.5) ? DType::kS64 : DType::kS32;
    const int axes = static_cast<int>(rng.Int(1, 3)), lead = static_cast<int>(rng.Int(0, 2));
    Dims dy_dims = RandomDims(rng, lead + axes, 6), dx_dims = dy_dims;
    int64_t windows = 1, pixels = 1;
    for (int i = lead; i < lead + axes; ++i) {
      dx_dims[i] = rng.Int(1, 8);
      windows *= dy_dims[i], pixels *= dx_dims[i];
    }
    GuardedTensor dy(t, dy_dims, &rng, rng.Chance(0.4)), at(index, dy_dims, &rng, rng.Chance(0.4));
    dy.FillRandom(rng);
    std::vector<double> positions, want(static_cast<size_t>(NumElements(dx_dims))), size = want;
    for (int64_t i = 0; i < NumElements(dy_dims); ++i)
      positions.push_back(static_cast<double>(rng.Int(0, pixels - 1)));
    at.Set(positions);
    const std::vector<double> values = dy.Get();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto to =
          static_cast<size_t>(static_cast<int64_t>(i) / windows * pixels) + static_cast<size_t>(positions[i]);
      want[to] += values[i], size[to] += std::fabs(values[i]);
    }
    OpTester call("MaxPoolGrad");
    call.In(dy).In(at).Attr("axes", int64_t{axes}).Attr("shape", List(dx_dims));
    if (rng.Chance(0.4)) call.StridedOutputs(rng);
    ASSERT_TRUE(call.Run().ok()) << call.status().message();
    std::vector<double> tolerance;
    for (size_t i = 0; i < want.size(); ++i)
      tolerance.push_back(testing::ContractionTolerance(size[i], want[i], windows, DType::kF32, t));
    ASSERT_EQ("", testing::Compare(call.Out().Get(), want, tolerance))
        << ToString(dy_dims) << ToString(dx_dims);
  }
}

TEST(MaxPoolGrad, RefusesPositionsOutside) {
  GuardedTensor dy(DType::kF32, {1, 2, 2}), at(DType::kS64, {1, 2, 2});
  for (const double bad : {9.0, -1.0}) {
    at.Set({0, 1, 2, bad});
    OpTester call("MaxPoolGrad");
    call.In(dy).In(at).Attr("shape", std::vector<int64_t>{1, 3, 3});
    EXPECT_FALSE(call.Run().ok());
    EXPECT_EQ(call.status().message(),
              StrFormat("MaxPoolGrad: positions: position %d at 3; allowed: 0 to 8", static_cast<int>(bad)));
  }
}

// Any windows that do not go back, over one to three axes.
TEST(AveragePoolGrad, SpreadsOverWindows) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const DType t = kTypes[rng.Int(0, 2)];
    const int axes = static_cast<int>(rng.Int(1, 3)), lead = static_cast<int>(rng.Int(0, 2));
    const Dims dy_dims = RandomDims(rng, lead + axes, 5);
    Dims dx_dims = dy_dims;
    std::vector<int64_t> begin, end;
    std::vector<double> divisor;
    std::vector<size_t> first;  // of each axis in the lists
    for (int i = lead; i < lead + axes; ++i) {
      dx_dims[i] = rng.Int(1, 12);
      first.push_back(begin.size());
      int64_t b = 0, e = 0;
      for (int64_t o = 0; o < dy_dims[i]; ++o) {
        b = std::min(dx_dims[i], b + rng.Int(0, 3)),
        e = std::clamp(std::max(e, b + rng.Int(0, 4)), b, dx_dims[i]);
        begin.push_back(b), end.push_back(e), divisor.push_back(static_cast<double>(rng.Int(1, 5)));
      }
    }
    GuardedTensor dy(t, dy_dims, &rng, rng.Chance(0.4));
    dy.FillRandom(rng);
    const std::vector<double> values = dy.Get();
    std::vector<double> want(static_cast<size_t>(NumElements(dx_dims))), size = want;
    for (int64_t x = 0; x < NumElements(dx_dims); ++x) {
      for (int64_t y = 0; y < NumElements(dy_dims); ++y) {
        double weight = 1;
        int64_t rest_x = x, rest_y = y;
        for (int i = lead + axes - 1; i >= 0; --i) {
          const int64_t at = rest_x % dx_dims[i], o = rest_y % dy_dims[i];
          rest_x /= dx_dims[i], rest_y /= dy_dims[i];
          if (i < lead) {
            if (at != o) weight = 0;
            continue;
          }
          const size_t w = first[static_cast<size_t>(i - lead)] + static_cast<size_t>(o);
          weight *= at >= begin[w] && at < end[w] ? 1 / divisor[w] : 0;
        }
        want[static_cast<size_t>(x)] += values[static_cast<size_t>(y)] * weight;
        size[static_cast<size_t>(x)] += std::fabs(values[static_cast<size_t>(y)]) * weight;
      }
    }
    OpTester call("AveragePoolGrad");
    call.In(dy).Attr("axes", int64_t{axes}).Attr("shape", List(dx_dims));
    call.Attr("begin", begin).Attr("end", end).Attr("divisor", divisor);
    if (rng.Chance(0.4)) call.StridedOutputs(rng);
    ASSERT_TRUE(call.Run().ok()) << call.status().message();
    std::vector<double> tolerance;
    for (size_t i = 0; i < want.size(); ++i)
      tolerance.push_back(testing::ContractionTolerance(2 * size[i], want[i], 125, DType::kF32, t));
    ASSERT_EQ("", testing::Compare(call.Out().Get(), want, tolerance))
        << ToString(dy_dims) << ToString(dx_dims);
  }
}

TEST(AveragePoolGrad, RefusesWindowsThatGoBack) {
  GuardedTensor dy(DType::kF32, {1, 2});
  const auto message = [&](std::vector<int64_t> begin, std::vector<int64_t> end) {
    OpTester call("AveragePoolGrad");
    call.In(dy).Attr("axes", int64_t{1}).Attr("shape", std::vector<int64_t>{1, 4});
    call.Attr("begin", begin).Attr("end", end).Attr("divisor", std::vector<double>{1, 1});
    EXPECT_FALSE(call.Run().ok());
    return call.status().message();
  };
  EXPECT_EQ(
      message({2, 0}, {3, 4}),
      "AveragePoolGrad: window 1 of axis 1 is 0 to 4; allowed: inside 0 to 4, and no end before that of the "
      "window before it");
  EXPECT_EQ(
      message({0}, {3}),
      "AveragePoolGrad: attributes begin, end and divisor have 1, 1 and 2 values; allowed: 2, one per window "
      "of each axis of dY");
}

}  // namespace
}  // namespace opsnn::op
