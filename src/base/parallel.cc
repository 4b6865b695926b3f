#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/cpu_count.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/pool_awake.h"
#include "base/work_range.h"

namespace opsnn {
namespace {

// Long enough to bridge the gap between two operators of a model, short enough not to be seen in `top`.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerClockRead = 32;
// Indices are claimed a few at a time where there are many: a claim that meets another thread's moves a cache
// line between cores, which takes as long as a small body. So many claims still even out threads that are
// late.
constexpr int kClaimsPerThread = 16;
// More workers than this are not told which core to leave free: telling takes 1 to 2 us for each.
constexpr int kMostTold = 16;

// What waking a thread takes until the first one here was timed, 30 us, and the longest that is believed.
constexpr double kFirstWakeCycles = 100e3, kMostWakeCycles = 200e3;
// Jobs are asked about at their beginning: those in question, of up to kMostWakeCycles and twice as long as
// was thought, follow each other within this time.
constexpr std::chrono::microseconds kAskedLately{200};

// A clock that counts about as fast as the core does.
uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  constexpr uint64_t kPerNanosecond = 3;
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * kPerNanosecond;
#endif
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

uint32_t FloatControl() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3Fu;  // rounding, masks, flush modes; not the sticky flags
#else
  return 0;
#endif
}

void SetFloatControl([[maybe_unused]] uint32_t v) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(v);
#endif
}

std::atomic<int> g_keep_awake{0};  // KeepPoolAwake objects alive

thread_local bool tls_inside = false;  // in the body of a ParallelFor
thread_local int tls_limit = 0;        // 0 = none

// How many workers a limit on the address space (ulimit -v) has room for, beside the work itself: each takes
// a stack, and the C library reserves a heap of 64 MiB for it. A quarter of what is left goes to them.
int64_t RoomForWorkers(size_t stack_bytes) {
  constexpr size_t kHeapBytes = size_t{64} << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  size_t pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%zu", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  const size_t used = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
  return static_cast<int64_t>(left / 4 / (stack_bytes + kHeapBytes));
}

class InsideScope {
 public:
  InsideScope() : outer_(tls_inside) { tls_inside = true; }
  ~InsideScope() { tls_inside = outer_; }

 private:
  const bool outer_;
};

// Says nothing and does nothing: what the job's function is before there is a job.
constexpr auto kNothing = [](int64_t, int) {};

// One job at a time. Of two kinds: indices, of which each thread begins with a share and helps with
// those of others; or parts, of which each worker has its own.
//
// The gate names the job and admits workers: number of the job in the upper half, then an open bit, then how
// many workers have entered (or, of parts, a bit for each that its worker has not taken). A worker enters by
// one compare-and-swap and gets its index from it; the caller closes the gate when its own work is done and
// waits only for those inside, so a worker that is slow to wake up delays nobody. All that a worker needs of
// a job lies in the line of the gate: handing over a job takes this one line to the worker and back.
class Pool {
 public:
  // False when another thread's job has the pool; the caller then works alone.
  bool TryRun(int64_t n, int threads, FunctionRef<void(int64_t, int)> fn) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    StartWorkers(threads - 1);
    const auto workers = std::min<int64_t>({threads - 1, n - 1, started_});
    Describe(static_cast<int>(workers), fn);
    job_.grain = std::max<int64_t>(1, n / (threads * kClaimsPerThread));
    CutShares(n, std::min<int64_t>(workers + 1, kMostShares));
    job_.gate.store(NextJob() | kOpen, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      LeaveThisCore();
      Wake(started_, static_cast<int>(job_.most_entered.load(std::memory_order_relaxed)));
    }
    Claim(fn, 0, 0);
    Finish(static_cast<uint32_t>(job_.gate.fetch_and(~kOpen) & kEntered));
    return true;
  }

  // The same for one part a thread, parts <= kMostParts.
  bool TryRunParts(int parts, FunctionRef<void(int64_t, int)> fn) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    StartWorkers(parts - 1);
    Describe(static_cast<int>(std::min<int64_t>(parts - 1, started_)), fn);
    const uint64_t all = (uint64_t{1} << job_.most_entered.load(std::memory_order_relaxed)) - 1;
    job_.gate.store(NextJob() | kOpen | kParts | all, std::memory_order_release);
    // Nobody is waited for, so it does no harm that a worker may fall asleep unseen just now.
    if ((asleep_.load(std::memory_order_relaxed) & all) != 0) {
      LeaveThisCore();
      Wake(parts - 1, parts - 1);
    }
    RunPart(fn, 0);
    // A gate without bits lets nobody in.
    uint64_t open = 0;
    if (job_.left.load(std::memory_order_acquire) != static_cast<uint32_t>(std::popcount(all)) &&
        (job_.gate.load(std::memory_order_relaxed) & kEntered) != 0)
      open = job_.gate.fetch_and(~(kOpen | kEntered)) & kEntered;
    for (int part = 1; part < parts; ++part)
      if ((open >> (part - 1) & 1) != 0 || (all >> (part - 1) & 1) == 0) RunPart(fn, part);
    Finish(static_cast<uint32_t>(std::popcount(all) - std::popcount(open)));
    return true;
  }

  static constexpr int kMostParts = 31;

  // Workers exist, and none of the first `count` sleeps.
  bool Awake(int count) const {
    const uint64_t first = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    return any_.load(std::memory_order_relaxed) && (asleep_.load(std::memory_order_relaxed) & first) == 0;
  }

  double WakeCycles() const { return wake_cycles_.load(std::memory_order_relaxed); }

 private:
  struct Worker {
    Worker(Pool* p, int i) : pool(p), id(i) {}
    Pool* const pool;
    const int id;
    bool asleep = false;  // guarded by mutex_, as is the tick at which it was woken
    uint64_t woken = 0;
    std::condition_variable wake;
  };

  // 64 bits wide, so that their complements keep the job number.
  static constexpr uint64_t kOpen = 1u << 31, kParts = 1u << 30, kEntered = kParts - 1;

  // The indices that one thread begins with (or two, of very many threads). Who is through with them helps
  // the others with theirs.
  static constexpr int64_t kMostShares = 64;
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  void CutShares(int64_t n, int64_t count) {
    const int64_t base = n / count, extra = n % count;
    for (int64_t i = 0, begin = 0; i < count; begin = shares_[i++].end) {
      shares_[i].next.store(begin, std::memory_order_relaxed);
      shares_[i].end = begin + base + (i < extra ? 1 : 0);
    }
    job_.shares = count;
  }

  void Describe(int most_entered, FunctionRef<void(int64_t, int)> fn) {
    job_.fn = fn;
    job_.most_entered.store(static_cast<uint32_t>(most_entered), std::memory_order_relaxed);
    job_.float_control = FloatControl();
    job_.left.store(0, std::memory_order_relaxed);
  }
  uint64_t NextJob() const { return ((job_.gate.load(std::memory_order_relaxed) >> 32) + 1) << 32; }

  void Finish(uint32_t entered) {
    AwaitWorkers(entered);
    if (!failed_.load(std::memory_order_relaxed)) return busy_.store(false, std::memory_order_release);
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_release);
    std::rethrow_exception(failure);  // out of memory: an error of the call, not of the process
  }

  // Where there is no room for all of them, whoever exists does the work, and nobody asks for more again.
  void StartWorkers(int wanted) {
    if (started_ >= std::min<int64_t>(wanted, most_)) return;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    // Detached: workers live as long as the process and hold nothing that needs releasing.
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    size_t stack_bytes = 0;
    pthread_attr_getstacksize(&attr, &stack_bytes);
    const int64_t room = RoomForWorkers(stack_bytes);
    most_ = std::min(most_, room > INT64_MAX - started_ ? INT64_MAX : started_ + room);
    while (started_ < std::min<int64_t>(wanted, most_)) {
      pthread_t id;
      Worker* worker;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        worker = &workers_.emplace_back(this, static_cast<int>(started_));
      }
      const int rc = pthread_create(
          &id, &attr,
          [](void* p) -> void* {
            auto* const self = static_cast<Worker*>(p);
            self->pool->WorkerLoop(*self);
            return nullptr;
          },
          worker);
      if (rc == 0) {
        if (started_ < kMostTold) ids_[started_] = id;
        left_core_ = -1;  // the new one has not been told
        ++started_;
        any_.store(true, std::memory_order_relaxed);
      } else {
        most_ = started_;
        std::lock_guard<std::mutex> lock(mutex_);
        workers_.pop_back();
      }
    }
    pthread_attr_destroy(&attr);
    if (started_ < wanted)
      OPSNN_LOG(kWarn,
                "threads: got %d, allowed here: %lld (limits on address space and processes, ulimit -v and "
                "-u); so many compute",
                wanted + 1, static_cast<long long>(started_ + 1));
  }

  // After a pause of some milliseconds Linux likes to wake a worker on the core that wakes it, where it waits
  // for its turn while other cores idle: two threads then take as long as one. So before sleepers are woken,
  // workers may run anywhere but on the caller's core, provided that every one who is needed still has a core
  // of its own. A set of cores that somebody else gave them since becomes the one that they are allowed.
  void LeaveThisCore() {
    const int here = sched_getcpu();
    const int entering = static_cast<int>(job_.most_entered.load(std::memory_order_relaxed));
    if (here < 0 || here >= CPU_SETSIZE || (here == left_core_ && entering == told_for_) ||
        started_ > kMostTold)
      return;
    left_core_ = here, told_for_ = entering;
    cpu_set_t now;
    if (pthread_getaffinity_np(ids_[0], sizeof now, &now) != 0) return;
    if (!told_ || !CPU_EQUAL(&now, &told_set_)) allowed_ = now;
    told_set_ = allowed_;
    CPU_CLR(here, &told_set_);
    if (CPU_COUNT(&told_set_) < entering) told_set_ = allowed_;
    told_ = true;
    if (CPU_EQUAL(&now, &told_set_)) return;
    for (int64_t i = 0; i < started_; ++i) pthread_setaffinity_np(ids_[i], sizeof told_set_, &told_set_);
  }

  // At most `count` of the first `of` workers. Each sleeper is woken once, by whoever takes it off the count:
  // while it is on its way, further jobs do not pay for a system call.
  void Wake(int64_t of, int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    of = std::min(of, started_);
    for (int64_t i = 0; i < of && count > 0; ++i) {
      Worker& w = workers_[static_cast<size_t>(i)];
      if (!w.asleep) continue;
      w.asleep = false;
      NoteSleeper(w, -1);
      w.woken = Ticks();
      w.wake.notify_one();
      --count;
    }
  }

  // Under mutex_.
  void NoteSleeper(const Worker& w, int change) {
    const uint64_t bit = w.id < 64 ? uint64_t{1} << w.id : 0;
    change > 0 ? asleep_.fetch_or(bit, std::memory_order_relaxed)
               : asleep_.fetch_and(~bit, std::memory_order_relaxed);
    sleepers_.fetch_add(change, std::memory_order_seq_cst);
  }

  // Under mutex_. Of the times seen lately one of the shorter: busy cores draw out some.
  void NoteWake(uint64_t ticks) {
    constexpr double kDown = 0.5, kUp = 1.0 / 16, kMostLonger = 2;
    const double known = wake_cycles_.load(std::memory_order_relaxed);
    const double now = std::min({static_cast<double>(ticks), kMostLonger * known, kMostWakeCycles});
    wake_cycles_.store(known + (now < known ? kDown : kUp) * (now - known), std::memory_order_relaxed);
  }

  // The share at `home` first, then the others'.
  void Claim(FunctionRef<void(int64_t, int)> fn, int worker, int64_t home) {
    const int64_t shares = job_.shares, grain = job_.grain;
    InsideScope inside;
    try {
      for (int64_t s = 0; s < shares; ++s, home = home + 1 < shares ? home + 1 : 0) {
        Share& share = shares_[home];
        for (int64_t i; (i = share.next.fetch_add(grain, std::memory_order_relaxed)) < share.end;)
          for (const int64_t end = std::min(i + grain, share.end); i < end; ++i) fn(i, worker);
      }
    } catch (...) {
      KeepFailure();
      // The rest need not be done.
      for (int64_t s = 0; s < shares; ++s) shares_[s].next.store(shares_[s].end, std::memory_order_relaxed);
    }
  }

  void RunPart(FunctionRef<void(int64_t, int)> fn, int part) {
    InsideScope inside;
    try {
      fn(part, part);
    } catch (...) {
      KeepFailure();
    }
  }

  void KeepFailure() {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
  }

  void AwaitWorkers(uint32_t entered) {
    std::chrono::steady_clock::time_point deadline;
    for (int i = 1; job_.left.load(std::memory_order_acquire) != entered; ++i) {
      Pause();
      if (i % kPausesPerClockRead != 0) continue;
      const auto now = std::chrono::steady_clock::now();
      if (i == kPausesPerClockRead) deadline = now + kSpin;
      // More threads than free cores: give the core to the worker we wait for.
      if (now > deadline) sched_yield();
    }
  }

  static bool IsNew(uint64_t gate, uint64_t last_job) { return (gate & kOpen) && (gate >> 32) != last_job; }

  void AwaitJob(Worker& self, uint64_t last_job) {
    auto deadline = std::chrono::steady_clock::now() + kSpin;
    for (int i = 1; !IsNew(job_.gate.load(std::memory_order_relaxed), last_job); ++i) {
      Pause();
      if (i % kPausesPerClockRead == 0 && std::chrono::steady_clock::now() > deadline) {
        if (g_keep_awake.load(std::memory_order_relaxed) > 0) {
          sched_yield();
          deadline = std::chrono::steady_clock::now() + kSpin;
          continue;
        }
        Sleep(self, last_job);
        deadline = std::chrono::steady_clock::now() + kSpin;
      }
    }
  }

  void Sleep(Worker& self, uint64_t last_job) {
    std::unique_lock<std::mutex> lock(mutex_);
    // Announced before the last look at the gate; TryRun opens the gate before it looks for sleepers.
    NoteSleeper(self, 1);
    if (IsNew(job_.gate.load(std::memory_order_seq_cst), last_job)) return NoteSleeper(self, -1);
    self.asleep = true;
    self.wake.wait(lock, [&] { return !self.asleep; });
    NoteWake(Ticks() - self.woken);
  }

  void WorkerLoop(Worker& self) {
    const int id = self.id;
    uint64_t last_job = 0;
    for (;;) {
      AwaitJob(self, last_job);
      uint64_t gate = job_.gate.load(std::memory_order_acquire);
      last_job = gate >> 32;
      // Fields of the job belong to the one that the swap then confirms to be still open.
      while ((gate & kOpen) && (gate >> 32) == last_job) {
        const bool parts = (gate & kParts) != 0;
        const uint64_t mine = parts && id < kMostParts - 1 ? uint64_t{1} << id : 0;
        const auto entered = static_cast<uint32_t>(gate & kEntered);
        if (parts ? (gate & mine) == 0 : entered >= job_.most_entered.load(std::memory_order_relaxed)) break;
        const uint64_t with_me = parts ? gate & ~mine : gate + 1;
        if (!job_.gate.compare_exchange_weak(gate, with_me, std::memory_order_acq_rel)) continue;
        SetFloatControl(job_.float_control);
        if (parts) {
          RunPart(job_.fn, id + 1);
        } else {
          // A thread begins with the same share of every job, so that what it wrote in the last one is still
          // in its own caches.
          const int64_t home = id + 1 < job_.shares ? id + 1 : (entered + 1) % job_.shares;
          Claim(job_.fn, static_cast<int>(entered) + 1, home);
        }
        job_.left.fetch_add(1, std::memory_order_release);
        break;
      }
    }
  }

  std::atomic<bool> busy_{false};
  std::atomic<bool> any_{false};  // started_ > 0
  int64_t started_ = 0;           // guarded by busy_
  int64_t most_ = INT64_MAX;      // workers that there is room for; guarded by busy_
  // What LeaveThisCore knows, guarded by busy_: the workers, the core they leave, the set they were given
  // last and the one that they would have without it.
  pthread_t ids_[kMostTold];
  int left_core_ = -1, told_for_ = 0;  // told_for_: how many of them the job needs
  bool told_ = false;
  cpu_set_t told_set_, allowed_;
  // The job; written before the gate opens, read by those who entered.
  struct alignas(64) Job {
    std::atomic<uint64_t> gate{0};
    std::atomic<uint32_t> left{0}, most_entered{0};
    FunctionRef<void(int64_t, int)> fn = kNothing;
    int64_t shares = 0, grain = 1;
    uint32_t float_control = 0;
  };
  static_assert(sizeof(Job) == 64);
  Job job_;
  Share shares_[kMostShares];
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // of whoever set failed_; read when all have left
  // Changed under mutex_: how many sleep, and which of the first 64.
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<uint64_t> asleep_{0};
  std::atomic<double> wake_cycles_{kFirstWakeCycles};
  std::deque<Worker> workers_;  // guarded by mutex_, but each for itself
  std::mutex mutex_;
};

std::atomic<Pool*> g_pool{nullptr};
std::atomic<int> g_threads{0};  // set by SetNumThreads; 0 = default
std::atomic<int> g_allowed{0};  // cached AllowedCpus()

// The workers do not exist in the child, and the old pool's locks may be held for ever: start anew.
void ForgetPool() {
  static std::atomic<Pool*> abandoned;  // still reachable, so that leak checkers of the child stay quiet
  abandoned.store(g_pool.exchange(nullptr));
  g_allowed.store(0);
  g_keep_awake.store(
      0);  // the threads that asked for it stayed in the parent, except perhaps the one that forked
}

Pool& ThePool() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (pool) return *pool;
  static const int registered = pthread_atfork(nullptr, nullptr, ForgetPool);
  (void)registered;
  Pool* fresh = new Pool;  // never freed: workers use it until the process ends
  if (g_pool.compare_exchange_strong(pool, fresh)) return *fresh;
  delete fresh;
  return *pool;
}

}  // namespace

int NumThreads() {
  if (const int set = g_threads.load(std::memory_order_relaxed)) return set;
  if (const int knob = GetKnobs().threads) return knob;
  int allowed = g_allowed.load(std::memory_order_relaxed);
  if (allowed == 0) g_allowed.store(allowed = AllowedCpus(), std::memory_order_relaxed);
  return allowed;
}

void SetNumThreads(int n) { g_threads.store(std::max(n, 0), std::memory_order_relaxed); }

bool PoolAtHand() {
  static std::atomic<std::chrono::steady_clock::rep> last{0};
  const Pool* const pool = g_pool.load(std::memory_order_acquire);
  if (pool && pool->Awake(ThreadsAvailable() - 1)) return true;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::steady_clock::time_point before{
      std::chrono::steady_clock::duration(last.exchange(now.time_since_epoch().count()))};
  return before + kAskedLately >= now;
}

double WakeCycles() { return ThePool().WakeCycles(); }

int ThreadsWorth(double cycles) {
  // What it takes to hand a part over and to hear that it is done (300 to 500 ns), as much again that two
  // threads save, and operands that another core has in its cache.
  constexpr double kHandoverCycles = 10e3;
  if (cycles <= kHandoverCycles) return 1;
  const int threads = ThreadsAvailable();
  if (threads == 1) return 1;
  // Who is woken comes when the job is that old: a longer one gains, a shorter one waits for the next of its
  // kind.
  return cycles > WakeCycles() || PoolAtHand() ? threads : 1;
}

KeepPoolAwake::KeepPoolAwake() { g_keep_awake.fetch_add(1, std::memory_order_relaxed); }
KeepPoolAwake::~KeepPoolAwake() { g_keep_awake.fetch_sub(1, std::memory_order_relaxed); }

ScopedThreadLimit::ScopedThreadLimit(int limit) : saved_(tls_limit) { tls_limit = std::max(limit, 1); }
ScopedThreadLimit::~ScopedThreadLimit() { tls_limit = saved_; }

int ThreadsAvailable() {
  if (tls_inside) return 1;
  const int n = NumThreads();
  return tls_limit > 0 ? std::min(n, tls_limit) : n;
}

void ParallelParts(int parts, FunctionRef<void(int64_t)> fn) {
  const auto part = [&](int64_t i, int) { fn(i); };
  if (parts > Pool::kMostParts) return ParallelFor(parts, part);
  if (parts > 1 && !tls_inside && ThreadsAvailable() > 1 && ThePool().TryRunParts(parts, part)) return;
  const InsideScope inside;
  for (int64_t i = 0; i < parts; ++i) fn(i);
}

void ParallelFor(int64_t n, FunctionRef<void(int64_t, int)> fn) {
  if (n > 1 && !tls_inside) {
    const int threads = ThreadsAvailable();
    if (threads > 1 && ThePool().TryRun(n, threads, fn)) return;
  }
  const InsideScope inside;
  for (int64_t i = 0; i < n; ++i) fn(i, 0);
}

}  // namespace opsnn
