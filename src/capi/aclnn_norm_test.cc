// Normalisations and image functions, against double arithmetic.
#include <cmath>

#include "aclnnop/aclnn_add_rms_norm.h"
#include "aclnnop/aclnn_avgpool2d.h"
#include "aclnnop/aclnn_batch_norm.h"
#include "aclnnop/aclnn_group_norm.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_upsample_nearest_2d.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Norms : public ApiTest {
 protected:
  Rng rng_;
};

// Values of order 1 after a row of `count` was reduced in f32; inputs of magnitude up to `size`.
double RowTolerance(double want, DType t, int64_t count, double size = 8) {
  return (8 + 2 * std::sqrt(static_cast<double>(count))) * size * 0x1p-24 +
         std::abs(want) * testing::Epsilon(t) + 0x1p-25;
}

TEST_F(Norms, RmsNormAndAddRmsNorm) {
  for (int round = 0; round < 40; ++round) {
    const DType t = kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 4, 1500);
    const int rows = static_cast<int>(rng_.Int(1, dims.rank()));
    Dims gamma_dims, kept = dims;
    int64_t n = 1;
    for (int i = dims.rank() - rows; i < dims.rank(); ++i)
      gamma_dims.push_back(dims[i]), n *= dims[i], kept[i] = 1;
    const bool add = round % 2;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, round % 4 == 1, 2);
    RandomTensor gamma(!add && round % 4 == 0 ? DType::kF32 : t, gamma_dims, rng_, round % 5 == 1, 2);
    ApiTensor y(t, dims, &rng_, round % 4 == 2), rstd(DType::kF32, kept, &rng_),
        sum(t, dims, &rng_, round % 3 == 2);
    const double eps = 1e-3;
    ASSERT_EQ(add ? CALL(aclnnAddRmsNorm, x, x2, gamma, eps, y, rstd, sum)
                  : CALL(aclnnRmsNorm, x, gamma, eps, y, rstd),
              0)
        << aclGetRecentErrMsg();
    auto value = [&](int64_t i) { return x[i] + (add ? x2[i] : 0); };
    std::vector<double> factors, factor_tolerance, want, tolerance, sums;
    for (int64_t r = 0; r < NumElements(kept); ++r) {
      double square = 0;
      for (int64_t i = 0; i < n; ++i) square += value(r * n + i) * value(r * n + i);
      factors.push_back(1 / std::sqrt(square / static_cast<double>(n) + eps));
      factor_tolerance.push_back(factors.back() * 0x1p-24 * (16 + 2 * std::sqrt(static_cast<double>(n))));
      for (int64_t i = 0; i < n; ++i) {
        want.push_back(value(r * n + i) * factors.back() * gamma[i]);
        tolerance.push_back(std::abs(want.back()) * (0x1p-24 * (20 + 2 * std::sqrt(static_cast<double>(n))) +
                                                     testing::Epsilon(t)) +
                            0x1p-25);
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << " add " << add;
    EXPECT_EQ(Compare(rstd.Get(), factors, factor_tolerance), "");
    if (add) {
      for (int64_t i = 0; i < NumElements(dims); ++i) sums.push_back(value(i));
      EXPECT_EQ(Compare(sum.Get(), sums, PointwiseTolerance(sums, t)), "");
    }
    ExpectGuards({&x, &x2, &gamma, &y, &rstd, &sum});
  }
}

TEST_F(Norms, RmsNormRefuses) {
  RandomTensor x(DType::kF16, {2, 3}, rng_), gamma(DType::kF16, {3}, rng_), row(DType::kF16, {1, 3}, rng_);
  RandomTensor wide(DType::kF16, {4}, rng_), other(DType::kBF16, {3}, rng_);
  ApiTensor y(DType::kF16, {2, 3}), rstd(DType::kF32, {2, 1}), flat(DType::kF32, {2}),
      sum(DType::kF16, {2, 3});
  ExpectRefused(CALL(aclnnRmsNorm, x, wide, 1e-6, y, rstd), 161002, {"gamma has shape [4]", "[2,3]"});
  ExpectRefused(CALL(aclnnRmsNorm, x, other, 1e-6, y, rstd), 161002, {"gamma has dtype bf16", "f16"});
  ExpectRefused(CALL(aclnnRmsNorm, x, gamma, 1e-6, y, flat), 161002, {"rstdOut has shape [2]", "[2,1]"});
  ExpectRefused(CALL(aclnnRmsNorm, x, gamma, -1.0, y, rstd), 161002, {"epsilon is -1"});
  ExpectRefused(CALL(aclnnRmsNorm, x, nullptr, 1e-6, y, rstd), 161001, {"gamma is null"});
  ExpectRefused(CALL(aclnnAddRmsNorm, x, x, gamma, 1e-6, y, rstd, nullptr), 161001, {"xOut is null"});
  EXPECT_EQ(CALL(aclnnAddRmsNorm, x, x, row, 1e-6, y, nullptr, nullptr), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(CALL(aclnnAddRmsNorm, x, x, row, 1e-6, y, nullptr, sum), 0) << aclGetRecentErrMsg();
}

TEST_F(Norms, GroupNorm) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t groups = rng_.Int(1, 4), each = rng_.Int(1, 3), n = rng_.Int(round % 9 ? 1 : 0, 3),
                  c = groups * each;
    Dims dims = {n, c};
    int64_t s = 1;
    for (int64_t i = rng_.Int(0, 2); i > 0; --i) dims.push_back(rng_.Int(1, 7)), s *= dims.back();
    RandomTensor x(t, dims, rng_, round % 2, 2), gamma(t, {c}, rng_, round % 3 == 1, 2),
        beta(t, {c}, rng_, false, 2);
    ApiTensor y(t, dims, &rng_, round % 3 == 1), mean(t, {n, groups}, &rng_, round % 4 == 1),
        rstd(t, {n, groups});
    const double eps = 0.1;
    ASSERT_EQ(CALL(aclnnGroupNorm, x, gamma, beta, n, c, s, groups, eps, y, mean, rstd), 0)
        << aclGetRecentErrMsg();
    std::vector<double> want, tolerance, means, factors;
    for (int64_t g = 0; g < n * groups; ++g) {
      double sum = 0, square = 0;
      for (int64_t i = 0; i < each * s; ++i) sum += x[g * each * s + i];
      const double average = sum / static_cast<double>(each * s);
      for (int64_t i = 0; i < each * s; ++i) square += std::pow(x[g * each * s + i] - average, 2);
      means.push_back(average);
      factors.push_back(1 / std::sqrt(square / static_cast<double>(each * s) + eps));
      for (int64_t i = 0; i < each * s; ++i) {
        const int64_t channel = g % groups * each + i / s;
        want.push_back((x[g * each * s + i] - average) * factors.back() * gamma[channel] + beta[channel]);
        tolerance.push_back(RowTolerance(want.back(), t, each * s, 32));
      }
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t);
    EXPECT_EQ(Compare(mean.Get(), means, 64 * 0x1p-24, testing::Epsilon(t)), "");  // terms cancel
    EXPECT_EQ(Compare(rstd.Get(), factors, PointwiseTolerance(factors, t, 64)), "");
    ExpectGuards({&x, &gamma, &beta, &y, &mean, &rstd});
  }
  RandomTensor x(DType::kF32, {2, 6, 5}, rng_), gamma(DType::kF32, {6}, rng_), few(DType::kF32, {5}, rng_);
  ApiTensor y(DType::kF32, {2, 6, 5}), m(DType::kF32, {2, 3}), r(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnGroupNorm, x, gamma, gamma, 2, 6, 5, 4, 1e-5, y, m, r), 161002,
                {"group is 4", "6"});
  ExpectRefused(CALL(aclnnGroupNorm, x, gamma, gamma, 2, 6, 4, 3, 1e-5, y, m, r), 161002,
                {"HxW", "2, 6 and 5"});
  ExpectRefused(CALL(aclnnGroupNorm, x, few, gamma, 2, 6, 5, 3, 1e-5, y, m, r), 161002,
                {"gamma has shape [5]"});
  ExpectRefused(CALL(aclnnGroupNorm, x, gamma, gamma, 2, 6, 5, 3, 0.0, y, m, r), 161002,
                {"eps is 0", "above 0"});
}

TEST_F(Norms, BatchNorm) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3], p = round % 2 ? t : DType::kF32;
    const int64_t n = rng_.Int(1, 4), c = rng_.Int(1, 5);
    Dims dims = {n, c};
    int64_t s = 1;
    for (int64_t i = rng_.Int(0, 3); i > 0; --i) dims.push_back(rng_.Int(1, 6)), s *= dims.back();
    const bool training = round % 4 < 2 && n * s > 1, affine = round % 5 != 1;
    RandomTensor x(t, dims, rng_, round % 2, 2), w(p, {c}, rng_, false, 2), b(p, {c}, rng_, false, 2);
    RandomTensor old_mean(p, {c}, rng_, round % 3 == 1, 2), old_var(p, {c}, rng_, false, 2);
    std::vector<double> positive = old_var.values();
    for (double& v : positive) v = std::abs(v) + 0.5;
    old_var.Set(positive);
    positive = old_var.Get();
    ApiTensor y(t, dims, &rng_, round % 3 == 2), mean(p, {c}), rstd(p, {c});
    const double momentum = 0.25, eps = 0.1;
    ASSERT_EQ(CALL(aclnnBatchNorm, x, OrNull(affine, w), OrNull(affine, b), old_mean, old_var, training,
                   momentum, eps, y, mean, rstd),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> means, factors, running_mean, running_var;
    const auto count = static_cast<double>(n * s);
    for (int64_t ch = 0; ch < c; ++ch) {
      double sum = 0, square = 0;
      for (int64_t i = 0; i < n * s; ++i) sum += x[(i / s * c + ch) * s + i % s];
      for (int64_t i = 0; i < n * s; ++i)
        square += std::pow(x[(i / s * c + ch) * s + i % s] - sum / count, 2);
      means.push_back(training ? sum / count : old_mean[ch]);
      const double variance = training ? square / count : positive[static_cast<size_t>(ch)];
      factors.push_back(1 / std::sqrt(variance + eps));
      running_mean.push_back(0.75 * old_mean[ch] + 0.25 * means.back());
      running_var.push_back(0.75 * positive[static_cast<size_t>(ch)] +
                            0.25 * (count > 1 ? square / (count - 1) : variance));
    }
    std::vector<double> tolerance;
    const auto want = Make(dims, [&](const Index& at) {
      const auto ch = static_cast<size_t>(at[1]);
      const double v = (x(at) - means[ch]) * factors[ch] * (affine ? w[at[1]] : 1) + (affine ? b[at[1]] : 0);
      tolerance.push_back(RowTolerance(v, t, n * s, 32));
      return v;
    });
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << " training " << training;
    if (training) {
      EXPECT_EQ(Compare(mean.Get(), means, 64 * 0x1p-24, testing::Epsilon(p)), "");  // terms cancel
      EXPECT_EQ(Compare(rstd.Get(), factors, PointwiseTolerance(factors, p, 64)), "");
      EXPECT_EQ(Compare(old_mean.Get(), running_mean, 64 * 0x1p-24, testing::Epsilon(p)), "");
      EXPECT_EQ(Compare(old_var.Get(), running_var, 64 * 0x1p-24, testing::Epsilon(p)), "");
    } else {
      EXPECT_EQ(old_mean.Get(), old_mean.values());
    }
    ExpectGuards({&x, &w, &b, &old_mean, &old_var, &y, &mean, &rstd});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_), w(DType::kF32, {2}, rng_), c(DType::kF32, {3}, rng_),
      v(DType::kF32, {3}, rng_);
  ApiTensor y(DType::kF32, {2, 3}), m(DType::kF32, {3}), r(DType::kF32, {3});
  ExpectRefused(CALL(aclnnBatchNorm, x, w, c, c, v, false, 0.1, 1e-5, y, m, r), 161002,
                {"weight has shape [2]"});
  ExpectRefused(CALL(aclnnBatchNorm, m, w, w, c, v, false, 0.1, 1e-5, y, m, r), 161002, {"input has 1 dims"});
}

TEST_F(Norms, AvgPool2d) {
  for (int round = 0; round < 30; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t n = rng_.Int(1, 2), c = rng_.Int(1, 3), h = rng_.Int(4, 12), w = rng_.Int(4, 12);
    const int64_t kh = rng_.Int(1, 4), kw = rng_.Int(1, 4), ph = rng_.Int(0, kh / 2),
                  pw = rng_.Int(0, kw / 2);
    const int64_t sh = rng_.Int(1, 3), sw = rng_.Int(1, 3), divisor = round % 4 == 1 ? rng_.Int(1, 9) : 0;
    const bool ceil = round % 3 == 2, include = round % 2;
    auto size = [ceil](int64_t in, int64_t k, int64_t p, int64_t s) {
      int64_t out = (in + 2 * p - k + (ceil ? s - 1 : 0)) / s + 1;
      return ceil && (out - 1) * s >= in + p ? out - 1 : out;
    };
    const int64_t oh = size(h, kh, ph, sh), ow = size(w, kw, pw, sw);
    const bool batched = round % 5 != 0;
    RandomTensor x(t, batched ? Dims{n, c, h, w} : Dims{c, h, w}, rng_, round % 2, 2);
    const Dims out = batched ? Dims{n, c, oh, ow} : Dims{c, oh, ow};
    ApiTensor y(t, out, &rng_, round % 3 == 1);
    ApiInts kernel({kh, kw}), strides({sh, sw}), pads({ph, pw});
    ASSERT_EQ(CALL(aclnnAvgPool2d, x, kernel, strides, pads, ceil, include, divisor, 0, y), 0)
        << aclGetRecentErrMsg();
    const auto want = Make(out, [&](const Index& at) {
      const int64_t image = Linear(out, at) / (oh * ow), top = at[at.size() - 2] * sh - ph,
                    left = at.back() * sw - pw;
      const int64_t bottom = std::min(top + kh, h + ph), right = std::min(left + kw, w + pw);
      double sum = 0;
      int64_t inside = 0;
      for (int64_t i = std::max<int64_t>(top, 0); i < std::min(bottom, h); ++i) {
        for (int64_t j = std::max<int64_t>(left, 0); j < std::min(right, w); ++j)
          sum += x[(image * h + i) * w + j], ++inside;
      }
      return sum / static_cast<double>(divisor   ? divisor
                                       : include ? (bottom - top) * (right - left)
                                                 : inside);
    });
    EXPECT_EQ(Compare(y.Get(), want, 64 * 0x1p-24, testing::Epsilon(t) + 0x1p-22), "") << Name(t);
    ExpectGuards({&x, &y});
  }
  RandomTensor x(DType::kF32, {1, 1, 4, 4}, rng_);
  ApiTensor y(DType::kF32, {1, 1, 3, 3});
  ApiInts two({2, 2}), one({1}), zero({0}), none({});
  ExpectRefused(CALL(aclnnAvgPool2d, x, two, one, two, false, true, 0, 0, y), 161002,
                {"paddings", "2", "at most 1"});
  ExpectRefused(CALL(aclnnAvgPool2d, x, none, one, zero, false, true, 0, 0, y), 161002,
                {"kernelSize has 0 values"});
  ExpectRefused(CALL(aclnnAvgPool2d, x, two, zero, zero, false, true, 0, 0, y), 161002, {"strides", "0"});
  ExpectRefused(CALL(aclnnAvgPool2d, x, two, none, zero, false, true, 0, 0, y), 161002,
                {"out has shape [1,1,3,3]"});
  // Dims need no memory behind them: nothing is made in their size.
  const auto huge = [](int64_t height, int64_t width) {
    const int64_t dims[] = {1, 1, height, width};
    return aclCreateTensor(dims, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 4, nullptr);
  };
  aclTensor *square = huge(1 << 20, 1 << 20), *line = huge(1, int64_t{1} << 40);
  ExpectRefused(CALL(aclnnAvgPool2d, x, two, one, zero, false, true, 3, 0, square), 161002,
                {"out has shape [1,1,1048576,1048576]", "[1,1,3,3]"});
  ExpectRefused(CALL(aclnnAvgPool2d, line, one, one, zero, false, true, 3, 0, line), 361001,
                {"no memory for a constant of shape [1,1,1,1099511627776]"});
  EXPECT_EQ(aclnnAvgPool2dGetWorkspaceSize(square, one, one, zero, false, true, 3, 0, square,
                                           &workspace_size_, &executor_),
            0);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  aclDestroyTensor(square);
  aclDestroyTensor(line);
}

TEST_F(Norms, UpsampleNearest2d) {
  for (int round = 0; round < 15; ++round) {
    const int64_t c = rng_.Int(1, 3), h = rng_.Int(1, 6), w = rng_.Int(1, 6), oh = rng_.Int(1, 13),
                  ow = rng_.Int(1, 13);
    RandomTensor x(round % 5 == 4 ? DType::kU8 : kFloats[round % 3], {2, c, h, w}, rng_, round % 2);
    ApiTensor y(x.dtype(), {2, c, oh, ow}, &rng_, round % 3 == 1);
    ApiInts size({oh, ow});
    ASSERT_EQ(CALL(aclnnUpsampleNearest2d, x, size, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(y.dims(), [&](Index at) {
                at[2] = at[2] * h / oh, at[3] = at[3] * w / ow;
                return x(at);
              }));
    ExpectGuards({&x, &y});
  }
}

}  // namespace
}  // namespace opsnn::capi
