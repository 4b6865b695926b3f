// The generator against published values, and the operators by their distribution.
#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "op/op_tester.h"
#include "ops/random/philox.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;

// The known answers of Philox4x32-10 for an all-zero and an all-one counter need words that we do not set
// (the upper counter); these are the first words of key and counter zero.
TEST(Philox, KnownAnswer) {
  const PhiloxWords w = Philox(0, 0);
  EXPECT_EQ(w[0], 0x6627e8d5u);
  EXPECT_EQ(w[1], 0xe169c58du);
  EXPECT_EQ(w[2], 0xbc57ac4cu);
  EXPECT_EQ(w[3], 0x9b00dbd8u);
}

struct Moments {
  double mean = 0, deviation = 0, low = INFINITY, high = -INFINITY;
};
Moments Of(const std::vector<double>& v) {
  Moments m;
  for (const double x : v) m.mean += x / static_cast<double>(v.size());
  double square = 0;
  for (const double x : v) {
    square += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
    m.low = std::min(m.low, x), m.high = std::max(m.high, x);
  }
  m.deviation = std::sqrt(square);
  return m;
}

constexpr int64_t kCount = 20000;
// Five standard errors of a mean of kCount draws with deviation 1: fails once in two million seeds; the seeds
// here are fixed.
const double kSlack = 5 / std::sqrt(static_cast<double>(kCount));

TEST(Random, NormalAndUniform) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    OpTester normal("RandomNormal");
    normal.Attr("shape", std::vector<int64_t>{100, kCount / 100}).Attr("dtype", int64_t{Info(type).onnx});
    normal.Attr("mean", 2.0).Attr("scale", 0.5).Attr("seed", 7.0);
    ASSERT_TRUE(normal.Run().ok()) << normal.status().message();
    const Moments m = Of(normal.Out().Get());
    EXPECT_NEAR(m.mean, 2, 0.5 * kSlack + testing::Epsilon(type));
    EXPECT_NEAR(m.deviation, 0.5, 0.5 * kSlack + testing::Epsilon(type));
    OpTester uniform("RandomUniform");
    uniform.Attr("shape", std::vector<int64_t>{kCount}).Attr("dtype", int64_t{Info(type).onnx});
    uniform.Attr("low", -1.0).Attr("high", 3.0).Attr("seed", 7.0);
    ASSERT_TRUE(uniform.Run().ok()) << uniform.status().message();
    const Moments u = Of(uniform.Out().Get());
    EXPECT_NEAR(u.mean, 1, 4 / std::sqrt(12.0) * kSlack + 2 * testing::Epsilon(type));
    EXPECT_GE(u.low, -1);
    EXPECT_LE(u.high, 3);
  }
}

TEST(Random, SeedsThreadsAndLikes) {
  GuardedTensor x(DType::kF32, {70, 90});
  std::vector<double> first;
  for (const int threads : {1, 2}) {
    SetNumThreads(threads);
    OpTester t("RandomUniformLike");
    t.In(x).Attr("seed", 3.0);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    if (first.empty()) first = t.Out().Get();
    EXPECT_EQ(t.Out().Get(), first);
  }
  SetNumThreads(0);
  OpTester other("RandomUniformLike");
  other.In(x).Attr("seed", 4.0);
  ASSERT_TRUE(other.Run().ok());
  EXPECT_NE(other.Out().Get(), first);
  OpTester normal("RandomNormalLike");
  normal.In(x).Attr("dtype", int64_t{Info(DType::kF16).onnx});
  ASSERT_TRUE(normal.Run().ok()) << normal.status().message();
  EXPECT_EQ(normal.OutDesc().dtype, DType::kF16);
  OpTester bad("RandomUniform");
  bad.Attr("shape", std::vector<int64_t>{-1});
  EXPECT_NE(bad.Run().message().find("attribute shape is [-1]"), std::string::npos);
}

TEST(Random, BernoulliAndMultinomial) {
  GuardedTensor p(DType::kF32, {kCount}), logits(DType::kF32, {1, 3});
  p.Set(std::vector<double>(kCount, 0.3));
  OpTester t("Bernoulli");
  t.In(p).Attr("dtype", int64_t{Info(DType::kBool).onnx});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_NEAR(Of(t.Out().Get()).mean, 0.3, kSlack);
  logits.Set({std::log(0.2), std::log(0.5), std::log(0.3)});
  OpTester m("Multinomial");
  m.In(logits).Attr("sample_size", kCount).Attr("seed", 5.0);
  ASSERT_TRUE(m.Run().ok()) << m.status().message();
  double count[3] = {};
  for (const double v : m.Out().Get()) count[static_cast<int>(v)] += 1.0 / kCount;
  EXPECT_NEAR(count[0], 0.2, kSlack);
  EXPECT_NEAR(count[1], 0.5, kSlack);
  EXPECT_NEAR(count[2], 0.3, kSlack);
}

TEST(Random, DropoutKeepsTheExpectedValue) {
  GuardedTensor x(DType::kF32, {kCount}), mode(DType::kBool, {}), ratio(DType::kF32, {});
  x.Set(std::vector<double>(kCount, 1.0));
  mode.Set({1}), ratio.Set({0.25});
  OpTester t("DropoutTraining");
  t.In(x).In(ratio).In(mode).Outputs(2).Attr("seed", 9.0);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  const std::vector<double> y = t.Out(0).Get(), mask = t.Out(1).Get();
  EXPECT_NEAR(Of(mask).mean, 0.75, kSlack);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], mask[i] != 0 ? static_cast<double>(4.0f / 3.0f) : 0);
  mode.Set({0});
  OpTester off("DropoutTraining");
  off.In(x).In(ratio).In(mode).Outputs(2);
  ASSERT_TRUE(off.Run().ok()) << off.status().message();
  EXPECT_EQ(off.Out(0).Get(), x.Get());
  EXPECT_EQ(off.Out(1).Get(), std::vector<double>(kCount, 1.0));
  ratio.Set({1}), mode.Set({1});
  OpTester all("DropoutTraining");
  all.In(x).In(ratio).In(mode);
  EXPECT_EQ(all.Run().message(), "DropoutTraining: ratio is 1; allowed: from 0 to below 1");
}

}  // namespace
}  // namespace opsnn::ops
