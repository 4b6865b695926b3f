// What the side-by-side benches share: clock, median, and a quiet OpenMP.
#ifndef OPSNN_BENCH_PEERS_TURNS_H_
#define OPSNN_BENCH_PEERS_TURNS_H_

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

namespace opsnn::peers {

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Before each contestant's turn: the threads of the one before may spin for some milliseconds more, and at
// real-time priority they would keep the next one's from their cores. Nobody runs two libraries at once.
inline void PauseBetweenTurns(int threads) {
  constexpr std::chrono::milliseconds kOutlastsSpinning{10};
  if (threads > 1) std::this_thread::sleep_for(kOutlastsSpinning);
}

// OpenMP's threads would spin through everybody's turns; it reads how long when it is loaded, so the program
// starts once more with the setting.
inline void StartWithQuietOpenMp(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "20000", 0);
  execv("/proc/self/exe", argv);
}

}  // namespace opsnn::peers

#endif  // OPSNN_BENCH_PEERS_TURNS_H_
