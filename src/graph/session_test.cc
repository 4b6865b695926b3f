#include "graph/session.h"

#include <gtest/gtest.h>

#include <thread>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

TEST(GraphIr, SortsAndFindsCycles) {
  GraphMaker m;
  const ValueId x = m.In("x", {2});
  m.Out(m.Op("Neg", {m.Op("Abs", {x})}));
  Graph g = m.graph();
  std::swap(g.nodes[0], g.nodes[1]);
  g.values[g.nodes[0].outputs[0]].producer = 0;
  g.values[g.nodes[1].outputs[0]].producer = 1;
  ASSERT_TRUE(g.Sort().ok());
  EXPECT_EQ(g.nodes[0].op->name, "Abs");
  EXPECT_EQ(g.values[g.outputs[0]].producer, 1);
  g.nodes[0].inputs[0] = g.outputs[0];
  const Status s = g.Sort();
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("cycle"), std::string::npos);
}

TEST(GraphIr, DumpShowsEveryNode) {
  GraphMaker m;
  m.Out(m.Op("LeakyRelu", {m.In("x", {2, 3})}, {{"alpha", 0.5}}));
  const std::string s = m.graph().ToString();
  EXPECT_NE(s.find("input %x: f32[2,3]"), std::string::npos) << s;
  EXPECT_NE(s.find("= LeakyRelu(%x) alpha=0.5"), std::string::npos) << s;
}

// ---- feeds

class Feeding : public ::testing::Test {
 protected:
  void SetUp() override {
    Graph g;
    Value v;
    v.name = "image";
    v.desc.dims = {kUnknownDim, 3, kUnknownDim};
    v.dim_names = {"N", "", "W"};
    g.inputs.push_back(g.AddValue(std::move(v)));
    Value y;
    y.name = "y";
    Node n;
    n.name = "relu";
    n.op = op::FindOperator("Relu");
    n.inputs = {0};
    n.num_op_inputs = 1;
    n.outputs = {g.AddValue(std::move(y))};
    g.outputs = n.outputs;
    g.AddNode(std::move(n));
    auto s = Session::Create(std::move(g), Mode(FusionMode::kAuto));
    ASSERT_TRUE(s.ok()) << s.status().message();
    session_ = std::move(*s);
  }
  std::string Error(const Feeds& feeds) {
    auto r = session_->Run(feeds);
    return r.ok() ? "" : r.status().message();
  }
  static ConstTensor Zeros(const Dims& d) {
    return HostTensor::From<float>(d, std::vector<float>(NumElements(d)));
  }
  std::unique_ptr<Session> session_;
};

TEST_F(Feeding, MistakesAreNamed) {
  EXPECT_EQ(Error({{"image", Zeros({2, 3, 5})}}), "");
  EXPECT_EQ(Error({{"picture", Zeros({2, 3, 5})}}),
            "the model has no input \"picture\"; its inputs are: \"image\" f32[N,3,W].");
  EXPECT_EQ(Error({}), "input \"image\" is missing; the model's inputs are: \"image\" f32[N,3,W].");
  EXPECT_EQ(Error({{"image", Zeros({2, 4, 5})}}), "input \"image\" has shape [2,4,5]; allowed is [N,3,W].");
  EXPECT_EQ(Error({{"image", Zeros({3, 5})}}), "input \"image\" has shape [3,5]; allowed is [N,3,W].");
  EXPECT_EQ(Error({{"image", HostTensor::From<int64_t>({1, 3, 1}, {1, 2, 3})}}),
            "input \"image\" has dtype s64; allowed is f32.");
  EXPECT_EQ(Error({{"image", nullptr}}), "input \"image\" is null.");
  EXPECT_FALSE(session_->Prepare({{"image", Dims{int64_t{1} << 40, 3, int64_t{1} << 40}}}).ok());
}

TEST_F(Feeding, EmptyTensorsRun) {
  auto r = session_->Run({{"image", Zeros({0, 3, 5})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->outputs[0]->dims(), (Dims{0, 3, 5}));
}

TEST_F(Feeding, PreparedFormsAreKept) {
  auto a = session_->Prepare({{"image", Dims{1, 3, 8}}}), b = session_->Prepare({{"image", Dims{1, 3, 9}}});
  auto again = session_->Prepare({{"image", Dims{1, 3, 8}}});
  ASSERT_TRUE(a.ok() && b.ok() && again.ok());
  EXPECT_EQ(a->get(), again->get());
  EXPECT_NE(a->get(), b->get());
}

TEST(Session, ForgetsTheFormsLeastUsed) {
  GraphMaker m;
  m.Out(m.Op("Softmax", {m.Op("Softmax", {m.In("x", {kUnknownDim, 256})})}));
  SessionOptions o = Mode(FusionMode::kAuto);
  o.cache_bytes = 10 << 10;  // two forms of two steps
  auto s = Session::Create(m.graph(), o);
  ASSERT_TRUE(s.ok());
  std::vector<std::weak_ptr<const Prepared>> forms;
  for (int64_t rows : {8, 9, 10, 9, 100, 100}) {  // what gave way goes when the next is found or made
    auto p = (*s)->Prepare({{"x", Dims{rows, 256}}});
    ASSERT_TRUE(p.ok());
    EXPECT_EQ((*p)->peak_bytes(), static_cast<size_t>(rows) * 1024);
    forms.push_back(*p);
  }
  EXPECT_TRUE(forms[0].expired());  // 8 rows: gave way to 10
  EXPECT_FALSE(forms[1].expired());
  EXPECT_TRUE(forms[2].expired());  // older than 9, which was asked for again
  EXPECT_FALSE(forms[4].expired());
  const CacheStats stats = (*s)->form_stats();
  EXPECT_EQ(stats.misses, 4);
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.evictions, 2);
  EXPECT_EQ(stats.entries, 2u);
  EXPECT_LE(stats.bytes, o.cache_bytes);
}

// Open dims are guessed by their place, equal names alike: the first run of that size finds its form.
TEST_F(Feeding, PlansAheadForTheLikelySize) {
  session_->PrepareAhead();
  ASSERT_TRUE(session_->Prepare({{"image", Dims{1, 3, 128}}}).ok());
  EXPECT_EQ(session_->form_stats().hits, 1);
  EXPECT_EQ(session_->form_stats().misses, 0);
  ASSERT_TRUE(session_->Prepare({{"image", Dims{1, 3, 64}}}).ok());
  EXPECT_EQ(session_->form_stats().misses, 1);
}

TEST_F(Feeding, MemoryLimitIsKept) {
  ASSERT_TRUE(SetKnob("memory_limit", "1000").ok());
  const std::string message = Error({{"image", Zeros({100, 3, 5})}});
  EXPECT_NE(message.find("12000 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("1000 (OPSNN_MEMORY_LIMIT)"), std::string::npos) << message;
  ASSERT_TRUE(SetKnob("memory_limit", "0").ok());
  EXPECT_EQ(Error({{"image", Zeros({100, 3, 5})}}), "");
}

// ---- running

TEST(Session, CapturesEveryValueInLogicalOrder) {
  GraphMaker m;
  const ValueId c = m.Op("Conv", {m.In("x", {2, 5, 3, 4}), m.Random({7, 5, 1, 1})});
  m.Out(m.Op("GlobalAveragePool", {m.Op("Relu", {c})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kOff), true),
                plain = RunGraph(m, Mode(FusionMode::kOff, "layout"), true);
  for (const char* name : {"Conv0.0", "Relu1.0", "GlobalAveragePool2.0"}) {
    ASSERT_EQ(o.captured.count(name), 1u) << name;
    EXPECT_EQ("", testing::Compare(o.captured.at(name), plain.captured.at(name), 1e-5, 1e-5)) << name;
  }
}

TEST(Session, RunsFromManyThreadsAreEqual) {
  GraphMaker m;
  ValueId y = m.In("x", {64, 32});
  for (int i = 0; i < 4; ++i) y = m.Op("Tanh", {m.Op("MatMul", {y, m.Random({32, 32})})});
  m.Out(y);
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  ASSERT_TRUE(s.ok());
  auto want = (*s)->Run(m.RandomFeeds());
  ASSERT_TRUE(want.ok());
  const std::vector<double> expected = ToDoubles(*want->outputs[0]);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        auto r = (*s)->Run(m.RandomFeeds());
        wrong[t] += !r.ok() || ToDoubles(*r->outputs[0]) != expected;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Session, ShapesMayDependOnFedValues) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 6}), shape = m.In("shape", {2}, DType::kS64);
  m.Out(m.Op("Relu", {m.Op("Reshape", {x, shape})}));
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  ASSERT_TRUE(s.ok());
  const ConstTensor data = m.RandomTensor({2, 6});
  for (const auto& want : {Dims{3, 4}, Dims{12, 1}, Dims{3, 4}}) {
    auto r = (*s)->Run({{"x", data}, {"shape", HostTensor::From<int64_t>({2}, {want[0], want[1]})}});
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_EQ(r->outputs[0]->dims(), want);
  }
  auto bad = (*s)->Run({{"x", data}, {"shape", HostTensor::From<int64_t>({2}, {5, 5})}});
  EXPECT_FALSE(bad.ok());
  // Planning alone needs the values too.
  const Shapes shapes = {{"x", Dims{2, 6}}, {"shape", Dims{2}}};
  const Feeds values = {{"shape", HostTensor::From<int64_t>({2}, {4, 3})}};
  EXPECT_FALSE((*s)->Prepare(shapes).ok());
  auto planned = (*s)->Prepare({{"x", Dims{2, 6}}}, values);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_EQ((*planned)->graph().values[(*planned)->graph().outputs[0]].desc.dims, (Dims{4, 3}));
  EXPECT_TRUE((*s)->Decide(shapes, device::HostProfile(), values).ok());
}

TEST(Session, ExactPolicyKeepsEveryBit) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const int64_t c = m.rng().Int(1, 40);
    const ValueId x = m.In("x", {2, c, 5, 4});
    ValueId y =
        m.Op("Conv", {x, m.Random({c, c, 3, 3}), m.Random({c})}, {{"pads", std::vector<int64_t>(4, 1)}});
    y = m.Op("Add", {m.Op("HardSwish", {y}), m.Random({c, 1, 1})});
    y = m.Op("Mul", {m.Op("Sigmoid", {m.Op("Add", {y, x})}), y});
    ValueId z = m.Op("MatMul", {m.Op("Reshape", {y, m.Ints({2, c * 20})}), m.Random({c * 20, 33})});
    m.Out(m.Op("Relu", {m.Op("Tanh", {m.Op("Add", {z, m.Random({33})})})}));
    SessionOptions off = Mode(FusionMode::kOff), force = Mode(FusionMode::kForce);
    off.policy = force.policy = NumericsPolicy::kExact;
    const Outcome a = RunGraph(m, off), b = RunGraph(m, force);
    EXPECT_GT(b.Effects("epilogue_fusion"), 1);
    ASSERT_EQ(a.outputs, b.outputs) << "channels " << c;
  }
}

TEST(Session, TimesEveryStep) {
  GraphMaker m;
  m.Out(m.Op("Softmax", {m.Op("Exp", {m.In("x", {50, 50})})}));
  auto s = Session::Create(m.graph(), Mode(FusionMode::kOff));
  ASSERT_TRUE(s.ok());
  RunOptions o;
  o.time_nodes = true;
  auto r = (*s)->Run(m.RandomFeeds(), o);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->step_us.size(), r->prepared->steps().size());
  for (double us : r->step_us) EXPECT_GT(us, 0);
}

TEST(Session, DecidesForAnotherDevice) {
  GraphMaker m;
  m.Out(m.Op("Relu", {m.Op("MatMul", {m.In("x", {64, 64}), m.Random({64, 64})})}));
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  ASSERT_TRUE(s.ok());
  auto d = (*s)->Decide({{"x", Dims{64, 64}}}, device::HostProfile());
  ASSERT_TRUE(d.ok()) << d.status().message();
  ASSERT_EQ(d->size(), 1u);
  EXPECT_EQ((*d)[0].chain, "matmul+relu");
  EXPECT_EQ((*d)[0].where, "MatMul0");
}

}  // namespace
}  // namespace opsnn::graph
