// ArgMax, ArgMin, TopK, CumSum, OneHot and Trilu against their definitions on doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "op/op_tester.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;
using testing::Rng;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS8,
                            DType::kU8,  DType::kS16, DType::kS32, DType::kS64};

// Values of row (o, i) along the axis.
struct Rows {
  int64_t outer = 1, n = 1, inner = 1;
  Rows(const Dims& d, int axis) : n(d[axis]) {
    for (int i = 0; i < axis; ++i) outer *= d[i];
    for (int i = axis + 1; i < d.rank(); ++i) inner *= d[i];
  }
  std::vector<double> Get(const std::vector<double>& x, int64_t o, int64_t i) const {
    std::vector<double> row;
    for (int64_t j = 0; j < n; ++j) row.push_back(x[(o * n + j) * inner + i]);
    return row;
  }
};

bool Less(double a, double b, bool largest, bool nan_first = true) {  // a comes before b
  if (std::isnan(a) || std::isnan(b)) return std::isnan(nan_first ? a : b) && !std::isnan(nan_first ? b : a);
  return largest ? a > b : a < b;
}

// Positions in the order sought.
std::vector<int64_t> Order(const std::vector<double>& row, bool largest, bool nan_first = true) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return Less(row[a], row[b], largest, nan_first); });
  return order;
}

GuardedTensor WithTies(Rng& rng, DType t, const Dims& dims) {
  GuardedTensor x(t, dims, &rng, rng.Chance(0.4));
  std::vector<double> v(NumElements(dims));
  for (double& e : v) e = IsFloat(t) && rng.Chance(0.05) ? kNan : static_cast<double>(rng.Int(0, 6));
  x.Set(v);
  return x;
}

TEST(ArgTest, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(1, 4, 800);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    const GuardedTensor x = WithTies(rng, kTypes[rng.Int(0, 8)], dims);
    const bool largest = rng.Chance(0.5), last = rng.Chance(0.4), keep = rng.Chance(0.5);
    OpTester t(largest ? "ArgMax" : "ArgMin");
    t.In(x)
        .Attr("axis", int64_t{axis})
        .Attr("keepdims", int64_t{keep})
        .Attr("select_last_index", int64_t{last});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Rows rows(dims, axis);
    const std::vector<double> values = x.Get();
    std::vector<double> want;
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t i = 0; i < rows.inner; ++i) {
        const std::vector<double> row = rows.Get(values, o, i);
        const std::vector<int64_t> order = Order(row, largest);
        int64_t best = order[0];
        for (const int64_t j : order) {
          if (last && !Less(row[order[0]], row[j], largest)) best = std::max(best, j);
        }
        want.push_back(static_cast<double>(best));
      }
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(dims) << " axis " << axis;
    ASSERT_EQ(t.OutDesc().dims.rank(), keep ? dims.rank() : dims.rank() - 1);
  }
}

TEST(ArgTest, EmptyAxis) {
  GuardedTensor x(DType::kF32, {2, 0});
  OpTester t("ArgMax");
  t.In(x).Attr("axis", int64_t{1});
  EXPECT_EQ(t.Infer().message(), "ArgMax: data has shape [2,0]; allowed: at least one element along axis 1");
}

TEST(TopKTest, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(1, 4, 800);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    const GuardedTensor x = WithTies(rng, kTypes[rng.Int(0, 8)], dims);
    const int64_t k = rng.Int(0, dims[axis]);
    const bool largest = rng.Chance(0.5), sorted = rng.Chance(0.7);
    OpTester t("TopK");
    t.In(x).In(HostTensor::From<int64_t>({1}, {k})).Outputs(2);
    t.Attr("axis", int64_t{axis}).Attr("largest", int64_t{largest}).Attr("sorted", int64_t{sorted});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Rows rows(dims, axis);
    const std::vector<double> values = x.Get();
    std::vector<double> want_values(rows.outer * k * rows.inner), want_positions(want_values.size());
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t i = 0; i < rows.inner; ++i) {
        const std::vector<double> row = rows.Get(values, o, i);
        std::vector<int64_t> order = Order(row, largest, largest);
        order.resize(k);
        if (!sorted) std::sort(order.begin(), order.end());
        for (int64_t j = 0; j < k; ++j) {
          want_values[(o * k + j) * rows.inner + i] = row[order[j]];
          want_positions[(o * k + j) * rows.inner + i] = static_cast<double>(order[j]);
        }
      }
    }
    ASSERT_EQ("", testing::Compare(t.Out(0).Get(), want_values, 0, 0));
    ASSERT_EQ(t.Out(1).Get(), want_positions);
  }
}

TEST(TopKTest, KTooLarge) {
  GuardedTensor x(DType::kF32, {3});
  OpTester t("TopK");
  t.In(x).In(HostTensor::From<int64_t>({1}, {4})).Outputs(2);
  EXPECT_EQ(t.Infer().message(),
            "TopK: K is [4] for an axis of size 3; allowed: one value from 0 to that size");
}

TEST(CumSumTest, RandomAxes) {
  Rng rng;
  const DType types[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS32, DType::kS64};
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(1, 4, 800, true);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    const DType type = types[rng.Int(0, 5)];
    GuardedTensor x(type, dims, &rng, rng.Chance(0.4));
    x.FillRandom(rng, -3, 3);
    const bool exclusive = rng.Chance(0.5), reverse = rng.Chance(0.5);
    OpTester t("CumSum");
    t.In(x).In(HostTensor::From<int64_t>({}, {axis}));
    t.Attr("exclusive", int64_t{exclusive}).Attr("reverse", int64_t{reverse});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Rows rows(dims, axis);
    const std::vector<double> values = x.Get();
    std::vector<double> want(values.size()), tolerance(values.size());
    for (int64_t o = 0; o < rows.outer; ++o) {
      for (int64_t i = 0; i < rows.inner; ++i) {
        double sum = 0, magnitude = 0;
        for (int64_t step = 0; step < rows.n; ++step) {
          const int64_t j = reverse ? rows.n - 1 - step : step, at = (o * rows.n + j) * rows.inner + i;
          const double before = sum;
          sum += values[at];
          magnitude += std::abs(values[at]);
          want[at] = exclusive ? before : sum;
          const DType acc = IsFloat(type) ? DType::kF64 : type;
          tolerance[at] = static_cast<double>(step) * testing::Epsilon(acc) * magnitude +
                          std::abs(want[at]) * testing::Epsilon(type) * 2;
        }
      }
    }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, tolerance)) << Name(type);
  }
}

// A long chain of equal terms rounds in one direction again and again: in f32 it would be off by percents.
TEST(CumSumTest, LongAxisDoesNotDrift) {
  constexpr int64_t kN = 1 << 20;
  GuardedTensor x(DType::kF32, {kN});
  x.Set(std::vector<double>(kN, 0.1f));
  OpTester t("CumSum");
  t.In(x).In(HostTensor::From<int64_t>({}, {0}));
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  const double want = double{0.1f} * kN;
  EXPECT_NEAR(t.Out().Get().back(), want, want * testing::Epsilon(DType::kF32));
}

TEST(ScatterNdTest, Reductions) {
  GuardedTensor idx(DType::kS64, {3, 1});
  idx.Set({1, -1, 1});
  const struct {
    const char* reduction;
    std::vector<double> want;
  } cases[] = {{"none", {2, 7, 5}},
               {"add", {2, 3 + 4 + 7, 1 + 5}},
               {"mul", {2, 3 * 4 * 7, 5}},
               {"max", {2, 7, 5}},
               {"min", {2, 3, 1}}};
  for (const DType type : kTypes) {
    GuardedTensor x(type, {3}), updates(type, {3});
    x.Set({2, 3, 1});
    updates.Set({4, 5, 7});
    for (const auto& k : cases) {
      OpTester t("ScatterND");
      t.In(x).In(idx).In(updates).Attr("reduction", std::string(k.reduction));
      ASSERT_TRUE(t.Run().ok()) << t.status().message();
      EXPECT_EQ(t.Out().Get(), k.want) << k.reduction << " " << Name(type);
    }
  }
  GuardedTensor flags(DType::kBool, {3});
  OpTester t("ScatterND");
  t.In(flags).In(idx).In(flags).Attr("reduction", std::string("max"));
  EXPECT_EQ(t.Infer().message(), "ScatterND: data has dtype bool; allowed with a reduction: numbers");
}

TEST(OneHotTest, AxesAndStrayIndices) {
  GuardedTensor idx(DType::kS64, {3}), values(DType::kF32, {2});
  idx.Set({1, -1, 5});
  values.Set({2, 7});
  const ConstTensor depth = HostTensor::From<int64_t>({}, {3});
  OpTester last("OneHot");
  last.In(idx).In(depth).In(values);
  ASSERT_TRUE(last.Run().ok()) << last.status().message();
  EXPECT_EQ(last.Out().Get(), (std::vector<double>{2, 7, 2, 2, 2, 7, 2, 2, 2}));
  OpTester first("OneHot");
  first.In(idx).In(depth).In(values).Attr("axis", int64_t{0});
  ASSERT_TRUE(first.Run().ok()) << first.status().message();
  EXPECT_EQ(first.Out().Get(), (std::vector<double>{2, 2, 2, 7, 2, 2, 2, 7, 2}));
}

TEST(TriluTest, RandomDiagonals) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const Dims dims = rng.Shape(2, 4, 600, true);
    const DType type = kTypes[rng.Int(0, 8)];
    GuardedTensor x(type, dims, &rng, rng.Chance(0.4)), k(DType::kS64, {});
    x.FillRandom(rng, 1, 50);
    const bool upper = rng.Chance(0.5), given = rng.Chance(0.7);
    const int64_t diagonal = !given ? 0 : rng.Chance(0.1) ? INT64_MIN : rng.Int(-12, 12);
    k.Set({static_cast<double>(diagonal)});
    OpTester t("Trilu");
    t.In(x).Attr("upper", int64_t{upper});
    if (given) t.In(k);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    std::vector<double> want = x.Get();
    const int64_t cols = dims.back(), rows = dims[dims.rank() - 2];
    for (size_t e = 0; e < want.size(); ++e) {
      const double j = static_cast<double>(static_cast<int64_t>(e) % cols);
      const double i = static_cast<double>(static_cast<int64_t>(e) / cols % rows);
      const bool kept =
          upper ? j - i >= static_cast<double>(diagonal) : j - i <= static_cast<double>(diagonal);
      if (!kept) want[e] = 0;
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(dims) << " k " << diagonal;
  }
}

}  // namespace
}  // namespace opsnn::ops
