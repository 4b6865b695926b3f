// Register tiles of two output blocks. The shapes per tier: as many pixels as leave two registers free.
#include <array>
#include <span>

#include "kernels/conv/tile.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/tile_2.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {

// Fewest pixels first. With 16 registers two blocks leave no room for more than one pixel.
std::span<const TileKernel> Tiles2() {
#if HWY_MAX_BYTES >= 64
  static constexpr TileKernel k[] = {
      MakeTile<2, 1, 7>(),         MakeTile<2, 4, 7>(),         MakeTile<2, 7>(),
      MakeTile<2, 8, 14, true>(),  MakeTile<2, 10, 14, true>(), MakeTile<2, 11, 14, true>(),
      MakeTile<2, 12, 14, true>(), MakeTile<2, 13, 14, true>(), MakeTile<2, 14>()};
#elif HWY_MAX_BYTES >= 32
  static constexpr TileKernel k[] = {MakeTile<2, 1>()};
#else
  static constexpr std::array<TileKernel, 0> k{};
#endif
  return k;
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(Tiles2);
std::span<const TileKernel> TwoBlockTiles(isa::Tier tier) { return Tiles2_tiers[static_cast<int>(tier)](); }
}  // namespace opsnn::conv
#endif
