// Bytes as an ONNX model or as the text of a graph: imported, planned for small shapes and run, or refused
// with a message.
#include <algorithm>
#include <cstdio>

#include "base/knobs.h"
#include "fuzz/fuzz.h"
#include "graph/ir/text.h"
#include "onnx/import.h"
#include "onnx/model_writer.h"
#include "op/declaration.h"
#include "opsnn/selftest.h"

namespace opsnn::fuzz {
namespace {

using onnx::AttrWriter;
using onnx::ModelWriter;
using onnx::RawTensor;

constexpr int64_t kMaxElements = 1 << 16;

std::string Transformer() {
  ModelWriter w(17);
  const std::vector<float> weights(64, 0.25f);
  w.Input("x", {"N", "8"}).Output("y");
  w.Initializer(RawTensor<float>("w", 1, {8, 8}, weights));
  w.Initializer(RawTensor<float>("g", 1, {8}, std::vector<float>(8, 1)));
  w.Initializer(RawTensor<int64_t>("s", 7, {2}, {-1, 8}));
  w.Node("LayerNormalization", {"x", "g"}, {"n"}, {AttrWriter::Int("axis", -1)});
  w.Node("MatMul", {"n", "w"}, {"q"}).Node("Transpose", {"q"}, {"t"}, {AttrWriter::Ints("perm", {1, 0})});
  w.Node("MatMul", {"n", "t"}, {"a0"}, {}).Node("Softmax", {"a0"}, {"a"}, {AttrWriter::Int("axis", -1)});
  w.Node("MatMul", {"a", "x"}, {"h"}).Node("Add", {"h", "x"}, {"r"}).Node("Reshape", {"r", "s"}, {"y"});
  return w.Bytes();
}

std::string Shapes() {
  ModelWriter w(13);
  w.Input("x", {"N", "3", "H", "W"}).Output("y").Output("z");
  w.Initializer(RawTensor<int64_t>("i", 7, {2}, {2, 3}));
  w.Initializer(RawTensor<int64_t>("zero", 7, {1}, {0}));
  w.Initializer(RawTensor<int64_t>("one", 7, {1}, {1}));
  w.Node("Shape", {"x"}, {"s"}).Node("Gather", {"s", "i"}, {"hw"}, {AttrWriter::Int("axis", 0)});
  w.Node("Slice", {"s", "zero", "one"}, {"n"})
      .Node("Concat", {"n", "hw"}, {"c"}, {AttrWriter::Int("axis", 0)});
  w.Node("ConstantOfShape", {"c"}, {"y"});
  w.Node("MaxPool", {"x"}, {"z"}, {AttrWriter::Ints("kernel_shape", {2, 2})});
  return w.Bytes();
}

// One node of an operator on inputs of one rank, each of the first dtype that its declaration lists; further
// inputs fed or, where they may be axes or sizes, as initializers.
std::string OneNode(const op::OpDef& def, int rank, bool constants) {
  static constexpr const char* kDims[] = {"2", "3", "4", "5"};
  ModelWriter w(18);
  std::vector<std::string> names, outputs;
  const op::Declaration& d = *def.declaration;
  const int inputs = std::clamp(def.max_inputs, 1, std::max(def.min_inputs, 3));
  for (int i = 0; i < inputs && !d.inputs.empty(); ++i) {
    const op::OperandDecl* in = &d.inputs[std::min<size_t>(static_cast<size_t>(i), d.inputs.size() - 1)];
    if (in->same_as >= 0) in = &d.inputs[static_cast<size_t>(in->same_as)];
    int type = 0;
    while (type < kNumDTypes - 1 && !op::Contains(in->dtypes, static_cast<DType>(type))) ++type;
    names.push_back("x" + std::to_string(i));
    const int32_t onnx_type = kDTypeInfo[type].onnx;
    if (i > 0 && constants) {
      w.Initializer(
          RawTensor<uint8_t>(names.back(), onnx_type, {1}, std::vector<uint8_t>(kDTypeInfo[type].size, 0)));
    } else {
      w.Input(names.back(), {kDims, kDims + (i > 0 ? std::max(rank - 1, 0) : rank)}, onnx_type);
    }
  }
  for (size_t o = 0; o < std::max<size_t>(1, std::min<size_t>(d.outputs.size(), 2)); ++o) {
    outputs.push_back("y" + std::to_string(o));
    w.Output(outputs.back());
  }
  w.Node(def.name, names, outputs);
  return w.Bytes();
}

// Of the models that could be loaded.
struct Count {
  ~Count() { std::printf("%lld models ran, %lld did not take their inputs\n", ran, refused); }
  long long ran = 0, refused = 0;
};

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {SelftestModel(), Transformer(), Shapes()};
  for (const op::OpDef* def : op::AllOperators()) {
    if (def->declaration->onnx.since == 0) continue;
    for (const int rank : {0, 1, 2, 3, 4}) {
      for (const bool constants : {false, true}) seeds.push_back(OneNode(*def, rank, constants));
    }
  }
  // Graphs as text begin otherwise, and are read by another reader.
  for (const std::string& model : {SelftestModel(), Transformer()})
    if (auto g = onnx::ImportBytes(model); g.ok())
      if (auto text = graph::WriteText(*g); text.ok()) seeds.push_back(*text);
  return seeds;
}

Result<std::unique_ptr<graph::Session>> Load(std::string_view bytes) {
  if (!graph::IsText(bytes)) return onnx::LoadSessionFromBytes(bytes, {});
  OPSNN_ASSIGN_OR_RETURN(graph::Graph g, graph::ReadText(bytes));
  return graph::Session::Create(std::move(g), {});
}

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn;  // NOLINT
  // What a mutated model may ask for must not decide how long the test takes.
  static const bool limited = SetKnob("memory_limit", std::to_string(16 << 20)).ok();
  fuzz::Require(limited, "the memory knob");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto session = fuzz::Load(bytes);
  if (!session.ok()) {
    fuzz::Require(!session.status().message().empty(), "an error has a message");
    return 0;
  }
  graph::Feeds feeds;
  for (const graph::Value* v : (*session)->inputs()) {
    Dims dims = v->desc.dims;
    for (int64_t& d : dims) d = d < 0 ? 5 : d;
    const auto count = CheckedNumElements(dims);
    if (!count || *count > fuzz::kMaxElements) return 0;
    auto t = std::make_shared<HostTensor>(v->desc.dtype, dims);
    if (!t->ok()) return 0;
    std::memset(t->data(), 0, t->bytes());
    feeds[v->name] = t;
  }
  const auto result = (*session)->Run(feeds);
  static fuzz::Count count;
  ++(result.ok() ? count.ran : count.refused);
  fuzz::Require(result.ok() || !result.status().message().empty(), "an error has a message");
  return 0;
}
