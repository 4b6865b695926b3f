// ArgExtreme and TopK beyond what fits a vector: long rows, long columns, shares of an axis, few columns.
#include "kernels/gather/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::kernels {
namespace {

using testing::GuardedTensor;
using testing::Rng;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS8,
                            DType::kU8,  DType::kS16, DType::kS32, DType::kS64};

// Values with many ties; of floats also zeros of both signs, infinities, and now and then NaN.
std::vector<double> Values(Rng& rng, DType t, int64_t n) {
  const bool nans = rng.Chance(0.3), ends = rng.Chance(0.3);
  const int64_t low = t == DType::kU8 ? 0 : rng.Chance(0.5) ? -100 : 0, high = rng.Chance(0.5) ? 100 : 2;
  std::vector<double> v(static_cast<size_t>(n));
  for (double& e : v) {
    e = static_cast<double>(rng.Int(low, high));
    if (!IsFloat(t)) continue;
    if (e == 0 && rng.Chance(0.5)) e = -0.0;
    if (ends && rng.Chance(0.01)) e = rng.Chance(0.5) ? kInf : -kInf;
    if (nans && rng.Chance(2.0 / static_cast<double>(n + 1))) e = rng.Chance(0.5) ? kNan : -kNan;
  }
  return v;
}

struct Case {
  AxisParams p;
  GuardedTensor x;
  std::vector<double> values;
  Case(Rng& rng, DType t, int64_t outer, int64_t n, int64_t inner)
      : p{t, outer, n, inner, nullptr}, x(t, {outer, n, inner}), values(Values(rng, t, outer * n * inner)) {
    x.Set(values);
    values = x.Get();
    p.src = x.view().data;
  }
  double At(int64_t o, int64_t j, int64_t i) const { return values[(o * p.n + j) * p.inner + i]; }
};

void CheckArg(const Case& c, bool largest, bool last) {
  const AxisParams& p = c.p;
  std::vector<int64_t> got(p.outer * p.inner + 1, -7);
  ArgExtreme(p, largest, last, got.data());
  EXPECT_EQ(got.back(), -7);
  for (int64_t o = 0; o < p.outer; ++o) {
    for (int64_t i = 0; i < p.inner; ++i) {
      int64_t best = 0;
      for (int64_t j = 1; j < p.n; ++j) {
        const double a = c.At(o, best, i), b = c.At(o, j, i);
        const bool better = std::isnan(a) ? false : std::isnan(b) || (largest ? b > a : b < a);
        const bool equal = std::isnan(a) ? std::isnan(b) : a == b;
        if (better || (last && equal)) best = j;
      }
      ASSERT_EQ(got[o * p.inner + i], best)
          << Name(p.dtype) << " " << p.outer << "x" << p.n << "x" << p.inner << " at " << o << "," << i
          << (largest ? " largest" : " smallest") << (last ? " last" : "");
    }
  }
}

TEST(SelectTest, ArgOfLongAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    const DType t = kTypes[rng.Int(0, 8)];
    const int64_t n = rng.Chance(0.3) ? rng.Int(1, 40) : rng.Int(1, 9000);
    const int64_t inner = rng.Chance(0.5) ? 1 : rng.Int(1, 70);
    const Case c(rng, t, rng.Int(1, std::max<int64_t>(1, 40000 / (n * inner))), n, inner);
    CheckArg(c, rng.Chance(0.5), rng.Chance(0.5));
  }
}

// More elements than a narrow type's own numbers count, more columns than a panel has, and so few rows that
// threads share their axis.
TEST(SelectTest, ArgInSegmentsPanelsAndShares) {
  Rng rng;
  for (const DType t : kTypes) {
    for (const bool last : {false, true}) {
      CheckArg(Case(rng, t, 1, 70000, 3), rng.Chance(0.5), last);
      CheckArg(Case(rng, t, 2, 300, 2100), rng.Chance(0.5), last);
      CheckArg(Case(rng, t, 1, 300000, 1), rng.Chance(0.5), last);
    }
  }
}

TEST(SelectTest, ArgDoesNotDependOnThreads) {
  Rng rng;
  const Case c(rng, DType::kF32, 1, 500000, 1);
  int64_t one, all;
  {
    const ScopedThreadLimit limit(1);
    ArgExtreme(c.p, true, true, &one);
  }
  ArgExtreme(c.p, true, true, &all);
  EXPECT_EQ(one, all);
}

void CheckTopK(const Case& c, int64_t k, bool largest, bool sorted) {
  const AxisParams& p = c.p;
  GuardedTensor values(p.dtype, {p.outer, k, p.inner});
  std::vector<int64_t> got(p.outer * k * p.inner);
  TopK(p, k, largest, sorted, values.view().data, got.data());
  const std::vector<double> got_values = values.Get();
  std::vector<int64_t> order(p.n);
  for (int64_t o = 0; o < p.outer; ++o) {
    for (int64_t i = 0; i < p.inner; ++i) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const double x = c.At(o, a, i), y = c.At(o, b, i);
        if (std::isnan(x) || std::isnan(y))
          return largest ? std::isnan(x) && !std::isnan(y) : !std::isnan(x) && std::isnan(y);
        return largest ? x > y : x < y;
      });
      if (!sorted) std::sort(order.begin(), order.begin() + k);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = (o * k + j) * p.inner + i;
        ASSERT_EQ(got[at], order[j]) << Name(p.dtype) << " " << p.outer << "x" << p.n << "x" << p.inner
                                     << " k " << k << (largest ? " largest" : " smallest");
        const double want = c.At(o, order[j], i);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got_values[at]) : got_values[at] == want);
      }
    }
  }
}

TEST(SelectTest, TopKOfLongAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    const DType t = kTypes[rng.Int(0, 8)];
    const int64_t n = rng.Int(1, 3000), inner = rng.Chance(0.5) ? 1 : rng.Int(1, 9);
    const Case c(rng, t, rng.Int(1, 3), n, inner);
    CheckTopK(c, rng.Chance(0.5) ? rng.Int(0, std::min<int64_t>(n, 10)) : rng.Int(0, n), rng.Chance(0.5),
              rng.Chance(0.5));
  }
}

}  // namespace
}  // namespace opsnn::kernels
