// aclOpExecutor: a planned call with the addresses of its tensors, between phase one and phase two.
#ifndef OPSNN_CAPI_EXECUTOR_H_
#define OPSNN_CAPI_EXECUTOR_H_

#include <memory>
#include <mutex>
#include <vector>

#include "capi/footprint.h"
#include "capi/objects.h"
#include "capi/plan.h"

namespace opsnn::capi {

// One tensor argument as the executor knows it.
struct Binding {
  std::shared_ptr<const Tensor> object;  // for its view
  int param = 0;
  int member = -1;
  bool is_output = false;
  void* data = nullptr;      // of the first element
  int64_t offset_bytes = 0;  // of the first element from the tensor's address
  Footprint footprint;
  bool dense = true;  // the view touches every byte of its footprint

  const void* address() const { return static_cast<char*>(data) - offset_bytes; }
};

struct Executor {
  const OpsnnFunction* function = nullptr;
  std::shared_ptr<const CallPlan> plan;
  std::mutex mutex;  // guards what follows: a repeatable executor may be shared
  std::vector<Binding> tensors;
  bool repeatable = false;
  bool moved = false;                        // an address was set
  std::vector<int> same_memory;              // as the plan was made for (BuildPlan)
  std::vector<std::weak_ptr<Tensor>> sized;  // by CallPlan::sizes: whose dims the values decide
  uint64_t frees = 0;                        // runtime::FreeCount() before the footprints were found
};

template <>
struct KindOfObject<Executor> {
  static constexpr HandleKind value = HandleKind::kExecutor;
};

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_EXECUTOR_H_
