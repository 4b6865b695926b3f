// Gradient checks of losses, and of what takes indices, masks and bags of values.
#include <algorithm>
#include <limits>

#include "capi/gradients/gradient_tester.h"

namespace opsnn::capi {
namespace {

double Softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

// A loss of elements; v: self, target, weight, positive weight.
struct ElementLoss {
  const char *api, *output;
  bool by_target = false;
  double (*f)(const double* v) = nullptr;
  double lo = -2, hi = 2, target_lo = -2, target_hi = 2;
  std::vector<std::pair<const char*, double>> numbers = {};
  bool weighted = false, positive = false;
  const char* grad = "gradOutput";
};

double Bce(const double* v) { return -v[2] * (v[1] * std::log(v[0]) + (1 - v[1]) * std::log(1 - v[0])); }
double BceLogits(const double* v) {
  return v[2] * ((1 - v[1]) * v[0] + (1 + (v[3] - 1) * v[1]) * Softplus(-v[0]));
}
double KlDiv(const double* v) { return v[1] > 0 ? v[1] * (std::log(v[1]) - v[0]) : 0; }
double KlDivLog(const double* v) { return std::exp(v[1]) * (v[1] - v[0]); }

const std::vector<ElementLoss>& ElementLosses() {
  static const std::vector<ElementLoss> rows = {
      {"aclnnL1LossBackward", "gradInput", false, [](const double* v) { return std::abs(v[0] - v[1]); }},
      {"aclnnMseLossBackward", "out", false, [](const double* v) { return (v[0] - v[1]) * (v[0] - v[1]); }},
      {"aclnnSmoothL1LossBackward",
       "gradInput",
       false,
       [](const double* v) {
         const double d = std::abs(v[0] - v[1]);
         return d < 0.5 ? d * d : d - 0.25;
       },
       -2,
       2,
       -2,
       2,
       {{"beta", 0.5}},
       false,
       false,
       "gradOut"},
      {"aclnnSoftMarginLossBackward", "out", false, [](const double* v) { return Softplus(-v[0] * v[1]); }},
      {"aclnnBinaryCrossEntropyBackward", "out", false, Bce, 0.125, 0.875, 0, 1, {}, true},
      {"aclnnBinaryCrossEntropyWithLogitsBackward", "out", false, BceLogits, -3, 3, 0, 1, {}, true, true},
      {"aclnnBinaryCrossEntropyWithLogitsTargetBackward",
       "gradTarget",
       true,
       BceLogits,
       -3,
       3,
       0,
       1,
       {},
       true,
       true},
      {"aclnnKlDivBackward", "out", false, KlDiv, -2, 2, 0.125, 2},
      {"aclnnKlDivBackward", "out", false, KlDivLog, -2, 2, -2, 2, {{"logTarget", 1}}},
      {"aclnnKlDivTargetBackward", "gradTarget", true, KlDiv, -2, 2, 0.125, 2},
      {"aclnnKlDivTargetBackward", "gradTarget", true, KlDivLog, -2, 2, -2, 2, {{"logTarget", 1}}},
  };
  return rows;
}

TEST_F(GradientTest, ElementLosses) {
  for (const ElementLoss& k : ElementLosses()) {
    for (int reduction = 0; reduction <= 2; ++reduction) {
      const Dims dims = rng_.Shape(1, 3, 60);
      Gradient g(k.api, rng_);
      g.Input("self", g.Random(dims, k.lo, k.hi)).Input("target", g.Random(dims, k.target_lo, k.target_hi));
      if (std::string(k.api) == "aclnnL1LossBackward" || std::string(k.api) == "aclnnSmoothL1LossBackward") {
        // Differences are multiples of the kinks' distance: moved away from them.
        Array target = g.inputs().at("target");
        for (double& v : target.v) v += 0x1p-12 * 0.5;
        g.Input("target", target);
      }
      g.Pass("self").Pass("target").Upstream(k.grad, reduction == 0 ? dims : Dims());
      g.Gives(k.output, k.by_target ? "target" : "self").Number("reduction", reduction);
      for (const auto& [name, v] : k.numbers) g.Number(name, v);
      const Dims row = {dims.back()};
      const Array weight = g.Random(row, 0.5, 2), positive = g.Random(row, 0.5, 2);
      if (k.weighted) g.Tensor("weightOptional", weight);
      if (k.positive) g.Tensor("posWeightOptional", positive);
      g.Check(
          [&](const Arrays& in) {
            std::vector<double> each = Make(dims, [&](const Index& i) {
              const double v[] = {in.at("self").at(i), in.at("target").at(i),
                                  k.weighted ? weight[i.back()] : 1, k.positive ? positive[i.back()] : 1};
              return k.f(v);
            });
            if (reduction == 0) return each;
            double sum = 0;
            for (double v : each) sum += v;
            return std::vector<double>{reduction == 1 ? sum / static_cast<double>(each.size()) : sum};
          },
          stream_);
    }
  }
}

// Labels, of which some are ignored, and what a loss over classes makes of -log of a row.
Array Labels(Rng& rng, const Dims& dims, int64_t classes, double ignored) {
  Array a{dims, {}, DType::kS64};
  for (int64_t i = 0; i < NumElements(dims); ++i)
    a.v.push_back(rng.Chance(0.2) ? ignored : static_cast<double>(rng.Int(0, classes - 1)));
  return a;
}

TEST_F(GradientTest, Nll) {
  for (int round = 0; round < 6; ++round) {
    const bool image = round % 2;
    const int reduction = round / 2;
    const int64_t classes = 4;
    const Dims dims = image ? Dims{2, classes, 2, 3} : Dims{5, classes};
    const Dims rows = image ? Dims{2, 2, 3} : Dims{5};
    Gradient g(image ? "aclnnNLLLoss2dBackward" : "aclnnNLLLossBackward", rng_);
    const Array labels = Labels(rng_, rows, classes, -3), weight = g.Random({classes}, 0.5, 2);
    double total = 0;
    for (double t : labels.v) total += t < 0 ? 0 : weight[static_cast<int64_t>(t)];
    g.Input("self", g.Random(dims)).Pass("self").Tensor("target", labels).Tensor("weight", weight);
    g.Tensor("totalWeight", {{1}, {total}}).Number("reduction", reduction).Number("ignoreIndex", -3);
    g.Upstream("gradOutput", reduction == 0 ? rows : Dims()).Gives("out", "self");
    g.Check(
        [&](const Arrays& in) {
          std::vector<double> each = Make(rows, [&](const Index& i) {
            const double t = labels.at(i);
            if (t < 0) return 0.0;
            Index at = i;
            at.insert(at.begin() + 1, static_cast<int64_t>(t));
            return -in.at("self").at(at) * weight[static_cast<int64_t>(t)];
          });
          if (reduction == 0) return each;
          double sum = 0;
          for (double v : each) sum += v;
          return std::vector<double>{reduction == 1 ? sum / total : sum};
        },
        stream_);
  }
}

// The loss of raw scores; the gradient is by what log-softmax was taken of.
TEST_F(GradientTest, CrossEntropy) {
  const char* const kReductions[] = {"none", "mean", "sum"};
  for (int round = 0; round < 6; ++round) {
    const char* reduction = kReductions[round / 2];
    const double smoothing = round % 2 ? 0.25 : 0;
    const int64_t n = 4, classes = 5;
    Gradient g("aclnnCrossEntropyLossGrad", rng_);
    const Array labels = Labels(rng_, {n}, classes, -100), weight = g.Random({classes}, 0.5, 2);
    double total = 0;
    for (double t : labels.v) total += t < 0 ? 0 : weight[static_cast<int64_t>(t)];
    const auto log_softmax = [&](const Array& x) {
      return Make({n, classes}, [&](const Index& i) {
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.at({i[0], c}));
        return x.at(i) - std::log(sum);
      });
    };
    g.Input("x", g.Random({n, classes})).Tensor("logProb", {{n, classes}, log_softmax(g.inputs().at("x"))});
    g.Tensor("target", labels).Tensor("weightOptional", weight).Text("reductionOptional", reduction);
    g.Number("ignoreIndex", -100).Number("labelSmoothing", smoothing).Number("lseSquareScaleForZloss", 0);
    g.Upstream("gradLoss", round / 2 == 0 ? Dims{n} : Dims()).Gives("out", "x");
    g.Check(
        [&](const Arrays& in) {
          const std::vector<double> p = log_softmax(in.at("x"));
          std::vector<double> each = Make({n}, [&](const Index& i) {
            const double t = labels[i[0]];
            if (t < 0) return 0.0;
            const auto label = static_cast<int64_t>(t);
            double smooth = 0;
            for (int64_t c = 0; c < classes; ++c)
              smooth += p[static_cast<size_t>(i[0] * classes + c)] * weight[c];
            return -(1 - smoothing) * p[static_cast<size_t>(i[0] * classes + label)] * weight[label] -
                   smoothing / static_cast<double>(classes) * smooth;
          });
          if (round / 2 == 0) return each;
          double sum = 0;
          for (double v : each) sum += v;
          return std::vector<double>{round / 2 == 1 ? sum / total : sum};
        },
        stream_);
  }
}

// The loss of scores that a product gives.
TEST_F(GradientTest, LinearCrossEntropy) {
  const int64_t rows = 8, width = 3, vocabulary = 5;
  Gradient g("aclnnFusedLinearCrossEntropyLossGrad", rng_);
  const auto halves = [&](const Dims& dims) {  // values that f16 holds
    Array a = g.Random(dims);
    for (double& v : a.v) v = std::round(v * 32) / 32;
    a.dtype = DType::kF16;
    return a;
  };
  g.Input("input", halves({rows, width})).Input("weight", halves({vocabulary, width}));
  g.Pass("input").Pass("weight").Upstream("grad", {rows});
  Array labels{{rows}, {}, DType::kS32};
  for (int64_t r = 0; r < rows; ++r) labels.v.push_back(static_cast<double>(rng_.Int(0, vocabulary - 1)));
  const auto score = [&](const Arrays& in, int64_t r, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += in.at("input").at({r, i}) * in.at("weight").at({c, i});
    return sum;
  };
  Array most{{rows}, {}}, sums{{rows}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    double highest = score(g.inputs(), r, 0), sum = 0;
    for (int64_t c = 0; c < vocabulary; ++c) highest = std::max(highest, score(g.inputs(), r, c));
    for (int64_t c = 0; c < vocabulary; ++c) sum += std::exp(score(g.inputs(), r, c) - highest);
    most.v.push_back(highest), sums.v.push_back(sum);
  }
  // No label lies outside of this device's part of the vocabulary.
  g.Tensor("targetMask", {{1}, {0}, DType::kU8}).Tensor("maskedTarget", labels);
  g.Tensor("logitsMaxOptional", most).Tensor("sumExpLogitsOptional", sums).Number("labelSmoothing", 0);
  g.Gives("inputGradOut", "input").Gives("weightGradOut", "weight");
  g.Check(
      [&](const Arrays& in) {
        return Make({rows}, [&](const Index& i) {
          double sum = 0;
          for (int64_t c = 0; c < vocabulary; ++c) sum += std::exp(score(in, i[0], c));
          return std::log(sum) - score(in, i[0], static_cast<int64_t>(labels[i[0]]));
        });
      },
      stream_);
}

// -log of the summed probability of all label sequences with blanks, by trying them all.
double CtcByPaths(const Array& log_probs, int64_t n, int64_t length, const std::vector<int64_t>& target,
                  int64_t blank) {
  const int64_t classes = log_probs.dims[2];
  double sum = 0;
  int64_t paths = 1;
  for (int64_t t = 0; t < length; ++t) paths *= classes;
  for (int64_t p = 0; p < paths; ++p) {
    std::vector<int64_t> seen;
    double log_p = 0;
    int64_t rest = p, before = -1;
    for (int64_t t = 0; t < length; ++t, rest /= classes) {
      const int64_t c = rest % classes;
      log_p += log_probs.at({t, n, c});
      if (c != blank && c != before) seen.push_back(c);
      before = c;
    }
    if (seen == target) sum += std::exp(log_p);
  }
  return -std::log(sum);
}

TEST_F(GradientTest, Ctc) {
  const int64_t times = 5, batch = 3, classes = 3, width = 7;
  const std::vector<std::vector<int64_t>> targets = {{1, 2}, {2, 2}, {1}};
  const std::vector<int64_t> lengths = {5, 4, 3}, target_lengths = {2, 2, 1};
  const Dims dims = {times, batch, classes};
  const auto log_softmax = [&](const Array& x) {
    return Array{dims, Make(dims, [&](const Index& i) {
                   double sum = 0;
                   for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.at({i[0], i[1], c}));
                   return x.at(i) - std::log(sum);
                 })};
  };
  const auto forward = [&](const Arrays& in) {
    const Array p = log_softmax(in.at("x"));
    return Make({batch}, [&](const Index& i) {
      const auto n = static_cast<size_t>(i[0]);
      return CtcByPaths(p, i[0], lengths[n], targets[n], 0);
    });
  };
  Gradient g("aclnnCtcLossBackward", rng_);
  g.Input("x", g.Random(dims)).Upstream("gradOut", {batch}).Gives("out", "x");
  const Array log_probs = log_softmax(g.inputs().at("x"));
  const Array flat{{5}, {1, 2, 2, 2, 1}, DType::kS64};
  // The forward function gives what is handed on; its loss is that of the paths.
  ApiTensor probs(DType::kF32, dims), labels(DType::kS64, {5}), loss(DType::kF32, {batch}),
      alpha(DType::kF32, {batch, times, width});
  probs.Set(log_probs.v), labels.Set(flat.v);
  const OpsnnFunction* f = opsnn_aclnn_find("aclnnCtcLoss");
  ASSERT_NE(f, nullptr);
  const ApiInts in_lengths(lengths), to_lengths(target_lengths);
  std::vector<OpsnnArg> args(8);
  args[0].p = static_cast<aclTensor*>(probs), args[1].p = static_cast<aclTensor*>(labels);
  args[2].p = static_cast<const aclIntArray*>(in_lengths),
  args[3].p = static_cast<const aclIntArray*>(to_lengths);
  args[6].p = static_cast<aclTensor*>(loss), args[7].p = static_cast<aclTensor*>(alpha);
  ASSERT_EQ(Finish(opsnn_aclnn_plan(f, args.data(), 8, &workspace_size_, &executor_),
                   [f](void* w, uint64_t n, aclOpExecutor* e, aclrtStream s) {
                     return opsnn_aclnn_run(f, w, n, e, s);
                   }),
            0)
      << aclGetRecentErrMsg();
  const auto want = forward(g.inputs());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(loss.Get()[i], want[i], 64 * 0x1p-24 * (1 + want[i]));
  g.Tensor("logProbs", log_probs).Tensor("targets", flat).Ints("inputLengths", lengths);
  g.Ints("targetLengths", target_lengths).Number("blank", 0).Number("zeroInfinity", 0);
  g.Tensor("negLogLikelihood", {{batch}, loss.Get()})
      .Tensor("logAlpha", {{batch, times, width}, alpha.Get()});
  g.Ulps(512);  // exp and log of sums, at every step
  g.Check(forward, stream_);
}

TEST_F(GradientTest, ChamferDistance) {
  const int64_t batch = 2, n = 4, m = 5;
  Gradient g("aclnnChamferDistanceBackward", rng_);
  g.Input("xyz1", g.Random({batch, n, 2})).Input("xyz2", g.Random({batch, m, 2})).Pass("xyz1").Pass("xyz2");
  const auto distance = [](const Array& a, const Array& b, int64_t k, int64_t i, int64_t j) {
    const double x = a.at({k, i, 0}) - b.at({k, j, 0}), y = a.at({k, i, 1}) - b.at({k, j, 1});
    return x * x + y * y;
  };
  const auto nearest = [&](const Array& a, const Array& b) {
    Array at{{a.dims[0], a.dims[1]}, {}, DType::kS32};
    for (int64_t k = 0; k < a.dims[0]; ++k) {
      for (int64_t i = 0; i < a.dims[1]; ++i) {
        int64_t best = 0;
        for (int64_t j = 1; j < b.dims[1]; ++j)
          if (distance(a, b, k, i, j) < distance(a, b, k, i, best)) best = j;
        at.v.push_back(static_cast<double>(best));
      }
    }
    return at;
  };
  const Array idx1 = nearest(g.inputs().at("xyz1"), g.inputs().at("xyz2")),
              idx2 = nearest(g.inputs().at("xyz2"), g.inputs().at("xyz1"));
  g.Tensor("idx1", idx1)
      .Tensor("idx2", idx2)
      .Upstream("gradDist1", {batch, n})
      .Upstream("gradDist2", {batch, m});
  g.Gives("gradXyz1", "xyz1").Gives("gradXyz2", "xyz2");
  g.Check(
      [&](const Arrays& in) {
        const Array &a = in.at("xyz1"), &b = in.at("xyz2");
        std::vector<double> y;
        for (int64_t i = 0; i < batch * n; ++i)
          y.push_back(distance(a, b, i / n, i % n, static_cast<int64_t>(idx1[i])));
        for (int64_t i = 0; i < batch * m; ++i)
          y.push_back(distance(b, a, i / m, i % m, static_cast<int64_t>(idx2[i])));
        return y;
      },
      stream_);
}

TEST_F(GradientTest, Embedding) {
  for (bool by_count : {false, true}) {
    const int64_t rows = 5, width = 3, count = 8, padding = 2;
    Gradient g("aclnnEmbeddingDenseBackward", rng_);
    Array indices = Labels(rng_, {2, count / 2}, rows, 0);
    std::vector<double> uses(static_cast<size_t>(rows));
    for (double i : indices.v) uses[static_cast<size_t>(i)] += 1;
    g.Input("weight", g.Random({rows, width}))
        .Tensor("indices", indices)
        .Upstream("grad", {2, count / 2, width});
    g.Number("numWeights", rows).Number("paddingIdx", padding).Number("scaleGradByFreq", by_count);
    g.Gives("out", "weight");
    g.Check(
        [&](const Arrays& in) {
          return Make({count, width}, [&](const Index& i) {
            const auto row = static_cast<int64_t>(indices[i[0]]);
            // Rows of padding learn nothing; the others as if each use were a share of one.
            if (row == padding) return 0.0;
            return in.at("weight").at({row, i[1]}) / (by_count ? uses[static_cast<size_t>(row)] : 1);
          });
        },
        stream_);
  }
}

TEST_F(GradientTest, RepeatInterleave) {
  const std::vector<double> repeats = {2, 0, 3};
  Gradient g("aclnnRepeatInterleaveGrad", rng_);
  g.Input("x", g.Random({2, 3, 2}))
      .Tensor("repeats", {{3}, repeats, DType::kS64})
      .Upstream("yGrad", {2, 5, 2});
  g.Number("axis", 1).Gives("out", "x");
  g.Check(
      [&](const Arrays& in) {
        std::vector<double> y;
        for (int64_t b = 0; b < 2; ++b) {
          for (int64_t i = 0; i < 3; ++i) {
            for (double r = 0; r < repeats[static_cast<size_t>(i)]; ++r)
              for (int64_t k = 0; k < 2; ++k) y.push_back(in.at("x").at({b, i, k}));
          }
        }
        return y;
      },
      stream_);
}

TEST_F(GradientTest, Dropout) {
  for (bool third : {false, true}) {
    const Dims dims = {5, 31};
    Gradient g(third ? "aclnnDropoutV3Grad" : "aclnnDropoutBackward", rng_);
    Array mask{{32}, {}, DType::kU8};
    for (int i = 0; i < 32; ++i) mask.v.push_back(static_cast<double>(rng_.Int(0, 255)));
    g.Input("x", g.Random(dims)).Tensor("mask", mask).Number("scale", 1.5);
    g.Upstream(third ? "gradY" : "gradOutput", dims).Gives(third ? "gradX" : "out", "x");
    g.Check(
        [&](const Arrays& in) {
          std::vector<double> y;
          for (int64_t i = 0; i < NumElements(dims); ++i)
            y.push_back((static_cast<int>(mask[i / 8]) >> (i % 8) & 1) * 1.5 * in.at("x")[i]);
          return y;
        },
        stream_);
  }
}

}  // namespace
}  // namespace opsnn::capi
