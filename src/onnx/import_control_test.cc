// If and Loop in files: graphs inside, what they capture, and those that contradict their node.
#include <gtest/gtest.h>

#include "onnx/import.h"
#include "onnx/model_writer.h"

namespace opsnn::onnx {
namespace {

constexpr int32_t kInt64 = 7, kBool = 9;

ConstTensor Floats(const std::vector<float>& v) {
  return HostTensor::From<float>({static_cast<int64_t>(v.size())}, v);
}
std::string Count(int64_t passes) { return RawTensor<int64_t>("M", kInt64, {}, {passes}); }

ModelWriter Body() { return ModelWriter(17).Input("i", {}, kInt64).Input("go", {}, kBool).Input("s", {}); }
ModelWriter Adder() {  // s + x, which is around it
  return Body().Node("Identity", {"go"}, {"more"}).Node("Add", {"s", "x"}, {"sum"});
}
AttrWriter Graph(const char* name, const ModelWriter& g) { return AttrWriter::Graph(name, g.GraphBytes()); }

ModelWriter Loop(const ModelWriter& body, const std::vector<std::string>& in = {"M", "", "x"}) {
  return ModelWriter(17)
      .Input("x", {"n"})
      .Initializer(Count(3))
      .Node("Loop", in, {"y"}, {Graph("body", body)})
      .Output("y");
}
ModelWriter If(const ModelWriter& then, const ModelWriter& other,
               const std::vector<std::string>& in = {"c"}) {
  return ModelWriter(17)
      .Input("x", {"n"})
      .Input("c", {}, kBool)
      .Node("If", in, {"y"}, {Graph("then_branch", then), Graph("else_branch", other)})
      .Output("y");
}
ModelWriter Neg() { return ModelWriter(17).Node("Neg", {"x"}, {"n"}).Output("n"); }

std::vector<float> ResultOf(const ModelWriter& w, const graph::Feeds& feeds) {
  auto s = LoadSessionFromBytes(w.Bytes(), {});
  if (!s.ok()) return ADD_FAILURE() << s.status().message(), std::vector<float>();
  auto r = (*s)->Run(feeds);
  if (!r.ok()) return ADD_FAILURE() << r.status().message(), std::vector<float>();
  const auto* v = static_cast<const float*>(r->outputs[0]->data());
  return {v, v + r->outputs[0]->size()};
}

void ExpectError(const ModelWriter& w, const std::string& part) {
  const auto g = ImportBytes(w.Bytes());
  ASSERT_FALSE(g.ok()) << part;
  EXPECT_NE(g.status().message().find(part), std::string::npos) << g.status().message();
}

TEST(ImportControl, GraphsReadWhatIsAroundThem) {
  const ModelWriter body = Adder().Output("more", {}, kBool).Output("sum");
  EXPECT_EQ(ResultOf(Loop(body), {{"x", Floats({1, -2})}}), (std::vector<float>{4, -8}));
  // A loop in a branch, which hands on what is around both.
  const ModelWriter branch = ModelWriter(17)
                                 .Initializer(Count(2))
                                 .Node("Loop", {"M", "", "x"}, {"l"}, {Graph("body", body)})
                                 .Output("l");
  for (const bool taken : {true, false}) {
    auto c = std::make_shared<HostTensor>(DType::kBool, Dims{});
    *static_cast<bool*>(c->data()) = taken;
    EXPECT_EQ(ResultOf(If(branch, Neg()), {{"x", Floats({1, -2})}, {"c", c}}),
              taken ? (std::vector<float>{3, -6}) : (std::vector<float>{-1, 2}));
  }
}

TEST(ImportControl, TypesThatTheBodyDoesNotGiveAreThoseOfItsOperands) {
  const ModelWriter body = ModelWriter(17)
                               .Input("i", {}, 0)
                               .Input("go", {}, 0)
                               .Input("s", {}, 0)
                               .Node("Identity", {"go"}, {"more"})
                               .Node("Neg", {"s"}, {"n"})
                               .Output("more", {}, 0)
                               .Output("n", {}, 0);
  EXPECT_EQ(ResultOf(Loop(body), {{"x", Floats({1, -2})}}), (std::vector<float>{-1, 2}));
}

TEST(ImportControl, LoopsThatContradictThemselves) {
  const ModelWriter good = Adder().Output("more", {}, kBool).Output("sum");
  ExpectError(
      Loop(Adder().Output("more", {}, kBool)),
      "node \"Loop_0\" (Loop): graph \"body\": it has 3 inputs and 1 outputs where the node has 3 and 1");
  ExpectError(Loop(good, {"M", "", "x", "x"}), "graph \"body\": it has 3 inputs");
  ExpectError(Loop(Adder().Output("sum").Output("sum")), "its output \"sum\" is f32; allowed: bool");
  ExpectError(Loop(good, {"M", "", ""}), "state 0 is missing");
  ExpectError(Loop(good, {"x", "", "x"}), "input M has dtype f32; allowed: s64");
  ExpectError(Loop(good, {"M", "x", "x"}), "input cond has dtype f32; allowed: bool");
  ExpectError(Loop(good, {"M", "", "M"}), "its input \"s\" is f32; allowed: s64");
  ExpectError(Loop(ModelWriter(good).Initializer(RawTensor<float>("s", 1, {1}, {1}))),
              "an input of it has an initializer");
  ExpectError(ModelWriter(17).Input("x", {"n"}).Node("Loop", {"", "", "x"}, {"y"}).Output("y"),
              "attribute \"body\" is missing");
  for (const char* internal : {"passes", "states", "bodies", "dtypes"})
    ExpectError(ModelWriter(17)
                    .Input("x", {"n"})
                    .Node("Loop", {"", "", "x"}, {"y"}, {Graph("body", good), AttrWriter::Int(internal, -9)})
                    .Output("y"),
                std::string("unknown attribute \"") + internal + "\"");
}

TEST(ImportControl, BranchesThatContradictThemselves) {
  ExpectError(If(Neg(), Neg(), {}), "it has 0 inputs; allowed: 1, cond");
  ExpectError(If(Neg(), Neg(), {"c", "c"}), "it has 2 inputs; allowed: 1, cond");
  ExpectError(If(Neg(), Neg(), {"x"}), "input cond has dtype f32; allowed: bool");
  ExpectError(If(Neg(), ModelWriter(17).Output("c", {}, kBool)),
              "output 0 is f32 in then_branch and bool in else_branch");
  ExpectError(If(Neg(), ModelWriter(17).Node("Strange", {"x"}, {"z"}).Output("z")),
              "graph \"else_branch\": node \"Strange_0\" (Strange): operator Strange");
  ExpectError(If(Neg(), ModelWriter(17).Output("nowhere")), "value \"nowhere\" is used before");
  ModelWriter deep = Neg();
  for (int i = 0; i < 20; ++i)
    deep = ModelWriter(17)
               .Node("If", {"c"}, {"n"}, {Graph("then_branch", deep), Graph("else_branch", Neg())})
               .Output("n");
  ExpectError(If(deep, Neg()), "nested more than 16 deep");
}

}  // namespace
}  // namespace opsnn::onnx
