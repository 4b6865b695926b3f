// Packs of weights asked for by several threads, as the steps of a plan do.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "graph/prepared.h"

namespace opsnn::graph {
namespace {

constexpr int kThreads = 4, kConstants = 3, kKeys = 5, kRounds = 40;

ConstTensor Constant(float value) { return HostTensor::From<float>({64}, std::vector<float>(64, value)); }

// Runs body(thread) on kThreads threads that start together.
template <typename Body>
void Together(Body body) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      body(t);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(PacksOfThreads, AllGetTheFirstThatWasKept) {
  for (int round = 0; round < kRounds; ++round) {
    WeightPacks packs;
    std::vector<ConstTensor> constants;
    for (int c = 0; c < kConstants; ++c) constants.push_back(Constant(static_cast<float>(c)));
    std::vector<std::shared_ptr<const void>> got[kThreads];
    std::atomic<int> made{0};
    Together([&](int t) {
      for (int c = 0; c < kConstants; ++c) {
        for (int k = 0; k < kKeys; ++k) {
          // Half of them come from the other end, so that each thread is the first somewhere.
          const int constant = t % 2 ? kConstants - 1 - c : c, key = t % 2 ? kKeys - 1 - k : k;
          got[t].push_back(packs.GetOrMake(constants[static_cast<size_t>(constant)], std::to_string(key),
                                           [&]() -> std::shared_ptr<const void> {
                                             ++made;
                                             return std::make_shared<int>(constant * kKeys + key);
                                           }));
        }
      }
    });
    constexpr size_t kPacks = kConstants * kKeys;
    for (int t = 0; t < kThreads; ++t) {
      for (size_t i = 0; i < kPacks; ++i) {
        const size_t at = t % 2 ? kPacks - 1 - i : i;
        EXPECT_EQ(*static_cast<const int*>(got[t][i].get()), static_cast<int>(at));
        EXPECT_EQ(got[t][i], got[0][at]) << "thread " << t << ", pack " << at;
      }
    }
    const CacheStats stats = packs.stats();
    EXPECT_EQ(stats.entries, kPacks);
    EXPECT_EQ(stats.misses, static_cast<int64_t>(kPacks)) << made << " made: what came too late is no miss";
    EXPECT_EQ(stats.hits, static_cast<int64_t>(kThreads * kPacks - kPacks));
    EXPECT_GE(made, static_cast<int>(kPacks));
  }
}

// What a thread holds stays right while others make, use and trim.
TEST(PacksOfThreads, TrimmingLeavesWhatIsHeld) {
  WeightPacks packs;
  const ConstTensor constant = Constant(1);
  std::atomic<int> wrong{0};
  Together([&](int t) {
    for (int i = 0; i < 200; ++i) {
      const int key = (i * 7 + t) % 11;
      const auto held = packs.GetOrMake(constant, std::to_string(key), [&]() -> std::shared_ptr<const void> {
        return std::make_shared<int>(key);
      });
      if (i % 5 == t) packs.Trim(0);
      wrong += *static_cast<const int*>(held.get()) != key;
    }
  });
  EXPECT_EQ(wrong, 0);
  packs.Trim(0);
  EXPECT_EQ(packs.stats().entries, 0u);
}

}  // namespace
}  // namespace opsnn::graph
