// The properties of fused and separate forms in one table, filled in from counters.
#include <cstdio>

#include "bench/experiments/experiment.h"
#include "opsnn/planner.h"

namespace opsnn::experiments {
namespace {

void Compare(const char* name, graph::GraphMaker& maker) {
  Pair pair(maker);
  const auto t = pair.Seconds();
  for (const Subject* s : {&pair.split, &pair.fused}) {
    std::printf("| %s | %s | %d | %s | %s | %s |\n", name, s == &pair.split ? "apart" : "fused", s->Calls(),
                Mib(s->BytesMoved()).c_str(), Mib(s->PeakBytes()).c_str(),
                Ms(s == &pair.split ? t[0] : t[1]).c_str());
  }
}

void RunFusedTable() {
  graph::GraphMaker product, conv, rows;
  product.Out(
      product.Op("Gelu", {product.Op("Add", {product.Op("MatMul", {product.In("x", {512, 768}),
                                                                   product.Random({768, 3072}, -0.05, 0.05)}),
                                             product.Random({3072})})}));
  const graph::ValueId y = conv.Op(
      "Conv", {conv.In("x", {1, 64, 56, 56}), conv.Random({256, 64, 1, 1}, -0.1, 0.1), conv.Random({256})});
  conv.Out(conv.Op("Relu", {conv.Op("Add", {y, conv.In("r", {1, 256, 56, 56})})}));
  const Dims d{4096, 1024};
  const graph::ValueId sum = rows.Op("Add", {rows.In("x", d), rows.In("r", d)});
  rows.Out(rows.Op("LayerNormalization", {sum, rows.Random({1024}, 0.5, 1.5), rows.Random({1024})},
                   {{"axis", static_cast<int64_t>(-1)}}));
  std::printf(
      "| chain | form | calls | round trips through memory, MiB moved | activations held, MiB | ms "
      "|\n|---|---|---|---|---|---|\n");
  Compare("matmul + bias + gelu, 512x3072x768", product);
  Compare("conv 1x1 64 to 256 @56 + add + relu", conv);
  Compare("add + layer norm, 4096x1024", rows);
}

// How the tile of a product shrinks when its chain has less room.
void RunTilingFreedom() {
  std::printf(
      "| device | verdict | tries | tile m x n x k | apart, us | fused, us |\n|---|---|---|---|---|---|\n");
  for (const char* profile : {"910B1", "910B1:ub_bytes=96K", "910B1:ub_bytes=48K", "910B1:ub_bytes=24K",
                              "910B1:l1_bytes=192K", "910B1:l1_bytes=96K", "A3", "950PR", "host"}) {
    const auto d = JudgeMatmul({4096, 4096, 4096, 1, DType::kF16, {"bias", "gelu", "add"}}, profile);
    if (!d.ok() || d->retries.empty()) {
      std::printf("| %s | %s | | | | |\n", profile,
                  d.ok() ? plan::Name(d->verdict) : d.status().message().c_str());
      continue;
    }
    const plan::Retry& last = d->retries.back();
    std::printf("| %s | %s | %zu | %lld x %lld x %lld | %.0f | %.0f |\n", profile, plan::Name(d->verdict),
                d->retries.size(), static_cast<long long>(last.tile_m), static_cast<long long>(last.tile_n),
                static_cast<long long>(last.tile_k), d->time_split_us, d->time_fused_us);
  }
}

}  // namespace

std::vector<Experiment> TableExperiments() {
  return {
      {"fused_table", "Calls, traffic, memory and time of separate and fused forms.", RunFusedTable},
      {"tiling_freedom", "The tile that bias, gelu and add leave to a product, by device. 4096^3, f16.",
       RunTilingFreedom},
  };
}

}  // namespace opsnn::experiments
