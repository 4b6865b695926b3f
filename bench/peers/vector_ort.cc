// ONNX Runtime on the model that opsnn runs, inputs and outputs bound once.
#include <onnxruntime_cxx_api.h>

#include <cstdio>

#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

class Session {
 public:
  Session(const VectorCase& c, const VectorMemory& m, int threads) {
    const std::string bytes = OnnxBytes(c, m);
    options_.SetIntraOpNumThreads(threads);
    options_.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    // Its threads would spin through the turns of the others; a spin of their own they still have per run.
    options_.AddConfigEntry("session.intra_op.allow_spinning", threads > 1 ? "1" : "0");
    options_.AddConfigEntry("session.force_spinning_stop", "1");
    static Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "peers");
    session_ = Ort::Session(env, bytes.data(), bytes.size(), options_);
    binding_ = Ort::IoBinding(session_);
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    const auto value = [&](const Operand& o, void* data) {
      return Ort::Value::CreateTensor(
          memory, data, o.bytes(), o.dims.data(), o.dims.size(),
          static_cast<ONNXTensorElementDataType>(kDTypeInfo[static_cast<int>(o.dtype)].onnx));
    };
    for (size_t i = 0; i < c.in.size(); ++i)
      if (!c.in[i].constant) binding_.BindInput(c.in[i].name, value(c.in[i], m.in[i]));
    binding_.BindOutput(c.out[0].name, value(c.out[0], m.out[0]));
  }
  void Run() { session_.Run(Ort::RunOptions{nullptr}, binding_); }

 private:
  Ort::SessionOptions options_;
  Ort::Session session_{nullptr};
  Ort::IoBinding binding_{nullptr};
};

}  // namespace

void AddOnnxRuntime(const VectorCase& c, const VectorMemory& m, int threads, VectorRuns& to) {
  if (OnnxBytes(c, m).empty() || c.op == VectorOp::kCrossEntropy) return;  // it has no kernel for the loss
  try {
    auto s = std::make_shared<Session>(c, m, threads);
    s->Run();
    to.push_back({"ORT", [s] { s->Run(); }});
  } catch (const Ort::Exception&) {  // types that it has no kernel for
  }
}

std::string OnnxRuntimeVersion() {
  return std::string("ONNX Runtime ") + OrtGetApiBase()->GetVersionString();
}

}  // namespace opsnn::peers
