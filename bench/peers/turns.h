// What the side-by-side benches share: clock, median, and a quiet OpenMP.
#ifndef OPSNN_BENCH_PEERS_TURNS_H_
#define OPSNN_BENCH_PEERS_TURNS_H_

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace opsnn::peers {

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Before each contestant's turn: the threads of the one before may spin for some milliseconds more and would
// keep the next one's from their cores. Nobody runs two libraries at once. This thread stays busy meanwhile:
// after it has slept, Linux is apt to wake a worker on this thread's own core, where two threads take as long
// as one.
inline void PauseBetweenTurns(int threads) {
  constexpr double kOutlastsSpinning = 10e-3;  // seconds
  if (threads > 1)
    for (const double start = Now(); Now() - start < kOutlastsSpinning;) continue;
}

// Threads of OpenMP and OpenBLAS would spin through everybody's turns (those of OpenBLAS for 2^26 cycles
// after a call); both libraries read how long when they are loaded, so the program starts once more with the
// settings.
inline void StartWithQuietOpenMp(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "20000", 0);
  setenv("OPENBLAS_THREAD_TIMEOUT", "18", 0);  // 2^18 cycles
  execv("/proc/self/exe", argv);
}

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_TURNS_H_
