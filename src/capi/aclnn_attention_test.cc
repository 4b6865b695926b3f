// Rotary embedding and attention, against double arithmetic.
#include <cmath>
#include <memory>

#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_rotary_position_embedding.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class AttentionFunctions : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(AttentionFunctions, Rotary) {
  for (int round = 0; round < 32; ++round) {
    const int64_t mode = round % 4;
    const DType t = kFloats[round % 3];
    const Dims dims = {rng_.Int(1, 3), rng_.Int(1, 4), rng_.Int(1, 4), 4 * rng_.Int(1, 9)};
    Dims angles = dims;
    for (int i = 0; i < 3; ++i) angles[i] = rng_.Chance(0.5) ? 1 : angles[i];
    RandomTensor x(t, dims, rng_, round % 2, 2), cos(t, angles, rng_, round % 3 == 1, 1),
        sin(t, angles, rng_, false, 1);
    ApiTensor y(t, dims, &rng_, round % 3 == 2);
    const int64_t d = dims[3];
    std::vector<double> tolerance;
    const auto want = Make(dims, [&](const Index& at) {
      auto value = [&](int64_t i) { return x(Index{at[0], at[1], at[2], i}); };
      const int64_t i = at[3], half = d / 2, q = d / 4;
      double own = value(i), turned = 0;
      if (mode == 0) turned = i < half ? -value(i + half) : value(i - half);
      if (mode == 1) turned = i % 2 ? value(i - 1) : -value(i + 1);
      if (mode == 2) turned = i / q % 2 ? value(i - q) : -value(i + q);
      if (mode == 3) {
        own = i < half ? value(2 * i) : value(2 * (i - half) + 1);
        turned = i < half ? -value(2 * i + 1) : value(2 * (i - half));
      }
      const int64_t angle = BroadcastLinear(angles, at);
      const double a = own * cos[angle], b = turned * sin[angle];
      tolerance.push_back((std::abs(a) + std::abs(b)) * 4 * 0x1p-24 + std::abs(a + b) * testing::Epsilon(t) +
                          0x1p-25);
      return a + b;
    });
    ASSERT_EQ(CALL(aclnnRotaryPositionEmbedding, x, cos, sin, mode, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << " mode " << mode;
    ASSERT_EQ(CALL(aclnnRotaryPositionEmbedding, x, cos, sin, mode, x), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(x.Get(), want, tolerance), "") << "in place, mode " << mode;
    ExpectGuards({&x, &cos, &sin, &y});
  }
  RandomTensor x(DType::kF16, {1, 2, 3, 6}, rng_), c(DType::kF16, {1, 1, 1, 6}, rng_),
      bad(DType::kF16, {1, 2, 2, 6}, rng_);
  ApiTensor y(DType::kF16, {1, 2, 3, 6});
  ExpectRefused(CALL(aclnnRotaryPositionEmbedding, x, c, c, 2, y), 161002,
                {"x has shape [1,2,3,6]", "4 divides"});
  ExpectRefused(CALL(aclnnRotaryPositionEmbedding, x, c, c, 4, y), 161002, {"mode is 4", "0 to 3"});
  ExpectRefused(CALL(aclnnRotaryPositionEmbedding, x, bad, bad, 0, y), 161002, {"cos has shape [1,2,2,6]"});
}

struct AttentionCase {
  int64_t b, n, kv, s1, s2, d;
  std::string layout = "BNSD";
  int64_t sparse = 0;
  bool mask = false, shift = false, lse = false, list = false;
  std::vector<int64_t> lengths;
};

// Position of (b, head, s, i) in a tensor of the layout.
int64_t Position(const std::string& layout, int64_t heads, int64_t length, int64_t d, int64_t b, int64_t h,
                 int64_t s, int64_t i) {
  return layout == "BNSD" ? ((b * heads + h) * length + s) * d + i : ((b * length + s) * heads + h) * d + i;
}

Dims Shape(const std::string& layout, int64_t b, int64_t n, int64_t s, int64_t d) {
  if (layout == "BSH") return {b, s, n * d};
  return layout == "BSND" ? Dims{b, s, n, d} : Dims{b, n, s, d};
}

TEST_F(AttentionFunctions, FusedInferAttentionScore) {
  const std::vector<AttentionCase> cases = {
      {1, 2, 2, 5, 7, 16},
      {2, 4, 2, 9, 33, 8, "BSH"},
      {2, 4, 1, 17, 17, 32, "BSND", 2, true},
      {2, 3, 3, 4, 11, 16, "BNSD", 3, true, false, true},
      {3, 2, 2, 1, 40, 16, "BSH", 0, true, false, true, false, {40, 13, 0}},
      {2, 2, 2, 6, 10, 8, "BSND", 1, true, true},
      {2, 2, 2, 6, 10, 8, "BNSD", 4, true, false, false, false, {9, 10}},
      {2, 4, 2, 1, 10, 8, "BNSD", 0, false, true, false, true},
      {1, 1, 1, 3, 70, 64, "BNSD_BSND"},
  };
  int round = 0;
  for (const AttentionCase& c : cases) {
    const DType t = ++round % 2 ? DType::kF16 : DType::kBF16;
    const std::string in = c.layout == "BNSD_BSND" ? "BNSD" : c.layout,
                      out = c.layout == "BNSD_BSND" ? "BSND" : c.layout;
    RandomTensor q(t, Shape(in, c.b, c.n, c.s1, c.d), rng_, false, 2);
    std::vector<std::unique_ptr<RandomTensor>> k, v;
    std::vector<aclTensor*> k_handles, v_handles;
    for (int64_t i = 0; i < (c.list ? c.b : 1); ++i) {
      const Dims dims = Shape(in, c.list ? 1 : c.b, c.kv, c.s2, c.d);
      for (auto* side : {&k, &v}) {
        side->push_back(std::make_unique<RandomTensor>(t, dims, rng_, false, 2));
        (side == &k ? k_handles : v_handles)
            .push_back(aclCreateTensor(dims.data(), static_cast<uint64_t>(dims.rank()), Acl(t), nullptr, 0,
                                       ACL_FORMAT_ND, dims.data(), static_cast<uint64_t>(dims.rank()),
                                       side->back()->memory().view().data));
      }
    }
    aclTensorList* keys = aclCreateTensorList(k_handles.data(), k_handles.size());
    aclTensorList* values = aclCreateTensorList(v_handles.data(), v_handles.size());
    const bool pattern = c.sparse >= 2;
    RandomTensor mask(DType::kBool, pattern ? Dims{64, 64} : Dims{c.b, 1, c.s1, c.s2}, rng_);
    RandomTensor shift(t, {1, c.n, c.s1, c.s2}, rng_, false, 1);
    ApiTensor y(t, Shape(out, c.b, c.n, c.s1, c.d)), lse(DType::kF32, {c.b, c.n, c.s1, 1});
    ApiInts lengths(c.lengths);
    const int64_t pre = c.sparse == 4 ? 2 : INT32_MAX, next = c.sparse == 4 ? 1 : INT32_MAX;
    const double scale = 0.25;
    std::string layout = c.layout;
    ASSERT_EQ(
        CALL(aclnnFusedInferAttentionScoreV2, q, keys, values, OrNull(c.shift, shift), OrNull(c.mask, mask),
             nullptr, c.lengths.empty() ? nullptr : static_cast<const aclIntArray*>(lengths), nullptr,
             nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
             nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, c.n, scale, pre, next, layout.data(),
             c.n == c.kv ? 0 : c.kv, c.sparse, 1, 0, 0, c.lse, 0, 0, y, OrNull(c.lse, lse)),
        0)
        << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(NumElements(y.dims()))), tolerance(want.size()), want_lse;
    for (int64_t row = 0; row < c.b * c.n * c.s1; ++row) {
      const int64_t b = row / (c.n * c.s1), h = row / c.s1 % c.n, s = row % c.s1, kh = h / (c.n / c.kv);
      const RandomTensor& key = *k[static_cast<size_t>(c.list ? b : 0)];
      const RandomTensor& value = *v[static_cast<size_t>(c.list ? b : 0)];
      const int64_t kb = c.list ? 0 : b,
                    length = c.lengths.empty() ? c.s2 : c.lengths[static_cast<size_t>(b)];
      std::vector<double> p(static_cast<size_t>(c.s2), 0);
      double sum = 0;
      for (int64_t j = 0; j < c.s2; ++j) {
        const int64_t ahead = j - s - (c.sparse == 2 ? 0 : length - c.s1);
        bool hidden = j >= length || (c.mask && !pattern && mask(Index{b, 0, s, j}) != 0);
        if (pattern) hidden = hidden || ahead > (c.sparse == 4 ? next : 0) || -ahead > pre;
        if (hidden) continue;
        double dot = 0;
        for (int64_t i = 0; i < c.d; ++i) {
          dot +=
              q[Position(in, c.n, c.s1, c.d, b, h, s, i)] * key[Position(in, c.kv, c.s2, c.d, kb, kh, j, i)];
        }
        p[static_cast<size_t>(j)] = std::exp(scale * dot + (c.shift ? shift(Index{0, h, s, j}) : 0));
        sum += p[static_cast<size_t>(j)];
      }
      want_lse.push_back(std::log(sum));
      for (int64_t i = 0; i < c.d; ++i) {
        double total = 0;
        for (int64_t j = 0; j < c.s2; ++j) {
          total += sum > 0
                       ? p[static_cast<size_t>(j)] / sum * value[Position(in, c.kv, c.s2, c.d, kb, kh, j, i)]
                       : 0;
        }
        const auto at = static_cast<size_t>(Position(out, c.n, c.s1, c.d, b, h, s, i));
        want[at] = total;
        // Logits up to 64 in f32 give probabilities 2^-17 off; values are at most 2.
        tolerance[at] = 2 * 0x1p-16 + std::abs(total) * testing::Epsilon(t);
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << "case " << round;
    if (c.lse && c.lengths.empty()) {
      EXPECT_EQ(Compare(lse.Get(), want_lse, 0x1p-16, 0x1p-20), "") << "case " << round;
    }
    ExpectGuards({&q, &y, &mask, &shift, &lse});
    aclDestroyTensorList(keys);
    aclDestroyTensorList(values);
  }
}

}  // namespace
}  // namespace opsnn::capi
