// Bytes as an ONNX model: imported, planned for small shapes and run, or refused with a message.
#include "base/knobs.h"
#include "fuzz/fuzz.h"
#include "onnx/import.h"
#include "onnx/model_writer.h"
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

}  // namespace

std::vector<std::string> Seeds() { return {SelftestModel(), Transformer(), Shapes()}; }

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn;  // NOLINT
  // What a mutated model may ask for must not decide how long the test takes.
  static const bool limited = SetKnob("memory_limit", std::to_string(16 << 20)).ok();
  fuzz::Require(limited, "the memory knob");
  auto session = onnx::LoadSessionFromBytes({reinterpret_cast<const char*>(data), size}, {});
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
  fuzz::Require(result.ok() || !result.status().message().empty(), "an error has a message");
  return 0;
}
