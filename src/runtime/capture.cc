#include "runtime/capture.h"

namespace opsnn::runtime {

Result<std::shared_ptr<Capture>> Capture::Begin(const std::shared_ptr<Stream>& stream) {
  auto capture = std::make_shared<Capture>();
  capture->streams_.push_back(stream);
  if (!stream->SetCapture(capture)) return InvalidArgument("the stream captures already; end that first");
  return capture;
}

Result<std::vector<Task>> Capture::End(const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Capture> capture = stream->capture();
  if (!capture) return InvalidArgument("the stream does not capture; begin a capture first");
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<Task> tasks;
  {
    std::lock_guard lock(capture->mutex_);
    // Another thread may have ended it since.
    if (!capture->active_) return InvalidArgument("the stream does not capture; begin a capture first");
    if (capture->streams_.front() != stream) {
      return InvalidArgument("the stream joined a capture that began on another; end it there");
    }
    capture->active_ = false;
    streams.swap(capture->streams_);
    tasks.swap(capture->tasks_);
  }
  for (const auto& s : streams) s->SetCapture(nullptr);
  return tasks;
}

bool Capture::Add(Task& task) {
  std::lock_guard lock(mutex_);
  if (active_) tasks_.push_back(std::move(task));
  return active_;
}

bool Capture::Join(const std::shared_ptr<Stream>& stream) {
  if (stream->capture().get() == this) return active();
  // Set first: a stream locks itself before its capture, so this must not happen under the lock here.
  if (!stream->SetCapture(shared_from_this())) return false;
  {
    std::lock_guard lock(mutex_);
    if (active_) {
      streams_.push_back(stream);
      return true;
    }
  }
  stream->SetCapture(nullptr);  // it ended meanwhile, and did not know of this stream
  return false;
}

void Capture::Leave(const std::shared_ptr<Stream>& stream) {
  const std::shared_ptr<Capture> capture = stream->capture();
  if (!capture || End(stream).ok()) return;
  {
    std::lock_guard lock(capture->mutex_);
    std::erase(capture->streams_, stream);
  }
  stream->SetCapture(nullptr);
}

bool Capture::active() const {
  std::lock_guard lock(mutex_);
  return active_;
}

}  // namespace opsnn::runtime
