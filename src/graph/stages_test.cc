// Sizes that depend on values: cut, planned during the run, and right for every run anew.
#include "graph/stages.h"

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

ConstTensor Floats(const Dims& dims, const std::vector<float>& v) { return HostTensor::From<float>(dims, v); }

std::unique_ptr<Session> Load(const GraphMaker& m, FusionMode fusion = FusionMode::kAuto,
                              const char* off = "") {
  auto s = Session::Create(m.graph(), Mode(fusion, off));
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

RunResult RunIt(Session& s, const Feeds& feeds, const RunOptions& options = {}) {
  auto r = s.Run(feeds, options);
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r.ok() ? std::move(*r) : RunResult();
}

// The positive elements of relu(x * w), doubled; and x * w itself.
GraphMaker Positives() {
  GraphMaker m;
  const ValueId x = m.In("x", {kUnknownDim, 3});
  const ValueId w = m.Const(Floats({3, 2}, {1, 0, 0, 1, 0, 0}));
  const ValueId y = m.Op("Relu", {m.Op("MatMul", {x, w})});
  const ValueId where = m.Op("Transpose", {m.Op("NonZero", {y})});
  const ValueId picked = m.Op("GatherND", {y, where});
  m.Out(m.Op("Add", {picked, picked}));
  m.Out(y);
  m.Out(m.Op("Shape", {picked}));
  return m;
}

TEST(Stages, NonZeroInTheMiddle) {
  const GraphMaker m = Positives();
  for (const char* off : {"", "constant_folding"}) {
    auto s = Load(m, FusionMode::kAuto, off);
    for (int again = 0; again < 2; ++again) {
      RunResult r = RunIt(*s, {{"x", Floats({2, 3}, {1, -1, 9, 2, 3, 9})}});
      ASSERT_EQ(r.outputs.size(), 3u);
      EXPECT_EQ(ToDoubles(*r.outputs[0]), (std::vector<double>{2, 4, 6}));
      EXPECT_EQ(ToDoubles(*r.outputs[1]), (std::vector<double>{1, 0, 2, 3}));
      EXPECT_EQ(ToDoubles(*r.outputs[2]), (std::vector<double>{3}));
      EXPECT_EQ(r.later.size(), 1u);
      r = RunIt(*s, {{"x", Floats({2, 3}, {-1, -1, 9, 7, -3, 9})}});
      EXPECT_EQ(ToDoubles(*r.outputs[0]), (std::vector<double>{14}));
      r = RunIt(*s, {{"x", Floats({1, 3}, {-1, -1, 9})}});  // nothing is left
      EXPECT_EQ(r.outputs[0]->dims(), (Dims{0}));
      EXPECT_EQ(ToDoubles(*r.outputs[2]), (std::vector<double>{0}));
    }
  }
}

TEST(Stages, TheHeadIsPlannedAndKept) {
  const GraphMaker m = Positives();
  auto s = Load(m);
  auto p = s->Prepare({{"x", {4, 3}}});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_GT((*p)->nodes_run(), 0);
  for (int i = 0; i < 5; ++i) RunIt(*s, {{"x", Floats({2, 3}, {1, -1, 9, static_cast<float>(i), 3, 9})}});
  EXPECT_EQ(s->form_stats().entries, 2u);  // one per shape, whatever the values
  RunOptions timed;
  timed.time_nodes = true;
  const RunResult r = RunIt(*s, {{"x", Floats({2, 3}, {1, -1, 9, 2, 3, 9})}}, timed);
  EXPECT_EQ(r.step_us.size(), r.prepared->steps().size() + r.later[0]->steps().size());
}

// Boxes and scores are computed, as a detector does; what they select is gathered.
TEST(Stages, ADetectorEndsInNonMaxSuppression) {
  GraphMaker m;
  const ValueId image = m.In("image", {1, 4, 8, 8});
  const ValueId features = m.Op("Relu", {m.Op("Conv", {image, m.Random({10, 4, 1, 1})})});
  const ValueId rows = m.Op("Reshape", {features, m.Ints({1, 10, 64})});
  const ValueId boxes = m.Op("Transpose", {m.Op("Slice", {rows, m.Ints({0}), m.Ints({4}), m.Ints({1})})},
                             {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const ValueId scores = m.Op("Sigmoid", {m.Op("Slice", {rows, m.Ints({4}), m.Ints({10}), m.Ints({1})})});
  const ValueId chosen =
      m.Op("NonMaxSuppression", {boxes, scores, m.Ints({5}), m.Scalar(0.5), m.Scalar(0.4f)});
  const ValueId index =
      m.Op("Gather", {chosen, m.Const(HostTensor::From<int64_t>({}, {2}))}, {{"axis", int64_t{1}}});
  m.Out(m.Op("Gather", {boxes, index}, {{"axis", int64_t{1}}}));
  m.Out(chosen);
  auto s = Load(m), unfused = Load(m, FusionMode::kOff);
  for (int i = 0; i < 3; ++i) {
    const Feeds feeds = {{"image", m.RandomTensor({1, 4, 8, 8}, -1, 1)}};
    const RunResult a = RunIt(*s, feeds), b = RunIt(*unfused, feeds);
    ASSERT_EQ(a.outputs.size(), 2u);
    const int64_t n = a.outputs[1]->dims()[0];
    EXPECT_GT(n, 0);
    EXPECT_EQ(a.outputs[0]->dims(), (Dims{1, n, 4}));
    EXPECT_EQ(ToDoubles(*a.outputs[1]), ToDoubles(*b.outputs[1]));
  }
}

// A second size depends on values that the first one gave, and on an input directly.
TEST(Stages, CutTwice) {
  GraphMaker m;
  const ValueId x = m.In("x", {6}), keep = m.In("keep", {6}, DType::kBool);
  const ValueId some = m.Op("Compress", {x, keep});
  const ValueId twice = m.Op("Mul", {some, some});
  const ValueId unique = m.Op("Unique", {twice}, {}, 4);
  m.Out(unique);
  m.Out(some);
  m.Out(unique + 3);
  auto s = Load(m);
  const auto flags = [](std::vector<uint8_t> v) {
    auto t = std::make_shared<HostTensor>(DType::kBool, Dims{6});
    std::copy(v.begin(), v.end(), t->as<uint8_t>());
    return ConstTensor(t);
  };
  RunResult r = RunIt(*s, {{"x", Floats({6}, {1, -1, 2, 3, -2, 5})}, {"keep", flags({1, 1, 1, 0, 1, 0})}});
  EXPECT_EQ(ToDoubles(*r.outputs[0]), (std::vector<double>{1, 4}));
  EXPECT_EQ(ToDoubles(*r.outputs[1]), (std::vector<double>{1, -1, 2, -2}));
  EXPECT_EQ(ToDoubles(*r.outputs[2]), (std::vector<double>{2, 2}));
  r = RunIt(*s, {{"x", Floats({6}, {1, -1, 2, 3, -2, 5})}, {"keep", flags({0, 0, 0, 1, 0, 1})}});
  EXPECT_EQ(ToDoubles(*r.outputs[0]), (std::vector<double>{9, 25}));
}

// A shape that is computed from values: the large operand stays where it is.
TEST(Stages, AComputedShape) {
  GraphMaker m;
  const ValueId x = m.In("x", {12, kUnknownDim});
  const ValueId top = m.Op("ReduceMax", {x}, {{"keepdims", int64_t{0}}});
  const ValueId count = m.Op("Reshape", {m.Op("Cast", {top}, {{"to", int64_t{7}}}), m.Ints({1})});
  m.Out(m.Op("Relu", {m.Op("Slice", {x, m.Ints({0}), count, m.Ints({0})})}));
  auto s = Load(m);
  for (const float rows : {3.0f, 7.0f}) {
    std::vector<float> v(24, 1);
    v[5] = rows;
    const RunResult r = RunIt(*s, {{"x", Floats({12, 2}, v)}});
    EXPECT_EQ(r.outputs[0]->dims(), (Dims{static_cast<int64_t>(rows), 2}));
  }
}

// The memory that a caller lends is written, before the cut and behind it, and both are handed on.
TEST(Stages, LentOutputsAreWritten) {
  GraphMaker m = Positives();
  m.Out(m.graph().outputs[1]);  // the same value twice
  auto s = Load(m);
  const Feeds feeds = {{"x", Floats({2, 3}, {1, -1, 9, 2, 3, 9})}};
  float picked[3] = {}, head[4] = {}, again[4] = {};
  RunOptions options;
  options.outputs = {
      {DType::kF32, {3}, picked}, {DType::kF32, {2, 2}, head}, {}, {DType::kF32, {2, 2}, again}};
  RunResult r = RunIt(*s, feeds, options);
  ASSERT_EQ(r.outputs.size(), 4u);
  EXPECT_EQ(r.outputs[0], nullptr);
  EXPECT_EQ(r.outputs[1], nullptr);
  EXPECT_EQ(std::vector<float>(picked, picked + 3), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(std::vector<float>(head, head + 4), (std::vector<float>{1, 0, 2, 3}));
  EXPECT_EQ(ToDoubles(*r.outputs[2]), (std::vector<double>{3}));
  ASSERT_NE(r.outputs[3], nullptr);
  EXPECT_EQ(ToDoubles(*r.outputs[3]), (std::vector<double>{1, 0, 2, 3}));
  // A size that does not fit this run's is left alone.
  options.outputs[0].dims = {2};
  r = RunIt(*s, feeds, options);
  ASSERT_NE(r.outputs[0], nullptr);
  EXPECT_EQ(ToDoubles(*r.outputs[0]), (std::vector<double>{2, 4, 6}));
}

TEST(Stages, DecisionsOfAllStages) {
  GraphMaker m;
  const ValueId x = m.In("x", {8, 8});
  const ValueId y = m.Op("Relu", {m.Op("MatMul", {x, m.Random({8, 8})})});
  const ValueId rows =
      m.Op("Squeeze",
           {m.Op("NonZero", {m.Op("ReduceMax", {y, m.Ints({1})}, {{"keepdims", int64_t{0}}})}), m.Ints({0})});
  const ValueId some = m.Op("Gather", {y, rows});
  m.Out(m.Op("Tanh", {m.Op("MatMul", {some, m.Random({8, 4})})}));
  auto s = Load(m);
  bool cut = false;
  auto p = s->Prepare({{"x", {8, 8}}}, {}, &cut);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_TRUE(cut);
  auto head = s->Decide({{"x", {8, 8}}}, device::HostProfile());
  auto all = s->DecideStages({{"x", m.RandomTensor({8, 8}, 0, 1)}}, device::HostProfile());
  ASSERT_TRUE(head.ok() && all.ok()) << head.status().message() << all.status().message();
  const auto has = [](const std::vector<plan::Decision>& list, const char* chain) {
    return std::any_of(list.begin(), list.end(), [&](const plan::Decision& d) { return d.chain == chain; });
  };
  EXPECT_TRUE(has(*head, "matmul+relu") && has(*all, "matmul+relu"));
  EXPECT_FALSE(has(*head, "matmul+tanh"));
  EXPECT_TRUE(has(*all, "matmul+tanh"));
}

TEST(Stages, ErrorsBehindTheCutNameTheNode) {
  GraphMaker m;
  const ValueId x = m.In("x", {4});
  const ValueId where = m.Op("NonZero", {x});
  m.Out(m.Op("Reshape", {where, m.Ints({2, 2})}));
  auto s = Load(m);
  EXPECT_EQ(RunIt(*s, {{"x", Floats({4}, {1, 1, 1, 1})}}).outputs[0]->dims(), (Dims{2, 2}));
  const auto r = s->Run({{"x", Floats({4}, {1, 0, 1, 1})}});
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find("Reshape1"), std::string::npos) << r.status().message();
}

}  // namespace
}  // namespace opsnn::graph
