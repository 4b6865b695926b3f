// Chains behind products and convolutions of half types, and casts in chains: what is fused, what comes out.
#include <cmath>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

SessionOptions Exact(FusionMode fusion) {
  SessionOptions o = Mode(fusion);
  o.policy = NumericsPolicy::kExact;
  return o;
}

// Under the exact policy fused and unfused agree in every bit. Returns the fused outcome.
Outcome ExpectSameBitsFused(GraphMaker& m) {
  const Outcome apart = RunGraph(m, Exact(FusionMode::kOff));
  for (FusionMode mode : {FusionMode::kAuto, FusionMode::kForce}) {
    EXPECT_EQ(RunGraph(m, Exact(mode)).outputs, apart.outputs);
  }
  return RunGraph(m, Exact(FusionMode::kForce));
}

bool Decided(const Outcome& o, const std::string& chain, plan::Verdict verdict, const std::string& reason) {
  return std::any_of(o.decisions.begin(), o.decisions.end(), [&](const plan::Decision& d) {
    return d.chain == chain && d.verdict == verdict && d.reason.find(reason) != std::string::npos;
  });
}

// relu(x w + b) + r in double from the values as they are fed.
std::vector<double> Reference(const std::vector<double>& x, const std::vector<double>& w,
                              const std::vector<double>& b, const std::vector<double>& r, int64_t rows,
                              int64_t k, int64_t n) {
  std::vector<double> y(static_cast<size_t>(rows * n));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += x[i * k + p] * w[p * n + j];
      y[i * n + j] = std::max(0.0, sum + b[j]) + r[i * n + j];
    }
  return y;
}

TEST(HalfFusion, ProductsTakeTheirChain) {
  for (DType t : {DType::kF16, DType::kBF16})
    for (const char* op : {"MatMul", "Gemm"})
      for (int64_t rows : {1, 5, 70}) {
        GraphMaker m;
        const int64_t k = m.rng().Int(1, 90), n = m.rng().Int(2, 90);
        const ConstTensor w = m.RandomTensor({k, n}, -1, 1, t), b = m.RandomTensor({n}, -1, 1, t);
        ValueId y = m.Op(op, {m.In("x", {rows, k}, t), m.Const(w)});
        y = m.Op("Relu", {m.Op("Add", {y, m.Const(b)})});
        m.Out(m.Op("Add", {y, m.In("r", {rows, n}, t)}));
        const Outcome exact = ExpectSameBitsFused(m);
        EXPECT_EQ(exact.prepared->nodes_run(), 1);
        // Three reads and three writes of the intermediates are gone.
        const Outcome apart = RunGraph(m, Mode(FusionMode::kOff)),
                      fused = RunGraph(m, Mode(FusionMode::kForce));
        EXPECT_EQ(apart.prepared->bytes_moved() - fused.prepared->bytes_moved(),
                  6 * rows * n * static_cast<int64_t>(SizeOf(t)));
        const auto& feeds = m.RandomFeeds();
        const auto want = Reference(ToDoubles(*feeds.at("x")), ToDoubles(*w), ToDoubles(*b),
                                    ToDoubles(*feeds.at("r")), rows, k, n);
        // One rounding of the result when fused with excess precision, four apart; |values| < 4 k + 5.
        const double size = static_cast<double>(4 * k + 5);
        const double sums = 2 * static_cast<double>(k + 4) * testing::Epsilon(DType::kF32) * size;
        EXPECT_EQ("", testing::Compare(fused.outputs[0], want, sums, testing::Epsilon(t)));
        EXPECT_EQ("", testing::Compare(exact.outputs[0], want, sums + 4 * testing::Epsilon(t) * size,
                                       testing::Epsilon(t)));
      }
}

TEST(HalfFusion, ConvolutionsTakeTheirChain) {
  for (DType t : {DType::kF16, DType::kBF16})
    for (int64_t groups : {1, 20}) {
      GraphMaker m;
      const ValueId x = m.In("x", {2, 20, 9, 7}, t);
      ValueId y = m.Op("Conv", {x, m.Random({20, 20 / groups, 3, 3}, -1, 1, t)},
                       {{"pads", std::vector<int64_t>(4, 1)}, {"group", groups}});
      y = m.Op("Relu", {m.Op("Add", {y, x})});
      m.Out(m.Op("Mul", {y, m.Random({20, 1, 1}, -1, 1, t)}));
      EXPECT_EQ(ExpectSameBitsFused(m).prepared->nodes_run(), 1);
    }
}

TEST(HalfFusion, TheJudgeIsAsked) {
  GraphMaker m;
  m.Out(m.Op("Relu",
             {m.Op("MatMul", {m.In("x", {64, 32}, DType::kF16), m.Random({32, 48}, -1, 1, DType::kF16)})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  ASSERT_EQ(o.decisions.size(), 1u);
  EXPECT_EQ(o.decisions[0].chain, "matmul+relu");
  EXPECT_EQ(o.decisions[0].dtype, "f16");
  EXPECT_FALSE(o.decisions[0].fused_terms.empty());
}

// Their kernels run any program on their blocks.
TEST(HalfFusion, ProductsOfOtherTypesTakeTheirChain) {
  for (DType t : {DType::kF64, DType::kS32})
    for (int64_t rows : {1, 5, 70}) {
      GraphMaker m;
      const int64_t k = m.rng().Int(1, 90), n = m.rng().Int(1, 90);
      const ConstTensor w = m.RandomTensor({k, n}, -9, 9, t), b = m.RandomTensor({n}, -9, 9, t);
      const ValueId y = m.Op("Add", {m.Op("MatMul", {m.In("x", {rows, k}, t), m.Const(w)}), m.Const(b)});
      m.Out(m.Op("Add", {m.Op("Relu", {y}), m.In("r", {rows, n}, t)}));
      const Outcome fused = ExpectSameBitsFused(m);
      EXPECT_EQ(fused.prepared->nodes_run(), 1);
      EXPECT_TRUE(Decided(fused, "matmul+add+relu+add", plan::Verdict::kFuse, ""));
      const auto& feeds = m.RandomFeeds();
      const auto want = Reference(ToDoubles(*feeds.at("x")), ToDoubles(*w), ToDoubles(*b),
                                  ToDoubles(*feeds.at("r")), rows, k, n);
      const double size = static_cast<double>(100 * k + 20);
      EXPECT_EQ(
          "", testing::Compare(fused.outputs[0], want,
                               static_cast<double>(k + 4) * testing::Epsilon(t) * size, testing::Epsilon(t)));
    }
}

// A cast ends the chain with a store of another type.
TEST(HalfFusion, ProductsInF64StoreF32) {
  GraphMaker m;
  const ValueId y = m.Op("MatMul", {m.In("x", {33, 20}, DType::kF64), m.Random({20, 9}, -1, 1, DType::kF64)});
  m.Out(m.Op("Cast", {m.Op("Relu", {y})}, {{"to", int64_t{1}}}));
  EXPECT_EQ(ExpectSameBitsFused(m).prepared->nodes_run(), 1);
}

// ---- casts

TEST(CastFusion, AtTheEndAndInTheMiddle) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    const auto type = static_cast<int64_t>(t == DType::kF16 ? 10 : 16);  // as ONNX numbers them
    GraphMaker m;
    ValueId y = m.Op("MatMul", {m.In("x", {33, 40}), m.Random({40, 50})});
    m.Out(m.Op("Cast", {m.Op("Relu", {y})}, {{"to", type}}));
    const ValueId z = m.Op("Cast", {m.Op("MatMul", {m.In("z", {9, 8}, t), m.Random({8, 7}, -1, 1, t)})},
                           {{"to", int64_t{1}}});
    m.Out(m.Op("Gelu", {m.Op("Add", {z, m.Random({7})})}));
    m.Out(m.Op("Cast", {m.Op("MatMul", {m.In("v", {9, 8}), m.Random({8, 7})})}, {{"to", type}}));
    const Outcome o = ExpectSameBitsFused(m);
    EXPECT_EQ(o.prepared->nodes_run(), 3);
    for (const plan::Decision& d : o.decisions) {
      for (const auto* side : {&d.fused_terms, &d.split_terms}) {
        const bool shown = std::any_of(side->begin(), side->end(), [](const plan::CostTerm& c) {
          return c.name == "conversion" && c.us > 0;
        });
        EXPECT_TRUE(shown) << d.chain;
      }
    }
    // The cast that stores costs the stores alone: the read and the write of two f32 results are gone.
    GraphMaker one;
    y = one.Op("MatMul", {one.In("x", {33, 40}), one.Random({40, 50})});
    one.Out(one.Op("Cast", {one.Op("Relu", {y})}, {{"to", type}}));
    EXPECT_EQ(RunGraph(one, Mode(FusionMode::kOff)).prepared->bytes_moved() -
                  RunGraph(one, Mode(FusionMode::kForce)).prepared->bytes_moved(),
              4 * 33 * 50 * 4);
  }
}

TEST(CastFusion, ConvolutionsStoreHalves) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 20, 9, 7});
  const ValueId y = m.Op("Conv", {x, m.Random({24, 20, 3, 3})}, {{"pads", std::vector<int64_t>(4, 1)}});
  m.Out(m.Op("Cast", {m.Op("Relu", {y})}, {{"to", int64_t{10}}}));
  const Outcome o = ExpectSameBitsFused(m);
  EXPECT_EQ(o.Effects("epilogue_fusion"), 1);
  EXPECT_EQ(o.Count("Cast"), 0);
}

// ---- what no kernel does is recorded, with why

TEST(RecordedRefusals, PoolsBehindConvolutions) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 16, 12, 12});
  const auto conv = [&](ValueId v, int64_t k, int64_t groups) {
    return m.Op("Conv", {v, m.Random({16, 16 / groups, k, k})},
                {{"pads", std::vector<int64_t>(4, k / 2)}, {"group", groups}});
  };
  m.Out(m.Op("MaxPool", {m.Op("Relu", {conv(x, 3, 1)})}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
  EXPECT_TRUE(Decided(o, "conv+maxpool", plan::Verdict::kRefuse, "rows of a pool window"));
  EXPECT_TRUE(Decided(o, "conv+maxpool", plan::Verdict::kRefuse, "joined, 0.01 MiB"));
  EXPECT_TRUE(Decided(o, "conv+maxpool", plan::Verdict::kRefuse, "strips of 12 rows would compute 0.0 %"));
}

TEST(RecordedRefusals, ScaledIntegersAndMasksAroundProducts) {
  GraphMaker m;
  const ValueId q = m.In("q", {9, 8}, DType::kS8), scale = m.Scalar(0.25f);
  const ValueId y = m.Op("MatMul", {m.Op("DequantizeLinear", {q, scale}), m.Random({8, 7})});
  m.Out(y);
  const ValueId v = m.Op("MatMul", {m.In("v", {9, 8}), m.Random({8, 7})});
  const ValueId dropped = m.Op("Dropout", {v}, {}, 2);
  m.Out(dropped);
  m.Out(dropped + 1);
  const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
  EXPECT_TRUE(Decided(o, "dequantizelinear+matmul", plan::Verdict::kRefuse, "scales integers"));
  EXPECT_TRUE(Decided(o, "matmul+dropout", plan::Verdict::kRefuse, "mask"));
}

TEST(Assumptions, ReachTheJudge) {
  GraphMaker m;
  m.Out(m.Op("Gelu", {m.Op("MatMul", {m.In("x", {64, 64}), m.Random({64, 64})})}));
  SessionOptions o = Mode(FusionMode::kAuto);
  o.training = true;
  const Outcome training = RunGraph(m, o);
  const auto& terms = training.decisions.at(0).fused_terms;
  EXPECT_TRUE(std::any_of(terms.begin(), terms.end(), [](const plan::CostTerm& t) {
    return t.name == "kept for the backward pass" && t.us > 0;
  }));
  o.training = false, o.precision_first = true;
  EXPECT_TRUE(Decided(RunGraph(m, o), "matmul+gelu", plan::Verdict::kSplit, "precision comes first"));
  o.precision_first = false, o.concurrent = 4;
  const auto alone = RunGraph(m, Mode(FusionMode::kAuto)).decisions.at(0);
  const auto shared = RunGraph(m, o).decisions.at(0);
  ASSERT_FALSE(alone.retries.empty() || shared.retries.empty());
  EXPECT_EQ(shared.retries[0].available, alone.retries[0].available / 4);
  o.concurrent = 0;
  EXPECT_NE(Session::Create(m.graph(), o).status().message().find("allowed: 1 to 4096"), std::string::npos);
}

}  // namespace
}  // namespace opsnn::graph
