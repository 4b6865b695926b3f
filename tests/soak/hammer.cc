// usage: hammer [--seconds N] [--threads N] [--streams N] [--seed N]
// Many threads with several streams each call some 120 aclnn functions with random small shapes, through
// queues, events, captures and repeatable executors, and compare every result bit by bit with what one thread
// got before; cheap ones also with double precision. Resident memory must stop growing after a warm-up. Exits
// with 1 where something is wrong.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "soak/case.h"
#include "soak/worker.h"

namespace opsnn::soak {
namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

struct Options {
  int seconds = 600, threads = 8, streams = 4;
  uint64_t seed = 1;
};

Options Parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const long number = value ? std::strtol(value, nullptr, 10) : 0;
    if (name == "--seconds" && number > 0) {
      o.seconds = static_cast<int>(number);
    } else if (name == "--threads" && number > 0) {
      o.threads = static_cast<int>(number);
    } else if (name == "--streams" && number > 0) {
      o.streams = static_cast<int>(number);
    } else if (name == "--seed" && number >= 0 && value) {
      o.seed = static_cast<uint64_t>(number);
    } else {
      std::fprintf(stderr, "usage: %s [--seconds N] [--threads N] [--streams N] [--seed N]\n", argv[0]);
      std::exit(2);
    }
  }
  return o;
}

size_t ResidentBytes() {
  size_t pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu %zu", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Sanitizers keep freed memory and shadows: their processes grow whatever the library does.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kWatchMemory = false;
#else
constexpr bool kWatchMemory = true;
#endif

constexpr double kWarmUp = 0.25;  // of the time
constexpr double kMib = 1024.0 * 1024.0;
// Arenas of the allocator drift by a little with the threads that happen to meet in them.
constexpr double kDrift = 16 * kMib;

std::vector<Case> MakeCases(uint64_t seed) {
  constexpr int kCasesPerRow = 6;
  testing::Rng rng(seed);
  std::vector<Case> cases;
  std::set<std::string> functions;
  for (const Row& row : Rows()) {
    for (int k = 0; k < kCasesPerRow; ++k) {
      cases.push_back(Draw(row, rng));
      if (const std::string wrong = Settle(cases.back()); !wrong.empty()) {
        std::fprintf(stderr, "hammer: %s\n", wrong.c_str());
        std::exit(1);
      }
    }
    functions.insert(row.api);
  }
  std::printf("%zu calls of %zu functions settled by one thread\n", cases.size(), functions.size());
  return cases;
}

int Hammer(const Options& o) {
  if (aclInit(nullptr) || aclrtSetDevice(0)) return 1;
  const std::vector<Case> cases = MakeCases(o.seed);
  Shared shared(cases);
  std::vector<std::thread> threads;
  for (int t = 0; t < o.threads; ++t) {
    threads.emplace_back(
        [&shared, &o, t] { Work(shared, o.streams, o.seed + 1000 + static_cast<uint64_t>(t)); });
  }
  const auto start = Clock::now();
  double after_warm_up = 0, most = 0;
  for (double passed = 0; passed < o.seconds && !shared.failed;
       passed = Seconds(Clock::now() - start).count()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto resident = static_cast<double>(ResidentBytes());
    if (passed < kWarmUp * o.seconds) after_warm_up = std::max(after_warm_up, resident);
    most = std::max(most, resident);
  }
  shared.stop = true;
  for (std::thread& t : threads) t.join();
  std::printf("%lld calls right in %d s; resident %.1f MiB after the warm-up, %.1f at most\n",
              static_cast<long long>(shared.calls), o.seconds, after_warm_up / kMib, most / kMib);
  if (shared.failed) return 1;
  if (kWatchMemory && most > after_warm_up + kDrift) {
    std::fprintf(stderr, "hammer: memory grows after the warm-up\n");
    return 1;
  }
  return aclrtResetDevice(0) || aclFinalize() ? 1 : 0;
}

}  // namespace
}  // namespace opsnn::soak

int main(int argc, char** argv) { return opsnn::soak::Hammer(opsnn::soak::Parse(argc, argv)); }
