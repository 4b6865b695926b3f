// Blocks of all sizes come and go: alignment, contents, accounts.
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
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
#endif

}  // namespace
}  // namespace opsnn
