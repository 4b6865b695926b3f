// Normalisations with something before or behind, and masked softmax, against double arithmetic.
#include <cmath>

#include "aclnnop/aclnn_ada_layer_norm.h"
#include "aclnnop/aclnn_ada_layer_norm_v2.h"
#include "aclnnop/aclnn_add_layer_norm.h"
#include "aclnnop/aclnn_add_rms_norm_cast.h"
#include "aclnnop/aclnn_deep_norm.h"
#include "aclnnop/aclnn_gemma_rms_norm.h"
#include "aclnnop/aclnn_group_norm.h"
#include "aclnnop/aclnn_group_norm_silu.h"
#include "aclnnop/aclnn_group_norm_swish.h"
#include "aclnnop/aclnn_inplace_add_rms_norm.h"
#include "aclnnop/aclnn_instance_norm.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_masked_softmax_with_rel_pos_bias.h"
#include "aclnnop/aclnn_modulate.h"
#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class NormRows : public ApiTest {
 protected:
  Rng rng_;
};

// Mean and 1 / sqrt(variance + eps) of a row.
struct Moments {
  double mean = 0, variance = 0, rstd = 0;
};
Moments MomentsOf(const std::vector<double>& row, double eps) {
  Moments m;
  const auto n = static_cast<double>(row.size());
  for (double v : row) m.mean += v / n;
  for (double v : row) m.variance += (v - m.mean) * (v - m.mean) / n;
  m.rstd = 1 / std::sqrt(m.variance + eps);
  return m;
}

// Rows of a few hundred elements of order 1, normalised with eps 0.1.
std::vector<double> RowTolerances(const std::vector<double>& want, DType t) {
  std::vector<double> tolerance;
  for (double v : want) tolerance.push_back(std::abs(v) * testing::Epsilon(t) + 0x1p-15);
  return tolerance;
}
constexpr double kEps = 0.1;

TEST_F(NormRows, AddLayerNormAndDeepNorm) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[round % 3];
    const bool deep = round % 2;
    const Dims dims = rng_.Shape(2, 4, 800);
    const int rows = static_cast<int>(rng_.Int(1, dims.rank() - 1));
    Dims g, kept = dims;
    int64_t n = 1;
    for (int i = dims.rank() - rows; i < dims.rank(); ++i) g.push_back(dims[i]), n *= dims[i], kept[i] = 1;
    const double alpha = deep ? 1.5 : 1;
    const int bias_kind = deep ? 0 : round / 2 % 3;  // none, as gamma, as x
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, round % 4 == 1, 2), gamma(t, g, rng_),
        beta(t, g, rng_), bias(t, bias_kind == 2 ? dims : g, rng_);
    ApiTensor y(t, dims, &rng_, round % 4 == 3), mean(DType::kF32, kept), rstd(DType::kF32, kept),
        sum(t, dims);
    const int code = deep ? CALL(aclnnDeepNorm, x, x2, beta, gamma, alpha, kEps, mean, rstd, y)
                          : CALL(aclnnAddLayerNorm, x, x2, gamma, beta, OrNull(bias_kind > 0, bias), kEps,
                                 true, y, mean, rstd, sum);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> want, sums, means, factors;
    for (int64_t r = 0; r < NumElements(kept); ++r) {
      std::vector<double> row;
      for (int64_t i = 0; i < n; ++i) {
        const double b = bias_kind == 0 ? 0 : bias_kind == 1 ? bias[i] : bias[r * n + i];
        row.push_back(alpha * x[r * n + i] + x2[r * n + i] + b);
        sums.push_back(row.back());
      }
      const Moments m = MomentsOf(row, kEps);
      means.push_back(m.mean), factors.push_back(m.rstd);
      for (int64_t i = 0; i < n; ++i)
        want.push_back((row[static_cast<size_t>(i)] - m.mean) * m.rstd * gamma[i] + beta[i]);
    }
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t) << " deep " << deep;
    EXPECT_EQ(Compare(mean.Get(), means, RowTolerances(means, DType::kF32)), "");
    EXPECT_EQ(Compare(rstd.Get(), factors, RowTolerances(factors, DType::kF32)), "");
    if (!deep) {
      EXPECT_EQ(Compare(sum.Get(), sums, PointwiseTolerance(sums, t)), "");
    }
    ExpectGuards({&x, &x2, &y, &mean, &rstd, &sum});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_), g(DType::kF32, {3}, rng_), bad(DType::kF32, {2}, rng_);
  ApiTensor y(DType::kF32, {2, 3}), sum(DType::kF32, {2, 3}), m(DType::kF32, {2, 1}), n(DType::kF32, {2, 1});
  ExpectRefused(CALL(aclnnAddLayerNorm, x, x, bad, g, nullptr, 1e-5, false, y, m, n, sum), 161002,
                {"gamma has shape [2]", "[2,3]"});
  ExpectRefused(CALL(aclnnAddLayerNorm, x, x, g, g, nullptr, 1e-5, false, y, bad, m, sum), 161002,
                {"meanOut has shape [2]", "[2,1]"});
}

TEST_F(NormRows, RmsVariants) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[1 + round % 2];
    const Dims dims = rng_.Shape(2, 3, 600);
    Dims kept = dims;
    const int64_t n = dims.back();
    kept[dims.rank() - 1] = 1;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, false, 2), gamma(t, {n}, rng_);
    ApiTensor y1(DType::kF32, dims), y(t, dims), rstd(DType::kF32, kept), sum(t, dims);
    const int kind = round % 3;
    const int code = kind == 0   ? CALL(aclnnGemmaRmsNorm, x, gamma, kEps, y, rstd)
                     : kind == 1 ? CALL(aclnnAddRmsNormCast, x, x2, gamma, kEps, y1, y, rstd, sum)
                                 : CALL(aclnnInplaceAddRmsNorm, x, x2, gamma, kEps, rstd);
    ASSERT_EQ(code, 0) << kind << aclGetRecentErrMsg();
    std::vector<double> want, sums;
    for (int64_t r = 0; r < NumElements(kept); ++r) {
      double square = 0;
      std::vector<double> row;
      for (int64_t i = 0; i < n; ++i) {
        row.push_back(x[r * n + i] + (kind ? x2[r * n + i] : 0));
        square += row.back() * row.back() / static_cast<double>(n);
      }
      for (int64_t i = 0; i < n; ++i) {
        want.push_back(row[static_cast<size_t>(i)] / std::sqrt(square + kEps) * (gamma[i] + (kind == 0)));
        sums.push_back(row[static_cast<size_t>(i)]);
      }
    }
    EXPECT_EQ(Compare((kind == 2 ? static_cast<ApiTensor&>(x) : y).Get(), want, RowTolerances(want, t)), "")
        << kind;
    if (kind == 1) {
      EXPECT_EQ(Compare(y1.Get(), want, RowTolerances(want, DType::kF32)), "");
    }
    if (kind) {
      EXPECT_EQ(
          Compare((kind == 2 ? static_cast<ApiTensor&>(x2) : sum).Get(), sums, PointwiseTolerance(sums, t)),
          "");
    }
    ExpectGuards({&x, &x2, &y1, &y, &rstd, &sum});
  }
}

TEST_F(NormRows, AdaLayerNormAndModulate) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), s = rng_.Int(1, 5), h = rng_.Int(2, 40);
    const bool unit = round % 2, affine = round % 4 < 2, second = round % 3 == 0;
    RandomTensor x(t, {b, s, h}, rng_, round % 5 == 1, 2);
    RandomTensor scale(t, unit ? Dims{b, 1, h} : Dims{b, h}, rng_),
        shift(t, unit ? Dims{b, 1, h} : Dims{b, h}, rng_);
    RandomTensor w(t, {h}, rng_), bias(t, {h}, rng_);
    ApiTensor y(t, {b, s, h}, &rng_, round % 4 == 1), mean(t, {b, s, 1}), rstd(t, {b, s, 1}), z(t, {b, s, h});
    const int code =
        second ? CALL(aclnnAdaLayerNormV2, x, scale, shift, OrNull(affine, w), OrNull(affine, bias), kEps, y,
                      mean, rstd)
               : CALL(aclnnAdaLayerNorm, x, scale, shift, OrNull(affine, w), OrNull(affine, bias), kEps, y);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnModulate, x, scale, OrNull(affine, shift), z), 0) << aclGetRecentErrMsg();
    std::vector<double> want, modulated, means;
    for (int64_t r = 0; r < b * s; ++r) {
      std::vector<double> row;
      for (int64_t i = 0; i < h; ++i) row.push_back(x[r * h + i]);
      const Moments m = MomentsOf(row, kEps);
      means.push_back(m.mean);
      for (int64_t i = 0; i < h; ++i) {
        const int64_t at = r / s * h + i;
        double v = (row[static_cast<size_t>(i)] - m.mean) * m.rstd;
        if (affine) v = v * w[i] + bias[i];
        want.push_back(v * (1 + scale[at]) + shift[at]);
        modulated.push_back(row[static_cast<size_t>(i)] * (1 + scale[at]) + (affine ? shift[at] : 0));
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t);
    EXPECT_EQ(Compare(z.Get(), modulated, RowTolerances(modulated, t)), "") << Name(t);
    if (second) {
      EXPECT_EQ(Compare(mean.Get(), means, RowTolerances(means, t)), "");
    }
    ExpectGuards({&x, &scale, &shift, &y, &z});
  }
}

TEST_F(NormRows, GroupNormWithSwish) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t n = rng_.Int(1, 3), groups = rng_.Int(1, 3), c = groups * rng_.Int(1, 3),
                  s = rng_.Int(1, 30);
    const int kind = round % 3;  // silu, silu or not, swish
    const double factor = kind == 0 ? 1 : round % 2 ? (kind == 1 ? 1 : 0.5) : 0;
    RandomTensor x(t, {n, c, s}, rng_, round % 4 == 1, 2), gamma(t, {c}, rng_), beta(t, {c}, rng_);
    ApiTensor y(t, {n, c, s}, &rng_, round % 4 == 2), mean(t, {n, groups}), rstd(t, {n, groups});
    char format[] = "NCHW";
    const bool scaled = kind == 2 || round % 4 != 3, shifted = kind == 2 || round % 5 != 4;
    aclTensor *const g = OrNull(scaled, gamma), *const b = OrNull(shifted, beta);
    const int code = kind == 0 ? CALL(aclnnGroupNormSilu, x, g, b, groups, kEps, y, mean, rstd)
                     : kind == 1
                         ? CALL(aclnnGroupNormSiluV2, x, g, b, groups, kEps, factor != 0, y, mean, rstd)
                         : CALL(aclnnGroupNormSwish, x, gamma, beta, groups, format, kEps, factor != 0,
                                factor, y, mean, rstd);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> want;
    const int64_t each = c / groups * s;
    for (int64_t g = 0; g < n * groups; ++g) {
      std::vector<double> row;
      for (int64_t i = 0; i < each; ++i) row.push_back(x[g * each + i]);
      const Moments m = MomentsOf(row, kEps);
      for (int64_t i = 0; i < each; ++i) {
        const int64_t channel = g % groups * (c / groups) + i / s;
        const double v = (row[static_cast<size_t>(i)] - m.mean) * m.rstd * (scaled ? gamma[channel] : 1) +
                         (shifted ? beta[channel] : 0);
        want.push_back(factor == 0 ? v : v / (1 + std::exp(-factor * v)));
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t) << kind;
    ExpectGuards({&x, &y, &mean, &rstd});
  }
}

TEST_F(NormRows, GroupNormSiluWithoutWeightsHasStatisticsOfTheInputsType) {
  RandomTensor x(DType::kF16, {2, 4, 3}, rng_, false, 2);
  ApiTensor y(DType::kF16, {2, 4, 3}), mean(DType::kF32, {2, 2}), rstd(DType::kF32, {2, 2});
  ExpectRefused(CALL(aclnnGroupNormSilu, x, nullptr, nullptr, 2, kEps, y, mean, rstd), 161002,
                {"meanOut has dtype f32", "f16"});
}

TEST_F(NormRows, RowsWithoutElementsHaveTheMeanZero) {
  for (const DType t : kFloats) {
    for (const Dims& dims : {Dims{2, 4, 0}, Dims{2, 0, 3}, Dims{0, 4, 3}, Dims{2, 4, 3, 0}}) {
      const int64_t n = dims[0], c = dims[1];
      ApiTensor x(t, dims), gamma(t, {c}), beta(t, {c}), y(t, dims), mean(t, {n, 2}, &rng_, true),
          rstd(t, {n, 2});
      int64_t pixels = 1;
      for (int i = 2; i < dims.rank(); ++i) pixels *= dims[i];
      const auto expect = [&](int code, const ApiTensor& m, const ApiTensor& r) {
        ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
        for (const double v : m.Get()) EXPECT_EQ(v, 0);
        for (const double v : r.Get()) EXPECT_TRUE(std::isnan(v));
      };
      expect(CALL(aclnnGroupNorm, x, gamma, beta, n, c, pixels, 2, kEps, y, mean, rstd), mean, rstd);
      mean.Set(std::vector<double>(static_cast<size_t>(2 * n), 7));
      expect(CALL(aclnnGroupNormSilu, x, gamma, beta, 2, kEps, y, mean, rstd), mean, rstd);
      Dims kept = dims;
      for (int i = 1; i < dims.rank(); ++i) kept[i] = 1;
      std::vector<int64_t> rows(dims.begin() + 1, dims.end());
      ApiTensor row_mean(t, kept), row_rstd(t, kept);
      expect(CALL(aclnnLayerNorm, x, ApiInts(rows), nullptr, nullptr, kEps, y, row_mean, row_rstd), row_mean,
             row_rstd);
      EXPECT_EQ(CALL(aclnnLayerNorm, x, ApiInts(rows), nullptr, nullptr, kEps, y, nullptr, nullptr), 0);
    }
  }
}

TEST_F(NormRows, InstanceNorm) {
  for (int round = 0; round < 16; ++round) {
    const DType t = kFloats[round % 2];
    const bool last = round % 4 < 2;
    const int64_t n = rng_.Int(1, 3), c = rng_.Int(1, 4), h = rng_.Int(1, 6), w = rng_.Int(1, 6);
    const Dims dims = last ? Dims{n, h, w, c} : Dims{n, c, h, w},
               kept = last ? Dims{n, 1, 1, c} : Dims{n, c, 1, 1};
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), gamma(t, {c}, rng_), beta(t, {c}, rng_);
    ApiTensor y(t, dims, &rng_, round % 3 == 2), mean(t, kept), variance(t, kept);
    ASSERT_EQ(CALL(aclnnInstanceNorm, x, gamma, beta, last ? "NHWC" : "NCHW", kEps, y, mean, variance), 0)
        << aclGetRecentErrMsg();
    auto moments = [&](int64_t image, int64_t channel) {
      std::vector<double> row;
      for (int64_t i = 0; i < h * w; ++i)
        row.push_back(last ? x[(image * h * w + i) * c + channel] : x[(image * c + channel) * h * w + i]);
      return MomentsOf(row, kEps);
    };
    const auto want = Make(dims, [&](const Index& at) {
      const int64_t channel = at[last ? 3 : 1];
      const Moments m = moments(at[0], channel);
      return (x(at) - m.mean) * m.rstd * gamma[channel] + beta[channel];
    });
    const auto variances =
        Make(kept, [&](const Index& at) { return moments(at[0], at[last ? 3 : 1]).variance; });
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t) << last;
    EXPECT_EQ(Compare(variance.Get(), variances, RowTolerances(variances, t)), "");
    ExpectGuards({&x, &y, &mean, &variance});
  }
}

TEST_F(NormRows, MaskedSoftmax) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), n = rng_.Int(1, 3), s = rng_.Int(1, 6), w = rng_.Int(1, 40);
    const Dims dims = {b, n, s, w}, mask_dims = {round % 2 ? b : 1, round % 4 < 2 ? n : 1, s, w};
    RandomTensor x(t, dims, rng_, round % 3 == 1), mask(DType::kBool, mask_dims, rng_), g(t, dims, rng_);
    ApiTensor y(t, dims), dx(t, dims, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnScaledMaskedSoftmax, x, mask, 0.5, false, y), 0) << aclGetRecentErrMsg();
    auto masked = [&](int64_t i) { return mask[BroadcastLinear(mask_dims, At(dims, i))] != 0; };
    std::vector<double> want, grads;
    for (int64_t r = 0; r < b * n * s; ++r) {
      double sum = 0, most = -1e30;
      auto value = [&](int64_t i) { return masked(r * w + i) ? -10000 : 0.5 * x[r * w + i]; };
      for (int64_t i = 0; i < w; ++i) most = std::max(most, value(i));
      for (int64_t i = 0; i < w; ++i) sum += std::exp(value(i) - most);
      for (int64_t i = 0; i < w; ++i) want.push_back(std::exp(value(i) - most) / sum);
    }
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t);
    const auto stored = y.Get();
    ASSERT_EQ(CALL(aclnnScaledMaskedSoftmaxBackward, g, y, mask, 0.5, false, dx), 0) << aclGetRecentErrMsg();
    for (int64_t r = 0; r < b * n * s; ++r) {
      double dot = 0;
      for (int64_t i = 0; i < w; ++i) dot += g[r * w + i] * stored[static_cast<size_t>(r * w + i)];
      for (int64_t i = 0; i < w; ++i) {
        const double v = 0.5 * stored[static_cast<size_t>(r * w + i)] * (g[r * w + i] - dot);
        grads.push_back(masked(r * w + i) ? 0 : v);
      }
    }
    EXPECT_EQ(Compare(dx.Get(), grads, RowTolerances(grads, t)), "") << Name(t);
    ExpectGuards({&x, &mask, &y, &dx});
  }
}

// The mask above the diagonal, in one band of rows and in several: what is above is exactly 0, also where all
// scores are far below.
TEST_F(NormRows, CausalSoftmax) {
  for (const auto& [s, w] :
       {std::pair<int64_t, int64_t>{1, 1}, {5, 9}, {9, 5}, {40, 40}, {150, 160}, {150, 20}}) {
    for (const DType t : kFloats) {
      const Dims dims = {2, 2, s, w};
      RandomTensor x(t, dims, rng_, s == 40), g(t, dims, rng_);
      ApiTensor y(t, dims, &rng_, s == 9), dx(t, dims, &rng_, s == 150);
      const double scale = 0.5;
      ASSERT_EQ(CALL(aclnnScaledMaskedSoftmax, x, nullptr, scale, true, y), 0) << aclGetRecentErrMsg();
      std::vector<double> want, grads;
      for (int64_t r = 0; r < 4 * s; ++r) {
        const int64_t seen = std::min(w, r % s + 1);
        double sum = 0, most = -1e300;
        for (int64_t i = 0; i < seen; ++i) most = std::max(most, scale * x[r * w + i]);
        for (int64_t i = 0; i < seen; ++i) sum += std::exp(scale * x[r * w + i] - most);
        for (int64_t i = 0; i < w; ++i)
          want.push_back(i < seen ? std::exp(scale * x[r * w + i] - most) / sum : 0);
      }
      const auto stored = y.Get();
      EXPECT_EQ(Compare(stored, want, RowTolerances(want, t)), "") << Name(t) << s;
      ASSERT_EQ(CALL(aclnnScaledMaskedSoftmaxBackward, g, y, nullptr, 0.5, true, dx), 0)
          << aclGetRecentErrMsg();
      for (int64_t r = 0; r < 4 * s; ++r) {
        double dot = 0;
        for (int64_t i = 0; i < w; ++i) dot += g[r * w + i] * stored[static_cast<size_t>(r * w + i)];
        for (int64_t i = 0; i < w; ++i) {
          const double v = 0.5 * stored[static_cast<size_t>(r * w + i)] * (g[r * w + i] - dot);
          grads.push_back(i <= r % s ? v : 0);
        }
      }
      EXPECT_EQ(Compare(dx.Get(), grads, RowTolerances(grads, t)), "") << Name(t) << s;
      ExpectGuards({&x, &g, &y, &dx});
    }
  }
  ApiTensor x(DType::kF32, {1, 1, 2, 2}), y(DType::kF32, {1, 1, 2, 2});
  x.Set({-30000, -30000, -30000, -30000});
  ASSERT_EQ(CALL(aclnnScaledMaskedSoftmax, x, nullptr, 1, true, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{1, 0, 0.5, 0.5}));
  ExpectRefused(CALL(aclnnScaledMaskedSoftmax, x, nullptr, 1, false, y), 161001, {"mask is null"});
}

TEST_F(NormRows, MaskedSoftmaxWithBias) {
  for (int round = 0; round < 16; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), w = rng_.Int(1, 3), n = rng_.Int(1, 3), s = rng_.Int(1, 4),
                  k = rng_.Int(1, 9);
    const bool five = round % 2, with_mask = round % 4 < 2;
    const Dims dims = five ? Dims{b, w, n, s, k} : Dims{b * w, n, s, k};
    RandomTensor x(t, dims, rng_, round % 3 == 1), mask(t, five ? Dims{1, w, 1, s, k} : Dims{w, s, k}, rng_),
        bias(t, five ? Dims{1, 1, n, s, k} : Dims{n, s, k}, rng_);
    ApiTensor y(t, dims, &rng_, round % 3 == 2);
    ASSERT_EQ(CALL(aclnnMaskedSoftmaxWithRelPosBias, x, OrNull(with_mask, mask), bias, 0.5, 0, y), 0)
        << aclGetRecentErrMsg();
    std::vector<double> want;
    for (int64_t r = 0; r < b * w * n * s; ++r) {
      const int64_t row = r % s, head = r / s % n, window = r / (s * n) % w;
      auto value = [&](int64_t i) {
        return 0.5 * x[r * k + i] + (with_mask ? mask[(window * s + row) * k + i] : 0) +
               bias[(head * s + row) * k + i];
      };
      double most = -1e30, sum = 0;
      for (int64_t i = 0; i < k; ++i) most = std::max(most, value(i));
      for (int64_t i = 0; i < k; ++i) sum += std::exp(value(i) - most);
      for (int64_t i = 0; i < k; ++i) want.push_back(std::exp(value(i) - most) / sum);
    }
    EXPECT_EQ(Compare(y.Get(), want, RowTolerances(want, t)), "") << Name(t);
    ExpectGuards({&x, &mask, &bias, &y});
  }
}

}  // namespace
}  // namespace opsnn::capi
