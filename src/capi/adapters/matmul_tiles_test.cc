// Weights in FRACTAL_NZ, and quantised products with scales of 64 bits, against double and integer
// arithmetic.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_batch_matmul.h"
#include "aclnnop/aclnn_convert_weight_to_int4_pack.h"
#include "aclnnop/aclnn_fused_quant_matmul.h"
#include "aclnnop/aclnn_fused_quant_matmul_weight_nz.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_quant_matmul.h"
#include "aclnnop/aclnn_quant_matmul_dequant.h"
#include "aclnnop/aclnn_quant_matmul_reduce_sum.h"
#include "aclnnop/aclnn_quant_matmul_v5.h"
#include "aclnnop/aclnn_quant_matmul_weight_nz.h"
#include "aclnnop/aclnn_trans_quant_param.h"
#include "aclnnop/aclnn_trans_quant_param_v2.h"
#include "aclnnop/aclnn_trans_quant_param_v3.h"
#include "aclnnop/aclnn_transpose_batch_mat_mul.h"
#include "aclnnop/aclnn_weight_quant_batch_matmul_v3.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

using Values = std::vector<double>;

// A matrix, or a batch of them, in FRACTAL_NZ: its own memory, filled by hand, junk where a block is filled
// up.
class Tiled {
 public:
  Tiled(DType t, const Dims& dims, const Values& values, bool exchanged, Rng& rng) {
    Dims matrix = dims, strides(dims);
    const int rank = dims.rank();
    if (exchanged) std::swap(matrix[rank - 2], matrix[rank - 1]);
    const int64_t rows = matrix[rank - 2], columns = matrix[rank - 1],
                  n0 = 32 / static_cast<int64_t>(SizeOf(t));
    Dims stored = matrix;
    stored[rank - 2] = (columns + n0 - 1) / n0, stored[rank - 1] = (rows + 15) / 16;
    stored.push_back(16), stored.push_back(n0);
    memory_ = std::make_unique<ApiTensor>(t, stored, &rng);
    Values all(static_cast<size_t>(NumElements(stored)));
    for (double& v : all) v = static_cast<double>(rng.Int(-3, 3));
    const int64_t plane = stored[rank - 2] * stored[rank - 1] * 16 * n0;
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      const int64_t batch = i / (rows * columns);
      int64_t r = i % (rows * columns) / dims[rank - 1], c = i % dims[rank - 1];
      if (exchanged) std::swap(r, c);
      const int64_t at = batch * plane + ((c / n0 * stored[rank - 1] + r / 16) * 16 + r % 16) * n0 + c % n0;
      all[static_cast<size_t>(at)] = values[static_cast<size_t>(i)];
    }
    memory_->Set(all);
    strides = ContiguousStrides(matrix);
    if (exchanged) std::swap(strides[rank - 2], strides[rank - 1]);
    handle_ = aclCreateTensor(dims.data(), static_cast<uint64_t>(rank), static_cast<aclDataType>(Info(t).acl),
                              strides.data(), 0, ACL_FORMAT_FRACTAL_NZ, stored.data(),
                              static_cast<uint64_t>(stored.rank()), memory_->memory().view().data);
  }
  ~Tiled() { aclDestroyTensor(handle_); }
  operator aclTensor*() const { return handle_; }  // NOLINT
  ApiTensor& memory() { return *memory_; }

 private:
  std::unique_ptr<ApiTensor> memory_;
  aclTensor* handle_ = nullptr;
};

// Sum over k of a[i, k] b[k, j] for every batch; a batch of one repeats.
Values Product(const Values& a, const Values& b, int64_t batch, int64_t m, int64_t k, int64_t n) {
  Values y;
  const int64_t a_each = static_cast<int64_t>(a.size()) == m * k ? 0 : m * k,
                b_each = static_cast<int64_t>(b.size()) == k * n ? 0 : k * n;
  for (int64_t p = 0; p < batch; ++p) {
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t q = 0; q < k; ++q) {
        sum += a[static_cast<size_t>(p * a_each + i / n * k + q)] *
               b[static_cast<size_t>(p * b_each + q * n + i % n)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

class MatmulTiles : public ApiTest {
 protected:
  Values Integers(int64_t n, int64_t most) {
    Values v;
    for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(rng_.Int(-most, most)));
    return v;
  }
  Rng rng_;
};

Values SumTolerances(const Values& want, int64_t k, double size, DType t) {
  Values tolerance;
  for (double v : want) tolerance.push_back(SumTolerance(v, size, k, t));
  return tolerance;
}

TEST_F(MatmulTiles, FormatCastAndBack) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 4 == 3 ? DType::kS8 : kFloats[round % 3];
    const Dims dims = round % 2 ? Dims{rng_.Int(1, 3), rng_.Int(1, 40), rng_.Int(1, 40)}
                                : Dims{rng_.Int(1, 40), rng_.Int(1, 40)};
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    int64_t* shape = nullptr;
    uint64_t size = 0;
    int format = 0;
    ASSERT_EQ(aclnnNpuFormatCastCalculateSizeAndFormat(x, ACL_FORMAT_FRACTAL_NZ, -1, &shape, &size, &format),
              0);
    EXPECT_EQ(format, ACL_FORMAT_FRACTAL_NZ);
    const Tiled want(t, dims, x.values(), false, rng_);
    Tiled y(t, dims, Values(x.values().size(), 0), false, rng_);
    ASSERT_EQ(Dims(std::span<const int64_t>(shape, size)), y.memory().dims());
    delete[] shape;
    ASSERT_EQ(CALL(aclnnNpuFormatCast, x, y), 0) << aclGetRecentErrMsg();
    // Where a block is filled up, zeros.
    const Values got = y.memory().Get();
    double sum = 0, all = 0;
    for (double v : got) sum += std::abs(v);
    for (double v : x.values()) all += std::abs(v);
    EXPECT_NEAR(sum, all, 1e-9);
    ApiTensor back(t, dims, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnNpuFormatCast, y, back), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(back.Get(), x.values());
    ExpectGuards({&x, &back, &y.memory()});
  }
  RandomTensor x(DType::kF16, {3, 4}, rng_);
  int64_t* shape = nullptr;
  uint64_t size = 0;
  int format = 0;
  EXPECT_EQ(aclnnNpuFormatCastCalculateSizeAndFormat(x, 3, -1, &shape, &size, &format), 161002);
  EXPECT_EQ(aclnnNpuFormatCastCalculateSizeAndFormat(nullptr, 29, -1, &shape, &size, &format), 161001);
}

TEST_F(MatmulTiles, Products) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t m = rng_.Int(1, 20), k = rng_.Int(1, 50), n = rng_.Int(1, 50);
    const bool exchanged = round % 3 == 1;
    RandomTensor a(t, {m, k}, rng_, round % 3 == 1, 2), c(t, round % 4 < 2 ? Dims{n} : Dims{m, 1}, rng_);
    const Values b = Integers(k * n, 2);
    const Tiled w(t, {k, n}, b, exchanged, rng_);
    ApiTensor y(t, {m, n}, &rng_, round % 4 == 3);
    ASSERT_EQ(CALL(aclnnMatmulWeightNz, a, w, y, 1), 0) << aclGetRecentErrMsg();
    Values want = Product(a.values(), b, 1, m, k, n);
    EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, k, 4, t)), "") << Name(t) << exchanged;
    ApiScalar alpha(0.5f), beta(2.0f);
    ASSERT_EQ(CALL(aclnnAddmmWeightNz, c, a, w, beta, alpha, y, 0), 0) << aclGetRecentErrMsg();
    for (int64_t i = 0; i < m * n; ++i) {
      auto& v = want[static_cast<size_t>(i)];
      v = 0.5 * v + 2 * c[round % 4 < 2 ? i % n : i / n];
    }
    EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, k + 2, 8, t)), "") << Name(t);
    ExpectGuards({&a, &c, &y});
  }
  RandomTensor a(DType::kF16, {2, 3}, rng_);
  ApiTensor y(DType::kF16, {2, 5});
  const Tiled w(DType::kF16, {4, 5}, Integers(20, 2), false, rng_);
  ExpectRefused(CALL(aclnnMatmulWeightNz, a, w, y, 0), 161002, {"has shape [4,5]", "3 rows"});
  // Storage dims that hold another matrix; blocks where none are taken.
  const int64_t dims[] = {3, 5}, strides[] = {5, 1}, stored[] = {1, 2, 16, 16};
  aclTensor* bad =
      aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 0, ACL_FORMAT_FRACTAL_NZ, stored, 4, nullptr);
  ExpectRefused(CALL(aclnnMatmulWeightNz, a, bad, y, 0), 161002,
                {"mat2 has storage shape [1,2,16,16]", "[3,5]"});
  aclDestroyTensor(bad);
  // Storage dims that say nothing stand for the usual blocks.
  const Values b = Integers(15, 2);
  Tiled right(DType::kF16, {3, 5}, b, false, rng_);
  bad = aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 0, ACL_FORMAT_FRACTAL_NZ, dims, 2,
                        right.memory().memory().view().data);
  EXPECT_EQ(CALL(aclnnMatmulWeightNz, a, bad, y, 0), 0) << aclGetRecentErrMsg();
  const Values want = Product(a.values(), b, 1, 2, 3, 5);
  EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, 3, 8, DType::kF16)), "");
  aclDestroyTensor(bad);
}

TEST_F(MatmulTiles, ProductsOfF32) {
  for (int round = 0; round < 18; ++round) {
    const int64_t m = rng_.Int(1, 20), k = rng_.Int(1, 50), n = rng_.Int(1, 50);
    RandomTensor a(DType::kF32, {m, k}, rng_, round % 4 == 1, 2);
    const Values b = Integers(k * n, 2);
    const Tiled w(DType::kF32, {k, n}, b, round % 3 == 1, rng_);
    ApiTensor y(DType::kF32, {m, n}, &rng_, round % 4 == 3);
    ASSERT_EQ(CALL(aclnnMatmulWeightNz, a, w, y, 1), 0) << aclGetRecentErrMsg();
    const Values want = Product(a.values(), b, 1, m, k, n);
    EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, k, 4, DType::kF32)), "") << m << n << k;
    ExpectGuards({&a, &y});
  }
}

TEST_F(MatmulTiles, BatchedProducts) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t batch = rng_.Int(1, 4), m = rng_.Int(1, 9), k = rng_.Int(1, 40), n = rng_.Int(1, 40);
    RandomTensor a(t, {batch, m, k}, rng_, round % 3 == 1, 2);
    const Values b = Integers(batch * k * n, 2);
    const Tiled w(t, {batch, k, n}, b, round % 3 == 2, rng_);
    ApiTensor y(t, {batch, m, n}, &rng_, round % 4 == 3), z(t, {m, batch, n});
    ASSERT_EQ(CALL(aclnnBatchMatMulWeightNz, a, w, y, 0), 0) << aclGetRecentErrMsg();
    const Values want = Product(a.values(), b, batch, m, k, n);
    EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, k, 4, t)), "") << Name(t);
    ApiInts same({0, 1, 2}), moved({1, 0, 2});
    ASSERT_EQ(CALL(aclnnTransposeBatchMatMulWeightNz, a, w, nullptr, nullptr, same, same, moved, 0, 1, z), 0)
        << aclGetRecentErrMsg();
    Values across;
    for (int64_t i = 0; i < m * batch * n; ++i)
      across.push_back(want[static_cast<size_t>((i / n % batch * m + i / n / batch) * n + i % n)]);
    EXPECT_EQ(Compare(z.Get(), across, SumTolerances(across, k, 4, t)), "") << Name(t);
    ExpectGuards({&a, &y, &z});
  }
}

// ---- quantised

double Gelu(double x, bool erf) {
  return erf ? 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))
             : 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_F(MatmulTiles, QuantisedProducts) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t m = rng_.Int(1, 12), k = rng_.Int(1, 60), n = rng_.Int(1, 40);
    const Values a = Integers(m * k, 100), b = Integers(k * n, 100), bias = Integers(n, 1000);
    ApiTensor x1(DType::kS8, {m, k}, &rng_, round % 3 == 1), x2(DType::kS8, {k, n}, &rng_),
        add(DType::kS32, {n});
    x1.Set(a), x2.Set(b), add.Set(bias);
    const Tiled w(DType::kS8, {k, n}, b, false, rng_);
    ApiTensor tokens(DType::kF32, {m}), scale(DType::kF32, {n}), y(t, {m, n}, &rng_, round % 4 == 3);
    Values row, column;
    for (int64_t i = 0; i < m; ++i) row.push_back(rng_.Real(0.01, 0.02));
    for (int64_t i = 0; i < n; ++i) column.push_back(rng_.Real(0.01, 0.02));
    tokens.Set(row), scale.Set(column);
    row = tokens.Get(), column = scale.Get();
    const bool with_bias = round % 2;
    Values want = Product(a, b, 1, m, k, n), gelu, gelu_slack;
    for (int64_t i = 0; i < m * n; ++i) {
      auto& v = want[static_cast<size_t>(i)];
      v = (v + (with_bias ? bias[static_cast<size_t>(i % n)] : 0)) * column[static_cast<size_t>(i % n)] *
          row[static_cast<size_t>(i / n)];
      gelu.push_back(Gelu(v, round % 4 < 2));
    }
    // 1 + erf cancels far below 0: what f32 loses there is relative to x.
    gelu_slack = PointwiseTolerance(gelu, t, 64);
    for (size_t i = 0; i < gelu.size(); ++i) gelu_slack[i] += std::abs(want[i]) * 0x1p-22;
    ASSERT_EQ(CALL(aclnnQuantMatmulV5, x1, x2, tokens, scale, nullptr, nullptr, nullptr, nullptr,
                   OrNull(with_bias, add), false, false, 0, y),
              0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, t)), "") << Name(t);
    ASSERT_EQ(CALL(aclnnQuantMatmulWeightNz, x1, w, tokens, scale, nullptr, nullptr, nullptr, nullptr,
                   OrNull(with_bias, add), false, false, 0, y),
              0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, t)), "") << Name(t);
    const char* fused = round % 4 < 2 ? "gelu_erf" : "gelu_tanh";
    for (const aclTensor* weight : {static_cast<aclTensor*>(x2), static_cast<aclTensor*>(w)}) {
      const int code = weight == static_cast<aclTensor*>(x2)
                           ? CALL(aclnnFusedQuantMatmul, x1, weight, tokens, scale, nullptr, nullptr, nullptr,
                                  nullptr, OrNull(with_bias, add), nullptr, fused, 0, y)
                           : CALL(aclnnFusedQuantMatmulWeightNz, x1, weight, tokens, scale, nullptr, nullptr,
                                  nullptr, nullptr, OrNull(with_bias, add), nullptr, fused, 0, y);
      ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
      EXPECT_EQ(Compare(y.Get(), gelu, gelu_slack), "") << fused;
    }
    // One scale for all, given as a number.
    ApiTensor half(DType::kF16, {m, n});
    ASSERT_EQ(CALL(aclnnQuantMatmul, x1, x2, OrNull(with_bias, add), 0.01f, half), 0) << aclGetRecentErrMsg();
    Values single = Product(a, b, 1, m, k, n);
    for (int64_t i = 0; i < m * n; ++i) {
      auto& v = single[static_cast<size_t>(i)];
      v = (v + (with_bias ? bias[static_cast<size_t>(i % n)] : 0)) * 0.01f;
    }
    EXPECT_EQ(Compare(half.Get(), single, PointwiseTolerance(single, DType::kF16)), "");
    // Sums as they are.
    ApiTensor sums(DType::kS32, {m, n});
    ASSERT_EQ(CALL(aclnnQuantMatmulV5, x1, x2, nullptr, scale, nullptr, nullptr, nullptr, nullptr, nullptr,
                   false, false, 0, sums),
              0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(sums.Get(), Product(a, b, 1, m, k, n));
    ExpectGuards({&x1, &x2, &y, &half, &sums});
    ExpectRefused(CALL(aclnnFusedQuantMatmul, x1, x2, tokens, scale, nullptr, nullptr, nullptr, nullptr,
                       nullptr, nullptr, "relu", 0, y),
                  161002, {"fusedOpType is \"relu\""});
    ExpectRefused(CALL(aclnnQuantMatmulV5, x1, x2, tokens, scale, nullptr, nullptr, tokens, nullptr, nullptr,
                       false, false, 0, y),
                  161002, {"x2Offset is given"});
  }
}

TEST_F(MatmulTiles, ScalesOf64Bits) {
  for (int round = 0; round < 18; ++round) {
    const int64_t m = rng_.Int(1, 9), k = rng_.Int(1, 40), n = 16 * rng_.Int(1, 3);
    const Values a = Integers(m * k, 50), b = Integers(k * n, 50);
    ApiTensor x1(DType::kS8, {m, k}), x2(DType::kS8, {k, n}), scale(DType::kF32, {n}),
        offset(DType::kF32, {n});
    Values s, o;
    for (int64_t i = 0; i < n; ++i) s.push_back(rng_.Real(0.001, 0.01)), o.push_back(rng_.Real(-20, 20));
    x1.Set(a), x2.Set(b), scale.Set(s), offset.Set(o);
    // The handle that programs use: u64, which has no element type here.
    ApiTensor bits(DType::kS64, {n});
    const int64_t one = 1;
    aclTensor* packed =
        aclCreateTensor(&n, 1, ACL_UINT64, &one, 0, ACL_FORMAT_ND, &n, 1, bits.memory().view().data);
    const bool rounds = round % 2;
    ASSERT_EQ(rounds ? CALL(aclnnTransQuantParamV3, scale, offset, 1, packed)
                     : CALL(aclnnTransQuantParamV2, scale, offset, packed),
              0)
        << aclGetRecentErrMsg();
    const Values stored = scale.Get();
    Values cut;
    for (int64_t i = 0; i < n; ++i) {
      const auto k2 = static_cast<size_t>(i);
      const auto got = static_cast<const uint64_t*>(bits.memory().view().data)[i];
      int exponent;
      const double mantissa = std::frexp(stored[k2], &exponent) * 2048;  // 1 + 10 bits stay
      cut.push_back(std::ldexp(rounds ? std::nearbyint(mantissa) : std::floor(mantissa), exponent - 11));
      const auto f = static_cast<float>(cut.back());
      uint32_t want;
      static_assert(sizeof(want) == sizeof(f));
      std::memcpy(&want, &f, sizeof(f));
      EXPECT_EQ(static_cast<uint32_t>(got), want);
      EXPECT_EQ(got >> 46, 1u);
      EXPECT_EQ(static_cast<int64_t>((got >> 37 & 0x1FF) ^ 0x100) - 0x100, std::nearbyint(offset.Get()[k2]));
    }
    ApiTensor y(DType::kF16, {m, n}), q(DType::kS8, {m, n});
    ASSERT_EQ(CALL(aclnnQuantMatmulV2, x1, x2, nullptr, packed, false, false, y), 0) << aclGetRecentErrMsg();
    Values want = Product(a, b, 1, m, k, n);
    for (int64_t i = 0; i < m * n; ++i) want[static_cast<size_t>(i)] *= cut[static_cast<size_t>(i % n)];
    EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, DType::kF16)), "");
    // To s8 the offset counts, too.
    ASSERT_EQ(CALL(aclnnQuantMatmulV5, x1, x2, nullptr, packed, nullptr, nullptr, nullptr, nullptr, nullptr,
                   false, false, 0, q),
              0)
        << aclGetRecentErrMsg();
    const Values got = q.Get();
    for (size_t i = 0; i < got.size(); ++i) {
      const double exact = want[i] + std::nearbyint(offset.Get()[i % static_cast<size_t>(n)]);
      EXPECT_LE(std::abs(got[i] - std::min(127.0, std::max(-128.0, exact))), 0.5 + 1e-4);
    }
    ExpectGuards({&bits, &y, &q});
    aclDestroyTensor(packed);
  }
  const float scale[] = {0.5f, 0.25f}, offset[] = {-3};
  uint64_t *packed = nullptr, count = 0;
  ASSERT_EQ(aclnnTransQuantParam(scale, 2, offset, 1, &packed, &count), 0);
  ASSERT_EQ(count, 16u);
  EXPECT_EQ(packed[0], (uint64_t{1} << 46 | uint64_t{0x1FD} << 37 | 0x3F000000));
  EXPECT_EQ(packed[1], (uint64_t{1} << 46 | 0x3E800000));
  EXPECT_EQ(packed[2], 0u);
  free(packed);
  EXPECT_EQ(aclnnTransQuantParam(scale, 0, nullptr, 0, &packed, &count), 161002);
  EXPECT_EQ(aclnnTransQuantParam(nullptr, 2, nullptr, 0, &packed, &count), 161001);
}

TEST_F(MatmulTiles, QuantMatmulDequant) {
  for (int round = 0; round < 18; ++round) {
    const int64_t m = rng_.Int(1, 9), k = 16 * rng_.Int(1, 3), n = 16 * rng_.Int(1, 3);
    const bool given = round % 3 == 1, tokens = !given || round % 2, smoothed = round % 4 < 2;
    RandomTensor x(DType::kF16, {m, k}, rng_, round % 3 == 2, 2), smooth(DType::kF16, {k}, rng_);
    const Values b = Integers(n * k, 100);
    ApiTensor weight(DType::kS8, {n, k}), scale(DType::kF32, {n}), step(DType::kF32, {tokens ? m : 1}),
        y(DType::kF16, {m, n}, &rng_, round % 4 == 3);
    Values column, steps;
    for (int64_t i = 0; i < n; ++i) column.push_back(rng_.Real(0.001, 0.01));
    for (int64_t i = 0; i < (tokens ? m : 1); ++i) steps.push_back(0.0625);
    weight.Set(b), scale.Set(column), step.Set(steps);
    column = scale.Get();
    char mode[16];
    std::snprintf(mode, sizeof(mode), "%s", tokens ? "pertoken" : "pertensor");
    // Rows as blocks: the function wants the weights transposed.
    const Tiled tiles(DType::kS8, {n, k}, b, false, rng_);
    aclTensor* w = round % 2 ? static_cast<aclTensor*>(tiles) : static_cast<aclTensor*>(weight);
    ASSERT_EQ(CALL(aclnnQuantMatmulDequant, x, w, scale, nullptr, OrNull(given, step), nullptr,
                   OrNull(smoothed, smooth), mode, true, y),
              0)
        << aclGetRecentErrMsg();
    const Values got = y.Get();
    for (int64_t i = 0; i < m; ++i) {
      double most = 0;
      auto value = [&](int64_t q) { return x[i * k + q] * (smoothed ? smooth[q] : 1); };
      for (int64_t q = 0; q < k; ++q) most = std::max(most, std::abs(value(q)));
      const double unit = given ? 0.0625 : most / 127;
      for (int64_t j = 0; j < n; ++j) {
        // Each rounding moves a value by half a unit at most, a tie by f32 either way by another one.
        double sum = 0, slack = 0;
        for (int64_t q = 0; q < k; ++q) {
          const double exact = unit > 0 ? value(q) / unit : 0, v = std::nearbyint(exact),
                       w_value = b[static_cast<size_t>(j * k + q)];
          sum += std::min(127.0, std::max(-128.0, v)) * w_value;
          if (std::abs(std::abs(exact - std::trunc(exact)) - 0.5) < 1e-4) slack += std::abs(w_value);
        }
        const double factor = column[static_cast<size_t>(j)] * unit;
        EXPECT_LE(std::abs(got[static_cast<size_t>(i * n + j)] - sum * factor),
                  slack * factor + std::abs(sum * factor) * 0x1p-10 + 0x1p-24);
      }
    }
    ExpectGuards({&x, &weight, &y});
    ExpectRefused(
        CALL(aclnnQuantMatmulDequant, x, weight, scale, nullptr, nullptr, nullptr, nullptr, mode, false, y),
        161002, {"transposeWeight is false"});
  }
}

TEST_F(MatmulTiles, WeightsOf4Bits) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t m = rng_.Int(1, 9), k = rng_.Int(1, 40), n = 8 * rng_.Int(1, 9);
    const bool tiled = round % 3 == 2;
    ApiTensor weight(DType::kS32, {k, n}, &rng_, round % 3 == 1), packed(DType::kS32, {k, n / 8}, &rng_);
    Values w;
    for (int64_t i = 0; i < k * n; ++i) w.push_back(static_cast<double>(rng_.Int(-8, 7)));
    weight.Set(w);
    Tiled blocks(DType::kS32, {k, n / 8}, Values(static_cast<size_t>(k * n / 8), 0), false, rng_);
    aclTensor* to = tiled ? static_cast<aclTensor*>(blocks) : static_cast<aclTensor*>(packed);
    ASSERT_EQ(CALL(aclnnConvertWeightToINT4Pack, weight, to), 0) << aclGetRecentErrMsg();
    if (!tiled) {
      const Values words = packed.Get();
      for (int64_t i = 0; i < k * n; ++i) {
        const auto word = static_cast<uint32_t>(static_cast<int64_t>(words[static_cast<size_t>(i / 8)]));
        ASSERT_EQ(word >> (4 * (i % 8)) & 15,
                  static_cast<uint32_t>(static_cast<int>(w[static_cast<size_t>(i)])) & 15);
      }
    }
    RandomTensor x(t, {m, k}, rng_, round % 4 == 1, 2), scale(t, {n}, rng_);
    ApiTensor y(t, {m, n}, &rng_, round % 4 == 3);
    ASSERT_EQ(CALL(aclnnWeightQuantBatchMatmulV3, x, to, scale, nullptr, nullptr, nullptr, nullptr, 0, 0, y),
              0)
        << aclGetRecentErrMsg();
    Values want = Product(x.values(), w, 1, m, k, n), tolerance;
    for (int64_t i = 0; i < m * n; ++i) {
      want[static_cast<size_t>(i)] *= scale[i % n];
      tolerance.push_back(SumTolerance(want[static_cast<size_t>(i)], 64, k, t));
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << tiled;
    ExpectGuards({&weight, &packed, &x, &y, &blocks.memory()});
  }
  ApiTensor weight(DType::kS32, {2, 12}), packed(DType::kS32, {2, 1}), even(DType::kS32, {2, 16});
  ExpectRefused(CALL(aclnnConvertWeightToINT4Pack, weight, packed), 161002, {"weight is of shape [2,12]"});
  ExpectRefused(CALL(aclnnConvertWeightToINT4Pack, even, packed), 161002,
                {"weightInt4Pack has shape [2,1]", "[2,2]"});
}

TEST_F(MatmulTiles, QuantMatmulReduceSum) {
  for (int round = 0; round < 12; ++round) {
    const int64_t batch = rng_.Int(1, 4), m = rng_.Int(1, 9), k = rng_.Int(1, 40), n = rng_.Int(1, 40);
    const Values a = Integers(batch * m * k, 100), b = Integers(batch * k * n, 100);
    ApiTensor x1(DType::kS8, {batch, m, k}), tokens(DType::kF32, {batch, m}), y(DType::kBF16, {m, n});
    x1.Set(a);
    const Tiled x2(DType::kS8, {batch, k, n}, b, false, rng_);
    RandomTensor scale(DType::kBF16, {n}, rng_);
    Values rows;
    for (int64_t i = 0; i < batch * m; ++i) rows.push_back(rng_.Real(0.01, 0.02));
    tokens.Set(rows);
    rows = tokens.Get();
    ApiInts dims({0});
    ASSERT_EQ(CALL(aclnnQuantMatmulReduceSumWeightNz, x1, x2, tokens, scale, nullptr, nullptr, nullptr,
                   nullptr, nullptr, false, false, 0, dims, false, y),
              0)
        << aclGetRecentErrMsg();
    const Values products = Product(a, b, batch, m, k, n);
    Values want(static_cast<size_t>(m * n)), tolerance(want);
    for (int64_t i = 0; i < batch * m * n; ++i) {
      const double v = products[static_cast<size_t>(i)] * rows[static_cast<size_t>(i / n)] * scale[i % n];
      want[static_cast<size_t>(i % (m * n))] += v,
          tolerance[static_cast<size_t>(i % (m * n))] += std::abs(v) * 0x1p-20;
    }
    for (size_t i = 0; i < want.size(); ++i)
      tolerance[i] += std::abs(want[i]) * testing::Epsilon(DType::kBF16);
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
    ExpectGuards({&x1, &y});
  }
}

}  // namespace
}  // namespace opsnn::capi
