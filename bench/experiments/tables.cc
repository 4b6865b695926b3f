// The properties of fused and separate forms in one table, filled in from counters.
#include <cstdio>

#include "bench/experiments/experiment.h"
#include "opsnn/planner.h"

namespace opsnn::experiments {
namespace {

void Compare(const char* name, graph::GraphMaker& maker) {
  Pair pair(maker);
  const auto t = pair.Seconds();
  const std::string tile = pair.fused.Tile();  // fusion off: nothing is asked
  for (const Subject* s : {&pair.split, &pair.fused}) {
    const bool apart = s == &pair.split;
    std::printf("| %s | %s | %d | %d | %d, %d | %s | %s | %s | %d | %d | %s |\n", name,
                apart ? "apart" : "fused", s->Calls() - s->Conversions(), s->Intermediates(),
                s->Conversions(), s->Intermediates(true), Mib(s->BytesMoved()).c_str(),
                Mib(s->PeakBytes()).c_str(),
                tile.empty() ? "rows"
                : apart      ? "the product's own choice"
                             : (tile + ", with room for the chain").c_str(),
                s->Stages(), s->Intermediates() + 1, Ms(apart ? t[0] : t[1]).c_str());
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
      "| chain | form | launches | round trips of an intermediate | conversions of layout: launches, round "
      "trips "
      "| moved, MiB | held beside operands and results, MiB | tiles | scope: stages in the kernels "
      "| debugging: values to look at | ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  Compare("matmul + bias + gelu, 512x3072x768", product);
  Compare("conv 1x1 64 to 256 @56 + add + relu", conv);
  Compare("add + layer norm, 4096x1024", rows);
  std::printf(
      "\nHeld is 0 where what lies between is written into the memory of the result and over itself.\n");
}

// A convolution and what follows it, for one image and for eight.
void RunConvTable() {
  std::printf(
      "| conv + add + relu | batch | form | launches | moved, MiB | held beside operands and results, MiB "
      "| code: stages run "
      "| ms | ms per image |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const int64_t kernel : {int64_t{1}, int64_t{3}}) {
    for (const int64_t batch : {int64_t{1}, int64_t{8}}) {
      graph::GraphMaker m;
      const Dims image{batch, 64, 56, 56};
      const std::vector<int64_t> pads(4, kernel / 2);
      const graph::ValueId y =
          m.Op("Conv", {m.In("x", image), m.Random({64, 64, kernel, kernel}, -0.05, 0.05), m.Random({64})},
               {{"pads", pads}, {"kernel_shape", std::vector<int64_t>{kernel, kernel}}});
      m.Out(m.Op("Relu", {m.Op("Add", {y, m.In("r", image)})}));
      Pair pair(m);
      const auto t = pair.Seconds();
      for (const Subject* s : {&pair.split, &pair.fused}) {
        const double seconds = s == &pair.split ? t[0] : t[1];
        std::printf("| %lldx%lld, 64 channels @56 | %lld | %s | %d | %s | %s | %d | %s | %s |\n",
                    static_cast<long long>(kernel), static_cast<long long>(kernel),
                    static_cast<long long>(batch), s == &pair.split ? "apart" : "fused", s->Calls(),
                    Mib(s->BytesMoved()).c_str(), Mib(s->PeakBytes()).c_str(), s->Stages(),
                    Ms(seconds).c_str(), Ms(seconds / static_cast<double>(batch)).c_str());
      }
    }
  }
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
      {"fused_table",
       "Launches, round trips, tiles, memory, scope and debugging of separate and fused forms.",
       RunFusedTable},
      {"conv_table", "A convolution and what follows it: memory, batch, size of the code.", RunConvTable},
      {"tiling_freedom", "The tile that bias, gelu and add leave to a product, by device. 4096^3, f16.",
       RunTilingFreedom},
  };
}

}  // namespace opsnn::experiments
