#include "kernels/reduce/column_reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::kernels {
namespace {

using testing::Rng;

// y[o, c] over x laid out [outer, rows, cols] with gaps.
struct Case {
  int64_t outer, rows, cols;
  Combine op = Combine::kSum;
  DType x = DType::kF32, y = DType::kF32;
};

double Apply(Combine op, double a, double b) {
  switch (op) {
    case Combine::kSum:
      return a + b;
    case Combine::kProd:
      return a * b;
    case Combine::kMax:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    default:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  }
}

std::vector<double> RunCase(const Case& k, const testing::GuardedTensor& x, testing::GuardedTensor& y) {
  ColumnReduce r;
  r.op = k.op;
  r.type = ComputeTypeOf(k.x);
  r.x_dtype = k.x;
  r.y_dtype = k.y;
  r.outer = {k.outer};
  r.x_outer_strides = {x.view().strides[0]};
  r.y_outer_strides = {y.view().strides[0]};
  r.rows = {k.rows};
  r.x_row_strides = {x.view().strides[1]};
  r.cols = k.cols;
  r.x_col_stride = x.view().strides[2];
  r.y_col_stride = y.view().strides[1];
  ReduceColumns(r, x.view().data, y.view().data);
  EXPECT_TRUE(y.GuardsIntact());
  return y.Get();
}

void CheckCase(const Case& k, Rng& rng) {
  testing::GuardedTensor x(k.x, {k.outer, k.rows, k.cols}, &rng, rng.Chance(0.5));
  testing::GuardedTensor y(k.y, {k.outer, k.cols}, &rng, rng.Chance(0.5));
  x.FillRandom(rng, k.op == Combine::kProd ? 0.9 : -2, k.op == Combine::kProd ? 1.1 : 2);
  const auto in = x.Get();
  std::vector<double> want, tolerance;
  for (int64_t o = 0; o < k.outer; ++o) {
    for (int64_t c = 0; c < k.cols; ++c) {
      double acc = k.op == Combine::kProd  ? 1
                   : k.op == Combine::kSum ? 0
                   : k.op == Combine::kMax ? -INFINITY
                                           : INFINITY;
      double abs = 0;
      for (int64_t row = 0; row < k.rows; ++row) {
        const double v = in[static_cast<size_t>((o * k.rows + row) * k.cols + c)];
        acc = Apply(k.op, acc, v);
        abs += std::fabs(v);
      }
      want.push_back(acc);
      const bool exact = k.op == Combine::kMax || k.op == Combine::kMin;
      const double product = static_cast<double>(k.rows) * testing::Epsilon(k.y) * std::fabs(acc);
      tolerance.push_back(exact ? testing::Epsilon(k.y) * std::fabs(acc)
                          : k.op == Combine::kProd
                              ? 2 * product
                              : testing::ContractionTolerance(abs, acc, k.rows, k.y, k.y));
    }
  }
  EXPECT_EQ("", testing::Compare(RunCase(k, x, y), want, tolerance))
      << k.outer << "x" << k.rows << "x" << k.cols << " op " << static_cast<int>(k.op) << " " << Name(k.x);
}

TEST(ReduceColumns, MatchesReference) {
  Rng rng;
  const Combine ops[] = {Combine::kSum, Combine::kMax, Combine::kMin, Combine::kProd};
  for (auto _ : testing::FuzzFor(800)) {
    Case k{rng.Int(1, 3), rng.Size(600), rng.Size(700)};
    k.op = ops[rng.Int(0, 3)];
    k.x = k.y = rng.Chance(0.3) ? DType::kF64 : DType::kF32;
    if (rng.Chance(0.2)) k.x = DType::kF16, k.y = DType::kF32;
    CheckCase(k, rng);
    if (HasFailure()) return;
  }
}

TEST(ReduceColumns, IntegersWrapExactly) {
  Rng rng;
  for (DType t : {DType::kS32, DType::kS64}) {
    const Case k{1, 11, 37, Combine::kSum, t, t};
    testing::GuardedTensor x(t, {1, 11, 37}), y(t, {1, 37});
    x.FillRandom(rng, -1e6, 1e6);
    const auto in = x.Get(), got = RunCase(k, x, y);
    for (size_t c = 0; c < 37; ++c) {
      double sum = 0;
      for (size_t r = 0; r < 11; ++r) sum += in[r * 37 + c];
      EXPECT_EQ(got[c], sum);
    }
  }
}

// Rows of a near cache are combined in the order of others.
TEST(ReduceColumns, NearRowsEqualGroups) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const int64_t rows = rng.Int(0, 70), cols = rng.Int(1, 300), stride = cols + rng.Int(0, 9);
    std::vector<float> x(static_cast<size_t>(rows * stride));
    for (float& v : x) v = static_cast<float>(rng.Real(-2, 2));
    if (rows > 0 && rng.Chance(0.3)) x[static_cast<size_t>(rng.Int(0, rows - 1) * stride)] = NAN;
    for (const Combine op : {Combine::kSum, Combine::kMax, Combine::kMin, Combine::kProd}) {
      std::vector<float> near(static_cast<size_t>(cols)), groups(near.size());
      FillNeutral(op, ComputeType::kF32, near.data(), cols);
      FillNeutral(op, ComputeType::kF32, groups.data(), cols);
      CombineNearRows(op, ComputeType::kF32, x.data(), stride, rows, near.data(), cols);
      for (int64_t r = 0; r < rows; r += 8) {
        const void* some[8];
        const int count = static_cast<int>(std::min<int64_t>(8, rows - r));
        for (int i = 0; i < count; ++i) some[i] = x.data() + (r + i) * stride;
        CombineRows(op, ComputeType::kF32, some, count, groups.data(), cols);
      }
      for (size_t c = 0; c < near.size(); ++c) {
        ASSERT_TRUE(near[c] == groups[c] || (std::isnan(near[c]) && std::isnan(groups[c])))
            << rows << "x" << cols << " at " << c;
      }
    }
  }
}

// The sum of a column does not depend on where in a vector it lies, nor on the number of threads.
TEST(ReduceColumns, SameBitsInEveryLaneAndThread) {
  Rng rng;
  constexpr int64_t kRows = 1000, kCols = 101;
  testing::GuardedTensor column(DType::kF32, {kRows}), x(DType::kF32, {1, kRows, kCols}),
      y(DType::kF32, {1, kCols});
  column.FillRandom(rng);
  std::vector<double> wide;
  for (double v : column.Get()) wide.insert(wide.end(), kCols, v);
  x.Set(wide);
  for (int threads : {1, 3}) {
    SetNumThreads(threads);
    const auto got = RunCase({1, kRows, kCols}, x, y);
    for (double v : got) EXPECT_EQ(v, got[0]);
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace opsnn::kernels
