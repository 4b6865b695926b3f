#include "device/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/buffer.h"
#include "base/parallel.h"
#include "device/measure_kernels.h"

namespace opsnn::device {
namespace {

using Clock = std::chrono::steady_clock;

// Memory is measured on a buffer larger than what one process can expect to keep of a shared cache, small
// enough to be quick.
constexpr int64_t kMinMemory = 16 << 20, kMaxMemory = 32 << 20;

// Results land here so that the compiler cannot drop the loops that made them. Threads meet here.
std::atomic<double> g_sink;

double SecondsOf(FunctionRef<void()> body) {
  const Clock::time_point begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best of several runs: anything slower was disturbed.
double BestSeconds(int runs, FunctionRef<void()> body) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) best = std::min(best, SecondsOf(body));
  return std::max(best, 1e-9);
}

double ClockGhz(int64_t iterations) {
  constexpr double kCyclesPerMultiply = 3;
  uint64_t factor = 0x9E3779B97F4A7C15u;
  const double s = BestSeconds(5, [&] {
    factor |= RunMultiplyChain(iterations, factor) | 1;
    g_sink.store(static_cast<double>(factor), std::memory_order_relaxed);
  });
  return kCyclesPerMultiply * static_cast<double>(iterations) / s * 1e-9;
}

double FmaGflops(int64_t iterations) {
  double flops = 0;
  // The first runs also give the processor time to switch its wide units on.
  const double s =
      BestSeconds(6, [&] { g_sink.store(RunMultiplyAdds(iterations, &flops), std::memory_order_relaxed); });
  return flops / s * 1e-9;
}

// Read rate over `bytes` of a buffer, touched often enough to last about a third of a millisecond.
double ReadGbps(const float* p, int64_t bytes, double expected_gbps) {
  const size_t n = static_cast<size_t>(bytes) / sizeof(float) / 1024 * 1024;
  const int repeats =
      std::max(1, static_cast<int>(expected_gbps * 1e9 * 0.3e-3 / static_cast<double>(bytes)));
  // What takes long is not repeated often: all of this must stay under a tenth of a second.
  const int runs = bytes >= kMinMemory ? 2 : 5;
  const double s = BestSeconds(runs, [&] {
    float sum = 0;
    for (int r = 0; r < repeats; ++r) sum += RunRead(p, n);
    g_sink.store(static_cast<double>(sum), std::memory_order_relaxed);
  });
  return static_cast<double>(n * sizeof(float)) * repeats / s * 1e-9;
}

// Runs fn(index, worker) once on each of so many threads at the same time; false where fewer came, as when
// another job has the pool. Each waits for the others, but not for ever.
bool Together(int threads, FunctionRef<void(int64_t, int)> fn) {
  static constexpr std::chrono::microseconds kPatience{2000};
  std::atomic<int> here{0};
  std::atomic<bool> all{true};
  ParallelFor(threads, [&](int64_t i, int worker) {
    here.fetch_add(1);
    const Clock::time_point end = Clock::now() + kPatience;
    while (all && here.load() < threads)
      if (Clock::now() > end) all = false;
    if (all) fn(i, worker);
  });
  return all;
}

// Is the pool free, now or soon?
bool PoolIsFree(int threads) {
  static constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (Together(threads, [](int64_t, int) {})) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// The best of some runs in which all threads took part; 0 where there was none.
double BestTogether(int runs, int threads, FunctionRef<void(int64_t, int)> fn) {
  double best = 1e30;
  for (int i = 0, tries = 4 * runs; i < runs && tries > 0; --tries) {
    bool all = false;
    const double s = SecondsOf([&] { all = Together(threads, fn); });
    if (all) best = std::min(best, s), ++i;
  }
  return best < 1e30 ? std::max(best, 1e-9) : 0;
}

double AllCoresReadGbps(const float* p, int64_t bytes, int cores) {
  const size_t slice = static_cast<size_t>(bytes) / sizeof(float) / static_cast<size_t>(cores) / 1024 * 1024;
  const double s = BestTogether(2, cores, [&](int64_t i, int) {
    g_sink.store(static_cast<double>(RunRead(p + static_cast<size_t>(i) * slice, slice)),
                 std::memory_order_relaxed);
  });
  return s > 0 ? static_cast<double>(slice * sizeof(float)) * cores / s * 1e-9 : 0;
}

constexpr double kNone = -1;  // of a rate that may be 0: not measured

// What a ParallelFor costs over its bodies, which wait a fixed time.
double SyncMicroseconds(int cores) {
  static constexpr std::chrono::nanoseconds kBody{4000};
  const double s = BestTogether(40, cores, [](int64_t, int) {
    const Clock::time_point end = Clock::now() + kBody;
    while (Clock::now() < end) {
    }
  });
  return s > 0 ? 1e6 * std::max(0.0, s - std::chrono::duration<double>(kBody).count()) : kNone;
}

// Two threads, a half each of a buffer that fits their own caches: writing what the other has read since,
// over writing what nobody has.
double CrossLineNanoseconds(float* p, int64_t bytes) {
  constexpr int64_t kLine = 64 / sizeof(float);
  const int64_t half = bytes / 2 / static_cast<int64_t>(sizeof(float)) / kLine * kLine;
  const auto round = [&](bool others, bool writes) {
    return Together(2, [&](int64_t, int worker) {
      float* const from = p + ((worker + (others ? 1 : 0)) % 2) * half;
      float sum = 0;
      for (int64_t i = 0; i < half; i += kLine) writes ? from[i] += 1.0f : sum += from[i];
      g_sink.store(static_cast<double>(sum), std::memory_order_relaxed);
    });
  };
  double own = 1e30, read = 1e30;
  const auto write = [&](double* best) {
    bool both = false;
    const double s = SecondsOf([&] { both = round(false, true); });
    if (both) *best = std::min(*best, s);
  };
  for (int i = 0; i < 4; ++i) {
    if (round(false, true)) write(&own);
    if (round(true, false)) write(&read);
  }
  if (own > 1e29 || read > 1e29) return kNone;
  return 1e9 * std::max(0.0, read - own) / static_cast<double>(half / kLine);
}

// The largest of some sizes that is read faster than half way (by ratio) from memory to the shared cache. A
// processor's last cache serves its neighbours too, and a virtual machine may be shown more than it gets.
double SharedMib(const float* p, int64_t memory, int64_t l2_bytes, int64_t l3_bytes, const HostRates& r) {
  constexpr double kMib = 1 << 20;
  const int64_t most = std::min(memory, l3_bytes);
  int64_t bytes = std::min(most, std::max<int64_t>(2 * l2_bytes, 1 << 20));
  for (; 2 * bytes <= most; bytes *= 2) {
    const double gbps = ReadGbps(p, 2 * bytes, 20);
    if (gbps * gbps < r.l3_gbps * r.dram_read_gbps) break;
  }
  return static_cast<double>(bytes) / kMib;
}

}  // namespace

HostRates MeasureCore() {
  HostRates r;
  r.clock_ghz = ClockGhz(2000);
  r.fma_gflops = FmaGflops(2000);
  return r;
}

HostRates MeasureHost(int64_t l1d_bytes, int64_t l2_bytes, int64_t l3_bytes, int cores) {
  HostRates r;
  r.clock_ghz = ClockGhz(200000);  // 0.2 ms at 3 GHz
  r.fma_gflops = FmaGflops(100000);

  const int64_t memory = std::clamp(2 * l3_bytes, kMinMemory, kMaxMemory);
  const AlignedBuffer buffer(static_cast<size_t>(memory));
  if (!buffer) return r;
  const float* p = buffer.as<float>();
  std::memset(buffer.data(), 0, buffer.bytes());

  r.dram_read_gbps = ReadGbps(p, memory, 1);
  const size_t half = static_cast<size_t>(memory) / 2 / sizeof(float) / 1024 * 1024;
  const double copy = BestSeconds(2, [&] { RunStreamingCopy(p, buffer.as<float>() + half, half); });
  r.dram_copy_gbps = 2.0 * static_cast<double>(half * sizeof(float)) / copy * 1e-9;
  r.together = cores == 1 || PoolIsFree(cores);
  const double total = !r.together ? 0 : cores > 1 ? AllCoresReadGbps(p, memory, cores) : r.dram_read_gbps;

  r.l1d_gbps = ReadGbps(p, l1d_bytes / 2, 100);
  r.l2_gbps = ReadGbps(p, l2_bytes / 2, 50);
  // Well above the private cache, well below a shared one that others use too.
  r.l3_gbps =
      ReadGbps(p, std::clamp(4 * l2_bytes, int64_t{1} << 20, std::max(l3_bytes / 2, int64_t{1} << 20)), 20);

  r.shared_mib = SharedMib(p, memory, l2_bytes, l3_bytes, r);

  if (total > 0) r.dram_total_gbps = std::max(total, r.dram_read_gbps);
  if (cores > 1 && r.together) {
    r.sync_us = SyncMicroseconds(cores);
    r.cross_line_ns = CrossLineNanoseconds(buffer.as<float>(), std::min(l2_bytes, memory));
    r.together = total > 0 && r.sync_us >= 0 && r.cross_line_ns >= 0;
  }
  if (!r.together) r.dram_total_gbps = r.sync_us = r.cross_line_ns = 0;
  return r;
}

}  // namespace opsnn::device
