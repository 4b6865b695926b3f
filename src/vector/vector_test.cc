// Stages, types and views of the vector engine against a slow reference in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isa/tier.h"
#include "testing/testing.h"
#include "vector/reference_for_test.h"
#include "vector/run.h"

namespace opsnn::vector {
namespace {

using testing::FuzzFor;
using testing::GuardedTensor;
using testing::Rng;

class EachTier : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() > static_cast<int>(isa::BestTier()))
      tier_ = isa::BestTier();
    else
      tier_ = static_cast<isa::Tier>(GetParam());
    isa::SetMaxTier(tier_);
  }
  void TearDown() override { isa::SetMaxTier(saved_); }
  isa::Tier saved_ = isa::ActiveTier();
  isa::Tier tier_;
};
INSTANTIATE_TEST_SUITE_P(Tiers, EachTier, ::testing::Range(0, isa::kNumTiers),
                         [](const auto& i) { return isa::Name(static_cast<isa::Tier>(i.param)); });

// Units in the last place of f32 that a stage may be off (simd/math-inl.h), beyond the inputs' own rounding.
double StageUlp(StageOp op) {
  switch (op) {
    case StageOp::kExp:
    case StageOp::kErf:
    case StageOp::kElu:
      return 2;
    case StageOp::kTanh:
    case StageOp::kSigmoid:
    case StageOp::kSoftplus:
    case StageOp::kAsinh:
    case StageOp::kAcosh:
    case StageOp::kAtanh:
      return 4;
    case StageOp::kTan:
    case StageOp::kSinh:
    case StageOp::kCosh:
      return 5;
    case StageOp::kAsin:
    case StageOp::kAcos:
    case StageOp::kAtan:
      return 3;
    case StageOp::kSilu:
    case StageOp::kMish:
      return 6;
    case StageOp::kGeluErf:
    case StageOp::kGeluTanh:
      return 4500;  // relative 5e-4 in the far tail, see below
    case StageOp::kSin:
    case StageOp::kCos:
      return 2;
    case StageOp::kAffine:
    case StageOp::kHardSigmoid:
    case StageOp::kHardSwish:
    case StageOp::kMulAdd:
      return 4;
    default:
      return 1;
  }
}

std::vector<double> ToleranceFor(StageOp op, const std::vector<double>& want) {
  std::vector<double> tol;
  // Sums of two rounded terms may cancel: their error is relative to the terms, which are below 8 in these
  // tests.
  const bool cancels = op == StageOp::kAffine || op == StageOp::kMulAdd || op == StageOp::kHardSigmoid ||
                       op == StageOp::kHardSwish || op == StageOp::kGeluErf || op == StageOp::kGeluTanh;
  for (double w : want)
    tol.push_back(StageUlp(op) * 0x1p-23 * std::fabs(w) + (cancels ? 8 * 0x1p-23 : 0x1p-149));
  return tol;
}

Program OneStage(StageOp op, ComputeType type, double imm0, double imm1) {
  ProgramBuilder b;
  SlotId s[3] = {};
  const int arity = Info(op).arity;
  for (int i = 0; i < arity; ++i) s[i] = b.Input(type);
  b.Output(arity == 1   ? b.Unary(op, s[0], imm0, imm1)
           : arity == 2 ? b.Binary(op, s[0], s[1])
                        : b.Ternary(op, s[0], s[1], s[2]));
  return std::move(b).Build();
}

bool IsPlainStage(StageOp op) {
  return op != StageOp::kConst && op != StageOp::kConvert && op != StageOp::kRoundTo && !IsRowReduction(op);
}

TEST_P(EachTier, EveryStageF32) {
  Rng rng;
  for (int i = 0; i <= static_cast<int>(StageOp::kSelect); ++i) {
    const StageOp op = static_cast<StageOp>(i);
    if (!IsPlainStage(op)) continue;
    const auto compiled = Compile(OneStage(op, ComputeType::kF32, 0.3, 0.9)).value();
    for (int64_t n : {1, 3, 16, 17, 63, 64, 65, 200, 1000}) {
      std::vector<GuardedTensor> in;
      std::vector<TensorView> views;
      std::vector<std::vector<double>> values;
      for (int k = 0; k < Info(op).arity; ++k) {
        in.emplace_back(DType::kF32, Dims{n}, &rng, false);
        const bool positive = op == StageOp::kLog || op == StageOp::kSqrt || op == StageOp::kRsqrt ||
                              (op == StageOp::kPow && k == 0);
        in.back().FillRandom(rng, positive ? 0.01 : -4, 4);
      }
      for (const GuardedTensor& t : in) views.push_back(t.view()), values.push_back(t.Get());
      GuardedTensor out(DType::kF32, Dims{n});
      RunTensors(*compiled, views, std::span(&out.view(), 1));
      const std::vector<double> want = ReferenceStage(op, ComputeType::kF32, values, 0.3f, 0.9f);
      EXPECT_EQ(testing::Compare(out.Get(), want, ToleranceFor(op, want)), "") << Info(op).name << " n " << n;
      EXPECT_TRUE(out.GuardsIntact()) << Info(op).name;
    }
  }
}

TEST(Vector, EveryStageF64AndIntegers) {
  Rng rng;
  struct Kind {
    ComputeType type;
    DType dtype;
  };
  for (const Kind kind : {Kind{ComputeType::kF64, DType::kF64}, Kind{ComputeType::kS32, DType::kS32},
                          Kind{ComputeType::kS64, DType::kS64}}) {
    for (int i = 0; i <= static_cast<int>(StageOp::kSelect); ++i) {
      const StageOp op = static_cast<StageOp>(i);
      if (!IsPlainStage(op)) continue;
      const bool integer = kind.type != ComputeType::kF64;
      const auto compiled = Compile(OneStage(op, kind.type, integer ? 2 : 0.3, integer ? 5 : 0.9)).value();
      const int64_t n = rng.Size(70);
      std::vector<GuardedTensor> in;
      std::vector<TensorView> views;
      std::vector<std::vector<double>> values;
      for (int k = 0; k < Info(op).arity; ++k) {
        in.emplace_back(kind.dtype, Dims{n}, &rng, false);
        const bool positive = op == StageOp::kLog || op == StageOp::kSqrt || op == StageOp::kRsqrt ||
                              (op == StageOp::kPow && k == 0);
        // atanh(1) is Inf, which an integer does not hold.
        const double lo = integer && op == StageOp::kAtanh ? 2 : positive ? (integer ? 1 : 0.1) : -9;
        in.back().FillRandom(rng, lo, 9);
      }
      for (const GuardedTensor& t : in) views.push_back(t.view()), values.push_back(t.Get());
      GuardedTensor out(kind.dtype, Dims{n});
      RunTensors(*compiled, views, std::span(&out.view(), 1));
      // The reference's own form of these cancels in the tail.
      const double abs_tol = op == StageOp::kGeluErf || op == StageOp::kGeluTanh ? 64 * 0x1p-53 : 1e-300;
      const std::vector<double> want =
          ReferenceStage(op, kind.type, values, integer ? 2 : 0.3, integer ? 5 : 0.9);
      EXPECT_EQ(testing::Compare(out.Get(), want, abs_tol, 32 * 0x1p-53), "")
          << Info(op).name << " " << Name(kind.dtype);
    }
  }
}

TEST(Vector, IntegerEdges) {
  auto run64 = [](StageOp op, int64_t x, int64_t y) {
    int64_t out = 99;
    const TensorView in[2] = {TensorView::Contiguous(&x, DType::kS64, {1}),
                              TensorView::Contiguous(&y, DType::kS64, {1})};
    const TensorView o = TensorView::Contiguous(&out, DType::kS64, {1});
    RunTensors(*Compile(OneStage(op, ComputeType::kS64, 0, 0)).value(), in, std::span(&o, 1));
    return out;
  };
  EXPECT_EQ(run64(StageOp::kDiv, 7, 0), 0);
  EXPECT_EQ(run64(StageOp::kDiv, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(run64(StageOp::kDiv, -7, 2), -3);
  EXPECT_EQ(run64(StageOp::kMod, 7, 0), 0);
  EXPECT_EQ(run64(StageOp::kMod, -7, 3), 2);
  EXPECT_EQ(run64(StageOp::kMod, 7, -3), -2);
  EXPECT_EQ(run64(StageOp::kMod, INT64_MIN, -1), 0);
  EXPECT_EQ(run64(StageOp::kMul, (int64_t{1} << 40) + 1, 3), 3 * ((int64_t{1} << 40) + 1));
  EXPECT_EQ(run64(StageOp::kAdd, INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(run64(StageOp::kPow, 3, 4), 81);
  EXPECT_EQ(run64(StageOp::kPow, 2, -1), 0);
}

// A random pointwise program over random views: broadcast, strides, every storage type, several outputs.
TEST_P(EachTier, RandomProgramsAndViews) {
  Rng rng;
  for (auto _ : FuzzFor(400)) {
    const Dims dims = rng.Shape(0, 5, 3000);
    const int num_inputs = static_cast<int>(rng.Int(1, 4));
    ProgramBuilder b;
    std::vector<SlotId> slots;
    for (int i = 0; i < num_inputs; ++i) slots.push_back(b.Input());
    const StageOp kUnary[] = {StageOp::kRelu, StageOp::kNeg, StageOp::kSigmoid, StageOp::kClip,
                              StageOp::kHardSwish};
    const StageOp kBinary[] = {StageOp::kAdd, StageOp::kSub, StageOp::kMul, StageOp::kMax, StageOp::kMin};
    const int num_stages = static_cast<int>(rng.Int(1, 9));
    auto pick = [&] {
      return slots[rng.Int(std::max<int64_t>(0, static_cast<int64_t>(slots.size()) - 4), slots.size() - 1)];
    };
    for (int i = 0; i < num_stages; ++i) {
      if (rng.Chance(0.1)) slots.push_back(b.Const(rng.Int(-2, 2)));
      if (rng.Chance(0.5))
        slots.push_back(b.Unary(kUnary[rng.Int(0, 4)], pick(), -0.5, 1.5));
      else
        slots.push_back(b.Binary(kBinary[rng.Int(0, 4)], pick(), pick()));
    }
    const int num_outputs = static_cast<int>(rng.Int(1, 2));
    b.Output(slots.back());
    if (num_outputs == 2) b.Output(pick());
    const Program program = std::move(b).Build();
    const DType kStorage[] = {DType::kF32,  DType::kF32, DType::kF32, DType::kF16,
                              DType::kBF16, DType::kS8,  DType::kU8};
    std::vector<GuardedTensor> in, out;
    std::vector<TensorView> in_views, out_views;
    for (int i = 0; i < num_inputs; ++i) {
      Dims d = dims;
      for (int64_t& v : d)
        if (rng.Chance(0.25)) v = 1;
      while (d.rank() > 0 && rng.Chance(0.15)) d.erase(0);
      const DType t = kStorage[rng.Int(0, 6)];
      in.emplace_back(t, d, &rng, rng.Chance(0.5));
      in.back().FillRandom(rng, t == DType::kU8 ? 0 : -3, 3);
    }
    for (int o = 0; o < num_outputs; ++o) {
      out.emplace_back(rng.Chance(0.7) ? DType::kF32 : DType::kBF16, dims, &rng, rng.Chance(0.5));
    }
    for (const GuardedTensor& t : in) in_views.push_back(t.view());
    for (const GuardedTensor& t : out) out_views.push_back(t.view());
    RunTensors(*Compile(program).value(), in_views, out_views);
    std::vector<std::vector<double>> values;
    for (const GuardedTensor& t : in) values.push_back(BroadcastValues(t.Get(), t.view().dims, dims));
    const std::vector<std::vector<double>> want = ReferenceProgram(program, values, 1, NumElements(dims));
    for (int o = 0; o < num_outputs; ++o) {
      std::vector<double> tol;
      for (double w : want[o]) {
        tol.push_back(std::max(1.0, std::fabs(w)) *
                      (testing::Epsilon(out_views[o].dtype) + num_stages * 64 * 0x1p-24));
      }
      // Values grow with each product: where they are huge, errors of the terms are, too.
      EXPECT_EQ(
          testing::Compare(out[o].Get(), want[o], ScaledTolerance(program, values, tol, NumElements(dims))),
          "")
          << program.ToString() << " dims " << ToString(dims);
      EXPECT_TRUE(out[o].GuardsIntact());
    }
  }
}

TEST_P(EachTier, RowReductions) {
  Rng rng;
  for (StageOp op : {StageOp::kRowSum, StageOp::kRowMean, StageOp::kRowMax, StageOp::kRowMin,
                     StageOp::kRowSumSquare, StageOp::kRowProd}) {
    ProgramBuilder b;
    const SlotId x = b.Input();
    const SlotId r = b.Unary(op, x);
    b.Output(r), b.Output(b.Binary(StageOp::kAdd, x, r));
    const Program program = std::move(b).Build();
    const auto compiled = Compile(program).value();
    for (int64_t cols : {0, 1, 3, 15, 16, 17, 64, 100, 1000, 5000, 70000}) {
      const int64_t rows = cols > 1000 ? 2 : rng.Int(1, 7);
      GuardedTensor in(DType::kF32, {rows, cols}, &rng, rng.Chance(0.5)), red(DType::kF32, {rows, 1}),
          full(DType::kF32, {rows, cols});
      in.FillRandom(rng, op == StageOp::kRowProd ? 0.99 : -2, op == StageOp::kRowProd ? 1.01 : 2);
      const TensorView outs[] = {red.view(), full.view()};
      RunTensors(*compiled, std::span(&in.view(), 1), outs, 1);
      const auto want = ReferenceProgram(program, {in.Get()}, rows, cols);
      const double tol = (cols + 2.0) * 0x1p-24 * (op == StageOp::kRowMax || op == StageOp::kRowMin ? 0 : 4);
      EXPECT_EQ(testing::Compare(red.Get(), want[0], tol, tol), "") << Info(op).name << " cols " << cols;
      EXPECT_EQ(testing::Compare(full.Get(), want[1], tol + 0x1p-22, tol + 0x1p-23), "")
          << Info(op).name << " cols " << cols;
      EXPECT_TRUE(full.GuardsIntact() && red.GuardsIntact());
    }
  }
}

TEST_P(EachTier, NanSticksInRowMaxAtEveryPlace) {
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kRowMax, b.Input()));
  const auto compiled = Compile(std::move(b).Build()).value();
  for (int64_t cols : {1, 5, 33, 130}) {
    for (int64_t at = 0; at < cols; ++at) {
      std::vector<float> x(cols, 1.0f);
      x[at] = std::nanf("");
      float y = 0;
      const TensorView in = TensorView::Contiguous(x.data(), DType::kF32, {cols});
      const TensorView out = TensorView::Contiguous(&y, DType::kF32, {1});
      RunTensors(*compiled, std::span(&in, 1), std::span(&out, 1), 1);
      ASSERT_TRUE(std::isnan(y)) << cols << " " << at;
    }
  }
}

}  // namespace
}  // namespace opsnn::vector
