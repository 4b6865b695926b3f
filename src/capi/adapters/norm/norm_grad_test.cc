// Gradients of normalisations, against double arithmetic that is itself held against finite differences.
#include <cmath>

#include "aclnnop/aclnn_add_layer_norm_grad.h"
#include "aclnnop/aclnn_batch_norm_backward.h"
#include "aclnnop/aclnn_batch_norm_backward_reduce.h"
#include "aclnnop/aclnn_batch_norm_elemt.h"
#include "aclnnop/aclnn_batch_norm_elemt_backward.h"
#include "aclnnop/aclnn_batch_norm_reduce.h"
#include "aclnnop/aclnn_deep_norm_grad.h"
#include "aclnnop/aclnn_group_norm_backward.h"
#include "aclnnop/aclnn_layer_norm_backward.h"
#include "aclnnop/aclnn_rms_norm_grad.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

constexpr double kEps = 0.1;

// A row normalised: y = (x - mean) * rstd, or x * rstd without centring.
struct Row {
  std::vector<double> x;
  bool centred = true;
  double mean = 0, rstd = 0;
  void Statistics() {
    const auto n = static_cast<double>(x.size());
    double square = 0;
    mean = 0;
    for (double v : x) mean += centred ? v / n : 0;
    for (double v : x) square += (v - mean) * (v - mean) / n;
    rstd = 1 / std::sqrt(square + kEps);
  }
  double Normalised(size_t i) const { return (x[i] - mean) * rstd; }
  // d(sum of g * y) / dx.
  std::vector<double> Gradient(const std::vector<double>& g) const {
    const auto n = static_cast<double>(x.size());
    double average = 0, along = 0;
    for (size_t i = 0; i < x.size(); ++i) average += g[i] / n, along += g[i] * Normalised(i) / n;
    std::vector<double> dx;
    for (size_t i = 0; i < x.size(); ++i)
      dx.push_back((g[i] - (centred ? average : 0) - Normalised(i) * along) * rstd);
    return dx;
  }
};

std::vector<double> Tolerances(const std::vector<double>& want, DType t, double absolute = 0x1p-13) {
  std::vector<double> tolerance;
  for (double v : want) tolerance.push_back(std::abs(v) * (testing::Epsilon(t) + 0x1p-16) + absolute);
  return tolerance;
}

aclBoolArray* Mask(bool a, bool b, bool c) {
  const bool mask[] = {a, b, c};
  return aclCreateBoolArray(mask, 3);
}

class NormGradients : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(NormGradients, ReferenceIsADerivative) {
  for (bool centred : {true, false}) {
    Row row{{}, centred};
    std::vector<double> g;
    for (int i = 0; i < 7; ++i) row.x.push_back(rng_.Real(-2, 2)), g.push_back(rng_.Real(-2, 2));
    row.Statistics();
    const std::vector<double> want = row.Gradient(g);
    for (size_t i = 0; i < row.x.size(); ++i) {
      double sides[2];
      for (int side : {0, 1}) {
        Row moved = row;
        moved.x[i] += side ? 1e-6 : -1e-6;
        moved.Statistics();
        sides[side] = 0;
        for (size_t k = 0; k < g.size(); ++k) sides[side] += g[k] * moved.Normalised(k);
      }
      EXPECT_NEAR((sides[1] - sides[0]) / 2e-6, want[i], 1e-6);
    }
  }
}

TEST_F(NormGradients, Rows) {
  for (int round = 0; round < 40; ++round) {
    const DType t = kFloats[round % 3];
    const int kind = round % 4;  // layer, RMS, sum of two, deep
    const Dims dims = rng_.Shape(2, 4, 400);
    const int rows = static_cast<int>(rng_.Int(1, dims.rank() - 1));
    Dims g, kept = dims, lead;
    int64_t n = 1;
    for (int i = 0; i < dims.rank(); ++i) {
      if (i < dims.rank() - rows) {
        lead.push_back(dims[i]);
      } else {
        g.push_back(dims[i]), n *= dims[i], kept[i] = 1;
      }
    }
    const double alpha = kind == 3 ? 1.5 : 1;
    RandomTensor dy(t, dims, rng_, round % 3 == 1, 2), x(t, dims, rng_, round % 3 == 2, 2),
        x2(t, dims, rng_, false, 2), gamma(t, g, rng_), dsum(t, dims, rng_);
    ApiTensor mean(DType::kF32, kept), rstd(DType::kF32, kind == 1 ? lead : kept),
        dx(t, dims, &rng_, round % 5 == 1), dx2(t, dims), dgamma(kind == 0 ? t : DType::kF32, g),
        dbeta(kind == 0 ? t : DType::kF32, g);
    std::vector<Row> all;
    std::vector<double> means, factors;
    for (int64_t r = 0; r < NumElements(kept); ++r) {
      Row row;
      row.centred = kind != 1;
      for (int64_t i = 0; i < n; ++i) row.x.push_back(alpha * x[r * n + i] + (kind >= 2 ? x2[r * n + i] : 0));
      row.Statistics();
      means.push_back(row.mean), factors.push_back(row.rstd);
      all.push_back(std::move(row));
    }
    mean.Set(means), rstd.Set(factors);
    int code = 0;
    ApiInts shape(std::vector<int64_t>(g.begin(), g.end()));
    if (kind == 0)
      code = CALL(aclnnLayerNormBackward, dy, x, shape, mean, rstd, gamma, nullptr, Mask(true, true, true),
                  dx, dgamma, dbeta);
    if (kind == 1) code = CALL(aclnnRmsNormGrad, dy, x, rstd, gamma, dx, dgamma);
    if (kind == 2) code = CALL(aclnnAddLayerNormGrad, dy, x, x2, rstd, mean, gamma, dsum, dx, dgamma, dbeta);
    if (kind == 3)
      code = CALL(aclnnDeepNormGrad, dy, x, x2, gamma, mean, rstd, alpha, dx2, dx, dbeta, dgamma);
    ASSERT_EQ(code, 0) << kind << aclGetRecentErrMsg();
    std::vector<double> want, scaled, want_gamma(static_cast<size_t>(n)), want_beta(want_gamma.size());
    for (size_t r = 0; r < all.size(); ++r) {
      std::vector<double> grads;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = static_cast<int64_t>(r) * n + i;
        grads.push_back(dy[at] * gamma[i]);
        want_gamma[static_cast<size_t>(i)] += dy[at] * all[r].Normalised(static_cast<size_t>(i));
        want_beta[static_cast<size_t>(i)] += dy[at];
      }
      for (double v : all[r].Gradient(grads)) {
        want.push_back(v + (kind == 2 ? dsum[static_cast<int64_t>(want.size())] : 0));
        scaled.push_back(alpha * v);
      }
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << kind << Name(t);
    EXPECT_EQ(Compare(dgamma.Get(), want_gamma, Tolerances(want_gamma, dgamma.dtype())), "") << kind;
    if (kind != 1) {
      EXPECT_EQ(Compare(dbeta.Get(), want_beta, Tolerances(want_beta, dbeta.dtype())), "") << kind;
    }
    if (kind == 3) {
      EXPECT_EQ(Compare(dx2.Get(), scaled, Tolerances(scaled, t)), "");
    }
    ExpectGuards({&dy, &x, &dx, &dgamma, &dbeta});
  }
}

TEST_F(NormGradients, BatchNorm) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t n = rng_.Int(2, 4), c = rng_.Int(1, 4), s = rng_.Int(1, 9);
    const Dims dims = {n, c, 1, s};
    const bool training = round % 2;
    RandomTensor dy(t, dims, rng_, round % 3 == 1, 2), x(t, dims, rng_, round % 3 == 2, 2),
        w(DType::kF32, {c}, rng_);
    ApiTensor mean(DType::kF32, {c}), rstd(DType::kF32, {c}), variance(DType::kF32, {c}),
        dx(t, dims, &rng_, round % 4 == 1), dw(DType::kF32, {c}), db(DType::kF32, {c}), sum(DType::kF32, {c}),
        product(DType::kF32, {c}), y(t, dims);
    auto at = [&](int64_t channel, int64_t i) { return ((i / s) * c + channel) * s + i % s; };
    std::vector<Row> rows;
    std::vector<double> means, factors, variances;
    for (int64_t ch = 0; ch < c; ++ch) {
      Row row;
      for (int64_t i = 0; i < n * s; ++i) row.x.push_back(x[at(ch, i)]);
      row.Statistics();
      means.push_back(row.mean), factors.push_back(row.rstd),
          variances.push_back(1 / row.rstd / row.rstd - kEps);
      rows.push_back(row);
    }
    mean.Set(means), rstd.Set(factors), variance.Set(variances);
    ASSERT_EQ(CALL(aclnnBatchNormBackward, dy, x, w, mean, variance, mean, rstd, training, kEps,
                   Mask(true, true, true), dx, dw, db),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(n * c * s)), want_w, want_b, products;
    for (int64_t ch = 0; ch < c; ++ch) {
      std::vector<double> g;
      double sums[2] = {0, 0};
      const Row& row = rows[static_cast<size_t>(ch)];
      for (int64_t i = 0; i < n * s; ++i) {
        g.push_back(dy[at(ch, i)] * w[ch]);
        sums[0] += dy[at(ch, i)], sums[1] += dy[at(ch, i)] * row.Normalised(static_cast<size_t>(i));
      }
      want_b.push_back(sums[0]), want_w.push_back(sums[1]), products.push_back(sums[1] / row.rstd);
      const auto grads = row.Gradient(g);
      for (int64_t i = 0; i < n * s; ++i) {
        const auto k = static_cast<size_t>(i);
        want[static_cast<size_t>(at(ch, i))] = training ? grads[k] : g[k] * row.rstd;
      }
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t) << training;
    EXPECT_EQ(Compare(dw.Get(), want_w, Tolerances(want_w, DType::kF32)), "");
    EXPECT_EQ(Compare(db.Get(), want_b, Tolerances(want_b, DType::kF32)), "");
    // The same in the parts that devices exchange between.
    ASSERT_EQ(
        CALL(aclnnBatchNormReduceBackward, dy, x, mean, rstd, w, true, true, true, sum, product, dw, db), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(sum.Get(), want_b, Tolerances(want_b, DType::kF32)), "");
    EXPECT_EQ(Compare(product.Get(), products, Tolerances(products, DType::kF32)), "");
    ApiTensor count(DType::kS32, {2});
    count.Set({static_cast<double>(n * s - 1), 1});
    ASSERT_EQ(CALL(aclnnBatchNormElemtBackward, dy, x, mean, rstd, w, sum, product, count, dx), 0)
        << aclGetRecentErrMsg();
    for (int64_t ch = 0; ch < c; ++ch) {
      std::vector<double> g;
      for (int64_t i = 0; i < n * s; ++i) g.push_back(dy[at(ch, i)] * w[ch]);
      const auto grads = rows[static_cast<size_t>(ch)].Gradient(g);
      for (int64_t i = 0; i < n * s; ++i)
        want[static_cast<size_t>(at(ch, i))] = grads[static_cast<size_t>(i)];
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t);
    if (t == DType::kF32) {
      ASSERT_EQ(CALL(aclnnBatchNormElemt, x, w, mean, mean, rstd, kEps, y), 0) << aclGetRecentErrMsg();
      for (int64_t i = 0; i < n * c * s; ++i) {
        const auto ch = static_cast<size_t>(i / s % c);
        want[static_cast<size_t>(i)] = (x[i] - means[ch]) * factors[ch] * w[i / s % c] + means[ch];
      }
      EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, t)), "");
      ASSERT_EQ(CALL(aclnnBatchNormReduce, x, sum, product), 0) << aclGetRecentErrMsg();
      std::vector<double> sums, squares;
      for (const Row& row : rows) {
        sums.push_back(0), squares.push_back(0);
        for (double v : row.x) sums.back() += v, squares.back() += v * v;
      }
      EXPECT_EQ(Compare(sum.Get(), sums, Tolerances(sums, t)), "");
      EXPECT_EQ(Compare(product.Get(), squares, Tolerances(squares, t)), "");
    }
    ExpectGuards({&dy, &x, &dx, &dw, &db, &sum, &product});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_), w(DType::kF32, {3}, rng_);
  ApiTensor dx(DType::kF32, {2, 3}), dw(DType::kF32, {3});
  ExpectRefused(
      CALL(aclnnBatchNormBackward, x, x, w, w, w, w, w, true, kEps, Mask(true, true, true), dx, dw, nullptr),
      161001, {"gradBias is null", "outputMask"});
  ExpectRefused(CALL(aclnnBatchNormBackward, x, x, x, w, w, w, w, true, kEps, Mask(true, false, false), dx,
                     dw, nullptr),
                161002, {"weight has shape [2,3]"});
}

TEST_F(NormGradients, GroupNorm) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t n = rng_.Int(1, 3), groups = rng_.Int(1, 3), d = rng_.Int(1, 3), c = groups * d,
                  s = rng_.Int(1, 9);
    const Dims dims = {n, c, s};
    RandomTensor dy(t, dims, rng_, round % 3 == 1, 2), x(t, dims, rng_, round % 3 == 2, 2),
        gamma(t, {c}, rng_);
    ApiTensor mean(t, {n, groups}), rstd(t, {n, groups}), dx(t, dims, &rng_, round % 4 == 1), dgamma(t, {c}),
        dbeta(t, {c});
    std::vector<Row> rows;
    std::vector<double> means, factors;
    for (int64_t g = 0; g < n * groups; ++g) {
      Row row;
      for (int64_t i = 0; i < d * s; ++i) row.x.push_back(x[g * d * s + i]);
      row.Statistics();
      means.push_back(row.mean), factors.push_back(row.rstd);
      rows.push_back(row);
    }
    mean.Set(means), rstd.Set(factors);
    const auto stored_mean = mean.Get(), stored_rstd = rstd.Get();  // what the saved statistics are in t
    for (size_t g = 0; g < rows.size(); ++g) rows[g].mean = stored_mean[g], rows[g].rstd = stored_rstd[g];
    ASSERT_EQ(CALL(aclnnGroupNormBackward, dy, x, mean, rstd, gamma, n, c, s, groups, Mask(true, true, true),
                   dx, dgamma, dbeta),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want, want_gamma(static_cast<size_t>(c)), want_beta(want_gamma.size());
    for (int64_t g = 0; g < n * groups; ++g) {
      std::vector<double> grads;
      for (int64_t i = 0; i < d * s; ++i) {
        const int64_t channel = g % groups * d + i / s;
        const double v = dy[g * d * s + i];
        grads.push_back(v * gamma[channel]);
        want_gamma[static_cast<size_t>(channel)] +=
            v * rows[static_cast<size_t>(g)].Normalised(static_cast<size_t>(i));
        want_beta[static_cast<size_t>(channel)] += v;
      }
      for (double v : rows[static_cast<size_t>(g)].Gradient(grads)) want.push_back(v);
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t);
    EXPECT_EQ(Compare(dgamma.Get(), want_gamma, Tolerances(want_gamma, t)), "");
    EXPECT_EQ(Compare(dbeta.Get(), want_beta, Tolerances(want_beta, t)), "");
    ExpectGuards({&dy, &x, &dx, &dgamma, &dbeta});
  }
}

}  // namespace
}  // namespace opsnn::capi
