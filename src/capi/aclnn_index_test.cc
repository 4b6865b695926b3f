// Reading and writing along a dim, against index arithmetic.
#include "aclnnop/aclnn_gather_v2.h"
#include "aclnnop/aclnn_index_copy.h"
#include "aclnnop/aclnn_index_fill_tensor.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_repeat_interleave.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class IndexFunctions : public ApiTest {
 protected:
  Rng rng_;
  DType Any() { return kMoved[rng_.Int(0, std::size(kMoved) - 1)]; }
  // Positions below n, of either index type.
  void Fill(ApiTensor& index, int64_t n, bool distinct = false) {
    std::vector<double> v(index.Get().size());
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] = static_cast<double>(distinct ? static_cast<int64_t>(i) : rng_.Int(0, n - 1));
    }
    if (distinct) std::shuffle(v.begin(), v.end(), rng_.engine());
    index.Set(v);
  }
};

TEST_F(IndexFunctions, GatherV2AndIndexSelect) {
  for (int round = 0; round < 40; ++round) {
    const Dims dims = rng_.Shape(1, 4, 300);
    const bool select = round % 2;
    const Dims index_dims = select ? Dims{rng_.Int(0, 6)} : rng_.Shape(1, 3, 20, round % 5 == 0);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    RandomTensor x(Any(), dims, rng_, round % 3 == 0);
    ApiTensor index(round % 4 < 2 ? DType::kS32 : DType::kS64, index_dims, &rng_, round % 3 == 1);
    Fill(index, dims[dim]);
    const auto positions = index.Get();
    Dims out;
    for (int i = 0; i < dim; ++i) out.push_back(dims[i]);
    for (int64_t d : index_dims) out.push_back(d);
    for (int i = dim + 1; i < dims.rank(); ++i) out.push_back(dims[i]);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 2);
    const int64_t given = dim - (round % 2 ? dims.rank() : 0);
    if (select) {
      ASSERT_EQ(CALL(aclnnIndexSelect, x, given, index, y), 0) << aclGetRecentErrMsg();
    } else {
      ASSERT_EQ(CALL(aclnnGatherV2, x, given, index, y), 0) << aclGetRecentErrMsg();
    }
    EXPECT_EQ(
        y.Get(), Make(out, [&](const Index& at) {
          const auto d = static_cast<size_t>(dim), r = static_cast<size_t>(index_dims.rank());
          const Index inner(at.begin() + dim, at.begin() + dim + index_dims.rank());
          Index from(at.begin(), at.begin() + dim);
          from.push_back(static_cast<int64_t>(positions[static_cast<size_t>(Linear(index_dims, inner))]));
          from.insert(from.end(), at.begin() + static_cast<int64_t>(d + r), at.end());
          return x(from);
        }));
    ExpectGuards({&x, &y});
  }
}

TEST_F(IndexFunctions, GatherRefuses) {
  RandomTensor x(DType::kF32, {4, 3}, rng_);
  ApiTensor y(DType::kF32, {2, 3}), half(DType::kF16, {2, 3});
  ApiTensor index(DType::kS64, {2}), floats(DType::kF32, {2}), matrix(DType::kS64, {2, 1});
  ExpectRefused(CALL(aclnnGatherV2, x, 2, index, y), 161002, {"dim is 2", "-2 to 1"});
  ExpectRefused(CALL(aclnnGatherV2, x, 0, floats, y), 161002, {"index has dtype f32", "s32, s64"});
  ExpectRefused(CALL(aclnnGatherV2, x, 0, index, half), 161002, {"out has dtype f16", "f32"});
  ExpectRefused(CALL(aclnnIndexSelect, x, 0, matrix, y), 161002, {"index has 2 dims", "0 to 1"});
  ExpectRefused(CALL(aclnnIndexSelect, x, 1, index, y), 161002, {"out has shape [2,3]", "[4,2]"});
  ExpectRefused(CALL(aclnnIndexSelect, x, 1, nullptr, y), 161001, {"index is null"});
}

TEST_F(IndexFunctions, IndexFill) {
  for (int round = 0; round < 30; ++round) {
    const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kS32, DType::kS64, DType::kBool};
    const Dims dims = rng_.Shape(0, 4, 300, round % 7 == 0);
    const int rank = std::max(1, dims.rank()), dim = static_cast<int>(rng_.Int(0, rank - 1));
    const int64_t n = dims.rank() ? dims[dim] : 1;
    std::vector<int64_t> index;
    for (int64_t i = n ? rng_.Int(0, 4) : 0; i > 0; --i) index.push_back(rng_.Int(-n, n - 1));
    RandomTensor x(types[round % 6], dims, rng_, round % 2);
    ApiTensor y(x.dtype(), dims, &rng_, round % 3 == 1);
    ApiInts list(index);
    ApiScalar value(1.0f);
    const auto want = Make(dims, [&](const Index& at) {
      const int64_t i = dims.rank() ? at[static_cast<size_t>(dim)] : 0;
      for (int64_t k : index) {
        if (i == (k + n) % n) return 1.0;
      }
      return x(at);
    });
    ASSERT_EQ(CALL(aclnnIndexFillTensor, x, dim - rank, list, value, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want);
    ASSERT_EQ(CALL(aclnnInplaceIndexFillTensor, x, dim, list, value), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want);
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_);
  ApiInts far({4}), fine({1});
  ApiScalar value(1.0f);
  ExpectRefused(CALL(aclnnInplaceIndexFillTensor, x, 0, far, value), 161002, {"index", "4", "-4 to 3"});
  ExpectRefused(CALL(aclnnInplaceIndexFillTensor, x, 2, fine, value), 161002, {"dim is 2"});
  ExpectRefused(CALL(aclnnInplaceIndexFillTensor, x, 0, fine, nullptr), 161001, {"value is null"});
  // Dims need no memory behind them.
  const int64_t dims[] = {int64_t{1} << 40, 1, 1, 1, 1, 1, 1, 1};
  for (int rank : {1, kMaxRank}) {
    aclTensor* huge = aclCreateTensor(dims, rank, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, rank, nullptr);
    ExpectRefused(CALL(aclnnInplaceIndexFillTensor, huge, 0, fine, value), 361001,
                  {"no memory for a constant of shape [1099511627776"});
    if (rank == kMaxRank) {
      ExpectRefused(CALL(aclnnRepeatInterleaveIntWithDim, huge, 1, 0, dims[0], huge), 361001,
                    {"no memory for a constant of shape [1099511627776]"});
    }
    aclDestroyTensor(huge);
  }
}

TEST_F(IndexFunctions, IndexCopy) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 4, 300);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const int64_t count = rng_.Int(0, dims[dim]);
    Dims source_dims = dims;
    source_dims[dim] = count;
    RandomTensor x(Any(), dims, rng_, round % 2), source(x.dtype(), source_dims, rng_, round % 3 == 1);
    ApiTensor index(round % 2 ? DType::kS32 : DType::kS64, {count}, &rng_, round % 3 == 2);
    ApiTensor y(x.dtype(), dims, &rng_, round % 3 == 0);
    Fill(index, count, true);
    const auto positions = index.Get();
    const auto want = Make(dims, [&](Index at) {
      int64_t& i = at[static_cast<size_t>(dim)];
      for (size_t k = 0; k < positions.size(); ++k) {
        if (i != static_cast<int64_t>(positions[k])) continue;
        i = static_cast<int64_t>(k);
        return source(at);
      }
      return x(at);
    });
    ASSERT_EQ(CALL(aclnnIndexCopy, x, dim, index, source, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want);
    ASSERT_EQ(CALL(aclnnInplaceIndexCopy, x, dim - dims.rank(), index, source), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(x.Get(), want);
    ExpectGuards({&x, &y, &source});
  }
  RandomTensor x(DType::kF32, {4, 3}, rng_), source(DType::kF32, {2, 3}, rng_),
      half(DType::kF16, {2, 3}, rng_);
  ApiTensor index(DType::kS64, {2}), three(DType::kS64, {3});
  ExpectRefused(CALL(aclnnInplaceIndexCopy, x, 0, three, source), 161002,
                {"source has shape [2,3]", "[3,3]"});
  ExpectRefused(CALL(aclnnInplaceIndexCopy, x, 0, index, half), 161002, {"source has dtype f16"});
  ExpectRefused(CALL(aclnnInplaceIndexCopy, x, -3, index, source), 161002, {"dim is -3"});
}

TEST_F(IndexFunctions, RepeatInterleave) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 4, 200, round % 7 == 0);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const int64_t repeats = rng_.Int(round % 5 ? 1 : 0, 4);
    Dims out = dims;
    out[dim] *= repeats;
    RandomTensor x(Any(), dims, rng_, round % 2);
    ApiTensor y(x.dtype(), out, &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnRepeatInterleaveIntWithDim, x, repeats, dim, out[dim], y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                at[static_cast<size_t>(dim)] /= repeats;
                return x(at);
              }));
    const int64_t total = NumElements(dims) * repeats;
    ApiTensor flat(x.dtype(), {total}, &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnRepeatInterleaveInt, x, repeats, total, flat), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(flat.Get(), Make({total}, [&](const Index& at) { return x[at[0] / repeats]; }));
    ExpectGuards({&x, &y, &flat});
  }
  RandomTensor deep(DType::kS32, {2, 1, 2, 1, 2, 1, 2, 3}, rng_);
  ApiTensor y(DType::kS32, {2, 1, 2, 1, 4, 1, 2, 3});
  ASSERT_EQ(CALL(aclnnRepeatInterleaveIntWithDim, deep, 2, 4, 4, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), Make(y.dims(), [&](Index at) {
              at[4] /= 2;
              return deep(at);
            }));
  ExpectRefused(CALL(aclnnRepeatInterleaveIntWithDim, deep, 2, 4, 5, y), 161002, {"outputSize is 5"});
  ExpectRefused(CALL(aclnnRepeatInterleaveIntWithDim, deep, -2, 4, 4, y), 161002, {"repeats is -2"});
  ExpectRefused(CALL(aclnnRepeatInterleaveIntWithDim, deep, 2, 8, 4, y), 161002, {"dim is 8"});
}

}  // namespace
}  // namespace opsnn::capi
