#include <cmath>
#include <cstdio>

#include "bench/experiments/experiment.h"

namespace opsnn::experiments {
namespace {

// softmax(Q K^T / sqrt(d) + mask) V of 12 heads, with the operators of the ONNX graph.
graph::GraphMaker Attention(int64_t length) {
  constexpr int64_t kHeads = 12, kDim = 64;
  graph::GraphMaker m;
  const graph::ValueId q = m.In("q", {1, kHeads, length, kDim}), k = m.In("k", {1, kHeads, kDim, length}),
                       v = m.In("v", {1, kHeads, length, kDim});
  const graph::ValueId scores =
      m.Op("Mul", {m.Op("MatMul", {q, k}), m.Scalar(1 / std::sqrt(static_cast<float>(kDim)))});
  const graph::ValueId masked = m.Op("Add", {scores, m.In("mask", {1, 1, length, length})});
  m.Out(m.Op("MatMul", {m.Op("Softmax", {masked}, {{"axis", static_cast<int64_t>(-1)}}), v}));
  return m;
}

void RunTraffic() {
  std::printf(
      "| length | moved apart, MiB | fused | ratio | apart, ms | fused | ratio "
      "|\n|---|---|---|---|---|---|---|\n");
  for (int64_t length : {64, 128, 256, 512, 1024, 2048}) {
    auto maker = Attention(length);
    Pair pair(maker);
    const auto t = pair.Seconds(1);
    std::printf("| %lld | %s | %s | %.2f | %s | %s | %.2f |\n", static_cast<long long>(length),
                Mib(pair.split.BytesMoved()).c_str(), Mib(pair.fused.BytesMoved()).c_str(),
                static_cast<double>(pair.split.BytesMoved()) / static_cast<double>(pair.fused.BytesMoved()),
                Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1]);
  }
}

}  // namespace

std::vector<Experiment> AttentionExperiments() {
  return {{"attention_traffic",
           "What attention moves with the scale, mask and softmax fused, by sequence length.", RunTraffic}};
}

}  // namespace opsnn::experiments
