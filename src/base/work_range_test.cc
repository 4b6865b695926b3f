#include "base/work_range.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace opsnn {
namespace {

TEST(WorkRange, OwnerGoesForwardHelpersBackward) {
  WorkRange r;
  r.Set(3, 6);
  int64_t i = 0;
  ASSERT_TRUE(r.TakeFirst(&i));
  EXPECT_EQ(i, 3);
  ASSERT_TRUE(r.TakeLast(&i));
  EXPECT_EQ(i, 5);
  ASSERT_TRUE(r.TakeFirst(&i));
  EXPECT_EQ(i, 4);
  EXPECT_FALSE(r.TakeFirst(&i));
  EXPECT_FALSE(r.TakeLast(&i));
}

TEST(WorkRange, EmptyGivesNothing) {
  WorkRange r;
  r.Set(7, 7);
  int64_t i = 0;
  EXPECT_FALSE(r.TakeFirst(&i));
  EXPECT_FALSE(r.TakeLast(&i));
}

TEST(WorkRange, EveryIndexIsTakenOnce) {
  constexpr int64_t kCount = 20000;
  WorkRange r;
  r.Set(0, kCount);
  std::vector<std::atomic<int>> taken(kCount);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, owner = t == 0] {
      int64_t i;
      while (owner ? r.TakeFirst(&i) : r.TakeLast(&i)) taken[static_cast<size_t>(i)].fetch_add(1);
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::atomic<int>& n : taken) ASSERT_EQ(n.load(), 1);
}

}  // namespace
}  // namespace opsnn
