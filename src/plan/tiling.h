// Tiles and their on-chip budget.
#ifndef OPSNN_PLAN_TILING_H_
#define OPSNN_PLAN_TILING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/knobs.h"
#include "device/profile.h"
#include "plan/decision.h"

namespace opsnn::plan {

struct MatrixShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::kF32;
  int64_t a_bytes = 0;     // what is read of A in all
  bool depthwise = false;  // one input channel per output channel: vectors of channels, no reuse of A
};

struct Tile {
  int64_t m = 0, n = 0, k = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

// Bytes of one sum while a product of this type is computed: f32 or s32, for doubles and long integers
// themselves.
constexpr size_t SumBytes(DType t) { return SizeOf(t) > 4 ? SizeOf(t) : 4; }

// What a fused contraction keeps on chip, in elements of what size.
struct TileBlocks {
  size_t a_size = 4, b_size = 4, c_size = 4, epilogue_size = 4;
  int nbuf = 1;             // 2 when A and B are double-buffered
  int epilogue_blocks = 0;  // operands, scratch and outputs of the vector program, each as large as C's block
};

// Bytes charged to each pool and what they may take, (1 - reserve) of the capacity.
struct Budget {
  std::vector<BudgetItem> items;
  int64_t l1 = 0, ub = 0, l0c = 0;
  int64_t l1_available = 0, ub_available = 0, l0c_available = 0;
  bool fits = false;
  std::string overflow;  // "L1: 360448 of 262144 bytes", the first pool that does not fit
};
// The profile says which pool a block is charged to; single_pool charges all four to L1. Without `words`
// there are neither items nor the overflow's text.
Budget ComputeBudget(const Tile& t, const TileBlocks& blocks, const device::DeviceProfile& p,
                     double l1_reserve, bool single_pool, bool words = true);

struct TileChoice {
  Tile tile;
  bool fits = false;
  std::vector<Retry> retries;  // every tile tried, in order; the last one is `tile`
  Tile alone;                  // the best without epilogue blocks; m = 0: none fits
};
// The aligned tile with the best predicted throughput that fits, found by shrinking the preferred tile:
// tile_k first (never below min_tile_k), then tile_m and tile_n, or in another order (knobs.retry_order, see
// RetryFrom). Positive fields of `given` are kept as they are. `cores` share the blocks.
TileChoice ChooseTile(const MatrixShape& shape, const Tile& given, const TileBlocks& blocks,
                      const device::DeviceProfile& p, int cores, const Knobs& knobs, bool single_pool);

// The ladder alone: `first`, then each tile that it tries, down to the first that fits. knobs.retry_order
// names the sides in the order in which they are halved, "kmn" or "nk"; those that it does not name follow,
// the longer first.
TileChoice RetryFrom(const Tile& first, const TileBlocks& blocks, const device::DeviceProfile& p,
                     const Knobs& knobs, bool single_pool);

// What calc_tiling of the small C API answers: f32, single buffers, all four blocks against L1.
struct TilingAnswer {
  Tile tile;
  int64_t l1_budget = 0;  // bytes the four blocks take
  int64_t ub_budget = 0;  // bytes of the epilogue block
  bool fuse = false;      // they fit
  std::string reason;
};
TilingAnswer CalcTiling(int64_t m, int64_t n, int64_t k, const Tile& given, const device::DeviceProfile& p,
                        const Knobs& knobs);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_TILING_H_
