// Products of 8-bit matrices with scales against double sums.
#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_quant_matmul_v3.h"
#include "aclnnop/aclnn_quant_matmul_v4.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class QuantProducts : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(QuantProducts, ScalesBiasAndOffset) {
  for (int round = 0; round < 60; ++round) {
    const int64_t batch = rng_.Int(1, 3), m = rng_.Int(1, 20), n = rng_.Int(1, 40), k = rng_.Int(1, 90);
    const bool t1 = round % 2, t2 = round % 3 == 0, tokens = round % 4 == 1, column = rng_.Chance(0.5);
    const DType ty = round % 3 == 0 ? DType::kS8 : round % 3 == 1 ? DType::kF16 : DType::kBF16;
    const int bias_kind = round % 5;  // none, none, s32, f32, s32
    const bool int_bias = bias_kind == 2 || bias_kind == 4, float_bias = bias_kind == 3;
    const bool has_offset = ty == DType::kS8 && !float_bias && !tokens && rng_.Chance(0.5);
    RandomTensor a(DType::kS8, t1 ? Dims{batch, k, m} : Dims{batch, m, k}, rng_, false, 127);
    RandomTensor b(DType::kS8, t2 ? Dims{n, k} : Dims{k, n}, rng_, false, 127);
    RandomTensor scale(DType::kF32, {column ? n : 1}, rng_, false, 1e-4),
        offset(DType::kF32, {1}, rng_, false, 5);
    RandomTensor bias(int_bias ? DType::kS32 : DType::kF32, {n}, rng_, false, int_bias ? 1000 : 2);
    RandomTensor token(DType::kF32, {m}, rng_, false, 2);
    ApiTensor y(ty, {batch, m, n}, &rng_);
    const int code = tokens ? CALL(aclnnQuantMatmulV4, a, b, scale, OrNull(has_offset, offset), token,
                                   OrNull(int_bias || float_bias, bias), t1, t2, y)
                            : CALL(aclnnQuantMatmulV3, a, b, scale, OrNull(has_offset, offset),
                                   OrNull(int_bias || float_bias, bias), t1, t2, y);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> tolerance;
    const auto want = Make({batch, m, n}, [&](const Index& at) {
      const int64_t g = at[0], i = at[1], j = at[2];
      double sum = int_bias ? bias[j] : 0;
      for (int64_t q = 0; q < k; ++q)
        sum += a[t1 ? (g * k + q) * m + i : (g * m + i) * k + q] * b[t2 ? j * k + q : q * n + j];
      double x = sum * scale[column ? j : 0] * (tokens ? token[i] : 1);
      const double added = (float_bias ? bias[j] : 0) + (has_offset ? offset[0] : 0),
                   size = std::abs(x) + std::abs(added);
      x += added;
      // Three roundings in f32, then one to the result's type: half a step of s8, where x is near a tie a
      // whole one.
      const double f32 = 4 * size * 0x1p-24;
      if (ty == DType::kS8) {
        const double down = std::nearbyint(x - f32), up = std::nearbyint(x + f32);
        tolerance.push_back(up - down);
        return std::clamp(std::nearbyint(x), -128.0, 127.0);
      }
      tolerance.push_back(f32 + std::abs(x) * (ty == DType::kF16 ? 0x1p-11 : 0x1p-8) + 0x1p-25);
      return x;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(ty) << " round " << round;
    ExpectGuards({&a, &b, &y});
  }
}

TEST_F(QuantProducts, Refusals) {
  RandomTensor a(DType::kS8, {3, 8}, rng_, false, 127), b(DType::kS8, {8, 5}, rng_, false, 127);
  RandomTensor scale(DType::kF32, {1}, rng_, false, 1), three(DType::kF32, {3}, rng_, false, 1);
  RandomTensor real(DType::kF32, {3, 8}, rng_, false, 1);
  ApiTensor y(DType::kF16, {3, 5}), small(DType::kF16, {3, 4});
  ExpectRefused(CALL(aclnnQuantMatmulV3, a, a, scale, nullptr, nullptr, false, false, y), 161002,
                {"aclnnQuantMatmulV3", "x2 has shape [3,8]", "8 rows"});
  ExpectRefused(CALL(aclnnQuantMatmulV3, a, b, three, nullptr, nullptr, false, false, y), 161002,
                {"scale has shape [3]", "[5]"});
  ExpectRefused(CALL(aclnnQuantMatmulV3, a, b, scale, nullptr, nullptr, false, false, small), 161002,
                {"out has shape [3,4]", "[3,5]"});
  ExpectRefused(CALL(aclnnQuantMatmulV3, real, b, scale, nullptr, nullptr, false, false, y), 161002,
                {"x1 has dtype f32", "s8"});
  ExpectRefused(CALL(aclnnQuantMatmulV4, a, b, scale, three, nullptr, three, false, false, y), 161002,
                {"[3]", "[5]"});
  ExpectRefused(CALL(aclnnQuantMatmulV3, a, b, nullptr, nullptr, nullptr, false, false, y), 161001,
                {"scale is null"});
}

}  // namespace
}  // namespace opsnn::capi
