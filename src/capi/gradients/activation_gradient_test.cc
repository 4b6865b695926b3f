// Gradient checks of activations, gated units and softmax.
#include <algorithm>

#include "capi/gradients/gradient_tester.h"

namespace opsnn::capi {
namespace {

double Sig(double x) { return 1 / (1 + std::exp(-x)); }
double GeluErf(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double FastGelu(double x) { return x * Sig(1.702 * x); }
double Silu(double x) { return x * Sig(x); }
constexpr double kSeluScale = 1.0507009873554804934193349852946,
                 kSeluAlpha = 1.6732632423543772848170429916717;

// A function of one value. The backward function gets the value, or with `result` what came out.
struct Activation {
  const char *api, *input, *output;
  double (*f)(double);
  std::vector<std::pair<const char*, double>> numbers = {};
  bool result = false;
  const char* grad = "gradOutput";
  double lo = -4, hi = 4;
  const char* text = nullptr;
};

const std::vector<Activation>& Activations() {
  static const std::vector<Activation> rows = {
      {"aclnnEluBackward",
       "selfOrResult",
       "gradInput",
       [](double x) { return x > 0 ? 1.5 * x : 1.5 * 0.75 * (std::exp(0.5 * x) - 1); },
       {{"alpha", 0.75}, {"scale", 1.5}, {"inputScale", 0.5}, {"isResult", 0}}},
      {"aclnnEluBackward",
       "selfOrResult",
       "gradInput",
       [](double x) { return x > 0 ? 1.5 * x : 1.5 * 0.75 * (std::exp(0.5 * x) - 1); },
       {{"alpha", 0.75}, {"scale", 1.5}, {"inputScale", 0.5}, {"isResult", 1}},
       true},
      {"aclnnFastGeluBackward", "self", "gradInput", FastGelu},
      {"aclnnGeluBackward", "self", "gradInput", GeluTanh},
      {"aclnnGeluBackwardV2", "self", "gradInput", GeluErf, {}, false, "gradOutput", -4, 4, "none"},
      {"aclnnGeluBackwardV2", "self", "gradInput", GeluTanh, {}, false, "gradOutput", -4, 4, "tanh"},
      {"aclnnHardshrinkBackward",
       "self",
       "gradInput",
       [](double x) { return std::abs(x) > 0.5 ? x : 0; },
       {{"lambd", 0.5}}},
      {"aclnnHardsigmoidBackward", "self", "out", [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"aclnnHardswishBackward", "self", "out",
       [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"aclnnHardswishBackwardV2", "self", "out",
       [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"aclnnHardtanhBackward",
       "self",
       "out",
       [](double x) { return std::clamp(x, -1.0, 0.5); },
       {{"min", -1}, {"max", 0.5}}},
      {"aclnnLeakyReluBackward",
       "self",
       "out",
       [](double x) { return x > 0 ? x : 0.25 * x; },
       {{"negativeSlope", 0.25}}},
      {"aclnnLeakyReluBackward",
       "self",
       "out",
       [](double x) { return x > 0 ? x : 0.25 * x; },
       {{"negativeSlope", 0.25}, {"selfIsResult", 1}},
       true},
      {"aclnnMishBackward", "self", "gradInput",
       [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"aclnnSeluBackward",
       "result",
       "gradInput",
       [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * (std::exp(x) - 1)); },
       {},
       true},
      {"aclnnSigmoidBackward", "output", "gradInput", Sig, {}, true},
      {"aclnnTanhBackward",
       "output",
       "gradInput",
       [](double x) { return std::tanh(x); },
       {},
       true,
       "gradOutput",
       -2,
       2},
      {"aclnnSiluBackward", "self", "gradInput", Silu},
      {"aclnnSoftshrinkBackward",
       "self",
       "gradInput",
       [](double x) { return x > 0.5    ? x - 0.5
                             : x < -0.5 ? x + 0.5
                                        : 0; },
       {{"lambda", 0.5}}},
      {"aclnnSoftplusBackward",
       "self",
       "gradInput",
       [](double x) { return 2 * x > 3 ? x : std::log1p(std::exp(2 * x)) / 2; },
       {{"beta", 2}, {"threshold", 3}}},
      {"aclnnSwishBackward",
       "self",
       "gradInput",
       [](double x) { return x * Sig(1.5 * x); },
       {{"betaOptional", 1.5}}},
      {"aclnnThresholdBackward",
       "self",
       "out",
       [](double x) { return x > 0.25 ? x : -7; },
       {{"threshold", 0.25}}},
      {"aclnnLogitGrad",
       "x",
       "out",
       [](double x) {
         const double z = std::clamp(x, 0.125, 0.875);
         return std::log(z / (1 - z));
       },
       {{"eps", 0.125}},
       false,
       "dy",
       0,
       1},
  };
  return rows;
}

std::vector<double> Each(const Array& x, const std::function<double(double)>& f) {
  std::vector<double> y;
  for (double v : x.v) y.push_back(f(v));
  return y;
}

TEST_F(GradientTest, Activations) {
  for (const Activation& a : Activations()) {
    for (int round = 0; round < 3; ++round) {
      const Dims dims = rng_.Shape(1, 3, 80);
      Gradient g(a.api, rng_);
      const Array x = g.Random(dims, a.lo, a.hi);
      g.Input("x", x).Upstream(a.grad, dims).Gives(a.output, "x");
      g.Tensor(a.input, {dims, a.result ? Each(x, a.f) : x.v});
      for (const auto& [name, v] : a.numbers) g.Number(name, v);
      if (a.text != nullptr) g.Text("approximate", a.text);
      g.Check([&](const Arrays& in) { return Each(in.at("x"), a.f); }, stream_);
    }
  }
}

TEST_F(GradientTest, LogSigmoid) {
  const Dims dims = rng_.Shape(1, 3, 80);
  Gradient g("aclnnLogSigmoidBackward", rng_);
  const Array x = g.Random(dims, -4, 4);
  const auto log_sigmoid = [](double v) { return -std::log1p(std::exp(-v)); };
  g.Input("self", x).Pass("self").Upstream("gradOutput", dims).Gives("gradInput", "self");
  g.Tensor("buffer", {dims, Each(x, [](double v) { return std::exp(-std::abs(v)); })});
  g.Check([&](const Arrays& in) { return Each(in.at("self"), log_sigmoid); }, stream_);
}

TEST_F(GradientTest, Prelu) {
  for (int64_t weights : {int64_t{1}, int64_t{3}}) {
    const Dims dims = {2, 3, 5};
    Gradient g("aclnnPreluBackward", rng_);
    g.Input("self", g.Random(dims)).Input("weight", g.Random({weights}));
    g.Pass("self").Pass("weight").Upstream("gradOutput", dims);
    g.Gives("gradInput", "self").Gives("gradWeight", "weight");
    g.Check(
        [&](const Arrays& in) {
          return Make(dims, [&](const Index& i) {
            const double x = in.at("self").at(i);
            return x > 0 ? x : x * in.at("weight")[weights == 1 ? 0 : i[1]];
          });
        },
        stream_);
  }
}

// y = f(a) * b over halves of a dim; `left`: the activation's half comes first.
struct Gated {
  const char *api, *grad, *input, *output;
  double (*activation)(double);
  std::vector<std::pair<const char*, double>> numbers = {};
  bool left = true;
};

TEST_F(GradientTest, GatedUnits) {
  const Gated kRows[] = {
      {"aclnnGluBackward", "gradOut", "self", "out", Sig, {}, false},
      {"aclnnSwiGluGrad", "yGrad", "x", "out", Silu},
      {"aclnnGeGluBackward", "gradOutput", "self", "gradInput", GeluErf, {{"approximate", 0}}, false},
      {"aclnnGeGluBackward", "gradOutput", "self", "gradInput", GeluTanh, {{"approximate", 1}}, false},
      {"aclnnGeGluV3Backward",
       "gradOutput",
       "self",
       "gradInput",
       GeluErf,
       {{"approximate", 0}, {"activateLeft", 1}}},
      {"aclnnGeGluV3Backward", "gradOutput", "self", "gradInput", GeluTanh, {{"approximate", 1}}, false},
  };
  for (const Gated& row : kRows) {
    for (int round = 0; round < 2; ++round) {
      const int dim = round;
      Dims half = {3, 4, 2}, dims = half;
      dims[dim] *= 2;
      Gradient g(row.api, rng_);
      const Array x = g.Random(dims);
      const auto parts = [&](const Array& a, const Index& i, double* gate, double* other) {
        Index first = i, second = i;
        second[static_cast<size_t>(dim)] += half[dim];
        *gate = a.at(row.left ? first : second), *other = a.at(row.left ? second : first);
      };
      g.Input(row.input, x).Pass(row.input).Upstream(row.grad, half).Gives(row.output, row.input);
      g.Number("dim", dim);
      for (const auto& [name, v] : row.numbers) g.Number(name, v);
      if (std::string(row.api).find("GeGlu") != std::string::npos) {
        g.Tensor("gelu", {half, Make(half, [&](const Index& i) {
                            double gate, other;
                            parts(x, i, &gate, &other);
                            return row.activation(gate);
                          })});
      }
      g.Check(
          [&](const Arrays& in) {
            return Make(half, [&](const Index& i) {
              double gate, other;
              parts(in.at(row.input), i, &gate, &other);
              return row.activation(gate) * other;
            });
          },
          stream_);
    }
  }
}

TEST_F(GradientTest, LimitedGatedUnits) {
  const Dims half = {3, 4}, dims = {3, 8};
  const double limit = 1.25;
  for (bool interleaved : {false, true}) {
    Gradient g("aclnnClippedSwigluGrad", rng_);
    g.Input("x", g.Random(dims)).Pass("x").Upstream("gradY", half).Gives("gradXOut", "x");
    g.Number("dim", 1).Number("alpha", 1.702).Number("limit", limit).Number("bias", 0.5);
    g.Number("interleaved", interleaved);
    g.Check(
        [&](const Arrays& in) {
          return Make(half, [&](const Index& i) {
            const Array& x = in.at("x");
            const double a = std::min(interleaved ? x.at({i[0], 2 * i[1]}) : x.at(i), limit);
            const double b = interleaved ? x.at({i[0], 2 * i[1] + 1}) : x.at({i[0], i[1] + 4});
            return a * Sig(1.702 * a) * (std::clamp(b, -limit, limit) + 0.5);
          });
        },
        stream_);
  }
  for (bool left : {false, true}) {
    Gradient g("aclnnSituGluGrad", rng_);
    g.Input("x", g.Random(dims)).Pass("x").Upstream("gradY", half).Gives("out", "x");
    g.Number("dim", 1).Number("beta", 1.5).Number("linearBeta", 0.75).Number("activateLeft", left);
    g.Check(
        [&](const Arrays& in) {
          return Make(half, [&](const Index& i) {
            double a = in.at("x").at(i), b = in.at("x").at({i[0], i[1] + 4});
            if (!left) std::swap(a, b);
            return 1.5 * std::tanh(a / 1.5) * Sig(a) * 0.75 * std::tanh(b / 0.75);
          });
        },
        stream_);
  }
  for (const char* api : {"aclnnSwigluGroupQuantGrad", "aclnnSwigluGroupGrad"}) {
    Gradient g(api, rng_);
    g.Dense();
    const auto unweighted = [&](const Array& x, const Index& i) {
      return Silu(std::min(x.at(i), limit)) * std::clamp(x.at({i[0], i[1] + 4}), -limit, limit);
    };
    g.Input("x", g.Random(dims)).Input("weight", g.Random({3, 1}));
    g.Pass("x").Tensor("weightOptional", g.inputs().at("weight")).Upstream("gradY", half);
    g.Tensor("yOriginOptional",
             {half, Make(half, [&](const Index& i) { return unweighted(g.inputs().at("x"), i); })});
    g.Number("clampLimit", limit).Gives("gradXOut", "x").Gives("gradWeightOutOptional", "weight");
    g.Check(
        [&](const Arrays& in) {
          return Make(half,
                      [&](const Index& i) { return unweighted(in.at("x"), i) * in.at("weight")[i[0]]; });
        },
        stream_);
  }
}

TEST_F(GradientTest, Softmax) {
  for (int round = 0; round < 4; ++round) {
    const Dims dims = {3, 4, 5};
    const int dim = round % 3;
    const bool log = round % 2;
    Gradient g(log ? "aclnnLogSoftmaxBackward" : "aclnnSoftmaxBackward", rng_);
    const auto forward = [&](const Arrays& in) {
      const Array& x = in.at("x");
      return Make(dims, [&](const Index& i) {
        double sum = 0;
        for (int64_t j = 0; j < dims[dim]; ++j) {
          Index k = i;
          k[static_cast<size_t>(dim)] = j;
          sum += std::exp(x.at(k));
        }
        return log ? x.at(i) - std::log(sum) : std::exp(x.at(i)) / sum;
      });
    };
    g.Input("x", g.Random(dims)).Upstream("gradOutput", dims).Gives("out", "x").Number("dim", dim - 3);
    g.Tensor("output", {dims, forward(g.inputs())});
    g.Check(forward, stream_);
  }
}

TEST_F(GradientTest, ScaledMaskedSoftmax) {
  const Dims dims = {2, 2, 3, 5};
  Gradient g("aclnnScaledMaskedSoftmaxBackward", rng_);
  Array mask{dims, {}, DType::kBool};
  for (int64_t i = 0; i < NumElements(dims); ++i) mask.v.push_back(i % 5 > 0 && rng_.Chance(0.3));
  const auto forward = [&](const Arrays& in) {
    const auto score = [&](const Index& i) { return mask.at(i) != 0 ? -10000.0 : 0.75 * in.at("x").at(i); };
    return Make(dims, [&](const Index& i) {
      double sum = 0;
      for (int64_t j = 0; j < dims[3]; ++j) sum += std::exp(score({i[0], i[1], i[2], j}));
      return std::exp(score(i)) / sum;
    });
  };
  g.Input("x", g.Random(dims)).Upstream("gradOutput", dims).Gives("out", "x").Number("scale", 0.75);
  g.Tensor("y", {dims, forward(g.inputs())}).Tensor("mask", mask);
  g.Check(forward, stream_);
}

}  // namespace
}  // namespace opsnn::capi
