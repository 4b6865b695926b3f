// Reductions and what goes along one dim, against double arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aclnnop/aclnn_arange.h"
#include "aclnnop/aclnn_argmax.h"
#include "aclnnop/aclnn_argmin.h"
#include "aclnnop/aclnn_argsort.h"
#include "aclnnop/aclnn_cumsum.h"
#include "aclnnop/aclnn_linalg_vector_norm.h"
#include "aclnnop/aclnn_logsoftmax.h"
#include "aclnnop/aclnn_mean.h"
#include "aclnnop/aclnn_norm.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_sort.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

// Random dims to reduce, and the shape that remains.
struct Axes {
  std::vector<int64_t> given;
  std::vector<bool> reduced;
  Dims out;
  int64_t count = 1;

  Axes(Rng& rng, const Dims& dims, bool keep) : reduced(static_cast<size_t>(dims.rank()), false) {
    for (int i = 0; i < dims.rank(); ++i) {
      if (!rng.Chance(0.5)) continue;
      reduced[static_cast<size_t>(i)] = true;
      given.push_back(i - (rng.Chance(0.3) ? dims.rank() : 0));
    }
    if (given.empty()) reduced.assign(reduced.size(), true);
    for (int i = 0; i < dims.rank(); ++i) {
      const bool gone = reduced[static_cast<size_t>(i)];
      if (gone) count *= dims[i];
      if (!gone || keep) out.push_back(gone ? 1 : dims[i]);
    }
  }
  // The values that belong to each result.
  std::vector<std::vector<double>> Groups(const RandomTensor& x) const {
    std::vector<std::vector<double>> groups(static_cast<size_t>(NumElements(out)));
    for (int64_t i = 0; i < NumElements(x.dims()); ++i) {
      const Index at = At(x.dims(), i);
      int64_t to = 0;
      for (int d = 0; d < x.dims().rank(); ++d) {
        if (!reduced[static_cast<size_t>(d)]) to = to * x.dims()[d] + at[static_cast<size_t>(d)];
      }
      groups[static_cast<size_t>(to)].push_back(x[i]);
    }
    return groups;
  }
};

class Reductions : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(Reductions, MeanAndSum) {
  const struct {
    DType self, out;
  } kTypes[] = {{DType::kF32, DType::kF32},  {DType::kF16, DType::kF16}, {DType::kF16, DType::kF32},
                {DType::kBF16, DType::kF32}, {DType::kS32, DType::kF32}, {DType::kS8, DType::kS64},
                {DType::kS64, DType::kS64},  {DType::kF32, DType::kF16}, {DType::kF64, DType::kF64},
                {DType::kU8, DType::kU8}};
  for (int round = 0; round < 60; ++round) {
    const auto& c = kTypes[round % std::size(kTypes)];
    const Dims dims = rng_.Shape(0, 5, 800);
    const bool keep = round % 2;
    const Axes axes(rng_, dims, keep);
    RandomTensor x(c.self, dims, rng_, round % 3 == 1, c.self == DType::kU8 ? 1 : 4);
    ApiTensor y(c.out, axes.out, &rng_, round % 3 == 2);
    ApiInts list(axes.given);
    std::vector<double> sums, sum_tolerance, means, mean_tolerance;
    for (const auto& g : axes.Groups(x)) {
      double sum = 0, size = 0;
      for (double v : g) sum += v, size += std::abs(v);
      const auto n = static_cast<double>(g.size());
      if (c.out == DType::kU8 && sum > 255) sum = std::fmod(sum, 256);
      sums.push_back(sum);
      means.push_back(IsFloat(c.out) ? sum / n : std::trunc(sum / n));
      sum_tolerance.push_back(testing::ContractionTolerance(size, sum, axes.count, DType::kF32, c.out) +
                              0x1p-25);
      mean_tolerance.push_back((sum_tolerance.back() + 2 * 0x1p-24 * size) / n + 0x1p-25);
      if (!IsFloat(c.out)) sum_tolerance.back() = mean_tolerance.back() = 0;
    }
    ASSERT_EQ(CALL(aclnnReduceSum, x, list, keep, Acl(c.out), y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), sums, sum_tolerance), "") << Name(c.self) << " " << Name(c.out);
    ASSERT_EQ(CALL(aclnnMean, x, list, keep, Acl(c.out), y), 0) << aclGetRecentErrMsg();
    if (c.out != DType::kU8) {
      EXPECT_EQ(Compare(y.Get(), means, mean_tolerance), "") << Name(c.self) << " " << Name(c.out);
    }
    ExpectGuards({&x, &y});
  }
}

TEST_F(Reductions, EmptyAndBool) {
  RandomTensor none(DType::kF32, {0, 3}, rng_), bits(DType::kBool, {3, 4}, rng_);
  ApiTensor y(DType::kF32, {3}), any(DType::kBool, {3}), count(DType::kS64, {3});
  ApiInts first({0}), last({1});
  ASSERT_EQ(CALL(aclnnReduceSum, none, first, false, ACL_FLOAT, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), std::vector<double>(3, 0));
  ASSERT_EQ(CALL(aclnnMean, none, first, false, ACL_FLOAT, y), 0) << aclGetRecentErrMsg();
  for (double v : y.Get()) EXPECT_TRUE(std::isnan(v));
  std::vector<double> sums(3, 0);
  for (int64_t i = 0; i < 12; ++i) sums[static_cast<size_t>(i / 4)] += bits[i];
  ASSERT_EQ(CALL(aclnnReduceSum, bits, last, false, ACL_INT64, count), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(count.Get(), sums);
  for (double& v : sums) v = v > 0;
  ASSERT_EQ(CALL(aclnnReduceSum, bits, last, false, ACL_BOOL, any), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(any.Get(), sums);
}

TEST_F(Reductions, Refuse) {
  RandomTensor x(DType::kF32, {2, 3}, rng_);
  ApiTensor y(DType::kF32, {2}), ints(DType::kS32, {2});
  ApiInts last({1}), far({2}), twice({1, -1});
  ExpectRefused(CALL(aclnnReduceSum, x, far, false, ACL_FLOAT, y), 161002, {"dims is 2", "-2 to 1"});
  ExpectRefused(CALL(aclnnMean, x, twice, false, ACL_FLOAT, y), 161002, {"dim names dim 1 twice"});
  ExpectRefused(CALL(aclnnReduceSum, x, last, true, ACL_FLOAT, y), 161002, {"out has shape [2]", "[2,1]"});
  ExpectRefused(CALL(aclnnReduceSum, x, last, false, ACL_INT32, y), 161002, {"dtype is s32", "f32"});
  ExpectRefused(CALL(aclnnMean, x, last, false, ACL_INT32, ints), 161002, {"dtype is s32", "f32"});
  ExpectRefused(CALL(aclnnMean, x, nullptr, false, ACL_FLOAT, y), 161001, {"dim is null"});
  ExpectRefused(CALL(aclnnReduceSum, x, last, false, ACL_COMPLEX64, y), 161002, {"dtype is complex64"});
}

TEST_F(Reductions, Norm) {
  const double kInf = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 60; ++round) {
    const double powers[] = {1, 2, kInf, -kInf, 0, 3, 0.5, -1};
    const double p = powers[round % 8];
    const DType t = round % 7 == 3 ? DType::kF64 : kFloats[round % 3];
    const Dims dims = rng_.Shape(0, 4, 300);
    const bool keep = round % 2;
    const Axes axes(rng_, dims, keep);
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2);
    ApiTensor y(t, axes.out, &rng_, round % 3 == 2);
    ApiInts list(axes.given);
    ApiScalar power(static_cast<float>(p));
    ASSERT_EQ(CALL(aclnnNorm, x, power, list, keep, y), 0) << aclGetRecentErrMsg();
    std::vector<double> want, tolerance;
    for (const auto& g : axes.Groups(x)) {
      double sum = std::isinf(p) && p < 0 ? kInf : 0;
      for (double v : g) {
        const double a = std::abs(v);
        if (std::isinf(p)) {
          sum = p > 0 ? std::max(sum, a) : std::min(sum, a);
        } else {
          sum += p == 0 ? a != 0 : std::pow(a, p);
        }
      }
      want.push_back(std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p));
      if (t == DType::kF16 && want.back() > 65504) want.back() = kInf;
      // Relative errors of powers and of the sum of positive terms, raised to 1 / p.
      const double terms = 32 + 4 * std::abs(p) + std::sqrt(static_cast<double>(g.size()));
      const double relative = terms * (1 + (p && !std::isinf(p) ? std::abs(1 / p) : 0)) * 0x1p-23;
      tolerance.push_back(std::isinf(want.back()) ? 0
                                                  : want.back() * (relative + testing::Epsilon(t)) + 0x1p-24);
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << "p " << p << " " << Name(t);
    ExpectGuards({&x, &y});
  }
}

TEST_F(Reductions, ArgMaxAndArgMin) {
  const DType kTypes[] = {DType::kF32, DType::kF16, DType::kS32, DType::kS64, DType::kU8, DType::kF64};
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(round % 8 ? 1 : 0, 4, 300);
    const int rank = dims.rank(), dim = rank ? static_cast<int>(rng_.Int(0, rank - 1)) : 0;
    const bool keep = round % 2;
    RandomTensor x(kTypes[round % 6], dims, rng_, round % 3 == 1);
    Dims out = dims;
    if (rank) {
      out[dim] = 1;
      if (!keep) out.erase(dim);
    }
    ApiTensor most(round % 2 ? DType::kS64 : DType::kS32, out, &rng_, round % 3 == 2);
    ApiTensor least(most.dtype(), out, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnArgMax, x, dim - (rank ? rank : 1), keep, most), 0) << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnArgMin, x, dim, keep, least), 0) << aclGetRecentErrMsg();
    auto want = [&](double sign) {
      return Make(out, [&](const Index& at) {
        if (!rank) return 0.0;
        Index from = at;
        if (!keep) from.insert(from.begin() + dim, 0);
        int64_t best = 0;
        double value = -std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < dims[dim]; ++i) {
          from[static_cast<size_t>(dim)] = i;
          if (sign * x(from) > value) value = sign * x(from), best = i;
        }
        return static_cast<double>(best);
      });
    };
    EXPECT_EQ(most.Get(), want(1));
    EXPECT_EQ(least.Get(), want(-1));
    ExpectGuards({&x, &most, &least});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_);
  ApiTensor y(DType::kF32, {2}), long_y(DType::kS64, {2});
  ExpectRefused(CALL(aclnnArgMax, x, 1, false, y), 161002, {"out has dtype f32", "s32, s64"});
  ExpectRefused(CALL(aclnnArgMax, x, 2, false, long_y), 161002, {"dim is 2", "-2 to 1"});
}

TEST_F(Reductions, Cumsum) {
  const struct {
    DType self, out;
  } kTypes[] = {{DType::kF32, DType::kF32}, {DType::kS32, DType::kS64}, {DType::kS8, DType::kS8},
                {DType::kS32, DType::kF32}, {DType::kF16, DType::kF32}, {DType::kF64, DType::kF64}};
  for (int round = 0; round < 30; ++round) {
    const auto& c = kTypes[round % 6];
    const Dims dims = rng_.Shape(1, 4, 300);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    RandomTensor x(c.self, dims, rng_, round % 3 == 1, c.self == DType::kS8 ? 0.6 : 4);
    ApiTensor y(c.out, dims, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnCumsum, x, dim - dims.rank(), Acl(c.out), y), 0) << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make(dims, [&](const Index& at) {
      double sum = 0, size = 0;
      Index from = at;
      for (int64_t i = 0; i <= at[static_cast<size_t>(dim)]; ++i) {
        from[static_cast<size_t>(dim)] = i;
        sum += x(from), size += std::abs(x(from));
      }
      tolerance.push_back(IsFloat(c.out) ? size * static_cast<double>(dims[dim]) * 0x1p-24 : 0);
      return sum;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(c.self) << " " << Name(c.out);
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_);
  ApiTensor y(DType::kF32, {2, 3}), ints(DType::kS32, {2, 3});
  ExpectRefused(CALL(aclnnCumsum, x, 0, ACL_INT32, y), 161002, {"dtype is s32", "f32"});
  ExpectRefused(CALL(aclnnCumsum, x, 0, ACL_INT32, ints), 161002, {"out has dtype s32"});
}

TEST_F(Reductions, LinalgVectorNorm) {
  for (int round = 0; round < 20; ++round) {
    const DType t = kFloats[round % 3], out = round % 2 ? t : DType::kF32;
    const Dims dims = rng_.Shape(1, 3, 200);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const double orders[] = {1, 2, 3, HUGE_VAL, 0};
    const double order = orders[round % 5];
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    Dims kept = dims;
    kept[dim] = 1;
    ApiTensor y(out, kept, &rng_, round % 3 == 2);
    ApiScalar ord(static_cast<float>(order));
    ApiInts which({dim});
    ASSERT_EQ(CALL(aclnnLinalgVectorNorm, x, ord, which, true, Acl(out), y), 0) << aclGetRecentErrMsg();
    const auto want = Make(kept, [&](Index at) {
      double sum = 0;
      for (int64_t i = 0; i < dims[dim]; ++i) {
        at[static_cast<size_t>(dim)] = i;
        const double v = std::abs(x(at));
        sum = std::isinf(order) ? std::max(sum, v) : sum + (order == 0 ? v != 0 : std::pow(v, order));
      }
      return order == 0 || std::isinf(order) ? sum : std::pow(sum, 1 / order);
    });
    EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, out, 64)), "") << Name(t) << order;
    ExpectGuards({&x, &y});
  }
}

TEST_F(Reductions, CumsumV2) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 2 ? DType::kF32 : DType::kS32;
    const Dims dims = rng_.Shape(1, 4, 300);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const bool exclusive = round & 1, reverse = round & 2;
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    ApiTensor y(t, dims, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnCumsumV2, x, dim, exclusive, reverse, y), 0) << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make(dims, [&](const Index& at) {
      const int64_t here = at[static_cast<size_t>(dim)];
      double sum = 0, size = 0;
      Index from = at;
      for (int64_t i = 0; i < dims[dim]; ++i) {
        const bool counts = i == here ? !exclusive : (i < here) != reverse;
        from[static_cast<size_t>(dim)] = i;
        if (counts) sum += x(from), size += std::abs(x(from));
      }
      tolerance.push_back(IsFloat(t) ? size * static_cast<double>(dims[dim]) * 0x1p-24 : 0);
      return sum;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << exclusive << reverse;
    ExpectGuards({&x, &y});
  }
}

TEST_F(Reductions, SortAndArgsort) {
  const DType kTypes[] = {DType::kF32, DType::kF16, DType::kS32, DType::kS64, DType::kU8, DType::kBF16};
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 3, 300, round % 7 == 0);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const bool descending = round % 2;
    RandomTensor x(kTypes[round % 6], dims, rng_, round % 3 == 1);
    ApiTensor order(DType::kS64, dims, &rng_, round % 3 == 2), again(DType::kS64, dims, &rng_);
    ApiTensor values(x.dtype(), dims, &rng_, round % 3 == 0);
    ASSERT_EQ(CALL(aclnnArgsort, x, dim, descending, order), 0) << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnSort, x, true, dim, descending, values, again), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(order.Get(), again.Get());
    std::vector<double> sorted;
    const auto want = Make(dims, [&](const Index& at) {
      Index from = at;
      std::vector<int64_t> positions(static_cast<size_t>(dims[dim]));
      std::iota(positions.begin(), positions.end(), 0);
      auto value = [&](int64_t i) {
        from[static_cast<size_t>(dim)] = i;
        return x(from);
      };
      std::stable_sort(positions.begin(), positions.end(), [&](int64_t a, int64_t b) {
        return descending ? value(a) > value(b) : value(a) < value(b);
      });
      const int64_t at_rank = positions[static_cast<size_t>(at[static_cast<size_t>(dim)])];
      sorted.push_back(value(at_rank));
      return static_cast<double>(at_rank);
    });
    EXPECT_EQ(order.Get(), want);
    EXPECT_EQ(values.Get(), sorted);
    ExpectGuards({&x, &order, &again, &values});
  }
}

// The largest of no elements does not exist.
TEST_F(Reductions, InfiniteNormsNeedElements) {
  RandomTensor x(DType::kF32, {3, 0}, rng_);
  ApiTensor y(DType::kF32, {3}, &rng_);
  const int64_t last[] = {1};
  aclIntArray* dims = aclCreateIntArray(last, 1);
  for (float order : {INFINITY, -INFINITY, -1.0f}) {
    ApiScalar p(order);
    ExpectRefused(CALL(aclnnLinalgVectorNorm, x, p, dims, false, ACL_FLOAT, y), 161002, {"self", "order"});
    ExpectRefused(CALL(aclnnNorm, x, p, dims, false, y), 161002, {"self", "order"});
  }
  ApiScalar two(2.0f);
  EXPECT_EQ(CALL(aclnnNorm, x, two, dims, false, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), std::vector<double>(3, 0.0));
  aclDestroyIntArray(dims);
}

TEST_F(Reductions, Arange) {
  for (DType t : {DType::kF32, DType::kF16, DType::kS32, DType::kS64, DType::kF64}) {
    for (int round = 0; round < 10; ++round) {
      const int64_t start = rng_.Int(-20, 20), step = (round % 2 ? -1 : 1) * rng_.Int(1, 5);
      const int64_t n = rng_.Int(0, 30), end = n ? start + step * (n - 1) + (step > 0 ? 1 : -1) : start;
      ApiTensor y(t, {n}, &rng_, round % 3 == 1);
      int64_t a = start, b = end, c = step;
      ApiScalar first(&a, ACL_INT64), last(&b, ACL_INT64), by(&c, ACL_INT64);
      ASSERT_EQ(CALL(aclnnArange, first, last, by, y), 0) << aclGetRecentErrMsg();
      EXPECT_EQ(y.Get(),
                Make({n}, [&](const Index& at) { return static_cast<double>(start + at[0] * step); }));
      EXPECT_TRUE(y.memory().GuardsIntact());
    }
  }
  ApiTensor y(DType::kF32, {10}), matrix(DType::kF32, {2, 5});
  ApiScalar zero(0.0f), one(1.0f), tenth(0.1f), back(-1.0f);
  ASSERT_EQ(CALL(aclnnArange, zero, one, tenth, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(y.Get(), Make({10}, [](const Index& at) { return 0.1f * static_cast<double>(at[0]); }),
                    1e-9, 0x1p-24),
            "");
  ExpectRefused(CALL(aclnnArange, zero, one, zero, y), 161002, {"step is 0", "not 0"});
  ExpectRefused(CALL(aclnnArange, zero, one, back, y), 161002, {"end is 1"});
  ExpectRefused(CALL(aclnnArange, zero, one, one, y), 161002, {"out has 10 elements", "1"});
  ExpectRefused(CALL(aclnnArange, zero, one, tenth, matrix), 161002, {"out has 2 dims"});
}

TEST_F(Reductions, LogSoftmax) {
  RandomTensor x(DType::kF32, {3, 5, 4}, rng_, true);
  ApiTensor y(DType::kF32, {3, 5, 4}, &rng_, true);
  ASSERT_EQ(CALL(aclnnLogSoftmax, x, -2, y), 0) << aclGetRecentErrMsg();
  const auto want = Make(x.dims(), [&](Index at) {
    const double own = x(at);
    double sum = 0;
    for (at[1] = 0; at[1] < 5; ++at[1]) sum += std::exp(x(at));
    return own - std::log(sum);
  });
  EXPECT_EQ(Compare(y.Get(), want, 16 * 0x1p-23, 16 * 0x1p-23), "");
}

}  // namespace
}  // namespace opsnn::capi
