// Quantised products whose scales change along k.
#include <cmath>

#include "aclnnop/aclnn_quant_matmul_v5.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class GroupedMatmul : public ApiTest {
 protected:
  static constexpr int64_t kSizes = int64_t{1} << 32 | 128 << 16 | 128;
  Rng rng_;
};

TEST_F(GroupedMatmul, ByRowsAndBlocks) {
  constexpr int64_t kGroup = 128;
  for (int round = 0; round < 16; ++round) {
    const int64_t m = rng_.Int(1, 9), n = rng_.Int(1, 300), k = rng_.Int(1, 600);
    const int64_t groups = (k + kGroup - 1) / kGroup, blocks = (n + kGroup - 1) / kGroup;
    const bool biased = round % 2;
    ApiTensor x1(DType::kS8, {m, k}, &rng_, round % 3 == 1), x2(DType::kS8, {n, k}, &rng_, round % 3 == 2),
        by_row(DType::kF32, {m, groups}, &rng_, round % 4 == 1),
        by_block(DType::kF32, {blocks, groups}, &rng_, round % 4 == 2), bias(DType::kF32, {n}),
        y(round % 5 ? DType::kBF16 : DType::kF16, {m, n}, &rng_, round % 4 == 3);
    x1.memory().FillRandom(rng_, -128, 127), x2.memory().FillRandom(rng_, -128, 127);
    by_row.memory().FillRandom(rng_, 0.001, 0.01), by_block.memory().FillRandom(rng_, 0.001, 0.01);
    bias.memory().FillRandom(rng_, -2, 2);
    ASSERT_EQ(CALL(aclnnQuantMatmulV5, x1, x2, by_row, by_block, nullptr, nullptr, nullptr, nullptr,
                   OrNull(biased, bias), false, true, round % 7 == 6 ? 128 : kSizes, y),
              0)
        << aclGetRecentErrMsg();
    const auto a = x1.Get(), b = x2.Get(), s1 = by_row.Get(), s2 = by_block.Get(), add = bias.Get();
    std::vector<double> want, near;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t g = 0; g < groups; ++g) {
          double part = 0;
          for (int64_t l = g * kGroup; l < std::min(k, (g + 1) * kGroup); ++l)
            part += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(j * k + l)];
          part *= s1[static_cast<size_t>(i * groups + g)] * s2[static_cast<size_t>(j / kGroup * groups + g)];
          sum += part, size += std::abs(part);
        }
        if (biased) sum += add[static_cast<size_t>(j)];
        want.push_back(sum);
        // Per group two roundings of scales and one of the sum; sums of s32 up to 2^21 are exact in f32.
        near.push_back(std::abs(sum) * testing::Epsilon(y.dtype()) +
                       static_cast<double>(groups + 4) * 0x1p-24 * (size + 2));
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, near), "") << m << "x" << n << "x" << k;
    ExpectGuards({&x1, &x2, &by_row, &by_block, &bias, &y});
  }
}

TEST_F(GroupedMatmul, Refusals) {
  ApiTensor x1(DType::kS8, {2, 256}), x2(DType::kS8, {5, 256}), by_row(DType::kF32, {2, 2}),
      by_block(DType::kF32, {1, 2}), wrong(DType::kF32, {2, 1}), y(DType::kBF16, {2, 5});
  const auto call = [&](aclTensor* rows, aclTensor* blocks, bool first, bool second, int64_t size) {
    return CALL(aclnnQuantMatmulV5, x1, x2, rows, blocks, nullptr, nullptr, nullptr, nullptr, nullptr, first,
                second, size, y);
  };
  EXPECT_EQ(call(by_row, by_block, false, true, kSizes), 0) << aclGetRecentErrMsg();
  ExpectRefused(call(wrong, by_block, false, true, kSizes), 161002,
                {"aclnnQuantMatmulV5: x1Scale has shape [2,1]", "[2,2]"});
  ExpectRefused(call(by_row, wrong, false, true, kSizes), 161002, {"x2Scale has shape [2,1]", "[1,2]"});
  ExpectRefused(call(by_row, by_block, false, false, kSizes), 161002, {"transposeX2 is false"});
  ExpectRefused(call(by_row, by_block, true, true, kSizes), 161002, {"transposeX1 is true"});
  ExpectRefused(call(by_row, by_block, false, true, 256), 561003, {"groupSize is 256", "128"});
}

}  // namespace
}  // namespace opsnn::capi
