// Bags of rows, medians, ranges, inverses, reductions of scattered elements, masks as indices, caches that
// grow.
#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_embedding_bag.h"
#include "aclnnop/aclnn_expand_into_jagged_permute.h"
#include "aclnnop/aclnn_index.h"
#include "aclnnop/aclnn_index_put_impl.h"
#include "aclnnop/aclnn_inverse.h"
#include "aclnnop/aclnn_masked_fill_scalar.h"
#include "aclnnop/aclnn_masked_fill_tensor.h"
#include "aclnnop/aclnn_median.h"
#include "aclnnop/aclnn_quant_scatter.h"
#include "aclnnop/aclnn_quant_scatter_v2.h"
#include "aclnnop/aclnn_scatter_div.h"
#include "aclnnop/aclnn_scatter_list.h"
#include "aclnnop/aclnn_scatter_reduce.h"
#include "base/parallel.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Bags : public ApiTest {
 protected:
  Rng rng_;
  DType IndexType() { return rng_.Chance(0.5) ? DType::kS32 : DType::kS64; }
  std::vector<int64_t> Fill(ApiTensor& index, int64_t lowest, int64_t n) {
    std::vector<double> v(index.Get().size());
    for (double& i : v) i = static_cast<double>(rng_.Int(lowest, n - 1));
    index.Set(v);
    return {v.begin(), v.end()};
  }
};

TEST_F(Bags, EmbeddingBag) {
  for (int round = 0; round < 60; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t rows = rng_.Int(1, 9), width = rng_.Int(1, 20), count = rng_.Int(0, 40),
                  bags = rng_.Int(1, 6);
    const int mode = static_cast<int>(rng_.Int(0, 2));
    const bool last = round % 4 == 1, weighted = mode == 0 && round % 3 == 1;
    const int64_t padding = rng_.Int(-1, rows - 1);
    RandomTensor weight(t, {rows, width}, rng_, round % 3 == 2), samples(t, {count}, rng_);
    ApiTensor indices(IndexType(), {count}), offsets(IndexType(), {bags + last});
    const auto at = Fill(indices, 0, rows);
    std::vector<double> starts = {0};
    while (static_cast<int64_t>(starts.size()) < bags + last)
      starts.push_back(static_cast<double>(rng_.Int(0, count)));
    std::sort(starts.begin(), starts.end());
    offsets.Set(starts);
    ApiTensor y(t, {bags, width}, &rng_, round % 2), of(DType::kS64, {count}), size(DType::kS64, {bags}),
        from(DType::kS64, mode == 2 ? Dims{bags, width} : Dims{bags});
    ASSERT_EQ(CALL(aclnnEmbeddingBag, weight, indices, offsets, false, mode, false, OrNull(weighted, samples),
                   last, padding, y, of, size, from),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want, tolerance, sizes, chosen, bag_of(static_cast<size_t>(count), -1);
    for (int64_t b = 0; b < bags; ++b) {
      const auto begin = static_cast<int64_t>(starts[static_cast<size_t>(b)]);
      const int64_t end =
          b + 1 < bags + last ? static_cast<int64_t>(starts[static_cast<size_t>(b) + 1]) : count;
      double counted = 0;
      for (int64_t j = begin; j < end; ++j) {
        bag_of[static_cast<size_t>(j)] = static_cast<double>(b);
        counted += at[static_cast<size_t>(j)] != padding;
      }
      sizes.push_back(counted);
      for (int64_t i = 0; i < width; ++i) {
        double r = 0, magnitude = 0, best = -1;
        for (int64_t j = begin; j < end; ++j) {
          const int64_t row = at[static_cast<size_t>(j)];
          if (row == padding) continue;
          const double v = weight({row, i}) * (weighted ? samples[j] : 1);
          if (mode == 2 && (best < 0 || v > r)) r = v, best = static_cast<double>(row);
          if (mode != 2) r += v;
          magnitude = std::max(magnitude, std::abs(v));
        }
        if (mode == 1 && counted > 0) r /= counted;
        want.push_back(r), chosen.push_back(best);
        tolerance.push_back(mode == 2 ? 0 : SumTolerance(r, magnitude, end - begin, t));
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << mode << Name(t);
    EXPECT_EQ(of.Get(), bag_of);
    EXPECT_EQ(size.Get(), sizes);
    if (mode == 2) {
      EXPECT_EQ(from.Get(), chosen);
    }
    ExpectGuards({&weight, &y, &of, &size, &from});
  }
  RandomTensor weight(DType::kF32, {4, 2}, rng_);
  ApiTensor indices(DType::kS64, {2}), offsets(DType::kS64, {3}), y(DType::kF32, {3, 2}),
      of(DType::kS64, {2}), size(DType::kS64, {3}), from(DType::kS64, {3});
  y.Set({7, 7, 7, 7, 7, 7});
  const auto fails = [&](std::vector<double> at, std::vector<double> starts, const char* text) {
    indices.Set(at), offsets.Set(starts);
    ExpectRefused(CALL(aclnnEmbeddingBag, weight, indices, offsets, false, 0, false, nullptr, false, -1, y,
                       of, size, from),
                  161002, {text});
    EXPECT_EQ(y.Get(), (std::vector<double>(6, 7)));
  };
  fails({1, 2}, {0, 5, 1}, "offsets[1]=5");
  fails({1, 2}, {1, 1, 1}, "offsets[0]=1");
  fails({1, 4}, {0, 1, 2}, "index 4");
}

TEST_F(Bags, Medians) {
  for (int round = 0; round < 60; ++round) {
    const DType t = round % 4 == 3 ? DType::kS32 : kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 3, 200);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    std::vector<double> all = x.values();
    if (IsFloat(t)) {
      for (double& v : all)
        if (rng_.Chance(0.1)) v = NAN;
      x.Set(all);
    }
    const bool ignore = round % 2, keep = rng_.Chance(0.5);
    Dims want_dims = dims, short_dims = dims;
    want_dims[dim] = 1;
    short_dims.erase(dim);
    ApiTensor values(t, keep ? want_dims : short_dims, &rng_, round % 3 == 2),
        places(DType::kS64, keep ? want_dims : short_dims), one(t, {1});
    const auto pick = [&](std::vector<std::pair<double, int64_t>> v) -> std::pair<double, int64_t> {
      std::vector<std::pair<double, int64_t>> numbers;
      for (const auto& p : v) {
        if (p.first == p.first) {
          numbers.push_back(p);
        } else if (!ignore) {
          return p;
        }
      }
      if (numbers.empty()) return v[0];
      std::sort(numbers.begin(), numbers.end());
      return numbers[(numbers.size() - 1) / 2];
    };
    ASSERT_EQ(ignore ? CALL(aclnnNanMedianDim, x, dim, keep, values, places)
                     : CALL(aclnnMedianDim, x, dim - dims.rank(), keep, values, places),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want, want_places;
    for (int64_t i = 0; i < NumElements(want_dims); ++i) {
      std::vector<std::pair<double, int64_t>> row;
      for (int64_t j = 0; j < dims[dim]; ++j) {
        Index at = At(want_dims, i);
        at[static_cast<size_t>(dim)] = j;
        row.emplace_back(all[static_cast<size_t>(Linear(dims, at))], j);
      }
      const auto [v, j] = pick(row);
      want.push_back(v), want_places.push_back(static_cast<double>(j));
    }
    EXPECT_EQ(Compare(values.Get(), want, std::vector<double>(want.size(), 0)), "");
    EXPECT_EQ(places.Get(), want_places);
    ASSERT_EQ(ignore ? CALL(aclnnNanMedian, x, one) : CALL(aclnnMedian, x, one), 0) << aclGetRecentErrMsg();
    std::vector<std::pair<double, int64_t>> whole;
    for (double v : all) whole.emplace_back(v, 0);
    EXPECT_EQ(Compare(one.Get(), {pick(whole).first}, std::vector<double>{0}), "");
    ExpectGuards({&x, &values, &places, &one});
  }
  ApiTensor none(DType::kF32, {2, 0}), v(DType::kF32, {2}), at(DType::kS64, {2});
  ExpectRefused(CALL(aclnnMedianDim, none, 1, false, v, at), 161002, {"[2,0]"});
  ExpectRefused(CALL(aclnnMedianDim, v, 1, false, v, at), 161002, {"dim is 1"});
}

TEST_F(Bags, JaggedPermute) {
  for (int round = 0; round < 20; ++round) {
    const int64_t n = rng_.Int(1, 9);
    ApiTensor permute(DType::kS32, {n}), from(DType::kS32, {n + 1}), to(DType::kS32, {n + 1});
    const auto p = Fill(permute, 0, n), starts = Fill(from, 0, 50);
    std::vector<double> ends = {0}, want;
    for (int64_t i = 0; i < n; ++i) {
      ends.push_back(ends.back() + static_cast<double>(rng_.Int(0, 7)));
      for (double k = ends[static_cast<size_t>(i)]; k < ends.back(); ++k)
        want.push_back(static_cast<double>(starts[static_cast<size_t>(p[static_cast<size_t>(i)])]) + k -
                       ends[static_cast<size_t>(i)]);
    }
    to.Set(ends);
    ApiTensor y(DType::kS32, {static_cast<int64_t>(ends.back())}, &rng_, round % 2);
    ASSERT_EQ(CALL(aclnnExpandIntoJaggedPermute, permute, from, to, static_cast<int64_t>(ends.back()), y), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want);
    ExpectGuards({&y});
  }
  ApiTensor p(DType::kS32, {1}), from(DType::kS32, {2}), to(DType::kS32, {2}), y(DType::kS32, {3});
  p.Set({0}), from.Set({4, 4}), to.Set({0, 4}), y.Set({7, 7, 7});
  ExpectRefused(CALL(aclnnExpandIntoJaggedPermute, p, from, to, 3, y), 161002, {"outputOffset", "is 4"});
  EXPECT_EQ(y.Get(), (std::vector<double>{7, 7, 7}));
}

TEST_F(Bags, Inverse) {
  for (int round = 0; round < 30; ++round) {
    const DType t = round % 3 == 0 ? DType::kF64 : round % 3 == 1 ? DType::kF32 : DType::kF16;
    const int64_t n = rng_.Int(1, 7), count = rng_.Int(1, 3);
    RandomTensor x(t, {count, n, n}, rng_, round % 2, 1);
    std::vector<double> all = x.values();
    for (int64_t m = 0; m < count; ++m)  // far from singular
      for (int64_t i = 0; i < n; ++i) all[static_cast<size_t>((m * n + i) * n + (i + 1) % n)] += 8;
    x.Set(all);
    all = x.Get();
    ApiTensor y(t, {count, n, n}, &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnInverse, x, y), 0) << aclGetRecentErrMsg();
    const auto got = y.Get();
    // A * A^-1 = I, as well as the rounding of A^-1 allows.
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < n; ++k)
            sum +=
                all[static_cast<size_t>((m * n + i) * n + k)] * got[static_cast<size_t>((m * n + k) * n + j)];
          EXPECT_NEAR(sum, i == j ? 1 : 0, static_cast<double>(4 * n * n) * 10 * testing::Epsilon(t));
        }
      }
    }
    ExpectGuards({&x, &y});
  }
  ApiTensor x(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnInverse, x, x), 161002, {"[2,3]", "square"});
}

TEST_F(Bags, ScatterReduce) {
  for (int round = 0; round < 96; ++round) {
    const DType t = round % 4 == 3 ? DType::kS32 : kFloats[round % 3];
    const Dims dims = round == 11 ? Dims{5} : rng_.Shape(1, 3, 60);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    Dims at_dims = dims;
    at_dims[dim] = round == 11 ? 40000 : rng_.Int(1, 5);
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), src(t, at_dims, rng_, round % 2, 2);
    ApiTensor index(IndexType(), at_dims), y(t, dims, &rng_, round % 3 == 2);
    const auto at = Fill(index, 0, dims[dim]);
    const int64_t reduce = round == 11 ? 1 : round % 6;
    const bool include = round % 2;
    ASSERT_EQ(CALL(aclnnScatterReduce, x, dim, index, src, reduce, include, y), 0) << aclGetRecentErrMsg();
    std::vector<double> want = x.values(), size(want.size()), count(want.size());
    for (int64_t i = 0; i < NumElements(at_dims); ++i) {
      Index to = At(at_dims, i);
      const double v = src(to);
      to[static_cast<size_t>(dim)] = at[static_cast<size_t>(i)];
      const auto k = static_cast<size_t>(Linear(dims, to));
      double& r = want[k];
      const bool first = count[k]++ == 0 && !include;
      r = first || reduce == 0 ? v
          : reduce == 2        ? r * v
          : reduce == 3        ? std::max(r, v)
          : reduce == 4        ? std::min(r, v)
                               : r + v;
      size[k] += std::abs(v) + std::abs(r);
    }
    for (size_t k = 0; k < want.size(); ++k) {
      if (reduce != 5 || count[k] == 0) continue;
      want[k] /= count[k] + include;
      if (!IsFloat(t)) want[k] = std::floor(want[k]);
    }
    std::vector<double> tolerance;  // halves are rounded once per step
    for (double s : size) tolerance.push_back(IsFloat(t) ? s * 2 * testing::Epsilon(t) : 0);
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << reduce << include << Name(t);
    ExpectGuards({&x, &src, &index, &y});
  }
  RandomTensor x(DType::kF32, {3}, rng_);
  ApiTensor index(DType::kS64, {1}), y(DType::kF32, {3});
  index.Set({3}), y.Set({1, 2, 3});
  EXPECT_NE(CALL(aclnnScatterReduce, x, 0, index, x, 5, true, y), 0);
  EXPECT_EQ(y.Get(), (std::vector<double>{1, 2, 3}));
  ExpectRefused(CALL(aclnnScatterReduce, x, 0, index, x, 6, true, y), 161002, {"reduce is 6"});
}

TEST_F(Bags, ThreadsDoNotMatter) {
  RandomTensor x(DType::kF32, {300}, rng_), src(DType::kF32, {90000}, rng_, false, 1);
  ApiTensor index(DType::kS32, {90000});
  Fill(index, 0, 300);
  src.memory().FillRandom(rng_, -1, 1);
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    ApiTensor y(DType::kF32, {300});
    ASSERT_EQ(CALL(aclnnScatterReduce, x, 0, index, src, 5, true, y), 0) << aclGetRecentErrMsg();
    results.push_back(y.Get());
  }
  SetNumThreads(0);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(Bags, ScatterDiv) {
  RandomTensor x(DType::kF32, {4, 3}, rng_), by(DType::kF32, {5, 3}, rng_);
  by.memory().FillRandom(rng_, 1, 2);
  ApiTensor index(DType::kS64, {5});
  const auto at = Fill(index, 0, 4);
  std::vector<double> want = x.values(), tolerance;
  const auto divisors = by.Get();
  for (size_t i = 0; i < 15; ++i) want[static_cast<size_t>(at[i / 3]) * 3 + i % 3] /= divisors[i];
  ASSERT_EQ(CALL(aclnnScatterDiv, x, index, by, false), 0) << aclGetRecentErrMsg();
  for (double v : want) tolerance.push_back(std::abs(v) * 6 * 0x1p-24);
  EXPECT_EQ(Compare(x.Get(), want, tolerance), "");
  ApiTensor whole(DType::kS32, {2}), zero(DType::kS32, {1}), first(DType::kS64, {1});
  whole.Set({-7, 5}), zero.Set({0}), first.Set({0});
  ASSERT_EQ(CALL(aclnnScatterDiv, whole, first, zero, false), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(whole.Get(), (std::vector<double>{0, 5}));
}

// A list of handles that keeps its members.
struct ListOf {
  explicit ListOf(std::vector<const aclTensor*> members)
      : handle(aclCreateTensorList(members.data(), members.size())) {}
  aclTensorList* handle;
};

aclTensor* Handle(DType t, const Dims& dims, ApiTensor& memory) {
  const Dims strides = ContiguousStrides(dims);
  return aclCreateTensor(dims.data(), static_cast<uint64_t>(dims.rank()), Acl(t), strides.data(), 0,
                         ACL_FORMAT_ND, dims.data(), static_cast<uint64_t>(dims.rank()),
                         memory.memory().view().data);
}

TEST_F(Bags, MasksAsIndices) {
  for (int round = 0; round < 30; ++round) {
    const int64_t a = rng_.Int(1, 5), b = rng_.Int(1, 5), c = rng_.Int(1, 4);
    RandomTensor x(kMoved[round % 6], {a, b, c}, rng_, round % 3 == 1);
    // One mask over the first dims, or over the second alone behind a dim that is taken whole.
    const bool second = round % 3 == 2;
    const Dims mask_dims = second ? Dims{b} : round % 3 == 1 ? Dims{a, b} : Dims{a};
    ApiTensor mask(DType::kBool, mask_dims), whole(DType::kS64, {0});
    mask.memory().FillRandom(rng_, 0, 1);
    const auto bits = mask.Get();
    const int first = second ? 1 : 0, named = mask_dims.rank();
    std::vector<int64_t> found;
    for (size_t i = 0; i < bits.size(); ++i)
      if (bits[i] != 0) found.push_back(static_cast<int64_t>(i));
    const auto count = static_cast<int64_t>(found.size());
    Dims y_dims = {a, b, c};
    for (int i = 0; i < named; ++i) y_dims.erase(first);
    y_dims.insert(first, count);
    const auto source = [&](const Index& i) {  // where an element of the result comes from
      Index at;
      for (int d = 0; d < y_dims.rank(); ++d) {
        if (d != first) {
          at.push_back(i[static_cast<size_t>(d)]);
          continue;
        }
        for (int64_t v : At(mask_dims, found[static_cast<size_t>(i[static_cast<size_t>(d)])]))
          at.push_back(v);
      }
      return at;
    };
    const auto list = [&] {
      std::vector<const aclTensor*> members;
      if (second) members.push_back(Handle(DType::kS64, {0}, whole));
      members.push_back(Handle(DType::kBool, mask_dims, mask));
      return ListOf(members);
    };
    ListOf indices = list();
    ApiTensor y(x.dtype(), y_dims, &rng_, round % 2);
    ASSERT_EQ(CALL(aclnnIndex, x, indices.handle, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(y_dims, [&](const Index& i) { return x(source(i)); }));
    RandomTensor values(x.dtype(), y_dims, rng_), one(x.dtype(), {1}, rng_);
    const bool single = round % 4 == 3;
    std::vector<double> want = x.values();
    for (int64_t i = 0; i < NumElements(y_dims); ++i)
      want[static_cast<size_t>(Linear({a, b, c}, source(At(y_dims, i))))] = single ? one[0] : values[i];
    ASSERT_EQ(CALL(aclnnIndexPutImpl, x, indices.handle, single ? one : values, false, true), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want);
    ExpectGuards({&x, &y, &mask});
    aclDestroyTensorList(indices.handle);
  }
  // Another count than the values have is an error of the run.
  RandomTensor x(DType::kF32, {3}, rng_), values(DType::kF32, {2}, rng_);
  ApiTensor mask(DType::kBool, {3}), y(DType::kF32, {2});
  mask.Set({1, 1, 1});
  ListOf indices({Handle(DType::kBool, {3}, mask)});
  ExpectRefused(CALL(aclnnIndexPutImpl, x, indices.handle, values, false, true), 161002,
                {"aclnnIndexPutImpl: values has 2 slices for 3 that the mask names"});
  EXPECT_EQ(x.Get(), x.values());
  ExpectRefused(CALL(aclnnIndex, x, indices.handle, y), 161002,
                {"aclnnIndex: indices[0] names 3 elements; allowed: 2"});
  aclDestroyTensorList(indices.handle);
}

// x[mask, [j]]: the only index of a dim goes with all that the mask of the other names.
TEST_F(Bags, OneIndexBesideAMask) {
  for (int round = 0; round < 30; ++round) {
    const int64_t a = rng_.Int(1, 6), b = rng_.Int(1, 5), c = rng_.Int(1, 4);
    RandomTensor x(kMoved[round % 6], {a, b, c}, rng_, round % 3 == 1), one(x.dtype(), {1}, rng_);
    const bool swapped = round % 2, flat = round % 5 == 0;  // the mask is of dim 1; the index has no dim
    const int64_t size = swapped ? b : a, other = swapped ? a : b, j = rng_.Int(0, other - 1);
    ApiTensor mask(DType::kBool, {size}), at(DType::kS64, flat ? Dims{} : Dims{1});
    std::vector<double> bits;
    std::vector<int64_t> named;
    for (int64_t i = 0; i < size; ++i) {
      bits.push_back(static_cast<double>(rng_.Int(0, 1)));
      if (bits.back() != 0) named.push_back(i);
    }
    mask.Set(bits), at.Set({static_cast<double>(round % 4 == 3 ? j - other : j)});
    std::vector<const aclTensor*> members = {Handle(DType::kBool, {size}, mask),
                                             Handle(DType::kS64, flat ? Dims{} : Dims{1}, at)};
    if (swapped) std::swap(members[0], members[1]);
    ListOf indices(members);
    const Dims dims = {static_cast<int64_t>(named.size()), c};
    const auto source = [&](const Index& i) {
      const int64_t k = named[static_cast<size_t>(i[0])];
      return swapped ? Index{j, k, i[1]} : Index{k, j, i[1]};
    };
    ApiTensor y(x.dtype(), dims);
    ASSERT_EQ(CALL(aclnnIndex, x, indices.handle, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(dims, [&](const Index& i) { return x(source(i)); }));
    RandomTensor values(x.dtype(), dims, rng_);
    const bool single = round % 3 == 2;
    std::vector<double> want = x.values();
    for (int64_t i = 0; i < NumElements(dims); ++i)
      want[static_cast<size_t>(Linear({a, b, c}, source(At(dims, i))))] = single ? one[0] : values[i];
    ASSERT_EQ(CALL(aclnnIndexPutImpl, x, indices.handle, single ? one : values, false, true), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want) << round;
    ExpectGuards({&x, &mask, &at});
    aclDestroyTensorList(indices.handle);
  }
  RandomTensor x(DType::kF32, {3, 4}, rng_), one(DType::kF32, {1}, rng_);
  ApiTensor mask(DType::kBool, {3}), at(DType::kS64, {1});
  mask.Set({1, 0, 1}), at.Set({4});
  ListOf indices({Handle(DType::kBool, {3}, mask), Handle(DType::kS64, {1}, at)});
  ExpectRefused(CALL(aclnnIndexPutImpl, x, indices.handle, one, false, true), 161002,
                {"aclnnIndexPutImpl", "4"});
  EXPECT_EQ(x.Get(), x.values());
  aclDestroyTensorList(indices.handle);
}

// Two masks name elements pair by pair; one value goes to all of them.
TEST_F(Bags, OneValueForSeveralMasks) {
  for (int round = 0; round < 30; ++round) {
    const int64_t a = rng_.Int(1, 6), b = rng_.Int(1, 4), c = rng_.Int(1, 6);
    RandomTensor x(kMoved[round % 6], {a, b, c}, rng_, round % 3 == 1), one(x.dtype(), {1}, rng_);
    const bool apart = round % 2, adds = round % 5 == 0;  // over dims 0 and 2, or 0 and 1
    const int64_t last = apart ? c : b;
    const int64_t named = rng_.Int(0, std::min(a, last));
    const auto places = [&](int64_t n, int64_t count) {  // `count` of them, in order
      std::vector<int64_t> at;
      for (int64_t i = 0; i < n; ++i) {
        const auto wanted = count - static_cast<int64_t>(at.size());
        if (rng_.Int(0, n - i - 1) < wanted) at.push_back(i);
      }
      return at;
    };
    // One of the masks may name a single place, which goes with all of the other's.
    const auto first = places(a, round % 4 == 3 ? 1 : named), second = places(last, named);
    const auto bits = [](int64_t n, const std::vector<int64_t>& at) {
      std::vector<double> v(static_cast<size_t>(n));
      for (int64_t i : at) v[static_cast<size_t>(i)] = 1;
      return v;
    };
    ApiTensor mask0(DType::kBool, {a}), mask1(DType::kBool, {last}), whole(DType::kS64, {0});
    mask0.Set(bits(a, first)), mask1.Set(bits(last, second));
    std::vector<const aclTensor*> members = {Handle(DType::kBool, {a}, mask0)};
    if (apart) members.push_back(Handle(DType::kS64, {0}, whole));
    members.push_back(Handle(DType::kBool, {last}, mask1));
    ListOf indices(members);
    std::vector<double> want = x.values();
    for (size_t k = 0; k < second.size(); ++k) {
      const int64_t i = first.size() == 1 ? first[0] : first[k], j = second[k];
      for (int64_t rest = 0; rest < (apart ? b : c); ++rest) {
        double& v =
            want[static_cast<size_t>(Linear({a, b, c}, apart ? Index{i, rest, j} : Index{i, j, rest}))];
        v = adds && x.dtype() == DType::kF32 ? static_cast<float>(v + one[0]) : one[0];
      }
    }
    ASSERT_EQ(CALL(aclnnIndexPutImpl, x, indices.handle, one, adds && x.dtype() == DType::kF32, true), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want) << round;
    ExpectGuards({&x, &mask0, &mask1});
    aclDestroyTensorList(indices.handle);
  }
  RandomTensor x(DType::kF32, {3, 4}, rng_), one(DType::kF32, {1}, rng_);
  ApiTensor rows(DType::kBool, {3}), columns(DType::kBool, {4});
  rows.Set({1, 1, 1}), columns.Set({0, 1, 0, 1});
  ListOf indices({Handle(DType::kBool, {3}, rows), Handle(DType::kBool, {4}, columns)});
  ExpectRefused(CALL(aclnnIndexPutImpl, x, indices.handle, one, false, true), 161002,
                {"aclnnIndexPutImpl: the masks name 3, 2 elements", "as many each, or one"});
  EXPECT_EQ(x.Get(), x.values());
  aclDestroyTensorList(indices.handle);
}

TEST_F(Bags, MaskedFillAndCaches) {
  RandomTensor x(DType::kF16, {3, 4}, rng_, true);
  ApiTensor mask(DType::kBool, {4});
  mask.Set({1, 0, 0, 1});
  ApiScalar value(2.5F);
  ASSERT_EQ(CALL(aclnnInplaceMaskedFillScalar, x, mask, value), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), Make({3, 4}, [&](const Index& i) { return i[1] % 3 == 0 ? 2.5 : x(i); }));

  ApiTensor single(DType::kF16, {1});
  single.Set({-1});
  ASSERT_EQ(CALL(aclnnInplaceMaskedFillTensor, x, mask, single), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), Make({3, 4}, [&](const Index& i) { return i[1] % 3 == 0 ? -1.0 : x(i); }));
  ExpectRefused(CALL(aclnnInplaceMaskedFillScalar, mask, x, value), 161002, {"mask has dtype f16"});

  const int64_t batch = 2, heads = 2, length = 6, width = 32, steps = 3;
  ApiTensor cache(DType::kS8, {batch, heads, length, width}), at(DType::kS32, {batch});
  RandomTensor updates(DType::kF16, {batch, heads, steps, width}, rng_), scale(DType::kF32, {width}, rng_);
  ApiTensor zero(DType::kS32, {width});
  scale.memory().FillRandom(rng_, 0.0625, 0.25);
  cache.memory().FillRandom(rng_, -9, 9);
  zero.memory().FillRandom(rng_, -4, 4);
  at.Set({1, 3});
  std::vector<double> want = cache.Get();
  const auto scales = scale.Get(), zeros = zero.Get();
  for (int64_t i = 0; i < NumElements(updates.dims()); ++i) {
    Index to = At(updates.dims(), i);
    const auto k = static_cast<size_t>(to[3]);
    // In f32, as the function computes.
    const float v =
        static_cast<float>(updates[i]) / static_cast<float>(scales[k]) + static_cast<float>(zeros[k]);
    to[2] += to[0] == 0 ? 1 : 3;
    want[static_cast<size_t>(Linear(cache.dims(), to))] =
        std::clamp(std::nearbyint(static_cast<double>(v)), -128.0, 127.0);
  }
  ASSERT_EQ(CALL(aclnnInplaceQuantScatter, cache, at, updates, scale, zero, -2, -1, 1), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(cache.Get(), want);
  char rint[] = "rint", floor[] = "floor";
  ASSERT_EQ(CALL(aclnnInplaceQuantScatterV2, cache, at, updates, scale, zero, 2, 3, 1, rint), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(cache.Get(), want);
  ExpectRefused(CALL(aclnnInplaceQuantScatterV2, cache, at, updates, scale, zero, 2, 3, 1, floor), 161002,
                {"roundMode is floor"});
  at.Set({1, 4});
  EXPECT_NE(CALL(aclnnInplaceQuantScatter, cache, at, updates, scale, zero, -2, -1, 1), 0);
  EXPECT_EQ(cache.Get(), want);
  ExpectRefused(CALL(aclnnInplaceQuantScatter, cache, at, updates, scale, zero, -2, 1, 1), 161002,
                {"quantAxis is 1"});

  RandomTensor first(DType::kF32, {5, 4}, rng_), other(DType::kF32, {5, 4}, rng_),
      parts(DType::kF32, {2, 2, 4}, rng_);
  std::vector<std::vector<double>> lists = {first.values(), other.values()};
  for (int64_t i = 0; i < 16; ++i)
    lists[static_cast<size_t>(i / 8)][static_cast<size_t>((i / 4 % 2 + (i < 8 ? 1 : 3)) * 4 + i % 4)] =
        parts[i];
  at.Set({1, 3});
  ListOf vars({Handle(DType::kF32, {5, 4}, first), Handle(DType::kF32, {5, 4}, other)});
  char update[] = "update";
  ASSERT_EQ(CALL(aclnnScatterList, vars.handle, at, parts, nullptr, update, -2), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(first.Get(), lists[0]);
  EXPECT_EQ(other.Get(), lists[1]);
  aclDestroyTensorList(vars.handle);
}

}  // namespace
}  // namespace opsnn::capi
