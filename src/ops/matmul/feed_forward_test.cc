#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "op/op_tester.h"
#include "testing/testing.h"

namespace opsnn::op {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::Epsilon;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;

double Act(const std::string& name, double x) {
  if (name == "relu") return x < 0 ? 0 : x;
  if (name == "gelu_erf") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  if (name == "gelu_tanh") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

struct Sizes {
  int64_t m, k, hidden, n;
};

// The result and a bound on |error| for every element of it.
struct Want {
  std::vector<double> value, tolerance;
};

Want Reference(const Sizes& s, const std::string& act, const GuardedTensor& x, const GuardedTensor& w1,
               const GuardedTensor& w2, const GuardedTensor* b1, const GuardedTensor* addend) {
  const DType t = x.view().dtype;
  const std::vector<double> xv = x.Get(), u = w1.Get(), v = w2.Get(),
                            b = b1 ? b1->Get() : std::vector<double>(static_cast<size_t>(s.hidden)),
                            r = addend ? addend->Get() : std::vector<double>(static_cast<size_t>(s.m * s.n));
  Want w;
  for (int64_t i = 0; i < s.m; ++i) {
    std::vector<double> h, error;
    for (int64_t j = 0; j < s.hidden; ++j) {
      double sum = b[static_cast<size_t>(j)], abs_sum = std::fabs(sum);
      for (int64_t p = 0; p < s.k; ++p) {
        const double product =
            xv[static_cast<size_t>(i * s.k + p)] * u[static_cast<size_t>(p * s.hidden + j)];
        sum += product, abs_sum += std::fabs(product);
      }
      h.push_back(Act(act, sum));
      // No activation here is steeper than 1.13 (gelu, silu); their own roundings stay below 8 ulps.
      const double grown = 1.2 * abs_sum * (2 * std::sqrt(static_cast<double>(s.k)) + 4) + 8 * abs_sum;
      const double half_step = t == DType::kF16 ? 0x1p-25 : 0;  // of its subnormals
      error.push_back(grown * Epsilon(DType::kF32) + std::fabs(h.back()) * Epsilon(t) + half_step);
    }
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0, abs_sum = 0, carried = 0;
      for (int64_t p = 0; p < s.hidden; ++p) {
        const double weight = v[static_cast<size_t>(p * s.n + j)];
        sum += h[static_cast<size_t>(p)] * weight;
        abs_sum += std::fabs(h[static_cast<size_t>(p)] * weight);
        carried += error[static_cast<size_t>(p)] * std::fabs(weight);
      }
      const double residual = r[static_cast<size_t>(i * s.n + j)];
      w.value.push_back(sum + residual);
      w.tolerance.push_back(
          carried +
          (abs_sum * (2 * std::sqrt(static_cast<double>(s.hidden)) + 4) + std::fabs(residual)) *
              Epsilon(DType::kF32) +
          std::fabs(sum + residual) * 2 * Epsilon(t) + 0x1p-25);
    }
  }
  return w;
}

FusedTail AddTail() {
  ProgramBuilder b;
  const SlotId x = b.Input(), y = b.Input();
  b.Output(b.Binary(StageOp::kAdd, x, y));
  return {std::move(b).Build(), {}};
}

TEST(FeedForward, AnySizesAndBlocks) {
  Rng rng;
  const char* acts[] = {"copy", "relu", "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh"};
  for (auto _ : FuzzFor(800)) {
    const Sizes s{rng.Int(1, 70), rng.Size(40), rng.Size(90), rng.Size(50)};
    const DType t = rng.Chance(0.7) ? DType::kF32 : rng.Chance(0.5) ? DType::kF16 : DType::kBF16;
    const std::string act = acts[rng.Int(0, 6)];
    SCOPED_TRACE(std::to_string(s.m) + "x" + std::to_string(s.k) + "x" + std::to_string(s.hidden) + "x" +
                 std::to_string(s.n) + " " + act + " " + Name(t));
    GuardedTensor x(t, {s.m, s.k}, &rng, rng.Chance(0.3)), w1(t, {s.k, s.hidden}), w2(t, {s.hidden, s.n}),
        b1(t, {s.hidden}), addend(t, {s.m, s.n}, &rng, rng.Chance(0.2));
    for (GuardedTensor* g : {&x, &w1, &w2, &b1, &addend}) g->FillRandom(rng, -1, 1);
    const bool bias = rng.Chance(0.7), residual = rng.Chance(0.5);
    ScopedThreadLimit limit(static_cast<int>(rng.Int(1, 2)));
    std::vector<double> whole;
    for (int64_t rows : {s.m, rng.Int(1, s.m), int64_t{0}}) {
      OpTester op("FeedForward");
      op.In(x).In(w1).In(w2);
      if (bias) op.In(b1);
      op.Attr("activation", act).Attr("rows", rows);
      if (residual) op.Tail(AddTail()).In(addend);
      ASSERT_TRUE(op.Run().ok()) << op.status().message();
      if (!whole.empty()) {
        EXPECT_EQ(whole, op.Out().Get()) << op.variant();
        continue;
      }
      whole = op.Out().Get();
      const Want want = Reference(s, act, x, w1, w2, bias ? &b1 : nullptr, residual ? &addend : nullptr);
      EXPECT_EQ("", Compare(whole, want.value, want.tolerance));
    }
  }
}

TEST(FeedForward, BatchesAreRowsAndEmptyIsEmpty) {
  Rng rng;
  GuardedTensor x(DType::kF32, {3, 4, 6}), flat(DType::kF32, {12, 6}), w1(DType::kF32, {6, 20}),
      w2(DType::kF32, {20, 5});
  x.FillRandom(rng), w1.FillRandom(rng), w2.FillRandom(rng);
  flat.Set(x.Get());
  OpTester a("FeedForward"), b("FeedForward");
  ASSERT_TRUE(a.In(x).In(w1).In(w2).Attr("rows", int64_t{5}).Run().ok()) << a.status().message();
  ASSERT_TRUE(b.In(flat).In(w1).In(w2).Run().ok());
  EXPECT_EQ(a.Out().view().dims, (Dims{3, 4, 5}));
  EXPECT_EQ(a.Out().Get(), b.Out().Get());
  GuardedTensor none(DType::kF32, {0, 6});
  OpTester empty("FeedForward");
  EXPECT_TRUE(empty.In(none).In(w1).In(w2).Run().ok());
}

TEST(FeedForward, SaysWhatIsWrong) {
  GuardedTensor x(DType::kF32, {4, 6}), w1(DType::kF32, {7, 20}), w2(DType::kF32, {20, 5});
  OpTester op("FeedForward");
  EXPECT_FALSE(op.In(x).In(w1).In(w2).Run().ok());
  EXPECT_NE(op.status().message().find("W1 has shape [7,20]; allowed: [6, any]"), std::string_view::npos)
      << op.status().message();
  OpTester act("FeedForward");
  GuardedTensor fits(DType::kF32, {6, 20});
  EXPECT_FALSE(act.In(x).In(fits).In(w2).Attr("activation", std::string("frob")).Run().ok());
}

}  // namespace
}  // namespace opsnn::op
