// One tile: its budget, what each side changes, what is tried where it does not fit.
#include <algorithm>
#include <set>

#include "base/knobs.h"
#include "device/host.h"
#include "opsnn/planner.h"
#include "plan/cost.h"
#include "plan/size_buckets.h"
#include "plan/tile_buckets.h"
#include "plan/tiling.h"

namespace opsnn {
namespace {

// Sides of a tile are such that its bytes can be summed.
constexpr int64_t kMostRows = int64_t{1} << 40, kMostSide = int64_t{1} << 24, kMostBlocks = 16;

Status CheckQuestion(const TileQuestion& q) {
  struct Size {
    const char* name;
    int64_t value, least, most;
  };
  const Size sizes[] = {{"m", q.m, 0, kMostRows},
                        {"n", q.n, 0, kMostRows},
                        {"k", q.k, 0, kMostRows},
                        {"tile_m", q.tile_m, 0, kMostSide},
                        {"tile_n", q.tile_n, 0, kMostSide},
                        {"tile_k", q.tile_k, 0, kMostSide},
                        {"epilogue_blocks", q.epilogue_blocks, 0, kMostBlocks}};
  for (const Size& s : sizes) {
    if (s.value < s.least || s.value > s.most) {
      return InvalidArgument("tile: %s is %lld; allowed: %lld to %lld", s.name,
                             static_cast<long long>(s.value), static_cast<long long>(s.least),
                             static_cast<long long>(s.most));
    }
  }
  // Those that products are made of.
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                              DType::kS8,  DType::kU8,  DType::kS32};
  if (std::find(std::begin(kTypes), std::end(kTypes), q.dtype) == std::end(kTypes))
    return InvalidArgument("tile: dtype is %s; allowed: f32, f64, f16, bf16, s8, u8, s32", Name(q.dtype));
  const size_t first = q.order.find_first_not_of("kmn");
  if (q.order.size() > 3 || first != std::string::npos ||
      std::set<char>(q.order.begin(), q.order.end()).size() != q.order.size())
    return InvalidArgument("tile: order is \"%s\"; allowed: k, m and n in any order, each at most once",
                           q.order.c_str());
  return OkStatus();
}

Status CheckSides(const TileQuestion& q) {
  const std::pair<int64_t, int64_t> sides[] = {{q.tile_m, q.m}, {q.tile_n, q.n}, {q.tile_k, q.k}};
  for (const auto& [tile, whole] : sides) {
    if (tile == 0 && whole == 0)
      return InvalidArgument(
          "tile: a side of the tile is 0 and so is that of the product; allowed: one of them");
  }
  return OkStatus();
}

struct Asker {
  const device::DeviceProfile& p;
  const Knobs& knobs;
  plan::MatrixShape shape;
  plan::TileBlocks blocks;
  bool single_pool;
  int cores;

  TileBudget Of(const plan::Tile& t) const { return Of(t, shape); }
  TileBudget Of(const plan::Tile& t, const plan::MatrixShape& product) const {
    const plan::Budget b = plan::ComputeBudget(t, blocks, p, knobs.l1_reserve, single_pool);
    TileBudget out{t.m, t.n, t.k, b.items, 0, b.fits, b.overflow, 0};
    for (const plan::BudgetItem& i : b.items) out.total_bytes += i.bytes;
    out.time_us = plan::CubeMicroseconds(product, t, p.is_host() || blocks.nbuf > 1, p, cores);
    return out;
  }
};

plan::MatrixShape ShapeOf(int64_t m, int64_t n, int64_t k, DType dtype) {
  plan::MatrixShape shape{m, n, k, 1, dtype, 0, false};
  const double a = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(SizeOf(dtype));
  shape.a_bytes = static_cast<int64_t>(std::min(a, 9e18));
  return shape;
}

// The chain's copy of the sums is as wide as they are.
plan::TileBlocks BlocksOf(const TileQuestion& q) {
  const size_t size = SizeOf(q.dtype), sum = plan::SumBytes(q.dtype);
  return {size, size, sum, sum, q.double_buffer ? 2 : 1, q.epilogue_blocks};
}

}  // namespace

Result<TileReport> AskTile(const TileQuestion& q, const std::string& profile) {
  OPSNN_RETURN_IF_ERROR(CheckQuestion(q));
  OPSNN_RETURN_IF_ERROR(CheckSides(q));
  Knobs knobs = GetKnobs();
  if (!q.order.empty()) knobs.retry_order = q.order;
  OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile p,
                         device::FindProfile(profile.empty() ? knobs.profile : profile));
  const plan::MatrixShape shape =
      ShapeOf(q.m > 0 ? q.m : q.tile_m, q.n > 0 ? q.n : q.tile_n, q.k > 0 ? q.k : q.tile_k, q.dtype);
  const plan::TileBlocks blocks = BlocksOf(q);
  const Asker ask{p, knobs, shape, blocks, !q.pools, plan::ActiveCores(p, 0)};
  const plan::Tile given{q.tile_m, q.tile_n, q.tile_k};
  plan::Tile tile = given;
  TileReport r;
  if (given.m > 0 && given.n > 0 && given.k > 0) {
    r.retries = plan::RetryFrom(tile, blocks, p, knobs, !q.pools).retries;
  } else {
    plan::TileChoice c = plan::ChooseTile(shape, given, blocks, p, ask.cores, knobs, !q.pools);
    tile = c.tile;
    r.retries = std::move(c.retries);
  }
  r.tile = ask.Of(tile);
  const plan::Budget b = plan::ComputeBudget(tile, blocks, p, knobs.l1_reserve, !q.pools);
  r.l1_available = b.l1_available, r.ub_available = b.ub_available, r.l0c_available = b.l0c_available;
  for (int64_t plan::Tile::*side : {&plan::Tile::m, &plan::Tile::n, &plan::Tile::k}) {
    for (const bool halved : {true, false}) {
      plan::Tile t = tile;
      t.*side = halved ? std::max<int64_t>(t.*side / 2, 1) : t.*side * 2;
      r.changes.push_back(ask.Of(t));
    }
  }
  return r;
}

Result<TileBuckets> AskTileBuckets(const TileQuestion& q, const std::string& profile) {
  OPSNN_RETURN_IF_ERROR(CheckQuestion(q));
  if (q.tile_m > 0 || q.tile_n > 0 || q.tile_k > 0)
    return InvalidArgument(
        "tile: got %lld,%lld,%lld beside buckets, whose tiles are the solver's; allowed: 0,0,0",
        static_cast<long long>(q.tile_m), static_cast<long long>(q.tile_n), static_cast<long long>(q.tile_k));
  const bool named = q.m > 0 && q.n > 0 && q.k > 0;
  if (!named && (q.m > 0 || q.n > 0 || q.k > 0))
    return InvalidArgument("tile: m, n, k are %lld, %lld, %lld; allowed with buckets: all above 0, or all 0",
                           static_cast<long long>(q.m), static_cast<long long>(q.n),
                           static_cast<long long>(q.k));
  Knobs knobs = GetKnobs();
  if (!q.order.empty()) knobs.retry_order = q.order;
  OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile p,
                         device::FindProfile(profile.empty() ? knobs.profile : profile));
  const plan::TileBlocks blocks = BlocksOf(q);
  const Asker ask{p, knobs, ShapeOf(q.m, q.n, q.k, q.dtype), blocks, !q.pools, plan::ActiveCores(p, 0)};
  const auto tile_of = [&](const plan::MatrixShape& shape) {
    return plan::TileOfBucket(shape, blocks, p, ask.cores, knobs, !q.pools)->tile;
  };
  TileBuckets r;
  for (const int64_t size : plan::kPresetSizes) {
    const plan::MatrixShape cube = ShapeOf(size, size, size, q.dtype);
    r.rows.push_back({size, ask.Of(tile_of(cube), cube)});
  }
  if (named) {
    r.m = plan::TileBucketOf(q.m), r.n = plan::TileBucketOf(q.n), r.k = plan::TileBucketOf(q.k);
    r.found = ask.Of(tile_of(ask.shape));
    r.own = ask.Of(plan::ChooseTile(ask.shape, {}, blocks, p, ask.cores, knobs, !q.pools).tile);
  }
  const plan::CacheCounters c = plan::TileCacheCounters();
  r.cache = {c.hits, c.misses, c.entries, c.bytes};
  return r;
}

}  // namespace opsnn
