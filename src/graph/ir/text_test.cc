#include "graph/ir/text.h"

#include <limits>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

// Attributes of all kinds, constants of several types, an absent operand, odd names.
Graph Sample() {
  GraphMaker m;
  const ValueId x = m.In("the \"x\" \\ of\n us", {kUnknownDim, 6}), w = m.Random({6, 4});
  const ValueId h = m.Op("MatMul", {x, w});
  const ValueId c = m.Op("Clip", {h, kNoValue, m.Scalar(std::numeric_limits<float>::infinity())});
  const ValueId r = m.Op("Reshape", {c, m.Ints({-1, 2})});
  const ValueId y = m.Op("LeakyRelu", {r}, {{"alpha", 0.1f}});
  m.Out(m.Op("Softmax", {y}, {{"axis", int64_t{-1}}}));
  m.Out(m.Op("Transpose", {y}, {{"perm", std::vector<int64_t>{1, 0}}}));
  m.Out(m.Op("Gelu", {y}, {{"approximate", std::string("tanh")}}));
  return m.graph();
}

TEST(GraphText, IsReadBackAsItWas) {
  const auto text = WriteText(Sample());
  ASSERT_TRUE(text.ok()) << text.status().message();
  auto back = ReadText(*text);
  ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << *text;
  const auto again = WriteText(*back);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *text);
  EXPECT_EQ(back->nodes.size(), 7u);
  EXPECT_EQ(back->values[back->inputs[0]].name, "the \"x\" \\ of\n us");
  EXPECT_EQ(back->nodes[1].inputs[1], kNoValue);
  EXPECT_EQ(back->nodes[3].attrs.Float("alpha", 0), static_cast<double>(0.1f));
}

TEST(GraphText, RunsToTheSameBits) {
  GraphMaker m;
  const ValueId x = m.In("x", {5, 8});
  m.Out(
      m.Op("Softmax", {m.Op("Relu", {m.Op("Add", {m.Op("MatMul", {x, m.Random({8, 7})}), m.Random({7})})})}));
  auto back = ReadText(*WriteText(m.graph()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  auto session = Session::Create(*std::move(back), Mode(FusionMode::kAuto));
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto got = (*session)->Run(m.RandomFeeds());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(ToDoubles(*got->outputs[0]), RunGraph(m, Mode(FusionMode::kAuto)).outputs[0]);
}

TEST(GraphText, WrongLinesAreNamed) {
  const std::string head = "opsnn-graph 1\ngraph \"g\"\ninput 0 \"x\" f32 [2,3]\n";
  const std::pair<const char*, const char*> cases[] = {
      {"", "there is no output"},
      {"frob\n", "line 4, behind \"frob\": allowed: graph, input"},
      {"input 0 \"y\" f32 [2]\n", "allowed: 1, the next number"},
      {"input 1 \"x\" f32 [2]\n", "a name that no other input has"},
      {"input 1 \"y\" f33 [2]\n", "an element type"},
      {"input 1 \"y\" f32 [2,-2]\n", "dims from -1"},
      {"input 1 \"y\" f32 [1,1,1,1,1,1,1,1,1,1,1,1]\n", "at most"},
      {"input 1 \"y\" f32 [2] [\"a\",\"b\"]\n", "a name for every dim"},
      {"constant 1 \"c\" f32 [1] 0000803\n", "two hex digits for every byte"},
      {"constant 1 \"c\" f32 [1] 0000803g\n", "hex digits"},
      {"constant 1 \"c\" f32 [4611686018427387904,4] 00\n", "two hex digits for every byte"},
      {"constant 1 \"c\" f32 [-1] 00000000\n", "dims from 0"},
      {"node \"NoSuch\" \"n\" [0] [1 \"y\" *]\n", "the name of an operator"},
      {"node \"Relu\" \"n\" [1] [1 \"y\" *]\n", "the number of a value that is defined above"},
      {"node \"Relu\" \"n\" [0] []\n", "one result or more"},
      {"node \"Relu\" \"n\" [0] [1 \"y\" *] more\n", "the end of the line"},
      {"node \"Relu\" \"n\" [0] [1 \"y\" *]\n  \"alpha\" complex 1\n", "int, float, string"},
      {"node \"Relu\" \"n\" [0 [1 \"y\" *]\n", ", or ]"},
      {"node \"Relu \"n\" [0] [1 \"y\" *]\n", "behind"},
      {"node \"Relu\\g\" \"n\" [0] [1 \"y\" *]\n", "two hex digits behind a backslash"},
      {"node \"Relu\" \"n\" [-1] [1 \"y\" *]\n", "line 4: Relu: input X is null"},
      {"node \"MatMul\" \"n\" [0] [1 \"y\" *]\n", "at least 2"},
      {"node \"Relu\" \"n\" [0,0] [1 \"y\" *]\n", "at most 1"},
      {"node \"Relu\" \"n\" [0] [1 \"y\" *,2 \"z\" *]\n", "got 2 outputs"},
      {"node \"Relu\" \"n\" [0] [1 \"y\" *]\n  \"frob\" int 1\n", "unknown attribute frob"},
      {"node \"Program\" \"n\" [0] [1 \"y\" *]\n", "operators that need no chain"},
      {"output 1\n", "the number of a value"},
      {"output 99999999999999999999\n", "an integer"}};
  for (const auto& [lines, word] : cases) {
    const auto g = ReadText(head + lines);
    ASSERT_FALSE(g.ok()) << lines;
    EXPECT_NE(g.status().message().find(word), std::string::npos) << lines << g.status().message();
  }
  EXPECT_FALSE(ReadText("").ok());
  EXPECT_FALSE(ReadText("opsnn-graph 2\n").ok());
}

// Bytes changed anywhere are refused or read, and what is read can be planned or is refused.
TEST(GraphText, DamagedTextDoesNoHarm) {
  testing::Rng rng;
  const std::string text = *WriteText(Sample());
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = text;
    for (int k = static_cast<int>(rng.Int(1, 3)); k > 0; --k) {
      const auto at = static_cast<size_t>(rng.Int(0, static_cast<int64_t>(bad.size()) - 1));
      if (rng.Chance(0.5)) {
        bad[at] = "0123456789-[], \"\n\\af*"[rng.Int(0, 20)];
      } else {
        bad.erase(at, static_cast<size_t>(rng.Int(1, 8)));
      }
    }
    if (auto g = ReadText(bad); g.ok()) {
      ++read;
      if (auto s = Session::Create(*std::move(g), Mode(FusionMode::kAuto)); s.ok()) {
        Shapes shapes;
        for (const Value* v : (*s)->inputs()) shapes[v->name] = Dims{2, 6};
        (void)(*s)->Prepare(shapes);
      }
    }
  }
  EXPECT_GT(read, 0);
}

TEST(GraphText, WhatHasNoTextIsRefused) {
  GraphMaker m;
  m.Out(m.Op("Relu", {m.Op("MatMul", {m.In("x", {64, 64}), m.Random({64, 64})})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
  const auto text = WriteText(o.prepared->graph());
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.status().message().find("fused chain"), std::string::npos) << text.status().message();
}

}  // namespace
}  // namespace opsnn::graph
