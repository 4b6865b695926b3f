// Patterns and fusion: what matches, what must not, and that results stay.
#include <cmath>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

ValueId Conv(GraphMaker& m, ValueId x, int64_t in, int64_t out, int64_t k = 1) {
  return m.Op("Conv", {x, m.Random({out, in, k, k})}, {{"pads", std::vector<int64_t>(4, k / 2)}});
}

ValueId BatchNorm(GraphMaker& m, ValueId x, int64_t c) {
  return m.Op("BatchNormalization", {x, m.Random({c}), m.Random({c}), m.Random({c}), m.Random({c}, 0.5, 2)});
}

// ---- batch_norm

TEST(BatchNormPass, JoinsThePointwiseNodeBehindIt) {
  GraphMaker m;
  m.Out(m.Op("Relu", {BatchNorm(m, m.In("x", {2, 5, 6, 7}), 5)}));
  const Outcome o = ExpectFusionKeepsResults(m, 4);
  EXPECT_EQ(o.Effects("batch_norm"), 1);
  EXPECT_EQ(o.prepared->nodes_run(), 1);
}

TEST(BatchNormPass, LeavesOthersAlone) {
  GraphMaker m;
  m.Out(BatchNorm(m, m.In("x", {2, 5, 6, 7}), 5));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 4).Effects("batch_norm"), 0);
}

// ---- conv_bn_folding

TEST(ConvBnFolding, BatchNormAndChannelArithmeticGoIntoTheWeights) {
  GraphMaker m;
  ValueId y = Conv(m, m.In("x", {2, 3, 6, 7}), 3, 19, 3);
  y = m.Op("Mul", {m.Scalar(1.5f), y});
  y = m.Op("Add", {y, m.Random({19, 1, 1})});
  y = BatchNorm(m, y, 19);
  y = m.Op("Div", {m.Op("Sub", {y, m.Random({1, 19, 1, 1})}), m.Scalar(3)});
  m.Out(y);
  const Outcome o = ExpectFusionKeepsResults(m, 400);
  EXPECT_EQ(o.Effects("conv_bn_folding"), 5);
  EXPECT_EQ(o.prepared->nodes_run(), 2);  // Conv and the conversion of its result
  EXPECT_EQ(o.prepared->graph().nodes[0].origins.size(), 6u);
}

TEST(ConvBnFolding, TransposedAndGrouped) {
  for (int64_t groups : {1, 2}) {
    GraphMaker m;
    const ValueId x = m.In("x", {1, 4, 3, 5});
    ValueId y = m.Op("ConvTranspose", {x, m.Random({4, 3, 2, 2})},
                     {{"group", groups}, {"strides", std::vector<int64_t>{2, 2}}});
    y = m.Op("Add", {y, m.Random({1, 3 * groups, 1, 1})});
    m.Out(BatchNorm(m, y, 3 * groups));
    EXPECT_EQ(ExpectFusionKeepsResults(m, 50).Effects("conv_bn_folding"), 2);
  }
}

TEST(ConvBnFolding, LeavesSharedResultsAndWideOperands) {
  GraphMaker m;
  const ValueId c = Conv(m, m.In("x", {1, 4, 3, 3}), 4, 4);
  m.Out(BatchNorm(m, c, 4));
  m.Out(c);  // asked for by itself
  const ValueId d = Conv(m, m.graph().inputs[0], 4, 4);
  m.Out(m.Op("Add", {d, m.Random({3})}));  // varies along the width
  EXPECT_EQ(ExpectFusionKeepsResults(m, 20).Effects("conv_bn_folding"), 0);
}

// ---- transposed_conv

TEST(TransposedConvPass, FewChannelsBecomeAPointwiseConvolution) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 9, 5, 3});
  const std::vector<int64_t> two = {2, 2}, one = {1, 1};
  ValueId y = m.Op("ConvTranspose", {x, m.Random({9, 3, 2, 2}), m.Random({3})}, {{"strides", two}});
  m.Out(m.Op("Sigmoid", {m.Op("Add", {y, m.Scalar(0.5f)})}));
  m.Out(m.Op("ConvTranspose", {x, m.Random({9, 3, 2, 2})}, {{"strides", one}}));   // tiles overlap
  m.Out(m.Op("ConvTranspose", {x, m.Random({9, 20, 2, 2})}, {{"strides", two}}));  // enough channels
  const Outcome o = ExpectFusionKeepsResults(m, 40);
  EXPECT_EQ(o.Effects("transposed_conv"), 1);
  EXPECT_EQ(o.Count("ConvTranspose"), 2);
  EXPECT_EQ(o.Count("Sigmoid"), 0);
  for (const Node& n : o.prepared->graph().nodes)
    if (n.op->name == "DepthToSpace") {
      EXPECT_EQ(n.origins.size(), 3u);
    }
}

// ---- decomposed activations

ValueId Clip6(GraphMaker& m, ValueId x) {
  return m.Op("Clip", {m.Op("Add", {x, m.Scalar(3)}), m.Scalar(0), m.Scalar(6)});
}

TEST(HardSwishPass, MatchesEverySpelling) {
  GraphMaker m;
  const ValueId x = m.In("x", {3, 50});
  m.Out(m.Op("Div", {m.Op("Mul", {x, Clip6(m, x)}), m.Scalar(6)}));
  m.Out(m.Op("Mul", {x, m.Op("Div", {Clip6(m, x), m.Scalar(6)})}));
  m.Out(m.Op("Mul", {m.Op("HardSigmoid", {x}, {{"alpha", 1 / 6.0}, {"beta", 0.5}}), x}));
  const Outcome o = ExpectFusionKeepsResults(m, 4);
  EXPECT_EQ(o.Effects("hardswish"), 3);
  EXPECT_EQ(o.Count("HardSwish"), 3);
}

TEST(HardSwishPass, LeavesOtherConstantsAndOtherGates) {
  GraphMaker m;
  const ValueId x = m.In("x", {50}), z = m.In("z", {50});
  m.Out(m.Op("Div", {m.Op("Mul", {x, Clip6(m, x)}), m.Scalar(5)}));
  m.Out(m.Op("Div", {m.Op("Mul", {z, Clip6(m, x)}), m.Scalar(6)}));
  m.Out(m.Op("Mul", {x, m.Op("HardSigmoid", {x}, {{"alpha", 0.2}, {"beta", 0.5}})}));
  m.Out(m.Op("Div", {m.Scalar(6), m.Op("Mul", {x, Clip6(m, x)})}));
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kForce)).Effects("hardswish"), 0);
}

TEST(SoftplusPass, MatchesSoftplusAndMish) {
  GraphMaker m;
  const ValueId x = m.In("x", {3, 5});
  const auto softplus = [&](ValueId v) {
    return m.Op("Log", {m.Op("Add", {m.Op("Exp", {v}), m.Scalar(1)})});
  };
  m.Out(softplus(x));
  m.Out(m.Op("Mul", {x, m.Op("Tanh", {softplus(m.Op("Mul", {x, m.Scalar(1)}))})}));
  m.Out(m.Op("Log", {m.Op("Add", {m.Op("Exp", {x}), m.Scalar(2)})}));
  const Outcome o = ExpectFusionKeepsResults(m);
  EXPECT_EQ(o.Effects("softplus"), 2);  // the first is shared
  const Outcome off = RunGraph(m, Mode(FusionMode::kForce, "softplus"));
  EXPECT_EQ(off.Effects("softplus"), 0);
  EXPECT_LT(o.prepared->bytes_moved(), RunGraph(m, Mode(FusionMode::kOff)).prepared->bytes_moved());
}

TEST(SwishPass, MatchesThroughAMultiplicationByOne) {
  GraphMaker m;
  const ValueId x = m.In("x", {70}), z = m.In("z", {70});
  m.Out(m.Op("Mul", {x, m.Op("Sigmoid", {m.Op("Mul", {x, m.Scalar(1)})})}));
  m.Out(m.Op("Mul", {x, m.Op("Sigmoid", {z})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 4).Effects("swish"), 1);
}

TEST(GeluPass, ErfAndTanhForms) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 60});
  const auto erf = [&] {
    return m.Op("Add", {m.Op("Erf", {m.Op("Div", {x, m.Scalar(std::sqrt(2.0f))})}), m.Scalar(1)});
  };
  m.Out(m.Op("Mul", {m.Op("Mul", {x, erf()}), m.Scalar(0.5f)}));
  m.Out(m.Op("Mul", {m.Op("Mul", {m.Scalar(0.5f), x}), erf()}));
  m.Out(m.Op("Mul", {x, m.Op("Mul", {m.Scalar(0.5f), erf()})}));
  const auto gate = [&](ValueId cube) {
    const ValueId inner = m.Op("Add", {x, m.Op("Mul", {m.Scalar(0.044715f), cube})});
    return m.Op("Add", {m.Scalar(1), m.Op("Tanh", {m.Op("Mul", {m.Scalar(0.7978845608f), inner})})});
  };
  m.Out(m.Op("Mul", {m.Op("Mul", {m.Scalar(0.5f), x}), gate(m.Op("Pow", {x, m.Scalar(3)}))}));
  m.Out(m.Op("Mul", {m.Op("Mul", {m.Scalar(0.5f), x}), gate(m.Op("Mul", {x, m.Op("Mul", {x, x})}))}));
  const Outcome o = ExpectFusionKeepsResults(m, 8);
  EXPECT_EQ(o.Effects("gelu"), 5);
}

TEST(GeluPass, LeavesOtherFactors) {
  GraphMaker m;
  const ValueId x = m.In("x", {60}), z = m.In("z", {60});
  const ValueId gate = m.Op("Add", {m.Op("Erf", {m.Op("Div", {x, m.Scalar(std::sqrt(2.0f))})}), m.Scalar(1)});
  m.Out(m.Op("Mul", {m.Op("Mul", {x, gate}), m.Scalar(0.25f)}));
  m.Out(m.Op("Mul", {m.Op("Mul", {z, gate}), m.Scalar(0.5f)}));
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kForce)).Effects("gelu"), 0);
}

// ---- layernorm

ValueId Normalised(GraphMaker& m, ValueId x, const std::vector<int64_t>& axes, bool multiply) {
  const ValueId d = m.Op("Sub", {x, m.Op("ReduceMean", {x, m.Ints(axes)})});
  const ValueId square = multiply ? m.Op("Mul", {d, d}) : m.Op("Pow", {d, m.Scalar(2)});
  const ValueId var = m.Op("ReduceMean", {square, m.Ints(axes)});
  return m.Op("Div", {d, m.Op("Sqrt", {m.Op("Add", {var, m.Scalar(1e-5f)})})});
}

TEST(LayerNormPass, WithAndWithoutScaleAndBias) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 20});
  m.Out(Normalised(m, x, {-1}, false));
  m.Out(m.Op("Mul", {Normalised(m, x, {2}, true), m.Random({20})}));
  m.Out(m.Op("Add", {m.Op("Mul", {Normalised(m, x, {-1, -2}, true), m.Random({3, 20})}), m.Random({3, 20})}));
  m.Out(m.Op("Add", {Normalised(m, m.In("z", {4, 20}), {-1}, false), m.Random({20})}));
  const Outcome o = ExpectFusionKeepsResults(m, 8);
  EXPECT_EQ(o.Effects("layernorm"), 4);
  EXPECT_EQ(o.prepared->nodes_run(), 4);
}

TEST(LayerNormPass, LeavesOtherAxesAndBroadcastScales) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 20});
  m.Out(Normalised(m, x, {1}, false));  // not the last axis
  m.Out(
      m.Op("Mul", {Normalised(m, x, {-1}, false), m.Random({3, 20})}));  // scale varies along other axes too
  const Outcome o = ExpectFusionKeepsResults(m, 8);
  EXPECT_EQ(o.Effects("layernorm"), 1);
  EXPECT_EQ(o.Count("Mul"), 1);
}

// ---- epilogue_fusion

TEST(EpilogueFusion, ConvWithResidualAndActivation) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 20, 9, 7});
  const ValueId a = m.Op("Relu", {Conv(m, x, 20, 24, 3)});
  const ValueId b = Conv(m, a, 24, 20);
  m.Out(m.Op("Relu", {m.Op("Add", {x, b})}));
  const Outcome o = ExpectFusionKeepsResults(m, 2000);
  EXPECT_EQ(o.Effects("epilogue_fusion"), 2);
  EXPECT_EQ(o.Count("Conv"), 2);
  EXPECT_EQ(o.Count("Add"), 0);
  ASSERT_FALSE(o.decisions.empty());
  for (const plan::Decision& d : o.decisions) EXPECT_FALSE(d.reason.empty()) << d.chain;
}

TEST(EpilogueFusion, MatMulWithBiasScaleAndFullOperand) {
  GraphMaker m;
  const ValueId x = m.In("x", {3, 17, 40});
  ValueId y = m.Op("MatMul", {x, m.Random({40, 33})});
  y = m.Op("Add", {y, m.Random({33})});
  y = m.Op("Gelu", {y});
  y = m.Op("Add", {y, m.In("r", {3, 17, 33})});
  m.Out(m.Op("Mul", {y, m.Random({17, 1})}));
  const Outcome o = ExpectFusionKeepsResults(m, 100);
  EXPECT_EQ(o.prepared->nodes_run(), 1);
}

TEST(EpilogueFusion, ASecondReaderEndsTheChain) {
  GraphMaker m;
  const ValueId x = m.In("x", {4, 8});
  const ValueId y = m.Op("MatMul", {x, m.Random({8, 8})});
  const ValueId z = m.Op("Add", {y, m.Random({8})});
  m.Out(m.Op("Relu", {z}));
  m.Out(m.Op("Softmax", {z}));
  const Outcome o = ExpectFusionKeepsResults(m, 20);
  EXPECT_EQ(o.Count("Relu"), 1);
  bool told = false, softmax = false;
  for (const plan::Decision& d : o.decisions) {
    told |= d.chain == "matmul+relu" && d.verdict == plan::Verdict::kRefuse &&
            d.reason.find("2 readers") != std::string::npos;
    softmax |= d.chain == "matmul+softmax" && d.verdict == plan::Verdict::kRefuse;
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(softmax);
}

TEST(EpilogueFusion, AValueReadTwiceInsideTheChainIsNoObstacle) {
  GraphMaker m;
  const ValueId y = m.Op("MatMul", {m.In("x", {4, 8}), m.Random({8, 8})});
  const ValueId t = m.Op("Tanh", {y});
  m.Out(m.Op("Add", {m.Op("Mul", {y, t}), m.Op("Sub", {t, y})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 60).prepared->nodes_run(), 1);
}

TEST(EpilogueFusion, NoCycleThroughALongerPath) {
  GraphMaker m;
  const ValueId x = m.In("x", {6, 6});
  const ValueId y = m.Op("MatMul", {x, m.Random({6, 6})});
  const ValueId around = m.Op("MatMul", {y, m.Random({6, 6})});
  m.Out(m.Op("Add", {m.Op("Relu", {y}), around}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 100).Count("MatMul"), 2);
}

TEST(EpilogueFusion, OffMeansOff) {
  GraphMaker m;
  m.Out(m.Op("Relu", {Conv(m, m.In("x", {1, 16, 4, 4}), 16, 16)}));
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kForce, "epilogue_fusion")).Count("Relu"), 1);
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kOff)).Count("Relu"), 1);
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto, "epilogue_fusion,no_such_pass"));
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.status().message().find("no_such_pass"), std::string::npos);
  EXPECT_NE(s.status().message().find("conv_bn_folding"), std::string::npos);
}

// ---- pointwise_chain

TEST(PointwiseChain, AChainBecomesOneProgram) {
  GraphMaker m;
  const ValueId x = m.In("x", {3, 200}), z = m.In("z", {200});
  const ValueId a = m.Op("Exp", {m.Op("Neg", {m.Op("Abs", {x})})});
  m.Out(m.Op("Sub", {m.Op("Mul", {a, z}), m.Op("Sqrt", {m.Op("Abs", {a})})}));
  const Outcome o = ExpectFusionKeepsResults(m, 8);
  EXPECT_EQ(o.prepared->nodes_run(), 1);
  EXPECT_EQ(o.Count("Program"), 1);
}

TEST(PointwiseChain, DoesNotRecomputeWhatIsBroadcast) {
  GraphMaker m;
  const ValueId gate = m.Op("Sigmoid", {m.Op("Neg", {m.In("g", {2, 8, 1, 1})})});
  m.Out(m.Op("Relu", {m.Op("Mul", {m.In("x", {2, 8, 5, 5}), gate})}));
  const Outcome o = ExpectFusionKeepsResults(m, 8);
  EXPECT_EQ(o.prepared->nodes_run(), 2);
}

TEST(PointwiseChain, ComparisonsAndSelection) {
  GraphMaker m;
  const ValueId x = m.In("x", {90}), z = m.In("z", {90});
  m.Out(m.Op("Where", {m.Op("Less", {x, z}), m.Op("Exp", {x}), m.Op("Neg", {z})}));
  const Outcome o = ExpectFusionKeepsResults(m, 64);
  EXPECT_EQ(o.prepared->nodes_run(), 1);
}

TEST(PointwiseChain, RandomGraphsKeepTheirResults) {
  const char* unary[] = {"Relu", "Neg", "Abs", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Swish"};
  const char* binary[] = {"Add", "Sub", "Mul", "Max", "Min"};
  for (auto _ : testing::FuzzFor(300)) {
    GraphMaker m;
    const bool image = m.rng().Chance(0.5);
    const int64_t c = m.rng().Int(1, 40);
    const Dims full = image ? Dims{2, c, 3, 5} : Dims{3, c};
    std::vector<ValueId> pool = {m.In("x", full), m.In("y", full)};
    const int nodes = static_cast<int>(m.rng().Int(3, 14));
    const auto pick = [&] {
      return pool[m.rng().Int(std::max<int64_t>(0, static_cast<int64_t>(pool.size()) - 4), pool.size() - 1)];
    };
    for (int i = 0; i < nodes; ++i) {
      const ValueId a = pick();
      const double p = m.rng().Real(0, 1);
      if (p < 0.25) {
        pool.push_back(image ? m.Op("Tanh", {Conv(m, a, c, c)})
                             : m.Op("Tanh", {m.Op("MatMul", {a, m.Random({c, c})})}));
      } else if (p < 0.6) {
        pool.push_back(m.Op(unary[m.rng().Int(0, 7)], {a}));
      } else if (p < 0.9) {
        pool.push_back(m.Op(binary[m.rng().Int(0, 4)], {a, pick()}));
      } else {
        pool.push_back(m.Op(binary[m.rng().Int(0, 4)], {a, image ? m.Random({c, 1, 1}) : m.Random({c})}));
      }
      if (m.rng().Chance(0.1)) m.Out(pool.back());
    }
    m.Out(pool.back());
    ExpectFusionKeepsResults(m,
                             1e5);  // products of products; what is looked for is a wrong value, not rounding
    if (::testing::Test::HasFailure()) {
      std::printf("%s", m.graph().ToString().c_str());
      return;
    }
  }
}

// A constant of more dims than x raises the rank of the result; the fused operators would not.
TEST(Patterns, ConstantsThatAddDimsAreNotFused) {
  const auto wide = [](GraphMaker& m, float c) {
    return m.Const(HostTensor::From<float>({1, 1, 1, 1}, {c}));
  };
  for (int wide_at = 0; wide_at < 4; ++wide_at) {
    GraphMaker m;
    const auto c = [&](int i, float v) { return i == wide_at ? wide(m, v) : m.Scalar(v); };
    const ValueId x = m.In("x", {2, 3});
    const ValueId clip = m.Op("Clip", {m.Op("Add", {x, c(0, 3)}), m.Scalar(0), m.Scalar(6)});
    m.Out(m.Op("Div", {m.Op("Mul", {x, clip}), c(1, 6)}));
    const ValueId erf = m.Op("Erf", {m.Op("Div", {x, c(2, 1.41421356f)})});
    m.Out(m.Op("Mul", {m.Op("Mul", {x, m.Op("Add", {erf, m.Scalar(1)})}), c(3, 0.5f)}));
    const Outcome o = ExpectFusionKeepsResults(m);
    for (int i : {0, 1})
      EXPECT_EQ(o.prepared->graph().values[o.prepared->graph().outputs[i]].desc.dims.rank(),
                i == wide_at / 2 ? 4 : 2);
  }
}

// ---- what is read and written

constexpr int64_t kParameters = 256;  // bytes: constants of a node, beside its images

TEST(Traffic, ChainsReadAndWriteOnce) {
  GraphMaker m;
  const Dims dims = {40, 500};
  const ValueId sum = m.Op("Add", {m.In("x", dims), m.In("z", dims)});
  m.Out(m.Op("Relu", {m.Op("Mul", {sum, m.Scalar(2)})}));
  const int64_t each = NumElements(dims) * 4;
  const int64_t fused = RunGraph(m, Mode(FusionMode::kForce)).prepared->bytes_moved();
  EXPECT_GE(fused, 3 * each);  // x, z and the result
  EXPECT_LE(fused, 3 * each + kParameters);
  const int64_t apart = RunGraph(m, Mode(FusionMode::kOff)).prepared->bytes_moved();
  EXPECT_GE(apart, 7 * each);
  EXPECT_LE(apart, 7 * each + kParameters);
}

TEST(Traffic, NormAndActivationAreOnePass) {
  GraphMaker m;
  const Dims dims = {2, 8, 30, 30};
  m.Out(m.Op("Relu", {BatchNorm(m, m.In("x", dims), 8)}));
  const int64_t each = NumElements(dims) * 4;
  const int64_t fused = RunGraph(m, Mode(FusionMode::kForce)).prepared->bytes_moved();
  EXPECT_GE(fused, 2 * each);
  EXPECT_LE(fused, 2 * each + kParameters);
  EXPECT_GE(RunGraph(m, Mode(FusionMode::kOff)).prepared->bytes_moved(), 4 * each);
}

// Behind a convolution they cost no traffic at all: two reads and two writes less than apart.
TEST(Traffic, ConvolutionsWriteTheirActivation) {
  GraphMaker m;
  const ValueId y = Conv(m, m.In("x", {1, 16, 30, 30}), 16, 16);
  m.Out(m.Op("Relu", {BatchNorm(m, y, 16)}));
  const int64_t each = int64_t{16} * 30 * 30 * 4;
  const int64_t fused = RunGraph(m, Mode(FusionMode::kForce)).prepared->bytes_moved();
  const int64_t apart = RunGraph(m, Mode(FusionMode::kOff)).prepared->bytes_moved();
  EXPECT_GE(apart - fused, 4 * each);
}

}  // namespace
}  // namespace opsnn::graph
