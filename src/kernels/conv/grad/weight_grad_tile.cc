#include "kernels/conv/grad/weight_grad_tile.h"

#include <algorithm>

#include "kernels/conv/conv.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/grad/weight_grad_tile.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kPerBlock = kC0 / kLanes;
// With 32 registers two output blocks times up to 11 channels, most often 8: 16 sums hide the latency, and a
// pixel costs 10 loads for its 16 multiply-adds. With 16 registers what fits beside one block.
constexpr int kMostBlocks = HWY_MAX_BYTES >= 64 ? 2 : 1;
constexpr int kChannels = HWY_MAX_BYTES >= 64 ? 11 : HWY_MAX_BYTES >= 32 ? 4 : 2;

// kN channels from `channel` on, of which `real` are added to the sums; kBlocks output blocks from `block`
// on.
template <int kBlocks, int kN, bool kOffsets = false>
HWY_NOINLINE void Tile(const TapArgs& t, int channel, int real, int block) {
  constexpr int NV = kBlocks * kPerBlock;
  const D d;
  V acc[NV][kN];
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v)
#pragma GCC unroll 16
    for (int c = 0; c < kN; ++c) acc[v][c] = hn::Zero(d);
  const int64_t x_step = t.x_step, dy_block = t.dy_block, pixels = t.pixels;
  const float* const x0 = kOffsets ? t.x : t.x + channel;
  [[maybe_unused]] int64_t offsets[kN];
  if constexpr (kOffsets)
    for (int c = 0; c < kN; ++c) offsets[c] = t.offsets[channel + std::min(c, real - 1)];
  const float* const dy0 = t.dy + block * dy_block;
  for (int64_t r = 0; r < t.num_rows; ++r) {
    const float* x = x0 + t.rows[r].x;
    const float* dy = dy0 + t.rows[r].dy;
    for (int64_t p = 0; p < pixels; ++p, x += x_step, dy += kC0) {
      V g[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v)
        g[v] = hn::LoadU(d, dy + (v / kPerBlock) * dy_block + (v % kPerBlock) * kLanes);
#pragma GCC unroll 16
      for (int c = 0; c < kN; ++c) {
        const V b = hn::Set(d, kOffsets ? x[offsets[c]] : x[c]);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) acc[v][c] = hn::MulAdd(g[v], b, acc[v][c]);
      }
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < kN; ++c) {
    if (c >= real) break;
    float* const sums = t.sums + (channel + c) * t.sums_stride + block * kC0;
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      hn::StoreU(hn::Add(hn::LoadU(d, sums + v * kLanes), acc[v][c]), d, sums + v * kLanes);
  }
}

// As few tiles as there must be, as even as their sizes allow. One with more channels than there are
// multiplies lanes that no sum takes: a narrower one would wait for its own results as long.
template <int kBlocks>
HWY_INLINE void Channels(const TapArgs& t, int block) {
  for (int c = 0, count; c < t.channels; c += count) {
    const int left = t.channels - c, tiles = (left + kChannels - 1) / kChannels;
    count = (left + tiles - 1) / tiles;
    if (count <= 2) {
      Tile<kBlocks, 2>(t, c, count, block);
    } else if (count <= 4) {
      if constexpr (kChannels >= 4) Tile<kBlocks, 4>(t, c, count, block);
    } else if (count <= 6) {
      if constexpr (kChannels >= 6) Tile<kBlocks, 6>(t, c, count, block);
    } else if (count <= 8) {
      if constexpr (kChannels >= 8) Tile<kBlocks, 8>(t, c, count, block);
    } else {
      if constexpr (kChannels >= 11) Tile<kBlocks, 11>(t, c, count, block);
    }
  }
}

// With offsets a register more is wanted per channel.
template <int kBlocks>
HWY_INLINE void Columns(const TapArgs& t, int block) {
  constexpr int kMost = HWY_MAX_BYTES >= 64 ? 9 : kChannels;
  for (int c = 0, count; c < t.channels; c += count) {
    const int left = t.channels - c, tiles = (left + kMost - 1) / kMost;
    count = (left + tiles - 1) / tiles;
    if (count <= 2) {
      Tile<kBlocks, 2, true>(t, c, count, block);
    } else if (count <= 4) {
      if constexpr (kMost >= 4) Tile<kBlocks, 4, true>(t, c, count, block);
    } else if (count <= 5) {
      if constexpr (kMost >= 5) Tile<kBlocks, 5, true>(t, c, count, block);
    } else if (count <= 7) {
      if constexpr (kMost >= 7) Tile<kBlocks, 7, true>(t, c, count, block);
    } else {
      if constexpr (kMost >= 9) Tile<kBlocks, 9, true>(t, c, count, block);
    }
  }
}

void DenseColumns(const TapArgs& t) {
  int block = 0;
  for (; block + kMostBlocks <= t.blocks; block += kMostBlocks) Columns<kMostBlocks>(t, block);
  if constexpr (kMostBlocks > 1) {
    if (block < t.blocks) Columns<1>(t, block);
  }
}

void Dense(const TapArgs& t) {
  int block = 0;
  for (; block + kMostBlocks <= t.blocks; block += kMostBlocks) Channels<kMostBlocks>(t, block);
  if constexpr (kMostBlocks > 1) {
    if (block < t.blocks) Channels<1>(t, block);
  }
}

// Four sums per lane, of every fourth pixel: one alone would wait for its own result.
void Depthwise(const TapArgs& t) {
  constexpr int kChains = 4;
  const D d;
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V acc[kChains] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t r = 0; r < t.num_rows; ++r) {
      const float* x = t.x + t.rows[r].x + lane;
      const float* dy = t.dy + t.rows[r].dy + lane;
      int64_t p = 0;
      for (; p + kChains <= t.pixels; p += kChains) {
#pragma GCC unroll 4
        for (int i = 0; i < kChains; ++i) {
          acc[i] = hn::MulAdd(hn::LoadU(d, x + (p + i) * t.x_step), hn::LoadU(d, dy + (p + i) * kC0), acc[i]);
        }
      }
      for (; p < t.pixels; ++p)
        acc[0] = hn::MulAdd(hn::LoadU(d, x + p * t.x_step), hn::LoadU(d, dy + p * kC0), acc[0]);
    }
    const V sum = hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3]));
    hn::StoreU(hn::Add(hn::LoadU(d, t.sums + lane), sum), d, t.sums + lane);
  }
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(Dense);
OPSNN_TIER_TABLE(DenseColumns);
OPSNN_TIER_TABLE(Depthwise);
TapFn DenseTap(isa::Tier tier) { return Dense_tiers[static_cast<int>(tier)]; }
TapFn ColumnsTap(isa::Tier tier) { return DenseColumns_tiers[static_cast<int>(tier)]; }
TapFn DepthwiseTap(isa::Tier tier) { return Depthwise_tiers[static_cast<int>(tier)]; }
}  // namespace opsnn::conv
#endif
