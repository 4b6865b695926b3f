#include "runtime/stream.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <set>
#include <vector>

#include "base/caught.h"
#include "runtime/capture.h"

namespace opsnn::runtime {
namespace {

using std::chrono::milliseconds;

// A task that nobody has started for this long goes to the worker: far longer than queueing the rest of a
// network takes, far shorter than a person notices.
constexpr auto kPatience = milliseconds(1);
// How often the worker looks while there is nothing to do; a wake-up is not worth a system call per task.
constexpr auto kIdlePoll = milliseconds(10);
// The worker ends after this long without tasks.
constexpr auto kIdleLife = milliseconds(2000);
// How often a closed gate is looked at.
constexpr auto kGatePoll = std::chrono::microseconds(100);

thread_local int task_depth = 0;

struct LiveStreams {
  std::mutex mutex;
  std::set<Stream*> all;
};

Status TooLate(const Task& task) {
  return Errorf(Code::kRuntime, "%s: what it waits for did not come within %lld ms", task.name,
                static_cast<long long>(task.timeout.count()));
}

Deadline Earlier(Deadline a, Deadline b) { return !a || (b && *b < *a) ? b : a; }

}  // namespace

// Locks what a fork must find consistent; the child starts with empty queues and no workers.
struct StreamForks {
  static LiveStreams& Live() {
    static auto* live = [] {  // never destroyed: streams end in static destructors
      pthread_atfork(&Prepare, &Parent, &Child);
      std::atexit(&AtExit);
      return new LiveStreams;
    }();
    return *live;
  }
  static void Prepare() {
    LiveStreams& live = Live();
    live.mutex.lock();
    for (Stream* s : live.all) s->mutex_.lock();
  }
  static void Parent() {
    LiveStreams& live = Live();
    for (Stream* s : live.all) s->mutex_.unlock();
    live.mutex.unlock();
  }
  static void Child() {
    LiveStreams& live = Live();
    for (Stream* s : live.all) {
      s->ResetAfterFork();
      s->mutex_.unlock();
    }
    live.mutex.unlock();
  }
  // A worker must not run tasks while static objects are being destroyed.
  static void AtExit() {
    std::vector<std::shared_ptr<Stream>> streams;
    {
      LiveStreams& live = Live();
      std::lock_guard lock(live.mutex);
      for (Stream* s : live.all) {
        if (auto shared = s->weak_from_this().lock()) streams.push_back(std::move(shared));
      }
    }
    for (const auto& s : streams) s->Stop();
  }
};

Stream::Stream(int device, uint32_t priority, uint32_t flags)
    : id_([] {
        static std::atomic<int> next{0};
        return next++;
      }()),
      device_(device),
      priority_(priority),
      flags_(flags),
      changed_(std::make_unique<std::condition_variable>()) {}

Stream::~Stream() {
  LiveStreams& live = StreamForks::Live();
  std::lock_guard lock(live.mutex);
  live.all.erase(this);
}

std::shared_ptr<Stream> Stream::Create(int device, uint32_t priority, uint32_t flags) {
  auto stream = std::shared_ptr<Stream>(new Stream(device, priority, flags));
  // Known to others only now that there is an owner whom they can share it with.
  LiveStreams& live = StreamForks::Live();
  std::lock_guard lock(live.mutex);
  live.all.insert(stream.get());
  return stream;
}

bool Stream::InsideTask() { return task_depth > 0; }
Stream::CallbackScope::CallbackScope() { ++task_depth; }
Stream::CallbackScope::~CallbackScope() { --task_depth; }

uint64_t Stream::Push(Task task) {
  std::lock_guard lock(mutex_);
  return PushLocked(std::move(task));
}

uint64_t Stream::PushAll(std::vector<Task> tasks) {
  std::lock_guard lock(mutex_);
  for (Task& t : tasks) PushLocked(std::move(t));
  return pushed_;
}

uint64_t Stream::PushLocked(Task task) {
  if (capture_ && capture_->Add(task)) return pushed_;
  const uint64_t ticket = ++pushed_;
  if (stop_on_failure_ && !error_.ok()) {
    if (!running_) completed_ = pushed_;  // else when that ends
    return ticket;
  }
  if (queue_.empty() && !running_) front_since_ = Clock::now();
  queue_.push_back(std::move(task));
  EnsureWorker();
  return ticket;
}

std::shared_ptr<Capture> Stream::capture() const {
  std::lock_guard lock(mutex_);
  return capture_;
}

bool Stream::SetCapture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(mutex_);
  if (capture && capture_) return false;
  capture_ = std::move(capture);
  return true;
}

uint64_t Stream::Newest() const {
  std::lock_guard lock(mutex_);
  return pushed_;
}

bool Stream::Done(uint64_t ticket) const {
  std::lock_guard lock(mutex_);
  return completed_ >= ticket;
}

bool Stream::FrontMayRun() {
  const Task& task = queue_.front();
  if (!task.gate || !gate_failure_.ok()) return true;
  if (task.gate->open(task.payload.get())) return true;
  if (task.timeout.count() <= 0) return false;
  const Clock::time_point now = Clock::now();
  if (!gate_expires_) gate_expires_ = now + task.timeout;
  if (now < *gate_expires_) return false;
  gate_failure_ = TooLate(task);
  return true;
}

Stream::Wait Stream::AwaitGate(std::unique_lock<std::mutex>& lock, Deadline deadline, AtGates gates,
                               std::chrono::microseconds poll) {
  const Task task = queue_.front();
  Wait result = Wait::kDone;
  if (task.gate->help) {
    lock.unlock();
    result = task.gate->help(task.payload.get(), Earlier(deadline, gate_expires_), gates);
    lock.lock();
  } else if (gates == AtGates::kGiveUp) {
    result = Wait::kBlocked;
  } else {
    ++waiters_;
    changed_->wait_for(lock, poll);
    --waiters_;
  }
  if (result == Wait::kFromInside && !queue_.empty() && queue_.front().payload == task.payload) {
    gate_failure_ = Errorf(Code::kRuntime, "%s: the streams wait for each other", task.name);
  }
  return result == Wait::kBlocked ? result : Wait::kDone;
}

// Runs the task in front with the lock released.
void Stream::RunFront(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(queue_.front());
  queue_.pop_front();
  Status status = std::exchange(gate_failure_, OkStatus());
  gate_expires_.reset();
  running_ = true;
  runner_ = std::this_thread::get_id();
  lock.unlock();
  ++task_depth;
  try {
    if (!status.ok()) {
      if (task.late) task.late(task.payload.get());
    } else if (task.run) {
      status = task.run(task.payload.get());
    }
  } catch (...) {
    status = CaughtStatus().WithContext(task.name);
  }
  --task_depth;
  task.payload.reset();
  lock.lock();
  running_ = false;
  ++completed_;
  if (!status.ok() && error_.ok()) error_ = status, error_told_ = false;
  if (stop_on_failure_ && !error_.ok()) {
    queue_.clear();
    completed_ = pushed_;
  }
  front_since_ = Clock::now();
  if (waiters_ > 0) changed_->notify_all();
}

Stream::Wait Stream::DrainTo(uint64_t ticket, Deadline deadline, AtGates gates) {
  std::unique_lock lock(mutex_);
  while (completed_ < ticket) {
    if (deadline && Clock::now() >= *deadline) return Wait::kTimeout;
    if (!running_) {
      if (FrontMayRun()) {
        RunFront(lock);
      } else if (AwaitGate(lock, deadline, gates, kGatePoll) == Wait::kBlocked) {
        return Wait::kBlocked;
      }
    } else if (runner_ == std::this_thread::get_id()) {
      return Wait::kFromInside;
    } else {
      ++waiters_;
      if (deadline) {
        changed_->wait_until(lock, *deadline);
      } else {
        changed_->wait(lock);
      }
      --waiters_;
    }
  }
  return Wait::kDone;
}

void Stream::Nudge() {
  std::lock_guard lock(mutex_);
  if (queue_.empty() || running_) return;
  nudged_ = true;
  changed_->notify_all();
}

Status Stream::TakeError() {
  std::lock_guard lock(mutex_);
  if (stop_on_failure_) return error_;
  return std::exchange(error_, OkStatus());
}

Status Stream::TellError() {
  std::lock_guard lock(mutex_);
  if (stopped_) return OkStatus();  // destroyed, and only held by its worker for a while
  return error_.ok() || std::exchange(error_told_, true) ? OkStatus() : error_;
}

Status Stream::Error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void Stream::StopOnFailure() {
  std::lock_guard lock(mutex_);
  stop_on_failure_ = true;
  if (error_.ok()) return;
  queue_.clear();                       // of a stream that has failed already
  if (!running_) completed_ = pushed_;  // else when that ends
  changed_->notify_all();
}

bool Stream::stops_on_failure() const {
  std::lock_guard lock(mutex_);
  return stop_on_failure_;
}

void Stream::Abort() {
  std::lock_guard lock(mutex_);
  completed_ += queue_.size();
  queue_.clear();
  gate_failure_ = OkStatus();
  gate_expires_.reset();
  changed_->notify_all();
}

void Stream::Stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  ++waiters_;
  changed_->notify_all();
  while (running_ && runner_ != std::this_thread::get_id()) changed_->wait(lock);
  --waiters_;
}

void Stream::EnsureWorker() {
  if (worker_alive_ || stopped_) return;
  worker_alive_ = true;
  try {
    // Detached: it holds the stream alive and ends by itself.
    std::thread([self = shared_from_this()] { self->WorkerLoop(); }).detach();
  } catch (const std::exception&) {
    worker_alive_ = false;  // no thread to be had: whoever synchronises does the work
  }
}

void Stream::WorkerLoop() {
  std::unique_lock lock(mutex_);
  Clock::time_point idle_since = Clock::now();
  while (!stopped_) {
    const Clock::time_point now = Clock::now();
    if (!queue_.empty() && !running_ && (nudged_ || now - front_since_ >= kPatience)) {
      // Once behind, stay at it until the queue is empty: the program does not synchronise.
      while (!queue_.empty() && !running_ && !stopped_) {
        if (FrontMayRun()) {
          RunFront(lock);
        } else if (AwaitGate(lock, Clock::now() + kIdlePoll, AtGates::kWait, kPatience) == Wait::kBlocked) {
          break;
        }
      }
      nudged_ = false;
      idle_since = Clock::now();
      continue;
    }
    if (!queue_.empty() || running_) {
      idle_since = now;
    } else if (now - idle_since >= kIdleLife) {
      break;
    }
    changed_->wait_for(lock, queue_.empty() && !running_ ? kIdlePoll : kPatience);
  }
  worker_alive_ = false;
}

void Stream::ResetAfterFork() {
  // Waiters of the parent are counted inside the condition variable: destroying it would wait for them.
  static_cast<void>(changed_.release());
  changed_ = std::make_unique<std::condition_variable>();
  completed_ = pushed_;
  queue_.clear();
  gate_failure_ = OkStatus();
  gate_expires_.reset();
  capture_.reset();
  running_ = worker_alive_ = nudged_ = false;
  waiters_ = 0;
}

void NoteAccesses(const Stream& stream, const char* function, const std::vector<MemoryAccess>& accesses,
                  Task* task) {
  if (!stream.capture()) return CheckTask(stream.id(), function, accesses);
  auto all = std::make_shared<std::vector<MemoryAccess>>(accesses);
  if (task->accesses) all->insert(all->begin(), task->accesses->begin(), task->accesses->end());
  task->accesses = std::move(all);
}

namespace {
std::vector<std::shared_ptr<Stream>> StreamsOf(int device) {
  std::vector<std::shared_ptr<Stream>> streams;
  LiveStreams& live = StreamForks::Live();
  std::lock_guard lock(live.mutex);
  for (Stream* s : live.all) {
    if (device >= 0 && s->device() != device) continue;
    if (auto shared = s->weak_from_this().lock()) streams.push_back(std::move(shared));
  }
  return streams;
}
}  // namespace

bool AbortAllStreams(int device, Deadline deadline) {
  const auto streams = StreamsOf(device);
  for (const auto& s : streams) s->Abort();
  for (const auto& s : streams) {
    // What others queue meanwhile may wait for ever: that is not waited for.
    if (s->Drain(deadline, AtGates::kGiveUp) == Stream::Wait::kTimeout) return false;
  }
  return true;
}

Stream::Wait DrainAllStreams(int device, Deadline deadline, AtGates gates) {
  Stream::Wait all = Stream::Wait::kDone;
  for (const auto& s : StreamsOf(device)) {
    const Stream::Wait one = s->Drain(deadline, gates);
    if (all == Stream::Wait::kDone) all = one;
    if (one == Stream::Wait::kTimeout) break;
  }
  return all;
}

Status TellErrors(int device) {
  Status first;
  for (const auto& s : StreamsOf(device)) {
    const Status one = s->TellError();
    if (first.ok()) first = one;
  }
  return first;
}

}  // namespace opsnn::runtime
