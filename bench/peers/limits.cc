#include "bench/peers/limits.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "base/parallel.h"
#include "device/profile.h"
#include "kernels/gemm/peak.h"

namespace opsnn::peers {
namespace {

double flops = 0;

}  // namespace

void PrintLimits(int threads) {
  flops = 0;
  for (int i = 0; i < 20; ++i) flops = std::max(flops, gemm::FmaRate(threads));
  std::printf("%d thread%s: %.1f GFLOP/s f32\n", threads, threads > 1 ? "s" : "", flops * 1e-9);
}

double ProductSeconds(const Case& c) {
  // Dot products of quadruples do four times the multiply-adds of f32. Those of bf16 pairs do twice as many
  // on some processors, half as many on others: f32 is the yardstick.
  const double rate = flops * (c.type == Type::kS8 ? 4 : 1);
  return 2.0 * static_cast<double>(c.m * c.n) * static_cast<double>(c.k * c.batch) / rate;
}

namespace {
int64_t WeightBytes(const Case& c) {
  return c.k * c.n * c.batch * (c.type == Type::kF32 ? 4 : c.type == Type::kBf16 ? 2 : 1);
}
}  // namespace

bool Streams(const Case& c) {
  return static_cast<double>(WeightBytes(c)) > 2 * device::HostProfileUnmeasured().l1_bytes() * c.threads;
}

Reader::Reader(const Case& c) : buffer_(static_cast<size_t>(WeightBytes(c))) {
  std::memset(buffer_.data(), 1, buffer_.bytes());
}

void Reader::Run() {
  // One run of addresses is followed by one prefetcher, which does not ask for all that memory can deliver,
  // and stops at the end of a page: some side by side, and their lines asked for a page's quarter ahead.
  // A word of each line is enough: a whole one takes several loads on old instruction sets, which fill the
  // window that the misses need.
  constexpr int64_t kStreams = 4, kRun = 64 << 10, kAhead = 16;
  constexpr int64_t kWords = 64 / sizeof(int64_t), kLines = kRun / 64;
  static std::atomic<int64_t> sink;
  const int64_t tasks = static_cast<int64_t>(buffer_.bytes()) / (kStreams * kRun);
  ParallelFor(tasks, [&](int64_t t, int) {
    const int64_t* p = buffer_.as<int64_t>() + t * kStreams * kLines * kWords;
    int64_t all[kStreams] = {};
    for (int64_t i = 0; i < kLines; ++i) {
      for (int64_t s = 0; s < kStreams; ++s) {
        const int64_t* line = p + (s * kLines + i) * kWords;
        __builtin_prefetch(line + kAhead * kWords, 0, 2);
        all[s] |= *line;
      }
    }
    sink.fetch_or(all[0] | all[1] | all[2] | all[3], std::memory_order_relaxed);
  });
}

}  // namespace opsnn::peers
