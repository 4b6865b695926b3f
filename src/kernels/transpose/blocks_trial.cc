#include "kernels/transpose/blocks_trial.h"

#include <atomic>
#include <chrono>

namespace opsnn::kernels {
namespace {

using Blocks = Transpose2DParams::Blocks;

constexpr int kTrials = 128;               // a few calls, some of which others may have disturbed
constexpr int64_t kLeastBytes = 64 << 10;  // some 5 us

// Of one pair of forms.
struct Trials {
  std::atomic<int> begun{0};
  std::atomic<int64_t> took[2] = {0, 0}, bytes[2] = {1, 1};  // ns; tall blocks, the other form
  bool OtherIsFaster() const {
    return static_cast<double>(took[1].load()) * static_cast<double>(bytes[0].load()) <
           static_cast<double>(took[0].load()) * static_cast<double>(bytes[1].load());
  }
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
  const bool measure = bytes >= kLeastBytes && t.begun.load(std::memory_order_relaxed) < kTrials;
  if (!measure) {
    const bool known = t.took[0].load() > 0 && t.took[1].load() > 0;
    blocks_ = (known ? t.OtherIsFaster() : strips) ? Other(strips) : Blocks::kTall;
    return;
  }
  t.begun.fetch_add(1, std::memory_order_relaxed);
  // In turns on each thread: what one of them reads may be in the shared cache, what another reads is not.
  thread_local int turn = 0;
  blocks_ = turn++ % 2 == 0 ? Blocks::kTall : Other(strips);
  begin_ = Now();
}

BlocksTrial::~BlocksTrial() {
  if (begin_ == 0) return;
  const bool other = blocks_ != Blocks::kTall;
  g_trials[strips_].took[other].fetch_add(Now() - begin_);
  g_trials[strips_].bytes[other].fetch_add(bytes_);
}

}  // namespace opsnn::kernels
