// KeepPoolAwake: for callers with many short ParallelFor calls in a row, as a model has.
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

}  // namespace opsnn

#endif  // OPSNN_BASE_POOL_AWAKE_H_
