#include "plan/gemm_blocking.h"

#include <algorithm>

#include "base/int_math.h"

namespace opsnn::plan {
namespace {

int64_t RoundDown(int64_t a, int64_t b) { return std::max(b, a / b * b); }

// `total` in equal parts of at most `most`, each a multiple of `unit`: no small remainder at the end.
int64_t EvenPart(int64_t total, int64_t most, int64_t unit) {
  const int64_t parts = CeilDiv(total, std::max(most, unit));
  return RoundUp(CeilDiv(total, parts), unit);
}

// Three eighths of the private cache for the block of A: B's lines, prefetched meanwhile, and C stream past
// it.
constexpr double kBlockShare = 0.375;
// A micro-tile reads and writes C once per kc steps: below this that traffic shows, above it B's panel leaves
// L1d. Measured at 1024^3 and 2048^3 on a core of two multiply-adds a cycle: 256 to 512 are within 2 % of
// each other, 1024 is slower.
constexpr int64_t kMaxKc = 384;
// A sum of this depth in one block: that C is not read again makes up for B's panel in L2 (2 % at 512^3).
constexpr int64_t kWholeK = 512;
// Where a step takes so long, L2 delivers its three lines meanwhile, and only the traffic of C counts: on a
// core of one multiply-add a cycle, whose steps take 28, a depth of 1024 is 2 % faster than 512 and 3 % than
// 352. Half a span of KDepth, so that both parts of one are equal. With B yet to be packed the rows of a
// block would be too few.
constexpr double kLongStep = 20;
constexpr int64_t kDeepKc = 1024;
constexpr int64_t kKcUnit = 16;  // a cache line of f32

}  // namespace

GemmBlocking PlanGemmBlocking(const GemmShape& s, MicroTile tile, const device::DeviceProfile& host) {
  GemmBlocking b;
  const int64_t m = std::max<int64_t>(s.m, 1), k = std::max<int64_t>(s.k, 1);
  const bool deep = s.packed_b && tile.step_cycles >= kLongStep;
  b.kc = k <= (deep ? kDeepKc : kWholeK) ? k : std::min(EvenPart(k, deep ? kDeepKc : kMaxKc, kKcUnit), k);
  const int64_t block = static_cast<int64_t>(host.l1_bytes() * kBlockShare);
  const int64_t mc_most = RoundDown(block / (b.kc * static_cast<int64_t>(s.a_size)), tile.mr);
  b.mc = std::min(EvenPart(m, mc_most, tile.mr), RoundUp(m, tile.mr));
  return b;
}

int64_t DirectFloats(const device::DeviceProfile& host) {
  return static_cast<int64_t>(host.l1_bytes()) / 8 * 7 / static_cast<int64_t>(sizeof(float));
}

}  // namespace opsnn::plan
