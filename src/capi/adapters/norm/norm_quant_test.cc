// Quantised normalisations, against double arithmetic: a result may differ from the exact value by half a
// step and what f32 rows lose.
#include <cmath>

#include "aclnnop/aclnn_ada_layer_norm_quant.h"
#include "aclnnop/aclnn_add_layer_norm_quant.h"
#include "aclnnop/aclnn_add_layer_norm_quant_v2.h"
#include "aclnnop/aclnn_add_rms_norm_dynamic_quant.h"
#include "aclnnop/aclnn_add_rms_norm_dynamic_quant_v2.h"
#include "aclnnop/aclnn_add_rms_norm_quant.h"
#include "aclnnop/aclnn_add_rms_norm_quant_v2.h"
#include "aclnnop/aclnn_group_norm_silu_quant.h"
#include "aclnnop/aclnn_layer_norm_quant.h"
#include "aclnnop/aclnn_quantized_batch_norm.h"
#include "aclnnop/aclnn_rms_norm_dynamic_quant.h"
#include "aclnnop/aclnn_rms_norm_grad_quant.h"
#include "aclnnop/aclnn_rms_norm_quant.h"
#include "aclnnop/aclnn_rms_norm_quant_v3.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

constexpr double kEps = 0.1;
constexpr double kRow = 0x1p-15;  // what f32 rows of a few hundred elements of order 1 lose, of the largest

using Values = std::vector<double>;

struct Row {
  Values y;  // normalised
  double rstd = 0;
};
Row Normalise(const Values& x, bool centred) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, square = 0;
  for (double v : x) mean += centred ? v / n : 0;
  for (double v : x) square += (v - mean) * (v - mean) / n;
  Row row;
  row.rstd = 1 / std::sqrt(square + kEps);
  for (double v : x) row.y.push_back((v - mean) * row.rstd);
  return row;
}

// `want` unrounded; `slack` is what it may be off by.
void ExpectRounded(const Values& got, const Values& want, double slack, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double exact = std::min(127.0, std::max(-128.0, want[i]));
    ASSERT_EQ(got[i], std::nearbyint(got[i]));
    ASSERT_LE(std::abs(got[i] - exact), 0.5 + slack + std::abs(exact) * kRow)
        << what << " element " << i << ": " << got[i] << ", exactly " << want[i];
  }
}

// The largest of a row becomes 127; y and the steps of the rows of n.
void ExpectDynamic(const ApiTensor& y, const ApiTensor& step, const Values& rows, size_t n,
                   const char* what) {
  Values want, steps, tolerance;
  for (size_t r = 0; r + n <= rows.size(); r += n) {
    double most = 0;
    for (size_t i = 0; i < n; ++i) most = std::max(most, std::abs(rows[r + i]));
    steps.push_back(most / 127);
    tolerance.push_back((most + 8) * kRow / 127);
    for (size_t i = 0; i < n; ++i) want.push_back(most > 0 ? rows[r + i] / steps.back() : 0);
  }
  ExpectRounded(y.Get(), want, 127 * 16 * kRow, what);
  EXPECT_EQ(Compare(step.Get(), steps, tolerance), "") << what;
}

class NormQuant : public ApiTest {
 protected:
  // Scales that are not small, so that what rows lose stays a small part of a step.
  void SetScale(ApiTensor* t) {
    Values v;
    for (int64_t i = 0; i < NumElements(t->dims()); ++i)
      v.push_back(rng_.Real(0.03, 0.1) * (rng_.Int(0, 1) ? 1 : -1));
    t->Set(v);
  }
  Rng rng_;
};

// What the quantised forms do with y[i] of column i.
Values Static(const Values& rows, const Values& scale, const Values& zero, bool divides) {
  Values want;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double s = scale[i % scale.size()];
    want.push_back((divides ? rows[i] / s : rows[i] * s) + (zero.empty() ? 0 : zero[i % zero.size()]));
  }
  return want;
}

TEST_F(NormQuant, RmsNormQuant) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[round % 3];
    const bool third = round % 2, beta_given = !third || round % 4 == 1, zero_given = !third || round % 3;
    const bool divides = !third || round % 5 < 3;
    const Dims dims = rng_.Shape(1, 4, 600);
    const int64_t n = dims.back();
    const bool columns = third && round % 4 == 3;
    const DType zero_type = round % 3 == 0 ? DType::kS8 : t;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), gamma(t, round % 4 < 2 ? Dims{n} : Dims{1, n}, rng_),
        beta(t, {n}, rng_), zero(zero_type, {columns ? n : 1}, rng_);
    ApiTensor scale(t, {columns ? n : 1});
    SetScale(&scale);
    Dims kept = dims;
    kept[dims.rank() - 1] = 1;
    ApiTensor y(DType::kS8, dims, &rng_, round % 4 == 3), rstd(DType::kF32, kept);
    const int code = third ? CALL(aclnnRmsNormQuantV3, x, gamma, scale, OrNull(zero_given, zero),
                                  OrNull(beta_given, beta), kEps, divides, true, y, rstd)
                           : CALL(aclnnRmsNormQuant, x, gamma, beta, scale, zero, kEps, y);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    Values rows, factors;
    for (int64_t r = 0; r < NumElements(kept); ++r) {
      const Row row = Normalise({x.values().begin() + r * n, x.values().begin() + (r + 1) * n}, false);
      factors.push_back(row.rstd);
      for (int64_t i = 0; i < n; ++i)
        rows.push_back(row.y[static_cast<size_t>(i)] * gamma[i] + (beta_given ? beta[i] : 0));
    }
    ExpectRounded(y.Get(), Static(rows, scale.Get(), zero_given ? zero.values() : Values{}, divides),
                  40 * 64 * kRow, Name(t));
    if (third) {
      EXPECT_EQ(Compare(rstd.Get(), factors, PointwiseTolerance(factors, DType::kF32, 64)), "");
    }
    ExpectGuards({&x, &y, &rstd});
  }
  RandomTensor x(DType::kF16, {2, 4}, rng_), g(DType::kF16, {4}, rng_), s(DType::kF16, {1}, rng_);
  ApiTensor y(DType::kS8, {2, 4}), z(DType::kS8, {1}), wide(DType::kS32, {2, 4}), small(DType::kS8, {2, 3});
  ExpectRefused(CALL(aclnnRmsNormQuant, x, s, g, s, z, kEps, y), 161002, {"gamma has shape [1]", "[2,4]"});
  ExpectRefused(CALL(aclnnRmsNormQuant, x, g, g, g, z, kEps, y), 161002, {"scale has shape [4]", "[1]"});
  ExpectRefused(CALL(aclnnRmsNormQuant, x, g, g, s, z, kEps, wide), 161002, {"y has dtype s32", "s8"});
  ExpectRefused(CALL(aclnnRmsNormQuant, x, g, g, s, z, kEps, small), 161002, {"y has shape [2,3]"});
  ExpectRefused(CALL(aclnnRmsNormQuant, x, g, g, s, z, -1, y), 161002, {"epsilon is -1"});
  ExpectRefused(CALL(aclnnRmsNormQuantV3, x, g, s, z, g, kEps, true, true, y, nullptr), 161001,
                {"rstd is null"});
}

TEST_F(NormQuant, NotANumberGivesZero) {
  ApiTensor x(DType::kF32, {2, 3}), g(DType::kF32, {3}), s(DType::kF32, {1}), z(DType::kF32, {1}),
      y(DType::kS8, {2, 3});
  x.Set({1, NAN, 2, 1, 2, 3}), g.Set({1, 1, 1}), s.Set({0.1}), z.Set({0});
  ASSERT_EQ(CALL(aclnnRmsNormQuant, x, g, g, s, z, kEps, y), 0) << aclGetRecentErrMsg();
  const Values got = y.Get();
  for (int i : {0, 1, 2}) EXPECT_EQ(got[static_cast<size_t>(i)], 0);
  EXPECT_NE(got[3], 0);
}

TEST_F(NormQuant, DynamicRms) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[1 + round % 2];
    const Dims dims = rng_.Shape(2, 4, 600);
    const int64_t n = dims.back(), m = NumElements(dims) / n;
    Dims lead = dims;
    lead.resize(dims.rank() - 1);
    const bool smooth = round % 3, beta_given = round % 4 < 2, flat = round % 4 == 1;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, round % 3 == 2, 2),
        gamma(t, {n}, rng_), beta(t, {n}, rng_), s1(t, {n}, rng_), s2(t, {n}, rng_);
    ApiTensor y(DType::kS8, dims, &rng_, round % 4 == 3), step(DType::kF32, flat ? Dims{m} : lead),
        y2(DType::kS8, dims), step2(DType::kF32, lead), sum(t, dims);
    auto rows = [&](bool add, bool with_beta, const Values* factor) {
      Values all;
      for (int64_t r = 0; r < m; ++r) {
        Values row;
        for (int64_t i = 0; i < n; ++i) row.push_back(x[r * n + i] + (add ? x2[r * n + i] : 0));
        row = Normalise(row, false).y;
        for (size_t i = 0; i < row.size(); ++i) {
          const auto k = static_cast<int64_t>(i);
          all.push_back((row[i] * gamma[k] + (with_beta ? beta[k] : 0)) * (factor ? (*factor)[i] : 1));
        }
      }
      return all;
    };
    ASSERT_EQ(CALL(aclnnRmsNormDynamicQuant, x, gamma, OrNull(smooth, s1), OrNull(beta_given, beta), kEps, 2,
                   y, step),
              0)
        << aclGetRecentErrMsg();
    ExpectDynamic(y, step, rows(false, beta_given, smooth ? &s1.values() : nullptr), static_cast<size_t>(n),
                  "RMS");
    const bool both = smooth && round % 2;
    ASSERT_EQ(CALL(aclnnAddRmsNormDynamicQuant, x, x2, gamma, OrNull(smooth, s1), OrNull(both, s2), kEps, y,
                   OrNull(both, y2), sum, step, OrNull(both, step2)),
              0)
        << aclGetRecentErrMsg();
    ExpectDynamic(y, step, rows(true, false, smooth ? &s1.values() : nullptr), static_cast<size_t>(n), "sum");
    if (both) ExpectDynamic(y2, step2, rows(true, false, &s2.values()), static_cast<size_t>(n), "sum, 2");
    // The second form alone, by the mask.
    const bool only_second[] = {false, true};
    aclBoolArray* mask = aclCreateBoolArray(only_second, 2);
    ApiTensor none(DType::kS8, {1}), no_step(DType::kF32, {1});
    ASSERT_EQ(CALL(aclnnAddRmsNormDynamicQuantV2, x, x2, gamma, nullptr, OrNull(smooth, s2),
                   OrNull(beta_given, beta), kEps, mask, none, y2, sum, no_step, step2),
              0)
        << aclGetRecentErrMsg();
    ExpectDynamic(y2, step2, rows(true, beta_given, smooth ? &s2.values() : nullptr), static_cast<size_t>(n),
                  "masked");
    ExpectRefused(CALL(aclnnAddRmsNormDynamicQuantV2, x, x2, gamma, s1, nullptr, nullptr, kEps, mask, none,
                       y2, sum, no_step, step2),
                  161002, {"smoothScale1Optional is given", "outputMask"});
    aclDestroyBoolArray(mask);
    Values sums;
    for (int64_t i = 0; i < m * n; ++i) sums.push_back(x[i] + x2[i]);
    EXPECT_EQ(Compare(sum.Get(), sums, PointwiseTolerance(sums, t)), "");
    ExpectGuards({&x, &x2, &y, &y2, &step, &step2, &sum});
    ExpectRefused(CALL(aclnnRmsNormDynamicQuant, x, gamma, nullptr, nullptr, kEps, 29, y, step), 161002,
                  {"dstType is 29"});
    ExpectRefused(CALL(aclnnAddRmsNormDynamicQuant, x, x2, gamma, nullptr, s2, kEps, y, y2, sum, step, step2),
                  161002, {"smoothScale2Optional is given"});
  }
}

TEST_F(NormQuant, AddRmsNormQuant) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    const Dims dims = rng_.Shape(2, 4, 600);
    const int rank = static_cast<int>(rng_.Int(1, dims.rank() - 1));
    Dims g;
    int64_t n = 1;
    for (int i = dims.rank() - rank; i < dims.rank(); ++i) g.push_back(dims[i]), n *= dims[i];
    const bool v2 = round % 2, two = round % 3 == 0, divides = round % 4 < 2, zero_given = round % 5 < 3;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, false, 2), gamma(t, g, rng_),
        beta(t, g, rng_), zero(DType::kS32, g, rng_);
    ApiTensor s1(DType::kF32, g), s2(DType::kF32, g), y1(DType::kS8, dims, &rng_, round % 4 == 3),
        y2(DType::kS8, dims), sum(t, dims), plain(t, dims);
    SetScale(&s1), SetScale(&s2);
    const int code =
        v2 ? CALL(aclnnAddRmsNormQuantV2, x, x2, gamma, s1, OrNull(two, s2), OrNull(zero_given, zero),
                  OrNull(two && zero_given, zero), beta, -1, kEps, divides, y1, OrNull(two, y2), sum, plain)
           : CALL(aclnnAddRmsNormQuant, x, x2, gamma, s1, OrNull(two, s2), OrNull(zero_given, zero),
                  OrNull(two && zero_given, zero), -1, kEps, divides, y1, OrNull(two, y2), sum);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    Values rows, plains, sums;
    for (int64_t r = 0; r < NumElements(dims) / n; ++r) {
      Values row;
      for (int64_t i = 0; i < n; ++i) row.push_back(x[r * n + i] + x2[r * n + i]);
      sums.insert(sums.end(), row.begin(), row.end());
      row = Normalise(row, false).y;
      for (int64_t i = 0; i < n; ++i) {
        plains.push_back(row[static_cast<size_t>(i)] * gamma[i]);
        rows.push_back(plains.back() + (v2 ? beta[i] : 0));
      }
    }
    const Values zeros = zero_given ? zero.values() : Values{};
    ExpectRounded(y1.Get(), Static(rows, s1.Get(), zeros, divides), 40 * 64 * kRow, "y1");
    if (two) ExpectRounded(y2.Get(), Static(rows, s2.Get(), zeros, divides), 40 * 64 * kRow, "y2");
    EXPECT_EQ(Compare(sum.Get(), sums, PointwiseTolerance(sums, t)), "");
    if (v2) {
      EXPECT_EQ(Compare(plain.Get(), plains, PointwiseTolerance(plains, t, 256)), "");
    }
    ExpectGuards({&x, &x2, &y1, &y2, &sum, &plain});
  }
  RandomTensor x(DType::kF16, {2, 3}, rng_), g(DType::kF16, {3}, rng_), s(DType::kF32, {3}, rng_);
  ApiTensor y(DType::kS8, {2, 3}), sum(DType::kF16, {2, 3});
  ExpectRefused(CALL(aclnnAddRmsNormQuant, x, x, g, s, s, nullptr, nullptr, -1, kEps, true, y, nullptr, sum),
                161001, {"y2Out is null"});
  ExpectRefused(
      CALL(aclnnAddRmsNormQuant, x, x, g, x, nullptr, nullptr, nullptr, -1, kEps, true, y, nullptr, sum),
      161002, {"scales1 has shape [2,3]", "[3]"});
}

TEST_F(NormQuant, LayerNorms) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[1 + round % 2];
    const Dims dims = rng_.Shape(2, 4, 600);
    const int64_t n = dims.back(), m = NumElements(dims) / n;
    Dims lead = dims;
    lead.resize(dims.rank() - 1);
    const bool dynamic = round % 2, v2 = round % 4 < 2, one = !dynamic && round % 8 == 4;
    const bool smooth = !dynamic || round % 3, two = smooth && round % 5 < 2, divides = round % 3 == 1;
    const bool zero_given = !dynamic && round % 4 == 0;
    RandomTensor x(t, dims, rng_, round % 3 == 1, 2), x2(t, dims, rng_, round % 3 == 2, 2),
        bias(t, round % 3 == 1 ? dims : Dims{n}, rng_), gamma(t, {n}, rng_), beta(t, {n}, rng_),
        zero(t, {one ? 1 : n}, rng_);
    ApiTensor s1(t, {one ? 1 : n}), s2(t, {one ? 1 : n}), y1(DType::kS8, dims, &rng_, round % 4 == 3),
        y2(DType::kS8, dims), sum(t, dims), result(t, dims), step1(DType::kF32, lead),
        step2(DType::kF32, lead);
    SetScale(&s1), SetScale(&s2);
    const char* mode = dynamic ? "dynamic" : "static";
    const int code = v2 ? CALL(aclnnAddLayerNormQuantV2, x, x2, gamma, beta, bias, OrNull(smooth, s1),
                               OrNull(two, s2), OrNull(zero_given, zero), OrNull(zero_given && two, zero),
                               mode, kEps, true, divides, y1, y2, sum, result, step1, step2)
                        : CALL(aclnnAddLayerNormQuant, x, x2, gamma, beta, bias, OrNull(smooth, s1),
                               OrNull(two, s2), OrNull(zero_given, zero), OrNull(zero_given && two, zero),
                               mode, kEps, true, divides, y1, y2, sum, step1, step2);
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    Values rows, sums;
    for (int64_t r = 0; r < m; ++r) {
      Values row;
      for (int64_t i = 0; i < n; ++i)
        row.push_back(x[r * n + i] + x2[r * n + i] + bias[round % 3 == 1 ? r * n + i : i]);
      sums.insert(sums.end(), row.begin(), row.end());
      row = Normalise(row, true).y;
      for (int64_t i = 0; i < n; ++i) rows.push_back(row[static_cast<size_t>(i)] * gamma[i] + beta[i]);
    }
    const Values zeros = zero_given ? zero.values() : Values{};
    auto check = [&](const ApiTensor& y, const ApiTensor& s, const ApiTensor& step) {
      if (!dynamic)
        return ExpectRounded(y.Get(), Static(rows, s.Get(), zeros, divides), 40 * 64 * kRow, "static");
      const Values ones = {1}, factor = smooth ? s.Get() : ones;
      ExpectDynamic(y, step, Static(rows, factor, {}, false), static_cast<size_t>(n), "dynamic");
    };
    check(y1, s1, step1);
    if (two) check(y2, s2, step2);
    EXPECT_EQ(Compare(sum.Get(), sums, PointwiseTolerance(sums, t)), "");
    if (v2) {
      Values tolerance;
      for (double v : rows) tolerance.push_back(std::abs(v) * testing::Epsilon(t) + 16 * kRow);
      EXPECT_EQ(Compare(result.Get(), rows, tolerance), "");
    }
    ExpectGuards({&x, &x2, &y1, &y2, &sum, &result, &step1, &step2});
  }
  RandomTensor x(DType::kF16, {2, 3}, rng_), g(DType::kF16, {3}, rng_);
  ApiTensor y(DType::kS8, {2, 3}), sum(DType::kF16, {2, 3}), step(DType::kF32, {2});
  auto call = [&](aclTensor* s1, aclTensor* s2, aclTensor* z, const char* mode) {
    return CALL(aclnnAddLayerNormQuant, x, x, g, g, nullptr, s1, s2, z, nullptr, mode, kEps, false, true, y,
                nullptr, sum, step, nullptr);
  };
  ExpectRefused(call(nullptr, nullptr, nullptr, "static"), 161002, {"scales1Optional is null"});
  ExpectRefused(call(nullptr, g, nullptr, "dynamic"), 161002, {"scales1Optional is null"});
  ExpectRefused(call(g, nullptr, g, "dynamic"), 161002, {"zeroPoints1Optional is given"});
  ExpectRefused(call(g, nullptr, nullptr, "other"), 161002, {"quantMode is \"other\""});
  EXPECT_EQ(call(g, nullptr, nullptr, "dynamic"), 0) << aclGetRecentErrMsg();
}

TEST_F(NormQuant, LayerNormQuantAndAdaptive) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t b = rng_.Int(1, 3), s = rng_.Int(1, 4), n = rng_.Int(1, 60);
    const bool affine = round % 3, unit = round % 2, zero_given = round % 4 < 2;
    RandomTensor x(t, {b, s, n}, rng_, round % 3 == 1, 2), gamma(t, {n}, rng_), beta(t, {n}, rng_),
        scale(t, unit ? Dims{b, 1, n} : Dims{b, n}, rng_), shift(t, unit ? Dims{b, 1, n} : Dims{b, n}, rng_),
        smooth(t, {n}, rng_), zero(DType::kS8, {1}, rng_);
    ApiTensor y(DType::kS8, {b, s, n}, &rng_, round % 4 == 3), step(DType::kF32, {b, s}), one(t, {1});
    SetScale(&one);
    ASSERT_EQ(CALL(aclnnLayerNormQuant, x, gamma, beta, one, OrNull(zero_given, zero), 0, kEps, y, nullptr),
              0)
        << aclGetRecentErrMsg();
    Values rows, adaptive;
    for (int64_t r = 0; r < b * s; ++r) {
      const Row row = Normalise({x.values().begin() + r * n, x.values().begin() + (r + 1) * n}, true);
      for (int64_t i = 0; i < n; ++i) {
        const double v = row.y[static_cast<size_t>(i)], z = v * gamma[i] + beta[i];
        rows.push_back(z);
        const int64_t at = r / s * n + i;
        adaptive.push_back(((affine ? z : v) * (1 + scale[at]) + shift[at]) * (unit ? smooth[i] : 1));
      }
    }
    ExpectRounded(y.Get(), Static(rows, one.Get(), zero_given ? zero.values() : Values{}, true),
                  40 * 64 * kRow, "LayerNormQuant");
    ASSERT_EQ(CALL(aclnnAdaLayerNormQuant, x, scale, shift, OrNull(affine, gamma), OrNull(affine, beta),
                   OrNull(unit, smooth), kEps, "dynamic", y, step, nullptr),
              0)
        << aclGetRecentErrMsg();
    ExpectDynamic(y, step, adaptive, static_cast<size_t>(n), "AdaLayerNormQuant");
    ExpectGuards({&x, &y, &step});
    ExpectRefused(CALL(aclnnLayerNormQuant, x, gamma, beta, one, nullptr, 1, kEps, y, nullptr), 161002,
                  {"quantMode is 1"});
    ExpectRefused(CALL(aclnnAdaLayerNormQuant, x, scale, shift, nullptr, nullptr, nullptr, kEps, "static", y,
                       step, nullptr),
                  161002, {"quantMode is \"static\""});
  }
}

TEST_F(NormQuant, GroupNormSilu) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[1 + round % 2];
    const int64_t n = rng_.Int(1, 3), groups = rng_.Int(1, 3), d = rng_.Int(1, 3), c = groups * d,
                  s = rng_.Int(1, 30);
    const bool affine = round % 3, channels = round % 4 < 2;
    RandomTensor x(t, {n, c, s}, rng_, round % 4 == 1, 2), gamma(t, {c}, rng_), beta(t, {c}, rng_);
    ApiTensor scale(DType::kF32, {channels ? c : 1}), y(DType::kS8, {n, c, s}, &rng_, round % 4 == 2),
        mean(t, {n, groups}), rstd(t, {n, groups});
    SetScale(&scale);
    ASSERT_EQ(CALL(aclnnGroupNormSiluQuant, x, OrNull(affine, gamma), OrNull(affine, beta), scale, groups,
                   kEps, true, y, mean, rstd),
              0)
        << aclGetRecentErrMsg();
    Values want;
    const Values scales = scale.Get();
    for (int64_t g = 0; g < n * groups; ++g) {
      const Row row = Normalise({x.values().begin() + g * d * s, x.values().begin() + (g + 1) * d * s}, true);
      for (int64_t i = 0; i < d * s; ++i) {
        const int64_t channel = g % groups * d + i / s;
        double z = row.y[static_cast<size_t>(i)];
        if (affine) z = z * gamma[channel] + beta[channel];
        want.push_back(z / (1 + std::exp(-z)) / scales[channels ? static_cast<size_t>(channel) : 0]);
      }
    }
    ExpectRounded(y.Get(), want, 40 * 64 * kRow, Name(t));
    ExpectGuards({&x, &y, &mean, &rstd});
    ExpectRefused(
        CALL(aclnnGroupNormSiluQuant, x, nullptr, nullptr, scale, groups, kEps, false, y, mean, rstd), 161002,
        {"activateSilu is false"});
  }
}

TEST_F(NormQuant, RmsNormGradQuant) {
  for (int round = 0; round < 18; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t m = rng_.Int(1, 9), n = rng_.Int(1, 60);
    const bool divides = round % 2, zero_given = round % 4 < 2;
    RandomTensor dy(t, {m, n}, rng_, round % 3 == 1, 2), x(t, {m, n}, rng_, round % 3 == 2, 2),
        gamma(t, {n}, rng_), zero(DType::kS32, {1}, rng_);
    ApiTensor rstd(DType::kF32, {m}), scale(DType::kF32, {1}), dx(DType::kS8, {m, n}, &rng_, round % 4 == 3),
        dgamma(DType::kF32, {n});
    SetScale(&scale);
    Values factors, want, sums(static_cast<size_t>(n)), tolerance;
    for (int64_t r = 0; r < m; ++r) {
      const Row row = Normalise({x.values().begin() + r * n, x.values().begin() + (r + 1) * n}, false);
      factors.push_back(row.rstd);
      double along = 0;
      for (int64_t i = 0; i < n; ++i)
        along += dy[r * n + i] * gamma[i] * row.y[static_cast<size_t>(i)] / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i) {
        const double y = row.y[static_cast<size_t>(i)];
        want.push_back((dy[r * n + i] * gamma[i] - y * along) * row.rstd);
        sums[static_cast<size_t>(i)] += dy[r * n + i] * y;
      }
    }
    rstd.Set(factors);
    ASSERT_EQ(CALL(aclnnRmsNormGradQuant, dy, x, rstd, gamma, scale, OrNull(zero_given, zero), "static",
                   divides, dx, dgamma),
              0)
        << aclGetRecentErrMsg();
    ExpectRounded(dx.Get(), Static(want, scale.Get(), zero_given ? zero.values() : Values{}, divides),
                  40 * 256 * kRow, Name(t));
    for (double v : sums) tolerance.push_back((std::abs(v) + 64) * kRow);
    EXPECT_EQ(Compare(dgamma.Get(), sums, tolerance), "");
    ExpectGuards({&dy, &x, &dx, &dgamma});
    ExpectRefused(
        CALL(aclnnRmsNormGradQuant, dy, x, rstd, gamma, scale, nullptr, "dynamic", divides, dx, dgamma),
        161002, {"quantMode is \"dynamic\""});
  }
}

TEST_F(NormQuant, QuantizedBatchNorm) {
  for (int round = 0; round < 18; ++round) {
    const DType t = round % 3 == 0 ? DType::kS8 : round % 3 == 1 ? DType::kU8 : DType::kS32;
    const int64_t n = rng_.Int(1, 3), c = rng_.Int(1, 4), h = rng_.Int(1, 5), w = rng_.Int(1, 5);
    const bool affine = round % 2;
    ApiTensor x(t, {n, c, h, w}, &rng_, round % 4 == 1), y(t, {n, c, h, w}, &rng_, round % 4 == 2);
    RandomTensor mean(DType::kF32, {c}, rng_), weight(DType::kF32, {c}, rng_), bias(DType::kF32, {c}, rng_);
    ApiTensor variance(DType::kF32, {c});
    const int64_t most = t == DType::kS32 ? 1 << 30 : 100;
    Values values, variances;
    for (int64_t i = 0; i < n * c * h * w; ++i)
      values.push_back(static_cast<double>(rng_.Int(t == DType::kU8 ? 0 : -most, most)));
    for (int64_t i = 0; i < c; ++i) variances.push_back(rng_.Real(0.5, 2));
    x.Set(values), variance.Set(variances);
    const auto stored = variance.Get();
    float scale_in = 0.05f, scale_out = 0.3f;
    int32_t zero_in = 3, zero_out = 5;
    ApiScalar si(scale_in), so(scale_out), zi(&zero_in, ACL_INT32), zo(&zero_out, ACL_INT32);
    ASSERT_EQ(CALL(aclnnQuantizedBatchNorm, x, mean, variance, si, zi, so, zo, OrNull(affine, weight),
                   OrNull(affine, bias), static_cast<float>(kEps), y),
              0)
        << aclGetRecentErrMsg();
    const Values got = y.Get();
    for (size_t i = 0; i < got.size(); ++i) {
      const auto ch = static_cast<int64_t>(i) / (h * w) % c;
      double v = ((values[i] - zero_in) * scale_in - mean[ch]) /
                 std::sqrt(stored[static_cast<size_t>(ch)] + static_cast<float>(kEps));
      if (affine) v = v * weight[ch] + bias[ch];
      v = v / scale_out + zero_out;
      const double lo = t == DType::kU8 ? 0 : t == DType::kS8 ? -128 : -0x1p31;
      const double hi = t == DType::kU8 ? 255 : t == DType::kS8 ? 127 : 0x1p31 - 1;
      v = std::min(hi, std::max(lo, v));
      ASSERT_LE(std::abs(got[i] - v), 0.5 + 0x1p-12) << Name(t) << " element " << i;
    }
    ExpectGuards({&x, &y});
    int32_t far = 1000;
    if (t != DType::kS32) {
      ApiScalar bad(&far, ACL_INT32);
      ExpectRefused(
          CALL(aclnnQuantizedBatchNorm, x, mean, variance, si, bad, so, zo, nullptr, nullptr, 1e-5f, y),
          161002, {"inputZeroPoint is 1000"});
    }
  }
}

}  // namespace
}  // namespace opsnn::capi
