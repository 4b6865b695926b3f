// Time since it was made, for reports of what planning takes.
#ifndef OPSNN_GRAPH_STOPWATCH_H_
#define OPSNN_GRAPH_STOPWATCH_H_

#include <chrono>

namespace opsnn::graph {

class Stopwatch {
 public:
  double us() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_STOPWATCH_H_
