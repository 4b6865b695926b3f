#include "kernels/transpose/blocks_trial.h"

#include <atomic>
#include <chrono>

namespace opsnn::kernels {
namespace {

using Blocks = Transpose2DParams::Blocks;

constexpr int kTrials = 16;
constexpr int64_t kLeastBytes = 64 << 10;  // some 5 us

// Of one pair of forms.
struct Trials {
  std::atomic<int> begun{0};
  std::atomic<int64_t> least[2] = {INT64_MAX, INT64_MAX};  // ps per KiB: tall blocks, the other form
};
Trials g_trials[2];  // against small blocks, against strips

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Blocks Other(bool strips) { return strips ? Blocks::kStrips : Blocks::kSmall; }

}  // namespace

BlocksTrial::BlocksTrial(Blocks asked, bool strips, int64_t bytes)
    : blocks_(asked), strips_(strips), bytes_(bytes) {
  if (asked != Blocks::kMeasured) return;
  Trials& t = g_trials[strips];
  if (bytes < kLeastBytes || t.begun.load(std::memory_order_relaxed) >= kTrials) {
    blocks_ = t.least[1].load() < t.least[0].load() ? Other(strips) : Blocks::kTall;
    return;
  }
  blocks_ = t.begun.fetch_add(1) % 2 == 0 ? Blocks::kTall : Other(strips);
  begin_ = Now();
}

BlocksTrial::~BlocksTrial() {
  if (begin_ == 0) return;
  const int64_t took = (Now() - begin_) * 1000 / (bytes_ >> 10);
  std::atomic<int64_t>& least = g_trials[strips_].least[blocks_ != Blocks::kTall];
  int64_t was = least.load();
  while (took < was && !least.compare_exchange_weak(was, took)) {
  }
}

}  // namespace opsnn::kernels
