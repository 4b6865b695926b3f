// The micro-kernel of direct convolution: a register tile of output blocks x pixels.
//
// A tile walks over segments. A segment is a run of `len` input values per pixel, consecutive in memory: the
// channels of one block at one kernel tap (blocked input), or one value (NCHW input). Before a segment a
// table of pixel pointers is built; pixels for which the tap falls outside the image point to zeros. So
// stride, dilation, borders, rows and images that end inside the tile cost a table entry, never a branch.
#ifndef OPSNN_KERNELS_CONV_TILE_H_
#define OPSNN_KERNELS_CONV_TILE_H_

#include <cstdint>
#include <span>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

inline constexpr int kMaxPixels = 28;  // 28 accumulators of 32 registers leave room for weights and broadcast

struct Segment {
  int64_t offset = 0;  // floats, added to the pixel's base offset
  int32_t tap = 0;     // index into masks
  int32_t len = 0;     // at most kC0; row tiles of planes (kOne, kTwo): 1
};

struct TileArgs {
  const float* x = nullptr;
  // Table tiles: per pixel, floats from x; pixels past `pixels` repeat a valid one. Row tiles: null, pixel p
  // lies at x + p * step.
  const int64_t* pixel_offset = nullptr;
  const Segment* segments = nullptr;
  int64_t num_segments = 0;
  const uint32_t* masks = nullptr;  // per tap: bit p set when pixel p lies inside the image; null: all inside
  const float* weights = nullptr;   // [segment][len][blocks][kC0]
  const float* bias = nullptr;      // [blocks][kC0] or null
  float* y = nullptr;
  const float* residual = nullptr;
  const int64_t* out_offset =
      nullptr;               // table tiles: per pixel, floats from y and residual; else pixel p at p * kC0
  int64_t block_stride = 0;  // floats between output blocks
  int pixels = 0;            // pixels stored
  int lane_begin = 0, lane_end = kC0;  // lanes stored (whole blocks unless groups share one)
  const Post* post = nullptr;
  // Memory that the next output group will read: `prefetch_bytes` of it are asked for per segment.
  const char* prefetch = nullptr;
  int64_t prefetch_bytes = 0;
  bool in_row = false;  // table tiles: all pixels lie in one row, at the distance of the Step
  bool skips = false;   // table tiles: products with padding are left out where the tile has a form for that
  int64_t repeat = 1;   // row tiles: so many neighbouring tiles, all of them whole if more than one
};
using TileFn = void (*)(const TileArgs&);

// How a tile finds its pixels. Table tiles are compiled for a distance too, which they use at taps where all
// pixels lie in one row of the image: a constant distance saves a load per pixel and step.
enum class Step : uint8_t {
  kTable,   // any pixels; neighbours in a row if TileArgs::in_row
  kTable2,  // any pixels; every other one of a row if in_row
  kBlock,   // row tiles: neighbouring pixels of a blocked image (pointwise convolution)
  kOne,     // row tiles: neighbouring pixels of a plane (first layer) ...
  kTwo,     // ... or every other one
};

struct TileKernel {
  int blocks = 0, pixels = 0;
  TileFn run[5] = {};  // by Step; null where there is none
  TileFn For(Step s) const { return run[static_cast<int>(s)]; }
};

// The register shapes of a tier, by file; fewest blocks, then fewest pixels first.
std::span<const TileKernel> OneBlockTiles(isa::Tier tier);
std::span<const TileKernel> TwoBlockTiles(isa::Tier tier);
std::span<const TileKernel> ManyBlockTiles(isa::Tier tier);

// The kernel for `blocks` output blocks with the fewest pixels that still holds `pixels`, or with the most
// pixels if none does.
const TileKernel& FindTile(isa::Tier tier, int blocks, int64_t pixels);
// The same among those that have a row tile of neighbouring pixels.
const TileKernel& FindRowTile(isa::Tier tier, int blocks, int64_t pixels);
// What a tile computes, without products with padding: pixel by pixel, with the bits of the tiles where their
// results are finite. Pixels of row tiles are `distance` floats apart. `marks`: if not 0, so many floats
// behind every input value lies one that is nonzero unless the value is padding.
void SkippingTile(const TileArgs& t, int blocks, int64_t distance, int64_t marks);
// Most blocks computed together on this tier.
int MaxBlocks(isa::Tier tier);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_TILE_H_
