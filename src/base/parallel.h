// The process-wide pool of computing threads and ParallelFor.
//
// The thread count is the number of computing threads in all, the caller included: with 1, nothing is started
// and the caller's core alone works. Workers start on first use, spin briefly, then sleep; they are rebuilt
// after fork. Pool threads take the caller's MXCSR. Each thread begins with the same share of the indices in
// every job, in order, and then helps with the others' shares: results must not depend on which thread runs
// which index (splits of a reduction belong to the shape, not the threads).
#ifndef OPSNN_BASE_PARALLEL_H_
#define OPSNN_BASE_PARALLEL_H_

#include <cstdint>
#include <type_traits>
#include <utility>

namespace opsnn {

// A non-owning reference to a callable: two pointers, no allocation.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Threads the process may use: the user's setting, else the smaller of affinity mask and cgroup quota.
int NumThreads();
// Sets the process-wide count (>= 1); 0 restores the default. Callers check the range.
void SetNumThreads(int n);

// Caps the threads that ParallelFor uses on this thread while the object lives.
class ScopedThreadLimit {
 public:
  explicit ScopedThreadLimit(int limit);
  ~ScopedThreadLimit();
  ScopedThreadLimit(const ScopedThreadLimit&) = delete;

 private:
  int saved_;
};
// min(NumThreads(), the innermost ScopedThreadLimit); 1 inside a ParallelFor body (no nesting).
int ThreadsAvailable();

// Calls fn(index, worker) once for every index in [0, n), worker in [0, ThreadsAvailable()), and returns when
// all have finished. Runs inline when n <= 1 or one thread is available. Where fn throws (memory ran out),
// indices that no thread has begun are skipped, and the first exception is thrown again once all have left.
void ParallelFor(int64_t n, FunctionRef<void(int64_t index, int worker)> fn);

}  // namespace opsnn

#endif  // OPSNN_BASE_PARALLEL_H_
