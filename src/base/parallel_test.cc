#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/cpu_count.h"
#include "base/pool_awake.h"

namespace opsnn {
namespace {

// Every test runs with more threads than this machine may have, so that the pool is really used.
class ParallelTest : public ::testing::Test {
 protected:
  void SetUp() override { SetNumThreads(4); }
  void TearDown() override { SetNumThreads(0); }
};

// Planning may run out of memory in a body: the caller hears of it when everybody has left, and the pool goes
// on.
TEST_F(ParallelTest, WhatABodyThrowsReachesTheCaller) {
  for (int round = 0; round < 20; ++round) {
    const int64_t bad = round * 37 % 500;
    EXPECT_THROW(ParallelFor(500,
                             [&](int64_t i, int) {
                               if (i == bad) throw std::bad_alloc();
                             }),
                 std::bad_alloc);
    std::atomic<int> count{0};
    ParallelFor(500, [&](int64_t, int) { ++count; });
    EXPECT_EQ(count.load(), 500);
  }
}

TEST_F(ParallelTest, NoBodyRunsWhenAnExceptionArrives) {
  for (int threads : {1, 2, 4}) {
    SetNumThreads(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> inside{0}, begun{0};
      bool caught = false;
      try {
        ParallelFor(64, [&](int64_t i, int) {
          struct Inside {  // counts this body for as long as its frame exists
            std::atomic<int>& count;
            explicit Inside(std::atomic<int>& c) : count(c) { ++count; }
            ~Inside() { --count; }
          } scope(inside);
          ++begun;
          if (i >= 8) throw static_cast<int>(i);  // all threads may fail at once: one of them is told
        });
      } catch (int i) {
        caught = true;
        EXPECT_GE(i, 8);
      }
      ASSERT_TRUE(caught) << threads << " threads";
      EXPECT_EQ(inside.load(), 0);
      EXPECT_GE(begun.load(), 1);
      EXPECT_LE(begun.load(), 8 + threads) << "a thread begins nothing behind its failure";
      EXPECT_EQ(ThreadsAvailable(), threads) << "the caller is out of the body";
    }
  }
}

TEST_F(ParallelTest, EveryIndexOnce) {
  for (int64_t n : {0, 1, 2, 3, 7, 64, 1000, 20000}) {
    std::vector<std::atomic<int>> count(static_cast<size_t>(n));
    std::atomic<bool> workers_in_range{true};
    ParallelFor(n, [&](int64_t i, int worker) {
      count[static_cast<size_t>(i)].fetch_add(1);
      if (worker < 0 || worker >= 4) workers_in_range = false;
    });
    for (auto& c : count) ASSERT_EQ(c.load(), 1);
    EXPECT_TRUE(workers_in_range);
  }
}

TEST_F(ParallelTest, WorkersAreDistinctAndBodiesSeeEarlierWrites) {
  // Many short jobs in a row: each must see what the one before wrote, and no two threads share an index.
  std::vector<int64_t> value(64, 0);
  for (int round = 0; round < 3000; ++round) {
    std::atomic<int> in_use[4] = {};
    std::atomic<bool> clash{false};
    ParallelFor(64, [&](int64_t i, int worker) {
      if (in_use[worker].exchange(1)) clash = true;
      value[static_cast<size_t>(i)] += i;
      in_use[worker] = 0;
    });
    ASSERT_FALSE(clash);
  }
  for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(value[static_cast<size_t>(i)], 3000 * i);
}

// Each body waits for the other one, so that both threads are there; then each runs the share that it had.
TEST_F(ParallelTest, ThreadsKeepTheirShares) {
  SetNumThreads(2);
  std::set<std::thread::id> first, second;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> in_body{0};
    ParallelFor(2, [&](int64_t i, int) {
      in_body.fetch_add(1);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (in_body.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      (i == 0 ? first : second).insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(first, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(second.count(std::this_thread::get_id()), 0u);
}

// A share whose thread does not come is done by the others, from its first index on.
TEST_F(ParallelTest, SharesOfAbsentThreadsAreDone) {
  for (int64_t n : {2, 3, 65, 1000}) {
    const ScopedThreadLimit limit(3);
    std::vector<std::atomic<int>> count(static_cast<size_t>(n));
    ParallelFor(n, [&](int64_t i, int worker) {
      if (worker > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as good as absent
      count[static_cast<size_t>(i)].fetch_add(1);
    });
    for (auto& c : count) ASSERT_EQ(c.load(), 1);
  }
}

TEST_F(ParallelTest, SleepersWakeUp) {
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // beyond the spin
    std::atomic<int> in_body{0};
    std::atomic<bool> met{false};
    // Each body waits until a second one runs beside it: only passes if another thread comes.
    ParallelFor(2, [&](int64_t, int) {
      in_body.fetch_add(1);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (in_body.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      if (in_body.load() == 2) met = true;
    });
    ASSERT_TRUE(met);
  }
}

TEST_F(ParallelTest, KeptAwakeTheyStillWorkAndSleepLater) {
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 3; ++round) {
    const KeepPoolAwake awake;
    for (int i = 0; i < 20; ++i) {
      ParallelFor(8, [&](int64_t k, int) { sum += k; });
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  EXPECT_EQ(sum, 3 * 20 * 28);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ParallelFor(8, [&](int64_t k, int) { sum += k; });
  EXPECT_EQ(sum, 3 * 20 * 28 + 28);
}

TEST_F(ParallelTest, SmallJobsAreWorthOneThread) {
  EXPECT_EQ(ThreadsWorth(0), 1);
  EXPECT_EQ(ThreadsWorth(1000), 1);
  EXPECT_EQ(ThreadsWorth(1e12), 4);  // whether anybody sleeps or not
  EXPECT_GT(WakeCycles(), 0);
  const KeepPoolAwake awake;
  ParallelFor(64, [&](int64_t, int) {});
  const ScopedThreadLimit limit(1);
  EXPECT_EQ(ThreadsWorth(1e12), 1);
  ParallelFor(2, [&](int64_t, int) { EXPECT_EQ(ThreadsWorth(1e12), 1); });
}

TEST_F(ParallelTest, NestingRunsInline) {
  std::atomic<int64_t> sum{0};
  std::atomic<bool> nested_alone{true};
  ParallelFor(8, [&](int64_t, int) {
    if (ThreadsAvailable() != 1) nested_alone = false;
    const std::thread::id self = std::this_thread::get_id();
    ParallelFor(10, [&](int64_t i, int worker) {
      if (worker != 0 || std::this_thread::get_id() != self) nested_alone = false;
      sum += i;
    });
    if (ThreadsAvailable() != 1) nested_alone = false;  // still inside the outer body
  });
  EXPECT_EQ(sum, 8 * 45);
  EXPECT_TRUE(nested_alone);
  EXPECT_EQ(ThreadsAvailable(), 4);
}

TEST_F(ParallelTest, ScopedLimit) {
  {
    ScopedThreadLimit two(2);
    EXPECT_EQ(ThreadsAvailable(), 2);
    ScopedThreadLimit one(1);
    EXPECT_EQ(ThreadsAvailable(), 1);
    std::set<std::thread::id> ids;
    ParallelFor(100, [&](int64_t, int worker) {
      EXPECT_EQ(worker, 0);
      ids.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(ids.size(), 1u);
  }
  EXPECT_EQ(ThreadsAvailable(), 4);
  ScopedThreadLimit many(100);
  EXPECT_EQ(ThreadsAvailable(), 4);
}

TEST_F(ParallelTest, ConcurrentCallers) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) ParallelFor(16, [&](int64_t i, int) { sum += i; });
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 4 * 500 * 120);
}

#if !defined(__SANITIZE_THREAD__)  // which does not let a forked child start threads
TEST_F(ParallelTest, WorksAfterFork) {
  std::atomic<int> warm{0};
  ParallelFor(64, [&](int64_t, int) { ++warm; });
  const pid_t pid = fork();
  if (pid == 0) {
    std::atomic<int> count{0}, beside{0};
    ParallelFor(64, [&](int64_t, int) { ++count; });
    // And with workers of its own: two bodies at the same time.
    ParallelFor(2, [&](int64_t, int) {
      ++beside;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (beside < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
    _exit(count == 64 && beside == 2 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ParallelFor(64, [&](int64_t, int) { ++warm; });
  EXPECT_EQ(warm, 128);
}
#endif

#if defined(__x86_64__)
TEST_F(ParallelTest, WorkersTakeTheCallersFloatControl) {
  const unsigned saved = __builtin_ia32_stmxcsr();
  constexpr unsigned kRoundUp = 0x4000, kRoundMask = 0x6000;
  for (unsigned mode : {kRoundUp, 0u}) {
    __builtin_ia32_ldmxcsr((saved & ~kRoundMask) | mode);
    std::atomic<bool> same{true};
    ParallelFor(2000, [&](int64_t, int) {
      if ((__builtin_ia32_stmxcsr() & kRoundMask) != mode) same = false;
    });
    EXPECT_TRUE(same);
  }
  __builtin_ia32_ldmxcsr(saved);
}
#endif

TEST(CpuCount, AffinityIsCounted) {
  cpu_set_t saved;
  ASSERT_EQ(sched_getaffinity(0, sizeof saved, &saved), 0);
  EXPECT_EQ(AffinityCpus(), CPU_COUNT(&saved));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &saved)) {
      CPU_SET(i, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(AffinityCpus(), 1);
  EXPECT_EQ(AllowedCpus(), 1);
  sched_setaffinity(0, sizeof saved, &saved);
}

// Sanitizers need more address space than such a limit leaves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Parallel, ManyThreadsLeaveRoomInASmallAddressSpace) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit = {size_t{1} << 30, size_t{1} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);  // it says how many threads there are
    SetNumThreads(4096);
    std::atomic<int64_t> sum{0};
    ParallelFor(100000, [&](int64_t i, int) { sum += i; });
    if (sum != int64_t{99999} * 50000) _exit(3);
    const AlignedBuffer big(size_t{256} << 20);
    _exit(big ? 0 : 4);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

#endif

#if !defined(__SANITIZE_THREAD__)  // which does not let a forked child start threads
// Woken after a pause, a worker must not wait for the core that its caller computes on. In a process that has
// one worker.
void WorkersLeave(const cpu_set_t& before, const std::vector<int>& cores) {
  SetNumThreads(2);
  // What a worker may use while the caller computes on `core`, after a pause in which it fell asleep; false
  // when it came too late for the job.
  const auto worker_set = [&](int core, cpu_set_t* set, const cpu_set_t* give) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sched_setaffinity(0, sizeof one, &one);
    std::atomic<bool> seen{false};
    ParallelFor(2, [&](int64_t, int worker) {
      if (worker == 1 && !seen) {
        sched_getaffinity(0, sizeof *set, set);
        if (give) sched_setaffinity(0, sizeof *give, give);
        seen = true;
      }
      for (int i = 0; i < 5000 && worker == 0 && !seen; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    sched_setaffinity(0, sizeof before, &before);
    return seen.load();
  };
  cpu_set_t set;
  // Whoever made the workers decided what they may use: here it is all that this thread may.
  if (!worker_set(cores[0], &set, nullptr)) return;
  ASSERT_TRUE(worker_set(cores[0], &set, &before));
  ASSERT_TRUE(worker_set(cores[1], &set, nullptr));
  EXPECT_FALSE(CPU_ISSET(cores[1], &set));
  EXPECT_TRUE(CPU_ISSET(cores[0], &set));
  ASSERT_TRUE(worker_set(cores[0], &set, nullptr));
  EXPECT_FALSE(CPU_ISSET(cores[0], &set));
  EXPECT_TRUE(CPU_ISSET(cores[1], &set));
  // A set given from outside holds: with one core there is nothing to leave.
  cpu_set_t given;
  CPU_ZERO(&given);
  CPU_SET(cores[0], &given);
  ASSERT_TRUE(worker_set(cores[0], &set, &given));
  ASSERT_TRUE(worker_set(cores[1], &set, nullptr));
  EXPECT_TRUE(CPU_EQUAL(&set, &given));
  ASSERT_TRUE(worker_set(cores[0], &set, &before));
  EXPECT_TRUE(CPU_EQUAL(&set, &given));
}

TEST(ParallelCores, WorkersLeaveTheCallersCore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &before)) cores.push_back(c);
  if (cores.size() < 2) return;  // nothing to leave
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    WorkersLeave(before, cores);
    std::fflush(nullptr);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

class FakeCgroups {
 public:
  FakeCgroups() { EXPECT_NE(mkdtemp(root_), nullptr); }
  ~FakeCgroups() { EXPECT_EQ(system(("rm -r " + root()).c_str()), 0); }
  std::string root() const { return root_; }
  void Write(const std::string& file, const std::string& text) {
    const std::string path = root() + "/" + file;
    EXPECT_EQ(system(("mkdir -p " + path.substr(0, path.rfind('/'))).c_str()), 0);
    FILE* f = fopen(path.c_str(), "w");
    ASSERT_NE(f, nullptr);
    fputs(text.c_str(), f);
    fclose(f);
  }

 private:
  char root_[64] = "/tmp/opsnn_cgroup_XXXXXX";
};

TEST(CpuCount, CgroupV2TakesTheTightestAncestor) {
  FakeCgroups g;
  g.Write("a/cpu.max", "250000 100000\n");
  g.Write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpus("0::/a/b\n", g.root()), 3);  // rounded up
  EXPECT_EQ(CgroupCpus("0::/\n", g.root()), 0);
  g.Write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupCpus("0::/a/b\n", g.root()), 1);
}

TEST(CpuCount, CgroupV2InsideAContainer) {
  FakeCgroups g;
  g.Write("cpu.max", "400000 100000\n");  // the container's own group is the root of what it sees
  EXPECT_EQ(CgroupCpus("0::/docker/0123\n", g.root()), 4);
}

TEST(CpuCount, CgroupV1) {
  FakeCgroups g;
  g.Write("cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n");
  g.Write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  g.Write("cpu,cpuacct/y/cpu.cfs_quota_us", "-1\n");
  g.Write("cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpus("4:memory:/x\n3:cpu,cpuacct:/x\n", g.root()), 2);
  EXPECT_EQ(CgroupCpus("3:cpu,cpuacct:/y\n", g.root()), 0);
  EXPECT_EQ(CgroupCpus("", g.root()), 0);
}

}  // namespace
}  // namespace opsnn
