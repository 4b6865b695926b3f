#include <gtest/gtest.h>

#include <cmath>

#include "vector/compiled.h"
#include "vector/run.h"

namespace opsnn::vector {
namespace {

using enum StageOp;

EpilogueSplit Split(const Program& p) {
  bool columns[8] = {};
  for (int i = 1; i < p.num_inputs; ++i) columns[i] = i == 1;  // input 1 varies along the columns
  return SplitEpilogue(p, std::span<const bool>(columns, p.num_inputs));
}

TEST(SplitEpilogue, BiasAndActivations) {
  for (StageOp op :
       {kRelu, kClip, kHardSwish, kHardSigmoid, kSilu, kSigmoid, kGeluErf, kGeluTanh, kTanh, kLeakyRelu}) {
    ProgramBuilder b;
    const SlotId x = b.Input(), bias = b.Input();
    b.Output(b.Unary(op, b.Binary(kAdd, bias, x), 0.25, 0.5));
    const EpilogueSplit s = Split(std::move(b).Build());
    EXPECT_EQ(s.bias_input, 1);
    EXPECT_NE(s.act, RegAct::kNone) << Info(op).name;
    EXPECT_EQ(s.act_imm[0], 0.25f);
    EXPECT_FALSE(s.rest);
  }
}

TEST(SplitEpilogue, RestKeepsWhatIsLeft) {
  ProgramBuilder b;
  const SlotId x = b.Input(), bias = b.Input(), residual = b.Input();
  const SlotId r = b.Unary(kRelu, b.Binary(kAdd, x, bias));
  b.Output(b.Binary(kAdd, r, residual));
  const EpilogueSplit s = Split(std::move(b).Build());
  EXPECT_EQ(s.bias_input, 1);
  EXPECT_EQ(s.act, RegAct::kRelu);
  ASSERT_TRUE(s.rest);
  EXPECT_EQ(s.rest_program.ToString(), "add(in0, in1)");
  EXPECT_EQ(s.rest_inputs, std::vector<int>{2});
  EXPECT_TRUE(s.rest_program.Validate().ok());
}

TEST(SplitEpilogue, ValuesReadTwiceStay) {
  ProgramBuilder b;
  const SlotId x = b.Input(), bias = b.Input();
  const SlotId t = b.Binary(kAdd, x, bias);
  b.Output(b.Unary(kRelu, t)), b.Output(t);
  const EpilogueSplit s = Split(std::move(b).Build());
  EXPECT_EQ(s.bias_input, 1);
  EXPECT_EQ(s.act, RegAct::kNone);
  EXPECT_TRUE(s.rest);
  EXPECT_EQ(s.rest_program.outputs.size(), 2u);
}

// The decomposed forms that exporters emit.
TEST(SplitEpilogue, DecomposedActivations) {
  auto expect = [](Program p, RegAct act, const char* what) {
    const EpilogueSplit s = Split(p);
    EXPECT_EQ(s.act, act) << what << ": " << Canonicalize(p).ToString();
    EXPECT_FALSE(s.rest) << what;
    if (act == RegAct::kHardSwish) {
      EXPECT_NEAR(s.act_imm[0], 1.0 / 6, 1e-7) << what;
      EXPECT_NEAR(s.act_imm[1], 0.5, 1e-7) << what;
    }
  };
  {
    ProgramBuilder b;  // x * clip(x / 6 + 0.5, 0, 1)
    const SlotId x = b.Input();
    const SlotId line = b.Binary(kAdd, b.Binary(kDiv, x, b.Const(6)), b.Const(0.5));
    b.Output(b.Binary(kMul, x, b.Unary(kClip, line, 0, 1)));
    expect(std::move(b).Build(), RegAct::kHardSwish, "clip of a line");
  }
  {
    ProgramBuilder b;  // x * hard_sigmoid(x)
    const SlotId x = b.Input();
    b.Output(b.Binary(kMul, x, b.Unary(kHardSigmoid, x, 1.0 / 6, 0.5)));
    expect(std::move(b).Build(), RegAct::kHardSwish, "hard sigmoid");
  }
  {
    ProgramBuilder b;  // x * clip(x + 3, 0, 6) / 6
    const SlotId x = b.Input();
    const SlotId gate = b.Unary(kClip, b.Binary(kAdd, x, b.Const(3)), 0, 6);
    b.Output(b.Binary(kDiv, b.Binary(kMul, x, gate), b.Const(6)));
    expect(std::move(b).Build(), RegAct::kHardSwish, "divided product");
  }
  {
    ProgramBuilder b;  // x * (min(max(x + 3, 0), 6) / 6)
    const SlotId x = b.Input();
    const SlotId gate = b.Binary(kMin, b.Binary(kMax, b.Binary(kAdd, b.Const(3), x), b.Const(0)), b.Const(6));
    b.Output(b.Binary(kMul, b.Binary(kDiv, gate, b.Const(6)), x));
    expect(std::move(b).Build(), RegAct::kHardSwish, "divided gate, min and max");
  }
  {
    ProgramBuilder b;  // affine stages
    const SlotId x = b.Input();
    const SlotId gate = b.Unary(kClip, b.Unary(kAffine, x, 1, 3), 0, 6);
    b.Output(b.Unary(kAffine, b.Binary(kMul, gate, x), 1.0f / 6, 0));
    expect(std::move(b).Build(), RegAct::kHardSwish, "affine");
  }
  {
    ProgramBuilder b;
    const SlotId x = b.Input();
    b.Output(b.Binary(kMul, b.Unary(kSigmoid, x), x));
    expect(std::move(b).Build(), RegAct::kSilu, "silu");
  }
  {
    ProgramBuilder b;  // (x * (erf(x / 1.4142) + 1)) * 0.5
    const SlotId x = b.Input();
    const SlotId e = b.Unary(kErf, b.Binary(kDiv, x, b.Const(1.41421354f)));
    b.Output(b.Binary(kMul, b.Binary(kMul, x, b.Binary(kAdd, e, b.Const(1))), b.Const(0.5)));
    expect(std::move(b).Build(), RegAct::kGeluErf, "gelu");
  }
  {
    ProgramBuilder b;  // (0.5 * x) * (1 + erf(0.7071 * x))
    const SlotId x = b.Input();
    const SlotId e = b.Unary(kErf, b.Binary(kMul, x, b.Const(0.70710677f)));
    b.Output(b.Binary(kMul, b.Binary(kMul, b.Const(0.5), x), b.Binary(kAdd, b.Const(1), e)));
    expect(std::move(b).Build(), RegAct::kGeluErf, "gelu, halved first");
  }
  {
    ProgramBuilder b;  // keeps the rounding of every stage
    const SlotId x = b.Input();
    const SlotId gate = b.Unary(kClip, b.Binary(kAdd, x, b.Const(3)), 0, 6);
    b.Output(b.Binary(kDiv, b.Binary(kMul, x, gate), b.Const(6)));
    Program p = std::move(b).Build();
    p.exact = true;
    EXPECT_EQ(Split(p).act, RegAct::kNone);
    EXPECT_EQ(Canonicalize(p), p);
  }
  {
    ProgramBuilder b;  // not a hard swish: the gate belongs to another value
    const SlotId x = b.Input(), other = b.Input();
    b.Output(b.Binary(kMul, x, b.Unary(kHardSigmoid, other, 1.0 / 6, 0.5)));
    EXPECT_EQ(Split(std::move(b).Build()).act, RegAct::kNone);
  }
}

}  // namespace
}  // namespace opsnn::vector
