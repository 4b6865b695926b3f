// What the size of a tile costs.
#include <algorithm>
#include <cstdio>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/experiments/experiment.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/peak.h"
#include "opsnn/planner.h"
#include "vector/row_template.h"

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

// Three loops as they are written in a textbook, one core.
void ThreeLoops(const float* a, const float* b, float* c, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < size; ++k) sum += a[i * size + k] * b[k * size + j];
      c[i * size + j] = sum;
    }
  }
}

// The same sums with the loop over columns inside, which a compiler turns into vectors. Nothing is blocked.
void RowsOfB(const float* a, const float* b, float* c, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    float* __restrict row = c + i * size;
    std::fill_n(row, size, 0.0f);
    for (int64_t k = 0; k < size; ++k) {
      const float x = a[i * size + k];
      for (int64_t j = 0; j < size; ++j) row[j] += x * b[k * size + j];
    }
  }
}

// Naive first, then cut into tiles, then tuned: what each step brings.
void RunNaive() {
  std::printf("| size | form | ms | GFLOP/s |\n|---|---|---|---|\n");
  testing::Rng rng;
  for (const int64_t size : {int64_t{256}, int64_t{512}, int64_t{1024}}) {
    const size_t bytes = static_cast<size_t>(size * size) * sizeof(float);
    AlignedBuffer a(bytes), b(bytes), c(bytes);
    for (int64_t i = 0; i < size * size; ++i) {
      a.as<float>()[i] = static_cast<float>(rng.Real(-1, 1));
      b.as<float>()[i] = static_cast<float>(rng.Real(-1, 1));
    }
    gemm::Params tuned;
    tuned.m = tuned.n = tuned.k = size;
    tuned.a = {a.data(), DType::kF32, size, 1, 0};
    tuned.b = {b.data(), DType::kF32, size, 1, 0};
    tuned.c = c.as<float>(), tuned.c_row_stride = size;
    gemm::Params small = tuned;
    small.path = gemm::Path::kPanel;
    small.blocking.mc = small.blocking.kc = 32;
    const char* const names[] = {"three loops", "vectors, no blocks", "blocks of 32",
                                 "blocks from the planner"};
    const auto t = InTurns({[&] { ThreeLoops(a.as<float>(), b.as<float>(), c.as<float>(), size); },
                            [&] { RowsOfB(a.as<float>(), b.as<float>(), c.as<float>(), size); },
                            [&] { gemm::Run(small); }, [&] { gemm::Run(tuned); }});
    for (size_t i = 0; i < t.size(); ++i) {
      std::printf("| %lld^3 | %s | %s | %.1f |\n", static_cast<long long>(size), names[i], Ms(t[i]).c_str(),
                  2e-9 * static_cast<double>(size * size * size) / t[i]);
    }
  }
}

// The next block on its way while this one is computed: rows of a norm with and without software prefetch,
// and what double buffers mean to a cube.
void RunPrefetch() {
  constexpr int64_t kRows = 65536, kCols = 768;
  const size_t bytes = static_cast<size_t>(kRows * kCols) * sizeof(float);
  AlignedBuffer x(bytes), y(bytes),
      scratch(static_cast<size_t>(vector::RowScratchValues(kCols)) * sizeof(float));
  for (int64_t i = 0; i < kRows * kCols; ++i) x.as<float>()[i] = static_cast<float>(i % 97 - 48);
  vector::RowArgs args;
  args.kind = vector::RecogniseRowTemplate(vector::LayerNormProgram({}));
  args.rows = kRows, args.cols = kCols;
  args.x = x.data(), args.x_stride = kCols;
  args.y = y.data(), args.y_stride = kCols;
  const std::vector<float> ones(kCols, 1.0f), zeros(kCols, 0.0f);
  args.gamma = ones.data(), args.beta = zeros.data();
  args.scratch = scratch.as<float>();
  vector::RowArgs ahead = args;
  ahead.prefetch_next = true;
  const auto t = InTurns({[&] { vector::RunRowTemplate(args); }, [&] { vector::RunRowTemplate(ahead); }});
  std::printf("| | waiting, ms | next one ahead | gain |\n|---|---|---|---|\n");
  std::printf("| layer norm, %lldx%lld, one thread | %s | %s | %.2f |\n", static_cast<long long>(kRows),
              static_cast<long long>(kCols), Ms(t[0]).c_str(), Ms(t[1]).c_str(), t[0] / t[1]);
  for (const char* device : {"910B1", "950PR"}) {
    TileQuestion q{.tile_m = 128, .tile_n = 128, .tile_k = 64, .m = 4096, .n = 4096, .k = 4096};
    q.dtype = DType::kF16, q.pools = true;
    const auto single = AskTile(q, device);
    q.double_buffer = true;
    const auto both = AskTile(q, device);
    if (!single.ok() || !both.ok()) continue;
    std::printf("| 4096^3 f16 in tiles of 128x128x64, %s, predicted | %.3f | %.3f | %.2f |\n", device,
                single->tile.time_us / 1e3, both->tile.time_us / 1e3,
                single->tile.time_us / both->tile.time_us);
  }
}

}  // namespace

std::vector<Experiment> TileExperiments() {
  return {
      {"naive", "A product as three loops, then in vectors, in blocks, and in the planner's blocks.",
       RunNaive},
      {"prefetch", "Bringing the next block while this one is computed pays.", RunPrefetch},
      {"tile_k", "Halving tile_k doubles the passes over C; too deep a panel leaves L1. 1024^3, f32.",
       RunTileK},
      {"tile_m", "Too few rows pack B too often, too many leave the private cache. 1024^3, f32.", RunTileM},
  };
}

}  // namespace opsnn::experiments
