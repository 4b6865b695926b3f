// The losses against their definitions on doubles.
#include <cmath>

#include "base/parallel.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

struct LossCase {
  bool softmax = false, weighted = false, ignores = false;
  bool log_probs = true;  // of a softmax: asked for, too
  std::string reduction = "mean";
  DType type = DType::kF32, target_type = DType::kS64;
  Dims dims;
};

void RunOne(const LossCase& k, Rng& rng) {
  const int64_t batch = k.dims[0], classes = k.dims[1],
                inner = batch ? NumElements(k.dims) / (batch * classes) : 0;
  Dims target_dims = k.dims;
  target_dims.erase(1);
  GuardedTensor x(k.type, k.dims, &rng, rng.Chance(0.5)), target(k.target_type, target_dims),
      w(k.type, {classes});
  x.FillRandom(rng, -3, 3);
  w.FillRandom(rng, 0.5, 2);
  constexpr int64_t kIgnored = -7;
  std::vector<double> picks;
  for (int64_t i = 0; i < batch * inner; ++i)
    picks.push_back(static_cast<double>(k.ignores && rng.Chance(0.3) ? kIgnored : rng.Int(0, classes - 1)));
  target.Set(picks);
  OpTester t(k.softmax ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss");
  t.In(x).In(target);
  if (k.weighted) t.In(w);
  t.Attr("reduction", k.reduction).Outputs(k.softmax && k.log_probs ? 2 : 1);
  if (k.ignores) t.Attr("ignore_index", kIgnored);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();

  const std::vector<double> v = x.Get(), weights = w.Get();
  std::vector<double> logs = v, losses;
  double sum = 0, total = 0;
  for (int64_t i = 0; i < batch * inner; ++i) {
    const auto at = [&](int64_t c) {
      return static_cast<size_t>((i / inner * classes + c) * inner + i % inner);
    };
    if (k.softmax) {
      double most = -INFINITY, exps = 0;
      for (int64_t c = 0; c < classes; ++c) most = std::max(most, v[at(c)]);
      for (int64_t c = 0; c < classes; ++c) exps += std::exp(v[at(c)] - most);
      for (int64_t c = 0; c < classes; ++c) logs[at(c)] = v[at(c)] - most - std::log(exps);
    }
    const auto pick = static_cast<int64_t>(picks[static_cast<size_t>(i)]);
    const double weight = pick == kIgnored ? 0 : k.weighted ? weights[static_cast<size_t>(pick)] : 1;
    losses.push_back(pick == kIgnored ? 0 : -weight * logs[at(pick)]);
    sum += losses.back();
    total += weight;
  }
  // Log-probabilities are at most log(classes) + 6; their error is a few roundings of that size.
  const double size = std::log(static_cast<double>(classes)) + 6;
  const double eps = testing::Epsilon(k.type == DType::kF64 ? DType::kF64 : DType::kF32);
  const double each = (2 * std::sqrt(static_cast<double>(classes)) + 16) * eps * size * 2;
  if (k.softmax && k.log_probs) {
    EXPECT_EQ("", testing::Compare(t.Out(1).Get(), logs, each, 2 * testing::Epsilon(k.type)));
  }
  if (k.reduction == "none") {
    EXPECT_EQ("", testing::Compare(t.Out().Get(), losses, each, 2 * testing::Epsilon(k.type)));
  } else {
    const double want = k.reduction == "sum" ? sum : sum / total;
    const double n = k.reduction == "sum" ? static_cast<double>(losses.size()) : 4;
    EXPECT_EQ("", testing::Compare(t.Out().Get(), {want}, each * n, 2 * testing::Epsilon(k.type)));
    EXPECT_EQ(t.OutDesc().dims, Dims{});
  }
}

TEST(Loss, RandomShapes) {
  Rng rng;
  constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  for (auto _ : testing::FuzzFor(300)) {
    LossCase k;
    k.softmax = rng.Chance(0.5), k.log_probs = rng.Chance(0.5), k.weighted = rng.Chance(0.5),
    k.ignores = rng.Chance(0.5);
    const char* reductions[] = {"none", "sum", "mean"};
    k.reduction = reductions[rng.Int(0, 2)];
    k.type = kFloats[rng.Int(0, 3)];
    k.target_type = rng.Chance(0.5) ? DType::kS64 : DType::kS32;
    k.dims = {rng.Int(1, 5), rng.Int(1, 9)};
    for (int i = static_cast<int>(rng.Int(0, 3)); i > 0; --i) k.dims.push_back(rng.Int(1, 6));
    if (k.type == DType::kF16 && k.reduction == "sum" && NumElements(k.dims) > 2000) continue;  // beyond f16
    RunOne(k, rng);
    if (HasFailure()) return;
  }
}

// Rows of classes side by side, of which only what the loss needs is kept: one to many vectors, few and many
// rows, whatever the threads.
TEST(Loss, CrossEntropyOfRows) {
  Rng rng;
  constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};
  for (auto _ : testing::FuzzFor(300)) {
    LossCase k;
    k.softmax = true, k.log_probs = false;
    k.weighted = rng.Chance(0.5), k.ignores = rng.Chance(0.5);
    k.reduction = rng.Chance(0.5) ? "none" : "mean";
    k.type = kFloats[rng.Int(0, 2)];
    k.dims = {rng.Int(1, 40), rng.Chance(0.2) ? rng.Int(1000, 9000) : rng.Int(1, 300)};
    if (k.reduction == "mean") k.ignores = false;  // of no target at all there is no mean
    SetNumThreads(static_cast<int>(rng.Int(1, 3)));
    RunOne(k, rng);
    SetNumThreads(0);
    if (HasFailure()) return;
  }
}

TEST(Loss, BadTargetsAndShapesAreNamed) {
  GuardedTensor x(DType::kF32, {2, 3}), target(DType::kS64, {2}), wrong(DType::kS64, {3});
  x.Set({0, 0, 0, 0, 0, 0});
  target.Set({1, 3});
  OpTester t("NegativeLogLikelihoodLoss");
  t.In(x).In(target);
  EXPECT_EQ(t.Run().message(), "NegativeLogLikelihoodLoss: target 3 at position 1; allowed: 0 to 2");
  OpTester shape("SoftmaxCrossEntropyLoss");
  shape.In(x).In(wrong);
  EXPECT_NE(shape.Run().message().find("the targets have shape [3]; allowed: [2]"), std::string::npos);
}

}  // namespace
}  // namespace opsnn::op
