// If and Loop: whatever decides may be constant, follow from shapes, be fed or be computed.
#include "graph/control.h"

#include "base/buffer_stats.h"
#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

const op::AttrValue kFloats = std::vector<int64_t>{static_cast<int64_t>(DType::kF32)};
const op::AttrValue kTwoFloats = std::vector<int64_t>(2, static_cast<int64_t>(DType::kF32));

ConstTensor Floats(const std::vector<float>& v) {
  return HostTensor::From<float>({static_cast<int64_t>(v.size())}, v);
}
ConstTensor Truth(bool b) {
  auto t = std::make_shared<HostTensor>(DType::kBool, Dims{});
  WriteElement(t->data(), DType::kBool, b);
  return t;
}

std::unique_ptr<Session> Load(const GraphMaker& m, const std::vector<Graph>& bodies) {
  Graph g = m.graph();
  for (Node& n : g.nodes)
    if (n.op->op_class == op::OpClass::kControl) SetBodies(n, bodies);
  auto s = Session::Create(std::move(g), Mode(FusionMode::kAuto));
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

std::vector<std::vector<double>> Results(Session& s, const Feeds& feeds) {
  auto r = s.Run(feeds);
  EXPECT_TRUE(r.ok()) << r.status().message();
  std::vector<std::vector<double>> all;
  if (r.ok())
    for (const ConstTensor& t : r->outputs) all.push_back(ToDoubles(*t));
  return all;
}

// then: relu(x); else: the first two of -x.
std::vector<Graph> Branches() {
  GraphMaker then, other;
  then.Out(then.Op("Relu", {then.In("x", {kUnknownDim})}));
  const ValueId negated = other.Op("Neg", {other.In("x", {kUnknownDim})});
  other.Out(other.Op("Slice", {negated, other.Ints({0}), other.Ints({2})}));
  return {then.graph(), other.graph()};
}

TEST(Control, TheBranchThatIsTakenRuns) {
  const Feeds x = {{"x", Floats({3, -1, 4})}};
  const auto expect = [&](Session& s, Feeds feeds, bool taken) {
    for (int again = 0; again < 2; ++again) {
      const auto y = Results(s, feeds);
      ASSERT_EQ(y.size(), 1u);
      EXPECT_EQ(y[0], taken ? (std::vector<double>{6, 0, 8}) : (std::vector<double>{-6, 2}));
    }
  };
  const auto model = [](GraphMaker& m, ValueId in, ValueId cond) {
    const ValueId z = m.Op("If", {cond, in, in}, {{"dtypes", kFloats}});
    m.Out(m.Op("Add", {z, z}));
  };
  for (const bool taken : {true, false}) {
    GraphMaker constant, fed, computed, shaped;
    model(constant, constant.In("x", {kUnknownDim}), constant.Const(Truth(taken)));
    auto s = Load(constant, Branches());
    expect(*s, x, taken);
    for (const Node& n : (*s->Prepare({{"x", {3}}}))->graph().nodes) EXPECT_NE(n.op->name, "If");

    const ValueId in = fed.In("x", {kUnknownDim});
    model(fed, in, fed.In("cond", {}, DType::kBool));
    s = Load(fed, Branches());
    for (const bool now : {taken, !taken}) expect(*s, {{"x", x.at("x")}, {"cond", Truth(now)}}, now);

    const ValueId y = computed.In("x", {kUnknownDim});
    const ValueId sum = computed.Op("ReduceSum", {y}, {{"keepdims", int64_t{0}}});
    model(computed, y, computed.Op(taken ? "Greater" : "Less", {sum, computed.Scalar(0)}));
    s = Load(computed, Branches());
    expect(*s, x, taken);

    const ValueId z = shaped.In("x", {kUnknownDim});
    const ValueId size = shaped.Op("Size", {z});
    model(shaped, z,
          shaped.Op(taken ? "Less" : "Greater", {size, shaped.Const(HostTensor::From<int64_t>({}, {9}))}));
    s = Load(shaped, Branches());
    expect(*s, x, taken);
  }
}

// state = state + x while state < limit; the scan output is the number of the pass, squared.
Graph Adder(bool by_value) {
  GraphMaker b;
  const ValueId pass = b.In("i", {}, DType::kS64), go = b.In("go", {}, DType::kBool);
  const ValueId state = b.In("s", {2}), x = b.In("x", {2}), limit = b.In("limit", {});
  const ValueId next = b.Op("Add", {state, x});
  const ValueId sum = b.Op("ReduceSum", {next}, {{"keepdims", int64_t{0}}});
  b.Out(by_value ? b.Op("Less", {sum, limit}) : b.Op("Identity", {go}));
  b.Out(next);
  const ValueId number = b.Op("Cast", {pass}, {{"to", int64_t{1}}});
  b.Out(b.Op("Mul", {number, number}));
  return b.graph();
}

TEST(Control, LoopsOfPassesThatAreCountedOrDependOnValues) {
  for (const bool by_value : {false, true}) {
    for (const int64_t most : {0, 1, 5}) {
      GraphMaker m;
      const ValueId x = m.In("x", {2});
      const ValueId count = m.Const(HostTensor::From<int64_t>({}, {most}));
      const ValueId y = m.Op("Loop", {count, kNoValue, m.Const(Floats({0, 1})), x, m.Scalar(10)},
                             {{"dtypes", kTwoFloats}, {"states", int64_t{1}}}, 2);
      m.Out(m.Op("Neg", {y}));
      m.Out(y + 1);
      auto s = Load(m, {Adder(by_value)});
      for (const float step : {1.0f, 4.0f, 1.0f}) {
        const auto got = Results(*s, {{"x", Floats({step, step})}});
        ASSERT_EQ(got.size(), 2u);
        std::vector<double> state{0, 1}, scan;
        for (int64_t i = 0; i < most; ++i) {
          for (double& v : state) v += step;
          scan.push_back(static_cast<double>(i * i));
          if (by_value && state[0] + state[1] >= 10) break;
        }
        EXPECT_EQ(got[0], (std::vector<double>{-state[0], -state[1]})) << by_value << most << step;
        EXPECT_EQ(got[1], scan) << by_value << most << step;
      }
    }
  }
}

// A loop of `count` passes over Adder's state, which starts as x.
std::unique_ptr<Session> Counted(int64_t count, const std::vector<Graph>& bodies, Status* status = nullptr) {
  GraphMaker m;
  const ValueId x = m.In("x", {2});
  m.Out(m.Op("Loop", {m.Const(HostTensor::From<int64_t>({}, {count})), kNoValue, x, x, m.Scalar(4000)},
             {{"dtypes", kTwoFloats}, {"states", int64_t{1}}}, 2));
  if (!status) return Load(m, bodies);
  Graph g = m.graph();
  SetBodies(g.nodes.back(), bodies);
  auto s = Session::Create(std::move(g), Mode(FusionMode::kAuto));
  *status = s.status();
  return s.ok() ? std::move(*s) : nullptr;
}
constexpr int64_t kEndless = int64_t{1} << 62;

TEST(Control, CountsBelowZeroAreNoPasses) {
  const auto y = Results(*Counted(-kEndless, {Adder(false)}), {{"x", Floats({1, 2})}});
  EXPECT_EQ(y[0], (std::vector<double>{1, 2}));
}

TEST(Control, HundredsOfComputedPasses) {
  const auto s = Counted(kEndless, {Adder(true)});
  const auto y = Results(*s, {{"x", Floats({2, 2})}});
  EXPECT_EQ(y[0], (std::vector<double>{2000, 2000}));
  const auto endless = s->Run({{"x", Floats({0, 0})}});
  ASSERT_FALSE(endless.ok());
  EXPECT_NE(endless.status().message().find("more than 1024 passes"), std::string::npos);
}

TEST(Control, EndlessLoopsAreErrors) {
  Status status = OkStatus();
  Counted(kEndless, {Adder(false)}, &status);
  EXPECT_NE(status.message().find("(Loop): more than 1024 passes"), std::string::npos) << status.message();
}

// A state that doubles in every pass is an error before it takes much memory.
TEST(Control, StatesThatGrowAreErrorsEarly) {
  GraphMaker b;
  b.In("i", {}, DType::kS64);
  const ValueId go = b.In("go", {}, DType::kBool);
  const ValueId state = b.In("s", {kUnknownDim});
  b.Out(b.Op("Identity", {go}));
  b.Out(b.Op("Concat", {state, state}, {{"axis", int64_t{0}}}));
  GraphMaker m;
  m.Out(m.Op("Loop", {m.Const(HostTensor::From<int64_t>({}, {1000})), kNoValue, m.Const(Floats({1, 2}))},
             {{"dtypes", kFloats}, {"states", int64_t{1}}}));
  Graph g = m.graph();
  SetBodies(g.nodes.back(), {b.graph()});
  const int64_t before = LiveBufferBytes();
  auto s = Session::Create(std::move(g), Mode(FusionMode::kAuto));
  const Status status = s.ok() ? (*s)->Prepare({}).status() : s.status();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("too large"), std::string::npos) << status.message();
  EXPECT_LT(LiveBufferBytes() - before, int64_t{256} << 20);
}

TEST(Control, LoopsInLoopsHaveALimit) {
  Graph body = Adder(false);
  for (int depth = 0; depth < 3; ++depth) {
    GraphMaker b;
    const ValueId pass = b.In("i", {}, DType::kS64), go = b.In("go", {}, DType::kBool);
    const ValueId state = b.In("s", {2}), x = b.In("x", {2}), limit = b.In("limit", {});
    const ValueId count = b.Const(HostTensor::From<int64_t>({}, {1000}));
    const ValueId inner =
        b.Op("Loop", {count, kNoValue, state, x, limit}, {{"dtypes", kTwoFloats}, {"states", int64_t{1}}}, 2);
    b.Out(b.Op("Identity", {go}));
    b.Out(inner);
    b.Out(b.Op("Cast", {pass}, {{"to", int64_t{1}}}));
    Graph around = b.graph();
    for (Node& n : around.nodes)
      if (n.op->op_class == op::OpClass::kControl) SetBodies(n, {body});
    body = std::move(around);
  }
  Status status = OkStatus();
  Counted(1000, {body}, &status);
  EXPECT_NE(status.message().find("the passes of loops in loops make more than"), std::string::npos)
      << status.message();
}

TEST(Control, ConditionsAreOneValue) {
  GraphMaker m;
  const ValueId x = m.In("x", {kUnknownDim});
  m.Out(m.Op("If", {m.In("c", {kUnknownDim}, DType::kBool), x, x}, {{"dtypes", kFloats}}));
  const auto s = Load(m, Branches());
  const auto y = s->Run({{"x", Floats({1, 2})}, {"c", std::make_shared<HostTensor>(DType::kBool, Dims{3})}});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().message().find("(If): cond has 3 values; allowed: 1"), std::string::npos)
      << y.status().message();
}

}  // namespace
}  // namespace opsnn::graph
