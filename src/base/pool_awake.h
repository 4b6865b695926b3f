// Whether pool threads are up: KeepPoolAwake for callers with many short ParallelFor calls in a row, as a
// model has; PoolAtHand for work that is not worth waking one.
#ifndef OPSNN_BASE_POOL_AWAKE_H_
#define OPSNN_BASE_POOL_AWAKE_H_

namespace opsnn {

// While one lives, pool threads without work look for it, giving way to other threads now and then, instead
// of going to sleep: waking one costs more than many operators take. Starts no threads by itself.
class KeepPoolAwake {
 public:
  KeepPoolAwake();
  ~KeepPoolAwake();
  KeepPoolAwake(const KeepPoolAwake&) = delete;
};

// For work of a few microseconds, which takes less than waking a thread: are pool threads looking for work?
// Also true where the last such question was asked moments ago, as calls that follow each other closely are
// worth a thread that then stays up for them.
bool PoolAtHand();

}  // namespace opsnn

#endif  // OPSNN_BASE_POOL_AWAKE_H_
