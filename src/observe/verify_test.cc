// verify on small graphs: it passes on what is right, and a fault put into a graph pass is found, with the
// first node that it makes wrong and the pass.
#include "observe/verify.h"

#include "graph/control.h"
#include "graph/graph_tester.h"
#include "graph/infer.h"
#include "observe/check.h"
#include "observe/compare.h"

namespace opsnn::observe {
namespace {

using graph::Graph;
using graph::GraphMaker;
using graph::Node;
using graph::ValueId;

// Conv0 + relu, Conv2 + hard-swish in parts, residual, gelu in parts, product + bias, softmax.
void MakeModel(GraphMaker& m) {
  const ValueId x = m.In("x", {2, 5, 9, 7});
  const op::AttrValue pads = std::vector<int64_t>{1, 1, 1, 1};
  const ValueId a =
      m.Op("Relu", {m.Op("Conv", {x, m.Random({8, 5, 3, 3}), m.Random({8})}, {{"pads", pads}})});
  const ValueId c = m.Op("Conv", {a, m.Random({8, 8, 3, 3})}, {{"pads", pads}});
  const ValueId gate = m.Op("Clip", {m.Op("Add", {c, m.Scalar(3)}), m.Scalar(0), m.Scalar(6)});
  const ValueId h = m.Op("Div", {m.Op("Mul", {c, gate}), m.Scalar(6)});
  const ValueId r = m.Op("Add", {h, a});
  const ValueId flat = m.Op("Reshape", {r, m.Ints({2, 8 * 63})});
  const ValueId p =
      m.Op("Add", {m.Op("MatMul", {flat, m.Random({8 * 63, 24}, -0.002, 0.002)}), m.Random({24})});
  const ValueId erf = m.Op("Erf", {m.Op("Div", {p, m.Scalar(1.41421356f)})});
  const ValueId g = m.Op("Mul", {m.Op("Mul", {p, m.Op("Add", {erf, m.Scalar(1)})}), m.Scalar(0.5)});
  m.Out(m.Op("Softmax", {g}, {{"axis", int64_t{-1}}}));
  m.Out(g);  // else the softmax joins the product, and hides what the forms of gelu differ by
  m.Out(m.Op("ReduceMean", {r, m.Ints({1})}));
}

VerifyReport Check(Graph g, const graph::Feeds& feeds, NumericsPolicy policy, FusionMode fusion) {
  graph::SessionOptions options;
  options.policy = policy;
  options.fusion = fusion;
  options.passes_off = "";
  EXPECT_TRUE(graph::InferGraph(g, {.fold = false, .concrete = false}).ok());  // as the importer does
  auto fused = graph::Session::Create(g, options);
  options.fusion = FusionMode::kOff;
  auto unfused = graph::Session::Create(g, options);
  EXPECT_TRUE(fused.ok() && unfused.ok());
  auto report = Verify(**fused, **unfused, feeds, nullptr);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : VerifyReport();
}

// A convolution by Winograd's algorithm is within its own bound, which counts all pixels that share a tile,
// beside values of very different size; under `exact` it is a plain sum.
class WinogradBound : public ::testing::TestWithParam<int64_t> {};  // kernel side
TEST_P(WinogradBound, HoldsAndIsItsOwn) {
  GraphMaker m;
  const int64_t side = GetParam();
  const ValueId x = m.In("x", {1, 64, 30, 30});
  const op::AttrValue pads = std::vector<int64_t>(4, side / 2);
  m.Out(m.Op("Relu", {m.Op("Conv", {x, m.Random({64, 64, side, side}), m.Random({64})}, {{"pads", pads}})}));
  graph::Feeds feeds = m.RandomFeeds();
  auto spiked = std::make_shared<HostTensor>(DType::kF32, Dims{1, 64, 30, 30});
  std::copy_n(feeds.at("x")->as<float>(), spiked->size(), spiked->as<float>());
  for (int64_t i = 0; i < spiked->size(); i += 997) spiked->as<float>()[i] = 3e4f;
  feeds["x"] = spiked;
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    const VerifyReport r = Check(m.graph(), feeds, policy, FusionMode::kAuto);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
    graph::SessionOptions options;
    options.policy = policy;
    auto session = graph::Session::Create(m.graph(), options);
    ASSERT_TRUE(session.ok());
    auto run = (*session)->Run(feeds, {});
    ASSERT_TRUE(run.ok());
    bool winograd = false;
    for (const Node& n : run->prepared->graph().nodes) winograd |= !n.dead && WinogradTile(n) != 0;
    EXPECT_EQ(winograd, policy == NumericsPolicy::kExcess);
  }
}
INSTANTIATE_TEST_SUITE_P(Verify, WinogradBound, ::testing::Values(3, 5));

TEST(Verify, PassesOnWhatIsRight) {
  for (auto _ : testing::FuzzFor(300)) {
    GraphMaker m;
    MakeModel(m);
    for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
      for (const FusionMode fusion : {FusionMode::kAuto, FusionMode::kForce}) {
        const VerifyReport r = Check(m.graph(), m.RandomFeeds(), policy, fusion);
        EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
        EXPECT_EQ(r.unchecked, 0);
        EXPECT_EQ(r.guilty_pass, "");
        EXPECT_GT(r.nodes, 12);
        EXPECT_LE(r.worst.share, 1);
      }
    }
  }
}

// What runs inside of an If is checked like the model around it, for the condition that is fed.
TEST(Verify, SeesTheBranchThatRuns) {
  GraphMaker m, then, other;
  const ValueId x = m.In("x", {4, 6}), cond = m.In("c", {}, DType::kBool);
  const op::AttrValue floats = std::vector<int64_t>{static_cast<int64_t>(DType::kF32)};
  m.Out(m.Op("Relu", {m.Op("If", {cond, x, x}, {{"dtypes", floats}})}));
  then.Out(then.Op("Tanh", {then.Op("MatMul", {then.In("x", {4, 6}), then.Random({6, 5})})}));
  other.Out(other.Op("Neg", {other.In("x", {4, 6})}));
  Graph g = m.graph();
  for (Node& n : g.nodes)
    if (n.op->name == "If") graph::SetBodies(n, {then.graph(), other.graph()});
  for (const bool taken : {true, false}) {
    auto c = std::make_shared<HostTensor>(DType::kBool, Dims{});
    WriteElement(c->data(), DType::kBool, taken);
    const VerifyReport r = Check(g, {{"x", m.RandomTensor({4, 6}, -1, 1)}, {"c", c}}, NumericsPolicy::kExcess,
                                 FusionMode::kAuto);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
    EXPECT_EQ(r.unchecked, 0);
    EXPECT_GE(r.nodes, taken ? 4 : 3);
  }
}

// Near the zero of hard-swish the sum x + 3 rounds to nothing, while the one stage rounds as x / 6 + 1/2
// does.
TEST(Verify, FormsMayDifferWhereASumCancels) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const ValueId x = m.In("x", {4096});
    const ValueId gate = m.Op("Clip", {m.Op("Add", {x, m.Scalar(3)}), m.Scalar(0), m.Scalar(6)});
    m.Out(m.Op("Div", {m.Op("Mul", {x, gate}), m.Scalar(6)}));
    const graph::Feeds feeds{{"x", m.RandomTensor({4096}, -3.001, -2.999)}};
    const VerifyReport r = Check(m.graph(), feeds, NumericsPolicy::kExcess, FusionMode::kForce);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
  }
}

// What moves values behind a node carries that node's own rounding, also where operands differ by form.
TEST(Verify, CopiesBehindANodeKeepItsRounding) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const ValueId x = m.In("x", {4, 5, 64});
    const ValueId centred = m.Op("Sub", {x, m.Op("ReduceMean", {x, m.Ints({2})})});
    const ValueId y = m.Op("Softmax", {m.Op("Relu", {m.Op("Add", {centred, x})})});
    m.Out(m.Op("Identity", {m.Op("Tanh", {y})}));
    const VerifyReport r = Check(m.graph(), m.RandomFeeds(), NumericsPolicy::kExcess, FusionMode::kForce);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
    EXPECT_EQ(r.guilty_pass, "");
  }
}

// Nodes that run in the order of their neighbours.
void MakePlaced(GraphMaker& m) {
  using Ints = std::vector<int64_t>;
  const auto conv = [&](ValueId x, int64_t in, int64_t out) {
    const ValueId first = m.Op("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
    const ValueId y = m.Op("Conv", {first, m.Random({out, in, 3, 3})}, {{"pads", Ints(4, 1)}});
    return m.Op("Transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}});
  };
  ValueId y = m.Op("Relu", {conv(m.In("x", {2, 6, 7, 5}), 5, 20)});
  y = m.Op("Concat", {m.Op("Mul", {m.Op("Add", {y, m.Random({20})}), m.Random({7, 1})}), y},
           {{"axis", int64_t{-1}}});
  y = m.Op("Pad", {y, m.Ints({0, 1, 0, 0, 0, 1, 2, 0})});
  m.Out(m.Op("Sigmoid", {m.Op("Neg", {conv(y, 40, 8)})}));
}

// Every value that the model names is checked, and those in another order against it.
TEST(Verify, TransposesPlacedElsewhere) {
  GraphMaker m;
  MakePlaced(m);
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    const VerifyReport r = Check(m.graph(), m.RandomFeeds(), policy, FusionMode::kForce);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
    EXPECT_EQ(r.unchecked, 0);
  }
}

// Images whose transposes a conversion took over are checked in the order of the model.
TEST(Verify, ImagesInOtherOrders) {
  const auto transpose = [](GraphMaker& m, ValueId x, const std::vector<int64_t>& perm) {
    return m.Op("Transpose", {x}, {{"perm", perm}});
  };
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const int64_t c = m.rng().Int(17, 40);
    const ValueId x = transpose(m, m.In("x", {2, 5, 6, c}), {0, 3, 1, 2});
    const ValueId y = transpose(m, m.Op("Conv", {x, m.Random({c, c, 1, 1})}), {0, 2, 3, 1});
    m.Out(y);
    m.Out(transpose(m, m.Op("Cast", {m.In("z", {2, 5, 6, 7})}, {{"to", int64_t{10}}}), {0, 3, 1, 2}));
    for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
      const VerifyReport r = Check(m.graph(), m.RandomFeeds(), policy, FusionMode::kForce);
      EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
      EXPECT_EQ(r.unchecked, 0);
    }
  }
}

// ---- faults
class VerifyFault : public ::testing::Test {
 protected:
  void TearDown() override { graph::SetPassFaultForTest(""); }

  VerifyReport CheckWith(const std::string& pass, std::function<void(Graph&)> fault,
                         NumericsPolicy policy = NumericsPolicy::kExcess) {
    GraphMaker m;
    MakeModel(m);
    graph::SetPassFaultForTest(pass, std::move(fault));
    VerifyReport r = Check(m.graph(), m.RandomFeeds(), policy, FusionMode::kForce);
    EXPECT_FALSE(r.ok);
    EXPECT_EQ(r.guilty_pass, pass);
    return r;
  }
  static Node* Find(Graph& g, const std::string& op, int skip = 0) {
    for (Node& n : g.nodes)
      if (!n.dead && n.op->name == op && skip-- == 0) return &n;
    return nullptr;
  }
};

TEST_F(VerifyFault, ConstantOfAFusedTail) {
  const VerifyReport r = CheckWith(
      "epilogue_fusion",
      [](Graph& g) {
        for (Node& n : g.nodes) {
          if (n.op->name != "Conv" || !n.tail) continue;
          auto tail = std::make_shared<op::FusedTail>(*n.tail);
          for (Stage& s : tail->program.stages)
            if (s.op == StageOp::kConst && s.imm[0] == 3) s.imm[0] = 3.01;
          n.tail = tail;
        }
      },
      NumericsPolicy::kExact);
  EXPECT_NE(r.first_bad.find("Conv2"), std::string::npos) << r.first_bad;
}

TEST_F(VerifyFault, StageLostByThePointwiseChain) {
  const VerifyReport r = CheckWith("pointwise_chain", [](Graph& g) {
    for (Node& n : g.nodes) {
      if (!n.tail) continue;
      auto tail = std::make_shared<op::FusedTail>(*n.tail);
      for (Stage& s : tail->program.stages)
        if (s.op == StageOp::kRelu) s.op = StageOp::kCopy;
      n.tail = tail;
    }
  });
  EXPECT_NE(r.first_bad.find("Conv0"), std::string::npos) << r.first_bad;
}

TEST_F(VerifyFault, WrongFormOfAnActivation) {
  const VerifyReport r = CheckWith("gelu", [](Graph& g) {
    if (Node* n = Find(g, "Gelu")) n->attrs.Set("approximate", std::string("tanh"));
  });
  EXPECT_NE(r.first_bad.find("Mul"), std::string::npos) << r.first_bad;
}

TEST_F(VerifyFault, OperandsMixedUp) {
  const VerifyReport r = CheckWith("dead_code", [](Graph& g) {
    Node* relu = Find(g, "Relu");
    Node* reduce = Find(g, "ReduceMean");
    if (relu && reduce) reduce->inputs[0] = relu->outputs[0];
  });
  EXPECT_NE(r.first_bad.find("ReduceMean"), std::string::npos) << r.first_bad;
}

TEST_F(VerifyFault, ResultsSwapped) {
  const VerifyReport r = CheckWith("layout", [](Graph& g) {
    if (Node* n = Find(g, "ReduceMean")) g.outputs[2] = n->inputs[0];
  });
  EXPECT_NE(r.first_bad.find("output"), std::string::npos) << r.first_bad;
}

// Within the bounds of its node, but the exact policy promises bits.
TEST_F(VerifyFault, OneBitUnderTheExactPolicy) {
  const VerifyReport r = CheckWith(
      "epilogue_fusion",
      [](Graph& g) {
        for (Node& n : g.nodes) {
          if (n.op->name != "Conv" || !n.tail) continue;
          auto tail = std::make_shared<op::FusedTail>(*n.tail);
          for (Stage& s : tail->program.stages)
            if (s.op == StageOp::kConst && s.imm[0] == 6) s.imm[0] = 6 * (1 + 0x1p-23);
          n.tail = tail;
        }
      },
      NumericsPolicy::kExact);
  EXPECT_EQ(r.first_bad, "");
  EXPECT_NE(r.first_difference.find("exact policy"), std::string::npos) << r.first_difference;
}

// Differences travel through every result of a node that moves values.
TEST(Verify, DifferencesThroughSplit) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const ValueId x = m.In("x", {4, 24});
    const ValueId h = m.Op("MatMul", {x, m.Random({24, 36}, -0.3, 0.3)});
    const ValueId root = m.Op("Div", {h, m.Scalar(1.41421356f)});
    const ValueId g =
        m.Op("Mul", {m.Op("Mul", {h, m.Op("Add", {m.Op("Erf", {root}), m.Scalar(1)})}), m.Scalar(0.5)});
    const ValueId first = m.Op("Split", {m.Op("MatMul", {g, m.Random({36, 36})}), m.Ints({12, 12, 12})},
                               {{"axis", int64_t{1}}}, 3);
    for (int i = 0; i < 3; ++i) m.Out(m.Op("MatMul", {first + i, m.Random({12, 7})}));
    const VerifyReport r = Check(m.graph(), m.RandomFeeds(), NumericsPolicy::kExcess, FusionMode::kForce);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
  }
}

// Layers whose sums stand at ties of what is quantised, one result in two: either neighbour is right, and so
// is what follows from it.
void MakeQuantised(GraphMaker& m) {
  const ValueId s = m.Scalar(0.1f), z = m.Const(HostTensor::From<uint8_t>({}, {128}));
  ValueId y = m.Op("QuantizeLinear", {m.In("x", {1, 16, 6, 7}), s, z});
  for (int i = 0; i < 4; ++i) {
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({16, 16, 1, 1}, -9, 9, DType::kS8), m.Scalar(0.05f)});
    ValueId c = m.Op("Conv", {m.Op("DequantizeLinear", {y, s, z}), w, m.Random({16}, -0.001, 0.001)});
    if (i == 2) c = m.Op("Add", {c, m.Op("DequantizeLinear", {y, s, z})});
    y = m.Op("QuantizeLinear", {c, s, z});
  }
  m.Out(m.Op("Relu", {m.Op("DequantizeLinear", {y, s, z})}));
}

TEST(Verify, TiesOfQuantisedLayers) {
  for (auto _ : testing::FuzzFor(300)) {
    GraphMaker m;
    MakeQuantised(m);
    const VerifyReport r = Check(m.graph(), m.RandomFeeds(), NumericsPolicy::kExcess, FusionMode::kForce);
    EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
  }
}

// A scale that is off by one in fifty is no tie.
TEST_F(VerifyFault, ScaleOfAnIntegerProduct) {
  GraphMaker m;
  MakeQuantised(m);
  bool changed = false;
  graph::SetPassFaultForTest("integer_products", [&](Graph& g) {
    if (!Find(g, "ConvInteger")) return;
    for (graph::Value& v : g.values) {
      if (v.name.find(":scale") == std::string::npos || !v.desc.constant) continue;
      auto c = std::make_shared<HostTensor>(DType::kF32, v.desc.constant->dims());
      for (int64_t i = 0; i < c->size(); ++i) c->as<float>()[i] = v.desc.constant->as<float>()[i] * 1.02f;
      v.desc.constant = c, changed = true;
    }
  });
  const VerifyReport r = Check(m.graph(), m.RandomFeeds(), NumericsPolicy::kExcess, FusionMode::kForce);
  EXPECT_EQ(r.ok, !changed);  // unless this CPU multiplies bytes no faster than floats
  EXPECT_EQ(r.guilty_pass, changed ? "integer_products" : "") << r.first_bad << r.first_difference;
}

// What a fused chain keeps in f32 was rounded to a half in between when it ran in parts.
TEST(Verify, HalvesInChains) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    for (const DType t : {DType::kF16, DType::kBF16}) {
      const ValueId x = m.In(Name(t), {7, 33}, t);
      const auto half = [&](float v) {
        auto c = std::make_shared<HostTensor>(t, Dims());
        WriteElement(c->data(), t, v);
        return m.Const(c);
      };
      const ValueId s = m.Op("Add", {m.Op("Mul", {x, half(0.7f)}), half(0.3f)});
      m.Out(m.Op("Gelu", {m.Op("Sub", {m.Op("Exp", {s}), half(1.5f)})}));
    }
    graph::Feeds feeds;
    for (const DType t : {DType::kF16, DType::kBF16}) {
      auto c = std::make_shared<HostTensor>(t, Dims{7, 33});
      for (int64_t i = 0; i < c->size(); ++i) WriteElement(c->as<char>() + 2 * i, t, m.rng().Real(-2, 2));
      feeds[Name(t)] = c;
    }
    for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
      const VerifyReport r = Check(m.graph(), feeds, policy, FusionMode::kForce);
      EXPECT_TRUE(r.ok) << r.first_bad << r.first_difference;
    }
  }
}

// A node whose result the model knows in another order answers for it itself.
TEST_F(VerifyFault, NodeInAnotherOrder) {
  for (const char* op : {"Relu", "Add"}) {
    GraphMaker m;
    MakePlaced(m);
    bool placed = false;
    graph::SetPassFaultForTest("transpose_placement", [&](Graph& g) {
      Node* n = Find(g, op);
      placed = n && g.values[n->outputs[0]].reordered;
      if (!placed) return;
      n->op = op::FindOperator(std::string(op) == "Relu" ? "Abs" : "Sub");
    });
    const VerifyReport r = Check(m.graph(), m.RandomFeeds(), NumericsPolicy::kExcess, FusionMode::kForce);
    ASSERT_TRUE(placed) << op;
    EXPECT_FALSE(r.ok) << op;
    EXPECT_EQ(r.guilty_pass, "transpose_placement") << op;
    for (const NodeCheck& c : r.checks)
      if (!c.ok) {
        EXPECT_NE(c.op.find(op), std::string::npos) << c.node << " " << c.op;
      }
  }
}

// A fault outside the passes clears them: here the unfused form is a model with another constant.
TEST(Verify, NoPassAtFault) {
  GraphMaker m;
  const ValueId x = m.In("x", {33});
  m.Out(m.Op("Add", {x, m.Scalar(1)}));
  Graph other = m.graph();
  for (graph::Value& v : other.values)
    if (v.desc.constant) v.desc.constant = HostTensor::From<float>({}, {1.0001f});
  auto fused = graph::Session::Create(m.graph());
  auto unfused = graph::Session::Create(other);
  ASSERT_TRUE(fused.ok() && unfused.ok());
  auto r = Verify(**fused, **unfused, m.RandomFeeds(), nullptr);
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->ok);
  EXPECT_EQ(r->guilty_pass, "");
}

TEST(Compare, NanInfAndShares) {
  const double inf = HUGE_VAL, nan = std::nan("");
  EXPECT_EQ(Compare({nan, inf, 1}, {nan, inf, 1}, {0, 0, 0}).share, 0);
  EXPECT_EQ(Compare({nan}, {1}, {5}).share, inf);
  EXPECT_EQ(Compare({inf}, {-inf}, {5}).share, inf);
  const Comparison c = Compare({1, 2.5}, {1, 2}, {1, 0.25});
  EXPECT_EQ(c.share, 2);
  EXPECT_EQ(c.worst, 1);
  EXPECT_EQ(c.max_abs, 0.5);
  EXPECT_EQ(Compare({}, {}, {}).cosine, 1);
}

}  // namespace
}  // namespace opsnn::observe
