// Optimisers, against double arithmetic over several steps.
#include <cmath>
#include <memory>

#include "aclnnop/aclnn_apply_adam_w.h"
#include "aclnnop/aclnn_apply_adam_w_v2.h"
#include "aclnnop/aclnn_apply_fused_ema_adam.h"
#include "aclnnop/aclnn_fused_adamw.h"
#include "aclnnop/aclnn_fused_sgd.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Optimizers : public ApiTest {
 protected:
  Rng rng_;
  using Tensors = std::vector<std::unique_ptr<ApiTensor>>;
  static aclTensorList* ListOf(const Tensors& tensors) {
    std::vector<aclTensor*> handles;
    for (const auto& t : tensors) handles.push_back(*t);
    return aclCreateTensorList(handles.data(), handles.size());
  }
  void Expect(ApiTensor& got, const std::vector<double>& want, const char* what) {
    std::vector<double> tolerance;
    for (double v : want)
      tolerance.push_back(std::abs(v) * (testing::Epsilon(got.dtype()) + 0x1p-18) + 0x1p-18);
    EXPECT_EQ(Compare(got.Get(), want, tolerance), "") << what << " " << Name(got.dtype());
    EXPECT_TRUE(got.memory().GuardsIntact());
  }
};

struct AdamOptions {
  double lr = 0.125, beta1 = 0.75, beta2 = 0.875, decay = 0.25, eps = 0.0625, step = 3;
  bool amsgrad = false, maximize = false, cap_corrected = false;
};
// One element after a step: var, m, v, the largest v.
struct Adam {
  double var, m, v, most;
};
Adam AdamStep(Adam a, double g, const AdamOptions& o) {
  if (o.maximize) g = -g;
  a.m = a.m * o.beta1 + g * (1 - o.beta1);
  a.v = a.v * o.beta2 + g * g * (1 - o.beta2);
  const double rest = 1 - std::pow(o.beta2, o.step);
  double corrected = a.v / rest;
  if (o.amsgrad && o.cap_corrected) corrected = a.most = std::max(a.most, corrected);
  if (o.amsgrad && !o.cap_corrected) corrected = (a.most = std::max(a.most, a.v)) / rest;
  const double step = a.m / (1 - std::pow(o.beta1, o.step)) / (std::sqrt(corrected) + o.eps);
  a.var -= o.lr * step + o.lr * o.decay * a.var;
  return a;
}

TEST_F(Optimizers, AdamW) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    AdamOptions o;
    o.amsgrad = round % 2, o.maximize = round % 4 < 2;
    const bool by_step = round % 3 != 1;
    const Dims dims = rng_.Shape(1, 3, 300);
    RandomTensor var(t, dims, rng_, round % 3 == 1), m(t, dims, rng_), g(t, dims, rng_, round % 2);
    ApiTensor v(t, dims, &rng_), most(t, dims);
    v.memory().FillRandom(rng_, 0, 2), most.memory().FillRandom(rng_, 0, 2);
    const auto old_v = v.Get(), old_most = most.Get();
    int code = 0;
    if (by_step) {
      ApiTensor step(DType::kS64, {1});
      step.Set({o.step});
      code = CALL(aclnnApplyAdamWV2, var, m, v, OrNull(o.amsgrad, most), g, step, o.lr, o.beta1, o.beta2,
                  o.decay, o.eps, o.amsgrad, o.maximize);
    } else {
      ApiTensor power1(t, {1}), power2(t, {1}), lr(t, {1}), decay(t, {1}), beta1(t, {1}), beta2(t, {1}),
          eps(t, {1});
      o.step = 2;
      power1.Set({o.beta1}), power2.Set({o.beta2});  // of the step before
      lr.Set({o.lr}), decay.Set({o.decay}), beta1.Set({o.beta1}), beta2.Set({o.beta2}), eps.Set({o.eps});
      code = CALL(aclnnApplyAdamW, var, m, v, power1, power2, lr, decay, beta1, beta2, eps, g,
                  OrNull(o.amsgrad, most), o.amsgrad, o.maximize);
    }
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    std::vector<double> vars, ms, vs, mosts;
    for (size_t i = 0; i < old_v.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const Adam a = AdamStep({var[at], m[at], old_v[i], old_most[i]}, g[at], o);
      vars.push_back(a.var), ms.push_back(a.m), vs.push_back(a.v);
      mosts.push_back(o.amsgrad && by_step ? a.most : old_most[i]);
    }
    Expect(var, vars, "var"), Expect(m, ms, "m"), Expect(v, vs, "v"), Expect(most, mosts, "most");
  }
  RandomTensor x(DType::kF32, {3}, rng_);
  ApiTensor a(DType::kF32, {3}), b(DType::kF32, {3}), step(DType::kS64, {1}), two(DType::kS64, {2});
  ExpectRefused(CALL(aclnnApplyAdamWV2, x, a, b, nullptr, x, step, 1, 1, 1, 1, 1, true, false), 161001,
                {"amsgrad"});
  ExpectRefused(CALL(aclnnApplyAdamWV2, x, a, b, nullptr, x, two, 1, 1, 1, 1, 1, false, false), 161002,
                {"step has shape [2]"});
}

TEST_F(Optimizers, FusedEmaAdam) {
  for (int round = 0; round < 12; ++round) {
    const DType t = kFloats[round % 3];
    const int mode = round % 2;
    const bool corrects = round % 4 < 2;
    const Dims dims = rng_.Shape(1, 3, 200);
    const AdamOptions o;
    RandomTensor var(t, dims, rng_), m(t, dims, rng_), g(t, dims, rng_, round % 2), s(t, dims, rng_);
    ApiTensor v(t, dims, &rng_), step(DType::kS64, {1});
    v.memory().FillRandom(rng_, 0, 2), step.Set({o.step});
    const auto old_v = v.Get();
    ASSERT_EQ(CALL(aclnnApplyFusedEmaAdam, g, var, m, v, s, step, o.lr, 0.5, o.beta1, o.beta2, o.eps, mode,
                   corrects, o.decay),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> vars, ms, vs, averages;
    for (size_t i = 0; i < old_v.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const double grad = g[at] + (mode == 0 ? o.decay * var[at] : 0);
      ms.push_back(m[at] * o.beta1 + grad * (1 - o.beta1));
      vs.push_back(old_v[i] * o.beta2 + grad * grad * (1 - o.beta2));
      const double c1 = corrects ? 1 - std::pow(o.beta1, o.step) : 1,
                   c2 = corrects ? 1 - std::pow(o.beta2, o.step) : 1;
      const double update =
          ms.back() / c1 / (std::sqrt(vs.back() / c2) + o.eps) + (mode == 1 ? o.decay * var[at] : 0);
      vars.push_back(var[at] - o.lr * update);
      averages.push_back(0.5 * s[at] + 0.5 * vars.back());
    }
    Expect(var, vars, "var"), Expect(m, ms, "m"), Expect(v, vs, "v"), Expect(s, averages, "average");
  }
}

TEST_F(Optimizers, Lists) {
  for (int round = 0; round < 24; ++round) {
    const DType t = kFloats[round % 3];
    AdamOptions o;
    o.amsgrad = round % 2, o.maximize = round % 4 < 2, o.cap_corrected = true;
    const bool found = round % 5 == 4, scaled = round % 3 == 0, nesterov = round % 4 == 1,
               first = round % 6 == 2;
    const double damped = nesterov ? 0 : 0.25;  // Nesterov's momentum takes none
    Tensors vars, grads, ms, vs, mosts, steps, sgd_vars, sgd_grads, buffers;
    std::vector<std::vector<double>> old[8];
    for (int i = 0; i < 3; ++i) {
      const Dims dims = rng_.Shape(1, 3, 100);
      int which = 0;
      for (Tensors* list : {&vars, &grads, &ms, &vs, &mosts, &sgd_vars, &sgd_grads, &buffers}) {
        list->push_back(std::make_unique<ApiTensor>(t, dims, &rng_, round % 2));
        list->back()->memory().FillRandom(rng_, list == &vs || list == &mosts ? 0 : -2, 2);
        old[which++].push_back(list->back()->Get());
      }
      steps.push_back(std::make_unique<ApiTensor>(DType::kF32, Dims{1}));
      steps.back()->Set({o.step});
    }
    ApiTensor flag(DType::kF32, {1}), scale(DType::kF32, {1}), sgd_scale(t, {1});
    flag.Set({found ? 1.0 : 0.0}), scale.Set({4}), sgd_scale.Set({4});
    ASSERT_EQ(CALL(aclnnFusedAdamw, ListOf(vars), ListOf(grads), ListOf(ms), ListOf(vs),
                   o.amsgrad ? ListOf(mosts) : nullptr, ListOf(steps), OrNull(scaled, scale), flag, o.lr,
                   o.beta1, o.beta2, o.decay, o.eps, o.amsgrad, o.maximize),
              0)
        << aclGetRecentErrMsg();
    ASSERT_EQ(CALL(aclnnFusedSgd, ListOf(sgd_vars), ListOf(sgd_grads), ListOf(buffers),
                   OrNull(scaled, sgd_scale), o.decay, 0.5, o.lr, damped, nesterov, o.maximize, first),
              0)
        << aclGetRecentErrMsg();
    for (size_t i = 0; i < vars.size(); ++i) {
      std::vector<double> want[4], sgd[3];
      for (size_t e = 0; e < old[0][i].size(); ++e) {
        Adam a = {old[0][i][e], old[2][i][e], old[3][i][e], old[4][i][e]};
        if (!found) a = AdamStep(a, old[1][i][e] / (scaled ? 4 : 1), o);
        want[0].push_back(a.var), want[1].push_back(a.m), want[2].push_back(a.v), want[3].push_back(a.most);
        const double kept = old[6][i][e] / (scaled ? 4 : 1);
        const double g = (o.maximize ? -kept : kept) + o.decay * old[5][i][e];
        const double v = first ? g : 0.5 * old[7][i][e] + (1 - damped) * g;
        sgd[0].push_back(old[5][i][e] - o.lr * (nesterov ? g + 0.5 * v : v));
        sgd[1].push_back(kept), sgd[2].push_back(v);
      }
      Expect(*vars[i], want[0], "var"), Expect(*ms[i], want[1], "m"), Expect(*vs[i], want[2], "v");
      Expect(*mosts[i], want[3], "most");
      Expect(*sgd_vars[i], sgd[0], "sgd var"), Expect(*sgd_grads[i], sgd[1], "sgd grad");
      Expect(*buffers[i], sgd[2], "sgd momentum");
    }
  }
}

// Numbers that their pages rule out; those of a momentum as the public checks have them.
TEST_F(Optimizers, RefuseNumbers) {
  const double nan = std::nan("");
  Tensors vars, grads, buffers, ms, vs, steps;
  for (Tensors* list : {&vars, &grads, &buffers, &ms, &vs, &steps}) {
    list->push_back(std::make_unique<ApiTensor>(DType::kF32, Dims{list == &steps ? 1 : 3}));
    list->back()->memory().FillRandom(rng_, 0.5, 1);
  }
  const auto sgd = [&](bool buffered, double decay, double momentum, double lr, double damped,
                       bool nesterov) {
    return CALL(aclnnFusedSgd, ListOf(vars), ListOf(grads), buffered ? ListOf(buffers) : nullptr, nullptr,
                static_cast<float>(decay), static_cast<float>(momentum), static_cast<float>(lr),
                static_cast<float>(damped), nesterov, false, false);
  };
  EXPECT_EQ(sgd(true, 0, 0.9, 0.1, 0, true), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(sgd(false, 0, 0, 0.1, 0, false), 0) << aclGetRecentErrMsg();
  ExpectRefused(sgd(true, -1, 0.9, 0.1, 0, false), 161002, {"aclnnFusedSgd: weightDecay is -1", "0 or more"});
  ExpectRefused(sgd(true, 0, -0.5, 0.1, 0, false), 161002, {"momentum is -0.5", "0 or more"});
  ExpectRefused(sgd(true, 0, 0.5, nan, 0, false), 161002, {"lr is nan"});
  ExpectRefused(sgd(true, 0, 0.5, 0.1, -2, false), 161002, {"dampening is -2"});
  ExpectRefused(sgd(true, 0, 0.5, 0.1, 0.25, true), 161002, {"dampening is 0.25", "nesterov"});
  ExpectRefused(sgd(true, 0, 0, 0.1, 0, false), 161002, {"momentum is 0", "above 0"});
  ExpectRefused(sgd(false, 0, 0.5, 0.1, 0, false), 161002, {"momentum is 0.5", "allowed: 0, as"});
  ExpectRefused(sgd(false, 0, 0.5, 0.1, 0, true), 161002, {"momentum is 0.5", "nesterov is true"});
  const auto adam = [&](double lr, double beta1, double beta2, double decay) {
    return CALL(aclnnFusedAdamw, ListOf(vars), ListOf(grads), ListOf(ms), ListOf(vs), nullptr, ListOf(steps),
                nullptr, nullptr, lr, beta1, beta2, decay, 1e-8, false, false);
  };
  EXPECT_EQ(adam(0.1, 0.9, 0.99, 0), 0) << aclGetRecentErrMsg();
  ExpectRefused(adam(-0.1, 0.9, 0.99, 0), 161002, {"aclnnFusedAdamw: lr is -0.1", "0 or more"});
  ExpectRefused(adam(0.1, -1, 0.99, 0), 161002, {"beta1 is -1"});
  ExpectRefused(adam(0.1, 0.9, nan, 0), 161002, {"beta2 is nan"});
  ExpectRefused(adam(0.1, 0.9, 0.99, -3), 161002, {"weightDecay is -3"});
  EXPECT_EQ(adam(INFINITY, 0.9, 2, 0), 0) << aclGetRecentErrMsg();  // no upper ends are published
  ApiTensor x(DType::kF32, {3}), step(DType::kS64, {1});
  step.Set({1});
  const auto ema = [&](double lr, double beta1, double beta2) {
    return CALL(aclnnApplyFusedEmaAdam, *grads[0], *vars[0], *ms[0], *vs[0], x, step, lr, 0.5, beta1, beta2,
                1e-8, 0, false, 0.0);
  };
  EXPECT_EQ(ema(0.1, 0.9, 0.99), 0) << aclGetRecentErrMsg();
  ExpectRefused(ema(2, 0.9, 0.99), 161002, {"aclnnApplyFusedEmaAdam: lr is 2", "0 to 1"});
  ExpectRefused(ema(0.1, -0.5, 0.99), 161002, {"beta1 is -0.5"});
  ExpectRefused(ema(0.1, 0.9, 1.5), 161002, {"beta2 is 1.5"});
}

}  // namespace
}  // namespace opsnn::capi
