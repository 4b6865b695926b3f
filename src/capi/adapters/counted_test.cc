// Functions whose values decide how large the result is, and what aclGetViewShape says after them.
#include <algorithm>
#include <cmath>
#include <map>

#include "aclnnop/aclnn_abs.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_masked_select.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_nonzero_v2.h"
#include "aclnnop/aclnn_unique.h"
#include "aclnnop/aclnn_unique2.h"
#include "aclnnop/aclnn_unique_consecutive.h"
#include "aclnnop/aclnn_unique_dim.h"
#include "base/parallel.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

Dims ViewDims(const aclTensor* t) {
  int64_t* dims = nullptr;
  uint64_t rank = 0;
  EXPECT_EQ(aclGetViewShape(t, &dims, &rank), 0);
  const Dims result(std::span<const int64_t>(dims, rank));
  delete[] dims;
  return result;
}

// The first elements of a tensor's memory, which lie one behind the other.
std::vector<double> Front(ApiTensor& t, int64_t n) {
  std::vector<double> v;
  const char* data = static_cast<const char*>(t.memory().view().data);
  for (int64_t i = 0; i < n; ++i)
    v.push_back(testing::ReadElement(data + i * static_cast<int64_t>(SizeOf(t.dtype())), t.dtype()));
  return v;
}

class Counted : public ApiTest {
 protected:
  Rng rng_;
  DType Any() { return kMoved[rng_.Int(0, std::size(kMoved) - 1)]; }
  // Values of which many are equal, some are 0.
  void FewValues(ApiTensor& t) {
    std::vector<double> v(static_cast<size_t>(NumElements(t.dims())));
    const double lowest = t.dtype() == DType::kBool ? 0 : -2;
    for (double& x : v) x = static_cast<double>(rng_.Int(static_cast<int64_t>(lowest), 1));
    t.Set(v);
  }
};

TEST_F(Counted, Nonzero) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(1, 4, round == 7 ? 90000 : 300, true);
    ApiTensor x(Any(), dims, &rng_, round % 3 == 1);
    FewValues(x);
    const std::vector<double> values = x.Get();
    const int64_t rank = dims.rank(), n = NumElements(dims);
    std::vector<Index> found;
    for (int64_t i = 0; i < n; ++i)
      if (values[static_cast<size_t>(i)] != 0) found.push_back(At(dims, i));
    const auto count = static_cast<int64_t>(found.size());
    ApiTensor y(DType::kS64, {n, rank}), turned(DType::kS64, {rank, n});
    ASSERT_EQ(CALL(aclnnNonzero, x, y), 0) << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnNonzeroV2, x, turned), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(ViewDims(y), (Dims{count, rank}));
    EXPECT_EQ(ViewDims(turned), (Dims{rank, count}));
    const auto at = [&](int64_t k, int64_t d) {
      return static_cast<double>(found[static_cast<size_t>(k)][static_cast<size_t>(d)]);
    };
    EXPECT_EQ(Front(y, count * rank), Make({count, rank}, [&](const Index& i) { return at(i[0], i[1]); }));
    EXPECT_EQ(Front(turned, count * rank),
              Make({rank, count}, [&](const Index& i) { return at(i[1], i[0]); }));
    ExpectGuards({&x, &y, &turned});
    if (count < 2) continue;
    ApiTensor narrow(DType::kS64, {count - 1, rank});
    narrow.Set(std::vector<double>(static_cast<size_t>((count - 1) * rank), 7));
    ExpectRefused(CALL(aclnnNonzero, x, narrow), 161002,
                  {"aclnnNonzero: out has room for " + std::to_string(count - 1) + "; the values give " +
                   std::to_string(count)});
    EXPECT_EQ(narrow.Get(), std::vector<double>(static_cast<size_t>((count - 1) * rank), 7));
    EXPECT_EQ(ViewDims(narrow), (Dims{count - 1, rank}));
  }
}

// An output that is used again has its whole room; whoever reads it sees what was found.
TEST_F(Counted, OutputsAreUsedAgain) {
  ApiTensor x(DType::kF32, {6}), y(DType::kS64, {6, 1}), shifted(DType::kS64, {2, 1}),
      all(DType::kS64, {6, 1});
  ApiTensor zeros(DType::kF32, {6});
  zeros.Set({0, 0, 0, 0, 0, 0});
  x.Set({0, 3, 0, 0, -1, 0});
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(CALL(aclnnNonzero, round == 1 ? zeros : x, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(ViewDims(y), (Dims{round == 1 ? 0 : 2, 1}));
  }
  ASSERT_EQ(CALL(aclnnAbs, y, shifted), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(shifted.Get(), (std::vector<double>{1, 4}));
  ExpectRefused(CALL(aclnnAbs, y, all), 161002, {"out has shape [6,1]", "[2,1]"});
  ASSERT_EQ(CALL(aclnnInplaceCopy, y, shifted), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(ViewDims(y), (Dims{2, 1}));
  ASSERT_EQ(CALL(aclnnAbs, all, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(ViewDims(y), (Dims{6, 1}));
}

TEST_F(Counted, MaskedSelect) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(1, 3, round == 5 ? 70000 : 200, true);
    RandomTensor x(Any(), dims, rng_, round % 3 == 1);
    Dims mask_dims = dims;
    if (round % 4 == 2) mask_dims[0] = std::min<int64_t>(1, mask_dims[0]);
    ApiTensor mask(round % 2 ? DType::kU8 : DType::kBool, mask_dims, &rng_, round % 3 == 2);
    mask.memory().FillRandom(rng_, 0, 1);
    ApiTensor y(x.dtype(), {NumElements(dims)});
    ASSERT_EQ(CALL(aclnnMaskedSelect, x, mask, y), 0) << aclGetRecentErrMsg();
    std::vector<double> want;
    const auto bits = mask.Get();
    for (int64_t i = 0; i < NumElements(dims); ++i) {
      const Index at = At(dims, i);
      if (bits[static_cast<size_t>(BroadcastLinear(mask_dims, at))] != 0) want.push_back(x(at));
    }
    const auto count = static_cast<int64_t>(want.size());
    EXPECT_EQ(ViewDims(y), (Dims{count}));
    EXPECT_EQ(Front(y, count), want);
    ExpectGuards({&x, &mask, &y});
  }
  ApiTensor x(DType::kF32, {2, 3}), mask(DType::kBool, {2, 2}), y(DType::kF32, {6}), small(DType::kF32, {5});
  ExpectRefused(CALL(aclnnMaskedSelect, x, mask, y), 161002, {"mask has shape [2,2]"});
  ExpectRefused(CALL(aclnnMaskedSelect, x, x, y), 161002, {"mask has dtype f32"});
  ApiTensor right(DType::kBool, {2, 3});
  ExpectRefused(CALL(aclnnMaskedSelect, x, right, small), 161002, {"out has shape [5]", "[6]"});
}

TEST_F(Counted, UniqueOfElements) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(1, 3, round == 9 ? 100000 : 100);
    const int64_t n = NumElements(dims);
    ApiTensor x(Any(), dims, &rng_, round % 3 == 1), y(x.dtype(), {n}), inverse(DType::kS64, dims),
        counts(DType::kS64, {n});
    FewValues(x);
    const bool consecutive = round % 4 == 3;
    const int code = consecutive ? CALL(aclnnUniqueConsecutive, x, true, true, 1000, y, inverse, counts)
                                 : CALL(aclnnUnique2, x, round % 2 == 0, true, true, y, inverse, counts);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> values, places, sizes;
    std::map<double, double> groups;
    const std::vector<double> all = x.Get();
    for (double v : all) groups[v] += 1;
    if (consecutive) {
      for (double v : all) {
        if (values.empty() || values.back() != v) values.push_back(v), sizes.push_back(0);
        sizes.back() += 1;
        places.push_back(static_cast<double>(values.size()) - 1);
      }
    } else {
      for (const auto& [v, count] : groups) values.push_back(v), sizes.push_back(count);
      for (double v : all)
        places.push_back(static_cast<double>(std::find(values.begin(), values.end(), v) - values.begin()));
    }
    const auto count = static_cast<int64_t>(values.size());
    EXPECT_EQ(ViewDims(y), (Dims{count}));
    EXPECT_EQ(ViewDims(counts), (Dims{count}));
    EXPECT_EQ(Front(y, count), values);
    EXPECT_EQ(Front(counts, count), sizes);
    EXPECT_EQ(inverse.Get(), places);
    ExpectGuards({&x, &y, &inverse, &counts});
  }
  // NaN equals NaN and comes last; -0 equals 0.
  ApiTensor x(DType::kF32, {6}), y(DType::kF32, {6}), inverse(DType::kS64, {6});
  x.Set({NAN, 0.0, -0.0, NAN, -INFINITY, INFINITY});
  ASSERT_EQ(CALL(aclnnUnique, x, true, true, y, inverse), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(ViewDims(y), (Dims{4}));
  EXPECT_EQ(inverse.Get(), (std::vector<double>{3, 1, 1, 3, 0, 2}));
}

TEST_F(Counted, UniqueAlongADim) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 3, 60);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const int64_t n = dims[dim];
    ApiTensor x(Any(), dims, &rng_, round % 3 == 1), y(x.dtype(), dims), inverse(DType::kS64, {n}),
        counts(DType::kS64, {n});
    FewValues(x);
    const std::vector<double> all = x.Get();
    std::vector<std::vector<double>> slices(static_cast<size_t>(n)), values;
    for (int64_t i = 0; i < NumElements(dims); ++i)
      slices[static_cast<size_t>(At(dims, i)[static_cast<size_t>(dim)])].push_back(
          all[static_cast<size_t>(i)]);
    values = slices;
    const bool consecutive = round % 2;
    if (!consecutive) std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    ASSERT_EQ(consecutive ? CALL(aclnnUniqueConsecutive, x, true, true, dim, y, inverse, counts)
                          : CALL(aclnnUniqueDim, x, true, true, dim - dims.rank(), y, inverse, counts),
              0)
        << aclGetRecentErrMsg();
    Dims want = dims;
    want[dim] = static_cast<int64_t>(values.size());
    EXPECT_EQ(ViewDims(y), want);
    std::vector<size_t> used(values.size());
    EXPECT_EQ(Front(y, NumElements(want)), Make(want, [&](const Index& i) {
                const auto g = static_cast<size_t>(i[static_cast<size_t>(dim)]);
                return values[g][used[g]++];
              }));
    const auto places = inverse.Get();
    for (size_t i = 0; i < slices.size(); ++i) EXPECT_EQ(values[static_cast<size_t>(places[i])], slices[i]);
    ExpectGuards({&x, &y, &inverse, &counts});
  }
  ApiTensor x(DType::kF32, {2, 3}), y(DType::kF32, {2, 3}), wide(DType::kF32, {2, 4}), at(DType::kS64, {2}),
      counts(DType::kS64, {2});
  ExpectRefused(CALL(aclnnUniqueDim, x, true, true, 2, y, at, counts), 161002, {"dim is 2"});
  ExpectRefused(CALL(aclnnUniqueDim, x, true, true, 0, wide, at, counts), 161002,
                {"valueOut has shape [2,4]"});
}

// The same bytes for any number of threads.
TEST_F(Counted, ThreadsDoNotMatter) {
  ApiTensor x(DType::kF32, {200000});
  x.memory().FillRandom(rng_);
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    ApiTensor y(DType::kF32, {200000}), inverse(DType::kS64, {200000}), counts(DType::kS64, {200000});
    ASSERT_EQ(CALL(aclnnUnique2, x, true, true, true, y, inverse, counts), 0) << aclGetRecentErrMsg();
    const int64_t n = ViewDims(y)[0];
    results.push_back(Front(y, n));
    const auto places = inverse.Get();
    results.back().insert(results.back().end(), places.begin(), places.end());
  }
  SetNumThreads(0);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace opsnn::capi
