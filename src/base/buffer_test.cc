// Blocks of all sizes come and go: alignment, contents, accounts.
#include "base/buffer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/buffer_stats.h"
#include "base/pages.h"
#include "testing/testing.h"

namespace opsnn {
namespace {

TEST(Buffer, BlocksKeepWhatIsTheirs) {
  testing::Rng rng;
  const int64_t before = ThreadBufferBytes();
  std::vector<AlignedBuffer> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() < 30 && rng.Chance(0.5)) {
      const int64_t octave = int64_t{1} << rng.Int(0, 22);
      AlignedBuffer b(static_cast<size_t>(octave + rng.Int(0, octave - 1)));
      ASSERT_TRUE(b);
      const auto at = reinterpret_cast<uintptr_t>(b.data());
      EXPECT_EQ(at % kAlignment, 0u);
      b.as<uint8_t>()[0] = b.as<uint8_t>()[b.bytes() - 1] = static_cast<uint8_t>(b.bytes());
      live.push_back(std::move(b));
    } else if (!live.empty()) {
      const auto k = static_cast<size_t>(rng.Int(0, static_cast<int64_t>(live.size()) - 1));
      const AlignedBuffer gone = std::exchange(live[k], std::move(live.back()));
      live.pop_back();
      EXPECT_EQ(gone.as<uint8_t>()[0], static_cast<uint8_t>(gone.bytes()));
      EXPECT_EQ(gone.as<uint8_t>()[gone.bytes() - 1], static_cast<uint8_t>(gone.bytes()));
    }
  }
  live.clear();
  EXPECT_EQ(ThreadBufferBytes(), before);
}

TEST(Buffer, SizesThatNobodyHas) {
  EXPECT_EQ(AllocateAligned(SIZE_MAX), nullptr);
  EXPECT_EQ(AllocateAligned(SIZE_MAX / 2 + 1), nullptr);
  EXPECT_EQ(MapPages(SIZE_MAX / kPageBytes * kPageBytes), nullptr);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Buffer, AFreedBlockWaitsForTheNextOfItsSize) {
  constexpr size_t kBytes = size_t{44} << 20;  // no other test has blocks of this size
  void* first = AllocateAligned(kBytes);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kHugePageBytes, 0u);
  FreeAligned(first, kBytes);
  EXPECT_GE(IdleBufferBytes(), static_cast<int64_t>(kBytes));
  void* second = AllocateAligned(kBytes - 1);
  EXPECT_EQ(second, first);
  FreeAligned(second, kBytes - 1);
}

TEST(Buffer, WaitingBlocksAreCounted) {
  constexpr size_t kLarge = size_t{36} << 20, kSmall = size_t{3} << 20;  // of no other test
  void *a = AllocateAligned(kLarge), *b = AllocateAligned(kSmall);
  FreeAligned(a, kLarge);
  FreeAligned(b, kSmall);
  const IdleBlocks idle = IdleBuffers();
  EXPECT_GE(idle.count, 2);
  EXPECT_GE(idle.largest, static_cast<int64_t>(kLarge));
  EXPECT_GE(idle.bytes, idle.largest + static_cast<int64_t>(kSmall));
  EXPECT_EQ(idle.bytes, IdleBufferBytes());
}

// In a process of its own, whose address space is all but full.
TEST(Buffer, WhatWaitsIsGivenBackBeforeARequestFails) {
  constexpr size_t kWaits = size_t{40} << 20, kAsked = size_t{28} << 20, kFree = size_t{8} << 20;
  FreeAligned(AllocateAligned(kWaits), kWaits);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    unsigned long long pages = 0;
    std::FILE* f = std::fopen("/proc/self/statm", "r");
    if (!f || std::fscanf(f, "%llu", &pages) != 1) _exit(2);
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kFree;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    _exit(AllocateAligned(kAsked) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace opsnn
