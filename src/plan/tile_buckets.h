// Tiles by preset size: every side of a product is taken as the next of 256, 512, 1024 and 2048, and each
// such bucket has a tile of its own. A tile is solved for once; a product of any other size looks it up.
//
// The judge has finer classes (judge_cache.cc), where a tile is one number among several; this table is for
// programs that tile by hand and want few tiles.
#ifndef OPSNN_PLAN_TILE_BUCKETS_H_
#define OPSNN_PLAN_TILE_BUCKETS_H_

#include <cstdint>
#include <memory>

#include "plan/plan_cache.h"
#include "plan/tiling.h"

namespace opsnn::plan {

// The bucket of a side: the nearest preset size that is not smaller; beyond the largest that one, whose tile
// serves whatever is longer.
int64_t TileBucketOf(int64_t side);

// What ChooseTile says of the product of the bucket's own sizes, from the cache or solved now. The sizes and
// a_bytes of `shape` are replaced by the bucket's; its type is kept. Never null.
std::shared_ptr<const TileChoice> TileOfBucket(const MatrixShape& shape, const TileBlocks& blocks,
                                               const device::DeviceProfile& p, int cores, const Knobs& knobs,
                                               bool single_pool);

CacheCounters TileCacheCounters();  // of this process

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_TILE_BUCKETS_H_
