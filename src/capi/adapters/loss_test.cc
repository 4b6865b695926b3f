// Losses and their gradients, against double arithmetic.
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_ctc_loss.h"
#include "aclnnop/aclnn_ctc_loss_backward.h"
#include "aclnnop/aclnn_kl_div_target_backward.h"
#include "aclnnop/aclnn_logit.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "aclnnop/aclnn_mse_loss_out.h"
#include "aclnnop/aclnn_smooth_l1_loss.h"
#include "capi/aclnn_tester.h"
#include "capi/api_case.h"
#include "capi/function.h"

namespace opsnn::capi {
namespace {

// v: self, target, weight, positive weight; b: beta; log: logTarget.
struct LossCase {
  const char* name;
  double (*loss)(const double* v, double b, bool log);
  double (*gradient)(const double* v, double b, bool log);  // by self, or by target
  double lo, hi, target_lo, target_hi;
  const char* backward = nullptr;  // where the loss itself is not here
  double beta = 1;
};

double Softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double Sig(double x) { return 1 / (1 + std::exp(-x)); }
int SignOf(double x) { return (x > 0) - (x < 0); }

const LossCase kLosses[] = {
    {"L1Loss", [](const double* v, double, bool) { return std::abs(v[0] - v[1]); },
     [](const double* v, double, bool) -> double { return SignOf(v[0] - v[1]); }, -4, 4, -4, 4},
    {"MseLoss", [](const double* v, double, bool) { return (v[0] - v[1]) * (v[0] - v[1]); },
     [](const double* v, double, bool) { return 2 * (v[0] - v[1]); }, -4, 4, -4, 4},
    {"MseLossOut", [](const double* v, double, bool) { return (v[0] - v[1]) * (v[0] - v[1]); }, nullptr, -4,
     4, -4, 4},
    {"SmoothL1Loss",
     [](const double* v, double b, bool) {
       const double d = std::abs(v[0] - v[1]);
       return d < b ? 0.5 * d * d / b : d - 0.5 * b;
     },
     [](const double* v, double b, bool) {
       const double d = v[0] - v[1];
       return std::abs(d) < b ? d / b : SignOf(d);
     },
     -4, 4, -4, 4},
    {"SoftMarginLoss", [](const double* v, double, bool) { return Softplus(-v[0] * v[1]); },
     [](const double* v, double, bool) { return -v[1] * Sig(-v[0] * v[1]); }, -4, 4, -1, 1},
    {"BinaryCrossEntropy",
     [](const double* v, double, bool) {
       return -v[2] * (v[1] * std::log(v[0]) + (1 - v[1]) * std::log(1 - v[0]));
     },
     [](const double* v, double, bool) { return v[2] * (v[0] - v[1]) / (v[0] * (1 - v[0])); }, 0.125, 0.875,
     0, 1},
    {"BinaryCrossEntropyWithLogits",
     [](const double* v, double, bool) {
       return v[2] * ((1 - v[1]) * v[0] + (1 + (v[3] - 1) * v[1]) * Softplus(-v[0]));
     },
     [](const double* v, double, bool) {
       return v[2] * ((v[3] * v[1] + 1 - v[1]) * Sig(v[0]) - v[3] * v[1]);
     },
     -4, 4, 0, 1},
    {"KlDiv", nullptr,
     [](const double* v, double, bool log) { return log        ? -std::exp(v[1])
                                                    : v[1] > 0 ? -v[1]
                                                               : 0; }, -4, 4, 0,
     2, "KlDivBackward"},
    {"KlDiv", nullptr,
     [](const double* v, double, bool log) {
       return log ? std::exp(v[1]) * (v[1] - v[0] + 1) : std::log(v[1]) - v[0] + 1;
     },
     -4, 4, 0, 2, "KlDivTargetBackward"},
};

class Losses : public ApiTest {
 protected:
  // The tensors that a function takes, by the names of its parameters.
  struct Given {
    ApiTensor *self, *target, *grad, *weight, *pos_weight, *y;
    double beta;
    bool log;
    int64_t reduction;
  };
  int Run(const std::string& api, const Given& g) {
    const OpsnnFunction* f = opsnn_aclnn_find(api.c_str());
    EXPECT_NE(f, nullptr) << api;
    if (!f) return -1;
    std::vector<OpsnnArg> args;
    for (const Param& p : f->params) {
      const std::string name = p.name;
      OpsnnArg a{};
      auto tensor = [&](ApiTensor* t) { a.p = t ? static_cast<aclTensor*>(*t) : nullptr; };
      if (name == "self")
        tensor(g.self);
      else if (name == "target")
        tensor(g.target);
      else if (name.rfind("gradOut", 0) == 0)
        tensor(g.grad);
      else if (name.rfind("weight", 0) == 0)
        tensor(g.weight);
      else if (name == "posWeightOptional")
        tensor(g.pos_weight);
      else if (name == "reduction")
        a.i = g.reduction;
      else if (name == "beta")
        a.d = g.beta;
      else if (name == "logTarget")
        a.i = g.log;
      else
        tensor(g.y);
      args.push_back(a);
    }
    return this->Finish(
        opsnn_aclnn_plan(f, args.data(), static_cast<int>(args.size()), &workspace_size_, &executor_),
        [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) { return opsnn_aclnn_run(f, w, n, e, s); });
  }

  void Round(const LossCase& k, DType t, int64_t reduction, bool gradient, bool strided) {
    const Dims dims = rng_.Shape(1, 4, 2000);
    ApiTensor x(t, dims, &rng_, strided), target(t, dims, &rng_, strided);
    x.memory().FillRandom(rng_, k.lo, k.hi);
    target.memory().FillRandom(rng_, k.target_lo, k.target_hi);
    const bool with_weight = std::string(k.name).rfind("Binary", 0) == 0 && strided;
    ApiTensor weight(t, {dims.back()}), pos(t, {dims.back()});
    weight.memory().FillRandom(rng_, 0, 2);
    pos.memory().FillRandom(rng_, 0, 2);
    const bool log = rng_.Int(0, 1), one_grad = reduction != 0;
    ApiTensor grad(t, one_grad ? Dims() : dims, &rng_);
    grad.memory().FillRandom(rng_, -2, 2);
    ApiTensor y(t, gradient || reduction == 0 ? dims : Dims(), &rng_,
                strided && (gradient || reduction == 0));
    const std::string api =
        "aclnn" + (k.backward ? std::string(k.backward) : std::string(k.name) + (gradient ? "Backward" : ""));
    const bool pos_weight = with_weight && std::string(k.name).find("Logits") != std::string::npos;
    ASSERT_EQ(Run(api, {&x, &target, &grad, with_weight ? &weight : nullptr, pos_weight ? &pos : nullptr, &y,
                        k.beta, log, reduction}),
              0)
        << api << ": " << aclGetRecentErrMsg();
    const std::vector<double> xs = x.Get(), ts = target.Get(), gs = grad.Get(), ws = weight.Get(),
                              ps = pos.Get();
    const auto n = static_cast<double>(xs.size());
    std::vector<double> want, tolerance;
    double sum = 0, magnitude = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const size_t c = i % static_cast<size_t>(dims.back());
      const double v[4] = {xs[i], ts[i], with_weight ? ws[c] : 1, pos_weight ? ps[c] : 1};
      double r = gradient ? k.gradient(v, k.beta, log) : k.loss(v, k.beta, log);
      if (gradient) r *= gs[one_grad ? 0 : i];
      if (gradient && reduction == 1) r /= n;
      if (gradient && reduction == 3) r /= static_cast<double>(dims[0]);
      want.push_back(r);
      sum += r, magnitude += std::abs(r);
      tolerance.push_back(std::abs(r) * (testing::Epsilon(t) + 64 * 0x1p-24) + 0x1p-19);
    }
    if (!gradient && reduction != 0) {
      const double scale = reduction == 1 ? n : 1;
      want = {sum / scale};
      tolerance = {std::abs(sum / scale) * testing::Epsilon(t) + (n + 64) * 0x1p-24 * magnitude / scale +
                   0x1p-19};
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << api << " " << Name(t) << " reduction " << reduction;
    ExpectGuards({&x, &target, &grad, &y});
  }

  Rng rng_;
};

TEST_F(Losses, AgainstDoubles) {
  for (const LossCase& k : kLosses) {
    for (DType t : kFloats) {
      for (int64_t reduction = 0; reduction <= (k.backward ? 3 : 2); ++reduction) {
        if (reduction != 0 && std::string(k.name) == "MseLossOut") continue;  // goes along the first dim
        for (bool strided : {false, true}) {
          if (k.loss) Round(k, t, reduction, false, strided);
          if (k.gradient) Round(k, t, reduction, true, strided);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The derivative that the gradient function gives is that of the loss function.
TEST_F(Losses, GradientsAreThoseOfTheLoss) {
  for (const LossCase& k : kLosses) {
    if (!k.loss || !k.gradient) continue;
    for (int i = 0; i < 200; ++i) {
      double v[4] = {rng_.Real(k.lo, k.hi), rng_.Real(k.target_lo, k.target_hi), 1.5, 0.75};
      if (std::abs(std::abs(v[0] - v[1]) - k.beta) < 1e-3 || std::abs(v[0] - v[1]) < 1e-3) continue;
      const double want = k.gradient(v, k.beta, false), x = v[0];
      v[0] = x + 1e-6;
      const double high = k.loss(v, k.beta, false);
      v[0] = x - 1e-6;
      EXPECT_NEAR((high - k.loss(v, k.beta, false)) / 2e-6, want, 1e-6 * (1 + std::abs(want))) << k.name;
    }
  }
}

TEST_F(Losses, EmptyAndRefusals) {
  ApiTensor none(DType::kF32, {0, 3}), x(DType::kF32, {2, 3}), other(DType::kF32, {2, 4}), y(DType::kF32, {}),
      wide(DType::kF32, {2}), zeros(DType::kF32, {2, 3}), row(DType::kF32, {3});
  ASSERT_EQ(CALL(aclnnMseLoss, none, none, 1, y), 0) << aclGetRecentErrMsg();
  EXPECT_TRUE(std::isnan(y.Get()[0]));
  ASSERT_EQ(CALL(aclnnMseLoss, none, none, 2, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get()[0], 0);
  // Along the first dim alone.
  x.Set({1, 2, 3, 4, 5, 6});
  zeros.Set({0, 0, 0, 0, 0, 0});
  ASSERT_EQ(CALL(aclnnMseLossOut, x, zeros, 1, row), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(row.Get(), (std::vector<double>{8.5, 14.5, 22.5}));
  ExpectRefused(CALL(aclnnMseLoss, x, other, 1, y), 161002, {"target has shape [2,4]", "[2,3]"});
  ExpectRefused(CALL(aclnnMseLoss, x, x, 3, y), 161002, {"reduction is 3"});
  ExpectRefused(CALL(aclnnMseLoss, x, x, 1, wide), 161002, {"out has shape [2]", "one element"});
  ExpectRefused(CALL(aclnnMseLoss, x, x, 0, y), 161002, {"out has shape []", "[2,3]"});
  ExpectRefused(CALL(aclnnSmoothL1Loss, x, x, 0, -1.0f, x), 161002, {"beta is -1"});
}

// The formula of the page, also where the logarithm is infinite.
TEST_F(Losses, KlDivTargetGradientOfZeros) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ApiTensor grad(DType::kF32, {4}), x(DType::kF32, {4}), target(DType::kF32, {4}), y(DType::kF32, {4});
  grad.Set({2, -1, 0, 1}), x.Set({1, 1, 1, 1}), target.Set({0, 0, 0, 1});
  ASSERT_EQ(CALL(aclnnKlDivTargetBackward, grad, x, target, 0, false, y), 0) << aclGetRecentErrMsg();
  const std::vector<double> got = y.Get();
  EXPECT_EQ(got[0], -kInf);
  EXPECT_EQ(got[1], kInf);
  EXPECT_TRUE(std::isnan(got[2])) << got[2];
  EXPECT_EQ(got[3], 0);
}

// A target that no path spells: an infinite loss without a gradient, or zeros where infinities are zeroed.
TEST_F(Losses, InfiniteCtc) {
  const int64_t times = 4, batch = 3, classes = 3;  // "1 1" needs a blank between: three steps
  ApiTensor probs(DType::kF32, {times, batch, classes}), targets(DType::kS64, {batch, 2}),
      loss(DType::kF32, {batch}), alpha(DType::kF32, {batch, times, 5}), grad(DType::kF32, {batch}),
      y(DType::kF32, {times, batch, classes});
  probs.Set(std::vector<double>(static_cast<size_t>(times * batch * classes), -std::log(3.0)));
  targets.Set({1, 1, 1, 1, 1, 2}), grad.Set({1, 1, 1});
  ApiInts lengths({2, 4, 4}), target_lengths({2, 2, 2});
  for (const bool zero : {false, true}) {
    ASSERT_EQ(CALL(aclnnCtcLoss, probs, targets, lengths, target_lengths, 0, zero, loss, alpha), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(loss.Get()[0], zero ? 0 : std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isfinite(loss.Get()[1])) << loss.Get()[1];
    ASSERT_EQ(
        CALL(aclnnCtcLossBackward, grad, probs, targets, lengths, target_lengths, loss, alpha, 0, zero, y), 0)
        << aclGetRecentErrMsg();
    const std::vector<double> got = y.Get();
    for (int64_t i = 0; i < times * batch * classes; ++i) {
      const int64_t t = i / (batch * classes), n = i / classes % batch;
      const double v = got[static_cast<size_t>(i)];
      if (n > 0) {
        EXPECT_TRUE(std::isfinite(v)) << i;
      } else if (zero || t >= 2) {
        EXPECT_EQ(v, 0) << i;
      } else {
        EXPECT_TRUE(std::isnan(v)) << i << ": " << v;
      }
    }
  }
}

TEST_F(Losses, Logit) {
  const ApiCase kCases[] = {
      {.api = "aclnnLogit",
       .f = [](const double* x, const double*) { return std::log(x[0] / (1 - x[0])); },
       .lo = 0.0625,
       .hi = 0.9375,
       .scalars = {-1},
       .absolute = 16,
       .special = false},
      {.api = "aclnnLogit",
       .f =
           [](const double* x, const double* s) {
             const double z = std::min(std::max(x[0], s[0]), 1 - s[0]);
             return std::log(z / (1 - z));
           },
       .lo = -1,
       .hi = 2,
       .scalars = {0.125},
       .absolute = 16,
       .special = false},
      {.api = "aclnnLogitGrad",
       .f = [](const double* x,
               const double* s) { return x[0] < s[0] || x[0] > 1 - s[0] ? 0 : x[1] / (x[0] * (1 - x[0])); },
       .lo = -1,
       .hi = 2,
       .scalars = {0.125},
       .ulps = 16,
       .special = false},
  };
  for (const ApiCase& k : kCases) TestApi(k, rng_, stream_);
}

}  // namespace
}  // namespace opsnn::capi
