// Statistics gathered from devices, and gradients of adaptive and swish normalisations, against double
// arithmetic and its finite differences.
#include <cmath>

#include "aclnnop/aclnn_ada_layer_norm_backward.h"
#include "aclnnop/aclnn_batch_norm_gather_stats_with_counts.h"
#include "aclnnop/aclnn_group_norm_swish_grad.h"
#include "aclnnop/aclnn_sync_batch_norm_gather_stats.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

constexpr double kEps = 0.1;
using Values = std::vector<double>;

// Sums of a few hundred products of order 1 in f32, and the result's rounding.
Values Tolerances(const Values& want, DType t, double absolute = 0x1p-13) {
  Values tolerance;
  for (double v : want) tolerance.push_back(std::abs(v) * (testing::Epsilon(t) + 0x1p-16) + absolute);
  return tolerance;
}

class NormSync : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(NormSync, GatheredStatisticsAreThoseOfTheWhole) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t devices = rng_.Int(1, 5), c = rng_.Int(1, 6);
    const bool running = round % 4 != 3;
    Values counts, sums(static_cast<size_t>(devices * c)), squares(sums), means(sums), factors(sums);
    Values all_mean(static_cast<size_t>(c)), all_square(all_mean);
    double total = 0;
    for (int64_t d = 0; d < devices; ++d) {
      counts.push_back(static_cast<double>(rng_.Int(2, 9)));
      total += counts.back();
      for (int64_t ch = 0; ch < c; ++ch) {
        const auto at = static_cast<size_t>(d * c + ch);
        for (int i = 0; i < counts.back(); ++i) {
          const double v = rng_.Real(-2, 2);
          sums[at] += v, squares[at] += v * v;
        }
      }
    }
    ApiTensor sum(t, {devices, c}, &rng_, round % 3 == 1), square(t, {devices, c}, &rng_, round % 3 == 2),
        count(round % 2 ? DType::kS32 : t, {devices}), mean(t, {c}, &rng_, round % 3 == 1), variance(t, {c}),
        batch_mean(DType::kF32, {c}), rstd(DType::kF32, {c}), device_mean(t, {devices, c}),
        device_rstd(t, {devices, c}), float_count(t, {devices});
    sum.Set(sums), square.Set(squares), count.Set(counts), float_count.Set(counts);
    const Values stored_sums = sum.Get(), stored_squares = square.Get();
    Values old_mean, old_variance;
    for (int64_t i = 0; i < c; ++i)
      old_mean.push_back(0.25 * static_cast<double>(i)), old_variance.push_back(1);
    auto reset = [&] { mean.Set(old_mean), variance.Set(old_variance); };
    const float momentum = 0.25f, eps = static_cast<float>(kEps);
    auto check = [&](const Values& m, const Values& v, double e, bool merged) {
      Values want_rstd, want_mean, want_variance;
      for (size_t i = 0; i < m.size(); ++i) {
        want_rstd.push_back(1 / std::sqrt(v[i] + e));
        want_mean.push_back(merged ? 0.75 * old_mean[i] + 0.25 * m[i] : old_mean[i]);
        want_variance.push_back(merged ? 0.75 * old_variance[i] + 0.25 * v[i] * total / (total - 1)
                                       : old_variance[i]);
      }
      EXPECT_EQ(Compare(batch_mean.Get(), m, Tolerances(m, DType::kF32)), "") << Name(t);
      EXPECT_EQ(Compare(rstd.Get(), want_rstd, Tolerances(want_rstd, DType::kF32)), "") << Name(t);
      EXPECT_EQ(Compare(mean.Get(), want_mean, Tolerances(want_mean, t)), "") << Name(t);
      EXPECT_EQ(Compare(variance.Get(), want_variance, Tolerances(want_variance, t)), "") << Name(t);
    };
    reset();
    ASSERT_EQ(CALL(aclnnSyncBatchNormGatherStats, sum, square, count, mean, variance, momentum, eps,
                   batch_mean, rstd),
              0)
        << aclGetRecentErrMsg();
    Values m, v;
    for (int64_t ch = 0; ch < c; ++ch) {
      double s = 0, q = 0;
      for (int64_t d = 0; d < devices; ++d) {
        s += stored_sums[static_cast<size_t>(d * c + ch)],
            q += stored_squares[static_cast<size_t>(d * c + ch)];
      }
      m.push_back(s / total), v.push_back(std::max(0.0, q / total - s / total * (s / total)));
    }
    check(m, v, eps, true);
    // The same from the devices' own statistics.
    for (size_t i = 0; i < sums.size(); ++i) {
      const double n = counts[i / static_cast<size_t>(c)];
      means[i] = sums[i] / n;
      factors[i] = 1 / std::sqrt(squares[i] / n - means[i] * means[i] + kEps);
    }
    device_mean.Set(means), device_rstd.Set(factors);
    const Values stored_means = device_mean.Get(), stored_factors = device_rstd.Get();
    reset();
    RandomTensor x(t, {2, c, 3}, rng_);
    ASSERT_EQ(CALL(aclnnBatchNormGatherStatsWithCounts, x, device_mean, device_rstd, OrNull(running, mean),
                   OrNull(running, variance), 0.25, kEps, float_count, batch_mean, rstd),
              0)
        << aclGetRecentErrMsg();
    for (int64_t ch = 0; ch < c; ++ch) {
      double s = 0, q = 0;
      for (size_t d = 0; d < counts.size(); ++d) {
        const size_t at = d * static_cast<size_t>(c) + static_cast<size_t>(ch);
        const double f = stored_factors[at], own = 1 / f / f - kEps;
        s += counts[d] * stored_means[at];
        q += counts[d] * (own + stored_means[at] * stored_means[at]);
      }
      const auto k = static_cast<size_t>(ch);
      m[k] = s / total, v[k] = q / total - m[k] * m[k];
    }
    check(m, v, kEps, running);
    ExpectGuards({&sum, &square, &count, &mean, &variance, &batch_mean, &rstd});
  }
  RandomTensor a(DType::kF32, {2, 3}, rng_), b(DType::kF32, {2, 2}, rng_), n(DType::kF32, {2}, rng_),
      c(DType::kF32, {3}, rng_), v(DType::kF32, {3}, rng_), none(DType::kF32, {0, 3}, rng_),
      nobody(DType::kF32, {0}, rng_);
  ApiTensor m(DType::kF32, {3}), r(DType::kF32, {3});
  ExpectRefused(CALL(aclnnSyncBatchNormGatherStats, a, b, n, c, v, 0.1f, 0.1f, m, r), 161002,
                {"totalSquareSum has shape [2,2]"});
  ExpectRefused(CALL(aclnnSyncBatchNormGatherStats, a, a, c, c, v, 0.1f, 0.1f, m, r), 161002,
                {"sampleCount has shape [3]", "[2]"});
  ExpectRefused(CALL(aclnnSyncBatchNormGatherStats, none, none, nobody, c, v, 0.1f, 0.1f, m, r), 161002,
                {"totalSum is of shape [0,3]"});
  ExpectRefused(CALL(aclnnBatchNormGatherStatsWithCounts, a, a, b, nullptr, nullptr, 0.1, 0.1, n, m, r),
                161002, {"invstd has shape [2,2]", "[2,3]"});
}

// Sum of weights * z * (1 + scale) + shift over a sequence of rows, z the normalised rows times w plus b.
struct Adaptive {
  int64_t s, h;
  Values x, scale, shift, w, b, g;
  double Loss() const {
    double loss = 0;
    for (int64_t r = 0; r < s; ++r) {
      double mean = 0, square = 0;
      for (int64_t i = 0; i < h; ++i) mean += At(r, i) / static_cast<double>(h);
      for (int64_t i = 0; i < h; ++i)
        square += (At(r, i) - mean) * (At(r, i) - mean) / static_cast<double>(h);
      const double rstd = 1 / std::sqrt(square + kEps);
      for (int64_t i = 0; i < h; ++i) {
        const auto k = static_cast<size_t>(i);
        const double z = (At(r, i) - mean) * rstd * w[k] + b[k];
        loss += g[static_cast<size_t>(r * h + i)] * (z * (1 + scale[k]) + shift[k]);
      }
    }
    return loss;
  }
  double At(int64_t r, int64_t i) const { return x[static_cast<size_t>(r * h + i)]; }
  // d(Loss) / d(one value of a member).
  double Slope(Values Adaptive::*member, size_t i) {
    double sides[2];
    const double kept = (this->*member)[i];
    for (int side : {0, 1}) {
      (this->*member)[i] = kept + (side ? 1e-5 : -1e-5);
      sides[side] = Loss();
    }
    (this->*member)[i] = kept;
    return (sides[1] - sides[0]) / 2e-5;
  }
};

TEST_F(NormSync, AdaLayerNormBackwardIsTheDerivative) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), s = rng_.Int(1, 4), h = rng_.Int(2, 12);
    const bool unit = round % 2, affine = round % 4 != 1;
    const Dims dims = {b, s, h}, per = unit ? Dims{b, 1, h} : Dims{b, h};
    RandomTensor dy(t, dims, rng_, round % 3 == 1, 2), x(t, dims, rng_, round % 3 == 2, 2),
        scale(t, per, rng_), shift(t, per, rng_), w(DType::kF32, {h}, rng_), bias(DType::kF32, {h}, rng_);
    const DType saved = round % 5 == 0 ? DType::kF32 : t;
    ApiTensor mean(saved, {b, s, 1}), rstd(saved, {b, s, 1}), dx(t, dims, &rng_, round % 4 == 1),
        dscale(t, per), dshift(t, per), dw(DType::kF32, {h}), db(DType::kF32, {h});
    Values means, factors, want, want_scale, want_shift, want_w(static_cast<size_t>(h)), want_b(want_w);
    for (int64_t i = 0; i < b; ++i) {
      const int64_t at = i * s * h;
      auto part = [](const RandomTensor& from, int64_t begin, int64_t count) {
        return Values(from.values().begin() + begin, from.values().begin() + begin + count);
      };
      Adaptive a{s,
                 h,
                 part(x, at, s * h),
                 part(scale, i * h, h),
                 part(shift, i * h, h),
                 w.values(),
                 bias.values(),
                 part(dy, at, s * h)};
      if (!affine) a.w.assign(static_cast<size_t>(h), 1), a.b.assign(static_cast<size_t>(h), 0);
      for (size_t k = 0; k < a.x.size(); ++k) want.push_back(a.Slope(&Adaptive::x, k));
      for (size_t k = 0; k < static_cast<size_t>(h); ++k) {
        want_scale.push_back(a.Slope(&Adaptive::scale, k));
        want_shift.push_back(a.Slope(&Adaptive::shift, k));
        want_w[k] += a.Slope(&Adaptive::w, k), want_b[k] += a.Slope(&Adaptive::b, k);
      }
      for (int64_t r = 0; r < s; ++r) {
        double m = 0, q = 0;
        for (int64_t k = 0; k < h; ++k) m += a.At(r, k) / static_cast<double>(h);
        for (int64_t k = 0; k < h; ++k) q += (a.At(r, k) - m) * (a.At(r, k) - m) / static_cast<double>(h);
        means.push_back(m), factors.push_back(1 / std::sqrt(q + kEps));
      }
    }
    mean.Set(means), rstd.Set(factors);
    ApiInts shape({h});
    ASSERT_EQ(CALL(aclnnAdaLayerNormBackward, dy, x, shape, rstd, mean, scale, shift, OrNull(affine, w),
                   OrNull(affine, bias), dx, dscale, dshift, OrNull(affine, dw), OrNull(affine, db)),
              0)
        << aclGetRecentErrMsg();
    // Saved statistics of halves move the normalised values by their own rounding.
    auto loose = [&](const Values& v) {
      Values tolerance = Tolerances(v, t, 1e-3);
      for (double& e : tolerance) e += t == DType::kF32 ? 0 : testing::Epsilon(t) * 4 * 64;
      return tolerance;
    };
    EXPECT_EQ(Compare(dx.Get(), want, loose(want)), "") << Name(t);
    EXPECT_EQ(Compare(dscale.Get(), want_scale, loose(want_scale)), "") << Name(t);
    EXPECT_EQ(Compare(dshift.Get(), want_shift, loose(want_shift)), "") << Name(t);
    if (affine) {
      EXPECT_EQ(Compare(dw.Get(), want_w, loose(want_w)), "") << Name(t);
      EXPECT_EQ(Compare(db.Get(), want_b, loose(want_b)), "") << Name(t);
    }
    ExpectGuards({&dy, &x, &dx, &dscale, &dshift, &dw, &db});
    ApiInts wrong({h, 1});
    ApiTensor wrong_shape(t, {h});
    ExpectRefused(CALL(aclnnAdaLayerNormBackward, dy, x, wrong, rstd, mean, scale, shift, w, bias, dx, dscale,
                       dshift, dw, db),
                  161002, {"normalizedShape"});
    ExpectRefused(CALL(aclnnAdaLayerNormBackward, dy, x, shape, rstd, mean, scale, shift, w, bias, dx,
                       wrong_shape, dshift, dw, db),
                  161002, {"gradScaleOut has"});
  }
}

TEST_F(NormSync, GroupNormSwishGradIsTheDerivative) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t n = rng_.Int(1, 3), groups = rng_.Int(1, 3), d = rng_.Int(1, 3), c = groups * d,
                  s = rng_.Int(1, 7);
    const double swish = round % 2 ? 1 : 0.5;
    const Dims dims = {n, c, s};
    RandomTensor dy(t, dims, rng_, round % 3 == 1, 2), x(t, dims, rng_, round % 3 == 2, 2),
        gamma(t, {c}, rng_, false, 2), beta(t, {c}, rng_, false, 2);
    ApiTensor mean(t, {n, groups}), rstd(t, {n, groups}), dx(t, dims, &rng_, round % 4 == 1), dgamma(t, {c}),
        dbeta(t, {c});
    // The statistics as stored: the gradient of the input treats them as the forward pass did.
    Values means, factors;
    const int64_t each = d * s;
    for (int64_t g = 0; g < n * groups; ++g) {
      double m = 0, q = 0;
      for (int64_t i = 0; i < each; ++i) m += x[g * each + i] / static_cast<double>(each);
      for (int64_t i = 0; i < each; ++i)
        q += (x[g * each + i] - m) * (x[g * each + i] - m) / static_cast<double>(each);
      means.push_back(m), factors.push_back(1 / std::sqrt(q + kEps));
    }
    mean.Set(means), rstd.Set(factors);
    means = mean.Get(), factors = rstd.Get();
    Values want, want_gamma(static_cast<size_t>(c)), want_beta(want_gamma);
    for (int64_t g = 0; g < n * groups; ++g) {
      const double m = means[static_cast<size_t>(g)], f = factors[static_cast<size_t>(g)];
      Values grads, rows;
      double average = 0, along = 0;
      for (int64_t i = 0; i < each; ++i) {
        const auto channel = static_cast<size_t>(g % groups * d + i / s);
        const double v = (x[g * each + i] - m) * f, a = gamma[static_cast<int64_t>(channel)],
                     z = v * a + beta[static_cast<int64_t>(channel)];
        auto y = [&](double at) { return at / (1 + std::exp(-swish * at)); };
        const double dz = dy[g * each + i] * (y(z + 1e-6) - y(z - 1e-6)) / 2e-6;
        want_gamma[channel] += dz * v, want_beta[channel] += dz;
        rows.push_back(v), grads.push_back(dz * a);
        average += grads.back() / static_cast<double>(each);
        along += grads.back() * v / static_cast<double>(each);
      }
      for (size_t i = 0; i < rows.size(); ++i) want.push_back((grads[i] - average - rows[i] * along) * f);
    }
    char format[] = "NCHW";
    ASSERT_EQ(CALL(aclnnGroupNormSwishGrad, dy, mean, rstd, x, gamma, beta, groups, format, swish, true, true,
                   dx, dgamma, dbeta),
              0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t);
    EXPECT_EQ(Compare(dgamma.Get(), want_gamma, Tolerances(want_gamma, t)), "") << Name(t);
    EXPECT_EQ(Compare(dbeta.Get(), want_beta, Tolerances(want_beta, t)), "") << Name(t);
    // What is not asked for stays as it is.
    const Values before(static_cast<size_t>(c), 1);
    dgamma.Set(before), dbeta.Set(before);
    ASSERT_EQ(CALL(aclnnGroupNormSwishGrad, dy, mean, rstd, x, gamma, beta, groups, format, swish, false,
                   false, dx, dgamma, dbeta),
              0);
    EXPECT_EQ(dgamma.Get(), before);
    EXPECT_EQ(dbeta.Get(), before);
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t);
    ExpectGuards({&dy, &x, &dx, &dgamma, &dbeta});
    ExpectRefused(CALL(aclnnGroupNormSwishGrad, dy, mean, rstd, x, gamma, beta, c + 1, format, swish, true,
                       true, dx, dgamma, dbeta),
                  161002, {"numGroups is"});
  }
}

}  // namespace
}  // namespace opsnn::capi
