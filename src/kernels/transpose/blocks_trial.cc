#include "kernels/transpose/blocks_trial.h"

#include <atomic>
#include <chrono>

namespace opsnn::kernels {
namespace {

using Blocks = Transpose2DParams::Blocks;

constexpr int kTrials = 16;
constexpr int64_t kLeastBytes = 64 << 10;  // some 5 us
std::atomic<int> g_trials{0};
std::atomic<int64_t> g_least[2] = {INT64_MAX, INT64_MAX};  // ps per KiB: small, tall

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Blocks Fastest() { return g_least[0].load() < g_least[1].load() ? Blocks::kSmall : Blocks::kTall; }

}  // namespace

BlocksTrial::BlocksTrial(Blocks asked, int64_t bytes) : blocks_(asked), bytes_(bytes) {
  if (asked != Blocks::kMeasured) return;
  if (bytes < kLeastBytes || g_trials.load(std::memory_order_relaxed) >= kTrials) {
    blocks_ = Fastest();
    return;
  }
  blocks_ = g_trials.fetch_add(1) % 2 == 0 ? Blocks::kTall : Blocks::kSmall;
  begin_ = Now();
}

BlocksTrial::~BlocksTrial() {
  if (begin_ == 0) return;
  const int64_t took = (Now() - begin_) * 1000 / (bytes_ >> 10);
  std::atomic<int64_t>& least = g_least[blocks_ == Blocks::kTall];
  int64_t was = least.load();
  while (took < was && !least.compare_exchange_weak(was, took)) {
  }
}

}  // namespace opsnn::kernels
