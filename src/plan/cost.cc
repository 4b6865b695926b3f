#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;
using device::Field;

double CeilDiv(double a, double b) { return std::ceil(a / b); }

// Starting one k step: issuing the moves into the operand buffers and filling the cube's pipeline (NPU), or
// entering the micro-kernel and touching the accumulators (host). This is what makes a small tile_k slow.
constexpr double kStepCycles = 24;
// A move between L2 and L1 begins to arrive after an L2 hit.
constexpr double kMoveLatencyCycles = 50;
// Depthwise windows do one multiply-add per loaded value instead of mr x nr of them: loads bound it, and two
// loads per cycle feed one multiply-add per cycle and lane.
constexpr double kDepthwiseShare = 0.5;

double AtClock(double cycles, double mhz) { return mhz > 0 ? cycles / mhz : 0; }

// Bytes per cycle of one core at a level. Memory is shared: all cores together cannot exceed the total rate.
double RatePerCore(Level l, bool write, const DeviceProfile& p, int cores) {
  double rate = 0;
  if (l == Level::kL1) {
    rate = p.l1_rate();
  } else if (l == Level::kL2) {
    rate = write ? p.l2_write_rate() : p.l2_read_rate();
  } else {
    const double total = p.hbm_total_rate() > 0 ? p.hbm_total_rate() : p.hbm_rate() * p.cores();
    rate = std::min(p.hbm_rate(), total / std::max(cores, 1));
  }
  return std::max(rate, 1e-3);
}

double MoveMicroseconds(int64_t bytes, Level l, bool write, const DeviceProfile& p, int cores) {
  const double per_core = static_cast<double>(bytes) / std::max(cores, 1);
  return AtClock(per_core / RatePerCore(l, write, p, cores), p.clock_mhz());
}

}  // namespace

const char* Name(Level l) {
  static constexpr const char* kNames[] = {"L1", "L2", "HBM"};
  return kNames[static_cast<int>(l)];
}

Level LevelOf(int64_t bytes, int cores, const DeviceProfile& p) {
  // Half of a cache: the next operator's other operands and its output pass through as well.
  constexpr double kShare = 0.5;
  const double b = static_cast<double>(bytes);
  // Only the host's caches keep what an operator leaves behind; an NPU's L1 is filled and drained by each.
  if (p.is_host() && b <= kShare * p.l1_bytes() * cores) return Level::kL1;
  return b <= kShare * p.l2_bytes() ? Level::kL2 : Level::kHbm;
}

int ActiveCores(const DeviceProfile& p, int threads) {
  const int cores = std::max(1, static_cast<int>(p.cores()));
  if (!p.is_host()) return cores;
  return threads > 0 ? threads : ThreadsAvailable();
}

double BlocksPerCore(const MatrixShape& s, const Tile& t, int cores) {
  const double blocks = static_cast<double>(s.batch) *
                        CeilDiv(static_cast<double>(s.m), static_cast<double>(t.m)) *
                        CeilDiv(static_cast<double>(s.n), static_cast<double>(t.n));
  return CeilDiv(blocks, cores);
}

CubeTime::CubeTime(const MatrixShape& s, bool loads_ahead, const DeviceProfile& p, int cores)
    : shape_(s),
      cores_(cores),
      loads_ahead_(loads_ahead),
      size_(static_cast<double>(SizeOf(s.dtype))),
      mac_(p.mac(s.dtype)),
      clock_mhz_(p.clock_mhz()) {
  if (s.depthwise) {
    const double macs = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
                        static_cast<double>(s.batch);
    least_us_ = std::max(AtClock(macs / (mac_ * kDepthwiseShare * cores), clock_mhz_),
                         ReadMicroseconds(s.a_bytes, LevelOf(s.a_bytes, cores, p), p, cores));
    return;
  }
  rows_ = static_cast<int64_t>(p.fractal_rows());
  const double b_bytes =
      static_cast<double>(s.batch) * static_cast<double>(s.n) * static_cast<double>(s.k) * size_;
  const int64_t operands = static_cast<int64_t>(std::min(9e18, static_cast<double>(s.a_bytes) + b_bytes));
  // A block's operands come through L2 even when they live in memory: other cores read the same rows and
  // columns, so memory sees them about once per core's round instead of once per block.
  rate_ = RatePerCore(Level::kL2, false, p, cores);
  if (LevelOf(operands, cores, p) == Level::kHbm)
    least_us_ = MoveMicroseconds(operands, Level::kHbm, false, p, cores);
  // An A that is smaller than m x k (a conv's image, whose windows overlap) is loaded in that proportion.
  a_share_ = std::min(1.0, static_cast<double>(s.a_bytes) /
                               std::max(1.0, static_cast<double>(s.m) * static_cast<double>(s.k) *
                                                 static_cast<double>(s.batch) * size_));
}

double CubeTime::Microseconds(const Tile& t) const {
  const MatrixShape& s = shape_;
  if (s.depthwise) return least_us_;
  const double bm = static_cast<double>(RoundUp(std::min(t.m, s.m), rows_));
  const double bn = static_cast<double>(std::min(t.n, RoundUp(s.n, rows_)));
  const double bk = static_cast<double>(std::min(t.k, s.k));
  const double compute = bm * bn * bk / mac_ + kStepCycles;
  const double load =
      (bm * bk * a_share_ + bk * bn) * size_ / rate_ + (loads_ahead_ ? 0 : kMoveLatencyCycles);
  const double step = loads_ahead_ ? std::max(compute, load) : compute + load;
  const double steps = CeilDiv(static_cast<double>(s.k), bk);
  const double first = loads_ahead_ ? load + kMoveLatencyCycles : 0;
  // Loading ahead goes on from one block to the next: only a core's first block waits.
  const double on_chip = BlocksPerCore(s, t, cores_) * steps * step + first;
  return std::max(AtClock(on_chip, clock_mhz_), least_us_);
}

double CubeMicroseconds(const MatrixShape& s, const Tile& t, bool loads_ahead, const DeviceProfile& p,
                        int cores) {
  return CubeTime(s, loads_ahead, p, cores).Microseconds(t);
}

double ReadMicroseconds(int64_t bytes, Level l, const DeviceProfile& p, int cores) {
  return MoveMicroseconds(bytes, l, false, p, cores);
}

double WriteMicroseconds(int64_t bytes, Level l, const DeviceProfile& p, int cores, bool streaming) {
  // Memory's rate is that of reading; the caches' write rates already hold the read that comes first.
  const double lines_moved = p.is_host() && l == Level::kHbm && !streaming ? 2 : 1;
  return lines_moved * MoveMicroseconds(bytes, l, true, p, cores);
}

double StreamedMicroseconds(int64_t written, int64_t read, const DeviceProfile& p, int cores) {
  // A streaming copy moved twice the bytes of a read in the same time; alone, stores are as fast as in it.
  constexpr double kCopyOverRead = 2;
  const int64_t both = std::max(2 * written, read + written);
  const double copy = ReadMicroseconds(both, Level::kHbm, p, cores) / kCopyOverRead;
  return std::max(0.0, copy - ReadMicroseconds(read, Level::kHbm, p, cores));
}

double NarrowPaths(const DeviceProfile& p) {
  if (!p.is_host() || p.mac_f32() <= 0) return 0;
  const double lanes = p.vector_bytes() / static_cast<double>(sizeof(float));
  return std::clamp(2 * lanes / p.mac_f32() - 1, 0.0, 1.0);
}

double InstructionsPerElement(const Program& program, const DeviceProfile& p) {
  // With one multiply-add per cycle passes of gelu and of a chain of sigmoid and tanh take a quarter more
  // cycles a vector.
  constexpr double kNarrowCost = 0.25;
  const double each = 1 + kNarrowCost * NarrowPaths(p);
  double cost = program.CostPerElement() * each;
  // Vectors of 64 bytes hold a table of polynomials, from which both forms of gelu come: 16 instructions,
  // some of them in pairs, that take 11 cycles.
  constexpr double kTableBytes = 64, kTableCost = 11;
  if (!p.is_host() || p.vector_bytes() < kTableBytes) return cost;
  for (const Stage& s : program.stages) {
    if (s.op == StageOp::kGeluErf || s.op == StageOp::kGeluTanh)
      cost -= (Info(s.op).cost - kTableCost) * each;
  }
  return cost;
}

double VectorMicroseconds(double instructions_per_element, int64_t elements, DType dtype,
                          const DeviceProfile& p, int cores) {
  // The host computes halves in f32; an NPU's vector unit has lanes of the type itself.
  const double size = p.is_host() ? std::max<double>(4, static_cast<double>(SizeOf(dtype)))
                                  : static_cast<double>(SizeOf(dtype));
  const double lanes = std::max(1.0, p.vector_bytes() / size);
  const double per_core = p.is_host() ? 1 : std::max(1.0, p.vector_cores() / std::max(1.0, p.cores()));
  const double instructions = instructions_per_element * static_cast<double>(elements) / lanes;
  return AtClock(instructions / (cores * per_core), p.vector_clock_mhz());
}

double Overlapped(double a_us, double b_us) {
  // Prefetch and reordering hide most of the shorter one, never all: starts, ends and shared load slots
  // remain.
  constexpr double kExposed = 0.3;
  return std::max(a_us, b_us) + kExposed * std::min(a_us, b_us);
}

int PeakLiveSlots(const Program& program) {
  std::vector<int> last_use(program.slots.size(), -1);
  for (size_t i = 0; i < program.stages.size(); ++i) {
    for (SlotId src : program.stages[i].src) {
      if (src != kNoSlot) last_use[src] = static_cast<int>(i);
    }
  }
  for (SlotId o : program.outputs) last_use[o] = static_cast<int>(program.stages.size());
  int live = program.num_inputs, peak = live;
  for (size_t i = 0; i < program.stages.size(); ++i) {
    const Stage& s = program.stages[i];
    // The result may take the place of an operand that is read here for the last time.
    for (int a = 0; a < Info(s.op).arity; ++a) {
      bool repeated = false;
      for (int b = 0; b < a; ++b) repeated = repeated || s.src[b] == s.src[a];
      if (!repeated && last_use[s.src[a]] == static_cast<int>(i)) --live;
    }
    ++live;
    peak = std::max(peak, live);
    if (last_use[s.dst] < 0) --live;
  }
  return std::max(peak, 1);
}

}  // namespace opsnn::plan
