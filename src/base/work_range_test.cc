#include "base/work_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
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

TEST(ParallelParts, EveryPartOnceOnItsOwnThread) {
  for (int threads : {1, 2, 3, 5, 40}) {
    SetNumThreads(threads);
    for (int round = 0; round < 200; ++round) {
      const int parts = round % threads + 1;
      std::vector<std::atomic<int>> count(static_cast<size_t>(parts));
      std::vector<std::thread::id> by(static_cast<size_t>(parts));
      ParallelParts(parts, [&](int64_t i) {
        count[static_cast<size_t>(i)].fetch_add(1);
        by[static_cast<size_t>(i)] = std::this_thread::get_id();
      });
      for (const std::atomic<int>& c : count) ASSERT_EQ(c.load(), 1) << threads << " threads";
      if (threads < 32) {
        ASSERT_EQ(by[0], std::this_thread::get_id());
      }
      if (round % 50 == 7) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // workers fall asleep
    }
  }
  SetNumThreads(0);
}

// Jobs of both kinds, of changing widths, one right behind the other: a worker that is late for one must not
// take it for the next.
TEST(ParallelParts, KindsAndWidthsInTurn) {
  for (int round = 0; round < 3000; ++round) {
    const int threads = 2 + round % 5;
    SetNumThreads(threads);
    std::atomic<int64_t> sum{0};
    const auto add = [&](int64_t i) { sum += i + 1; };
    const int n = 1 + round % 9;
    if (round % 3 == 0) {
      ParallelParts(std::min(n, threads), add);
      ASSERT_EQ(sum, std::min(n, threads) * (std::min(n, threads) + 1) / 2);
    } else if (round % 3 == 1) {
      ParallelFor(n, [&](int64_t i, int) { add(i); });
      ASSERT_EQ(sum, n * (n + 1) / 2);
    } else {
      ParallelOwned(n, add);
      ASSERT_EQ(sum, n * (n + 1) / 2);
    }
  }
  SetNumThreads(0);
}

TEST(ParallelParts, ExceptionsReachTheCaller) {
  SetNumThreads(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    EXPECT_THROW(ParallelParts(3,
                               [&](int64_t i) {
                                 if (i == thrower) throw std::bad_alloc();
                               }),
                 std::bad_alloc);
    std::atomic<int> ran{0};
    ParallelParts(3, [&](int64_t) { ++ran; });
    EXPECT_EQ(ran, 3);
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace opsnn
