// Register tiles of three and four output blocks. The shapes per tier: as many pixels as leave two registers
// free.
#include <array>
#include <span>

#include "kernels/conv/tile.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/tile_3.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {

// Fewest pixels first; only where there are 32 registers.
std::span<const TileKernel> Tiles3() {
#if HWY_MAX_BYTES >= 64
  static constexpr TileKernel k[] = {MakeTile<3, 1, 4>(),       MakeTile<3, 4>(), MakeTile<3, 7, 9, true>(),
                                     MakeTile<3, 8, 9, true>(), MakeTile<3, 9>(), MakeTile<4, 1, 6>(),
                                     MakeTile<4, 6>()};
#else
  static constexpr std::array<TileKernel, 0> k{};
#endif
  return k;
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(Tiles3);
std::span<const TileKernel> ManyBlockTiles(isa::Tier tier) { return Tiles3_tiers[static_cast<int>(tier)](); }
}  // namespace opsnn::conv
#endif
