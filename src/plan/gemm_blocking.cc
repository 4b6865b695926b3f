#include "plan/gemm_blocking.h"

#include <algorithm>

namespace opsnn::plan {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
int64_t RoundDown(int64_t a, int64_t b) { return std::max(b, a / b * b); }

// `total` in equal parts of at most `most`, each a multiple of `unit`: no small remainder at the end.
int64_t EvenPart(int64_t total, int64_t most, int64_t unit) {
  const int64_t parts = CeilDiv(total, std::max(most, unit));
  return RoundUp(CeilDiv(total, parts), unit);
}

// A quarter of the private cache for packed A: B's lines, prefetched meanwhile, and C stream past it.
constexpr double kPackedAShare = 0.25;
// Half of the shared cache for packed B; the other half for what streams past it.
constexpr double kPackedBShare = 0.5;
// Per step of k a micro-tile does mr * nr multiply-adds but reads and writes C once per kc: above this many
// steps that traffic is below 1 % and longer panels only cost cache.
constexpr int64_t kMaxKc = 512;
constexpr int64_t kKcUnit = 64;  // whole cache lines of f32 four times over

}  // namespace

GemmBlocking PlanGemmBlocking(const GemmShape& s, MicroTile tile, int threads,
                              const device::DeviceProfile& host) {
  GemmBlocking b;
  const int64_t m = std::max<int64_t>(s.m, 1), n = std::max<int64_t>(s.n, 1), k = std::max<int64_t>(s.k, 1);
  const int64_t a_size = static_cast<int64_t>(s.a_size), b_size = static_cast<int64_t>(s.b_size);

  // A micro-panel of A and one of B share L1d.
  const int64_t l1d = static_cast<int64_t>(host.ub_bytes());
  const int64_t kc_most =
      std::clamp(RoundDown(l1d / (tile.mr * a_size + tile.nr * b_size), kKcUnit), kKcUnit, kMaxKc);
  b.kc = k <= kc_most ? k : std::min(RoundUp(CeilDiv(k, CeilDiv(k, kc_most)), 4), k);

  const int64_t l2 = static_cast<int64_t>(host.l1_bytes() * kPackedAShare);
  const int64_t mc_most = RoundDown(l2 / (b.kc * a_size), tile.mr);
  const int64_t l3 = static_cast<int64_t>(std::max(host.l2_bytes(), host.l1_bytes()) * kPackedBShare);
  const int64_t nc_most = RoundDown(l3 / (b.kc * b_size), tile.nr);
  b.nc = std::min(EvenPart(n, nc_most, tile.nr), RoundUp(n, tile.nr));

  // Enough pieces for all threads. Rows first: they share the packed B, and each thread packs its own A. A
  // few pieces per thread even out differences in speed.
  constexpr int64_t kPiecesPerThread = 3;
  int64_t mc = mc_most;
  if (threads > 1 && s.batch < threads) {
    const int64_t pieces = threads * kPiecesPerThread;
    mc = std::min(mc, RoundUp(CeilDiv(m, pieces), tile.mr));
    // Below four micro-tiles the pass over B's panels is not worth its traffic.
    mc = std::max<int64_t>(mc, std::min<int64_t>(mc_most, 4 * tile.mr));
  }
  b.mc = std::min(EvenPart(m, mc, tile.mr), RoundUp(m, tile.mr));

  // A packed value is used once per micro-panel of the other side. With a single one packing is a plain extra
  // copy.
  b.pack_b = !s.b_constant && m > 2 * tile.mr;
  if (s.b_constant) b.pack_b = true;
  b.pack_a = n > 2 * tile.nr;
  const int64_t bytes = m * k * a_size + k * n * b_size;
  b.small =
      !s.b_constant && bytes <= static_cast<int64_t>(host.ub_bytes()) && m <= 8 * tile.mr && n <= 8 * tile.nr;
  if (b.small) b.pack_a = b.pack_b = false;
  return b;
}

}  // namespace opsnn::plan
