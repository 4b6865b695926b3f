// Captures: tasks that are recorded instead of run, to be replayed as often as wanted.
//
// A capture starts on one stream. Another stream joins it when it waits for an event that was recorded in it.
// Tasks of all its streams go into one list in the order in which they were queued; as a wait is queued after
// its record, running the list from front to end keeps every dependency.
#ifndef OPSNN_RUNTIME_CAPTURE_H_
#define OPSNN_RUNTIME_CAPTURE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace opsnn::runtime {

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  static Result<std::shared_ptr<Capture>> Begin(const std::shared_ptr<Stream>& stream);
  // The recorded tasks; `stream` must be the one that began. All its streams run their tasks again from now
  // on.
  static Result<std::vector<Task>> End(const std::shared_ptr<Stream>& stream);

  // Takes the task; false, leaving it, when the capture has ended.
  bool Add(Task& task);
  // Lets another stream record here as well; false when the capture has ended.
  bool Join(const std::shared_ptr<Stream>& stream);
  bool active() const;
  // The stream goes away: it leaves its capture, which ends with its tasks if it began there.
  static void Leave(const std::shared_ptr<Stream>& stream);

 private:
  mutable std::mutex mutex_;
  bool active_ = true;
  std::vector<std::shared_ptr<Stream>> streams_;  // the first began it
  std::vector<Task> tasks_;
};

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_CAPTURE_H_
