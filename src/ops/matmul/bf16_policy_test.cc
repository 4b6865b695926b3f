// Products of bf16 under either policy.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/half.h"
#include "isa/bf16_dots.h"
#include "op/exact.h"
#include "op/operator.h"

namespace opsnn::ops {
namespace {

op::TensorDesc Matrix(int64_t rows, int64_t cols, DType t) {
  op::TensorDesc d;
  d.dtype = t;
  d.dims = {rows, cols};
  return d;
}

struct Product {
  std::string variant;
  BF16 first;
};
Product Multiply(bool exact, float a_value, float b_value) {
  constexpr int64_t kM = 20, kN = 40, kK = 6;
  const op::TensorDesc a = Matrix(kM, kK, DType::kBF16), b = Matrix(kK, kN, DType::kBF16),
                       c = Matrix(kM, kN, DType::kBF16);
  const op::TensorDesc* inputs[] = {&a, &b};
  op::Attrs attrs;
  op::PlanContext p;
  p.inputs = inputs;
  p.outputs = {&c, 1};
  p.attrs = &attrs;
  const op::ScopedExact policy(exact);
  const Result<op::KernelPtr> kernel = op::Plan(*op::FindOperator("MatMul"), p);
  EXPECT_TRUE(kernel.ok());
  std::vector<BF16> x(kM * kK, ToBF16(a_value)), y(kK * kN, ToBF16(b_value)), z(kM * kN);
  void* in[] = {x.data(), y.data()};
  void* out[] = {z.data()};
  std::vector<char> workspace((*kernel)->workspace_bytes());
  EXPECT_TRUE((*kernel)->Run({in, out, workspace.data()}).ok());
  return {(*kernel)->variant(), z[0]};
}

TEST(Bf16Policy, ExactWidensAndKeepsSubnormals) {
  const Product exact = Multiply(true, 0x1p-127f, 0x1p100f);
  EXPECT_EQ(exact.variant.find("bf16 pairs"), std::string::npos) << exact.variant;
  EXPECT_EQ(exact.first.bits, ToBF16(6 * 0x1p-27f).bits);
}

TEST(Bf16Policy, ExcessTakesThePairsThatPay) {
  const Product excess = Multiply(false, 0.5f, 3.0f);
  EXPECT_EQ(excess.variant.find("bf16 pairs") != std::string::npos, isa::Bf16DotsPay()) << excess.variant;
  EXPECT_EQ(excess.first.bits, ToBF16(9.0f).bits);
}

TEST(Bf16Policy, ScopesNest) {
  const bool knob = op::PlansExactly();
  {
    const op::ScopedExact outer(true);
    EXPECT_TRUE(op::PlansExactly());
    {
      const op::ScopedExact inner(false);
      EXPECT_FALSE(op::PlansExactly());
    }
    EXPECT_TRUE(op::PlansExactly());
  }
  EXPECT_EQ(op::PlansExactly(), knob);
}

}  // namespace
}  // namespace opsnn::ops
