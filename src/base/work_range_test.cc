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

TEST(ParallelOwned, EveryIndexOnceWhateverTheThreads) {
  for (int threads : {1, 2, 4, 9}) {
    SetNumThreads(threads);
    for (int64_t n : {0, 1, 3, 4, 100, 3000}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(n));
      ParallelOwned(n, [&](int64_t i) { count[static_cast<size_t>(i)].fetch_add(1); });
      for (const std::atomic<int>& c : count) ASSERT_EQ(c.load(), 1) << threads << " threads, n " << n;
    }
  }
  SetNumThreads(0);
}

TEST(ParallelOwned, NestedAndSideBySide) {
  SetNumThreads(4);
  std::atomic<int64_t> sum{0};
  ParallelOwned(8, [&](int64_t i) { ParallelOwned(10, [&](int64_t k) { sum += i * k; }); });  // inline inside
  EXPECT_EQ(sum.load(), 28 * 45);
  std::vector<std::thread> callers;  // only one of them gets the pool
  std::atomic<int64_t> calls{0};
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) ParallelOwned(20, [&](int64_t) { ++calls; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(calls.load(), 3 * 50 * 20);
  SetNumThreads(0);
}

}  // namespace
}  // namespace opsnn
