#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "op/image_tester.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;
const Layout kBlocked{Format::kNC1HWC0, 16};

// Packs for one owner, which keeps the constants alive as a graph does.
class TestPacks : public PackCache {
 public:
  std::shared_ptr<const void> GetOrMake(const ConstTensor& constant, const std::string& key,
                                        FunctionRef<std::shared_ptr<const void>()> make) override {
    auto& slot = packs_[{constant, key}];
    if (!slot) slot = make();
    return slot;
  }
  size_t size() const { return packs_.size(); }

 private:
  std::map<std::pair<ConstTensor, std::string>, std::shared_ptr<const void>> packs_;
};

struct ConvCase {
  bool transposed = false;
  Dims x, w;
  Attrs attrs;
  bool bias = true, constant_weights = false;
  Layout x_layout, y_layout;
  DType dtype = DType::kF32;
};

ConvCase RandomCase(Rng& rng) {
  ConvCase k;
  const int spatial = rng.Chance(0.2) ? 1 : rng.Chance(0.3) ? 3 : 2;
  k.transposed = rng.Chance(0.3);
  const int64_t groups = rng.Chance(0.7) ? 1 : rng.Int(1, 4);
  const int64_t cg = rng.Int(1, 20), og = rng.Int(1, 20);
  k.x = Dims{rng.Int(1, 2), cg * groups};
  k.w = k.transposed ? Dims{cg * groups, og} : Dims{og * groups, cg};
  std::vector<int64_t> pads(static_cast<size_t>(2 * spatial)), strides, dilations;
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = rng.Int(1, 4), dilation = rng.Chance(0.7) ? 1 : 2,
                  extent = (kernel - 1) * dilation + 1;
    k.x.push_back(rng.Int(extent, spatial == 3 ? 9 : 14));
    k.w.push_back(kernel);
    strides.push_back(rng.Int(1, 3));
    dilations.push_back(dilation);
    // A transposed convolution needs something left: at most (extent - 1) / 2 on each side.
    const int64_t most = k.transposed ? (extent - 1) / 2 : extent - 1;
    pads[static_cast<size_t>(i)] = rng.Int(0, most);
    pads[static_cast<size_t>(i + spatial)] = rng.Int(0, most);
  }
  k.attrs = MakeAttrs({{"strides", strides}, {"dilations", dilations}, {"group", groups}});
  if (rng.Chance(0.8) || k.transposed) {
    k.attrs.Set("pads", pads);
  } else {
    k.attrs.Set("auto_pad", std::string(rng.Chance(0.5) ? "SAME_UPPER" : "SAME_LOWER"));
  }
  if (!k.transposed && rng.Chance(0.15)) k.attrs.Set("im2col", int64_t{1});
  k.bias = rng.Chance(0.6);
  k.constant_weights = rng.Chance(0.5);
  if (rng.Chance(0.25)) k.dtype = rng.Chance(0.5) ? DType::kF16 : DType::kBF16;
  if (spatial == 2 && k.dtype == DType::kF32 && rng.Chance(0.6)) k.x_layout = kBlocked;
  if (spatial == 2 && rng.Chance(0.6)) k.y_layout = kBlocked;
  return k;
}

ConstTensor ToConstant(const GuardedTensor& t) {
  std::vector<float> v;
  for (double d : t.Get()) v.push_back(static_cast<float>(d));
  if (t.view().dtype == DType::kF32) return HostTensor::From(t.view().dims, v);
  auto half = std::make_shared<HostTensor>(t.view().dtype, t.view().dims);
  std::memcpy(half->data(), t.view().data, t.view().bytes());
  return half;
}

// The bound of a convolution with `r` as its reference.
std::vector<double> Bounds(const Reference& r, DType stored = DType::kF32) {
  std::vector<double> b;
  for (size_t i = 0; i < r.abs_sum.size(); ++i) {
    b.push_back(testing::ContractionTolerance(r.abs_sum[i], r.outputs[0].v[i], r.reduction_length + 1,
                                              DType::kF32, stored));
  }
  return b;
}

TEST(Conv, RandomCalls) {
  Rng rng;
  TestPacks packs;
  for (auto _ : testing::FuzzFor(1000)) {
    const ConvCase k = RandomCase(rng);
    TestImage x(rng, k.dtype, k.x, k.x_layout);
    GuardedTensor w(k.dtype, k.w), b(k.dtype, {k.transposed ? k.w[1] * k.attrs.Int("group", 1) : k.w[0]});
    w.FillRandom(rng), b.FillRandom(rng);
    OpTester t(k.transposed ? "ConvTranspose" : "Conv");
    for (const auto& [name, v] : k.attrs.all()) t.Attr(name, v);
    t.In(x.stored, k.x, k.x_layout);
    if (k.constant_weights) {
      t.In(ToConstant(w)).Packs(&packs);
    } else {
      t.In(w);
    }
    std::vector<ref::Tensor> in = {ToRef(x.logical), ToRef(w)};
    if (k.bias) t.In(b), in.push_back(ToRef(b));
    if (k.y_layout == Layout{} && k.dtype == DType::kF32 && rng.Chance(0.5)) {
      t.StridedOutputs(rng);
    } else {
      t.OutLayout(0, k.y_layout);
    }
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Reference r = Evaluate(k.transposed ? "ConvTranspose" : "Conv", k.attrs, in, k.dtype);
    ASSERT_EQ(t.OutDesc().dims, r.outputs[0].dims);
    ASSERT_EQ("", testing::Compare(FromStored(t.OutDesc().dims, t.OutDesc().layout, t.Out().Get()),
                                   r.outputs[0].v, Bounds(r, k.dtype)))
        << t.variant() << " " << Name(k.dtype) << " " << ToString(k.x) << " " << ToString(k.w);
  }
  EXPECT_GT(packs.size(), 0u);
}

// relu(conv + residual) * per-channel factor, per image: one call against the stages one by one.
TEST(Conv, FusedTail) {
  Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    const Dims x_dims{2, rng.Int(1, 40), rng.Int(1, 12), rng.Int(1, 12)},
        w_dims{rng.Int(1, 40), x_dims[1], 3, 3};
    const Dims y_dims{2, w_dims[0], x_dims[2], x_dims[3]};
    const Layout y_layout = rng.Chance(0.6) ? kBlocked : Layout{},
                 r_layout = rng.Chance(0.6) ? kBlocked : Layout{};
    TestImage x(rng, DType::kF32, x_dims, kBlocked), residual(rng, DType::kF32, y_dims, r_layout);
    const Dims factors[] = {{2, y_dims[1], 1, 1},         {y_dims[1], 1, 1}, {1},
                            {1, 1, y_dims[2], y_dims[3]}, {y_dims[3]},       {2, y_dims[1], y_dims[2], 1}};
    GuardedTensor w(DType::kF32, w_dims), factor(DType::kF32, factors[rng.Int(0, 5)]);
    w.FillRandom(rng), factor.FillRandom(rng);
    const bool residual_first = rng.Chance(0.5);
    ProgramBuilder b;
    const SlotId block = b.Input(), second = b.Input(), third = b.Input();
    if (residual_first) {
      b.Output(
          b.Binary(StageOp::kMul, b.Unary(StageOp::kRelu, b.Binary(StageOp::kAdd, second, block)), third));
    } else {
      b.Output(
          b.Unary(StageOp::kRelu, b.Binary(StageOp::kAdd, b.Binary(StageOp::kMul, block, third), second)));
    }
    OpTester t("Conv");
    t.Attr("pads", std::vector<int64_t>{1, 1, 1, 1}).In(x.stored, x_dims, kBlocked).In(w);
    t.Tail({std::move(b).Build()}).In(residual.stored, y_dims, r_layout).In(factor).OutLayout(0, y_layout);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();

    const Attrs attrs = MakeAttrs({{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    Reference r = Evaluate("Conv", attrs, {ToRef(x.logical), ToRef(w)}, DType::kF32);
    std::vector<double> bounds = Bounds(r), want = r.outputs[0].v;
    const std::vector<double> add = residual.logical.Get(),
                              mul = Evaluate("Mul", {},
                                             {ToRef(factor), ref::Tensor::Make(DType::kF32, y_dims, 1)},
                                             DType::kF32)
                                        .outputs[0]
                                        .v;
    for (size_t i = 0; i < want.size(); ++i) {
      const double eps = testing::Epsilon(DType::kF32), magnitude = std::fabs(want[i]) + std::fabs(add[i]);
      want[i] = residual_first ? std::max(want[i] + add[i], 0.0) * mul[i]
                               : std::max(want[i] * mul[i] + add[i], 0.0);
      bounds[i] =
          bounds[i] * std::max(1.0, std::fabs(mul[i])) + 4 * eps * magnitude * (1 + std::fabs(mul[i]));
    }
    ASSERT_EQ("", testing::Compare(FromStored(y_dims, y_layout, t.Out().Get()), want, bounds))
        << t.variant() << " factor " << ToString(factor.view().dims);
  }
}

// Columns step aside for weights that are not finite: what follows then works on the other form's result.
TEST(Conv, TailOfColumnsWithInfiniteWeights) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const Dims x_dims{rng.Int(1, 2), rng.Int(1, 40), rng.Int(3, 9), rng.Int(3, 20)},
        w_dims{rng.Int(1, 40), x_dims[1], 3, 3}, y_dims{x_dims[0], w_dims[0], x_dims[2], x_dims[3]};
    TestImage x(rng, DType::kF32, x_dims, Layout{});
    GuardedTensor w(DType::kF32, w_dims), factor(DType::kF32, {y_dims[1], 1, 1});
    w.FillRandom(rng), factor.FillRandom(rng);
    if (rng.Chance(0.8)) static_cast<float*>(w.view().data)[rng.Int(0, NumElements(w_dims) - 1)] = INFINITY;
    std::vector<double> y[2];
    for (const int64_t im2col : {0, 1}) {
      ProgramBuilder b;
      const SlotId block = b.Input(), scale = b.Input();
      b.Output(b.Binary(StageOp::kMul, b.Unary(StageOp::kRelu, block), scale));
      OpTester t("Conv");
      t.Attr("pads", std::vector<int64_t>{1, 1, 1, 1}).Attr("im2col", im2col).In(x.stored, x_dims, Layout{});
      t.In(w).Tail({std::move(b).Build()}).In(factor);
      ASSERT_TRUE(t.Run().ok()) << t.status().message();
      y[im2col] = t.Out().Get();
    }
    for (size_t i = 0; i < y[0].size(); ++i) {
      const double a = y[0][i], c = y[1][i];
      ASSERT_TRUE(a == c || (std::isnan(a) && std::isnan(c)) || std::fabs(a - c) < 1e-4 * (1 + std::fabs(a)))
          << a << " and by columns " << c << " at " << i << " of " << ToString(y_dims);
    }
  }
}

// hard_swish(conv) * constant + constant needs no pass over the stored result.
TEST(Conv, ConstantAffineTail) {
  Rng rng;
  const Dims x_dims{1, 20, 9, 9}, w_dims{24, 20, 3, 3};
  TestImage x(rng, DType::kF32, x_dims, kBlocked);
  GuardedTensor w(DType::kF32, w_dims);
  w.FillRandom(rng);
  for (const bool shift_only : {false, true}) {
    ProgramBuilder b;
    SlotId v = b.Unary(StageOp::kHardSwish, b.Input(), 1.0 / 6, 0.5);
    if (!shift_only) v = b.Binary(StageOp::kMul, b.Const(0.75), v);
    b.Output(b.Binary(StageOp::kAdd, v, b.Const(-0.25)));
    OpTester t("Conv");
    t.In(x.stored, x_dims, kBlocked).In(w).Tail({std::move(b).Build()}).OutLayout(0, kBlocked);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_NE(t.variant().find("+affine"), std::string::npos) << t.variant();
    EXPECT_EQ(t.variant().find("+program"), std::string::npos) << t.variant();
    Reference r = Evaluate("Conv", {}, {ToRef(x.logical), ToRef(w)}, DType::kF32);
    std::vector<double> bounds = Bounds(r), want = r.outputs[0].v;
    for (size_t i = 0; i < want.size(); ++i) {
      const double y = want[i], hard_swish = y * std::clamp(y / 6 + 0.5, 0.0, 1.0);
      want[i] = hard_swish * (shift_only ? 1.0 : 0.75) - 0.25;
      bounds[i] = 1.5 * bounds[i] + 8 * testing::Epsilon(DType::kF32) * (std::fabs(hard_swish) + 1);
    }
    ASSERT_EQ("", testing::Compare(FromStored(t.OutDesc().dims, kBlocked, t.Out().Get()), want, bounds));
  }
}

// An output_shape beyond all products adds positions behind them, which hold the bias alone.
TEST(ConvTranspose, OutputShapeLargerThanTheProducts) {
  for (const char* pad : {"NOTSET", "SAME_UPPER", "SAME_LOWER"}) {
    GuardedTensor x(DType::kF32, {1, 1, 1, 2}), w(DType::kF32, {1, 1, 1, 2}), b(DType::kF32, {1});
    x.Set({1, 2}), w.Set({1, 10}), b.Set({0.5});
    const Attrs attrs = MakeAttrs({{"output_shape", std::vector<int64_t>{2, 6}},
                                   {"strides", std::vector<int64_t>{1, 2}},
                                   {"auto_pad", std::string(pad)}});
    OpTester t("ConvTranspose");
    for (const auto& [name, v] : attrs.all()) t.Attr(name, v);
    ASSERT_TRUE(t.In(x).In(w).In(b).Run().ok()) << t.status().message();
    const std::vector<double> want = {1.5, 10.5, 2.5, 20.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    EXPECT_EQ(t.Out().Get(), want) << pad;
    const Reference r = Evaluate("ConvTranspose", attrs, {ToRef(x), ToRef(w), ToRef(b)}, DType::kF32);
    EXPECT_EQ(r.outputs[0].v, want) << pad;
  }
}

TEST(Conv, UnknownDimsPropagate) {
  TensorDesc x, w;
  x.dims = Dims{kUnknownDim, 3, kUnknownDim, 32};
  w.dims = Dims{8, 3, 3, 3};
  const TensorDesc* in[] = {&x, &w};
  const Attrs attrs =
      MakeAttrs({{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  InferContext c;
  c.inputs = in;
  c.attrs = &attrs;
  ASSERT_TRUE(Infer(*FindOperator("Conv"), c).ok());
  EXPECT_EQ(c.outputs[0].dims, (Dims{kUnknownDim, 8, kUnknownDim, 16}));
}

struct Refusal {
  const char* op;
  Dims x, w;
  Attrs attrs;
  Code code;
  const char* says;
};

TEST(Conv, RefusesWithReason) {
  using Ints = std::vector<int64_t>;
  const Refusal rows[] = {
      {"Conv", {1, 3, 4, 4}, {8, 4, 3, 3}, {}, Code::kInvalid, "made for 4 channels"},
      {"Conv", {1, 3, 2, 2}, {8, 3, 3, 3}, {}, Code::kInvalid, "not larger than the padded input"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 1, 3, 3},
       MakeAttrs({{"group", int64_t{2}}}),
       Code::kInvalid,
       "does not divide"},
      {"Conv",
       {1, 4, 4, 4},
       {7, 2, 3, 3},
       MakeAttrs({{"group", int64_t{2}}}),
       Code::kInvalid,
       "does not divide"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"strides", Ints{0, 1}}}),
       Code::kInvalid,
       "strides[0] is 0"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"strides", Ints{1}}}),
       Code::kInvalid,
       "strides has 1 values"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"dilations", Ints{1, -2}}}),
       Code::kInvalid,
       "dilations[1] is -2"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"pads", Ints{1, 1}}}),
       Code::kInvalid,
       "pads has 2 values"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"auto_pad", std::string("SAME_UPPER")}, {"pads", Ints{2, 0, 0, 1}}}),
       Code::kInvalid,
       "pads asks for 2 and 0"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"auto_pad", std::string("VALID")}, {"pads", Ints{0, 1, 0, 0}}}),
       Code::kInvalid,
       "beside auto_pad"},
      {"Conv",
       {1, 3, 4, 4},
       {8, 3, 3, 3},
       MakeAttrs({{"kernel_shape", Ints{3, 2}}}),
       Code::kInvalid,
       "kernel_shape[1] is 2"},
      {"ConvTranspose",
       {1, 0, 4, 4},
       {0, 2, 3, 3},
       MakeAttrs({{"group", int64_t{1} << 62}}),
       Code::kInvalid,
       "group"},
      {"Conv", {1, 3, 2, 4, 4}, {8, 3, 3, 3, 3}, {}, Code::kInvalid, "of spatial dimension 0"},
      {"Conv", {1, 3, 4, 4, 4, 4}, {8, 3, 3, 3, 3, 3}, {}, Code::kInvalid, "rank 3"},
      {"Conv", {3, 4}, {8, 3}, {}, Code::kInvalid, "rank 3"},
      {"Conv", {1, 3, 4, 4}, {8, 3, 3}, {}, Code::kInvalid, "that of X"},
      {"ConvTranspose", {1, 3, 4, 4}, {4, 8, 3, 3}, {}, Code::kInvalid, "made for 4 channels"},
      {"ConvTranspose",
       {1, 3, 4, 4},
       {3, 8, 3, 3},
       MakeAttrs({{"output_padding", Ints{1, 1}}}),
       Code::kInvalid,
       "output_padding[0] is 1"},
      {"ConvTranspose",
       {1, 3, 1, 1},
       {3, 8, 3, 3},
       MakeAttrs({{"pads", Ints{2, 2, 2, 2}}}),
       Code::kInvalid,
       "leave nothing"},
  };
  for (const Refusal& r : rows) {
    GuardedTensor x(DType::kF32, r.x), w(DType::kF32, r.w);
    OpTester t(r.op);
    t.In(x).In(w);
    for (const auto& [name, v] : r.attrs.all()) t.Attr(name, v);
    EXPECT_EQ(t.Run().code(), r.code) << r.says;
    EXPECT_NE(t.status().message().find(r.says), std::string::npos) << t.status().message();
    EXPECT_EQ(t.status().message().rfind(r.op, 0), 0u) << t.status().message();
  }
}

}  // namespace
}  // namespace opsnn::op
