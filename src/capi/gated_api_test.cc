// Gated units, softmax and its gradients, PRelu: the functions of the activation family that mix elements.
#include <cmath>

#include "aclnnop/aclnn_clipped_swiglu.h"
#include "aclnnop/aclnn_clipped_swiglu_grad.h"
#include "aclnnop/aclnn_clipped_swiglu_v2.h"
#include "aclnnop/aclnn_fatrelu_mul.h"
#include "aclnnop/aclnn_geglu.h"
#include "aclnnop/aclnn_geglu_backward.h"
#include "aclnnop/aclnn_gelu_mul.h"
#include "aclnnop/aclnn_gelu_quant.h"
#include "aclnnop/aclnn_glu.h"
#include "aclnnop/aclnn_glu_backward.h"
#include "aclnnop/aclnn_logsoftmax.h"
#include "aclnnop/aclnn_logsoftmax_backward.h"
#include "aclnnop/aclnn_prelu.h"
#include "aclnnop/aclnn_prelu_backward.h"
#include "aclnnop/aclnn_rrelu_with_noise.h"
#include "aclnnop/aclnn_situ_glu.h"
#include "aclnnop/aclnn_situ_glu_grad.h"
#include "aclnnop/aclnn_softmax.h"
#include "aclnnop/aclnn_softmax_backward.h"
#include "aclnnop/aclnn_softmax_cross_entropy_with_logits.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "aclnnop/aclnn_swiglu_group.h"
#include "aclnnop/aclnn_swiglu_group_grad.h"
#include "aclnnop/aclnn_swiglu_group_quant_grad.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

using testing::Compare;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x * Sigmoid(x); }
double SiluSlope(double x) { return Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }
double Gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

// A few f32 operations on values of about `scale`, and the rounding of the result.
std::vector<double> Bounds(const std::vector<double>& want, DType t, double scale = 16) {
  std::vector<double> bounds;
  for (double w : want)
    bounds.push_back(scale * 16 * 0x1p-24 + 2 * testing::Epsilon(t) * std::fabs(w) + 0x1p-24);
  return bounds;
}

using Pair = double (*)(double a, double b);

// Positions of the halves of x, [pre, 2h, post] cut along dim 1; out position i.
struct Cut {
  int64_t pre, half, post;
  bool interleaved = false;
  Dims Whole() const { return {pre, 2 * half, post}; }
  Dims Half() const { return {pre, half, post}; }
  int64_t size() const { return pre * half * post; }
  size_t Left(int64_t i) const { return At(i, false); }
  size_t Right(int64_t i) const { return At(i, true); }
  size_t At(int64_t i, bool right) const {
    const int64_t rest = half * post, p = i / rest, q = i % rest;
    return static_cast<size_t>(p * 2 * rest + (interleaved ? 2 * q + right : q + right * rest));
  }
};

class GatedApiTest : public ApiTest {
 protected:
  // call(x, y): one function; unit(left, right) its formula.
  template <typename Fn>
  void Forward(const Cut& cut, Fn call, Pair unit, const char* what) {
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      const bool strided = !cut.interleaved && rng_.Chance(0.5);
      ApiTensor x(t, cut.Whole(), &rng_, strided), y(t, cut.Half(), &rng_, strided);
      x.memory().FillRandom(rng_);
      ASSERT_EQ(call(x, y), 0) << what << ": " << aclGetRecentErrMsg();
      const auto v = x.Get();
      std::vector<double> want;
      for (int64_t i = 0; i < cut.size(); ++i) want.push_back(unit(v[cut.Left(i)], v[cut.Right(i)]));
      EXPECT_EQ(Compare(y.Get(), want, Bounds(want, t)), "") << what << " " << Name(t);
      EXPECT_TRUE(y.memory().GuardsIntact());
    }
  }
  template <typename Fn>
  void Backward(const Cut& cut, Fn call, Pair left, Pair right, const char* what) {
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      const bool strided = !cut.interleaved && rng_.Chance(0.5);
      ApiTensor dy(t, cut.Half(), &rng_, strided), x(t, cut.Whole(), &rng_, strided);
      ApiTensor dx(t, cut.Whole(), &rng_, strided);
      dy.memory().FillRandom(rng_);
      x.memory().FillRandom(rng_);
      ASSERT_EQ(call(dy, x, dx), 0) << what << ": " << aclGetRecentErrMsg();
      const auto v = x.Get(), g = dy.Get();
      std::vector<double> want(v.size());
      for (int64_t i = 0; i < cut.size(); ++i) {
        const size_t l = cut.Left(i), r = cut.Right(i);
        want[l] = g[static_cast<size_t>(i)] * left(v[l], v[r]);
        want[r] = g[static_cast<size_t>(i)] * right(v[l], v[r]);
      }
      EXPECT_EQ(Compare(dx.Get(), want, Bounds(want, t)), "") << what << " " << Name(t);
      EXPECT_TRUE(dx.memory().GuardsIntact());
    }
  }
  Rng rng_;
};

const Cut kCuts[] = {{3, 4, 5}, {1, 33, 1}, {7, 1, 2}, {0, 2, 3}};

TEST_F(GatedApiTest, ForwardAlongAnyDim) {
  for (const Cut& c : kCuts) {
    Forward(
        c, [&](aclTensor* x, aclTensor* y) { return CALL(aclnnGlu, x, -2, y); },
        [](double a, double b) { return a * Sigmoid(b); }, "Glu");
    Forward(
        c, [&](aclTensor* x, aclTensor* y) { return CALL(aclnnSwiGlu, x, 1, y); },
        [](double a, double b) { return Silu(a) * b; }, "SwiGlu");
    Forward(
        c, [&](aclTensor* x, aclTensor* y) { return CALL(aclnnSituGlu, x, 1, 1.5, 0.75, true, y); },
        [](double a, double b) { return 1.5 * std::tanh(a / 1.5) * Sigmoid(a) * 0.75 * std::tanh(b / 0.75); },
        "SituGlu");
    Forward(
        c, [&](aclTensor* x, aclTensor* y) { return CALL(aclnnSituGlu, x, 1, 1.5, 0.0, false, y); },
        [](double a, double b) { return 1.5 * std::tanh(b / 1.5) * Sigmoid(b) * a; }, "SituGlu right");
    for (bool interleaved : {false, true}) {
      Cut cut = c;
      cut.interleaved = interleaved;
      Forward(
          cut,
          [&](aclTensor* x, aclTensor* y) {
            return CALL(aclnnClippedSwiglu, x, nullptr, 1, 1.702, 1.25, 0.5, interleaved, y);
          },
          [](double a, double b) {
            a = std::fmin(a, 1.25);
            return a * Sigmoid(1.702 * a) * (std::fmax(std::fmin(b, 1.25), -1.25) + 0.5);
          },
          "ClippedSwiglu");
      Forward(
          cut,
          [&](aclTensor* x, aclTensor* y) {
            return CALL(aclnnClippedSwigluV2, x, nullptr, 1, 1.702, 0.75, 0.5, interleaved, 1, y);
          },
          [](double a, double b) { return std::fmin(Silu(a), 0.75) * std::fmax(std::fmin(b, 0.75), -0.75); },
          "ClippedSwigluV2");
    }
  }
  const Cut last{6, 5, 1};
  Forward(
      last, [&](aclTensor* x, aclTensor* y) { return CALL(aclnnSwiGlu, x, 1, y); },
      [](double a, double b) { return Silu(a) * b; }, "SwiGlu");
}

TEST_F(GatedApiTest, BackwardAlongAnyDim) {
  for (const Cut& c : kCuts) {
    Backward(
        c, [&](aclTensor* dy, aclTensor* x, aclTensor* dx) { return CALL(aclnnGluBackward, dy, x, 1, dx); },
        [](double, double b) { return Sigmoid(b); },
        [](double a, double b) { return a * Sigmoid(b) * (1 - Sigmoid(b)); }, "GluBackward");
    Backward(
        c, [&](aclTensor* dy, aclTensor* x, aclTensor* dx) { return CALL(aclnnSwiGluGrad, dy, x, 1, dx); },
        [](double a, double b) { return SiluSlope(a) * b; }, [](double a, double) { return Silu(a); },
        "SwiGluGrad");
    Backward(
        c,
        [&](aclTensor* dy, aclTensor* x, aclTensor* dx) {
          return CALL(aclnnSituGluGrad, dy, x, 1, 1.5, 0.75, true, dx);
        },
        [](double a, double b) {
          const double t = std::tanh(a / 1.5), s = Sigmoid(a);
          return 0.75 * std::tanh(b / 0.75) * s * ((1 - t * t) + 1.5 * t * (1 - s));
        },
        [](double a, double b) {
          const double u = std::tanh(b / 0.75);
          return 1.5 * std::tanh(a / 1.5) * Sigmoid(a) * (1 - u * u);
        },
        "SituGluGrad");
    for (bool interleaved : {false, true}) {
      Cut cut = c;
      cut.interleaved = interleaved;
      Backward(
          cut,
          [&](aclTensor* dy, aclTensor* x, aclTensor* dx) {
            return CALL(aclnnClippedSwigluGrad, dy, x, nullptr, 1, 1.702, 1.25, 0.5, interleaved, dx);
          },
          [](double a, double b) {
            const double up = std::fmax(std::fmin(b, 1.25), -1.25) + 0.5, s = Sigmoid(1.702 * a);
            return a <= 1.25 ? up * s * (1 + 1.702 * a * (1 - s)) : 0;
          },
          [](double a, double b) {
            a = std::fmin(a, 1.25);
            return std::fabs(b) <= 1.25 ? a * Sigmoid(1.702 * a) : 0;
          },
          "ClippedSwigluGrad");
    }
  }
}

TEST_F(GatedApiTest, GeGluGivesTheActivatedHalfToo) {
  for (const Cut& c : kCuts) {
    for (bool left : {false, true}) {
      ApiTensor x(DType::kF32, c.Whole(), &rng_, left), y(DType::kF32, c.Half()), gelu(DType::kF32, c.Half());
      ApiTensor dy(DType::kF32, c.Half()), dx(DType::kF32, c.Whole(), &rng_, left);
      x.memory().FillRandom(rng_);
      dy.memory().FillRandom(rng_);
      ASSERT_EQ(CALL(aclnnGeGluV3, x, 1, 0, left, y, gelu), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnGeGluV3Backward, dy, x, gelu, 1, 0, left, dx), 0) << aclGetRecentErrMsg();
      const auto v = x.Get(), g = dy.Get();
      std::vector<double> want, want_gelu, want_dx(v.size());
      for (int64_t i = 0; i < c.size(); ++i) {
        const size_t a = left ? c.Left(i) : c.Right(i), b = left ? c.Right(i) : c.Left(i);
        want_gelu.push_back(Gelu(v[a]));
        want.push_back(Gelu(v[a]) * v[b]);
        want_dx[a] = g[static_cast<size_t>(i)] * v[b] * GeluSlope(v[a]);
        want_dx[b] = g[static_cast<size_t>(i)] * Gelu(v[a]);
      }
      EXPECT_EQ(Compare(y.Get(), want, Bounds(want, DType::kF32)), "");
      EXPECT_EQ(Compare(gelu.Get(), want_gelu, Bounds(want, DType::kF32)), "");
      EXPECT_EQ(Compare(dx.Get(), want_dx, Bounds(want_dx, DType::kF32)), "");
      ASSERT_EQ(CALL(aclnnGeGlu, x, 1, 1, y, gelu), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnGeGluBackward, dy, x, gelu, 1, 1, dx), 0) << aclGetRecentErrMsg();
      want_gelu.clear();
      for (int64_t i = 0; i < c.size(); ++i) want_gelu.push_back(GeluTanh(v[c.Right(i)]));
      EXPECT_EQ(Compare(gelu.Get(), want_gelu, Bounds(want_gelu, DType::kF32)), "");
    }
  }
}

TEST_F(GatedApiTest, LastDimForms) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    ApiTensor x(t, {4, 10}, &rng_, true), y(t, {4, 5}), threshold(t, {1});
    x.memory().FillRandom(rng_);
    threshold.Set({0.25});
    const auto v = x.Get();
    std::string text = "tanh";
    std::vector<double> want, fat;
    for (size_t i = 0; i < 20; ++i) {
      const double a = v[i / 5 * 10 + i % 5], b = v[i / 5 * 10 + i % 5 + 5];
      want.push_back(GeluTanh(a) * b);
      fat.push_back(a < 0.25 ? 0 : a * b);
    }
    ASSERT_EQ(CALL(aclnnGeluMul, x, text.data(), y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), want, Bounds(want, t)), "");
    ASSERT_EQ(CALL(aclnnFatreluMul, x, threshold, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), fat, Bounds(fat, t)), "");
  }
}

// Rows behind the sum of the groups are 0.
TEST_F(GatedApiTest, Groups) {
  ApiTensor x(DType::kF32, {6, 4}), y(DType::kF32, {6, 2}), weight(DType::kF32, {6}),
      groups(DType::kS64, {3});
  ApiTensor dx(DType::kF32, {6, 4});
  x.memory().FillRandom(rng_);
  weight.memory().FillRandom(rng_);
  groups.Set({2, 0, 1});
  const auto v = x.Get(), w = weight.Get();
  std::vector<double> want(12), clipped(12), grad(24);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      const double a = v[4 * r + c], b = v[4 * r + 2 + c];
      want[2 * r + c] = Silu(std::fmin(a, 1)) * std::fmax(std::fmin(b, 1), -1) * w[r];
      clipped[2 * r + c] = Silu(std::fmin(a, 1)) * std::fmax(std::fmin(b, 1), -1);
      grad[4 * r + c] = a <= 1 ? SiluSlope(a) * std::fmax(std::fmin(b, 1), -1) * clipped[2 * r + c] : 0;
      grad[4 * r + 2 + c] = std::fabs(b) <= 1 ? Silu(std::fmin(a, 1)) * clipped[2 * r + c] : 0;
    }
  }
  ASSERT_EQ(CALL(aclnnSwigluGroup, x, weight, groups, 1.0, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(y.Get(), want, Bounds(want, DType::kF32)), "");
  ASSERT_EQ(CALL(aclnnClippedSwiglu, x, groups, 1, 1.0, 1.0, 0.0, false, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(y.Get(), clipped, Bounds(want, DType::kF32)), "");
  ASSERT_EQ(CALL(aclnnClippedSwigluGrad, y, x, groups, 1, 1.0, 1.0, 0.0, false, dx), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(dx.Get(), grad, Bounds(grad, DType::kF32)), "");
}

TEST_F(GatedApiTest, GroupGradientWithWeights) {
  ApiTensor x(DType::kF16, {4, 6}), dy(DType::kF16, {4, 3}), w(DType::kF32, {4}), origin(DType::kF16, {4, 3});
  ApiTensor groups(DType::kS64, {2}), dx(DType::kF16, {4, 6}), dw(DType::kF32, {4});
  for (ApiTensor* t : {&x, &dy, &w, &origin}) t->memory().FillRandom(rng_);
  groups.Set({1, 2});
  const auto v = x.Get(), g = dy.Get(), s = w.Get(), o = origin.Get();
  std::vector<double> want(24), want_dw(4);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 3; ++c) {
      const double a = v[6 * r + c], b = v[6 * r + 3 + c], dyw = g[3 * r + c] * s[r];
      want[6 * r + c] = a < 1 ? dyw * std::fmax(std::fmin(b, 1), -1) * SiluSlope(a) : 0;
      want[6 * r + 3 + c] = std::fabs(b) < 1 ? dyw * Silu(std::fmin(a, 1)) : 0;
      want_dw[r] += g[3 * r + c] * o[3 * r + c];
    }
  }
  ASSERT_EQ(CALL(aclnnSwigluGroupQuantGrad, dy, x, w, origin, groups, 1.0, dx, dw), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(dx.Get(), want, Bounds(want, DType::kF16)), "");
  EXPECT_EQ(Compare(dw.Get(), want_dw, Bounds(want_dw, DType::kF32)), "");
  // The other gradient gives those of the weights in the rows behind the groups, too.
  for (size_t c = 9; c < 12; ++c) want_dw[3] += g[c] * o[c];
  ASSERT_EQ(CALL(aclnnSwigluGroupGrad, dy, x, w, origin, groups, 1.0F, dx, dw), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(Compare(dx.Get(), want, Bounds(want, DType::kF16)), "");
  EXPECT_EQ(Compare(dw.Get(), want_dw, Bounds(want_dw, DType::kF32)), "");
  ExpectRefused(CALL(aclnnSwigluGroupGrad, dy, x, w, origin, groups, -1.0F, dx, dw), 161002,
                {"clampLimit is -1", "0 or more"});
}

TEST_F(GatedApiTest, GeluQuant) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    ApiTensor x(t, {3, 7}, &rng_, true), y(DType::kS8, {3, 7}), scale(t, {7}), offset(t, {1}),
        step(DType::kF32, {3});
    x.memory().FillRandom(rng_);
    scale.memory().FillRandom(rng_, 1, 9);
    offset.Set({3});
    std::string none = "none", fixed = "static", dynamic = "dynamic", rint = "rint";
    ASSERT_EQ(CALL(aclnnGeluQuant, x, scale, offset, none.data(), fixed.data(), rint.data(), 2, y, nullptr),
              0)
        << aclGetRecentErrMsg();
    const auto v = x.Get(), s = scale.Get();
    auto got = y.Get();
    for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(got[i], Gelu(v[i]) * s[i % 7] + 3, 0.501);
    ASSERT_EQ(CALL(aclnnGeluQuant, x, scale, nullptr, none.data(), dynamic.data(), rint.data(), 2, y, step),
              0)
        << aclGetRecentErrMsg();
    got = y.Get();
    const auto steps = step.Get();
    for (size_t r = 0; r < 3; ++r) {
      double most = 0;
      for (size_t c = 0; c < 7; ++c) most = std::fmax(most, std::fabs(Gelu(v[7 * r + c]) * s[c]));
      EXPECT_NEAR(steps[r], most / 127, 1e-5 * most);
      for (size_t c = 0; c < 7; ++c) EXPECT_NEAR(got[7 * r + c], Gelu(v[7 * r + c]) * s[c] / steps[r], 0.501);
    }
    ExpectRefused(
        CALL(aclnnGeluQuant, x, scale, offset, none.data(), fixed.data(), rint.data(), 36, y, nullptr),
        161002, {"aclnnGeluQuant", "dstType", "36"});
    ExpectRefused(
        CALL(aclnnGeluQuant, x, nullptr, offset, none.data(), fixed.data(), rint.data(), 2, y, nullptr),
        161001, {"aclnnGeluQuant", "inputScaleOptional"});
  }
}

TEST_F(GatedApiTest, Refusals) {
  ApiTensor x(DType::kF32, {2, 5}), y(DType::kF32, {2, 2}), even(DType::kF32, {2, 4}),
      wrong(DType::kF32, {4, 2});
  ExpectRefused(CALL(aclnnSwiGlu, x, 1, y), 161002, {"aclnnSwiGlu", "x", "[2,5]", "even"});
  ExpectRefused(CALL(aclnnSwiGlu, even, 2, y), 161002, {"aclnnSwiGlu", "dim", "2"});
  ExpectRefused(CALL(aclnnSwiGlu, even, 1, wrong), 161002, {"aclnnSwiGlu", "out", "[4,2]", "[2,2]"});
  ExpectRefused(CALL(aclnnClippedSwiglu, even, nullptr, 1, 1.0, 0.0, 0.0, false, y), 161002,
                {"aclnnClippedSwiglu", "limit", "0"});
  ExpectRefused(CALL(aclnnGeGlu, even, 1, 2, y, y), 161002, {"aclnnGeGlu"});
}

// ---- rows ------------------------------------------------------------------------------------------------
TEST_F(GatedApiTest, SoftmaxAndGradients) {
  const Dims dims{3, 4, 5};
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int dim : {-1, 0, 1}) {
      ApiTensor x(t, dims, &rng_, dim == 1), y(t, dims, &rng_, dim == 0), dy(t, dims, &rng_, true),
          dx(t, dims);
      x.memory().FillRandom(rng_);
      dy.memory().FillRandom(rng_);
      const int axis = dim < 0 ? 2 : dim;
      int64_t n = dims[axis], inner = 1;
      for (int i = axis + 1; i < 3; ++i) inner *= dims[i];
      auto row_of = [&](size_t i) {
        return i / static_cast<size_t>(n * inner) * static_cast<size_t>(inner) +
               i % static_cast<size_t>(inner);
      };
      for (bool log : {false, true}) {
        ASSERT_EQ(log ? CALL(aclnnLogSoftmax, x, dim, y) : CALL(aclnnSoftmax, x, dim, y), 0)
            << aclGetRecentErrMsg();
        ASSERT_EQ(
            log ? CALL(aclnnLogSoftmaxBackward, dy, y, dim, dx) : CALL(aclnnSoftmaxBackward, dy, y, dim, dx),
            0)
            << aclGetRecentErrMsg();
        const auto xv = x.Get(), yv = y.Get(), g = dy.Get();
        std::vector<double> sum(static_cast<size_t>(60 / n)), dot(sum.size()), want, want_dx;
        for (size_t i = 0; i < 60; ++i) {
          sum[row_of(i)] += std::exp(xv[i]);
          dot[row_of(i)] += log ? g[i] : g[i] * yv[i];
        }
        for (size_t i = 0; i < 60; ++i) {
          const double p = std::exp(xv[i]) / sum[row_of(i)];
          want.push_back(log ? std::log(p) : p);
          want_dx.push_back(log ? g[i] - std::exp(yv[i]) * dot[row_of(i)] : (g[i] - dot[row_of(i)]) * yv[i]);
        }
        EXPECT_EQ(Compare(y.Get(), want, Bounds(want, t)), "") << log << dim;
        EXPECT_EQ(Compare(dx.Get(), want_dx, Bounds(want_dx, t)), "") << log << dim;
      }
    }
  }
}

TEST_F(GatedApiTest, SoftmaxCrossEntropy) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    ApiTensor x(t, {5, 7}, &rng_, true), labels(t, {5, 7}), loss(t, {5}, &rng_, true),
        grad(t, {5, 7}, &rng_, true);
    x.memory().FillRandom(rng_);
    labels.memory().FillRandom(rng_, 0, 0.25);
    ASSERT_EQ(CALL(aclnnSoftmaxCrossEntropyWithLogits, x, labels, loss, grad), 0) << aclGetRecentErrMsg();
    const auto v = x.Get(), l = labels.Get();
    std::vector<double> want_loss, want;
    for (size_t r = 0; r < 5; ++r) {
      double sum = 0, total = 0;
      for (size_t c = 0; c < 7; ++c) sum += std::exp(v[7 * r + c]);
      for (size_t c = 0; c < 7; ++c) {
        total -= l[7 * r + c] * (v[7 * r + c] - std::log(sum));
        want.push_back(std::exp(v[7 * r + c]) / sum - l[7 * r + c]);
      }
      want_loss.push_back(total);
    }
    EXPECT_EQ(Compare(loss.Get(), want_loss, Bounds(want_loss, t)), "");
    EXPECT_EQ(Compare(grad.Get(), want, Bounds(want, t)), "");
  }
  ApiTensor x(DType::kF32, {2, 3}), wrong(DType::kF32, {3, 2}), loss(DType::kF32, {2}),
      grad(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnSoftmaxCrossEntropyWithLogits, x, wrong, loss, grad), 161002,
                {"labels", "[3,2]", "[2,3]"});
}

TEST_F(GatedApiTest, PReluAndGradient) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t channels : {1, 3}) {
      const Dims dims{2, 3, 4};
      ApiTensor x(t, dims, &rng_, true), w(t, {channels}, &rng_, true), y(t, dims, &rng_, true);
      ApiTensor dy(t, dims, &rng_, true), dx(t, dims, &rng_, true), dw(t, {channels}, &rng_, true);
      x.memory().FillRandom(rng_);
      w.memory().FillRandom(rng_);
      dy.memory().FillRandom(rng_);
      ASSERT_EQ(CALL(aclnnPrelu, x, w, y), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnPreluBackward, dy, x, w, dx, dw), 0) << aclGetRecentErrMsg();
      const auto v = x.Get(), s = w.Get(), g = dy.Get();
      std::vector<double> want, want_dx, want_dw(static_cast<size_t>(channels));
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t c = channels == 1 ? 0 : i / 4 % 3;
        want.push_back(v[i] > 0 ? v[i] : s[c] * v[i]);
        want_dx.push_back(v[i] > 0 ? g[i] : s[c] * g[i]);
        if (!(v[i] > 0)) want_dw[c] += g[i] * v[i];
      }
      EXPECT_EQ(Compare(y.Get(), want, Bounds(want, t)), "");
      EXPECT_EQ(Compare(dx.Get(), want_dx, Bounds(want_dx, t)), "");
      EXPECT_EQ(Compare(dw.Get(), want_dw, Bounds(want_dw, t, 64)), "");
    }
  }
  ApiTensor x(DType::kF32, {2, 3}), w(DType::kF32, {2}), y(DType::kF32, {2, 3});
  ExpectRefused(CALL(aclnnPrelu, x, w, y), 161002, {"aclnnPrelu", "weight", "[2]", "3"});
}

// Slopes lie in the bounds, are kept in noise, and depend on seed and offset alone.
TEST_F(GatedApiTest, RReluDrawsSlopes) {
  ApiTensor x(DType::kF32, {1000}), y(DType::kF32, {1000}), noise(DType::kF32, {1000}, &rng_, true);
  x.memory().FillRandom(rng_);
  ApiScalar lower(0.125f), upper(0.5f);
  ASSERT_EQ(CALL(aclnnRReluWithNoise, x, noise, lower, upper, true, 7, 1, y), 0) << aclGetRecentErrMsg();
  const auto v = x.Get(), a = noise.Get(), got = y.Get();
  double sum = 0;
  int drawn = 0;
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(got[i], static_cast<double>(static_cast<float>(v[i] * a[i])));
    if (v[i] > 0) {
      EXPECT_EQ(a[i], 1);
      continue;
    }
    EXPECT_TRUE(a[i] >= 0.125 && a[i] <= 0.5) << a[i];
    sum += a[i];
    ++drawn;
  }
  EXPECT_NEAR(sum / drawn, 0.3125, 5 * 0.375 / std::sqrt(12.0 * drawn));
  ASSERT_EQ(CALL(aclnnRReluWithNoise, x, noise, lower, upper, true, 7, 1, y), 0);
  EXPECT_EQ(noise.Get(), a);
  ASSERT_EQ(CALL(aclnnInplaceRReluWithNoise, x, noise, lower, upper, true, 7, 1), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), got);
  EXPECT_EQ(noise.Get(), a);
}

}  // namespace
}  // namespace opsnn::capi
