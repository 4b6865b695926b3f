// Whether pool threads are up: KeepPoolAwake for callers with many short ParallelFor calls in a row, as a
// model has; PoolAtHand for work that is not worth waking one; ThreadsWorth for who asks about both.
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

// What it takes until a sleeping thread is at work, in cycles of the processor's clock: timed whenever one is
// woken, so that it follows the machine.
double WakeCycles();

// How many threads a job is worth that takes one core so many cycles: one where handing a part over takes
// longer than it saves, or the waking that it would need; else all. To be asked once for a job.
int ThreadsWorth(double cycles);

}  // namespace opsnn

#endif  // OPSNN_BASE_POOL_AWAKE_H_
