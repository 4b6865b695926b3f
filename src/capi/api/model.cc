// Captured work as models: aclmdlRICaptureBegin to aclmdlRIDestroy.
#include <atomic>
#include <cstring>
#include <vector>

#include "capi/acl_exports.h"
#include "capi/api/find_stream.h"
#include "capi/boundary.h"
#include "runtime/callbacks.h"
#include "runtime/capture.h"
#include "runtime/check.h"
#include "runtime/device.h"

namespace opsnn::capi {
namespace {

using runtime::Capture;
using runtime::Stream;
using runtime::Task;
using runtime::Waited;

struct Model {
  uint32_t id = 0;
  std::vector<Task> tasks;
  std::mutex mutex;  // guards what follows
  std::string name;
  std::vector<std::pair<aclrtCallback, void*>> at_destroy;
};

auto& Models() {
  static auto* table = new runtime::HandleTable<Model, runtime::HandleKind::kModel>;
  return *table;
}

int FindModel(const char* function, aclmdlRI handle, std::shared_ptr<Model>* model) {
  if (!handle) return FailNull(function, "modelRI");
  *model = Models().Find(handle);
  if (*model) return ACL_SUCCESS;
  return Fail(function, ACL_ERROR_RT_INVALID_HANDLE,
              StrFormat("modelRI %p is not a live aclmdlRI (destroyed already?)", handle));
}

// One run of a model. Its tasks go through the queue one by one, so that those that wait can be given up
// there; after a failure the rest does nothing.
struct Replay;
struct Step {
  Replay* replay;
  const Task* task;
};
struct Replay {
  std::shared_ptr<Model> model;
  std::atomic<bool> failed{false};
  std::vector<Step> steps;
};

Status RunStep(const void* payload) {
  const auto* step = static_cast<const Step*>(payload);
  if (step->replay->failed || !step->task->run) return OkStatus();
  Status status = step->task->run(step->task->payload.get());
  if (!status.ok()) step->replay->failed = true;
  return status;
}

void StepIsLate(const void* payload) { static_cast<const Step*>(payload)->replay->failed = true; }

bool StepIsOpen(const void* payload) {
  const auto* step = static_cast<const Step*>(payload);
  return step->replay->failed || step->task->gate->open(step->task->payload.get());
}

Waited HelpStep(const void* payload, runtime::Deadline deadline, runtime::AtGates gates) {
  const Task& task = *static_cast<const Step*>(payload)->task;
  return task.gate->help(task.payload.get(), deadline, gates);
}

constexpr runtime::Gate kStepGate = {&StepIsOpen, nullptr}, kHelpedStepGate = {&StepIsOpen, &HelpStep};

int QueueModel(const std::shared_ptr<Model>& model, const std::shared_ptr<Stream>& stream) {
  auto replay = std::make_shared<Replay>();
  replay->model = model;
  for (const Task& t : model->tasks) replay->steps.push_back({replay.get(), &t});
  std::vector<Task> tasks;
  for (const Step& step : replay->steps) {
    Task task = *step.task;
    task.accesses = nullptr;
    // A stream that captures takes the tasks as they are: the model that comes of it has runs of its own.
    if (!stream->capture()) {
      task.run = &RunStep;
      task.late = &StepIsLate;
      task.payload = std::shared_ptr<const void>(replay, &step);
      if (task.gate) task.gate = task.gate->help ? &kHelpedStepGate : &kStepGate;
    }
    // What a recorded wait waits for is another one in each run: the checker takes it for whatever was
    // queued.
    if (runtime::Checks(runtime::kCheckSync) && step.task->gate && !stream->capture())
      runtime::NoteUnknownOrder(stream->id());
    if (runtime::Checks(runtime::kCheckSync) && step.task->accesses) {
      runtime::NoteAccesses(*stream, task.name, *step.task->accesses, &task);
    }
    tasks.push_back(std::move(task));
  }
  stream->PushAll(std::move(tasks));
  return ACL_SUCCESS;
}

}  // namespace

OPSNN_ACL_API aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  static const char* const kApi = "aclmdlRICaptureBegin";
  if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM, StrFormat("mode is %d; allowed: 0 to 2", int{mode}));
  }
  // Nothing that other threads do can disturb a capture, so the modes do not differ.
  std::shared_ptr<Stream> s;
  if (int code = FindStream(kApi, stream, &s)) return code;
  auto capture = Capture::Begin(s);
  if (capture.ok()) return ACL_SUCCESS;
  return Fail(kApi, ACL_ERROR_RT_STREAM_CAPTURED, capture.status().message());
}

OPSNN_ACL_API aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  static const char* const kApi = "aclmdlRICaptureEnd";
  if (!modelRI) return FailNull(kApi, "modelRI");
  *modelRI = nullptr;
  std::shared_ptr<Stream> s;
  if (int code = FindStream(kApi, stream, &s)) return code;
  const bool captures = s->capture() != nullptr;
  auto tasks = Capture::End(s);
  if (!tasks.ok()) {
    return Fail(kApi, captures ? ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED : ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                tasks.status().message());
  }
  static std::atomic<uint32_t> next_id{0};
  auto model = std::make_shared<Model>();
  model->id = next_id++;
  model->tasks = std::move(*tasks);
  *modelRI = Models().Insert(std::move(model));
  return *modelRI ? ACL_SUCCESS : Fail(kApi, ACL_ERROR_RT_MEMORY_ALLOCATION, "too many models are alive");
}

OPSNN_ACL_API aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status,
                                              aclmdlRI* modelRI) {
  if (!status) return FailNull("aclmdlRICaptureGetInfo", "status");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclmdlRICaptureGetInfo", stream, &s)) return code;
  *status = s->capture() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  if (modelRI) *modelRI = nullptr;  // the model has a handle from the end of its capture on
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  static const char* const kApi = "aclmdlRICaptureThreadExchangeMode";
  if (!mode) return FailNull(kApi, "mode");
  if (*mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || *mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM, StrFormat("mode is %d; allowed: 0 to 2", int{*mode}));
  }
  thread_local aclmdlRICaptureMode current = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::swap(current, *mode);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  std::shared_ptr<Model> model;
  std::shared_ptr<Stream> s;
  if (int code = FindModel("aclmdlRIExecuteAsync", modelRI, &model)) return code;
  if (int code = FindStream("aclmdlRIExecuteAsync", stream, &s)) return code;
  return QueueModel(model, s);
}

OPSNN_ACL_API aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  static const char* const kApi = "aclmdlRIExecute";
  std::shared_ptr<Model> model;
  std::shared_ptr<Stream> s;
  if (int code = FindModel(kApi, modelRI, &model)) return code;
  if (int code = FindStream(kApi, nullptr, &s)) return code;
  if (timeout < -1) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                StrFormat("timeout is %d; allowed: -1 for none, or milliseconds", timeout));
  }
  if (s->capture()) {
    return Fail(kApi, ACL_ERROR_RT_STREAM_CAPTURED,
                "the default stream captures, so the model could not run; aclmdlRIExecuteAsync records it");
  }
  if (int code = QueueModel(model, s)) return code;
  runtime::Deadline deadline;
  if (timeout >= 0) deadline = runtime::Clock::now() + std::chrono::milliseconds(timeout);
  switch (s->Drain(deadline)) {
    case Stream::Wait::kTimeout:
      return Fail(kApi, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the model did not finish in time");
    case Stream::Wait::kFromInside:
      return Fail(kApi, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "called by a host function of the very stream that it waits for");
    case Stream::Wait::kBlocked:  // only where gates end the wait
    case Stream::Wait::kDone:
      break;
  }
  if (runtime::Checks(runtime::kCheckSync)) runtime::NoteStreamDone(s->id());
  const Status status = s->TakeError();
  return status.ok() ? int{ACL_SUCCESS} : Fail(kApi, ACL_ERROR_RT_INTERNAL_ERROR, status.message());
}

OPSNN_ACL_API aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  std::shared_ptr<Model> model;
  if (int code = FindModel("aclmdlRIDestroy", modelRI, &model)) return code;
  // Queued runs hold the model; only its handle ends here.
  if (!Models().Remove(modelRI)) return ACL_SUCCESS;
  std::vector<std::pair<aclrtCallback, void*>> callbacks;
  {
    std::lock_guard lock(model->mutex);
    callbacks = model->at_destroy;
  }
  Status status;
  for (const auto& [function, data] : callbacks) {
    const Status one = runtime::CallProgram("the registered callback", [&] { function(data); });
    if (status.ok()) status = one;
  }
  return status.ok() ? int{ACL_SUCCESS}
                     : Fail("aclmdlRIDestroy", ACL_ERROR_RT_INTERNAL_ERROR, status.message());
}

OPSNN_ACL_API aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void* userData) {
  std::shared_ptr<Model> model;
  if (!func) return FailNull("aclmdlRIDestroyRegisterCallback", "func");
  if (int code = FindModel("aclmdlRIDestroyRegisterCallback", modelRI, &model)) return code;
  std::lock_guard lock(model->mutex);
  model->at_destroy.emplace_back(func, userData);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
  std::shared_ptr<Model> model;
  if (int code = FindModel("aclmdlRIDestroyUnregisterCallback", modelRI, &model)) return code;
  std::lock_guard lock(model->mutex);
  for (auto it = model->at_destroy.begin(); it != model->at_destroy.end(); ++it) {
    if (it->first != func) continue;
    model->at_destroy.erase(it);
    return ACL_SUCCESS;
  }
  return Fail("aclmdlRIDestroyUnregisterCallback", ACL_ERROR_INVALID_PARAM,
              "func is not a registered callback");
}

OPSNN_ACL_API aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  std::shared_ptr<Model> model;
  if (!name) return FailNull("aclmdlRISetName", "name");
  if (int code = FindModel("aclmdlRISetName", modelRI, &model)) return code;
  std::lock_guard lock(model->mutex);
  model->name = name;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  std::shared_ptr<Model> model;
  if (!name) return FailNull("aclmdlRIGetName", "name");
  if (int code = FindModel("aclmdlRIGetName", modelRI, &model)) return code;
  std::lock_guard lock(model->mutex);
  if (model->name.size() >= maxLen) {
    return Fail("aclmdlRIGetName", ACL_ERROR_INVALID_PARAM,
                StrFormat("maxLen is %u; allowed: at least %zu, for the name and its end", maxLen,
                          model->name.size() + 1));
  }
  std::memcpy(name, model->name.c_str(), model->name.size() + 1);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  std::shared_ptr<Model> model;
  if (!modelRIId) return FailNull("aclmdlRIGetId", "modelRIId");
  if (int code = FindModel("aclmdlRIGetId", modelRI, &model)) return code;
  *modelRIId = model->id;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  std::shared_ptr<Model> model;
  if (int code = FindModel("aclmdlRIDebugPrint", modelRI, &model)) return code;
  std::fprintf(stderr, "model %u: %zu tasks\n", model->id, model->tasks.size());
  for (size_t i = 0; i < model->tasks.size(); ++i)
    std::fprintf(stderr, "  %zu %s\n", i, model->tasks[i].name);
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
