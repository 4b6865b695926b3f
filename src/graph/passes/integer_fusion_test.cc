// Integer products with the chain that quantised models have behind them: cast, scales, bias, activation,
// quantisation.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "device/profile.h"
#include "graph/graph_tester.h"
#include "plan/judge.h"

namespace opsnn::graph {
namespace {

constexpr int64_t kFloat = 1, kHalf = 10;  // ONNX numbers of types

SessionOptions Options(FusionMode fusion, NumericsPolicy policy) {
  SessionOptions o = Mode(fusion);
  o.policy = policy;
  return o;
}

// The three forms under both policies, and one thread: all the same bits. `ops`: what must be gone when
// fused.
Outcome ExpectSameBits(GraphMaker& m, const std::vector<std::string>& ops, const std::string& what) {
  Outcome fused;
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    const Outcome apart = RunGraph(m, Options(FusionMode::kOff, policy));
    fused = RunGraph(m, Options(FusionMode::kForce, policy));
    const Outcome judged = RunGraph(m, Options(FusionMode::kAuto, policy));
    EXPECT_EQ(fused.outputs, apart.outputs) << what;
    EXPECT_EQ(judged.outputs, apart.outputs) << what;
    for (const std::string& op : ops) EXPECT_EQ(fused.Count(op), 0) << what << ": " << op;
    ScopedThreadLimit one(1);
    EXPECT_EQ(RunGraph(m, Options(FusionMode::kForce, policy)).outputs, fused.outputs) << what;
  }
  return fused;
}

bool Has(const Outcome& o, const std::string& chain) {
  return std::any_of(o.decisions.begin(), o.decisions.end(),
                     [&](const plan::Decision& d) { return d.chain == chain && plan::Fuses(d); });
}

// What exporters of dynamically quantised models write: the scale of x is known when the model runs.
struct Dynamic {
  Dims x = {5, 33};
  int64_t n = 40;
  DType weights = DType::kS8;
  bool by_column = false, weight_zero = false, bias = true, residual = false, quantise = false;
  const char* activation = "";
};

void Expect(const Dynamic& c, const std::string& what) {
  GraphMaker m;
  const ValueId q = m.Op("DynamicQuantizeLinear", {m.In("x", c.x)}, {}, 3);
  const Dims columns = c.by_column ? Dims{c.n} : Dims{};
  const double low = c.weights == DType::kU8 ? 0 : -128;
  const ValueId w = m.Random({c.x.back(), c.n}, low, low + 255, c.weights);
  const ValueId zero = c.weight_zero ? m.Random(columns, low, low + 255, c.weights) : kNoValue;
  const ValueId sums = m.Op("MatMulInteger", {q, w, q + 2, zero});
  const ValueId scale = m.Op("Mul", {q + 1, m.Random(columns, 0.001, 0.01)});
  ValueId y = m.Op("Mul", {m.Op("Cast", {sums}, {{"to", kFloat}}), scale});
  if (c.bias) y = m.Op("Add", {m.Random({c.n}), y});
  Dims out = c.x;
  out[out.rank() - 1] = c.n;
  if (c.residual) y = m.Op("Add", {y, m.In("r", out)});
  if (*c.activation) y = m.Op(c.activation, {y});
  if (c.quantise)
    y = m.Op("QuantizeLinear", {y, m.Scalar(0.05f), m.Const(HostTensor::From<uint8_t>({}, {7}))});
  m.Out(y);
  std::vector<std::string> gone = {"Cast", "Add", "Program", "QuantizeLinear"};
  if (*c.activation) gone.push_back(c.activation);
  const Outcome o = ExpectSameBits(m, gone, what);
  EXPECT_EQ(o.Count("MatMulInteger"), 1) << what;
}

TEST(IntegerFusion, DynamicallyQuantisedProducts) {
  testing::Rng rng;
  const char* activations[] = {"", "Relu", "Gelu", "Sigmoid"};
  for (int i = 0; i < 32; ++i) {
    Dynamic c;
    c.by_column = i & 1, c.weight_zero = i & 2, c.quantise = i & 4, c.residual = i & 8;
    c.bias = i % 5 != 4;
    c.weights = i % 3 ? DType::kS8 : DType::kU8;
    c.activation = activations[i / 4 % 4];
    c.n = rng.Int(1, i % 6 ? 90 : 700);
    const int64_t k = rng.Int(1, i % 7 ? 90 : 2000);
    c.x = i % 4 == 3 ? Dims{2, rng.Int(1, 20), k} : Dims{rng.Int(1, i % 4 ? 60 : 9), k};
    Expect(c, StrFormat("case %d, x %s, n %lld", i, ToString(c.x).c_str(), static_cast<long long>(c.n)));
  }
}

TEST(IntegerFusion, ManyRowsAndExplained) {
  GraphMaker m;
  const ValueId q = m.Op("DynamicQuantizeLinear", {m.In("x", {300, 256})}, {}, 3);
  const ValueId sums = m.Op("MatMulInteger", {q, m.Random({256, 320}, -128, 127, DType::kS8), q + 2});
  const ValueId y = m.Op("Mul", {m.Op("Cast", {sums}, {{"to", kFloat}}), q + 1});
  m.Out(m.Op("Relu", {m.Op("Add", {y, m.Random({320})})}));
  const Outcome o = ExpectSameBits(m, {"Cast", "Mul", "Add", "Relu"}, "");
  EXPECT_TRUE(Has(o, "matmulinteger+cast+mul+add+relu"));
}

TEST(IntegerFusion, OtherTypesBehind) {
  for (const int64_t to : {kFloat, kHalf, int64_t{11}, int64_t{16}}) {  // f32, f16, f64, bf16
    GraphMaker m;
    const ValueId sums =
        m.Op("MatMulInteger", {m.In("a", {9, 70}, DType::kU8), m.Random({70, 50}, -128, 127, DType::kS8)});
    m.Out(m.Op("Relu", {m.Op("Cast", {sums}, {{"to", to}})}));
    ExpectSameBits(m, to == 16 ? std::vector<std::string>{} : std::vector<std::string>{"Cast", "Relu"},
                   StrFormat("to %lld", static_cast<long long>(to)));
  }
}

// Sums that two read, or that are results themselves, stay.
TEST(IntegerFusion, SumsThatAreNeeded) {
  GraphMaker m;
  const ValueId sums =
      m.Op("MatMulInteger", {m.In("a", {9, 70}, DType::kS8), m.Random({70, 50}, -128, 127, DType::kS8)});
  m.Out(m.Op("Relu", {m.Op("Cast", {sums}, {{"to", kFloat}})}));
  m.Out(sums);
  ExpectSameBits(m, {}, "");
}

// Products of s32 matrices leave the integers in the same way.
TEST(IntegerFusion, ProductsOfS32) {
  GraphMaker m;
  const ValueId sums =
      m.Op("MatMul", {m.In("a", {9, 30}, DType::kS32), m.Random({30, 50}, -99, 99, DType::kS32)});
  m.Out(m.Op("Add", {m.Op("Cast", {sums}, {{"to", kFloat}}), m.Random({50})}));
  ExpectSameBits(m, {"Cast", "Add"}, "");
}

// What exporters of statically quantised models write: every tensor quantised and dequantised.
struct Static {
  const char* product = "MatMul";
  bool by_column = false, trans_b = false, bias = true, quantise = true, zero = true;
  DType x = DType::kU8;
  int64_t m = 5, k = 33, n = 40;
};

GraphMaker MakeStatic(const Static& c) {
  GraphMaker m;
  const ValueId sx = m.Scalar(0.03f), zx = c.zero ? m.Random({}, 0, 100, c.x) : m.Random({}, 0, 0, c.x);
  const ValueId q = m.Op("QuantizeLinear", {m.In("x", {c.m, c.k}), sx, zx});
  const ValueId a = m.Op("DequantizeLinear", {q, sx, zx});
  const ValueId w = m.Random(c.trans_b ? Dims{c.n, c.k} : Dims{c.k, c.n}, -128, 127, DType::kS8);
  const ValueId sw = m.Random(c.by_column ? Dims{c.n} : Dims{}, 0.001, 0.01);
  std::vector<ValueId> of_w = {w, sw};
  if (c.zero) of_w.push_back(m.Random(c.by_column ? Dims{c.n} : Dims{}, -9, 9, DType::kS8));
  const ValueId b = m.Op("DequantizeLinear", of_w, {{"axis", int64_t{c.trans_b ? 0 : 1}}});
  const bool gemm = std::string(c.product) == "Gemm";
  std::vector<ValueId> in = {a, b};
  if (c.bias && gemm)
    in.push_back(m.Op("DequantizeLinear", {m.Random({c.n}, -900, 900, DType::kS32), m.Scalar(0.001f)}));
  ValueId y = gemm ? m.Op("Gemm", in, {{"transB", int64_t{c.trans_b}}}) : m.Op("MatMul", in);
  if (c.bias && !gemm) y = m.Op("Add", {y, m.Random({c.n})});
  y = m.Op("Relu", {y});
  if (c.quantise)
    y = m.Op("QuantizeLinear", {y, m.Scalar(0.2f), m.Const(HostTensor::From<uint8_t>({}, {0}))});
  m.Out(y);
  return m;
}

bool BytesAreFaster() {
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  return host.mac(DType::kS8) > host.mac(DType::kF32);
}

TEST(IntegerProducts, QuantisedModels) {
  for (int i = 0; i < 32; ++i) {
    Static c;
    c.product = i & 1 ? "Gemm" : "MatMul";
    c.by_column = i & 2, c.trans_b = (i & 4) && (i & 1), c.bias = i & 8, c.quantise = i & 16, c.zero = i % 3;
    c.x = i % 5 < 2 ? DType::kS8 : DType::kU8;
    c.m = 1 + i * 7 % 40, c.k = 3 + i * 31 % 300, c.n = 1 + i * 13 % 90;
    GraphMaker m = MakeStatic(c);
    const Outcome apart = RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExcess));
    const Outcome kept = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExact));
    const Outcome fused = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExcess));
    EXPECT_EQ(kept.outputs, RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExact)).outputs) << i;
    EXPECT_EQ(kept.Count("MatMulInteger"), 0) << i;
    EXPECT_EQ(fused.Count("MatMulInteger"), BytesAreFaster() ? 1 : 0) << i;
    if (BytesAreFaster()) {
      for (const char* gone : {"DequantizeLinear", "MatMul", "Gemm", "Cast", "Program", "Relu"})
        EXPECT_EQ(fused.Count(gone), 0) << i << " " << gone;
      EXPECT_EQ(fused.Count("QuantizeLinear"), 1) << i;  // that of x
    }
    ASSERT_EQ(fused.outputs[0].size(), apart.outputs[0].size());
    const double k = static_cast<double>(c.k);
    for (size_t j = 0; j < fused.outputs[0].size(); ++j) {
      // Quantised results may fall on the other side of a tie.
      const double size = k * 255 * 0.03 * 137 * 0.01, eps = (k + 8) * testing::Epsilon(DType::kF32);
      ASSERT_LE(std::fabs(fused.outputs[0][j] - apart.outputs[0][j]), c.quantise ? 1 : 2 * eps * size) << i;
    }
  }
}

// A Gemm that is none fails whatever its operands are made of.
TEST(IntegerProducts, MalformedGemmFails) {
  struct Case {
    const char* what;
    Dims x, bias;
    bool fits;
  };
  const int64_t k = 33, n = 40;
  for (const Case& c :
       {Case{"matrix", {2, k}, {n}, true}, Case{"one bias for all", {2, k}, {1}, true},
        Case{"a row", {2, k}, {1, n}, true}, Case{"a whole bias", {2, k}, {2, n}, true},
        Case{"a batch", {3, 2, k}, {n}, false}, Case{"a vector", {k}, {n}, false},
        Case{"a taller bias", {1, k}, {2, n}, false}, Case{"a bias of rank 3", {2, k}, {1, 2, n}, false},
        Case{"another width", {2, k}, {n - 1}, false}}) {
    GraphMaker m;
    const ValueId scale = m.Scalar(0.03f);
    const ValueId q = m.Op("QuantizeLinear", {m.In("x", c.x), scale, m.Random({}, 0, 9, DType::kU8)});
    const ValueId w = m.Op("DequantizeLinear", {m.Random({k, n}, -128, 127, DType::kS8), scale});
    m.Out(m.Op("Gemm", {m.Op("DequantizeLinear", {q, scale}), w, m.Random(c.bias)}));
    for (const FusionMode mode : {FusionMode::kOff, FusionMode::kForce}) {
      auto s = Session::Create(m.graph(), Options(mode, NumericsPolicy::kExcess));
      const bool ran = s.ok() && (*s)->Run(m.RandomFeeds()).ok();
      EXPECT_EQ(ran, c.fits) << c.what;
    }
  }
}

// Convolutions: by channel or whole, in groups, with a bias in either form, an operand as large as the
// result.
TEST(IntegerFusion, DynamicallyQuantisedConvolutions) {
  for (int i = 0; i < 16; ++i) {
    GraphMaker m;
    const int64_t size = 5 + i * 3 % 17, groups = i & 1 ? 3 : 1, out = 12;
    const ValueId q = m.Op("DynamicQuantizeLinear", {m.In("x", {2, 6, size, size + 1})}, {}, 3);
    const ValueId w = m.Random({out, 6 / groups, 3, 3}, -128, 127, DType::kS8);
    const ValueId sums =
        m.Op("ConvInteger", {q, w, q + 2}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", groups}});
    const ValueId scale = m.Op("Mul", {q + 1, m.Random(i & 2 ? Dims{out, 1, 1} : Dims{}, 0.001, 0.01)});
    ValueId y = m.Op("Mul", {m.Op("Cast", {sums}, {{"to", kFloat}}), scale});
    y = m.Op("Add", {y, m.Random({1, out, 1, 1})});
    if (i & 4) y = m.Op("Add", {y, m.In("r", {2, out, size, size + 1})});
    y = m.Op("Relu", {y});
    if (i & 8) y = m.Op("QuantizeLinear", {y, m.Scalar(0.2f), m.Const(HostTensor::From<int8_t>({}, {-9}))});
    m.Out(y);
    ExpectSameBits(m, {"Cast", "Add", "Relu", "Program", "QuantizeLinear"}, StrFormat("case %d", i));
  }
}

TEST(IntegerProducts, QuantisedConvolutions) {
  for (int i = 0; i < 16; ++i) {
    GraphMaker m;
    const int64_t channels = 16,
                  groups = i % 3 == 0   ? 1
                           : i % 3 == 1 ? 2
                                        : channels,
                  size = 9, out = groups == channels ? 32 : 24;
    const bool by_channel = i & 2, quantise = i & 4, dequantised_bias = i & 8;
    const ValueId sx = m.Scalar(0.03f), zx = m.Random({}, 0, 100, DType::kU8);
    const ValueId q = m.Op("QuantizeLinear", {m.In("x", {2, channels, size, size}), sx, zx});
    const ValueId sw = m.Random(by_channel ? Dims{out} : Dims{}, 0.001, 0.01);
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({out, channels / groups, 3, 3}, -128, 127, DType::kS8), sw},
             {{"axis", int64_t{0}}});
    const ValueId bias = dequantised_bias
                             ? m.Op("DequantizeLinear",
                                    {m.Random({out}, -900, 900, DType::kS32), m.Random({out}, 0.0001, 0.001)},
                                    {{"axis", int64_t{0}}})
                             : m.Random({out});
    ValueId y = m.Op("Conv", {m.Op("DequantizeLinear", {q, sx, zx}), w, bias},
                     {{"group", groups}, {"strides", std::vector<int64_t>{2, 1}}});
    y = m.Op("Relu", {y});
    if (quantise)
      y = m.Op("QuantizeLinear", {y, m.Scalar(0.2f), m.Const(HostTensor::From<uint8_t>({}, {0}))});
    m.Out(y);
    const Outcome apart = RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExcess));
    const Outcome fused = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExcess));
    EXPECT_EQ(fused.Count("ConvInteger"), BytesAreFaster() ? 1 : 0) << i;
    if (BytesAreFaster()) {
      for (const char* gone : {"DequantizeLinear", "Conv", "Cast", "Relu", "Program"})
        EXPECT_EQ(fused.Count(gone), 0) << i << " " << gone;
    }
    ASSERT_EQ(fused.outputs[0].size(), apart.outputs[0].size());
    const double k = static_cast<double>(9 * channels);
    for (size_t j = 0; j < fused.outputs[0].size(); ++j) {
      const double bound = 2 * (k + 8) * testing::Epsilon(DType::kF32) * k * 255 * 0.03 * 128 * 0.01;
      ASSERT_LE(std::fabs(fused.outputs[0][j] - apart.outputs[0][j]), quantise ? 1 : bound) << i;
    }
  }
}

// Sums of quantised tensors: what was dequantised is read, added and quantised in one pass.
TEST(IntegerFusion, QuantisedSums) {
  for (int i = 0; i < 8; ++i) {
    GraphMaker m;
    const DType t = i & 1 ? DType::kS8 : DType::kU8;
    const Dims dims = i & 2 ? Dims{3, 77} : Dims{2, 5, 7, 9};
    const ValueId a = m.Op("DequantizeLinear",
                           {m.In("a", dims, t), m.Scalar(0.03f), m.Random({}, -90, 90, t)}),
                  b = m.Op("DequantizeLinear", {m.In("b", dims, t), m.Scalar(0.5f)});
    ValueId y = m.Op("Relu", {m.Op("Add", {a, b})});
    if (i & 4) y = m.Op("QuantizeLinear", {y, m.Scalar(0.02f), m.Const(HostTensor::From<uint8_t>({}, {3}))});
    m.Out(y);
    const Outcome o =
        ExpectSameBits(m, {"DequantizeLinear", "Add", "Relu", "QuantizeLinear"}, StrFormat("case %d", i));
    EXPECT_EQ(o.Count("Program"), 1) << i;
  }
}

TEST(IntegerProducts, WhatStaysSaysWhy) {
  const auto reason = [](const Outcome& o, const char* text) {
    return std::any_of(o.decisions.begin(), o.decisions.end(), [&](const plan::Decision& d) {
      return d.verdict == plan::Verdict::kRefuse && d.reason.find(text) != std::string::npos;
    });
  };
  GraphMaker plain = MakeStatic({});
  EXPECT_TRUE(reason(RunGraph(plain, Options(FusionMode::kAuto, NumericsPolicy::kExact)), "exact policy"));
  if (!BytesAreFaster()) return;
  // A scale that is fed, sums beyond 32 bits.
  for (const int64_t k : {8, 70000}) {
    GraphMaker m;
    const ValueId q = m.In("q", {2, k}, DType::kU8), w = m.In("w", {k, 3}, DType::kS8);
    const ValueId s = k == 8 ? m.In("s", {}) : m.Scalar(0.5f);
    m.Out(m.Op("MatMul",
               {m.Op("DequantizeLinear", {q, s}),
                m.Op("DequantizeLinear", {k == 8 ? w : m.Random({k, 3}, -128, 127, DType::kS8), s})}));
    if (k != 8) m.Out(w);
    const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
    EXPECT_EQ(o.Count("MatMulInteger"), 0);
    EXPECT_TRUE(reason(o, "no integer product")) << k;
  }
}

// What DequantizeLinear refuses stays an error: scales or zero points of another number than slices.
TEST(IntegerFusion, ScalesOfAnotherNumberAreErrors) {
  const auto run = [](GraphMaker& m) {
    auto s = Session::Create(m.graph(), Options(FusionMode::kAuto, NumericsPolicy::kExcess));
    return s.ok() ? (*s)->Run(m.RandomFeeds(), {}).status() : s.status();
  };
  const auto quantised = [](GraphMaker& m, const Dims& dims) {
    return m.Op("DequantizeLinear", {m.In("x", dims, DType::kU8), m.Scalar(0.1f)});
  };
  {
    GraphMaker m;
    const ValueId x = quantised(m, {1, 16, 5, 5});
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({4096, 16, 1, 1}, -128, 127, DType::kS8), m.Random({2}, 0.1, 0.2)},
             {{"axis", int64_t{0}}});
    m.Out(m.Op("Conv", {x, w, m.Random({4096})}));
    const Status s = run(m);
    EXPECT_NE(s.message().find("the scale has shape"), std::string::npos) << s.message();
  }
  {
    GraphMaker m;
    const ValueId x = quantised(m, {3, 16});
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({16, 1}, -128, 127, DType::kS8), m.Random({5}, 0.1, 0.2)});
    m.Out(m.Op("MatMul", {x, w}));
    const Status s = run(m);
    EXPECT_NE(s.message().find("the scale has shape"), std::string::npos) << s.message();
  }
  {
    GraphMaker m;
    const ValueId x = quantised(m, {1, 16, 5, 5});
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({64, 16, 1, 1}, -128, 127, DType::kS8), m.Scalar(0.1f)});
    const ValueId b =
        m.Op("DequantizeLinear",
             {m.Random({64}, -100, 100, DType::kS32), m.Scalar(0.1f), m.Random({2}, 0, 5, DType::kS32)},
             {{"axis", int64_t{0}}});
    m.Out(m.Op("Conv", {x, w, b}));
    const Status s = run(m);
    EXPECT_NE(s.message().find("the zero point has shape"), std::string::npos) << s.message();
  }
}

// Without a zero point an attribute says what QuantizeLinear makes, and kernels multiply bytes alone.
TEST(IntegerFusion, QuantisedToOtherTypes) {
  for (const int64_t to : {2, 3, 5}) {  // u8, s8, s16
    GraphMaker m;
    const ValueId q = m.Op("QuantizeLinear", {m.In("x", {9, 64}), m.Scalar(0.05f)}, {{"output_dtype", to}});
    const ValueId w = m.Op("DequantizeLinear", {m.Random({64, 32}, -128, 127, DType::kS8), m.Scalar(0.1f)});
    m.Out(m.Op("MatMul", {m.Op("DequantizeLinear", {q, m.Scalar(0.05f)}), w}));
    const Outcome o = ExpectFusionKeepsResults(m, 64);
    if (to == 5) {
      EXPECT_EQ(o.Count("MatMulInteger"), 0);
    }
  }
}

// Scales along any axis: those along one dim of the image stay behind the convolution.
TEST(IntegerFusion, ConvolutionsQuantisedAlongAnyAxis) {
  const Dims out = {2, 24, 5, 7};
  for (int axis = 0; axis < 4; ++axis) {
    for (const bool activation : {false, true}) {
      GraphMaker m;
      const ValueId sums = m.Op("ConvInteger", {m.In("x", {2, 16, 5, 7}, DType::kU8),
                                                m.Random({24, 16, 1, 1}, -128, 127, DType::kS8)});
      ValueId y = m.Op("Cast", {sums}, {{"to", kFloat}});
      if (activation) y = m.Op("Relu", {y});
      m.Out(m.Op("QuantizeLinear", {y, m.Random({out[axis]}, 10, 40)}, {{"axis", int64_t{axis}}}));
      const Outcome o = ExpectSameBits(m, {"Cast"}, StrFormat("axis %d", axis));
      EXPECT_EQ(o.Count("QuantizeLinear"), axis > 1) << axis;
    }
  }
}

}  // namespace
}  // namespace opsnn::graph
