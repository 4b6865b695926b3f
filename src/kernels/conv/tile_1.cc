// Register tiles of one output block. The shapes per tier: as many pixels as leave two registers free.
#include <array>
#include <span>

#include "kernels/conv/tile.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/tile_1.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {

// Fewest pixels first.
std::span<const TileKernel> Tiles1() {
#if HWY_MAX_BYTES >= 64
  static constexpr TileKernel k[] = {MakeTile<1, 1, 7>(), MakeTile<1, 4, 7>(), MakeTile<1, 7>(),
                                     MakeTile<1, 14>(), MakeTile<1, 28>()};
#elif HWY_MAX_BYTES >= 32
  static constexpr TileKernel k[] = {MakeTile<1, 1, 3>(), MakeTile<1, 3>(), MakeTile<1, 6>()};
#else
  static constexpr TileKernel k[] = {MakeTile<1, 1, 2>(), MakeTile<1, 2>()};
#endif
  return k;
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(Tiles1);
std::span<const TileKernel> OneBlockTiles(isa::Tier tier) { return Tiles1_tiers[static_cast<int>(tier)](); }
}  // namespace opsnn::conv
#endif
