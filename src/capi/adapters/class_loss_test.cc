// Losses over classes and their gradients, against double arithmetic that is held against finite differences.
#include <cmath>

#include "aclnnop/aclnn_cross_entropy_loss.h"
#include "aclnnop/aclnn_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_nll_loss.h"
#include "aclnnop/aclnn_nll_loss2d.h"
#include "aclnnop/aclnn_nll_loss2d_backward.h"
#include "aclnnop/aclnn_nll_loss_backward.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kIgnored = -100;

class ClassLosses : public ApiTest {
 protected:
  Rng rng_;
  std::vector<double> Labels(size_t count, int64_t classes) {
    std::vector<double> v(count);
    for (double& t : v) t = static_cast<double>(rng_.Chance(0.2) ? kIgnored : rng_.Int(0, classes - 1));
    v[0] = 0;  // a mean over nothing is no number
    return v;
  }
};

std::vector<double> Tolerances(const std::vector<double>& want, DType t) {
  std::vector<double> tolerance;
  for (double v : want) tolerance.push_back(std::abs(v) * (testing::Epsilon(t) + 0x1p-17) + 0x1p-16);
  return tolerance;
}

TEST_F(ClassLosses, Nll) {
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[round % 3];
    const bool image = round % 2;
    const int64_t reduction = round / 2 % 3, n = rng_.Int(1, 4), c = rng_.Int(1, 7),
                  h = image ? rng_.Int(1, 4) : 1;
    const Dims dims = image ? Dims{n, c, h, 3} : Dims{n, c}, labels = image ? Dims{n, h, 3} : Dims{n};
    const int64_t pixels = image ? h * 3 : 1, count = n * pixels;
    const bool weighted = round % 4 < 2;
    RandomTensor x(t, dims, rng_, round % 3 == 1), w(t, {c}, rng_, false, 2);
    ApiTensor target(round % 3 ? DType::kS64 : DType::kS32, labels), total(t, {1});
    target.Set(Labels(static_cast<size_t>(count), c));
    const auto at = target.Get();
    const Dims out = reduction ? Dims{1} : labels;
    ApiTensor y(t, out, &rng_, round % 3 == 2 && !reduction), dx(t, dims, &rng_, round % 4 == 1);
    RandomTensor grad(t, reduction ? Dims{} : labels, rng_);
    ASSERT_EQ(image ? CALL(aclnnNLLLoss2d, x, target, OrNull(weighted, w), reduction, kIgnored, y, total)
                    : CALL(aclnnNLLLoss, x, target, OrNull(weighted, w), reduction, kIgnored, y, total),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> rows, back(static_cast<size_t>(count * c));
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<int64_t>(at[static_cast<size_t>(i)]);
      const double weight = label == kIgnored ? 0 : weighted ? w[label] : 1;
      const int64_t k = (i / pixels * c + std::max<int64_t>(label, 0)) * pixels + i % pixels;
      rows.push_back(-weight * x[k]);
      sum += rows.back(), weights += weight;
    }
    if (reduction == 1 && std::abs(weights) < 0.5) continue;  // terms cancel
    std::vector<double> want = reduction ? std::vector<double>{reduction == 1 ? sum / weights : sum} : rows;
    EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, t)), "") << Name(t) << reduction;
    EXPECT_EQ(Compare(total.Get(), {weights}, Tolerances({weights}, t)), "");
    const double stored = total.Get()[0];
    ASSERT_EQ(image ? CALL(aclnnNLLLoss2dBackward, grad, x, target, OrNull(weighted, w), reduction, kIgnored,
                           total, dx)
                    : CALL(aclnnNLLLossBackward, grad, x, target, OrNull(weighted, w), reduction, kIgnored,
                           total, dx),
              0)
        << aclGetRecentErrMsg();
    for (int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<int64_t>(at[static_cast<size_t>(i)]);
      if (label == kIgnored) continue;
      const double v = -(weighted ? w[label] : 1) * grad[reduction ? 0 : i];
      back[static_cast<size_t>((i / pixels * c + label) * pixels + i % pixels)] =
          reduction == 1 ? v / stored : v;
    }
    EXPECT_EQ(Compare(dx.Get(), back, Tolerances(back, t)), "") << Name(t) << reduction;
    ExpectGuards({&x, &target, &y, &dx, &total});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_);
  ApiTensor target(DType::kS64, {2}), y(DType::kF32, {1}), total(DType::kF32, {1}), wide(DType::kF32, {2});
  target.Set({1, 3});
  y.Set({7});
  EXPECT_NE(CALL(aclnnNLLLoss, x, target, nullptr, 1, kIgnored, y, total), 0);  // label 3 of 3 classes
  EXPECT_EQ(y.Get()[0], 7);
  // A label does not count from the end: a wrong ignoreIndex must not train the last classes.
  target.Set({1, kIgnored - 2});
  EXPECT_NE(CALL(aclnnNLLLoss, x, target, nullptr, 1, kIgnored, y, total), 0);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("[0, 2]"), std::string::npos);
  target.Set({1, -1});
  ApiTensor dx(DType::kF32, {2, 3});
  total.Set({2});
  dx.Set(std::vector<double>(6, 5));
  EXPECT_NE(CALL(aclnnNLLLoss, x, target, nullptr, 1, kIgnored, y, total), 0);
  EXPECT_NE(CALL(aclnnNLLLossBackward, y, x, target, nullptr, 1, kIgnored, total, dx), 0);
  EXPECT_EQ(y.Get()[0], 7);
  EXPECT_EQ(dx.Get(), std::vector<double>(6, 5));
  aclGetRecentErrMsg();
  ExpectRefused(CALL(aclnnNLLLoss, x, target, nullptr, 4, kIgnored, y, total), 161002, {"reduction is 4"});
  ExpectRefused(CALL(aclnnNLLLoss, x, target, wide, 1, kIgnored, y, total), 161002,
                {"weight has shape [2]", "[3]"});
  ExpectRefused(CALL(aclnnNLLLoss, x, x, nullptr, 1, kIgnored, y, total), 161002, {"target has dtype f32"});
}

// The loss of a batch, of values and labels.
struct Batch {
  int64_t n, c;
  std::vector<double> x, labels, weights;
  double smoothing;
  const char* reduction;
  double Logit(int64_t i, int64_t k) const {
    double most = -1e30, sum = 0;
    for (int64_t j = 0; j < c; ++j) most = std::max(most, x[static_cast<size_t>(i * c + j)]);
    for (int64_t j = 0; j < c; ++j) sum += std::exp(x[static_cast<size_t>(i * c + j)] - most);
    return x[static_cast<size_t>(i * c + k)] - most - std::log(sum);
  }
  std::vector<double> Loss() const {
    std::vector<double> rows;
    double sum = 0, total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto y = static_cast<int64_t>(labels[static_cast<size_t>(i)]);
      double row = 0;
      if (y != kIgnored) {
        row = -(1 - smoothing) * weights[static_cast<size_t>(y)] * Logit(i, y);
        for (int64_t k = 0; k < c; ++k)
          row -= smoothing / static_cast<double>(c) * weights[static_cast<size_t>(k)] * Logit(i, k);
        total += weights[static_cast<size_t>(y)];
      }
      rows.push_back(row), sum += row;
    }
    if (std::string(reduction) == "none") return rows;
    return {std::string(reduction) == "sum" ? sum : sum / total};
  }
};

TEST_F(ClassLosses, CrossEntropy) {
  const char* const kReductions[] = {"mean", "sum", "none"};
  for (int round = 0; round < 36; ++round) {
    const DType t = kFloats[round % 3];
    Batch b;
    b.n = rng_.Int(1, 5), b.c = rng_.Int(2, 9), b.smoothing = round % 2 ? 0.25 : 0,
    b.reduction = kReductions[round / 2 % 3];
    const bool weighted = round % 4 < 2, none = std::string(b.reduction) == "none";
    RandomTensor x(t, {b.n, b.c}, rng_, round % 3 == 1);
    ApiTensor w(DType::kF32, {b.c}), target(DType::kS64, {b.n});
    w.memory().FillRandom(rng_, 0.5, 2);
    target.Set(Labels(static_cast<size_t>(b.n), b.c));
    b.x = x.values(), b.labels = target.Get();
    b.weights = weighted ? w.Get() : std::vector<double>(static_cast<size_t>(b.c), 1);
    ApiTensor y(t, none ? Dims{b.n} : Dims{1}), logs(t, {b.n, b.c}, &rng_, round % 3 == 2),
        z(t, none ? Dims{b.n} : Dims{1}), lse(t, {b.n}), dx(t, {b.n, b.c}, &rng_, round % 4 == 1);
    char reduction[8];
    std::snprintf(reduction, sizeof reduction, "%s", b.reduction);
    ASSERT_EQ(CALL(aclnnCrossEntropyLoss, x, target, OrNull(weighted, w), reduction, kIgnored, b.smoothing,
                   0.0, false, y, logs, z, lse),
              0)
        << aclGetRecentErrMsg();
    const auto want = b.Loss();
    EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, t)), "") << Name(t) << b.reduction;
    RandomTensor grad(t, none ? Dims{b.n} : Dims{}, rng_);
    RandomTensor exact(DType::kF32, {b.n, b.c}, rng_);
    exact.Set(Make({b.n, b.c}, [&](const Index& i) { return b.Logit(i[0], i[1]); }));
    const ApiTensor& saved = t == DType::kF32 ? static_cast<ApiTensor&>(exact) : logs;
    ASSERT_EQ(CALL(aclnnCrossEntropyLossGrad, grad, saved, target, OrNull(weighted, w), nullptr, nullptr,
                   reduction, kIgnored, b.smoothing, 0.0, dx),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> back, tolerance;
    for (size_t i = 0; i < b.x.size(); ++i) {
      Batch high = b, low = b;
      high.x[i] += 1e-5, low.x[i] -= 1e-5;
      const auto a = high.Loss(), d = low.Loss();
      double slope = 0;
      for (size_t k = 0; k < a.size(); ++k) slope += (a[k] - d[k]) / 2e-5 * grad[static_cast<int64_t>(k)];
      back.push_back(slope);
      // The saved logarithms are rounded in halves.
      tolerance.push_back(0x1p-14 + (std::abs(slope) + 32 * (t != DType::kF32)) * testing::Epsilon(t) * 4);
    }
    EXPECT_EQ(Compare(dx.Get(), back, tolerance), "") << Name(t) << b.reduction;
    ExpectGuards({&x, &target, &y, &logs, &dx});
  }
}

}  // namespace
}  // namespace opsnn::capi
