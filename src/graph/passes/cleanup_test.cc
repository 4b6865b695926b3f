// Folding, removal, reshapes and transposes, layouts.
#include "graph/call.h"
#include "graph/graph_tester.h"
#include "graph/passes/passes.h"

namespace opsnn::graph {
namespace {

TEST(ConstantFolding, ShapeArithmeticDisappears) {
  GraphMaker m;
  const ValueId x = m.In("x", {kUnknownDim, 6});
  const ValueId n = m.Op("Slice", {m.Op("Shape", {x}), m.Ints({0}), m.Ints({1})});
  const ValueId shape = m.Op("Concat", {n, m.Ints({2, -1})}, {{"axis", int64_t{0}}});
  m.Out(m.Op("Relu", {m.Op("Reshape", {x, shape})}));
  Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  EXPECT_EQ(o.prepared->nodes_run(), 1);
  EXPECT_EQ(o.prepared->graph().values[o.prepared->graph().outputs[0]].desc.dims, (Dims{2, 2, 3}));
  // Switched off, the arithmetic runs, and the result is the same.
  Outcome off = RunGraph(m, Mode(FusionMode::kAuto, "constant_folding"));
  EXPECT_GT(off.prepared->nodes_run(), 3);
  EXPECT_EQ(off.outputs, o.outputs);
}

TEST(ConstantFolding, NodesOnWeightsAreComputedOnce) {
  GraphMaker m;
  const ValueId w = m.Op("Transpose", {m.Random({5, 4})}, {{"perm", std::vector<int64_t>{1, 0}}});
  m.Out(m.Op("MatMul", {m.In("x", {3, 4}), w}));
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  ASSERT_TRUE(s.ok());
  EXPECT_EQ((*s)->loaded().nodes.size(), 1u);
}

class HungryKernel : public op::Kernel {
 public:
  Status Run(const op::RunArgs&) const override { return OkStatus(); }
  size_t workspace_bytes() const override { return SIZE_MAX / 2; }
  std::string variant() const override { return "hungry"; }
};

TEST(ConstantFolding, AWorkspaceThatCannotBeHadIsAnError) {
  GraphMaker m;
  const ValueId y = m.Op("Relu", {m.Scalar(1)});
  op::OpDef def = *op::FindOperator("Relu");
  def.plan = [](const op::PlanContext&) -> Result<op::KernelPtr> {
    return op::KernelPtr(std::make_shared<HungryKernel>());
  };
  Graph g = m.graph();
  g.nodes[0].op = &def;
  g.values[y].desc.known_rank = true;
  const auto r = EvaluateNode(g, g.nodes[0]);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find("workspace"), std::string::npos);
}

TEST(IdentityRemoval, NeutralOperatorsGo) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3});
  ValueId y = m.Op("Identity", {x});
  y = m.Op("Mul", {y, m.Scalar(1)});
  y = m.Op("Reshape", {y, m.Ints({2, 3})});
  y = m.Op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 1}}});
  y = m.Op("Slice", {y, m.Ints({0}), m.Ints({100})});
  y = m.Op("Relu", {y});
  m.Out(m.Op("Identity", {y}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kOff));
  EXPECT_EQ(o.prepared->nodes_run(), 1);
  EXPECT_EQ(o.prepared->graph().values[o.prepared->graph().outputs[0]].name, "Identity6.0");
}

TEST(IdentityRemoval, KeepsWhatChangesSomething) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3});
  m.Out(m.Op("Add", {x, m.Scalar(0)}));  // -0 becomes +0
  m.Out(m.Op("Sub", {m.Scalar(0), x}));
  m.Out(m.Op("Slice", {x, m.Ints({-1}), m.Ints({-100}), m.Ints({1}), m.Ints({-1})}));  // reversed
  m.Out(m.Op("Pad", {x, m.Ints({0, 1, 0, -1})}));                                      // shifted
  m.Out(m.Op("Mul", {x, m.Const(HostTensor::From<float>({1, 1, 1}, {1}))}));           // gains a dim
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kOff)).Effects("identity_removal"), 0);
}

TEST(IdentityRemoval, AnInputThatIsAnOutputIsCopied) {
  GraphMaker m;
  const ValueId x = m.In("x", {4});
  m.Out(m.Op("Identity", {x}));
  m.Out(m.Op("Reshape", {x, m.Ints({2, 2})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  EXPECT_EQ(o.outputs[0], ToDoubles(*m.RandomFeeds().at("x")));
  EXPECT_EQ(o.outputs[1], o.outputs[0]);
}

TEST(Cse, EqualNodesBecomeOne) {
  GraphMaker m;
  const ValueId x = m.In("x", {8});
  const ValueId a = m.Op("Add", {m.Op("Exp", {x}), m.Scalar(2)}),
                b = m.Op("Add", {m.Op("Exp", {x}), m.Scalar(2)});
  const ValueId c = m.Op("Add", {m.Op("Exp", {x}), m.Scalar(3)});
  m.Out(m.Op("Mul", {m.Op("Mul", {a, b}), c}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kOff));
  EXPECT_EQ(o.Count("Exp"), 1);
  EXPECT_EQ(o.Count("Add"), 2);
}

TEST(DeadCode, UnreadNodesDoNotRun) {
  GraphMaker m;
  const ValueId x = m.In("x", {8});
  m.Op("Exp", {m.Op("Neg", {x})});
  m.Out(m.Op("Relu", {x}));
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kOff)).prepared->nodes_run(), 1);
}

TEST(Transposes, ComposeCancelAndMergeIntoMatMul) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 4}), z = m.In("z", {2, 5, 4});
  const std::vector<int64_t> there = {2, 0, 1}, back = {1, 2, 0}, swap = {0, 2, 1};
  m.Out(m.Op("Neg", {m.Op("Transpose", {m.Op("Transpose", {x}, {{"perm", there}})}, {{"perm", back}})}));
  m.Out(m.Op("Neg", {m.Op("Transpose", {m.Op("Transpose", {x}, {{"perm", there}})}, {{"perm", there}})}));
  m.Out(m.Op("MatMul", {x, m.Op("Transpose", {z}, {{"perm", swap}})}));
  m.Out(m.Op("MatMul", {m.Op("Transpose", {x}, {{"perm", swap}}), x}));
  const Outcome o = ExpectFusionKeepsResults(m, 100);
  EXPECT_EQ(o.Count("Transpose"), 1);
}

TEST(Transposes, MovingOnlySizeOneIsAView) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 1, 5});
  m.Out(m.Op("Neg", {m.Op("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m).prepared->nodes_run(), 1);
}

TEST(Reshapes, OneReshapeForMany) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 4});
  ValueId y = m.Op("Reshape", {x, m.Ints({6, 4})});
  y = m.Op("Unsqueeze", {y, m.Ints({0})});
  m.Out(m.Op("Neg", {m.Op("Reshape", {y, m.Ints({2, 3, 4})})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m).prepared->steps().size(), 1u);
}

// ---- layout

int Conversions(const Outcome& o) { return o.Count("TransData"); }

TEST(LayoutPass, BlockedFromTheFirstConvolutionToTheHead) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 12, 10});
  const auto conv = [&](ValueId in, int64_t c, int64_t oc, int64_t k) {
    return m.Op("Conv", {in, m.Random({oc, c, k, k})}, {{"pads", std::vector<int64_t>(4, k / 2)}});
  };
  ValueId y = m.Op("Relu", {conv(x, 3, 20, 3)});
  y = m.Op("MaxPool", {y},
           {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  const ValueId gate = m.Op("HardSigmoid", {conv(m.Op("GlobalAveragePool", {y}), 20, 20, 1)});
  y = m.Op("Add", {m.Op("Mul", {y, gate}), m.Random({1, 20, 1, 1})});
  y = m.Op("Concat", {y, conv(y, 20, 12, 1)}, {{"axis", int64_t{1}}});
  y = m.Op("Flatten", {m.Op("GlobalAveragePool", {y})});
  m.Out(m.Op("Softmax", {y}));
  for (FusionMode mode : {FusionMode::kOff, FusionMode::kForce}) {
    const Outcome blocked = RunGraph(m, Mode(mode)), plain = RunGraph(m, Mode(mode, "layout"));
    EXPECT_EQ(Conversions(blocked), 1);  // before the Flatten
    EXPECT_EQ(Conversions(plain), 0);
    EXPECT_EQ("", testing::Compare(blocked.outputs[0], plain.outputs[0], 1e-5, 1e-4));
  }
}

TEST(LayoutPass, OnePixelAndWholeBlocksNeedNoCopy) {
  for (int64_t c : {32, 20}) {
    GraphMaker m;
    const ValueId x = m.In("x", {2, 8, 5, 5});
    const ValueId y = m.Op("GlobalAveragePool", {m.Op("Conv", {x, m.Random({c, 8, 1, 1})})});
    m.Out(m.Op("MatMul", {m.Op("Reshape", {y, m.Ints({2, -1})}), m.Random({c, 3})}));
    const Outcome o = ExpectFusionKeepsResults(m, 20);
    // x is converted; the pooled result only where its last block is padded.
    EXPECT_EQ(o.prepared->nodes_run(), c % 16 == 0 ? 4 : 5);
  }
}

TEST(LayoutPass, OutputsAreLogicalAndValuesKeepTheirNames) {
  GraphMaker m;
  const ValueId y = m.Op("Conv", {m.In("x", {1, 16, 4, 4}), m.Random({16, 16, 1, 1})});
  m.Out(y);
  m.Out(m.Op("Conv", {y, m.Random({16, 16, 1, 1})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kForce), true);
  const Graph& g = o.prepared->graph();
  EXPECT_EQ(g.values[g.outputs[0]].desc.layout, Layout());
  EXPECT_EQ(g.values[g.outputs[1]].desc.layout, Layout());
  EXPECT_EQ(o.captured.at("Conv0.0"), o.outputs[0]);
  EXPECT_EQ(o.captured.at("Conv1.0"), o.outputs[1]);
}

}  // namespace
}  // namespace opsnn::graph
