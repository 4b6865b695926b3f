// Gathering and scattering by index tensors, tables and orders, against index arithmetic.
#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_bucketize.h"
#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_embedding_dense_backward.h"
#include "aclnnop/aclnn_flip.h"
#include "aclnnop/aclnn_gather.h"
#include "aclnnop/aclnn_gather_nd.h"
#include "aclnnop/aclnn_gather_v3.h"
#include "aclnnop/aclnn_index.h"
#include "aclnnop/aclnn_index_add.h"
#include "aclnnop/aclnn_index_fill.h"
#include "aclnnop/aclnn_index_put_impl.h"
#include "aclnnop/aclnn_kthvalue.h"
#include "aclnnop/aclnn_put.h"
#include "aclnnop/aclnn_scatter.h"
#include "aclnnop/aclnn_scatter_add.h"
#include "aclnnop/aclnn_scatter_max.h"
#include "aclnnop/aclnn_scatter_nd.h"
#include "aclnnop/aclnn_scatter_nd_update.h"
#include "aclnnop/aclnn_scatter_reduce.h"
#include "aclnnop/aclnn_scatter_update.h"
#include "aclnnop/aclnn_take.h"
#include "aclnnop/aclnn_tf_scatter_add.h"
#include "aclnnop/aclnn_topk.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Scattering : public ApiTest {
 protected:
  Rng rng_;
  DType Moved() { return kMoved[rng_.Int(0, std::size(kMoved) - 1)]; }
  DType IndexType() { return rng_.Chance(0.5) ? DType::kS32 : DType::kS64; }
  void Fill(ApiTensor& index, int64_t n) {
    std::vector<double> v(index.Get().size());
    for (double& i : v) i = static_cast<double>(rng_.Int(0, n - 1));
    index.Set(v);
  }
};

TEST_F(Scattering, Gather) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 4, 200);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    Dims at_dims = dims;
    for (int i = 0; i < dims.rank(); ++i) at_dims[i] = i == dim ? rng_.Int(1, 5) : rng_.Int(1, dims[i]);
    RandomTensor x(Moved(), dims, rng_, round % 3 == 1);
    ApiTensor index(IndexType(), at_dims, &rng_, round % 2), y(x.dtype(), at_dims, &rng_, round % 3 == 2);
    Fill(index, dims[dim]);
    const auto at = index.Get();
    ASSERT_EQ(CALL(aclnnGather, x, dim - dims.rank(), index, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(at_dims, [&](Index i) {
                const auto n = static_cast<size_t>(Linear(at_dims, i));
                i[static_cast<size_t>(dim)] = static_cast<int64_t>(at[n]);
                return x(i);
              }));
    ExpectGuards({&x, &index, &y});
  }
}

TEST_F(Scattering, GatherNdGatherV3TakeEmbedding) {
  for (int round = 0; round < 20; ++round) {
    const int64_t a = rng_.Int(1, 4), b = rng_.Int(1, 4), c = rng_.Int(1, 5), n = rng_.Int(1, 6);
    const DType t = round % 2 ? DType::kF16 : DType::kS64;
    RandomTensor x(t, {a, b, c}, rng_, round % 3 == 1);
    ApiTensor tuples(DType::kS64, {n, 2}), y(x.dtype(), {n, c}, &rng_, round % 2);
    std::vector<double> at_tuples;
    for (int64_t i = 0; i < n; ++i) {
      at_tuples.push_back(static_cast<double>(rng_.Int(0, a - 1)));
      at_tuples.push_back(static_cast<double>(rng_.Int(0, b - 1)));
    }
    tuples.Set(at_tuples);
    ASSERT_EQ(CALL(aclnnGatherNd, x, tuples, true, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(y.dims(), [&](const Index& i) {
                return x({static_cast<int64_t>(at_tuples[static_cast<size_t>(2 * i[0])]),
                          static_cast<int64_t>(at_tuples[static_cast<size_t>(2 * i[0] + 1)]), i[1]});
              }));
    // One batch dim; the gathered dim is the last, then the middle one.
    ApiTensor index(IndexType(), {a, n}, &rng_, round % 2), last(x.dtype(), {a, b, n}),
        mid(x.dtype(), {a, n, c});
    Fill(index, std::min(b, c));
    const auto at = index.Get();
    auto pick = [&](int64_t batch, int64_t i) {
      return static_cast<int64_t>(at[static_cast<size_t>(batch * n + i)]);
    };
    ASSERT_EQ(CALL(aclnnGatherV3, x, 2, index, 1, 0, last), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(last.Get(), Make(last.dims(), [&](const Index& i) {
                return x({i[0], i[1], pick(i[0], i[2])});
              }));
    ASSERT_EQ(CALL(aclnnGatherV3, x, 1, index, 1, 1, mid), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(mid.Get(), Make(mid.dims(), [&](const Index& i) { return x({i[0], pick(i[0], i[1]), i[2]}); }));
    ApiTensor flat(DType::kS64, {2, 3}), taken(x.dtype(), {2, 3}, &rng_, true);
    Fill(flat, a * b * c);
    ASSERT_EQ(CALL(aclnnTake, x, flat, taken), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(taken.Get(), Make({2, 3}, [&](const Index& i) {
                return x[static_cast<int64_t>(flat.Get()[static_cast<size_t>(Linear({2, 3}, i))])];
              }));
    RandomTensor table(x.dtype(), {a * b, c}, rng_);
    ApiTensor words(IndexType(), {2, n}), rows(x.dtype(), {2, n, c});
    Fill(words, a * b);
    ASSERT_EQ(CALL(aclnnEmbedding, table, words, rows), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(rows.Get(), Make(rows.dims(), [&](const Index& i) {
                return table({static_cast<int64_t>(words.Get()[static_cast<size_t>(i[0] * n + i[1])]), i[2]});
              }));
    ExpectGuards({&x, &y, &last, &mid, &taken, &rows});
  }
}

TEST_F(Scattering, ScatterFamily) {
  for (int round = 0; round < 48; ++round) {
    const DType t = round % 4 == 3 ? DType::kS32 : kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 3, 60);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    Dims at_dims = dims, src_dims;
    for (int i = 0; i < dims.rank(); ++i) {
      at_dims[i] = i == dim ? rng_.Int(1, 4) : rng_.Int(1, dims[i]);
      src_dims.push_back(at_dims[i] + rng_.Int(0, 1));
    }
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), src(t, src_dims, rng_, round % 2, 2);
    ApiTensor index(IndexType(), at_dims), y(t, dims, &rng_, round % 3 == 2);
    Fill(index, dims[dim]);
    ApiScalar value(2.0F);
    const int kind = round % 8;
    int code = 0;
    switch (kind) {
      case 0:
      case 1:
      case 2:
        code = CALL(aclnnScatter, x, dim, index, src, kind, y);
        break;
      case 3:
        code = CALL(aclnnScatterAdd, x, dim, index, src, y);
        break;
      case 4:
        code = CALL(aclnnScatterValue, x, dim, index, value, 1, y);
        break;
      case 5:
        code = CALL(aclnnScatterReduce, x, dim, index, src, 3, true, y);
        break;
      case 6:
        code = CALL(aclnnScatterReduce, x, dim, index, src, 4, true, y);
        break;
      default:
        code = CALL(aclnnInplaceScatter, x, dim, index, src, 1);
    }
    ASSERT_EQ(code, 0) << kind << aclGetRecentErrMsg();
    std::vector<double> want = x.values(), size(want.size());
    for (int64_t i = 0; i < NumElements(at_dims); ++i) {
      Index at = At(at_dims, i);
      const double v = kind == 4 ? 2 : src(at);
      at[static_cast<size_t>(dim)] = static_cast<int64_t>(index.Get()[static_cast<size_t>(i)]);
      double& r = want[static_cast<size_t>(Linear(dims, at))];
      r = kind == 0 ? v : kind == 2 ? r * v : kind == 5 ? std::max(r, v) : kind == 6 ? std::min(r, v) : r + v;
      size[static_cast<size_t>(Linear(dims, at))] += std::abs(v) + std::abs(r);
    }
    std::vector<double> tolerance;  // halves are rounded once per step
    for (double s : size) tolerance.push_back(IsFloat(t) ? s * 2 * testing::Epsilon(t) : 0);
    EXPECT_EQ(Compare((kind == 7 ? static_cast<ApiTensor&>(x) : y).Get(), want, tolerance), "")
        << kind << Name(t);
    ExpectGuards({&x, &src, &index, &y});
  }
  RandomTensor x(DType::kF32, {3}, rng_);
  ApiTensor index(DType::kS64, {1}), y(DType::kF32, {3});
  index.Set({3});
  y.Set({1, 2, 3});
  EXPECT_NE(CALL(aclnnScatter, x, 0, index, x, 0, y),
            0);  // out of range: an error of the run, nothing written
  EXPECT_EQ(y.Get(), (std::vector<double>{1, 2, 3}));
  ExpectRefused(CALL(aclnnScatter, x, 0, index, x, 3, y), 161002, {"reduce is 3"});
}

TEST_F(Scattering, SlicesAndTuples) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 2];
    const int64_t a = rng_.Int(2, 6), b = rng_.Int(1, 4), c = rng_.Int(1, 4), n = rng_.Int(1, 5);
    RandomTensor x(t, {a, b, c}, rng_, round % 3 == 1, 2), updates(t, {n, b, c}, rng_, round % 2, 2);
    ApiTensor index(IndexType(), {n}), y(t, {a, b, c}, &rng_, round % 3 == 2);
    Fill(index, a);
    const auto at = index.Get();
    const int kind = round % 4;
    ApiScalar alpha(0.5F);
    const int code = kind == 0   ? CALL(aclnnTfScatterAdd, x, index, updates)
                     : kind == 1 ? CALL(aclnnScatterMax, x, index, updates, false)
                     : kind == 2 ? CALL(aclnnIndexAdd, x, 0, index, updates, alpha, y)
                                 : CALL(aclnnIndexFill, x, 0, index, alpha, y);
    ASSERT_EQ(code, 0) << kind << aclGetRecentErrMsg();
    std::vector<double> want = x.values();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < b * c; ++k) {
        double& r = want[static_cast<size_t>(static_cast<int64_t>(at[static_cast<size_t>(i)]) * b * c + k)];
        const double v = updates[i * b * c + k];
        r = kind == 0 ? r + v : kind == 1 ? std::max(r, v) : kind == 2 ? r + 0.5 * v : 0.5;
      }
    }
    EXPECT_EQ(Compare((kind < 2 ? static_cast<ApiTensor&>(x) : y).Get(), want,
                      std::vector<double>(want.size(), 32 * testing::Epsilon(t))),
              "")
        << kind << Name(t);
    ExpectGuards({&x, &updates, &y});
  }
  for (int round = 0; round < 12; ++round) {
    const DType t = kFloats[round % 2];
    const int64_t a = rng_.Int(2, 5), b = rng_.Int(2, 5), c = rng_.Int(1, 4);
    RandomTensor x(t, {a, b, c}, rng_, round % 2), updates(t, {2, c}, rng_);
    ApiTensor tuples(IndexType(), {2, 2}), y(t, {a, b, c}, &rng_, round % 3 == 1);
    tuples.Set({0, 1, static_cast<double>(a - 1), 0});
    std::vector<double> want = x.values();
    for (int64_t k = 0; k < c; ++k) {
      want[static_cast<size_t>(c + k)] = updates[k];
      want[static_cast<size_t>((a - 1) * b * c + k)] = updates[c + k];
    }
    ASSERT_EQ(round % 2 ? CALL(aclnnScatterNdUpdate, x, tuples, updates)
                        : CALL(aclnnScatterNd, x, tuples, updates, y),
              0)
        << aclGetRecentErrMsg();
    EXPECT_EQ((round % 2 ? static_cast<ApiTensor&>(x) : y).Get(), want);
    ExpectGuards({&x, &y});
  }
}

TEST_F(Scattering, PutIndexAndIndexPut) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t a = rng_.Int(1, 4), b = rng_.Int(1, 4), c = rng_.Int(1, 4), n = rng_.Int(1, 4);
    const bool accumulate = round % 2;
    RandomTensor x(t, {a, b, c}, rng_, round % 3 == 1), values(t, {n, c}, rng_), flat(t, {n}, rng_);
    ApiTensor i(DType::kS64, {n}), j(IndexType(), {1}), place(IndexType(), {n}),
        y(t, {n, c}, &rng_, round % 2);
    i.Set(Make({n}, [&](const Index& k) { return static_cast<double>(k[0] % a); }));
    Fill(j, b);
    auto list = [&] {  // destroying a list destroys its members, so this one stays
      aclTensor* members[] = {i, j};
      return aclCreateTensorList(members, 2);
    };
    const auto js = static_cast<int64_t>(j.Get()[0]);
    ASSERT_EQ(CALL(aclnnIndex, x, list(), y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make({n, c}, [&](const Index& k) { return x({k[0] % a, js, k[1]}); }));
    std::vector<double> want = x.values();
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t l = 0; l < c; ++l) {
        double& r = want[static_cast<size_t>(((k % a) * b + js) * c + l)];
        r = (accumulate ? r : 0) + values[k * c + l];
      }
    }
    ASSERT_EQ(CALL(aclnnIndexPutImpl, x, list(), values, accumulate, false), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(x.Get(), want, std::vector<double>(want.size(), 64 * testing::Epsilon(t))), "");
    want = x.Get();
    Fill(place, a * b * c);
    for (int64_t k = 0; k < n; ++k) {
      double& r = want[static_cast<size_t>(place.Get()[static_cast<size_t>(k)])];
      r = (accumulate ? r : 0) + flat[k];
    }
    ASSERT_EQ(CALL(aclnnInplacePut, x, place, flat, accumulate), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(x.Get(), want, std::vector<double>(want.size(), 64 * testing::Epsilon(t))), "");
    ExpectGuards({&x, &values, &y});
  }
}

// Indices bring their own dims beside those that they leave of self: more than a tensor has are refused.
TEST_F(Scattering, IndexRefusesTooManyDims) {
  ApiTensor x(DType::kF32, Dims::Filled(8, 1)), x4(DType::kF32, Dims::Filled(4, 1)), y(DType::kF32, {1});
  ApiTensor i7(DType::kS64, Dims::Filled(7, 1)), i6(DType::kS64, Dims::Filled(6, 1));
  const auto list = [](ApiTensor& i) {
    aclTensor* members[] = {i};
    return aclCreateTensorList(members, 1);
  };
  ExpectRefused(CALL(aclnnIndex, x, list(i7), y), 161002, {"indices is 7 dims beside 7"});
  ExpectRefused(CALL(aclnnIndex, x4, list(i6), y), 161002, {"indices is 6 dims beside 3"});
}

TEST_F(Scattering, EmbeddingGradient) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 2];
    const int64_t rows = rng_.Int(1, 5), width = rng_.Int(1, 9), n = rng_.Int(1, 12);
    const bool by_count = round % 2;
    const uint64_t padding = round % 4 < 2 ? 0 : static_cast<uint64_t>(-1);
    RandomTensor grad(t, {2, n, width}, rng_, round % 3 == 1);
    ApiTensor index(IndexType(), {2, n}), y(t, {rows, width}, &rng_, round % 3 == 2);
    Fill(index, rows);
    const auto at = index.Get();
    ASSERT_EQ(
        CALL(aclnnEmbeddingDenseBackward, grad, index, static_cast<uint64_t>(rows), padding, by_count, y), 0)
        << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(rows * width)), tolerance(want.size());
    for (size_t i = 0; i < at.size(); ++i) {
      if (padding == 0 && at[i] == 0) continue;
      const auto count = static_cast<double>(std::count(at.begin(), at.end(), at[i]));
      for (int64_t k = 0; k < width; ++k) {
        const double v = grad[static_cast<int64_t>(i) * width + k] / (by_count ? count : 1);
        want[static_cast<size_t>(static_cast<int64_t>(at[i]) * width + k)] += v;
        tolerance[static_cast<size_t>(static_cast<int64_t>(at[i]) * width + k)] += std::abs(v);
      }
    }
    for (size_t i = 0; i < want.size(); ++i)
      tolerance[i] = tolerance[i] * 0x1p-20 + std::abs(want[i]) * testing::Epsilon(t) + 0x1p-24;
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << by_count;
    ExpectGuards({&grad, &y});
  }
}

TEST_F(Scattering, OrdersFlipsAndBuckets) {
  for (int round = 0; round < 30; ++round) {
    const DType t = round % 4 == 3 ? DType::kS32 : kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 3, 120);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const int64_t k = rng_.Int(1, dims[dim]);
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    Dims out = dims, one = dims;
    out[dim] = k, one[dim] = 1;
    ApiTensor values(t, out, &rng_, round % 2), places(DType::kS64, out), value(t, one),
        place(DType::kS64, one);
    const bool largest = round % 2;
    ASSERT_EQ(CALL(aclnnTopk, x, k, dim, largest, true, values, places), 0) << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnKthvalue, x, k, dim, true, value, place), 0) << aclGetRecentErrMsg();
    auto sorted = [&](Index at, bool down) {
      std::vector<double> all;
      for (int64_t i = 0; i < dims[dim]; ++i) at[static_cast<size_t>(dim)] = i, all.push_back(x(at));
      std::stable_sort(all.begin(), all.end(), [down](double a, double b) { return down ? a > b : a < b; });
      return all;
    };
    const auto d = static_cast<size_t>(dim);
    EXPECT_EQ(values.Get(),
              Make(out, [&](const Index& at) { return sorted(at, largest)[static_cast<size_t>(at[d])]; }));
    EXPECT_EQ(value.Get(),
              Make(one, [&](const Index& at) { return sorted(at, false)[static_cast<size_t>(k - 1)]; }));
    const auto found = place.Get();
    EXPECT_EQ(value.Get(), Make(one, [&](Index at) {
                const auto n = static_cast<size_t>(Linear(one, at));
                at[d] = static_cast<int64_t>(found[n]);
                return x(at);
              }));
    ApiTensor flipped(t, dims, &rng_, round % 2);
    ApiInts which({dim - dims.rank()});
    ASSERT_EQ(CALL(aclnnFlip, x, which, flipped), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(flipped.Get(), Make(dims, [&](Index at) {
                at[d] = dims[dim] - 1 - at[d];
                return x(at);
              }));
    ApiTensor edges(t, {4}), buckets(DType::kS32, dims, &rng_, round % 3 == 2);
    edges.Set({-2, 0, 1, 3});
    const bool right = round % 2;
    ASSERT_EQ(CALL(aclnnBucketize, x, edges, true, right, buckets), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(buckets.Get(), Make(dims, [&](const Index& at) {
                double n = 0;
                for (double e : {-2.0, 0.0, 1.0, 3.0}) n += right ? e <= x(at) : e < x(at);
                return n;
              }));
    ExpectGuards({&x, &values, &places, &flipped, &buckets});
  }
}

TEST_F(Scattering, ScatterUpdate) {
  for (int round = 0; round < 10; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), n = rng_.Int(1, 3), s = rng_.Int(3, 8), e = rng_.Int(1, 3),
                  d = rng_.Int(1, 5);
    RandomTensor data(t, {b, n, s, d}, rng_, round % 3 == 1), updates(t, {b, n, e, d}, rng_, round % 2);
    ApiTensor offsets(IndexType(), {b});
    Fill(offsets, s - e + 1);
    ASSERT_EQ(CALL(aclnnInplaceScatterUpdate, data, offsets, updates, -2), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(data.Get(), Make({b, n, s, d}, [&](Index at) {
                const auto from = static_cast<int64_t>(offsets.Get()[static_cast<size_t>(at[0])]);
                if (at[2] < from || at[2] >= from + e) return data(at);
                at[2] -= from;
                return updates(at);
              }));
    ExpectGuards({&data, &updates});
  }
}

}  // namespace
}  // namespace opsnn::capi
