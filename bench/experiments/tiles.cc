// What the size of a tile costs.
#include <cstdio>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/experiments/experiment.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/peak.h"

namespace opsnn::experiments {
namespace {

// GFLOP/s of a 1024^3 product for each blocking, in turns.
void Sweep(const char* field, const std::vector<gemm::Blocking>& blockings, int64_t gemm::Blocking::*shown) {
  constexpr int64_t kSize = 1024;
  AlignedBuffer a(kSize * kSize * sizeof(float)), b(kSize * kSize * sizeof(float)),
      c(kSize * kSize * sizeof(float));
  testing::Rng rng;
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    a.as<float>()[i] = static_cast<float>(rng.Real(-1, 1));
    b.as<float>()[i] = static_cast<float>(rng.Real(-1, 1));
  }
  std::vector<std::function<void()>> forms;
  for (const gemm::Blocking& blocking : blockings) {
    gemm::Params p;
    p.m = p.n = p.k = kSize;
    p.a = p.b = {a.data(), DType::kF32, kSize, 1, 0};
    p.b.data = b.data();
    p.c = c.as<float>(), p.c_row_stride = kSize;
    p.blocking = blocking;
    p.path = gemm::Path::kPanel;
    forms.push_back([p] { gemm::Run(p); });
  }
  const auto t = InTurns(forms, 4);
  const double peak = gemm::FmaRate(NumThreads());
  std::printf("| %s | GFLOP/s | share of the FMA peak |\n|---|---|---|\n", field);
  for (size_t i = 0; i < t.size(); ++i) {
    const double rate = 2.0 * kSize * kSize * kSize / t[i];
    std::printf("| %lld | %.1f | %.0f %% |\n", static_cast<long long>(blockings[i].*shown), rate * 1e-9,
                100 * rate / peak);
  }
}

void RunTileK() {
  std::vector<gemm::Blocking> blockings;
  for (int64_t kc : {8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024}) {
    blockings.emplace_back().kc = kc;
  }
  Sweep("tile_k", blockings, &gemm::Blocking::kc);
}

void RunTileM() {
  std::vector<gemm::Blocking> blockings;
  for (int64_t mc : {8, 16, 32, 64, 128, 256, 512, 1024}) blockings.emplace_back().mc = mc;
  Sweep("tile_m", blockings, &gemm::Blocking::mc);
}

}  // namespace

std::vector<Experiment> TileExperiments() {
  return {
      {"tile_k", "Halving tile_k doubles the passes over C; too deep a panel leaves L1. 1024^3, f32.",
       RunTileK},
      {"tile_m", "Too few rows pack B too often, too many leave the private cache. 1024^3, f32.", RunTileM},
  };
}

}  // namespace opsnn::experiments
