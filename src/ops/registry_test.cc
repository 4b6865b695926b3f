#include <algorithm>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

std::string MessageOf(OpTester& call) {
  const Status s = call.Run();
  EXPECT_FALSE(s.ok());
  return s.message();
}

TEST(Registry, FindsEveryOperatorByName) {
  const auto all = AllOperators();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; }));
  for (const OpDef* def : all) {
    EXPECT_EQ(FindOperator(def->name), def);
    EXPECT_TRUE(def->infer) << def->name;
    EXPECT_TRUE(def->plan) << def->name;
  }
  EXPECT_EQ(FindOperator("NoSuchOperator"), nullptr);
  EXPECT_EQ(FindOperator(""), nullptr);
}

TEST(Check, MessagesNameOperatorArgumentGotAllowed) {
  testing::GuardedTensor f(DType::kF32, {2, 3}), b(DType::kBool, {2, 3}), s(DType::kF32, {2, 4});
  {
    OpTester call("Relu");
    EXPECT_EQ(MessageOf(call), "Relu: got 0 inputs; allowed: at least 1 (X is missing)");
  }
  {
    OpTester call("Relu");
    call.In(f).In(f);
    EXPECT_EQ(MessageOf(call), "Relu: got 2 inputs; allowed: at most 1");
  }
  {
    OpTester call("Sigmoid");
    call.In(b);
    EXPECT_EQ(MessageOf(call), "Sigmoid: input X has dtype bool; allowed: f32, f64, f16, bf16");
  }
  {
    OpTester call("Add");
    call.Absent().In(f);
    EXPECT_EQ(MessageOf(call), "Add: input A is null; it is required");
    EXPECT_EQ(call.status().code(), Code::kNull);
  }
  {
    OpTester call("LeakyRelu");
    call.In(f).Attr("slope", 0.1);
    EXPECT_EQ(MessageOf(call), "LeakyRelu: unknown attribute slope; allowed: alpha");
  }
  {
    OpTester call("LeakyRelu");
    call.In(f).Attr("alpha", std::string("x"));
    EXPECT_EQ(MessageOf(call), "LeakyRelu: attribute alpha has type string; allowed: float");
  }
  {
    OpTester call("Gelu");
    call.In(f).Attr("approximate", std::string("fast"));
    EXPECT_EQ(MessageOf(call), "Gelu: attribute approximate is \"fast\"; allowed: \"none\", \"tanh\"");
  }
  {
    OpTester call("Add");
    call.In(f).In(s);
    const std::string message = MessageOf(call);
    EXPECT_EQ(message.find("Add: "), 0u) << message;
    EXPECT_NE(message.find("[2,3]"), std::string::npos) << message;
    EXPECT_NE(message.find("[2,4]"), std::string::npos) << message;
  }
  {
    OpTester call("Max");
    call.In(f).In(b);
    EXPECT_EQ(MessageOf(call).find("Max: input data_0[1] has dtype bool; allowed: "), 0u)
        << call.status().message();
  }
}

TEST(Promotion, CategoryThenWidth) {
  using enum DType;
  EXPECT_EQ(PromoteTypes(kF16, kBF16), kF32);
  EXPECT_EQ(PromoteTypes(kS64, kF16), kF16);
  EXPECT_EQ(PromoteTypes(kBool, kU8), kU8);
  EXPECT_EQ(PromoteTypes(kU8, kS8), kS16);
  EXPECT_EQ(PromoteTypes(kS16, kU8), kS16);
  EXPECT_EQ(PromoteTypes(kF64, kF32), kF64);
  for (int i = 0; i < kNumDTypes; ++i) {
    for (int j = 0; j < kNumDTypes; ++j) {
      EXPECT_EQ(PromoteTypes(static_cast<DType>(i), static_cast<DType>(j)),
                PromoteTypes(static_cast<DType>(j), static_cast<DType>(i)));
    }
  }
}

TEST(Promotion, MixedOperandsComputeInTheCommonType) {
  testing::GuardedTensor a(DType::kS32, {3}), b(DType::kF16, {3}), c(DType::kF32, {3});
  a.Set({1, 2, 3}), b.Set({0.5, 0.25, -0.5}), c.Set({0x1p-20, 0, 0});
  OpTester ab("Add"), bc("Add");
  ab.In(a).In(b), bc.In(b).In(c);
  ASSERT_TRUE(ab.Run().ok());
  EXPECT_EQ(ab.OutDesc().dtype, DType::kF16);
  EXPECT_EQ(ab.Out().Get(), (std::vector<double>{1.5, 2.25, 2.5}));
  ASSERT_TRUE(bc.Run().ok());
  EXPECT_EQ(bc.OutDesc().dtype, DType::kF32);
  EXPECT_EQ(bc.Out().Get(), (std::vector<double>{0.5 + 0x1p-20, 0.25, -0.5}));
}

TEST(Pointwise, Integers64AreExact) {
  const auto big = HostTensor::From<int64_t>({2}, {(int64_t{1} << 62) + 1, -(int64_t{1} << 53) - 1});
  const auto one = HostTensor::From<int64_t>({}, {1});
  OpTester call("Add");
  call.In(big).In(one);
  ASSERT_TRUE(call.Run().ok());
  const int64_t* y = call.Out().view().as<int64_t>();
  EXPECT_EQ(y[0], (int64_t{1} << 62) + 2);
  EXPECT_EQ(y[1], -(int64_t{1} << 53));
}

TEST(Pointwise, BlockedOperandsRunOnStoredDims) {
  testing::Rng rng;
  const Dims logical = {2, 20, 3, 5};
  const Layout blocked = {Format::kNC1HWC0, 16};
  testing::GuardedTensor x(DType::kF32, StoredDims(logical, blocked)),
      y(DType::kF32, StoredDims({1, 20, 1, 1}, blocked));
  testing::GuardedTensor two(DType::kF32, {1, 1, 1});
  x.FillRandom(rng), y.FillRandom(rng), two.Set({2});
  OpTester call("Max");
  call.In(x, logical, blocked).In(two).In(y, {1, 20, 1, 1}, blocked);
  ASSERT_TRUE(call.Run().ok()) << call.status().message();
  EXPECT_EQ(call.OutDesc().layout, blocked);
  EXPECT_EQ(call.OutDesc().dims, logical);
  const auto got = call.Out().Get(), xs = x.Get(), ys = y.Get();
  for (int64_t n = 0, i = 0; n < 2; ++n) {
    for (int64_t c1 = 0; c1 < 2; ++c1) {
      for (int64_t hw = 0; hw < 15; ++hw) {
        for (int64_t c0 = 0; c0 < 16; ++c0, ++i) {
          ASSERT_EQ(got[static_cast<size_t>(i)],
                    std::max({xs[static_cast<size_t>(i)], 2.0, ys[static_cast<size_t>(c1 * 16 + c0)]}));
        }
      }
    }
  }
  // One channel against many: only lane 0 of its block is real.
  testing::GuardedTensor gate(DType::kF32, StoredDims({2, 1, 3, 5}, blocked));
  gate.FillRandom(rng);
  OpTester gated("Mul");
  gated.In(x, logical, blocked).In(gate, {2, 1, 3, 5}, blocked);
  ASSERT_TRUE(gated.Run().ok()) << gated.status().message();
  const auto product = gated.Out().Get(), gates = gate.Get();
  for (size_t i = 0; i < product.size(); ++i) {
    const size_t n = i / (2 * 15 * 16), hw = i / 16 % 15;
    ASSERT_EQ(product[i], RoundTo(DType::kF32, xs[i] * gates[(n * 15 + hw) * 16]));
  }
  OpTester mixed("Add");
  testing::GuardedTensor plain(DType::kF32, logical);
  mixed.In(x, logical, blocked).In(plain);
  EXPECT_EQ(mixed.Run().code(), Code::kInternal);
}

TEST(Infer, UnknownDimsBroadcast) {
  const OpDef* add = FindOperator("Add");
  TensorDesc a, b;
  a.dims = {kUnknownDim, 1, 3}, b.dims = {4, 3};
  const TensorDesc* in[] = {&a, &b};
  InferContext c;
  c.inputs = in;
  ASSERT_TRUE(Infer(*add, c).ok());
  EXPECT_EQ(c.outputs[0].dims, (Dims{kUnknownDim, 4, 3}));
  b.known_rank = false;
  ASSERT_TRUE(Infer(*add, c).ok());
  EXPECT_FALSE(c.outputs[0].known_rank);
}

TEST(BindProgram, ImmediatesTakeNoOperand) {
  const auto lo = HostTensor::From<float>({}, {-1}), hi = HostTensor::From<float>({}, {2});
  TensorDesc x, min, max;
  x.dims = {4};
  min.constant = lo, max.constant = hi;
  const DType types[] = {DType::kF32, DType::kF32, DType::kF32};
  const TensorDesc* all[] = {&x, &min, &max};
  const TensorDesc* no_min[] = {&x, nullptr, &max};
  auto bound = BindProgram(*FindOperator("Clip"), {types, nullptr, all});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->operands, std::vector<int>{0});
  EXPECT_EQ(bound->program.num_inputs, 1);
  EXPECT_TRUE(bound->program.Validate().ok());
  max.constant = nullptr;
  bound = BindProgram(*FindOperator("Clip"), {types, nullptr, no_min});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->operands, (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace opsnn::op
