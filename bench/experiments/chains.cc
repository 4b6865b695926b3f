// Chains of small operators.
#include <cstdio>

#include "bench/experiments/experiment.h"
#include "opsnn/model.h"

namespace opsnn::experiments {
namespace {

void RunChainLength() {
  const Dims dims{16, 1024, 1024};
  std::printf(
      "| operators | apart, ms | fused | apart / fused | moved apart, MiB | fused "
      "|\n|---|---|---|---|---|---|\n");
  for (int length : {1, 2, 3, 4, 6, 8, 12}) {
    graph::GraphMaker m;
    graph::ValueId x = m.In("x", dims);
    for (int i = 0; i < length; ++i) {
      x = i % 2 ? m.Op("Abs", {x}) : m.Op("Add", {x, m.Scalar(0.5f)});
    }
    m.Out(x);
    Pair pair(m);
    const auto t = pair.Seconds(1.5);
    std::printf("| %d | %s | %s | %.2f | %s | %s |\n", length, Ms(t[0]).c_str(), Ms(t[1]).c_str(),
                t[0] / t[1], Mib(pair.split.BytesMoved()).c_str(), Mib(pair.fused.BytesMoved()).c_str());
  }
}

// The norm as six operators, as frameworks export it, against the operator.
void RunLayerNorm() {
  std::printf(
      "| rows x length | six operators, ms | one | ratio | moved by six, MiB | by one "
      "|\n|---|---|---|---|---|---|\n");
  for (const Dims& dims : {Dims{128, 768}, Dims{4096, 768}, Dims{65536, 768}}) {
    graph::GraphMaker small, whole;
    const Dims row{dims[1]};
    const graph::ValueId x = small.In("x", dims);
    const graph::ValueId axes = small.Ints({-1});
    const graph::ValueId centred = small.Op("Sub", {x, small.Op("ReduceMean", {x, axes})});
    const graph::ValueId var = small.Op("ReduceMean", {small.Op("Mul", {centred, centred}), axes});
    const graph::ValueId sigma = small.Op("Sqrt", {small.Op("Add", {var, small.Scalar(1e-5f)})});
    small.Out(small.Op("Div", {centred, sigma}));
    whole.Out(whole.Op("LayerNormalization",
                       {whole.In("x", dims), whole.Const(whole.RandomTensor(row, 1, 1.0001))},
                       {{"axis", static_cast<int64_t>(-1)}, {"epsilon", 1e-5f}}));
    Subject apart(small, FusionMode::kOff, "layernorm");
    Subject one(whole, FusionMode::kOff);
    const auto t = InTurns({[&] { apart.Run(); }, [&] { one.Run(); }});
    std::printf("| %lldx%lld | %s | %s | %.2f | %s | %s |\n", (long long)dims[0], (long long)dims[1],
                Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1], Mib(apart.BytesMoved()).c_str(),
                Mib(one.BytesMoved()).c_str());
  }
}

// The text detection of the demo, where its model was fetched; the judge decides what is fused.
void RunDetection() {
  const std::string file = ModelFolder() + "/ocr/ch_PP-OCRv4_det_infer.onnx";
  ModelOptions options;
  options.fusion = Fusion::kOff;
  auto apart = Model::Load(file, options);
  options.fusion = Fusion::kAuto;
  auto fused = Model::Load(file, options);
  const char* const name = "PP-OCRv4 detection, 640x640";
  if (!apart.ok() || !fused.ok()) {
    std::printf("| %s | not measured: there is no %s; tools/fetch_models.sh fetches it | | | | |\n", name,
                file.c_str());
    return;
  }
  Shapes shapes;
  shapes[fused->inputs()[0].name] = {1, 3, 640, 640};
  auto feeds = fused->RandomFeeds(shapes, 0);
  RunStats stats[2];
  const bool ran =
      feeds.ok() && apart->RunProfiled(*feeds, &stats[0]).ok() && fused->RunProfiled(*feeds, &stats[1]).ok();
  if (!ran) {
    std::printf("| %s | not measured: %s does not run | | | | |\n", name, file.c_str());
    return;
  }
  std::vector<Tensor> outputs[2];
  bool fine = true;
  const auto t = InTurns({[&] { fine &= apart->Run(*feeds, &outputs[0]).ok(); },
                          [&] { fine &= fused->Run(*feeds, &outputs[1]).ok(); }});
  std::printf("| %s | %s | %s | %.2f | %d | %d |%s\n", name, Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1],
              stats[0].nodes_run, stats[1].nodes_run, fine ? "" : " a run failed");
}

// A residual block: what fusing gains for one of its convolutions, and for all of it.
void RunEndToEnd() {
  const Dims image{1, 64, 56, 56};
  const auto conv = [](graph::GraphMaker& m, graph::ValueId x, bool act) {
    const graph::ValueId w = m.Random({64, 64, 3, 3}, -0.05, 0.05), b = m.Random({64});
    const graph::ValueId y =
        m.Op("Conv", {x, w, b},
             {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"kernel_shape", std::vector<int64_t>{3, 3}}});
    return act ? m.Op("Relu", {y}) : y;
  };
  std::printf("| | apart, ms | fused | apart / fused | calls apart | fused |\n|---|---|---|---|---|---|\n");
  graph::GraphMaker one, blocks;
  one.Out(conv(one, one.In("x", image), true));
  graph::ValueId x = blocks.In("x", image);
  for (int i = 0; i < 4; ++i) {
    const graph::ValueId y = conv(blocks, conv(blocks, x, true), false);
    x = blocks.Op("Relu", {blocks.Op("Add", {x, y})});
  }
  blocks.Out(x);
  for (auto& [name, maker] :
       {std::pair<const char*, graph::GraphMaker*>{"conv + relu", &one}, {"four residual blocks", &blocks}}) {
    Pair pair(*maker);
    const auto t = pair.Seconds();
    std::printf("| %s | %s | %s | %.2f | %d | %d |\n", name, Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1],
                pair.split.Calls(), pair.fused.Calls());
  }
  RunDetection();
}

}  // namespace

std::vector<Experiment> ChainExperiments() {
  return {
      {"chain_length", "The gain of fusing does not grow in proportion to the operators fused. 16 Mi floats.",
       RunChainLength},
      {"layer_norm", "A layer norm as one operator is often more than twice as fast as six small ones.",
       RunLayerNorm},
      {"end_to_end", "Fusing gains more over a network than for one operator of it.", RunEndToEnd},
  };
}

}  // namespace opsnn::experiments
