// The ten functions: results against double arithmetic on the same inputs, over dtypes, views, broadcasting,
// empty tensors and aliasing.
#include <algorithm>
#include <cmath>
#include <functional>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_gelu.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_max_pool.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_softmax.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

using testing::Compare;

std::vector<double> Map(const std::vector<double>& x, const std::function<double(double)>& f) {
  std::vector<double> y;
  for (double v : x) y.push_back(f(v));
  return y;
}

// Row-major index of `at` (an index into dims) in a tensor that broadcasts to dims.
int64_t BroadcastIndex(const Dims& own, const Dims& dims, int64_t linear) {
  int64_t index = 0, step = 1;
  for (int i = dims.rank() - 1, j = own.rank() - 1; i >= 0; --i, --j) {
    const int64_t at = linear % dims[i];
    linear /= dims[i];
    if (j < 0) continue;
    if (own[j] != 1) index += at * step;
    step *= own[j];
  }
  return index;
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST_F(ApiTest, ReluAndGelu) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 12; ++round) {
      const Dims dims = rng.Shape(0, 5, 600, true);
      ApiTensor x(t, dims, &rng, round % 2), y(t, dims, &rng, round % 3 == 1);
      x.memory().FillRandom(rng, -4, 4);
      ASSERT_EQ(CALL(aclnnRelu, x, y), 0) << aclGetRecentErrMsg();
      EXPECT_EQ(y.Get(), Map(x.Get(), [](double v) { return v > 0 ? v : 0; }));
      ASSERT_EQ(CALL(aclnnGelu, x, y), 0) << aclGetRecentErrMsg();
      const auto want = Map(x.Get(), Gelu);
      auto tolerance = PointwiseTolerance(want, t);
      // 1 + erf cancels for negative x: an ulp of erf counts in full.
      for (size_t i = 0; i < want.size(); ++i) tolerance[i] += 4 * 0x1p-24 * std::abs(x.Get()[i]);
      EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
      EXPECT_TRUE(y.memory().GuardsIntact());
      EXPECT_TRUE(x.memory().GuardsIntact());
    }
  }
  for (DType t : {DType::kS8, DType::kS32, DType::kS64}) {
    ApiTensor x(t, {3, 5}, &rng, true), y(t, {3, 5});
    x.memory().FillRandom(rng, -100, 100);
    ASSERT_EQ(CALL(aclnnRelu, x, y), 0);
    EXPECT_EQ(y.Get(), Map(x.Get(), [](double v) { return std::max(v, 0.0); }));
  }
}

TEST_F(ApiTest, ReluInPlaceByAlias) {
  Rng rng;
  ApiTensor x(DType::kF32, {7, 9}, &rng, true);
  x.memory().FillRandom(rng);
  const auto want = Map(x.Get(), [](double v) { return v > 0 ? v : 0; });
  ASSERT_EQ(CALL(aclnnRelu, x, x), 0);
  EXPECT_EQ(x.Get(), want);
}

TEST_F(ApiTest, InPlaceVariants) {
  Rng rng;
  ApiTensor x(DType::kF32, {7, 9}, &rng, true), other(DType::kF32, {9}, &rng),
      wide(DType::kF32, {2, 7, 9}, &rng);
  x.memory().FillRandom(rng);
  other.memory().FillRandom(rng);
  auto want = Map(x.Get(), [](double v) { return v > 0 ? v : 0; });
  ASSERT_EQ(CALL(aclnnInplaceRelu, x), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), want);
  const auto b = other.Get();
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<float>(want[i] * b[i % 9]);
  ASSERT_EQ(CALL(aclnnInplaceMul, x, other), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), want);
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<float>(want[i] + b[i % 9]);
  ApiScalar one(1.0f);
  ASSERT_EQ(CALL(aclnnInplaceAdd, x, other, one), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), want);
  ExpectRefused(CALL(aclnnInplaceAdd, other, x, one), 161002,
                {"aclnnInplaceAdd", "selfRef has shape [9]", "[7,9]"});
  ExpectRefused(CALL(aclnnInplaceMul, x, wide), 161002, {"aclnnInplaceMul", "selfRef has shape [7,9]"});
}

TEST_F(ApiTest, AddBroadcastsAndScales) {
  Rng rng;
  for (DType t :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS32, DType::kS64, DType::kS8}) {
    for (int round = 0; round < 10; ++round) {
      const Dims dims = rng.Shape(1, 4, 300, round == 7);
      Dims other = dims;
      for (int i = 0; i < other.rank(); ++i) {
        if (rng.Chance(0.3)) other[i] = 1;
      }
      if (rng.Chance(0.3)) other.erase(0);
      ApiTensor a(t, dims, &rng, round % 2), b(t, other, &rng, round % 3 == 0),
          y(t, dims, &rng, round % 4 == 1);
      a.memory().FillRandom(rng, -20, 20);
      b.memory().FillRandom(rng, -20, 20);
      const double alpha = round % 3 ? 2 : 1;
      // Integers take an integer alpha.
      auto alpha_float = static_cast<float>(alpha);
      auto alpha_int = static_cast<int32_t>(alpha);
      ApiScalar alpha_scalar(IsFloat(t) ? static_cast<void*>(&alpha_float) : &alpha_int,
                             IsFloat(t) ? ACL_FLOAT : ACL_INT32);
      ASSERT_EQ(CALL(aclnnAdd, a, b, alpha_scalar, y), 0) << aclGetRecentErrMsg();
      const auto av = a.Get(), bv = b.Get();
      std::vector<double> want;
      for (size_t i = 0; i < av.size(); ++i) {
        want.push_back(av[i] + alpha * bv[BroadcastIndex(other, dims, static_cast<int64_t>(i))]);
      }
      auto tolerance = PointwiseTolerance(want, t);
      for (double& v : tolerance)
        v += IsFloat(t) && t != DType::kF64 ? 60 * 0x1p-24 : 0;  // cancellation of terms to 60
      EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t);
      EXPECT_TRUE(y.memory().GuardsIntact());
    }
  }
}

TEST_F(ApiTest, MulPromotes) {
  Rng rng;
  const struct {
    DType a, b, out;
  } kCases[] = {{DType::kF32, DType::kF32, DType::kF32}, {DType::kF16, DType::kF32, DType::kF32},
                {DType::kS32, DType::kF32, DType::kF32}, {DType::kS8, DType::kS32, DType::kS32},
                {DType::kS32, DType::kS32, DType::kF32}, {DType::kBF16, DType::kBF16, DType::kF32},
                {DType::kF64, DType::kF32, DType::kF64}, {DType::kS64, DType::kS64, DType::kS64},
                {DType::kF32, DType::kF32, DType::kF16}};
  for (const auto& c : kCases) {
    ApiTensor a(c.a, {4, 1, 6}, &rng, true), b(c.b, {5, 6}, &rng), y(c.out, {4, 5, 6}, &rng, true);
    a.memory().FillRandom(rng, -9, 9);
    b.memory().FillRandom(rng, -9, 9);
    ASSERT_EQ(CALL(aclnnMul, a, b, y), 0) << aclGetRecentErrMsg();
    const auto av = a.Get(), bv = b.Get();
    std::vector<double> want;
    for (int64_t i = 0; i < 120; ++i) {
      want.push_back(av[BroadcastIndex({4, 1, 6}, {4, 5, 6}, i)] * bv[BroadcastIndex({5, 6}, {4, 5, 6}, i)]);
    }
    EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, c.out)), "") << Name(c.a) << " " << Name(c.b);
  }
}

TEST_F(ApiTest, CastConverts) {
  Rng rng;
  for (DType from :
       {DType::kF32, DType::kF64, DType::kF16, DType::kS32, DType::kS64, DType::kU8, DType::kBool}) {
    for (DType to : {DType::kF32, DType::kF16, DType::kBF16, DType::kS8, DType::kS32, DType::kF64}) {
      ApiTensor x(from, {3, 4, 5}, &rng, true), y(to, {3, 4, 5}, &rng, true);
      x.memory().FillRandom(rng, from == DType::kU8 || from == DType::kBool ? 0 : -100,
                            from == DType::kBool ? 1 : 100);
      ASSERT_EQ(CALL(aclnnCast, x, static_cast<aclDataType>(Info(to).acl), y), 0) << aclGetRecentErrMsg();
      const auto want = Map(x.Get(), [&](double v) { return IsFloat(to) ? v : std::trunc(v); });
      EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, to, 0)), "")
          << Name(from) << " to " << Name(to);
    }
  }
}

TEST_F(ApiTest, SoftmaxAlongAnyDim) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    for (int64_t dim : {0, 1, 2, -1}) {
      const Dims dims{5, 7, 6};
      ApiTensor x(t, dims, &rng, true), y(t, dims, &rng, dim == 1);
      x.memory().FillRandom(rng, -5, 5);
      ASSERT_EQ(CALL(aclnnSoftmax, x, dim, y), 0) << aclGetRecentErrMsg();
      const int axis = static_cast<int>(dim < 0 ? dim + 3 : dim);
      const auto v = x.Get();
      const Dims strides = ContiguousStrides(dims);
      std::vector<double> want(v.size());
      for (size_t i = 0; i < v.size(); ++i) {
        const int64_t own = static_cast<int64_t>(i) / strides[axis] % dims[axis];
        double sum = 0;
        for (int64_t k = 0; k < dims[axis]; ++k) {
          sum += std::exp(v[static_cast<size_t>(static_cast<int64_t>(i) + (k - own) * strides[axis])]);
        }
        want[i] = std::exp(v[i]) / sum;
      }
      // exp of differences up to 10 in f32: an ulp of the argument is 10 ulps of the result.
      EXPECT_EQ(Compare(y.Get(), want, PointwiseTolerance(want, t, 24)), "") << Name(t) << " dim " << dim;
    }
  }
  ApiTensor empty(DType::kF32, {0, 3}), out(DType::kF32, {0, 3});
  EXPECT_EQ(CALL(aclnnSoftmax, empty, 1, out), 0);
}

struct Norm {
  std::vector<double> y, mean, rstd;
};
Norm LayerNormReference(const std::vector<double>& x, int64_t n, const std::vector<double>& w,
                        const std::vector<double>& b, double eps) {
  Norm r;
  for (size_t row = 0; row < x.size() / n; ++row) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[row * n + i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += std::pow(x[row * n + i] - mean, 2) / static_cast<double>(n);
    const double rstd = 1 / std::sqrt(var + eps);
    for (int64_t i = 0; i < n; ++i) {
      const double z = (x[row * n + i] - mean) * rstd;
      r.y.push_back(z * (w.empty() ? 1 : w[i]) + (b.empty() ? 0 : b[i]));
    }
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
  }
  return r;
}

TEST_F(ApiTest, LayerNormWithStatistics) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int variant = 0; variant < 6; ++variant) {
      const Dims dims{3, 4, 5, 6};
      const int64_t n = 30;
      const bool affine = variant % 2, f32_params = variant >= 2;
      const DType pt = f32_params ? DType::kF32 : t;
      ApiTensor x(t, dims, &rng, variant % 3 == 1), y(t, dims, &rng, variant == 4);
      ApiTensor w(pt, {5, 6}, &rng), b(pt, {5, 6}, &rng), mean(t, {3, 4, 1, 1}, &rng),
          rstd(t, {3, 4, 1, 1}, &rng);
      x.memory().FillRandom(rng, -3, 3);
      w.memory().FillRandom(rng);
      b.memory().FillRandom(rng);
      ApiInts shape({5, 6});
      const bool stats = variant < 4;
      // With variant 5 rstd alone is asked for.
      ASSERT_EQ(CALL(aclnnLayerNorm, x, shape, OrNull(affine, w), OrNull(affine, b), 1e-5, y,
                     OrNull(stats, mean), OrNull(stats || variant == 5, rstd)),
                0)
          << aclGetRecentErrMsg();
      const Norm want = LayerNormReference(x.Get(), n, affine ? w.Get() : std::vector<double>{},
                                           affine ? b.Get() : std::vector<double>{}, 1e-5);
      auto tolerance = PointwiseTolerance(want.y, t, 16);
      for (double& v : tolerance) v += 16 * 0x1p-24 * 4;  // sums of terms up to 4
      EXPECT_EQ(Compare(y.Get(), want.y, tolerance), "") << Name(t) << " variant " << variant;
      auto mean_tolerance = PointwiseTolerance(want.mean, t, 16);
      for (double& v : mean_tolerance) v += 16 * 0x1p-24 * 3;
      if (stats) {
        EXPECT_EQ(Compare(mean.Get(), want.mean, mean_tolerance), "");
      }
      if (stats || variant == 5) {
        EXPECT_EQ(Compare(rstd.Get(), want.rstd, PointwiseTolerance(want.rstd, t, 16)), "");
      }
    }
  }
}

TEST_F(ApiTest, EmptyTensorsRun) {
  ApiTensor rows(DType::kF32, {0, 4}), rows_out(DType::kF32, {0, 4}), mean(DType::kF32, {0, 1});
  ApiTensor cols(DType::kF32, {3, 0}), cols_out(DType::kF32, {3, 0});
  ApiTensor images(DType::kF32, {0, 2, 6, 6}), pooled(DType::kF32, {0, 2, 3, 3});
  ApiTensor halves(DType::kF16, {0, 4}), scalar(DType::kF32, {}), scalar_out(DType::kF32, {});
  ApiInts four({4}), zero({0}), two({2, 2}), none({});
  ApiScalar one(1.0f);
  EXPECT_EQ(CALL(aclnnRelu, rows, rows_out), 0);
  EXPECT_EQ(CALL(aclnnGelu, cols, cols_out), 0);
  EXPECT_EQ(CALL(aclnnAdd, rows, rows, one, rows_out), 0);
  EXPECT_EQ(CALL(aclnnMul, cols, cols, cols_out), 0);
  EXPECT_EQ(CALL(aclnnCast, rows, ACL_FLOAT16, halves), 0);
  EXPECT_EQ(CALL(aclnnLayerNorm, rows, four, nullptr, nullptr, 1e-5, rows_out, mean, nullptr), 0);
  EXPECT_EQ(CALL(aclnnLayerNorm, cols, zero, nullptr, nullptr, 1e-5, cols_out, nullptr, nullptr), 0);
  EXPECT_EQ(CALL(aclnnMaxPool, images, two, two, 0, none, none, 0, pooled), 0);
  // A scalar is a tensor of one element.
  scalar.Set({-2});
  EXPECT_EQ(CALL(aclnnRelu, scalar, scalar_out), 0);
  EXPECT_EQ(scalar_out.Get(), std::vector<double>{0});
  EXPECT_EQ(CALL(aclnnSoftmax, scalar, 0, scalar_out), 0);
  EXPECT_EQ(scalar_out.Get(), std::vector<double>{1});
}

TEST_F(ApiTest, MatmulFollowsNumpy) {
  Rng rng;
  const struct {
    Dims a, b, y;
  } kCases[] = {{{4, 5}, {5, 6}, {4, 6}},
                {{1, 64}, {64, 33}, {1, 33}},
                {{5}, {5, 6}, {6}},
                {{4, 5}, {5}, {4}},
                {{5}, {5}, {}},
                {{2, 4, 5}, {5, 6}, {2, 4, 6}},
                {{2, 1, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}},
                {{0, 5}, {5, 6}, {0, 6}},
                {{4, 0}, {0, 6}, {4, 6}},
                {{70, 130}, {130, 50}, {70, 50}}};
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& c : kCases) {
      for (bool strided : {false, true}) {
        ApiTensor a(t, c.a, &rng, strided), b(t, c.b, &rng, strided), y(t, c.y, &rng, strided);
        a.memory().FillRandom(rng);
        b.memory().FillRandom(rng);
        ASSERT_EQ(CALL(aclnnMatmul, a, b, y, int8_t{1}), 0) << aclGetRecentErrMsg();
        const int64_t k = c.a.back(), m = c.a.rank() > 1 ? c.a[c.a.rank() - 2] : 1,
                      n = c.b.rank() > 1 ? c.b.back() : 1;
        Dims batch;
        for (int i = 0; i < c.y.rank() - (c.a.rank() > 1) - (c.b.rank() > 1); ++i) batch.push_back(c.y[i]);
        Dims ab, bb;
        for (int i = 0; i + 2 < c.a.rank(); ++i) ab.push_back(c.a[i]);
        for (int i = 0; i + 2 < c.b.rank(); ++i) bb.push_back(c.b[i]);
        const auto av = a.Get(), bv = b.Get();
        std::vector<double> want, tolerance;
        for (int64_t s = 0; s < NumElements(batch); ++s) {
          const int64_t a0 = BroadcastIndex(ab, batch, s) * m * k, b0 = BroadcastIndex(bb, batch, s) * k * n;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0, magnitude = 0;
              for (int64_t p = 0; p < k; ++p) {
                const double product = av[a0 + i * k + p] * bv[b0 + p * n + j];
                sum += product;
                magnitude += std::abs(product);
              }
              want.push_back(sum);
              tolerance.push_back(testing::ContractionTolerance(magnitude, sum, k, DType::kF32, t) + 0x1p-25);
            }
          }
        }
        EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << ToString(c.a) << ToString(c.b);
        EXPECT_TRUE(y.memory().GuardsIntact());
      }
    }
  }
}

TEST_F(ApiTest, MatmulIntoItsInput) {
  Rng rng;
  ApiTensor a(DType::kF32, {8, 8}, &rng), b(DType::kF32, {8, 8}, &rng), y(DType::kF32, {8, 8}, &rng);
  a.memory().FillRandom(rng);
  b.memory().FillRandom(rng);
  ASSERT_EQ(CALL(aclnnMatmul, a, b, y, int8_t{0}), 0);
  ASSERT_EQ(CALL(aclnnMatmul, a, b, a, int8_t{0}), 0);
  EXPECT_EQ(a.Get(), y.Get());
}

struct ConvCase {
  Dims x, w;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

// Scatter (transposed) or gather form on (N, C, H, W); pads are (top, bottom, left, right).
std::vector<double> ConvReference(const ConvCase& c, const std::vector<double>& x,
                                  const std::vector<double>& w, const std::vector<double>& b, const Dims& xd,
                                  const Dims& wd, const Dims& yd, const std::vector<int64_t>& pads,
                                  std::vector<double>* magnitude) {
  std::vector<double> y(static_cast<size_t>(NumElements(yd)), 0);
  magnitude->assign(y.size(), 0);
  const int64_t oc = yd[1], per_in = xd[1] / c.groups, per_out = oc / c.groups;
  for (int64_t n = 0; n < xd[0]; ++n)
    for (int64_t o = 0; o < oc; ++o)
      for (int64_t ci = 0; ci < per_in; ++ci)
        for (int64_t kh = 0; kh < wd[2]; ++kh)
          for (int64_t kw = 0; kw < wd[3]; ++kw) {
            const int64_t in = o / per_out * per_in + ci;
            const int64_t at = c.transposed ? ((in * wd[1] + o % per_out) * wd[2] + kh) * wd[3] + kw
                                            : ((o * wd[1] + ci) * wd[2] + kh) * wd[3] + kw;
            const int64_t hs = c.transposed ? xd[2] : yd[2], ws = c.transposed ? xd[3] : yd[3];
            for (int64_t h = 0; h < hs; ++h)
              for (int64_t q = 0; q < ws; ++q) {
                const int64_t h2 = h * c.stride[0] + kh * c.dilation[0] - pads[0];
                const int64_t w2 = q * c.stride[1] + kw * c.dilation[1] - pads[2];
                const Dims& other = c.transposed ? yd : xd;
                if (h2 < 0 || h2 >= other[2] || w2 < 0 || w2 >= other[3]) continue;
                const int64_t xh = c.transposed ? h : h2, xw = c.transposed ? q : w2;
                const int64_t yh = c.transposed ? h2 : h, yw = c.transposed ? w2 : q;
                const double product = x[((n * xd[1] + in) * xd[2] + xh) * xd[3] + xw] * w[at];
                const int64_t yi = ((n * oc + o) * yd[2] + yh) * yd[3] + yw;
                y[yi] += product;
                (*magnitude)[yi] += std::abs(product);
              }
          }
  for (size_t i = 0; i < y.size(); ++i) {
    const double bias = b.empty() ? 0 : b[static_cast<int64_t>(i) / (yd[2] * yd[3]) % oc];
    y[i] += bias;
    (*magnitude)[i] += std::abs(bias);
  }
  return y;
}

TEST_F(ApiTest, ConvolutionPlainAndTransposed) {
  Rng rng;
  const ConvCase kCases[] = {
      {{2, 3, 8, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {{1, 16, 7, 7}, {32, 16, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {{1, 6, 9, 8}, {4, 3, 3, 2}, {2, 1}, {1, 0}, {1, 2}, {0, 0}, 2},
      {{1, 8, 6, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 8},
      {{1, 3, 6, 7}, {4, 3, 3, 3}, {2, 2}, {0, 1, 1, 2}, {1, 1}, {0, 0}},
      {{2, 4, 5, 6}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1, true},
      {{1, 4, 5, 5}, {4, 2, 2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}, 2, true},
      {{0, 3, 8, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
  };
  for (const ConvCase& c : kCases) {
    for (bool strided : {false, true}) {
      std::vector<int64_t> pads = c.padding;
      if (pads.size() == 2) pads = {pads[0], pads[0], pads[1], pads[1]};
      const int64_t oc = c.transposed ? c.w[1] * c.groups : c.w[0];
      Dims yd{c.x[0], oc};
      for (int i = 0; i < 2; ++i) {
        const int64_t extent = c.dilation[i] * (c.w[2 + i] - 1), pad = pads[2 * i] + pads[2 * i + 1];
        yd.push_back(c.transposed ? (c.x[2 + i] - 1) * c.stride[i] - pad + extent + c.output_padding[i] + 1
                                  : (c.x[2 + i] + pad - extent - 1) / c.stride[i] + 1);
      }
      ApiTensor x(DType::kF32, c.x, &rng, strided, ACL_FORMAT_NCHW),
          w(DType::kF32, c.w, &rng, strided, ACL_FORMAT_NCHW);
      ApiTensor b(DType::kF32, {oc}, &rng), y(DType::kF32, yd, &rng, strided, ACL_FORMAT_NCHW);
      x.memory().FillRandom(rng);
      w.memory().FillRandom(rng);
      b.memory().FillRandom(rng);
      ApiInts stride(c.stride), padding(c.padding), dilation(c.dilation), extra(c.output_padding);
      ASSERT_EQ(CALL(aclnnConvolution, x, w, OrNull(!strided, b), stride, padding, dilation, c.transposed,
                     extra, c.groups, y, int8_t{0}),
                0)
          << aclGetRecentErrMsg();
      std::vector<double> magnitude;
      const auto want = ConvReference(c, x.Get(), w.Get(), strided ? std::vector<double>{} : b.Get(), c.x,
                                      c.w, yd, pads, &magnitude);
      std::vector<double> tolerance;
      for (size_t i = 0; i < want.size(); ++i) {
        tolerance.push_back(testing::ContractionTolerance(magnitude[i], want[i], c.x[1] * c.w[2] * c.w[3],
                                                          DType::kF32, DType::kF32));
      }
      EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << ToString(c.x) << ToString(c.w);
      EXPECT_TRUE(y.memory().GuardsIntact());
    }
  }
}

TEST_F(ApiTest, Convolution1d) {
  Rng rng;
  ApiTensor x(DType::kF32, {2, 3, 10}, &rng, false, ACL_FORMAT_NCL),
      w(DType::kF32, {4, 3, 3}, &rng, false, ACL_FORMAT_NCL);
  ApiTensor y(DType::kF32, {2, 4, 5}, &rng, false, ACL_FORMAT_NCL);
  x.memory().FillRandom(rng);
  w.memory().FillRandom(rng);
  ApiInts stride({2}), padding({1}), dilation({1}), extra({0});
  ASSERT_EQ(CALL(aclnnConvolution, x, w, nullptr, stride, padding, dilation, false, extra, 1, y, int8_t{0}),
            0)
      << aclGetRecentErrMsg();
  ConvCase c{{2, 3, 1, 10}, {4, 3, 1, 3}, {1, 2}, {}, {1, 1}, {0, 0}};
  std::vector<double> magnitude;
  const auto want = ConvReference(c, x.Get(), w.Get(), {}, c.x, c.w, {2, 4, 1, 5}, {0, 0, 1, 1}, &magnitude);
  std::vector<double> tolerance;
  for (size_t i = 0; i < want.size(); ++i) {
    tolerance.push_back(testing::ContractionTolerance(magnitude[i], want[i], 9, DType::kF32, DType::kF32));
  }
  EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
}

TEST_F(ApiTest, MaxPoolWithAndWithoutBatch) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kS32, DType::kU8}) {
    for (bool batch : {true, false}) {
      const Dims xd = batch ? Dims{2, 3, 7, 8} : Dims{3, 7, 8}, yd = batch ? Dims{2, 3, 4, 4} : Dims{3, 4, 4};
      ApiTensor x(t, xd, &rng, batch), y(t, yd, &rng, batch);
      x.memory().FillRandom(rng, t == DType::kU8 ? 0 : -50, 50);
      ApiInts kernel({3, 2}), strides({2, 2}), pads({1, 0}), dilations({1, 1});
      ASSERT_EQ(CALL(aclnnMaxPool, x, kernel, strides, 0, pads, dilations, 0, y), 0) << aclGetRecentErrMsg();
      const auto v = x.Get();
      std::vector<double> want;
      for (int64_t plane = 0; plane < NumElements(xd) / 56; ++plane) {
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t j = 0; j < 4; ++j) {
            double best = -INFINITY;
            for (int64_t h = std::max<int64_t>(0, 2 * i - 1); h < std::min<int64_t>(7, 2 * i + 2); ++h) {
              for (int64_t q = 2 * j; q < std::min<int64_t>(8, 2 * j + 2); ++q)
                best = std::max(best, v[plane * 56 + h * 8 + q]);
            }
            want.push_back(best);
          }
        }
      }
      EXPECT_EQ(y.Get(), want) << Name(t);
    }
  }
}

// Integers beyond the 53 bits of a double; products wrap.
TEST_F(ApiTest, AddTakesIntegerAlphaExactly) {
  const int64_t odd = (int64_t{1} << 53) + 1;
  for (int64_t alpha :
       {odd, -odd, int64_t{0}, int64_t{3}, INT64_MAX, INT64_MIN, (int64_t{1} << 62) + 12345}) {
    std::vector<int64_t> x{1, -7, odd, INT64_MAX}, y{1, 5, -3, odd}, got(4, 99);
    const int64_t dims[] = {4};
    auto tensor = [&](std::vector<int64_t>& data) {
      return aclCreateTensor(dims, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, dims, 1, data.data());
    };
    aclTensor *a = tensor(x), *b = tensor(y), *out = tensor(got);
    ApiScalar scalar(&alpha, ACL_INT64);
    EXPECT_EQ(CALL(aclnnAdd, a, b, scalar, out), 0);
    for (size_t i = 0; i < got.size(); ++i) {
      const uint64_t want =
          static_cast<uint64_t>(x[i]) + static_cast<uint64_t>(alpha) * static_cast<uint64_t>(y[i]);
      EXPECT_EQ(got[i], static_cast<int64_t>(want)) << alpha << " " << i;
    }
    for (aclTensor* t : {a, b, out}) aclDestroyTensor(t);
  }
  // A narrower result wraps as well.
  ApiTensor x(DType::kS32, {2}), y(DType::kS32, {2}), out(DType::kS32, {2});
  x.Set({1, 2});
  y.Set({3, -4});
  int64_t alpha = (int64_t{1} << 40) + 5;
  ApiScalar scalar(&alpha, ACL_INT64);
  EXPECT_EQ(CALL(aclnnAdd, x, y, scalar, out), 0);
  EXPECT_EQ(out.Get(), (std::vector<double>{16, -18}));
}

}  // namespace
}  // namespace opsnn::capi
