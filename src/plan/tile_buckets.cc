#include "plan/tile_buckets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <string>

#include "plan/size_buckets.h"

namespace opsnn::plan {
namespace {

struct TileKey {
  static constexpr int kWords = 10;
  std::array<uint64_t, kWords> data{};
  const uint64_t* words() const { return data.data(); }
  friend bool operator==(const TileKey&, const TileKey&) = default;
};

using Cache = PlanCache<TileKey, TileChoice>;

Cache& TheCache() {
  static Cache* const cache = new Cache;  // outlives static destructors of programs that still plan
  return *cache;
}

uint64_t BlocksWord(const TileBlocks& b) {
  uint64_t word = 0;
  for (const size_t size : {b.a_size, b.b_size, b.c_size, b.epilogue_size}) word = word << 8 | size;
  return word << 16 | static_cast<uint64_t>(b.nbuf) << 8 | static_cast<uint64_t>(b.epilogue_blocks);
}

}  // namespace

int64_t TileBucketOf(int64_t side) {
  return BucketOf(kPresetSizes, std::min(side, *std::rbegin(kPresetSizes)));
}

std::shared_ptr<const TileChoice> TileOfBucket(const MatrixShape& shape, const TileBlocks& blocks,
                                               const device::DeviceProfile& p, int cores, const Knobs& knobs,
                                               bool single_pool) {
  MatrixShape of = shape;
  of.m = TileBucketOf(shape.m), of.n = TileBucketOf(shape.n), of.k = TileBucketOf(shape.k);
  of.a_bytes = of.m * of.k * static_cast<int64_t>(blocks.a_size);
  TileKey key;
  key.data = {static_cast<uint64_t>(of.m),
              static_cast<uint64_t>(of.n),
              static_cast<uint64_t>(of.k),
              static_cast<uint64_t>(of.batch),
              BlocksWord(blocks),
              p.Fingerprint(),
              static_cast<uint64_t>(cores) << 16 | static_cast<uint64_t>(of.dtype) << 8 |
                  static_cast<uint64_t>(single_pool) << 1 | static_cast<uint64_t>(of.depthwise),
              static_cast<uint64_t>(knobs.min_tile_k),
              std::bit_cast<uint64_t>(knobs.l1_reserve),
              std::hash<std::string>{}(knobs.retry_order)};
  if (auto found = TheCache().Find(key)) return found;
  auto made = std::make_shared<TileChoice>(ChooseTile(of, {}, blocks, p, cores, knobs, single_pool));
  const size_t bytes = sizeof(TileChoice) + sizeof(TileKey) + made->retries.size() * sizeof(Retry);
  return TheCache().Insert(key, std::move(made), static_cast<int64_t>(bytes), knobs.plan_cache_bytes);
}

CacheCounters TileCacheCounters() { return TheCache().counters(); }

}  // namespace opsnn::plan
