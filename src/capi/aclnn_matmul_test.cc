// Products against double sums: dtypes that meet, transposed and strided views, addends, quantised weights.
#include <cmath>
#include <cstring>

#include "aclnnop/aclnn_addbmm.h"
#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_baddbmm.h"
#include "aclnnop/aclnn_batch_matmul.h"
#include "aclnnop/aclnn_gemm.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_mv.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "aclnnop/aclnn_triangular_solve.h"
#include "aclnnop/aclnn_weight_quant_batch_matmul.h"
#include "aclnnop/aclnn_weight_quant_batch_matmul_v2.h"
#include "base/knobs.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Products : public ApiTest {
 protected:
  Rng rng_;
  DType AnyFloat() { return kFloats[rng_.Int(0, 2)]; }
};

// The type in which two floats meet.
DType Meet(DType a, DType b) { return a == b ? a : DType::kF32; }

TEST_F(Products, MmMvBatchMatMul) {
  for (int round = 0; round < 40; ++round) {
    const int64_t batch = rng_.Int(1, 3), m = rng_.Size(40), k = rng_.Size(40, round % 9 == 0),
                  n = rng_.Size(40);
    const int kind = round % 3;  // Mm, BatchMatMul, Mv
    const DType ta = AnyFloat(), tb = round % 2 || kind == 2 ? ta : AnyFloat(), meet = Meet(ta, tb);
    const DType ty = kind ? meet : DType::kF32;
    const bool one = kind == 1 && rng_.Chance(0.3);
    RandomTensor a(ta, kind == 1 ? Dims{one ? 1 : batch, m, k} : Dims{m, k}, rng_, round % 2, 1);
    RandomTensor b(tb, kind == 1 ? Dims{batch, k, n} : kind ? Dims{k} : Dims{k, n}, rng_, round % 4 == 1, 1);
    const Dims out = kind == 1 ? Dims{batch, m, n} : kind ? Dims{m} : Dims{m, n};
    ApiTensor y(ty, out, &rng_, round % 3 == 1);
    int code;
    if (kind == 0) code = CALL(aclnnMm, a, b, y, 0);
    if (kind == 1) code = CALL(aclnnBatchMatMul, a, b, y, 1);
    if (kind == 2) code = CALL(aclnnMv, a, b, y, 0);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make(out, [&](const Index& at) {
      const int64_t g = kind == 1 ? at[0] : 0, i = kind == 1 ? at[1] : at[0], j = kind == 2 ? 0 : at.back();
      const int64_t columns = kind == 2 ? 1 : n;
      double sum = 0, size = 0;
      for (int64_t q = 0; q < k; ++q) {
        const double p = a[((one ? 0 : g) * m + i) * k + q] * b[(g * k + q) * columns + j];
        sum += p, size += std::abs(p);
      }
      tolerance.push_back(testing::ContractionTolerance(size, sum, k, DType::kF32, ty) + 0x1p-25);
      return sum;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(ta) << " " << Name(tb) << " kind " << kind;
    ExpectGuards({&a, &b, &y});
  }
}

TEST_F(Products, GemmAndAddbmm) {
  for (int round = 0; round < 24; ++round) {
    const DType t = AnyFloat();
    const int64_t batch = rng_.Int(1, 3), m = rng_.Int(1, 20), k = rng_.Int(1, 20), n = rng_.Int(1, 20);
    const bool sums = round % 2, ta = round % 3 == 1, tb = round % 4 < 2, in_place = sums && round % 4 == 3;
    const float alpha = 0.5F, beta = 2;
    RandomTensor a(t, sums ? Dims{batch, m, k} : ta ? Dims{k, m} : Dims{m, k}, rng_, round % 3 == 2, 1);
    RandomTensor b(t, sums ? Dims{batch, k, n} : tb ? Dims{n, k} : Dims{k, n}, rng_, round % 5 == 2, 1);
    RandomTensor c(t, in_place ? Dims{m, n} : Dims{1, n}, rng_, false, 1);
    ApiTensor y(t, {m, n}, &rng_, round % 4 == 1);
    ApiScalar scale(alpha), shift(beta);
    const int code = !sums ? CALL(aclnnGemm, a, b, c, alpha, beta, int64_t{ta}, int64_t{tb}, y, int8_t{0})
                     : in_place ? CALL(aclnnInplaceAddbmm, c, a, b, shift, scale, int8_t{0})
                                : CALL(aclnnAddbmm, c, a, b, shift, scale, y, int8_t{0});
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make({m, n}, [&](const Index& at) {
      double sum = 0, size = 0;
      for (int64_t g = 0; g < (sums ? batch : 1); ++g) {
        for (int64_t q = 0; q < k; ++q) {
          const double p = (!sums && ta ? a[q * m + at[0]] : a[(g * m + at[0]) * k + q]) *
                           (!sums && tb ? b[at[1] * k + q] : b[(g * k + q) * n + at[1]]);
          sum += alpha * p, size += std::abs(p);
        }
      }
      sum += beta * c[BroadcastLinear(c.dims(), at)];
      tolerance.push_back(testing::ContractionTolerance(size + 4, sum, k * batch + 2, DType::kF32, t) +
                          0x1p-25);
      return sum;
    });
    EXPECT_EQ(Compare((in_place ? static_cast<ApiTensor&>(c) : y).Get(), want, tolerance), "")
        << Name(t) << sums;
    ExpectGuards({&a, &b, &c, &y});
  }
}

TEST_F(Products, Refuse) {
  RandomTensor a(DType::kF32, {2, 3}, rng_), b(DType::kF32, {3, 4}, rng_), v(DType::kF32, {4}, rng_);
  RandomTensor batch(DType::kF32, {2, 3, 4}, rng_);
  ApiTensor y(DType::kF32, {2, 4}), ints(DType::kS32, {2, 4}), small(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnMm, b, b, y, 0), 161002, {"aclnnMm", "mat2 has shape [3,4]", "4 rows"});
  ExpectRefused(CALL(aclnnMm, batch, b, y, 0), 161002, {"self has 3 dims", "2"});
  ExpectRefused(CALL(aclnnMm, a, b, small, 0), 161002, {"out has shape [2,3]", "[2,4]"});
  ExpectRefused(CALL(aclnnMm, a, b, ints, 0), 161002, {"out has dtype s32", "f32"});
  ExpectRefused(CALL(aclnnMm, a, b, y, 9), 161002, {"cubeMathType is 9", "0 to 4"});
  ExpectRefused(CALL(aclnnMv, a, v, y, 0), 161002, {"vec has shape [4]", "3 rows"});
  ExpectRefused(CALL(aclnnBatchMatMul, a, b, y, 0), 161002, {"self has 2 dims", "3"});
  ExpectRefused(CALL(aclnnMm, a, nullptr, y, 0), 161001, {"mat2 is null"});
}

TEST_F(Products, AddmmAndBaddbmm) {
  for (int round = 0; round < 40; ++round) {
    const bool batched = round % 2;
    const int64_t g = batched ? rng_.Int(1, 3) : 1, m = rng_.Size(30), k = rng_.Size(30, round % 9 == 0);
    const int64_t n = rng_.Size(30);
    const DType t = AnyFloat();
    const Dims out = batched ? Dims{g, m, n} : Dims{m, n};
    Dims own = out;
    for (int i = 0; i < own.rank(); ++i) own[i] = rng_.Chance(0.3) ? 1 : own[i];
    if (rng_.Chance(0.3)) own.erase(0);
    RandomTensor a(t, batched ? Dims{g, m, k} : Dims{m, k}, rng_, round % 3 == 1, 1);
    RandomTensor b(t, batched ? Dims{g, k, n} : Dims{k, n}, rng_, round % 4 == 1, 1);
    RandomTensor c(t, own, rng_, round % 3 == 2, 1), full(t, out, rng_, round % 5 == 1, 1);
    ApiTensor y(t, out, &rng_, round % 4 == 2);
    const double beta = round % 4 == 3 ? 0 : 0.5, alpha = round % 3 ? 2 : 1;
    ApiScalar beta_scalar(static_cast<float>(beta)), alpha_scalar(static_cast<float>(alpha));
    auto check = [&](const RandomTensor& addend, const std::vector<double>& got) {
      std::vector<double> tolerance;
      const auto want = Make(out, [&](const Index& at) {
        const int64_t q = batched ? at[0] : 0, i = at[at.size() - 2], j = at.back();
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          const double term = a[(q * m + i) * k + p] * b[(q * k + p) * n + j];
          sum += term, size += std::abs(term);
        }
        const double added = beta * addend[BroadcastLinear(addend.dims(), at)], value = alpha * sum + added;
        tolerance.push_back(
            testing::ContractionTolerance(alpha * size + 2 * std::abs(added), value, k, DType::kF32, t) +
            0x1p-25);
        return value;
      });
      EXPECT_EQ(Compare(got, want, tolerance), "") << Name(t);
    };
    ASSERT_EQ(batched ? CALL(aclnnBaddbmm, c, a, b, beta_scalar, alpha_scalar, y, 0)
                      : CALL(aclnnAddmm, c, a, b, beta_scalar, alpha_scalar, y, 0),
              0)
        << aclGetRecentErrMsg();
    check(c, y.Get());
    ASSERT_EQ(batched ? CALL(aclnnInplaceBaddbmm, full, a, b, beta_scalar, alpha_scalar, 0)
                      : CALL(aclnnInplaceAddmm, full, a, b, beta_scalar, alpha_scalar, 0),
              0)
        << aclGetRecentErrMsg();
    check(full, full.Get());
    ExpectGuards({&a, &b, &c, &full, &y});
  }
  RandomTensor a(DType::kF32, {2, 3}, rng_), b(DType::kF32, {3, 4}, rng_), c(DType::kF32, {3}, rng_);
  ApiTensor y(DType::kF32, {2, 4});
  ApiScalar one(1.0f);
  ExpectRefused(CALL(aclnnAddmm, c, a, b, one, one, y, 0), 161002, {"self has shape [3]", "[2,4]"});
  ExpectRefused(CALL(aclnnAddmm, y, b, b, one, one, y, 0), 161002, {"mat2 has shape [3,4]"});
  ExpectRefused(CALL(aclnnAddmm, y, a, b, nullptr, one, y, 0), 161001, {"beta is null"});
}

TEST_F(Products, QuantisedWeights) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 2 ? DType::kF16 : DType::kBF16;
    const int64_t m = rng_.Int(1, 20), n = rng_.Int(1, 40), mode = round % 3;  // per tensor, column, group
    const int64_t k = mode == 2 ? rng_.Int(40, 150) : rng_.Int(1, 80), size = mode == 2 ? 32 : k;
    const int64_t groups = (k + size - 1) / size;
    const Dims scales = mode == 0 ? Dims{1} : mode == 1 && round % 4 < 2 ? Dims{n} : Dims{groups, n};
    RandomTensor x(t, {m, k}, rng_, round % 4 == 1, 1), scale(t, scales, rng_, false, 1);
    RandomTensor offset(t, scales, rng_, false, 3),
        bias(t == DType::kF16 ? t : DType::kF32, {n}, rng_, false, 2);
    // Weights as given, or as the transposed view of an (n, k) matrix.
    RandomTensor plain(DType::kS8, round % 3 == 1 ? Dims{n, k} : Dims{k, n}, rng_, false, 100);
    const bool turned = round % 3 == 1, has_offset = round % 4 != 3, has_bias = round % 5 != 4;
    const int64_t dims[] = {k, n}, strides[] = {turned ? 1 : n, turned ? k : 1};
    aclTensor* weight = aclCreateTensor(dims, 2, ACL_INT8, strides, 0, ACL_FORMAT_ND, plain.dims().data(), 2,
                                        plain.memory().view().data);
    ApiTensor y(t, {m, n}, &rng_);
    ASSERT_EQ(CALL(aclnnWeightQuantBatchMatmulV2, x, weight, scale, OrNull(has_offset, offset), nullptr,
                   nullptr, OrNull(has_bias, bias), mode == 2 ? 32 : 0, y),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make({m, n}, [&](const Index& at) {
      double sum = has_bias ? bias[at[1]] : 0, magnitude = std::abs(sum);
      for (int64_t p = 0; p < k; ++p) {
        const int64_t s = mode == 0 ? 0 : scales.rank() == 1 ? at[1] : p / size * n + at[1];
        const double w = turned ? plain[at[1] * k + p] : plain[p * n + at[1]];
        const double term = x[at[0] * k + p] * (w + (has_offset ? offset[s] : 0)) * scale[s];
        sum += term, magnitude += std::abs(term);
      }
      // The weight is rounded twice on its way to f32.
      tolerance.push_back(testing::ContractionTolerance(magnitude, sum, k, DType::kF32, t) +
                          2 * 0x1p-24 * magnitude + 0x1p-25);
      return sum;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << " mode " << mode;
    ExpectGuards({&x, &scale, &offset, &plain, &y});
    aclDestroyTensor(weight);
  }
  RandomTensor x(DType::kF16, {2, 64}, rng_), w(DType::kS8, {64, 8}, rng_), scale(DType::kF16, {3, 8}, rng_);
  RandomTensor bf(DType::kBF16, {8}, rng_), fine(DType::kF16, {8}, rng_);
  ApiTensor y(DType::kF16, {2, 8});
  const auto call = [&](aclTensor* s, aclTensor* o, int size) {
    return CALL(aclnnWeightQuantBatchMatmulV2, x, w, s, o, nullptr, nullptr, nullptr, size, y);
  };
  ExpectRefused(call(scale, nullptr, 32), 161002, {"antiquantScale has shape [3,8]", "[2,8]"});
  ExpectRefused(call(bf, nullptr, 0), 161002, {"antiquantScale has dtype bf16", "f16"});
  ExpectRefused(call(fine, scale, 0), 161002, {"antiquantOffsetOptional has shape [3,8]"});
  ExpectRefused(call(fine, nullptr, 33), 161002, {"antiquantGroupSize is 33", "32"});
  ExpectRefused(CALL(aclnnWeightQuantBatchMatmulV2, x, x, fine, nullptr, nullptr, nullptr, nullptr, 0, y),
                161002, {"weight has dtype f16"});
  // Strides of 0 name any number of elements over a byte or two; the f32 weights would take 2^64 bytes.
  const int64_t big[] = {int64_t{1} << 31, int64_t{1} << 31}, none[] = {0, 0}, one[] = {1};
  const int64_t row[] = {1, int64_t{1} << 31};
  aclTensor* wide = aclCreateTensor(big, 2, ACL_INT8, none, 0, ACL_FORMAT_ND, one, 1, nullptr);
  aclTensor* line = aclCreateTensor(row, 2, ACL_FLOAT16, none, 0, ACL_FORMAT_ND, one, 1, nullptr);
  aclTensor* out = aclCreateTensor(row, 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, row, 2, nullptr);
  RandomTensor single(DType::kF16, {1}, rng_);
  ExpectRefused(
      CALL(aclnnWeightQuantBatchMatmulV2, line, wide, single, nullptr, nullptr, nullptr, nullptr, 0, out),
      161002, {"aclnnWeightQuantBatchMatmulV2: the workspace overflows 64 bits"});
  for (aclTensor* t : {wide, line, out}) aclDestroyTensor(t);
}

// The first version: the same weights by the constants for few rows and by those for many.
TEST_F(Products, WeightQuantFirstVersion) {
  for (int round = 0; round < 16; ++round) {
    const bool t1 = round % 2, t2 = round % 4 > 1, one = round % 5 == 0, with_bias = round % 3 == 0;
    const int64_t m = round % 8 < 4 ? rng_.Int(1, 64) : rng_.Int(65, 80), k = rng_.Int(1, 40),
                  n = rng_.Int(1, 40);
    RandomTensor x(DType::kF16, t1 ? Dims{k, m} : Dims{m, k}, rng_), bias(DType::kF32, {n}, rng_);
    ApiTensor w(DType::kS8, t2 ? Dims{n, k} : Dims{k, n}, &rng_, round % 3 == 1), unit(DType::kS8, {32, 32});
    w.memory().FillRandom(rng_, -128, 127);
    const Dims own = one ? Dims{1} : round % 3 == 1 ? Dims{1, n} : Dims{n};
    ApiTensor offset(DType::kS32, own), bits(DType::kS64, own), add(DType::kF16, own), mul(DType::kF16, own);
    // A power of two as scale, and 2 (x2 + 0.5) in front of it: all constants are exact.
    const float antiquant_scale = 2, antiquant_offset = 1;
    std::vector<double> whole, packed, plain, factors;
    for (int64_t i = 0; i < NumElements(own); ++i) {
      const auto o = static_cast<double>(rng_.Int(-9, 9)),
                 s = std::exp2(static_cast<double>(-rng_.Int(3, 6)));
      const auto f = static_cast<float>(s * 2);
      uint32_t word;
      std::memcpy(&word, &f, sizeof(word));
      // (x2 + 1) * 2 + add = (x2 + o) * 2.
      whole.push_back(o), packed.push_back(word), plain.push_back((o - 1) * 2), factors.push_back(s);
    }
    offset.Set(whole), bits.Set(packed), add.Set(plain), mul.Set(factors);
    ApiTensor y(DType::kF16, {m, n}, &rng_, round % 4 == 2);
    ASSERT_EQ(CALL(aclnnWeightQuantBatchMatmul, x, w, unit, offset, bits, add, mul, OrNull(with_bias, bias),
                   t1, t2, antiquant_scale, antiquant_offset, y),
              0)
        << aclGetRecentErrMsg();
    const auto weights = w.Get();
    std::vector<double> want, tolerance;
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t r = i / n, c = i % n;
      const size_t column = one ? 0 : static_cast<size_t>(c);
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double v = x[t1 ? p * m + r : r * k + p] *
                         (weights[static_cast<size_t>(t2 ? c * k + p : p * n + c)] + whole[column]) *
                         factors[column] * 2;
        sum += v, size = std::max(size, std::abs(v));
      }
      want.push_back(sum + (with_bias ? bias[c] : 0));
      tolerance.push_back(SumTolerance(want.back(), size, k, DType::kF16));
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << m << "x" << k << "x" << n;
    ExpectGuards({&x, &w, &y});
  }
  RandomTensor x(DType::kF16, {2, 3}, rng_), w(DType::kS8, {3, 4}, rng_);
  ApiTensor y(DType::kF16, {2, 4}), three(DType::kS32, {3}), bits(DType::kS64, {4}),
      unit(DType::kS8, {32, 32});
  const auto call = [&](aclTensor* d, aclTensor* o) {
    return CALL(aclnnWeightQuantBatchMatmul, x, w, d, o, bits, nullptr, nullptr, nullptr, false, false, 1.0f,
                0.0f, y);
  };
  ExpectRefused(call(nullptr, three), 161001, {"diagonalMatrix is null"});
  ExpectRefused(call(unit, three), 161002, {"deqOffset has shape [3]", "[4]"});
}

TEST_F(Products, TriangularSolve) {
  for (int round = 0; round < 24; ++round) {
    const DType t = round % 3 ? DType::kF32 : DType::kF64;
    const int64_t g = rng_.Int(1, 3), n = round % 6 ? rng_.Int(1, 40) : rng_.Int(60, 100),
                  m = rng_.Int(1, 20);
    const bool upper = round % 2, transpose = round % 4 < 2, unit = round % 5 == 1;
    const bool one = rng_.Chance(0.3);
    RandomTensor b(t, {g, n, m}, rng_, round % 3 == 1, 1);
    RandomTensor a(t, one ? Dims{n, n} : Dims{g, n, n}, rng_, round % 3 == 2, 1);
    // Diagonals that rule: the solution is as well conditioned as its data.
    std::vector<double> values = a.values();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t r = static_cast<int64_t>(i) / n % n, c = static_cast<int64_t>(i) % n;
      values[i] = r == c ? 2 + std::abs(values[i]) : values[i] / static_cast<double>(n);
    }
    a.Set(values);
    values = a.Get();
    ApiTensor x(t, {g, n, m}, &rng_, round % 4 == 1), copy(t, {g, n, n}, &rng_, round % 4 == 2);
    ASSERT_EQ(CALL(aclnnTriangularSolve, b, a, upper, transpose, unit, x, copy), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(copy.Get(), Make({g, n, n}, [&](const Index& at) {
                const bool counts = upper ? at[2] >= at[1] : at[2] <= at[1];
                return counts ? values[static_cast<size_t>(((one ? 0 : at[0]) * n + at[1]) * n + at[2])] : 0;
              }));
    // The residual of the triangle that counts.
    const auto solution = x.Get();
    const double eps = t == DType::kF64 ? 0x1p-53 : 0x1p-24;
    for (int64_t i = 0; i < g * n * m; ++i) {
      const int64_t q = i / (n * m), r = i / m % n, c = i % m;
      double sum = 0, size = std::abs(b[i]);
      for (int64_t k = 0; k < n; ++k) {
        const bool inside = upper != transpose ? k >= r : k <= r;
        const int64_t row = transpose ? k : r, column = transpose ? r : k;
        double v = inside ? values[static_cast<size_t>(((one ? 0 : q) * n + row) * n + column)] : 0;
        if (k == r && unit) v = 1;
        sum += v * solution[static_cast<size_t>((q * n + k) * m + c)];
        size += std::abs(v * solution[static_cast<size_t>((q * n + k) * m + c)]);
      }
      ASSERT_LE(std::abs(sum - b[i]), size * static_cast<double>(n + 8) * 2 * eps)
          << Name(t) << " n " << n << " upper " << upper << " transpose " << transpose;
    }
    ExpectGuards({&a, &b, &x, &copy});
  }
  RandomTensor b(DType::kF32, {3, 2}, rng_), a(DType::kF32, {3, 3}, rng_), wide(DType::kF32, {3, 4}, rng_);
  ApiTensor x(DType::kF32, {3, 2}), m(DType::kF32, {3, 3});
  ExpectRefused(CALL(aclnnTriangularSolve, b, wide, true, false, false, x, m), 161002, {"A has shape [3,4]"});
  ExpectRefused(CALL(aclnnTriangularSolve, b, a, true, false, false, m, x), 161002,
                {"xOut has shape [3,3]", "[3,2]"});
}

TEST_F(Products, TransMatmulWeightKeepsTheValues) {
  RandomTensor w(DType::kF16, {5, 7}, rng_, true);
  ASSERT_EQ(CALL(aclnnTransMatmulWeight, w), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(w.Get(), w.values());
  RandomTensor empty(DType::kF16, {0, 7}, rng_), line(DType::kF16, {7}, rng_);
  EXPECT_EQ(CALL(aclnnTransMatmulWeight, empty), 0) << aclGetRecentErrMsg();
  ExpectRefused(CALL(aclnnTransMatmulWeight, line), 161002, {"mmWeightRef has 1 dims", "2 to 6"});
}

// Products of bf16 pairs take subnormals for zero where they pay; the exact policy never does, whatever was
// planned before.
TEST_F(Products, PlansFollowThePolicy) {
  const std::string policy = GetKnobs().policy == NumericsPolicy::kExact ? "exact" : "excess";
  ApiTensor a(DType::kBF16, {20, 6}), b(DType::kBF16, {6, 40}), y(DType::kBF16, {20, 40});
  a.Set(std::vector<double>(20 * 6, 0x1p-127));
  b.Set(std::vector<double>(6 * 40, 0x1p100));
  ASSERT_TRUE(SetKnob("policy", "excess").ok());
  EXPECT_EQ(CALL(aclnnMm, a, b, y, int8_t{0}), 0) << aclGetRecentErrMsg();
  ASSERT_TRUE(SetKnob("policy", "exact").ok());
  EXPECT_EQ(CALL(aclnnMm, a, b, y, int8_t{0}), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), std::vector<double>(20 * 40, 6 * 0x1p-27));
  ASSERT_TRUE(SetKnob("policy", policy).ok());
}

}  // namespace
}  // namespace opsnn::capi
