// ONNX Runtime: a model of one product with its epilogue, made in memory; weights are initializers, which it
// packs when the session starts. Inputs and outputs are bound once.
#include <onnxruntime_cxx_api.h>

#include <cstdio>

#include "bench/peers/case.h"
#include "bench/peers/onnx_bytes.h"

namespace opsnn::peers {
namespace {

constexpr int kFloat = 1, kInt8 = 3, kInt32 = 6;  // TensorProto.DataType

class OnnxRuntime : public Contender {
 public:
  explicit OnnxRuntime(const Case& c) {
    const bool ints = c.type == Type::kS8;
    const int in = ints ? kInt8 : kFloat;
    const size_t size = ints ? 1 : sizeof(float);
    std::vector<int64_t> a = {c.m, c.k}, w = {c.k, c.n}, y = {c.m, c.n};
    if (c.batch > 1) {
      for (auto* d : {&a, &w, &y}) d->insert(d->begin(), c.batch);
    }
    Message graph;
    const char* product = c.act == Act::kNone ? "y" : "x";
    if (c.bias) {
      graph.Sub(1, Node("Gemm", {"a", "w", "bias"}, product));
    } else {
      graph.Sub(1, Node(ints ? "MatMulInteger" : "MatMul", {"a", "w"}, product));
    }
    if (c.act != Act::kNone) {
      std::vector<Message> attributes;
      if (c.act == Act::kGeluTanh) attributes.push_back(Attribute("approximate", "tanh"));
      graph.Sub(1, Node(c.act == Act::kRelu ? "Relu" : "Gelu", {"x"}, "y", attributes));
    }
    graph.Text(2, "g");
    const size_t w_bytes = static_cast<size_t>(c.k * c.n * c.batch) * size;
    if (c.constant) graph.Sub(5, Tensor("w", in, w, c.w, w_bytes));
    if (c.bias) graph.Sub(5, Tensor("bias", kFloat, {c.n}, c.bias, static_cast<size_t>(c.n) * sizeof(float)));
    graph.Sub(11, ValueInfo("a", in, a));
    if (!c.constant) graph.Sub(11, ValueInfo("w", in, w));
    graph.Sub(12, ValueInfo("y", ints ? kInt32 : kFloat, y));
    const Message model = OnnxModel(graph);
    options_.SetIntraOpNumThreads(c.threads);
    options_.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    // Its threads would spin through the turns of the others; a spin of their own they still have per run.
    options_.AddConfigEntry("session.intra_op.allow_spinning", c.threads > 1 ? "1" : "0");
    options_.AddConfigEntry("session.force_spinning_stop", "1");
    session_ = Ort::Session(Env(), model.bytes.data(), model.bytes.size(), options_);
    binding_ = Ort::IoBinding(session_);
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    const auto value = [&](const void* p, size_t bytes, const std::vector<int64_t>& d, int type) {
      return Ort::Value::CreateTensor(memory, const_cast<void*>(p), bytes, d.data(), d.size(),
                                      static_cast<ONNXTensorElementDataType>(type));
    };
    y_.resize(static_cast<size_t>(c.m * c.n * c.batch));
    binding_.BindInput("a", value(c.a, static_cast<size_t>(c.m * c.k * c.batch) * size, a, in));
    if (!c.constant) binding_.BindInput("w", value(c.w, w_bytes, w, in));
    binding_.BindOutput("y", value(y_.data(), y_.size() * sizeof(float), y, ints ? kInt32 : kFloat));
  }
  const char* name() const override { return "ORT"; }
  void Run() override { session_.Run(Ort::RunOptions{nullptr}, binding_); }
  const void* result() const override { return y_.data(); }

 private:
  static Ort::Env& Env() {
    static Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "peers");
    return env;
  }
  Ort::SessionOptions options_;
  Ort::Session session_{nullptr};
  Ort::IoBinding binding_{nullptr};
  std::vector<float> y_;
};

}  // namespace

void AddOnnxRuntime(const Case& c, Contenders& to) {
  if (c.type != Type::kF32) return;
  try {
    to.push_back(std::make_unique<OnnxRuntime>(c));
  } catch (const Ort::Exception& e) {
    std::fprintf(stderr, "ONNX Runtime refuses: %s\n", e.what());
  }
}

}  // namespace opsnn::peers
