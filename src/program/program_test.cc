#include "program/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "testing/testing.h"

namespace opsnn {
namespace {

// A scalar evaluation of the handful of stages that the random programs below use.
double Eval(const Program& p, const std::vector<double>& inputs, size_t output) {
  std::vector<double> v(p.slots.size());
  for (int i = 0; i < p.num_inputs; ++i) v[static_cast<size_t>(i)] = inputs[static_cast<size_t>(i)];
  for (const Stage& s : p.stages) {
    const double a = s.src[0] == kNoSlot ? 0 : v[s.src[0]], b = s.src[1] == kNoSlot ? 0 : v[s.src[1]];
    double r = 0;
    switch (s.op) {
      case StageOp::kConst:
        r = s.imm[0];
        break;
      case StageOp::kNeg:
        r = -a;
        break;
      case StageOp::kAffine:
        r = s.imm[0] * a + s.imm[1];
        break;
      case StageOp::kAdd:
        r = a + b;
        break;
      case StageOp::kSub:
        r = a - b;
        break;
      case StageOp::kMul:
        r = a * b;
        break;
      case StageOp::kConvert:
        r = a;
        break;
      default:
        ADD_FAILURE() << Info(s.op).name;
    }
    v[s.dst] = r;
  }
  return v[p.outputs[output]];
}

Program RandomProgram(testing::Rng& rng, ComputeType type) {
  ProgramBuilder b;
  const int inputs = static_cast<int>(rng.Int(1, 4)), stages = static_cast<int>(rng.Int(0, 6));
  int slots = inputs;
  for (int i = 0; i < inputs; ++i) b.Input(type);
  auto any = [&] { return static_cast<SlotId>(rng.Int(0, slots - 1)); };
  for (int i = 0; i < stages; ++i, ++slots) {
    switch (rng.Int(0, 4)) {
      case 0:
        b.Unary(StageOp::kAffine, any(), rng.Real(-1, 1), rng.Real(-1, 1));
        break;
      case 1:
        b.Binary(StageOp::kSub, any(), any());
        break;
      case 2:
        b.Const(rng.Real(-1, 1), type);
        break;
      case 3:
        b.Unary(StageOp::kNeg, any());
        break;
      default:
        b.Binary(StageOp::kMul, any(), any());
        break;
    }
  }
  const int outputs = static_cast<int>(rng.Int(1, 3));
  for (int i = 0; i < outputs; ++i) b.Output(any());
  return std::move(b).Build();
}

std::vector<double> RandomInputs(testing::Rng& rng, int n) {
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = rng.Real(-1, 1);
  return v;
}

TEST(Program, JoinComputesTheComposition) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const Program first = RandomProgram(rng, ComputeType::kF32);
    const Program second = RandomProgram(rng, rng.Chance(0.5) ? ComputeType::kF32 : ComputeType::kF64);
    ASSERT_TRUE(first.Validate().ok()) << first.Validate().message();
    const int output = static_cast<int>(rng.Int(0, static_cast<int64_t>(first.outputs.size()) - 1));
    const int input = static_cast<int>(rng.Int(0, second.num_inputs - 1));
    const bool keep = rng.Chance(0.5);
    const Program joined = *Join(first, output, second, input, keep);
    ASSERT_TRUE(joined.Validate().ok()) << joined.Validate().message();
    ASSERT_EQ(joined.num_inputs, first.num_inputs + second.num_inputs - 1);

    const std::vector<double> in1 = RandomInputs(rng, first.num_inputs);
    std::vector<double> in2 = RandomInputs(rng, second.num_inputs), all = in1;
    for (int i = 0; i < second.num_inputs; ++i) {
      if (i != input) all.push_back(in2[static_cast<size_t>(i)]);
    }
    in2[static_cast<size_t>(input)] = Eval(first, in1, static_cast<size_t>(output));
    size_t at = 0;
    for (size_t i = 0; keep && i < first.outputs.size(); ++i) {
      if (static_cast<int>(i) == output) continue;
      ASSERT_EQ(Eval(joined, all, at++), Eval(first, in1, i));
    }
    for (size_t i = 0; i < second.outputs.size(); ++i) {
      ASSERT_EQ(Eval(joined, all, at++), Eval(second, in2, i));
    }
    ASSERT_EQ(at, joined.outputs.size());
  }
}

TEST(Program, MergeInputsReadsOneForBoth) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const Program p = RandomProgram(rng, ComputeType::kF32);
    if (p.num_inputs < 2) continue;
    const int i = static_cast<int>(rng.Int(0, p.num_inputs - 2));
    const int j = static_cast<int>(rng.Int(i + 1, p.num_inputs - 1));
    const Program merged = MergeInputs(p, i, j);
    ASSERT_TRUE(merged.Validate().ok());
    std::vector<double> in = RandomInputs(rng, p.num_inputs), fewer = in;
    in[static_cast<size_t>(j)] = in[static_cast<size_t>(i)];
    fewer.erase(fewer.begin() + j);
    for (size_t o = 0; o < p.outputs.size(); ++o) ASSERT_EQ(Eval(merged, fewer, o), Eval(p, in, o));
  }
}

TEST(Program, HashAndEquality) {
  testing::Rng rng;
  std::map<uint64_t, Program> seen;
  for (auto _ : testing::FuzzFor(100)) {
    const Program p = RandomProgram(rng, ComputeType::kF32);
    Program copy = p;
    ASSERT_TRUE(copy == p);
    ASSERT_EQ(copy.Hash(), p.Hash());
    auto [it, fresh] = seen.emplace(p.Hash(), p);
    if (!fresh) {
      ASSERT_TRUE(it->second == p) << "two programs share a hash:\n" << p.ToString();
    }
    if (!copy.stages.empty()) {
      copy.stages.back().imm[0] += 1;
      ASSERT_FALSE(copy == p);
      ASSERT_NE(copy.Hash(), p.Hash());
    }
  }
}

Program Softmax() {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId e = b.Unary(StageOp::kExp, b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x)));
  b.Output(b.Binary(StageOp::kMul, e, b.Unary(StageOp::kReciprocal, b.Unary(StageOp::kRowSum, e))));
  return std::move(b).Build();
}

TEST(Program, RowValues) {
  const Program p = Softmax();
  ASSERT_TRUE(p.Validate().ok()) << p.Validate().message();
  EXPECT_TRUE(p.HasRowReduction());
  EXPECT_FALSE(p.IsF32Pointwise());
  EXPECT_EQ(p.ToString(),
            "mul(exp(sub(in0, row_max(in0))), reciprocal(row_sum(exp(sub(in0, row_max(in0))))))");
  // row_max 1 + sub 1 + exp 14 + row_sum 1 + mul 1; the reciprocal is once per row.
  EXPECT_EQ(p.CostPerElement(), 18);
}

TEST(Program, JoinOfARowValueStaysPerRow) {
  ProgramBuilder a;
  a.Output(a.Unary(StageOp::kRowSum, a.Input()));
  const Program sum = std::move(a).Build();
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kSqrt, b.Input()));
  const Program joined = *Join(sum, 0, std::move(b).Build(), 0);
  ASSERT_TRUE(joined.Validate().ok()) << joined.Validate().message();
  EXPECT_TRUE(joined.slots.back().per_row);
}

TEST(Program, TextOfImmediatesAndTypes) {
  ProgramBuilder b;
  const SlotId x = b.Input(ComputeType::kS32);
  const SlotId f = b.Convert(x, ComputeType::kF32);
  EXPECT_EQ(b.Convert(f, ComputeType::kF32), f);
  b.Output(b.Unary(StageOp::kClip, b.Binary(StageOp::kAdd, f, b.Const(0.5)), 0, 6));
  const Program p = std::move(b).Build();
  EXPECT_EQ(p.ToString(), "clip(add(convert(in0), 0.5); 0; 6)");
  EXPECT_FALSE(p.IsF32Pointwise());
  EXPECT_EQ(ComputeTypeOf(DType::kF16), ComputeType::kF32);
  EXPECT_EQ(ComputeTypeOf(DType::kBool), ComputeType::kS32);
  EXPECT_EQ(ComputeTypeOf(DType::kS64), ComputeType::kS64);
}

TEST(Program, ValidateNamesTheStage) {
  Program p = Softmax();
  p.stages[1].src[0] = 4;  // reads a slot that comes later
  EXPECT_EQ(p.Validate().message(), "stage 1 (sub) reads slot 4 before it is written");
  p = Softmax();
  p.stages[1].dst = 1;
  EXPECT_EQ(p.Validate().message(), "stage 1 (sub) writes slot 1 a second time");
  p = Softmax();
  p.slots[2].type = ComputeType::kF64;
  EXPECT_EQ(p.Validate().message(), "stage 1 (sub) mixes compute types");
  p = Softmax();
  p.slots[1].per_row = false;
  EXPECT_EQ(p.Validate().message(), "stage 0 (row_max): slot 1 is not per row");
  p = Softmax();
  p.outputs = {77};
  EXPECT_FALSE(p.Validate().ok());
}

TEST(Program, JoinRefusesTooManySlots) {
  ProgramBuilder b;
  SlotId x = b.Input();
  for (int i = 0; i < 200; ++i) x = b.Unary(StageOp::kNeg, x);
  b.Output(x);
  const Program p = std::move(b).Build();
  ASSERT_TRUE(p.Validate().ok());
  EXPECT_FALSE(Join(p, 0, p, 0).ok());
  EXPECT_FALSE(p.ToString().empty());
}

TEST(Program, StageTable) {
  EXPECT_STREQ(Info(StageOp::kGeluErf).name, "gelu_erf");
  EXPECT_EQ(Info(StageOp::kMulAdd).arity, 3);
  EXPECT_TRUE(IsRowReduction(StageOp::kRowProd));
  EXPECT_FALSE(IsRowReduction(StageOp::kSelect));
}

}  // namespace
}  // namespace opsnn
