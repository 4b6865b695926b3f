#include "plan/tiling.h"

#include <algorithm>
#include <cmath>

#include "base/int_math.h"
#include "base/status.h"
#include "plan/cost.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;
using device::Pool;

// Products of user-given sizes can exceed 64 bits; such a block fits nowhere, and that is all that matters.
int64_t Bytes(double bytes) { return bytes < 9e18 ? static_cast<int64_t>(bytes) : int64_t{1} << 62; }
double Product(int64_t a, int64_t b, size_t size) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(size);
}
int64_t SaturatingAdd(int64_t a, int64_t b) {
  return Bytes(static_cast<double>(a) + static_cast<double>(b)) == int64_t{1} << 62 ? int64_t{1} << 62
                                                                                    : a + b;
}

int64_t Available(double capacity, double reserve) { return static_cast<int64_t>((1 - reserve) * capacity); }

struct Alignment {
  int64_t m = 1, n = 1, k = 1;
};
Alignment AlignmentOf(const TileBlocks& blocks, const DeviceProfile& p) {
  const int64_t line = std::max<int64_t>(1, static_cast<int64_t>(p.fractal_bytes()));
  return {std::max<int64_t>(1, static_cast<int64_t>(p.fractal_rows())),
          std::max<int64_t>(1, line / static_cast<int64_t>(std::max(blocks.b_size, size_t{1}))),
          std::max<int64_t>(1, line / static_cast<int64_t>(std::max(blocks.a_size, size_t{1})))};
}

// The sizes that are tried for one side: powers of two and the steps half way between, aligned, up to the
// side.
constexpr int64_t kSteps[] = {16, 32, 48, 64, 96, 128, 192, 256, 384, 512};
constexpr int64_t kKSteps[] = {512, 256, 128, 64, 32, 16};

struct Solver {
  MatrixShape shape;
  Tile given;
  TileBlocks blocks;
  const DeviceProfile& p;
  double reserve;
  bool single_pool;
  int64_t min_k;
  Alignment align;
  int cores;
  std::string_view order;  // sides that the ladder halves first

  // Sums of bytes only, for the inner loop: the same arithmetic as ComputeBudget without its texts.
  bool FitsFast(const Tile& t, int epilogue_blocks) const {
    const double ab = blocks.nbuf * (Product(t.m, t.k, blocks.a_size) + Product(t.k, t.n, blocks.b_size));
    const double c = Product(t.m, t.n, blocks.c_size);
    const double e = Product(t.m, t.n, blocks.epilogue_size) * epilogue_blocks;
    if (single_pool) return ab + c + e <= static_cast<double>(Available(p.l1_bytes(), reserve));
    double l1 = ab, ub = 0, l0c = 0;
    (p.c_pool == Pool::kL0c ? l0c : p.c_pool == Pool::kUb ? ub : l1) += c;
    const double sharing = p.is_host() ? 1 : std::max(1.0, p.vector_cores() / std::max(1.0, p.cores()));
    (p.epilogue_pool == Pool::kL0c ? l0c : p.epilogue_pool == Pool::kUb ? ub : l1) += e / sharing;
    return l1 <= static_cast<double>(Available(p.l1_bytes(), reserve)) && ub <= p.ub_bytes() &&
           l0c <= p.l0c_bytes();
  }

  CubeTime Cube() const { return {shape, p.is_host() || blocks.nbuf > 1, p, cores}; }

  // The fastest tile that fits with this many epilogue blocks; {0,0,0} when none does.
  Tile Best(int epilogue_blocks) const {
    const CubeTime cube = Cube();
    Tile best;
    double best_time = 0;
    for (int64_t m_step : kSteps) {
      const int64_t tm = given.m > 0 ? given.m : RoundUp(std::min(m_step, shape.m), align.m);
      for (int64_t n_step : kSteps) {
        const int64_t tn = given.n > 0 ? given.n : RoundUp(std::min(n_step, shape.n), align.n);
        const int64_t tk = LargestK(tm, tn, epilogue_blocks);
        if (tk > 0) {
          const Tile t{tm, tn, tk};
          const double time = cube.Microseconds(t);
          // Ties go to the smaller tile, which was tried first: more blocks to share out.
          if (best.m == 0 || time < best_time * 0.999) {
            best = t;
            best_time = time;
          }
        }
        if (given.n > 0 || n_step >= shape.n) break;
      }
      if (given.m > 0 || m_step >= shape.m) break;
    }
    return best;
  }

  int64_t LargestK(int64_t tm, int64_t tn, int epilogue_blocks) const {
    if (given.k > 0) return FitsFast({tm, tn, given.k}, epilogue_blocks) ? given.k : 0;
    for (int64_t step : kKSteps) {
      const int64_t tk = RoundUp(std::min(step, shape.k), align.k);
      if (tk < std::min(min_k, RoundUp(shape.k, align.k))) return 0;
      if (FitsFast({tm, tn, tk}, epilogue_blocks)) return tk;
    }
    return 0;
  }

  int64_t HalfOf(int64_t v, int64_t unit) const { return std::max(unit, RoundUp(v / 2, unit)); }

  // One step down the ladder: the sides in the order given, each down to what is still worth while,
  // then the longer of what is left, at last tile_k as far as it may go. False when there is nothing left to
  // shrink.
  bool Shrink(Tile& t) const {
    const int64_t k_floor = std::max(align.k, std::min(RoundUp(std::max<int64_t>(min_k, 1), align.k), t.k));
    const bool can_m = given.m <= 0 && t.m > align.m && t.m > kSteps[0];
    const bool can_n = given.n <= 0 && t.n > align.n && t.n > kSteps[0];
    const bool can_k = given.k <= 0 && t.k > k_floor;
    const auto halve = [&](char side) {
      if (side == 'm') t.m = HalfOf(t.m, align.m);
      if (side == 'n') t.n = HalfOf(t.n, align.n);
      if (side == 'k') t.k = std::max(HalfOf(t.k, align.k), k_floor);
      return true;
    };
    for (const char side : order) {
      if (side == 'm' ? can_m : side == 'n' ? can_n : can_k && t.k > kKSteps[4]) return halve(side);
    }
    if (can_m && (t.m >= t.n || !can_n)) return halve('m');
    if (can_n) return halve('n');
    return can_k && halve('k');
  }

  bool Try(const Tile& t, std::vector<Retry>& log) const {
    const Budget b = ComputeBudget(t, blocks, p, reserve, single_pool, /*words=*/false);
    // The pool that is fullest says whether it fits.
    Retry r{t.m, t.n, t.k, b.l1, b.l1_available, b.fits};
    if (!b.fits && b.ub > b.ub_available)
      r.bytes = b.ub, r.available = b.ub_available;
    else if (!b.fits && b.l0c > b.l0c_available)
      r.bytes = b.l0c, r.available = b.l0c_available;
    log.push_back(r);
    return b.fits;
  }
};

}  // namespace

Budget ComputeBudget(const Tile& t, const TileBlocks& blocks, const DeviceProfile& p, double l1_reserve,
                     bool single_pool, bool words) {
  Budget b;
  b.l1_available = Available(p.l1_bytes(), l1_reserve);
  b.ub_available = static_cast<int64_t>(p.ub_bytes());
  b.l0c_available = static_cast<int64_t>(p.l0c_bytes());
  auto charge = [&](const char* block, int number, Pool pool, int64_t bytes) {
    int64_t& used = pool == Pool::kL1 ? b.l1 : pool == Pool::kUb ? b.ub : b.l0c;
    used = SaturatingAdd(used, bytes);
    if (!words) return;
    b.items.push_back({number < 0 ? block : block + std::to_string(number), device::Name(pool), bytes});
  };
  const Pool a_pool = single_pool ? Pool::kL1 : p.a_pool;
  const Pool c_pool = single_pool ? Pool::kL1 : p.c_pool;
  const Pool e_pool = single_pool ? Pool::kL1 : p.epilogue_pool;
  charge("A", -1, a_pool, Bytes(blocks.nbuf * Product(t.m, t.k, blocks.a_size)));
  charge("B", -1, a_pool, Bytes(blocks.nbuf * Product(t.k, t.n, blocks.b_size)));
  charge("C", -1, c_pool, Bytes(Product(t.m, t.n, blocks.c_size)));
  // The vector cores that belong to a cube core share its block between them.
  const double sharing =
      single_pool || p.is_host() ? 1 : std::max(1.0, p.vector_cores() / std::max(1.0, p.cores()));
  for (int i = 0; i < blocks.epilogue_blocks; ++i) {
    const double bytes = Product(t.m, t.n, blocks.epilogue_size) / sharing;
    const bool one = blocks.epilogue_blocks == 1;
    charge(one ? "epilogue" : "epilogue:", one ? -1 : i, e_pool, Bytes(std::ceil(bytes)));
  }
  b.fits = true;
  auto check = [&](const char* pool, int64_t used, int64_t available) {
    if (used <= available || !b.fits) return;
    b.fits = false;
    if (!words) return;
    b.overflow = StrFormat("%s: %lld of %lld bytes", pool, static_cast<long long>(used),
                           static_cast<long long>(available));
  };
  check("L1", b.l1, b.l1_available);
  if (!single_pool) {
    check("L0C", b.l0c, b.l0c > 0 ? b.l0c_available : 0);
    check("UB", b.ub, b.ub > 0 ? b.ub_available : 0);
  }
  return b;
}

TileChoice ChooseTile(const MatrixShape& shape, const Tile& given, const TileBlocks& blocks,
                      const DeviceProfile& p, int cores, const Knobs& knobs, bool single_pool) {
  Solver s{shape,
           given,
           blocks,
           p,
           knobs.l1_reserve,
           single_pool,
           knobs.min_tile_k,
           AlignmentOf(blocks, p),
           cores,
           knobs.retry_order};
  s.shape.m = std::max<int64_t>(shape.m, 1);
  s.shape.n = std::max<int64_t>(shape.n, 1);
  s.shape.k = std::max<int64_t>(shape.k, 1);
  TileChoice c;
  // What the product alone would like best.
  Tile t = c.alone = s.Best(0);
  if (t.m == 0) {
    t = {given.m > 0 ? given.m : s.align.m, given.n > 0 ? given.n : s.align.n,
         given.k > 0 ? given.k
                     : std::max(s.align.k, std::min(RoundUp(std::max<int64_t>(s.min_k, 1), s.align.k),
                                                    RoundUp(s.shape.k, s.align.k)))};
  }
  c.fits = s.Try(t, c.retries);
  const bool shrunk = !c.fits;
  while (!c.fits && s.Shrink(t)) c.fits = s.Try(t, c.retries);
  if (shrunk && c.fits) {
    // The ladder finds a tile quickly; the search finds the best one. Keep whichever is predicted to be
    // faster.
    const Tile best = s.Best(blocks.epilogue_blocks);
    const CubeTime cube = s.Cube();
    if (best.m > 0 && !(best == t) && cube.Microseconds(best) < cube.Microseconds(t) &&
        s.Try(best, c.retries))
      t = best;
  }
  c.tile = t;
  return c;
}

TileChoice RetryFrom(const Tile& first, const TileBlocks& blocks, const DeviceProfile& p, const Knobs& knobs,
                     bool single_pool) {
  const MatrixShape shape{first.m, first.n, first.k, 1, DType::kF32, 0, false};
  const Solver s{shape,
                 {},
                 blocks,
                 p,
                 knobs.l1_reserve,
                 single_pool,
                 knobs.min_tile_k,
                 AlignmentOf(blocks, p),
                 1,
                 knobs.retry_order};
  TileChoice c;
  c.tile = first;
  c.fits = s.Try(c.tile, c.retries);
  while (!c.fits && s.Shrink(c.tile)) c.fits = s.Try(c.tile, c.retries);
  return c;
}

TilingAnswer CalcTiling(int64_t m, int64_t n, int64_t k, const Tile& given, const DeviceProfile& p,
                        const Knobs& knobs) {
  TilingAnswer a;
  const TileBlocks blocks{4, 4, 4, 4, 1, 1};
  TileChoice c;
  if (given.m > 0 && given.n > 0 && given.k > 0) {
    c.tile = given;  // nothing to choose, nothing to retry
  } else {
    const MatrixShape shape{m, n, k, 1, DType::kF32, Bytes(Product(m, k, blocks.a_size)), false};
    c = ChooseTile(shape, given, blocks, p, ActiveCores(p, 0), knobs, /*single_pool=*/true);
  }
  const Budget b = ComputeBudget(c.tile, blocks, p, knobs.l1_reserve, /*single_pool=*/true);
  a.tile = c.tile;
  a.l1_budget = b.l1;
  a.ub_budget = b.items.back().bytes;
  a.fuse = b.fits;
  if (a.fuse && c.tile.k < knobs.min_tile_k && c.tile.k < k) {
    a.fuse = false;
    a.reason = StrFormat("tile_k %lld is below the minimum of %lld", static_cast<long long>(c.tile.k),
                         static_cast<long long>(knobs.min_tile_k));
  } else {
    a.reason = b.fits ? StrFormat("the four blocks take %lld of %lld bytes", static_cast<long long>(b.l1),
                                  static_cast<long long>(b.l1_available))
                      : "the four blocks do not fit " + b.overflow;
  }
  return a;
}

}  // namespace opsnn::plan
