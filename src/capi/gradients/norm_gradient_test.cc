// Gradient checks of normalisations and of fused rows.
#include <algorithm>
#include <numeric>

#include "capi/gradients/gradient_tester.h"

namespace opsnn::capi {
namespace {

constexpr double kEps = 0x1p-10;

// Mean and 1 / sqrt(variance + eps) of each group of values; uncentred: of the squares, as RMS norms take.
struct Statistics {
  std::vector<double> mean, rstd;
};
Statistics StatisticsOf(const std::vector<std::vector<double>>& groups, bool centred) {
  Statistics s;
  for (const auto& g : groups) {
    const auto n = static_cast<double>(g.size());
    const double mean = centred ? std::accumulate(g.begin(), g.end(), 0.0) / n : 0;
    double squares = 0;
    for (double v : g) squares += (v - mean) * (v - mean);
    s.mean.push_back(mean);
    s.rstd.push_back(1 / std::sqrt(squares / n + kEps));
  }
  return s;
}

// Rows of n values one behind the other.
std::vector<std::vector<double>> Rows(const std::vector<double>& v, int64_t n) {
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < v.size(); i += static_cast<size_t>(n))
    rows.emplace_back(v.begin() + static_cast<int64_t>(i), v.begin() + static_cast<int64_t>(i) + n);
  return rows;
}

// (x - mean) * rstd of rows of n, times gamma, plus beta, by place in the row.
std::vector<double> Normalised(const std::vector<double>& x, int64_t n, bool centred, const Array& gamma,
                               const Array* beta) {
  const Statistics s = StatisticsOf(Rows(x, n), centred);
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / static_cast<size_t>(n);
    const auto at = static_cast<int64_t>(i) % n;
    y.push_back((x[i] - s.mean[row]) * s.rstd[row] * gamma[at] + (beta != nullptr ? (*beta)[at] : 0));
  }
  return y;
}

TEST_F(GradientTest, LayerNorm) {
  const Dims dims = {3, 2, 4};
  Gradient g("aclnnLayerNormBackward", rng_);
  g.Input("input", g.Random(dims)).Input("weight", g.Random({4})).Input("bias", g.Random({4}));
  g.Pass("input").Tensor("weightOptional", g.inputs().at("weight"));
  const Statistics s = StatisticsOf(Rows(g.inputs().at("input").v, 4), true);
  g.Tensor("mean", {{3, 2, 1}, s.mean}).Tensor("rstd", {{3, 2, 1}, s.rstd});
  g.Ints("normalizedShape", {4}).Bools("outputMask", {1, 1, 1}).Upstream("gradOut", dims);
  g.Gives("gradInputOut", "input").Gives("gradWeightOut", "weight").Gives("gradBiasOut", "bias");
  g.Check(
      [](const Arrays& in) { return Normalised(in.at("input").v, 4, true, in.at("weight"), &in.at("bias")); },
      stream_);
}

TEST_F(GradientTest, RmsNorm) {
  const Dims dims = {3, 2, 4};
  Gradient g("aclnnRmsNormGrad", rng_);
  g.Input("x", g.Random(dims)).Input("gamma", g.Random({4})).Pass("x").Pass("gamma");
  g.Tensor("rstd", {{3, 2}, StatisticsOf(Rows(g.inputs().at("x").v, 4), false).rstd}).Upstream("dy", dims);
  g.Gives("dxOut", "x").Gives("dgammaOut", "gamma");
  g.Check([](const Arrays& in) { return Normalised(in.at("x").v, 4, false, in.at("gamma"), nullptr); },
          stream_);
}

// The gradient as whole numbers of a quarter.
TEST_F(GradientTest, RmsNormQuantised) {
  const Dims dims = {5, 4};
  Gradient g("aclnnRmsNormGradQuant", rng_);
  g.Input("x", g.Random(dims)).Input("gamma", g.Random({4})).Pass("x").Pass("gamma");
  g.Tensor("rstd", {{5}, StatisticsOf(Rows(g.inputs().at("x").v, 4), false).rstd}).Upstream("dy", dims);
  g.Tensor("scalesX", {{1}, {0.25}}).Text("quantMode", "static").Number("divMode", 1);
  g.GivesRounded("dxOut", "x", 0.25).Gives("dgammaOut", "gamma");
  g.Check([](const Arrays& in) { return Normalised(in.at("x").v, 4, false, in.at("gamma"), nullptr); },
          stream_);
}

TEST_F(GradientTest, AdaLayerNorm) {
  const int64_t b = 2, s = 3, h = 4;
  const Dims dims = {b, s, h}, per = {b, h};
  Gradient g("aclnnAdaLayerNormBackward", rng_);
  g.Input("input", g.Random(dims)).Input("scale", g.Random(per)).Input("shift", g.Random(per));
  g.Input("weight", g.Random({h})).Input("bias", g.Random({h})).Pass("input").Pass("scale").Pass("shift");
  g.Tensor("weightOptional", g.inputs().at("weight")).Tensor("biasOptional", g.inputs().at("bias"));
  const Statistics own = StatisticsOf(Rows(g.inputs().at("input").v, h), true);
  g.Tensor("mean", {{b, s, 1}, own.mean}).Tensor("rstd", {{b, s, 1}, own.rstd}).Ints("normalizedShape", {h});
  g.Upstream("gradOut", dims).Gives("gradInputOut", "input").Gives("gradScaleOut", "scale");
  g.Gives("gradShiftOut", "shift").Gives("gradWeightOut", "weight").Gives("gradBiasOut", "bias");
  g.Check(
      [&](const Arrays& in) {
        std::vector<double> y = Normalised(in.at("input").v, h, true, in.at("weight"), &in.at("bias"));
        for (int64_t i = 0; i < b * s * h; ++i) {
          const int64_t k = i / (s * h) * h + i % h;
          double& v = y[static_cast<size_t>(i)];
          v = v * (1 + in.at("scale")[k]) + in.at("shift")[k];
        }
        return y;
      },
      stream_);
}

// Both add something to x first; AddLayerNorm also gives the sum itself.
TEST_F(GradientTest, SumsAndNorm) {
  for (bool deep : {false, true}) {
    const Dims dims = {5, 4};
    const double alpha = deep ? 1.5 : 1;
    Gradient g(deep ? "aclnnDeepNormGrad" : "aclnnAddLayerNormGrad", rng_);
    const char *first = deep ? "x" : "x1", *second = deep ? "gx" : "x2";
    g.Input(first, g.Random(dims)).Input(second, g.Random(dims));
    g.Input("gamma", g.Random({4})).Input("beta", g.Random({4})).Pass(first).Pass(second).Pass("gamma");
    const auto sum = [&](const Arrays& in) {
      std::vector<double> x;
      for (int64_t i = 0; i < NumElements(dims); ++i) x.push_back(alpha * in.at(first)[i] + in.at(second)[i]);
      return x;
    };
    const Statistics s = StatisticsOf(Rows(sum(g.inputs()), 4), true);
    g.Tensor("mean", {{5, 1}, s.mean}).Tensor("rstd", {{5, 1}, s.rstd}).Upstream("dy", dims);
    if (deep) {
      g.Number("alpha", alpha).Gives("dxOut", "x").Gives("dgxOut", "gx");
    } else {
      g.Upstream("dsumOptional", dims).Gives("dxOut", "x1");
    }
    g.Gives("dgammaOut", "gamma").Gives("dbetaOut", "beta");
    g.Check(
        [&](const Arrays& in) {
          const std::vector<double> x = sum(in);
          std::vector<double> y = Normalised(x, 4, true, in.at("gamma"), &in.at("beta"));
          if (!deep) y.insert(y.end(), x.begin(), x.end());
          return y;
        },
        stream_);
  }
}

// (N, C, S) images: the values of each channel.
std::vector<std::vector<double>> Channels(const Array& x) {
  std::vector<std::vector<double>> v(static_cast<size_t>(x.dims[1]));
  for (int64_t i = 0; i < x.size(); ++i) v[static_cast<size_t>(i / x.dims[2] % x.dims[1])].push_back(x[i]);
  return v;
}

std::vector<double> BatchNorm(const Array& x, const Statistics& s, const Array& weight, const Array* bias) {
  std::vector<double> y;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t c = i / x.dims[2] % x.dims[1];
    const auto k = static_cast<size_t>(c);
    y.push_back((x[i] - s.mean[k]) * s.rstd[k] * weight[c] + (bias != nullptr ? (*bias)[c] : 0));
  }
  return y;
}

TEST_F(GradientTest, BatchNorm) {
  for (int round = 0; round < 4; ++round) {
    const bool training = round % 2, fast = round >= 2;
    const int64_t c = 3;
    const Dims dims = {2, c, 4};
    Gradient g(fast ? "aclnnFastBatchNormBackward" : "aclnnBatchNormBackward", rng_);
    g.Input("input", g.Random(dims)).Input("weight", g.Random({c})).Input("bias", g.Random({c}));
    g.Pass("input").Pass("weight").Upstream("gradOut", dims);
    const Array mean = g.Random({c}), variance = g.Random({c}, 0.5, 2);
    Statistics running{mean.v, {}};
    for (double v : variance.v) running.rstd.push_back(1 / std::sqrt(v + kEps));
    const Statistics own = StatisticsOf(Channels(g.inputs().at("input")), true);
    g.Tensor("runningMean", mean).Tensor("runningVar", variance);
    g.Tensor("saveMean", {{c}, own.mean}).Tensor("saveInvstd", {{c}, own.rstd});
    g.Number("training", training).Number("eps", kEps).Bools("outputMask", {1, 1, 1}).Number("version", 1);
    g.Gives("gradInput", "input").Gives("gradWeight", "weight").Gives("gradBias", "bias");
    g.Check(
        [&](const Arrays& in) {
          const Statistics s = training ? StatisticsOf(Channels(in.at("input")), true) : running;
          return BatchNorm(in.at("input"), s, in.at("weight"), &in.at("bias"));
        },
        stream_);
  }
}

// The gradient in two parts, between which devices exchange sums.
TEST_F(GradientTest, BatchNormInParts) {
  const int64_t c = 3;
  const Dims dims = {2, c, 4};
  Gradient reduce("aclnnBatchNormReduceBackward", rng_);
  reduce.Input("input", reduce.Random(dims))
      .Input("weight", reduce.Random({c}))
      .Input("bias", reduce.Random({c}));
  const Array x = reduce.inputs().at("input"), weight = reduce.inputs().at("weight");
  const Statistics s = StatisticsOf(Channels(x), true);
  const auto forward = [&](const Arrays& in) {
    return BatchNorm(in.at("input"), StatisticsOf(Channels(in.at("input")), true), in.at("weight"),
                     in.count("bias") > 0 ? &in.at("bias") : nullptr);
  };
  reduce.Pass("input").Pass("weight").Upstream("gradOut", dims);
  reduce.Tensor("mean", {{c}, s.mean}).Tensor("invstd", {{c}, s.rstd});
  reduce.Number("inputG", 1).Number("weightG", 1).Number("biasG", 1);
  reduce.Ignored("sumDy", {c})
      .Ignored("sumDyXmu", {c})
      .Gives("gradWeight", "weight")
      .Gives("gradBias", "bias");
  reduce.Check(forward, stream_);

  Gradient element("aclnnBatchNormElemtBackward", rng_);
  element.Input("input", x).Input("weight", weight).Pass("input").Pass("weight");
  const Array grad = element.Random(dims);
  Array sums{{c}, std::vector<double>(3)}, products = sums;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t k = i / 4 % c;
    sums[k] += grad[i], products[k] += grad[i] * (x[i] - s.mean[static_cast<size_t>(k)]);
  }
  element.Upstream("gradOut", dims).Tensor("gradOut", grad);
  element.Tensor("mean", {{c}, s.mean}).Tensor("invstd", {{c}, s.rstd});
  element.Tensor("sumDy", sums).Tensor("sumDyXmu", products).Tensor("counter", {{1}, {8}, DType::kS32});
  element.Gives("gradInput", "input");
  element.Check(forward, stream_);
}

TEST_F(GradientTest, GroupNormSwish) {
  const int64_t n = 2, groups = 2, c = 4, s = 3, size = c / groups * s;
  const Dims dims = {n, c, s};
  Gradient g("aclnnGroupNormSwishGrad", rng_);
  g.Input("x", g.Random(dims)).Input("gamma", g.Random({c})).Input("beta", g.Random({c}));
  g.Pass("x").Pass("gamma").Pass("beta").Upstream("dy", dims);
  const Statistics own = StatisticsOf(Rows(g.inputs().at("x").v, size), true);
  g.Tensor("mean", {{n, groups}, own.mean}).Tensor("rstd", {{n, groups}, own.rstd});
  g.Number("numGroups", groups).Text("dataFormatOptional", "NCHW").Number("swishScale", 0.5);
  g.Number("dgammaIsRequire", 1).Number("dbetaIsRequire", 1);
  g.Gives("dxOut", "x").Gives("dgammaOut", "gamma").Gives("dbetaOut", "beta");
  g.Check(
      [&](const Arrays& in) {
        const Array& x = in.at("x");
        const Statistics t = StatisticsOf(Rows(x.v, size), true);
        std::vector<double> y;
        for (int64_t i = 0; i < x.size(); ++i) {
          const auto k = static_cast<size_t>(i / size);
          const int64_t channel = i / s % c;
          const double z = (x[i] - t.mean[k]) * t.rstd[k] * in.at("gamma")[channel] + in.at("beta")[channel];
          y.push_back(z / (1 + std::exp(-0.5 * z)));
        }
        return y;
      },
      stream_);
}

TEST_F(GradientTest, GroupNorm) {
  const int64_t n = 2, groups = 2, c = 4, s = 3;
  const Dims dims = {n, c, s};
  Gradient g("aclnnGroupNormBackward", rng_);
  g.Input("input", g.Random(dims)).Input("gamma", g.Random({c})).Input("beta", g.Random({c}));
  g.Pass("input").Pass("gamma").Upstream("gradOut", dims);
  const int64_t size = c / groups * s;
  const Statistics own = StatisticsOf(Rows(g.inputs().at("input").v, size), true);
  g.Tensor("mean", {{n, groups}, own.mean}).Tensor("rstd", {{n, groups}, own.rstd});
  g.Number("N", n).Number("C", c).Number("HxW", s).Number("group", groups).Bools("outputMask", {1, 1, 1});
  g.Gives("gradInput", "input").Gives("gradGammaOut", "gamma").Gives("gradBetaOut", "beta");
  g.Check(
      [&](const Arrays& in) {
        const Array& x = in.at("input");
        const Statistics t = StatisticsOf(Rows(x.v, size), true);
        std::vector<double> y;
        for (int64_t i = 0; i < x.size(); ++i) {
          const auto k = static_cast<size_t>(i / size);
          const int64_t channel = i / s % c;
          y.push_back((x[i] - t.mean[k]) * t.rstd[k] * in.at("gamma")[channel] + in.at("beta")[channel]);
        }
        return y;
      },
      stream_);
}

TEST_F(GradientTest, Modulate) {
  const Dims dims = {2, 3, 4};
  Gradient g("aclnnModulateBackward", rng_);
  g.Input("input", g.Random(dims)).Input("scale", g.Random({2, 4})).Input("shift", g.Random({2, 4}));
  g.Pass("input").Pass("scale").Pass("shift").Upstream("grad_output", dims);
  g.Gives("grad_input", "input").Gives("grad_scale", "scale").Gives("grad_shift", "shift");
  g.Check(
      [&](const Arrays& in) {
        return Make(dims, [&](const Index& i) {
          const Index at = {i[0], i[2]};
          return in.at("input").at(i) * in.at("scale").at(at) + in.at("shift").at(at);
        });
      },
      stream_);
}

TEST_F(GradientTest, LstmCell) {
  const int64_t batch = 3, size = 4;
  const auto sig = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto cell = [&](const Arrays& in, std::vector<double>* storage) {
    std::vector<double> h, c;
    if (storage != nullptr) storage->assign(static_cast<size_t>(4 * batch * size), 0);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < size; ++k) {
        const auto gate = [&](int64_t i) { return in.at("gates").at({b, i * size + k}); };
        const double values[] = {sig(gate(0)), std::tanh(gate(1)), sig(gate(2)), sig(gate(3))};
        for (int64_t i = 0; storage != nullptr && i < 4; ++i)
          (*storage)[static_cast<size_t>((b * 4 + i) * size + k)] = values[i];
        c.push_back(values[2] * in.at("cx").at({b, k}) + values[0] * values[1]);
        h.push_back(values[3] * std::tanh(c.back()));
      }
    }
    h.insert(h.end(), c.begin(), c.end());
    return h;
  };
  Gradient g("aclnnThnnFusedLstmCellBackward", rng_);
  g.Input("gates", g.Random({batch, 4 * size})).Input("cx", g.Random({batch, size})).Pass("cx");
  std::vector<double> storage;
  const std::vector<double> both = cell(g.inputs(), &storage);
  g.Tensor("cy", {{batch, size}, {both.begin() + batch * size, both.end()}});
  g.Tensor("storage", {{batch, 4 * size}, storage}).Number("hasBias", 1);
  g.Upstream("gradHyOptional", {batch, size}).Upstream("gradCOptional", {batch, size});
  g.Gives("gradGatesOut", "gates").Gives("gradCxOut", "cx");
  // A bias that is 0 is a part of every gate.
  g.Input("bias", {{4 * size}, std::vector<double>(static_cast<size_t>(4 * size), 0)});
  g.Gives("gradBiasOut", "bias");
  g.Check(
      [&](const Arrays& in) {
        Arrays with = in;
        for (int64_t i = 0; i < with["gates"].size(); ++i) with["gates"][i] += in.at("bias")[i % (4 * size)];
        return cell(with, nullptr);
      },
      stream_);

  // The forward gives what was handed on here.
  ApiTensor gates(DType::kF32, {batch, 4 * size}), zero(DType::kF32, {batch, 4 * size}),
      cx(DType::kF32, {batch, size}), h(DType::kF32, {batch, size}), c(DType::kF32, {batch, size}),
      kept(DType::kF32, {batch, 4 * size});
  gates.Set(g.inputs().at("gates").v), cx.Set(g.inputs().at("cx").v);
  zero.Set(std::vector<double>(static_cast<size_t>(4 * batch * size), 0));
  const OpsnnFunction* f = opsnn_aclnn_find("aclnnThnnFusedLstmCell");
  ASSERT_NE(f, nullptr);
  std::vector<OpsnnArg> args(8);
  size_t at = 0;
  for (ApiTensor* t : std::initializer_list<ApiTensor*>{&gates, &zero, &cx, nullptr, nullptr, &h, &c, &kept})
    args[at++].p = t != nullptr ? static_cast<aclTensor*>(*t) : nullptr;
  ASSERT_EQ(Finish(opsnn_aclnn_plan(f, args.data(), 8, &workspace_size_, &executor_),
                   [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) {
                     return opsnn_aclnn_run(f, w, n, e, s);
                   }),
            0)
      << aclGetRecentErrMsg();
  std::vector<double> got = h.Get();
  for (double v : c.Get()) got.push_back(v);
  // States are sums of terms below 1 that may cancel.
  EXPECT_EQ(Compare(got, both, std::vector<double>(both.size(), 32 * 0x1p-24)), "");
  EXPECT_EQ(Compare(kept.Get(), storage, PointwiseTolerance(storage, DType::kF32, 16)), "");
}

}  // namespace
}  // namespace opsnn::capi
