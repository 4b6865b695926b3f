// One tile: its budget, what each side changes, what is tried where it does not fit.
#include <algorithm>
#include <set>

#include "base/knobs.h"
#include "device/host.h"
#include "opsnn/planner.h"
#include "plan/cost.h"
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

  TileBudget Of(const plan::Tile& t) const {
    const plan::Budget b = plan::ComputeBudget(t, blocks, p, knobs.l1_reserve, single_pool);
    TileBudget out{t.m, t.n, t.k, b.items, 0, b.fits, b.overflow, 0};
    for (const plan::BudgetItem& i : b.items) out.total_bytes += i.bytes;
    out.time_us = plan::CubeMicroseconds(shape, t, p.is_host() || blocks.nbuf > 1, p, cores);
    return out;
  }
};

}  // namespace

Result<TileReport> AskTile(const TileQuestion& q, const std::string& profile) {
  OPSNN_RETURN_IF_ERROR(CheckQuestion(q));
  Knobs knobs = GetKnobs();
  if (!q.order.empty()) knobs.retry_order = q.order;
  OPSNN_ASSIGN_OR_RETURN(const device::DeviceProfile p,
                         device::FindProfile(profile.empty() ? knobs.profile : profile));
  const size_t size = SizeOf(q.dtype);
  plan::MatrixShape shape{
      q.m > 0 ? q.m : q.tile_m, q.n > 0 ? q.n : q.tile_n, q.k > 0 ? q.k : q.tile_k, 1, q.dtype, 0, false};
  const double a = static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(size);
  shape.a_bytes = static_cast<int64_t>(std::min(a, 9e18));
  // The chain's copy of the sums is as wide as they are.
  const size_t sum = plan::SumBytes(q.dtype);
  const plan::TileBlocks blocks{size, size, sum, sum, q.double_buffer ? 2 : 1, q.epilogue_blocks};
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

}  // namespace opsnn
