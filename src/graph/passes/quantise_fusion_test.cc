// Products whose chain ends in integers: QuantizeLinear per tensor, column and row, and casts.
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

enum class Per { kTensor, kColumn, kRow };

struct Case {
  const char* product = "MatMul";
  DType type = DType::kF32, to = DType::kS8;
  Per per = Per::kTensor;
  bool zero = true, fed = false, residual = false;
  const char* activation = "";
  int64_t m = 1, k = 1, n = 1;

  std::string Text() const {
    return StrFormat("%s %s to %s, per %d, zero %d, fed %d, residual %d, %s, %lldx%lldx%lld", product,
                     Name(type), Name(to), static_cast<int>(per), zero, fed, residual, activation,
                     static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k));
  }
};

struct Made {
  GraphMaker m;
  ConstTensor w, scale, zero;
  ValueId x, residual = kNoValue;
  const Case& c;

  explicit Made(const Case& given) : c(given) {
    const int64_t count = c.per == Per::kTensor ? 1 : c.per == Per::kColumn ? c.n : c.m;
    const Dims params = count == 1 && c.per == Per::kTensor ? Dims{} : Dims{count};
    x = m.In("x", {c.m, c.k}, c.type);
    w = m.RandomTensor({c.k, c.n}, -1, 1, c.type);
    ValueId y = m.Op(c.product, {x, m.Const(w)});
    if (c.residual) {
      residual = m.In("r", {c.m, c.n}, c.type);
      y = m.Op("Add", {y, residual});
    }
    if (*c.activation) y = m.Op(c.activation, {y});
    scale = m.RandomTensor(params, 0.01, 0.2);
    std::vector<ValueId> in = {y, c.fed ? m.In("scale", params) : m.Const(scale)};
    if (c.fed) Feed("scale", scale);
    if (c.zero) {
      zero = m.RandomTensor(params, c.to == DType::kU8 ? 0 : -20, 20, c.to);
      in.push_back(m.Const(zero));
    }
    std::vector<std::pair<std::string, op::AttrValue>> attrs = {
        {"axis", int64_t{c.per == Per::kRow ? 0 : 1}}};
    if (!c.zero)
      attrs.push_back({"output_dtype", int64_t{c.to == DType::kU8 ? 2 : c.to == DType::kS8 ? 3 : 5}});
    m.Out(m.Op("QuantizeLinear", in, attrs));
  }
  void Feed(const std::string& name, ConstTensor t) { m.SetFeed(name, std::move(t)); }

  double Param(const std::vector<double>& v, int64_t i) const {
    return v.size() == 1 ? v[0] : v[static_cast<size_t>(c.per == Per::kColumn ? i % c.n : i / c.n)];
  }
  // What the result may differ from the exact value by: half a step, and the errors of the sum in steps.
  void Check(const std::vector<double>& got) {
    const auto feeds = m.RandomFeeds();
    const std::vector<double> a = ToDoubles(*feeds.at("x")), b = ToDoubles(*w);
    const std::vector<double> r = c.residual ? ToDoubles(*feeds.at("r")) : std::vector<double>();
    const std::vector<double> scales = ToDoubles(*scale);
    const std::vector<double> zeros = c.zero ? ToDoubles(*zero) : std::vector<double>();
    const double low = c.to == DType::kU8 ? 0 : -std::ldexp(1, static_cast<int>(8 * SizeOf(c.to)) - 1);
    const double high = c.to == DType::kU8 ? 255 : -low - 1;
    ASSERT_EQ(got.size(), static_cast<size_t>(c.m * c.n));
    for (int64_t i = 0; i < c.m * c.n; ++i) {
      double sum = c.residual ? r[static_cast<size_t>(i)] : 0, size = std::fabs(sum);
      for (int64_t p = 0; p < c.k; ++p) {
        const double term =
            a[static_cast<size_t>(i / c.n * c.k + p)] * b[static_cast<size_t>(p * c.n + i % c.n)];
        sum += term, size += std::fabs(term);
      }
      const std::string act = c.activation;
      const double v = act == "Relu"   ? std::max(0.0, sum)
                       : act == "Gelu" ? 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)))
                                       : sum;
      const double s = Param(scales, i), z = c.zero ? Param(zeros, i) : 0;
      const double want = std::min(high, std::max(low, v / s + z));
      // Sums of k terms, the steps behind them, and up to three roundings to a half type on the way.
      const double eps = static_cast<double>(c.k + 8) * testing::Epsilon(DType::kF32) +
                         (c.type == DType::kF32 ? 0 : 3 * testing::Epsilon(c.type));
      ASSERT_LE(std::fabs(got[static_cast<size_t>(i)] - want), 0.5 + 2 * eps * size / s)
          << c.Text() << " at " << i;
    }
  }
};

SessionOptions Options(FusionMode fusion, NumericsPolicy policy) {
  SessionOptions o = Mode(fusion);
  o.policy = policy;
  return o;
}

void Expect(const Case& c) {
  Made made(c);
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    const Outcome apart = RunGraph(made.m, Options(FusionMode::kOff, policy));
    const Outcome fused = RunGraph(made.m, Options(FusionMode::kForce, policy));
    const Outcome judged = RunGraph(made.m, Options(FusionMode::kAuto, policy));
    ASSERT_EQ(fused.outputs.size(), 1u);
    EXPECT_EQ(fused.prepared->graph().values[fused.prepared->graph().outputs[0]].desc.dtype, c.to);
    EXPECT_EQ(fused.Count("QuantizeLinear"), 0) << c.Text();
    EXPECT_EQ(fused.Count("Program"), 0) << c.Text();
    // Half types under excess lose roundings on the way; everything else is the same bit by bit.
    if (policy == NumericsPolicy::kExact || c.type == DType::kF32) {
      EXPECT_EQ(fused.outputs, apart.outputs) << c.Text();
      EXPECT_EQ(judged.outputs, apart.outputs) << c.Text();
    }
    made.Check(fused.outputs[0]);
    made.Check(apart.outputs[0]);
    ScopedThreadLimit one(1);
    EXPECT_EQ(RunGraph(made.m, Options(FusionMode::kForce, policy)).outputs, fused.outputs) << c.Text();
  }
}

TEST(QuantiseFusion, EveryKindOfScale) {
  testing::Rng rng;
  const char* activations[] = {"", "Relu", "Gelu"};
  int i = 0;
  for (const DType to : {DType::kS8, DType::kU8, DType::kS16})
    for (const Per per : {Per::kTensor, Per::kColumn, Per::kRow})
      for (const bool zero : {false, true})
        for (const bool fed : {false, true}) {
          Case c;
          c.to = to, c.per = per, c.zero = zero, c.fed = fed;
          c.product = i % 2 ? "Gemm" : "MatMul";
          c.activation = activations[i % 3];
          c.residual = i % 4 == 1;
          c.type = i % 5 == 3 ? DType::kF16 : i % 5 == 4 ? DType::kBF16 : DType::kF32;
          c.m = rng.Int(1, i % 3 ? 90 : 9), c.k = rng.Int(1, 90), c.n = rng.Int(1, i % 7 ? 70 : 700);
          Expect(c);
          ++i;
        }
}

TEST(QuantiseFusion, LongSumsAndManyRows) {
  for (const int64_t m : {1, 8, 150}) {
    Case c;
    c.m = m, c.k = 2500, c.n = 130, c.per = Per::kRow, c.activation = "Relu";
    Expect(c);
    c.per = Per::kColumn, c.to = DType::kU8, c.type = DType::kF16;
    Expect(c);
  }
}

// Batches: a scale per row lies along the last axis but one, one per matrix along the first.
TEST(QuantiseFusion, AxesOfBatches) {
  for (const int64_t axis : {0, 1, 2, -1, -2}) {
    GraphMaker m;
    const Dims dims = {3, 5, 40};
    const ValueId y = m.Op("MatMul", {m.In("x", {3, 5, 9}), m.Random({3, 9, 40})});
    const ValueId scale = m.Random({dims[static_cast<int>(axis < 0 ? axis + 3 : axis)]}, 0.1, 0.3);
    m.Out(m.Op("QuantizeLinear", {m.Op("Relu", {y}), scale}, {{"axis", axis}}));
    const Outcome apart = RunGraph(m, Mode(FusionMode::kOff)), fused = RunGraph(m, Mode(FusionMode::kForce));
    EXPECT_EQ(fused.outputs, apart.outputs) << axis;
    EXPECT_EQ(fused.Count("QuantizeLinear"), 0) << axis;
  }
}

TEST(QuantiseFusion, SpecialValues) {
  GraphMaker m;
  const ValueId y = m.Op("MatMul", {m.In("x", {4, 1}), m.Random({1, 33}, 0.5, 1)});
  const ValueId zero = m.Const(HostTensor::From<int8_t>({}, {3}));
  m.Out(m.Op("QuantizeLinear", {y, m.Scalar(0.01f), zero}));
  m.SetFeed("x", HostTensor::From<float>({4, 1}, {static_cast<float>(kNaN), static_cast<float>(kInf),
                                                  -static_cast<float>(kInf), -0.0f}));
  const Outcome apart = RunGraph(m, Mode(FusionMode::kOff)), fused = RunGraph(m, Mode(FusionMode::kForce));
  EXPECT_EQ(fused.outputs, apart.outputs);
  ASSERT_EQ(fused.outputs[0].size(), 4u * 33);
  EXPECT_EQ(fused.outputs[0][40], 127);
  EXPECT_EQ(fused.outputs[0][70], -128);
  EXPECT_EQ(fused.outputs[0][100], 3);
}

TEST(QuantiseFusion, CastsStoreIntegers) {
  for (const int64_t to : {2, 3, 5, 6, 7, 9}) {  // u8, s8, s16, s32, s64, bool as ONNX numbers them
    for (const DType type : {DType::kF32, DType::kBF16}) {
      GraphMaker m;
      const ValueId y = m.Op("MatMul", {m.In("x", {20, 33}, type), m.Random({33, 50}, -9, 9, type)});
      m.Out(m.Op("Cast", {m.Op("Relu", {y})}, {{"to", to}}));
      const Outcome apart = RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExact));
      const Outcome fused = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExact));
      EXPECT_EQ(fused.outputs, apart.outputs) << to;
      EXPECT_EQ(fused.Count("Cast"), 0) << to;
    }
  }
}

TEST(QuantiseFusion, TheJudgeSeesTheConversion) {
  GraphMaker m;
  const ValueId y = m.Op("MatMul", {m.In("x", {64, 64}), m.Random({64, 64})});
  m.Out(m.Op("QuantizeLinear", {m.Op("Relu", {y}), m.Scalar(0.1f)}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  ASSERT_EQ(o.decisions.size(), 1u);
  EXPECT_EQ(o.decisions[0].chain, "matmul+relu+quantizelinear");
  for (const auto* side : {&o.decisions[0].fused_terms, &o.decisions[0].split_terms}) {
    EXPECT_TRUE(std::any_of(side->begin(), side->end(),
                            [](const plan::CostTerm& t) { return t.name == "conversion" && t.us > 0; }));
  }
}

bool Refused(const Outcome& o, const std::string& chain, const std::string& reason) {
  return std::any_of(o.decisions.begin(), o.decisions.end(), [&](const plan::Decision& d) {
    return d.chain == chain && d.verdict == plan::Verdict::kRefuse &&
           d.reason.find(reason) != std::string::npos;
  });
}

TEST(QuantiseFusion, WhatStaysApartSaysWhy) {
  GraphMaker m;
  const ValueId scale = m.Scalar(0.1f);
  const ValueId y = m.Op("MatMul", {m.In("x", {6, 5}), m.Random({5, 4})});
  m.Out(m.Op("QuantizeLinear", {y, scale}));
  m.Out(y);
  const ValueId z = m.Op("MatMul", {m.In("z", {6, 5}), m.Random({5, 4})});
  const ValueId dynamic = m.Op("DynamicQuantizeLinear", {z}, {}, 3);
  for (int i = 0; i < 3; ++i) m.Out(dynamic + i);
  const ValueId conv = m.Op("Conv", {m.In("v", {1, 3, 6, 6}), m.Random({4, 3, 3, 3})});
  m.Out(m.Op("QuantizeLinear", {conv, scale}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
  EXPECT_TRUE(Refused(o, "matmul+quantizelinear", "is an output of the model"));
  EXPECT_TRUE(Refused(o, "matmul+dynamicquantizelinear", "follows from the whole result"));
  EXPECT_TRUE(Refused(o, "conv+quantizelinear", "convolutions write blocks"));
}

}  // namespace
}  // namespace opsnn::graph
