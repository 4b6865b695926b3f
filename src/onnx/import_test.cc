#include "onnx/import.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "onnx/model_writer.h"
#include "testing/testing.h"

namespace opsnn::onnx {
namespace {

using ::opsnn::graph::Graph;

ConstTensor F32(const Dims& dims, const std::vector<float>& v) { return HostTensor::From<float>(dims, v); }

// Runs a model with one f32 input "x" and one output.
std::vector<double> RunModel(const ModelWriter& w, ConstTensor x, Dims* dims = nullptr) {
  auto s = LoadSessionFromBytes(w.Bytes(), {});
  EXPECT_TRUE(s.ok()) << s.status().message();
  if (!s.ok()) return {};
  auto r = (*s)->Run({{"x", std::move(x)}});
  EXPECT_TRUE(r.ok()) << r.status().message();
  if (!r.ok()) return {};
  if (dims) *dims = r->outputs[0]->dims();
  return ToDoubles(*r->outputs[0]);
}

std::string ImportError(const std::string& bytes) {
  auto g = ImportBytes(bytes);
  return g.ok() ? "" : g.status().message();
}

const char* OpName(const Graph& g, size_t n) { return g.nodes[n].op->name.c_str(); }

TEST(OnnxImport, NamesShapesAndSymbolicDims) {
  auto g =
      ImportBytes(ModelWriter(13).Input("x", {"N", "3", ""}).Node("Relu", {"x"}, {"y"}).Output("y").Bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const graph::Value& x = g->values[g->inputs[0]];
  EXPECT_EQ(x.desc.dims, (Dims{kUnknownDim, 3, kUnknownDim}));
  EXPECT_EQ(x.dim_names, (std::vector<std::string>{"N", "", ""}));
  ASSERT_EQ(g->nodes.size(), 1u);
  EXPECT_EQ(g->nodes[0].name, "Relu_0");
  EXPECT_EQ(g->nodes[0].origins, (std::vector<graph::NodeId>{0}));
  EXPECT_EQ(g->values[g->outputs[0]].name, "y");
}

TEST(OnnxImport, AnInitializerThatIsAlsoAnInputIsAConstant) {
  ModelWriter w(13);
  w.Input("x", {"2"}).Input("c", {"2"}).Initializer(RawTensor<float>("c", 1, {2}, {1, 2}));
  w.Node("Add", {"x", "c"}, {"y"}).Output("y");
  auto g = ImportBytes(w.Bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(g->inputs.size(), 1u);
  EXPECT_EQ(RunModel(w, F32({2}, {10, 20})), (std::vector<double>{11, 22}));
}

TEST(OnnxImport, ADefaultMayBeFed) {
  ModelWriter w(13);
  w.Input("x", {"N"}).Input("c", {"N"}).Input("shape", {"2"}, 7);
  w.Initializer(RawTensor<float>("c", 1, {2}, {1, 2}))
      .Initializer(RawTensor<int64_t>("shape", 7, {2}, {1, 2}));
  w.Node("Add", {"x", "c"}, {"s"}).Node("Reshape", {"s", "shape"}, {"y"}).Output("y");
  auto s = LoadSessionFromBytes(w.Bytes(), {});
  ASSERT_TRUE(s.ok()) << s.status().message();
  const graph::Feeds x = {{"x", F32({2}, {10, 20})}};
  const auto run = [&](graph::Feeds more) {
    more.insert(x.begin(), x.end());
    auto r = (*s)->Run(more);
    EXPECT_TRUE(r.ok()) << r.status().message();
    return r.ok() ? std::move(r->outputs[0]) : nullptr;
  };
  const auto plain = run({}), fed = run({{"c", F32({2}, {5, 6})}}),
             both = run({{"c", F32({2}, {5, 6})}, {"shape", HostTensor::From<int64_t>({2}, {2, 1})}}),
             again = run({});
  ASSERT_TRUE(plain && fed && both && again);
  EXPECT_EQ(ToDoubles(*plain), (std::vector<double>{11, 22}));
  EXPECT_EQ(ToDoubles(*fed), (std::vector<double>{15, 26}));
  EXPECT_EQ(both->dims(), (Dims{2, 1}));
  EXPECT_EQ(fed->dims(), (Dims{1, 2}));
  EXPECT_EQ(ToDoubles(*again), (std::vector<double>{11, 22}));
  auto wrong = (*s)->Run({{"x", F32({2}, {1, 1})}, {"c", HostTensor::From<int64_t>({2}, {1, 1})}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().message(), "input \"c\" has dtype s64; allowed is f32.");
  EXPECT_FALSE((*s)->Run({{"x", F32({2}, {1, 1})}, {"y", F32({2}, {1, 1})}}).ok());
}

TEST(OnnxImport, EveryFormOfConstant) {
  ModelWriter w(13);
  w.Input("x", {"2"});
  w.Node("Constant", {}, {"t"}, {AttrWriter::Tensor("value", RawTensor<float>("", 1, {2}, {1, 2}))});
  w.Node("Constant", {}, {"f"}, {AttrWriter::Float("value_float", 10)});
  w.Node("Constant", {}, {"l"}, {AttrWriter::Floats("value_floats", {100, 200})});
  w.Node("Constant", {}, {"i"}, {AttrWriter::Ints("value_ints", {1, 2})});
  w.Node("Constant", {}, {"n"}, {AttrWriter::Int("value_int", 2)});
  w.Node("Add", {"x", "t"}, {"a"}).Node("Add", {"a", "f"}, {"b"}).Node("Add", {"b", "l"}, {"c"});
  w.Node("Reshape", {"c", "i"}, {"y"}).Output("y");
  Dims dims;
  EXPECT_EQ(RunModel(w, F32({2}, {0, 0}), &dims), (std::vector<double>{111, 212}));
  EXPECT_EQ(dims, (Dims{1, 2}));
  EXPECT_NE(ImportError(ModelWriter(13).Node("Constant", {}, {"t"}).Output("t").Bytes()), "");
}

TEST(OnnxImport, TypedDataOfEveryKind) {
  const auto load = [](int32_t type, const std::function<void(protozero::pbf_writer&)>& fill) {
    std::string t;
    protozero::pbf_writer w(t);
    w.add_int64(field::TensorProto::dims, 2);
    w.add_int32(field::TensorProto::data_type, type);
    w.add_string(field::TensorProto::name, "c");
    fill(w);
    auto g = ImportBytes(
        ModelWriter(13).Initializer(t).Node("Identity", {"c"}, {"y"}).Output("y", {}, type).Bytes());
    EXPECT_TRUE(g.ok()) << g.status().message();
    return g.ok() ? ToDoubles(*g->values[0].desc.constant) : std::vector<double>();
  };
  const std::vector<double> want = {1, -2};
  const std::vector<float> f = {1, -2};
  const std::vector<double> d = {1, -2};
  const std::vector<int64_t> l = {1, -2};
  const std::vector<int32_t> i = {1, -2}, half = {0x3C00, 0xC000}, bf = {0x3F80, 0xC000};
  EXPECT_EQ(load(1, [&](auto& w) { w.add_packed_float(field::TensorProto::float_data, f.begin(), f.end()); }),
            want);
  EXPECT_EQ(
      load(11, [&](auto& w) { w.add_packed_double(field::TensorProto::double_data, d.begin(), d.end()); }),
      want);
  EXPECT_EQ(load(7, [&](auto& w) { w.add_packed_int64(field::TensorProto::int64_data, l.begin(), l.end()); }),
            want);
  for (int32_t type : {3, 5, 6})
    EXPECT_EQ(
        load(type, [&](auto& w) { w.add_packed_int32(field::TensorProto::int32_data, i.begin(), i.end()); }),
        want);
  EXPECT_EQ(
      load(10,
           [&](auto& w) { w.add_packed_int32(field::TensorProto::int32_data, half.begin(), half.end()); }),
      want);
  EXPECT_EQ(
      load(16, [&](auto& w) { w.add_packed_int32(field::TensorProto::int32_data, bf.begin(), bf.end()); }),
      want);
  EXPECT_EQ(load(9, [&](auto& w) { w.add_packed_int32(field::TensorProto::int32_data, i.begin(), i.end()); }),
            (std::vector<double>{1, 1}));
}

// ---- normalisation

TEST(OnnxImport, AttributesThatBecameInputs) {
  ModelWriter w(9);
  w.Input("x", {"1", "2", "3"});
  w.Node("Clip", {"x"}, {"a"}, {AttrWriter::Float("min", -1), AttrWriter::Float("max", 1)});
  w.Node("Squeeze", {"a"}, {"b"}, {AttrWriter::Ints("axes", {0})});
  w.Node("Slice", {"b"}, {"c"},
         {AttrWriter::Ints("axes", {1}), AttrWriter::Ints("starts", {1}), AttrWriter::Ints("ends", {3})});
  w.Node("Pad", {"c"}, {"d"}, {AttrWriter::Ints("pads", {0, 1, 0, 0}), AttrWriter::Float("value", 7)});
  w.Node("ReduceSum", {"d"}, {"y"}, {AttrWriter::Ints("axes", {0}), AttrWriter::Int("keepdims", 0)})
      .Output("y");
  Dims dims;
  EXPECT_EQ(RunModel(w, F32({1, 2, 3}, {9, 0.5, -9, 9, 0.25, 9}), &dims), (std::vector<double>{14, 0.75, 0}));
  EXPECT_EQ(dims, (Dims{3}));
}

TEST(OnnxImport, SoftmaxBeforeOpset13NormalisesRowsOfAMatrix) {
  ModelWriter old(11), now(13);
  for (ModelWriter* w : {&old, &now})
    w->Input("x", {"1", "2", "2"}).Node("Softmax", {"x"}, {"y"}).Output("y");
  const ConstTensor x = F32({1, 2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(RunModel(old, x), std::vector<double>(4, 0.25));  // axis 1: over all four
  EXPECT_EQ(RunModel(now, x), std::vector<double>(4, 0.5));   // axis -1
  ModelWriter last(11);
  last.Input("x", {"2", "2"}).Node("Softmax", {"x"}, {"y"}).Output("y");
  auto g = ImportBytes(last.Bytes());
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->nodes.size(), 1u);  // the last axis needs no reshaping
}

TEST(OnnxImport, UpsampleAndOldResizeBecomeResize) {
  ModelWriter up(9);
  up.Input("x", {"1", "1", "1", "2"}).Initializer(RawTensor<float>("s", 1, {4}, {1, 1, 2, 2}));
  up.Node("Upsample", {"x", "s"}, {"y"}, {AttrWriter::String("mode", "nearest")}).Output("y");
  auto g = ImportBytes(up.Bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_STREQ(OpName(*g, 0), "Resize");
  Dims dims;
  EXPECT_EQ(RunModel(up, F32({1, 1, 1, 2}, {1, 2}), &dims), (std::vector<double>{1, 1, 2, 2, 1, 1, 2, 2}));
  EXPECT_EQ(dims, (Dims{1, 1, 2, 4}));
  ModelWriter eleven(11);
  eleven.Input("x", {"1", "1", "1", "2"});
  eleven.Initializer(RawTensor<float>("roi", 1, {0}, {}))
      .Initializer(RawTensor<float>("s", 1, {4}, {1, 1, 1, 2}));
  eleven.Node("Resize", {"x", "roi", "s"}, {"y"},
              {AttrWriter::String("coordinate_transformation_mode", "asymmetric"),
               AttrWriter::String("nearest_mode", "floor")});
  EXPECT_EQ(RunModel(eleven.Output("y"), F32({1, 1, 1, 2}, {1, 2})), (std::vector<double>{1, 1, 2, 2}));
}

TEST(OnnxImport, OldFormsOfSplitTopKAndReductions) {
  ModelWriter w(9);
  w.Input("x", {"1", "5"});
  w.Node("Split", {"x"}, {"a", "b"}, {AttrWriter::Int("axis", 1), AttrWriter::Ints("split", {2, 3})});
  w.Node("TopK", {"b"}, {"t", "i"}, {AttrWriter::Int("k", 2)});
  w.Node("ReduceMax", {"a"}, {"m"}, {AttrWriter::Ints("axes", {1})});
  w.Node("Concat", {"t", "m"}, {"y"}, {AttrWriter::Int("axis", 1)}).Output("y");
  EXPECT_EQ(RunModel(w, F32({1, 5}, {1, 2, 7, 5, 9})), (std::vector<double>{9, 7, 2}));
}

TEST(OnnxImport, BroadcastingAlongAnAxisBeforeOpset7) {
  ModelWriter w(6);
  w.Input("x", {"1", "2", "2"}).Initializer(RawTensor<float>("c", 1, {2}, {10, 20}));
  w.Node("Add", {"x", "c"}, {"y"}, {AttrWriter::Int("axis", 1), AttrWriter::Int("broadcast", 1)}).Output("y");
  EXPECT_EQ(RunModel(w, F32({1, 2, 2}, {1, 2, 3, 4})), (std::vector<double>{11, 12, 23, 24}));
}

TEST(OnnxImport, BatchNormalizationDropsWhatIsForTraining) {
  const auto norm = [](int64_t opset, std::vector<AttrWriter> attrs) {
    ModelWriter w(opset);
    w.Input("x", {"1", "1", "2"}).Initializer(RawTensor<float>("one", 1, {1}, {1}));
    return w.Node("BatchNormalization", {"x", "one", "one", "one", "one"}, {"y"}, attrs).Output("y");
  };
  const std::vector<double> y = RunModel(
      norm(7, {AttrWriter::Int("spatial", 1), AttrWriter::Float("epsilon", 0)}), F32({1, 1, 2}, {3, 5}));
  EXPECT_EQ(y, (std::vector<double>{3, 5}));
  EXPECT_NE(ImportError(norm(7, {AttrWriter::Int("spatial", 0)}).Bytes()).find("spatial"), std::string::npos);
  // In training mode the statistics are those of the batch: mean 4, variance 1.
  const std::vector<double> trained =
      RunModel(norm(14, {AttrWriter::Int("training_mode", 1), AttrWriter::Float("epsilon", 0)}),
               F32({1, 1, 2}, {3, 5}));
  EXPECT_EQ(trained, (std::vector<double>{0, 2}));
}

TEST(OnnxImport, DropoutIsAnIdentity) {
  ModelWriter w(13);
  w.Input("x", {"2"}).Node("Dropout", {"x"}, {"d", ""}).Node("Relu", {"d"}, {"y"}).Output("y");
  auto g = ImportBytes(w.Bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_STREQ(OpName(*g, 0), "Identity");
}

TEST(OnnxImport, OptionalInputsMayBeEmpty) {
  ModelWriter w(13);
  w.Input("x", {"2"}).Initializer(RawTensor<float>("hi", 1, {}, {1}));
  w.Node("Clip", {"x", "", "hi"}, {"y"}).Output("y");
  EXPECT_EQ(RunModel(w, F32({2}, {-5, 5})), (std::vector<double>{-5, 1}));
}

// ---- errors

TEST(OnnxImport, ErrorsNameTheTrouble) {
  const auto error = [](ModelWriter w) { return ImportError(w.Bytes()); };
  EXPECT_EQ(error(ModelWriter(13).Input("x", {"2"}).Node("Foo", {"x"}, {"y"}).Output("y")),
            "node \"Foo_0\" (Foo): operator Foo (domain ai.onnx, opset 13) is not supported.");
  EXPECT_EQ(error(ModelWriter(13).Input("x", {"2"}).Node("Bar", {"x"}, {"y"}, {}, "com.example").Output("y")),
            "node \"Bar_0\" (Bar): operator Bar (domain com.example, opset 0) is not supported.");
  EXPECT_NE(error(ModelWriter(13).Node("Relu", {"nowhere"}, {"y"}).Output("y")).find("\"nowhere\""),
            std::string::npos);
  EXPECT_NE(
      error(ModelWriter(13).Input("x", {"2"}).Node("Relu", {"x"}, {"x"}).Output("x")).find("same value"),
      std::string::npos);
  EXPECT_NE(error(ModelWriter(13).Input("x", {"2"}).Node("Relu", {"x"}, {"y"}).Output("z")).find("\"z\""),
            std::string::npos);
  EXPECT_NE(error(ModelWriter(13).Input("x", {"2"}, 8).Node("Relu", {"x"}, {"y"}).Output("y")).find("string"),
            std::string::npos);
  EXPECT_NE(error(ModelWriter(13)
                      .Input("x", {"2"})
                      .Node("Relu", {"x"}, {"y"}, {AttrWriter::Graph("body")})
                      .Output("y"))
                .find("body"),
            std::string::npos);
  EXPECT_NE(error(ModelWriter(13)
                      .Input("x", {"2"})
                      .Node("Relu", {"x"}, {"y"}, {AttrWriter::Int("slope", 1)})
                      .Output("y"))
                .find("slope"),
            std::string::npos);
  EXPECT_EQ(ImportError(""), "the model is empty (0 bytes).");
  EXPECT_NE(ImportError("not a model at all, just text"), "");
}

TEST(OnnxImport, TensorDataMustMatchItsShape) {
  const auto error = [](const std::string& tensor) {
    return ImportError(
        ModelWriter(13).Initializer(tensor).Node("Identity", {"c"}, {"y"}).Output("y").Bytes());
  };
  EXPECT_NE(error(RawTensor<float>("c", 1, {3}, {1, 2})).find("8 bytes"), std::string::npos);
  EXPECT_NE(error(RawTensor<float>("c", 1, {-1}, {1})).find("negative"), std::string::npos);
  EXPECT_NE(error(RawTensor<float>("c", 1, {int64_t{1} << 40, int64_t{1} << 40}, {1})).find("too large"),
            std::string::npos);
  EXPECT_NE(error(RawTensor<float>("c", 13, {1}, {1})).find("uint64"), std::string::npos);
  EXPECT_NE(error(RawTensor<float>("c", 1, std::vector<int64_t>(9, 1), {1})).find("rank 9"),
            std::string::npos);
  EXPECT_NE(error(RawTensor<float>("c", 1, {int64_t{1} << 33}, {1})).find("4 bytes"), std::string::npos);
}

TEST(OnnxImport, MissingFileIsNamed) {
  auto s = LoadSession("/nonexistent/model.onnx", {});
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.status().message(), "cannot open \"/nonexistent/model.onnx\": No such file or directory.");
  EXPECT_FALSE(LoadSession("/tmp", {}).ok());
}

// ---- damaged files

std::string SampleModel() {
  ModelWriter w(9);
  w.Input("x", {"N", "2", "4", "4"});
  w.Initializer(RawTensor<float>("w", 1, {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}));
  w.Node("Conv", {"x", "w"}, {"c"}, {AttrWriter::Ints("kernel_shape", {1, 1})});
  w.Node("Clip", {"c"}, {"k"}, {AttrWriter::Float("min", 0)});
  w.Node("GlobalAveragePool", {"k"}, {"p"})
      .Node("Flatten", {"p"}, {"f"})
      .Node("Softmax", {"f"}, {"y"})
      .Output("y");
  return w.Bytes();
}

TEST(OnnxImport, TruncatedAnywhereNeverCrashes) {
  const std::string bytes = SampleModel();
  ASSERT_EQ(ImportError(bytes), "");
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::string message = ImportError(bytes.substr(0, n));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(OnnxImport, DamagedBytesNeverCrash) {
  const std::string bytes = SampleModel();
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(400)) {
    std::string damaged = bytes;
    const int64_t changes = rng.Int(1, 6);
    for (int64_t i = 0; i < changes; ++i) {
      const size_t at = rng.Int(0, static_cast<int64_t>(damaged.size()) - 1);
      damaged[at] = static_cast<char>(rng.Chance(0.5) ? damaged[at] ^ (1 << rng.Int(0, 7)) : rng.Int(0, 255));
    }
    auto s = LoadSessionFromBytes(damaged, {});
    if (!s.ok()) continue;
    // What still loads must also survive being planned, with whatever shapes it now claims (kept small).
    graph::Shapes shapes;
    for (const graph::Value* v : (*s)->inputs()) {
      Dims d = v->desc.dims;
      for (int64_t& size : d) size = size < 0 ? 1 : std::min<int64_t>(size, 64);
      shapes[v->name] = d;
    }
    (void)(*s)->Prepare(shapes);
  }
}

TEST(OnnxImport, RandomBytesNeverCrash) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    std::string bytes(rng.Int(1, 300), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.Int(0, 255));
    (void)ImportError(bytes);
  }
}

}  // namespace
}  // namespace opsnn::onnx
