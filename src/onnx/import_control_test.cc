// If, Loop and Scan in files: graphs inside, what they capture, and those that contradict their node.
#include <gtest/gtest.h>

#include <algorithm>

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

// total = total + row + x, where x is around the node; the totals so far, and twice each row.
ModelWriter Summer() {
  return ModelWriter(17)
      .Input("total", {})
      .Input("row", {})
      .Node("Add", {"total", "row"}, {"sum"})
      .Node("Add", {"sum", "x"}, {"next"})
      .Node("Identity", {"next"}, {"so_far"})
      .Node("Add", {"row", "row"}, {"twice"})
      .Output("next")
      .Output("so_far")
      .Output("twice");
}
ModelWriter Scan(const ModelWriter& body, std::vector<AttrWriter> attrs,
                 const std::vector<std::string>& in = {"x", "rows"}, int64_t scans = 1) {
  attrs.push_back(Graph("body", body));
  attrs.push_back(AttrWriter::Int("num_scan_inputs", scans));
  return ModelWriter(17)
      .Input("x", {"n"})
      .Input("rows", {"a", "b"})
      .Node("Scan", in, {"last", "all", "twice"}, attrs)
      .Output("last")
      .Output("all")
      .Output("twice");
}

TEST(ImportControl, ScansRunOverTheRowsOfAnyAxis) {
  for (int64_t axis : {-2, -1, 0, 1})
    for (int64_t backwards : {0, 1})
      for (int64_t out_axis : {-2, -1, 0, 1})
        for (int64_t out_backwards : {0, 1}) {
          const auto w = Scan(Summer(), {AttrWriter::Ints("scan_input_axes", {axis}),
                                         AttrWriter::Ints("scan_input_directions", {backwards}),
                                         AttrWriter::Ints("scan_output_axes", {out_axis, 0}),
                                         AttrWriter::Ints("scan_output_directions", {out_backwards, 0})});
          auto s = LoadSessionFromBytes(w.Bytes(), {});
          ASSERT_TRUE(s.ok()) << s.status().message();
          for (const int64_t length : {3, 1, 0, 5}) {
            // Row i is {10 i, 10 i + 1}.
            const bool columns = axis == 1 || axis == -1;
            std::vector<float> rows;
            if (columns) {
              for (float k : {0.0f, 1.0f})
                for (int64_t i = 0; i < length; ++i) rows.push_back(10 * static_cast<float>(i) + k);
            } else {
              for (int64_t i = 0; i < length; ++i)
                for (float k : {0.0f, 1.0f}) rows.push_back(10 * static_cast<float>(i) + k);
            }
            const Dims dims = columns ? Dims{2, length} : Dims{length, 2};
            const auto r = (*s)->Run({{"x", Floats({1, 2})}, {"rows", HostTensor::From<float>(dims, rows)}});
            ASSERT_TRUE(r.ok()) << r.status().message();
            std::vector<double> total{1, 2}, twice;
            std::vector<std::vector<double>> all;
            for (int64_t i = 0; i < length; ++i) {
              const double row = 10.0 * static_cast<double>(backwards ? length - 1 - i : i);
              total = {total[0] + row + 1, total[1] + row + 1 + 2};
              all.push_back(total);
              twice.push_back(2 * row), twice.push_back(2 * (row + 1));
            }
            if (out_backwards) std::reverse(all.begin(), all.end());
            std::vector<double> laid;
            if (out_axis == 1 || out_axis == -1) {
              for (size_t k : {0, 1})
                for (const auto& t : all) laid.push_back(t[k]);
            } else {
              for (const auto& t : all) laid.insert(laid.end(), t.begin(), t.end());
            }
            EXPECT_EQ(ToDoubles(*r->outputs[0]), total);
            EXPECT_EQ(ToDoubles(*r->outputs[1]), laid);
            EXPECT_EQ(ToDoubles(*r->outputs[2]), twice);
            const bool behind = out_axis == 1 || out_axis == -1;
            EXPECT_EQ(r->outputs[1]->dims(), (behind ? Dims{2, length} : Dims{length, 2}));
            EXPECT_EQ(r->outputs[2]->dims(), (Dims{length, 2}));
          }
        }
}

TEST(ImportControl, ScansThatContradictThemselves) {
  const ModelWriter good = Summer();
  ExpectError(Scan(good, {}, {"x", "rows"}, 0), "num_scan_inputs is 0; allowed: 1 to 2");
  ExpectError(Scan(good, {}, {"x", "rows"}, 3), "num_scan_inputs is 3; allowed: 1 to 2");
  ExpectError(Scan(good, {}, {"x", ""}), "operand 1 is missing");
  ExpectError(Scan(good, {}, {"", "rows"}), "state 0 is missing");
  ExpectError(Scan(good, {AttrWriter::Ints("scan_input_axes", {0, 0})}),
              "scan_input_axes has 2 values; allowed: 1 or none");
  ExpectError(Scan(good, {AttrWriter::Ints("scan_output_directions", {0, 2})}),
              "scan_output_directions holds 2; allowed: 0, 1");
  ExpectError(Scan(good, {AttrWriter::Int("states", 1)}), "unknown attribute \"states\"");
  const auto run = [](const ModelWriter& w, const Dims& dims, const std::string& part) {
    auto s = LoadSessionFromBytes(w.Bytes(), {});
    if (!s.ok()) {
      EXPECT_NE(s.status().message().find(part), std::string::npos) << s.status().message();
      return;
    }
    const auto r =
        (*s)->Run({{"x", Floats({1, 2})}, {"rows", std::make_shared<HostTensor>(DType::kF32, dims)}});
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.status().message().find(part), std::string::npos) << r.status().message();
  };
  run(Scan(good, {AttrWriter::Ints("scan_input_axes", {2})}), {3, 2},
      "scan_input_axes holds 2 for an operand of rank 2");
  run(Scan(good, {}), {1025, 2}, "(Scan): more than 1024 passes");
  const ModelWriter two = ModelWriter(17)
                              .Input("a", {})
                              .Input("b", {})
                              .Node("Identity", {"a"}, {"c"})
                              .Output("c")
                              .Output("b")
                              .Output("c");
  run(Scan(two, {}, {"x", "rows"}, 2), {3, 2}, "scanned operand 1 has 3 rows and the first 2");
  ModelWriter old(8);
  old.Input("x", {"n"}).Node("Scan", {"x"}, {"y"}, {AttrWriter::Int("num_scan_inputs", 1)}).Output("y");
  ExpectError(old, "with a batch of its own, as in opset 8");
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
