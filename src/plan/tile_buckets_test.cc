#include "plan/tile_buckets.h"

#include <gtest/gtest.h>

#include "plan/plan_tester.h"
#include "plan/size_buckets.h"

namespace opsnn::plan {
namespace {

TEST(TileBuckets, NearestSizeUp) {
  for (const auto& [side, bucket] : {std::pair<int64_t, int64_t>{0, 0},
                                     {1, 256},
                                     {256, 256},
                                     {257, 512},
                                     {700, 1024},
                                     {2048, 2048},
                                     {2049, 2048},
                                     {int64_t{1} << 40, 2048}})
    EXPECT_EQ(TileBucketOf(side), bucket) << side;
}

// Each bucket has the tile of its own product, however large what looks it up is within it.
TEST(TileBuckets, HaveTilesOfTheirOwn) {
  const TileBlocks blocks{4, 4, 4, 4, 1, 1};
  const Knobs knobs;
  for (const DeviceProfile& p : {TestHost(), Npu("910B1"), Npu("950PR")}) {
    for (const int64_t size : kPresetSizes) {
      MatrixShape whole{size, size, size, 1, DType::kF32, size * size * 4, false};
      const TileChoice own = ChooseTile(whole, {}, blocks, p, 1, knobs, true);
      for (const int64_t less : {int64_t{0}, int64_t{1}, size / 3}) {
        const MatrixShape asked{size - less, size - less / 2, size, 1, DType::kF32, 0, false};
        EXPECT_EQ(TileOfBucket(asked, blocks, p, 1, knobs, true)->tile, own.tile)
            << p.name << " " << size << " " << less;
      }
    }
  }
  // Other types, blocks, profiles and settings have other tiles.
  const MatrixShape large{2048, 2048, 2048, 1, DType::kF32, 0, false};
  DeviceProfile small = TestHost();
  small.Set(Field::k_l1_bytes, 96 << 10, "test");
  const Tile usual = TileOfBucket(large, blocks, TestHost(), 1, knobs, true)->tile;
  EXPECT_FALSE(TileOfBucket(large, blocks, small, 1, knobs, true)->tile == usual);
}

TEST(TileBuckets, AreSolvedForOnce) {
  const TileBlocks blocks{2, 2, 4, 4, 2, 3};  // of no other test
  const MatrixShape shape{900, 300, 40, 1, DType::kF16, 0, false};
  const CacheCounters before = TileCacheCounters();
  const auto first = TileOfBucket(shape, blocks, TestHost(), 1, Knobs(), false);
  const MatrixShape alike{1024, 512, 256, 1, DType::kF16, 0, false};
  EXPECT_EQ(TileOfBucket(alike, blocks, TestHost(), 1, Knobs(), false), first);
  const CacheCounters after = TileCacheCounters();
  EXPECT_EQ(after.misses - before.misses, 1);
  EXPECT_EQ(after.hits - before.hits, 1);
  EXPECT_EQ(after.entries - before.entries, 1);
  EXPECT_GT(after.bytes, before.bytes);
}

}  // namespace
}  // namespace opsnn::plan
