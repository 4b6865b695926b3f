// The two phases of every implemented aclnn function.
#include "capi/executor.h"

#include <chrono>
#include <cstdio>

#include "acl/acl_base.h"
#include "base/buffer.h"
#include "base/int_math.h"
#include "base/knobs.h"
#include "capi/api/reserved.h"
#include "capi/boundary.h"
#include "capi/plan_cache.h"
#include "capi/words.h"
#include "runtime/check.h"
#include "runtime/device.h"
#include "runtime/last_error.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

// One line per planned call: its steps, and what they need.
void PrintPlan(const OpsnnFunction& function, const CallPlan& plan) {
  std::string steps;
  for (const Step& s : plan.steps) steps += (steps.empty() ? "" : ", then ") + s.kernel->variant();
  std::fprintf(stderr, "plan: %s: %s; workspace %zu bytes\n", function.api, steps.c_str(),
               plan.workspace_bytes);
}

bool IsDense(const TensorArgument& t) {
  auto bytes = static_cast<int64_t>(AclTypeSize(t.object->acl_dtype));
  for (int64_t d : t.object->dims) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) return false;  // more elements than bytes: strides of 0
  }
  return bytes == t.footprint.high - t.footprint.low;
}

Status PlanCall(const OpsnnFunction& function, const OpsnnArg* args, int num_args, uint64_t* workspace_size,
                aclOpExecutor** handle) {
  if (!workspace_size || !handle) {
    return Errorf(Code::kNull, "%s: %s is null; it must point to the result", function.api,
                  workspace_size ? "executor" : "workspaceSize");
  }
  *handle = nullptr;  // workspaceSize stays as it is when the call is refused: programs rely on it
  Call call;
  OPSNN_RETURN_IF_ERROR(Call::Make(function, args, num_args, &call));
  const uint64_t frees = runtime::FreeCount();
  OPSNN_RETURN_IF_ERROR(call.FindFootprints());
  std::vector<int> same_memory;
  OPSNN_RETURN_IF_ERROR(AliasPattern(call, &same_memory));

  thread_local std::string key;
  key.clear();
  call.AppendKey(&key);
  AppendAliases(same_memory, &key);
  const Knobs& knobs = GetKnobs();
  key.push_back(static_cast<char>(knobs.fusion));
  key.push_back(static_cast<char>(knobs.product));
  key.push_back(static_cast<char>(knobs.policy));
  std::shared_ptr<const CallPlan> plan = FindPlan(key);
  if (!plan) {
    OPSNN_ASSIGN_OR_RETURN(plan, BuildPlan(call, same_memory));
    if (VerboseHas("plan")) PrintPlan(function, *plan);
    KeepPlan(key, plan);
  }

  auto executor = std::make_shared<Executor>();
  executor->function = &function;
  executor->tensors.reserve(call.tensors().size());
  for (const TensorArgument& t : call.tensors()) {
    // An empty view has no bytes, and an offset that may be anything.
    const bool empty = t.footprint.low == t.footprint.high;
    const auto size = empty ? 0 : static_cast<int64_t>(AclTypeSize(t.object->acl_dtype));
    executor->tensors.push_back({t.object, t.param, t.member, function.params[t.param].is_output(), t.data,
                                 t.object->offset * size, t.footprint, IsDense(t)});
    // What is written anew has its whole room again.
    if (function.params[t.param].dir == op::ParamDir::kOut && t.object->HasFound())
      std::const_pointer_cast<Tensor>(t.object)->ForgetFound();
  }
  executor->frees = frees;
  executor->same_memory = std::move(same_memory);
  for (const SizePlace& s : plan->sizes)
    executor->sized.push_back(std::const_pointer_cast<Tensor>(call.tensors()[s.tensor].object));
  *workspace_size = plan->workspace_bytes;
  executor->plan = std::move(plan);
  *handle = static_cast<aclOpExecutor*>(Table<Executor>().Insert(std::move(executor)));
  if (!*handle) return Errorf(Code::kRuntime, "%s: too many executors are alive", function.api);
  return OkStatus();
}

// What a queued call needs; nothing of the caller's objects.
struct QueuedCall {
  const OpsnnFunction* function = nullptr;
  std::shared_ptr<const CallPlan> plan;
  std::vector<void*> addresses;
  char* workspace = nullptr;
  std::vector<std::weak_ptr<Tensor>> sized;  // by CallPlan::sizes

  void* Address(const Place& p) const {
    switch (p.kind) {
      case Place::kTensor:
        return p.offset ? static_cast<char*>(addresses[p.tensor]) + p.offset : addresses[p.tensor];
      case Place::kWorkspace:
        return workspace + p.offset;
      case Place::kConstant:
        return plan->constants[p.tensor]->data();
      case Place::kAbsent:
        break;
    }
    return nullptr;
  }
};

Status RunStep(const QueuedCall& q, const Step& s, std::vector<void*>* pointers) {
  pointers->clear();
  for (const Place& p : s.inputs) pointers->push_back(q.Address(p));
  for (const Place& p : s.outputs) pointers->push_back(q.Address(p));
  op::RunArgs args;
  args.inputs = pointers->data();
  args.outputs = pointers->data() + s.inputs.size();
  args.workspace = q.workspace ? q.workspace + s.workspace_offset : nullptr;
  return s.kernel->Run(args);
}

// Tells the tensors the sizes that came out.
void StoreSizes(const QueuedCall& q) {
  for (size_t i = 0; i < q.sized.size(); ++i) {
    const SizePlace& s = q.plan->sizes[i];
    // The program may have destroyed the tensor.
    if (const std::shared_ptr<Tensor> t = q.sized[i].lock())
      t->StoreFound(s.axis, *reinterpret_cast<const int64_t*>(q.workspace + s.offset));
  }
}

Status RunQueued(const void* payload) {
  const auto& q = *static_cast<const QueuedCall*>(payload);
  const bool trace = VerboseHas("trace");
  std::vector<void*> pointers;
  for (const Step& s : q.plan->steps) {
    const auto start = trace ? runtime::Clock::now() : runtime::Clock::time_point();
    if (Status status = RunStep(q, s, &pointers); !status.ok())
      return InWordsOf(*q.function, s.op, s.parameters, s.inputs.size(), status);
    if (!trace) continue;
    const std::chrono::duration<double, std::micro> us = runtime::Clock::now() - start;
    std::fprintf(stderr, "trace: %s %s: %.1f us\n", q.function->api, s.kernel->variant().c_str(), us.count());
  }
  StoreSizes(q);
  return OkStatus();
}

// What the checker wants to know of a call: the memory that it touches.
void CheckCall(const OpsnnFunction& function, const Executor& e, const void* workspace,
               uint64_t workspace_size, const runtime::Stream& stream, runtime::Task* task) {
  std::vector<runtime::MemoryAccess> accesses;
  auto add = [&](const char* argument, const void* base, int64_t low, int64_t high, bool write, bool dense) {
    if (!base || low >= high) return;
    const char* start = static_cast<const char*>(base);
    accesses.push_back({start + low, start + high, write, dense, argument});
    if (runtime::Checks(runtime::kCheckMemory)) {
      runtime::CheckDevicePointer(function.api, argument, start + low, high - low);
    }
  };
  for (const Binding& b : e.tensors) {
    const Param& p = function.params[b.param];
    add(p.name, b.address(), b.footprint.low, b.footprint.high, p.is_output(), b.dense);
  }
  if (e.plan->workspace_bytes) {
    add("workspace", workspace, 0, static_cast<int64_t>(workspace_size), true, true);
  }
  if (runtime::Checks(runtime::kCheckSync)) runtime::NoteAccesses(stream, function.api, accesses, task);
}

// The first pages of a process are never mapped: an address there is an offset or a flag that took a wrong
// turn.
constexpr uintptr_t kLowestAddress = 64 << 10;

Status CheckAddress(const OpsnnFunction& function, const char* argument, const void* address) {
  if (reinterpret_cast<uintptr_t>(address) >= kLowestAddress) return OkStatus();
  return InvalidArgument("%s: the data address of %s is %p, where no memory can be; allowed: device memory",
                         function.api, argument, address);
}

// Memory of the runtime must hold what the call writes there, whatever workspaceSize says.
Status CheckWorkspace(const OpsnnFunction& function, const void* workspace, size_t needed) {
  const auto block = runtime::FindBlock(workspace);
  if (!block) {
    if (FindHole(static_cast<const char*>(workspace), needed) == nullptr) return OkStatus();
    return InvalidArgument("%s: workspace at %p is reserved and not mapped for all of its %zu bytes",
                           function.api, workspace, needed);
  }
  const size_t left = block->bytes - static_cast<size_t>(static_cast<const char*>(workspace) -
                                                         static_cast<const char*>(block->base));
  if (left >= needed) return OkStatus();
  return InvalidArgument(
      "%s: workspace at %p has %zu bytes left in its block of %zu; allowed: at least %zu, as "
      "phase one said",
      function.api, workspace, left, block->bytes, needed);
}

// Addresses set since phase one must lie to each other as it saw them, unless the plan does not mind.
Status CheckMoved(const Executor& e) {
  struct Bindings {
    const Executor& e;
    const char* api() const { return e.function->api; }
    int size() const { return static_cast<int>(e.tensors.size()); }
    const Binding& operator[](int i) const { return e.tensors[static_cast<size_t>(i)]; }
    const void* data(int i) const { return (*this)[i].data; }
    const Tensor& object(int i) const { return *(*this)[i].object; }
    bool IsOutput(int i) const { return (*this)[i].is_output; }
    std::string Name(int i) const {
      return NameOf(e.function->params[(*this)[i].param].name, (*this)[i].member);
    }
  };
  const Bindings all{e};
  std::vector<int> now;
  OPSNN_RETURN_IF_ERROR(FindAliases(all, &now));
  if (now.empty() || now == e.same_memory || e.plan->in_place) return OkStatus();
  for (int i = 0; i < all.size(); ++i) {
    const int before = e.same_memory.empty() ? i : e.same_memory[static_cast<size_t>(i)];
    const int other = now[static_cast<size_t>(i)];
    if (other == i || other == before) continue;
    return InvalidArgument(
        "%s: %s was set to the memory of %s, which the executor was not planned for; allowed: memory apart, "
        "or "
        "the same tensors in one memory as in phase one",
        e.function->api, all.Name(i).c_str(), all.Name(other).c_str());
  }
  return OkStatus();
}

Status QueueCall(const OpsnnFunction& function, const Executor& e, void* workspace, uint64_t workspace_size,
                 aclrtStream stream) {
  if (e.function != &function) {
    return InvalidArgument("%s: executor belongs to %s; allowed: the one that %sGetWorkspaceSize gave",
                           function.api, e.function->api, function.api);
  }
  if (!workspace && workspace_size > 0) {
    return Errorf(Code::kNull,
                  "%s: workspace is null and workspaceSize is %llu; a workspace of that size is needed",
                  function.api, static_cast<unsigned long long>(workspace_size));
  }
  if (workspace_size < e.plan->workspace_bytes) {
    return InvalidArgument("%s: workspaceSize is %llu; allowed: at least %zu, as phase one said",
                           function.api, static_cast<unsigned long long>(workspace_size),
                           e.plan->workspace_bytes);
  }
  auto queued = std::make_shared<QueuedCall>();
  queued->addresses.reserve(e.tensors.size());
  // Mappings come and go without a count.
  const bool reserved = AnyReserved(), gone = reserved || runtime::FreeCount() != e.frees;
  for (size_t i = 0; i < e.tensors.size(); ++i) {
    const Binding& b = e.tensors[i];
    if (!b.data && e.plan->needs_data[i]) {
      return Errorf(Code::kNull, "%s: the data address of %s is null; it must be set before phase two",
                    function.api, function.params[b.param].name);
    }
    if (e.plan->needs_data[i])
      OPSNN_RETURN_IF_ERROR(CheckAddress(function, function.params[b.param].name, b.address()));
    if (gone && (b.footprint.block || reserved)) {
      OPSNN_RETURN_IF_ERROR(
          CheckStillLive(function.api, function.params[b.param].name, b.member, b.address(), b.footprint));
    }
    queued->addresses.push_back(b.data);
  }
  if (e.moved) OPSNN_RETURN_IF_ERROR(CheckMoved(e));
  auto target = runtime::ResolveStream(stream);
  if (!target.ok()) {
    return Status(target.status().code(), std::string(function.api) + ": " + target.status().message() +
                                              "; allowed: a live aclrtStream, or null for the default one");
  }
  if (e.plan->workspace_bytes) {
    OPSNN_RETURN_IF_ERROR(CheckAddress(function, "workspace", workspace));
    OPSNN_RETURN_IF_ERROR(CheckWorkspace(function, workspace, e.plan->workspace_bytes));
    const auto at = reinterpret_cast<uintptr_t>(workspace);
    queued->workspace = reinterpret_cast<char*>(RoundUp(at, kAlignment));
  }
  queued->function = &function;
  queued->plan = e.plan;
  queued->sized = e.sized;
  runtime::Task task;
  const bool checks = runtime::Checks(runtime::kCheckMemory) || runtime::Checks(runtime::kCheckSync);
  if (checks) CheckCall(function, e, workspace, workspace_size, **target, &task);
  task.name = function.api;
  task.payload = std::move(queued);
  task.run = &RunQueued;
  (*target)->Push(std::move(task));
  return OkStatus();
}

Status RunCall(const OpsnnFunction& function, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
               aclrtStream stream) {
  if (!handle) return Errorf(Code::kNull, "%s: executor is null; phase one gives it", function.api);
  std::shared_ptr<Executor> e = Table<Executor>().Find(handle);
  if (!e) {
    return InvalidArgument(
        "%s: executor %p is %s; allowed: one from phase one, used once", function.api,
        static_cast<void*>(handle),
        runtime::KindOf(handle) == HandleKind::kExecutor ? "used up or destroyed" : "not an executor");
  }
  std::lock_guard lock(e->mutex);
  // Single-shot: gone also when the run is refused. A second thread that raced here finds it removed.
  if (!e->repeatable && !Table<Executor>().Remove(handle)) {
    return InvalidArgument("%s: executor %p is used up or destroyed; allowed: one from phase one, used once",
                           function.api, static_cast<void*>(handle));
  }
  return QueueCall(function, *e, workspace, workspace_size, stream);
}

// Statuses carry their full sentence, with the function's name in it.
int Report(const Status& s) {
  if (s.ok()) return 0;
  runtime::AddErrorMessage(s);
  return static_cast<int>(s.code());
}

}  // namespace
}  // namespace opsnn::capi

aclnnStatus opsnn_aclnn_plan(const OpsnnFunction* function, const OpsnnArg* args, int num_args,
                             uint64_t* workspace_size, aclOpExecutor** executor) {
  using namespace opsnn::capi;
  if (!function) return opsnn_aclnn_declared("aclnn", workspace_size, executor);
  return Guard<int>(function->api, kAclnnBadAlloc,
                    [&] { return Report(PlanCall(*function, args, num_args, workspace_size, executor)); });
}

aclnnStatus opsnn_aclnn_run(const OpsnnFunction* function, void* workspace, uint64_t workspace_size,
                            aclOpExecutor* executor, aclrtStream stream) {
  using namespace opsnn::capi;
  if (!function) return opsnn_aclnn_unsupported("aclnn");
  return Guard<int>(function->api, kAclnnBadAlloc,
                    [&] { return Report(RunCall(*function, workspace, workspace_size, executor, stream)); });
}
