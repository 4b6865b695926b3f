#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

TensorDesc Desc(const testing::GuardedTensor& t) {
  TensorDesc d;
  d.dtype = t.view().dtype;
  d.dims = t.view().dims;
  d.strides = t.view().strides;
  return d;
}

Status RunProgram(const FusedTail& tail, std::vector<const testing::GuardedTensor*> in,
                  std::vector<const testing::GuardedTensor*> out, int64_t row_rank, size_t own_inputs) {
  std::vector<TensorDesc> descs, outputs;
  std::vector<const TensorDesc*> pointers;
  std::vector<void*> in_data, out_data;
  for (const auto* t : in) descs.push_back(Desc(*t)), in_data.push_back(t->view().data);
  for (const auto& d : descs) pointers.push_back(&d);
  for (const auto* t : out) outputs.push_back(Desc(*t)), out_data.push_back(t->view().data);
  const Attrs attrs = MakeAttrs({{"row_rank", row_rank}});
  PlanContext c;
  c.inputs = InputDescs(pointers).first(own_inputs);
  c.tail_inputs = InputDescs(pointers).subspan(own_inputs);
  c.outputs = outputs;
  c.attrs = &attrs;
  c.tail = &tail;
  auto kernel = Plan(*FindOperator("Program"), c);
  if (!kernel.ok()) return kernel.status();
  return (*kernel)->Run({in_data.data(), out_data.data(), nullptr});
}

TEST(Program, PointwiseChainWithTwoResults) {
  testing::Rng rng;
  testing::GuardedTensor x(DType::kF32, {3, 5, 7}, &rng, true), bias(DType::kF16, {7}),
      sum(DType::kF32, {3, 5, 7});
  testing::GuardedTensor relu(DType::kBF16, {3, 5, 7}, &rng, true);
  x.FillRandom(rng), bias.FillRandom(rng);
  ProgramBuilder b;
  const SlotId in = b.Input(), addend = b.Input();
  const SlotId s = b.Binary(StageOp::kAdd, in, addend);
  const SlotId r = b.Unary(StageOp::kRelu, s);
  b.Output(s), b.Output(r);
  // The graph may count the operands as the operator's own or as the tail's.
  for (size_t own : {1, 2}) {
    const Status status = RunProgram({ProgramBuilder(b).Build()}, {&x, &bias}, {&sum, &relu}, 0, own);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto xs = x.Get(), bs = bias.Get(), sums = sum.Get(), relus = relu.Get();
    for (size_t i = 0; i < xs.size(); ++i) {
      const double want = RoundTo(DType::kF32, xs[i] + bs[i % 7]);
      EXPECT_EQ(sums[i], want);
      EXPECT_EQ(relus[i], RoundTo(DType::kBF16, std::max(want, 0.0)));
    }
  }
  EXPECT_TRUE(relu.GuardsIntact() && sum.GuardsIntact());
}

TEST(Program, RowsWithStatistics) {
  testing::Rng rng;
  testing::GuardedTensor x(DType::kF32, {4, 3, 10}), max(DType::kF32, {4, 1, 1}),
      centred(DType::kF32, {4, 3, 10});
  x.FillRandom(rng);
  ProgramBuilder b;
  const SlotId in = b.Input();
  const SlotId m = b.Unary(StageOp::kRowMax, in);
  b.Output(b.Binary(StageOp::kSub, in, m)), b.Output(m);
  const Status status = RunProgram({std::move(b).Build()}, {&x}, {&centred, &max}, 2, 1);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto xs = x.Get(), ms = max.Get(), cs = centred.Get();
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(ms[row], *std::max_element(xs.begin() + row * 30, xs.begin() + (row + 1) * 30));
    for (size_t i = row * 30; i < (row + 1) * 30; ++i)
      EXPECT_EQ(cs[i], RoundTo(DType::kF32, xs[i] - ms[row]));
  }
}

TEST(Program, NeedsAProgramAndMatchingOperands) {
  testing::GuardedTensor x(DType::kF32, {4});
  ProgramBuilder b;
  const SlotId in = b.Input(), other = b.Input();
  b.Output(b.Binary(StageOp::kAdd, in, other));
  const Status status = RunProgram({std::move(b).Build()}, {&x}, {&x}, 0, 1);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("bound to 1 inputs"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace opsnn::op
