// aclnnFlashAttentionScore against softmax(QK^T)V in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class FlashAttention : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(FlashAttention, AgainstDoubles) {
  for (int round = 0; round < 40; ++round) {
    const DType t = kFloats[round % 3];
    const char* layout = round % 4 == 0 ? "BNSD" : round % 4 == 1 ? "BSND" : round % 4 == 2 ? "BSH" : "SBH";
    const int64_t b = rng_.Int(1, 2), groups = rng_.Int(1, 2), n2 = rng_.Int(1, 2), n = n2 * groups,
                  s1 = rng_.Int(1, 5), s2 = rng_.Int(1, 6), d = rng_.Int(1, 8);
    const int64_t mode = round % 5 == 4 ? 3 : round % 5 == 3 ? 2 : 0;
    const auto dims = [&](int64_t heads, int64_t s) {
      switch (round % 4) {
        case 0:
          return Dims{b, heads, s, d};
        case 1:
          return Dims{b, s, heads, d};
        case 2:
          return Dims{b, s, heads * d};
        default:
          return Dims{s, b, heads * d};
      }
    };
    const auto at = [&](int64_t heads, int64_t s, int64_t i, int64_t h, int64_t k, int64_t e) {
      switch (round % 4) {
        case 0:
          return ((i * heads + h) * s + k) * d + e;
        case 3:
          return ((k * b + i) * heads + h) * d + e;
        default:
          return ((i * s + k) * heads + h) * d + e;
      }
    };
    RandomTensor q(t, dims(n, s1), rng_, round % 3 == 1, 1), k(t, dims(n2, s2), rng_, false, 1),
        v(t, dims(n2, s2), rng_, round % 3 == 2, 1);
    ApiTensor y(t, dims(n, s1)), most(DType::kF32, {b, n, s1, 8}), sums(DType::kF32, {b, n, s1, 8}),
        none(DType::kF32, {0}), mask(DType::kBool, mode != 0 ? Dims{2048, 2048} : Dims{s1, s2});
    // The causal modes say the pattern themselves.
    if (mode == 0) mask.memory().FillRandom(rng_, 0, 1);
    const auto bits = mode == 0 ? mask.Get() : std::vector<double>();
    const bool masked = mode != 0 || round % 2;
    const double scale = 0.5;
    ASSERT_EQ(
        CALL(aclnnFlashAttentionScore, q, k, v, nullptr, nullptr, nullptr, OrNull(masked, mask), nullptr,
             scale, 1.0, 65536, 65536, n, const_cast<char*>(layout), 0, mode, most, sums, none, y),
        0)
        << aclGetRecentErrMsg();
    const auto got = y.Get(), got_most = most.Get(), got_sums = sums.Get();
    for (int64_t row = 0; row < b * n * s1; ++row) {
      const int64_t i = row / (n * s1), h = row / s1 % n, r = row % s1;
      std::vector<double> p;
      double highest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < s2; ++c) {
        double x = 0;
        for (int64_t e = 0; e < d; ++e) x += q[at(n, s1, i, h, r, e)] * k[at(n2, s2, i, h / groups, c, e)];
        const bool hidden = mode == 2   ? c > r
                            : mode == 3 ? c > r + s2 - s1
                                        : masked && bits[static_cast<size_t>(r * s2 + c)] != 0;
        p.push_back(hidden ? -std::numeric_limits<double>::infinity() : scale * x);
        highest = std::max(highest, p.back());
      }
      for (double& x : p) sum += x = std::isinf(highest) ? 0 : std::exp(x - highest);
      for (int64_t e = 0; e < d; ++e) {
        double want = 0;
        for (int64_t c = 0; c < s2; ++c)
          want += sum == 0 ? 0 : p[static_cast<size_t>(c)] / sum * v[at(n2, s2, i, h / groups, c, e)];
        EXPECT_NEAR(got[static_cast<size_t>(at(n, s1, i, h, r, e))], want,
                    std::abs(want) * testing::Epsilon(t) + 64 * 0x1p-24)
            << layout << mode;
      }
      if (sum == 0) continue;
      EXPECT_NEAR(got_most[static_cast<size_t>(row * 8 + row % 8)], highest, 64 * 0x1p-24);
      EXPECT_NEAR(got_sums[static_cast<size_t>(row * 8 + row % 8)], sum, 64 * 0x1p-24 * sum);
    }
    ExpectGuards({&q, &k, &v, &y, &most, &sums});
  }
  RandomTensor q(DType::kF32, {1, 2, 3, 4}, rng_);
  ApiTensor y(DType::kF32, {1, 2, 3, 4}), rows(DType::kF32, {1, 2, 3, 8}), more(DType::kF32, {1, 2, 3, 8}),
      none(DType::kF32, {0});
  char layout[] = "TND", good[] = "BNSD";
  ExpectRefused(CALL(aclnnFlashAttentionScore, q, q, q, nullptr, nullptr, nullptr, nullptr, nullptr, 1.0, 1.0,
                     1, 1, 2, layout, 0, 0, rows, more, none, y),
                161002, {"inputLayout is TND"});
  ExpectRefused(CALL(aclnnFlashAttentionScore, q, q, q, nullptr, nullptr, nullptr, nullptr, nullptr, 1.0, 0.5,
                     1, 1, 2, good, 0, 0, rows, more, none, y),
                161002, {"keepProb is 0.5"});
}

}  // namespace
}  // namespace opsnn::capi
