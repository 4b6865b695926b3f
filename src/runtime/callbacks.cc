#include "runtime/callbacks.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace opsnn::runtime {
namespace {

struct Call {
  CallbackFunction fn;
  void* arg;
  bool block;
};

// One callback on its way to the subscribed thread.
struct PendingReport {
  Call call;
  bool done = false;
};

struct Reports {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, uint64_t> thread_of;                                       // stream id -> thread
  std::map<uint64_t, std::deque<std::shared_ptr<PendingReport>>> waiting;  // thread -> reports
};

Reports& All() {
  static auto* reports = new Reports;
  return *reports;
}

struct Queued {
  Call call;
  int stream_id;
};

Status Deliver(const void* payload) {
  const auto* queued = static_cast<const Queued*>(payload);
  Reports& all = All();
  std::unique_lock lock(all.mutex);
  auto it = all.thread_of.find(queued->stream_id);
  if (it == all.thread_of.end()) {
    return Errorf(Code::kRuntime,
                  "aclrtLaunchCallback: the thread that was subscribed to the stream is gone");
  }
  auto report = std::make_shared<PendingReport>(PendingReport{queued->call});
  all.waiting[it->second].push_back(report);
  all.changed.notify_all();
  if (queued->call.block) {
    all.changed.wait(lock, [&] { return report->done || !all.thread_of.count(queued->stream_id); });
  }
  return OkStatus();
}

}  // namespace

void QueueHostFunction(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg) {
  Task task;
  task.name = "host function";
  task.payload = std::make_shared<Call>(Call{fn, arg, true});
  task.run = [](const void* payload) {
    const auto* call = static_cast<const Call*>(payload);
    return CallProgram("the host function", [&] { call->fn(call->arg); });
  };
  stream->Push(std::move(task));
}

Status Subscribe(uint64_t thread, const std::shared_ptr<Stream>& stream) {
  Reports& all = All();
  std::lock_guard lock(all.mutex);
  auto [it, added] = all.thread_of.emplace(stream->id(), thread);
  if (!added) return InvalidArgument("a thread is subscribed to the stream already; unsubscribe it first");
  return OkStatus();
}

Status Unsubscribe(uint64_t thread, const std::shared_ptr<Stream>& stream) {
  Reports& all = All();
  std::lock_guard lock(all.mutex);
  auto it = all.thread_of.find(stream->id());
  if (it == all.thread_of.end() || it->second != thread) {
    return InvalidArgument("thread %llu is not subscribed to the stream",
                           static_cast<unsigned long long>(thread));
  }
  all.thread_of.erase(it);
  all.changed.notify_all();
  return OkStatus();
}

bool IsSubscribed(const std::shared_ptr<Stream>& stream) {
  Reports& all = All();
  std::lock_guard lock(all.mutex);
  return all.thread_of.count(stream->id()) != 0;
}

Status QueueReport(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg, bool block) {
  Task task;
  task.name = "callback";
  task.payload = std::make_shared<Queued>(Queued{{fn, arg, block}, stream->id()});
  task.run = &Deliver;
  stream->Push(std::move(task));
  return OkStatus();
}

Report ProcessReport(Deadline deadline) {
  Reports& all = All();
  const auto self = static_cast<uint64_t>(pthread_self());
  std::unique_lock lock(all.mutex);
  auto& mine = all.waiting[self];
  auto subscribed = [&] {
    for (const auto& [stream, thread] : all.thread_of) {
      if (thread == self) return true;
    }
    return false;
  };
  while (mine.empty()) {
    if (!subscribed()) return Report::kNotSubscribed;
    if (deadline) {
      if (all.changed.wait_until(lock, *deadline) == std::cv_status::timeout && mine.empty())
        return Report::kTimeout;
    } else {
      all.changed.wait(lock);
    }
  }
  std::shared_ptr<PendingReport> report = mine.front();
  mine.pop_front();
  lock.unlock();
  Status status;
  {
    Stream::CallbackScope scope;
    status = CallProgram("the callback", [&] { report->call.fn(report->call.arg); });
  }
  lock.lock();
  report->done = true;
  all.changed.notify_all();
  return status.ok() ? Report::kRan : Report::kThrew;
}

}  // namespace opsnn::runtime
