#include "fuzz/runtime_calls.h"

#include <cstring>

#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_relu.h"

namespace opsnn::fuzz {
namespace {

using Fuzzed = void (*)(Program&);

// CALLED(aclrtX, ...): makes the call and checks its answer; the code.
#define CALLED(api, ...)                \
  [&] {                                 \
    const int code_ = api(__VA_ARGS__); \
    p.Check(code_, #api);               \
    return code_;                       \
  }()

// ---- devices, contexts, streams
void Contexts(Program& p) {
  aclrtContext context = nullptr;
  switch (p.source.Choice(6)) {
    case 0:
      Program::Keep(p.contexts, CALLED(aclrtCreateContext, &context, static_cast<int32_t>(p.source.Small())),
                    context);
      break;
    case 1:
      CALLED(aclrtDestroyContext, p.From(p.contexts));
      break;
    case 2:
      CALLED(aclrtSetCurrentContext, p.From(p.contexts));
      break;
    case 3:
      CALLED(aclrtGetCurrentContext, &context);
      break;
    case 4:
      CALLED(aclrtSetDevice, static_cast<int32_t>(p.source.Small()));
      break;
    default:
      CALLED(aclrtResetDevice, static_cast<int32_t>(p.source.Small()));
  }
}

void DeviceQueries(Program& p) {
  const auto device = static_cast<int32_t>(p.source.Small());
  int32_t id = 0, peer = 0;
  uint32_t count = 0, flags = 0;
  int64_t value = 0;
  size_t free = 0, total = 0;
  aclrtDeviceStatus status{};
  CALLED(aclrtGetDevice, &id);
  CALLED(aclrtGetDeviceCount, p.source.Choice(8) ? &count : nullptr);
  CALLED(aclrtQueryDeviceStatus, device, &status);
  CALLED(aclrtGetPrimaryCtxState, device, &flags, &id);
  CALLED(aclrtDeviceCanAccessPeer, &peer, device, id);
  CALLED(aclrtDeviceEnablePeerAccess, device, flags);
  CALLED(aclrtGetMemInfo, ACL_HBM_MEM, &free, p.source.Choice(8) ? &total : nullptr);
  const auto opt = static_cast<aclSysParamOpt>(p.source.Small());
  CALLED(aclrtSetSysParamOpt, opt, p.source.Small());
  CALLED(aclrtGetSysParamOpt, opt, &value);
}

void MakeStream(Program& p) {
  aclrtStream stream = nullptr;
  const auto priority = static_cast<uint32_t>(p.source.Small());
  const int code = p.source.Choice(2)
                       ? CALLED(aclrtCreateStream, &stream)
                       : CALLED(aclrtCreateStreamWithConfig, &stream, priority, p.source.Byte());
  Program::Keep(p.streams, code, stream);
}

void EndStream(Program& p) {
  if (p.source.Choice(2) && !p.blocked) {
    CALLED(aclrtDestroyStream, p.From(p.streams));
  } else {
    CALLED(aclrtDestroyStreamForce, p.From(p.streams));
  }
}

void Synchronize(Program& p) {
  const auto timeout = static_cast<int32_t>(p.source.Choice(4));
  const size_t choice = p.source.Choice(5);
  if (p.blocked && choice != 1) {
    CALLED(aclrtSynchronizeDeviceWithTimeout, timeout);
    return;
  }
  switch (choice) {
    case 0:
      CALLED(aclrtSynchronizeStream, p.Stream());
      break;
    case 1:
      CALLED(aclrtSynchronizeStreamWithTimeout, p.Stream(), timeout);
      break;
    case 2:
      p.Check(aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
      break;
    case 3:
      CALLED(aclrtSynchronizeEvent, p.From(p.events));
      break;
    default:
      CALLED(aclrtSynchronizeEventWithTimeout, p.From(p.events), timeout);
  }
}

void StreamQueries(Program& p) {
  const aclrtStream s = p.Stream();
  aclrtStreamStatus status{};
  int32_t id = 0;
  uint32_t number = 0;
  CALLED(aclrtStreamQuery, s, p.source.Choice(8) ? &status : nullptr);
  CALLED(aclrtStreamGetId, s, &id);
  CALLED(aclrtStreamGetPriority, s, &number);
  CALLED(aclrtStreamGetFlags, s, &number);
  if (p.source.Choice(8) == 7) CALLED(aclrtStreamAbort, s);
}

// ---- events and callbacks
void MakeEvent(Program& p) {
  aclrtEvent event = nullptr;
  const int code = p.source.Choice(2) ? CALLED(aclrtCreateEvent, &event)
                                      : CALLED(aclrtCreateEventExWithFlag, &event, uint32_t{p.source.Byte()});
  Program::Keep(p.events, code, event);
}

void Events(Program& p) {
  const aclrtEvent event = p.From(p.events);
  const aclrtStream stream = p.Stream();
  switch (p.source.Choice(6)) {
    case 0:
    case 1:
      CALLED(aclrtRecordEvent, event, stream);
      break;
    case 2:
    case 3:
      CALLED(aclrtStreamWaitEvent, stream, event);
      break;
    case 4:
      CALLED(aclrtResetEvent, event, stream);
      break;
    default:
      CALLED(aclrtDestroyEvent, event);
  }
}

void EventQueries(Program& p) {
  const aclrtEvent event = p.From(p.events);
  aclrtEventStatus status{};
  aclrtEventRecordedStatus recorded{};
  aclrtEventWaitStatus waited{};
  float ms = 0;
  uint64_t time = 0;
  uint32_t id = 0;
  CALLED(aclrtQueryEvent, event, &status);
  CALLED(aclrtQueryEventStatus, event, &recorded);
  CALLED(aclrtQueryEventWaitStatus, event, &waited);
  CALLED(aclrtEventElapsedTime, &ms, event, p.From(p.events));
  CALLED(aclrtEventGetTimestamp, event, &time);
  CALLED(aclrtGetEventId, event, &id);
}

void Count(void* counter) { __atomic_fetch_add(static_cast<int*>(counter), 1, __ATOMIC_RELAXED); }
int callbacks_run;

void Callbacks(Program& p) {
  const aclrtStream stream = p.Stream();
  const auto self = static_cast<uint64_t>(pthread_self());
  switch (p.source.Choice(6)) {
    case 0:
    case 1:
      CALLED(aclrtLaunchHostFunc, stream, p.source.Choice(8) ? &Count : nullptr, &callbacks_run);
      break;
    case 2:
      CALLED(aclrtSubscribeReport, self, stream);
      break;
    case 3:
      CALLED(aclrtUnSubscribeReport, self, stream);
      break;
    case 4:  // not blocking: this thread also waits for the stream
      CALLED(aclrtLaunchCallback, &Count, &callbacks_run, ACL_CALLBACK_NO_BLOCK, stream);
      break;
    default:
      CALLED(aclrtProcessReport, static_cast<int32_t>(p.source.Choice(3)));
  }
}

// ---- memory
void Allocate(Program& p) {
  static constexpr size_t kSizes[] = {1, 31, 4096, 0, 100000, size_t{1} << 60, SIZE_MAX, SIZE_MAX - 40};
  void* block = nullptr;
  const size_t size = kSizes[p.source.Choice(std::size(kSizes))];
  const int code = p.source.Choice(2) ? CALLED(aclrtMalloc, &block, size, ACL_MEM_MALLOC_HUGE_FIRST)
                                      : CALLED(aclrtMallocHost, &block, size);
  Program::Keep(p.blocks, code, block);
}

void Free(Program& p) {
  if (p.source.Choice(2)) {
    CALLED(aclrtFree, p.From(p.blocks));
  } else {
    CALLED(aclrtFreeHost, p.From(p.blocks));
  }
}

void Copy(Program& p) {
  size_t count = 0, room = 0;
  char* to = p.Arena(&count);
  const char* from = p.Arena(&room);
  if (p.source.Choice(2)) room = count;
  const auto kind = static_cast<aclrtMemcpyKind>(p.source.Small());
  if (p.source.Choice(2)) {
    CALLED(aclrtMemcpy, to, room, from, count, kind);
  } else {
    CALLED(aclrtMemcpyAsync, to, room, from, count, kind, p.Stream());
  }
}

void CopyRows(Program& p) {
  size_t width = 0, to_pitch = 0, from_pitch = 0;
  char* to = p.Arena(&width);
  const char* from = p.Arena(&to_pitch);
  p.Arena(&from_pitch);
  const auto rows = static_cast<size_t>(p.source.Small());
  if (p.source.Choice(2)) {
    CALLED(aclrtMemcpy2d, to, to_pitch, from, from_pitch, width, rows, ACL_MEMCPY_DEVICE_TO_DEVICE);
  } else {
    CALLED(aclrtMemcpy2dAsync, to, to_pitch, from, from_pitch, width, rows, ACL_MEMCPY_DEVICE_TO_DEVICE,
           p.Stream());
  }
}

void Fill(Program& p) {
  size_t count = 0, room = 0;
  char* to = p.Arena(&count);
  p.Arena(&room);
  if (p.source.Choice(2)) room = count;
  const auto value = static_cast<int32_t>(p.source.Small());
  switch (p.source.Choice(4)) {
    case 0:
      CALLED(aclrtMemset, to, room, value, count);
      break;
    case 1:
      CALLED(aclrtMemsetAsync, to, room, value, count, p.Stream());
      break;
    case 2:
      CALLED(aclrtMemsetD32, to, room, static_cast<uint32_t>(value), count);
      break;
    default:
      CALLED(aclrtMemsetD32Async, to, room, static_cast<uint32_t>(value), count, p.Stream());
  }
}

void AskMemory(Program& p) {
  aclrtPtrAttributes attributes{};
  void *what = p.From(p.blocks), *base = nullptr;
  size_t bytes = 0;
  CALLED(aclrtPointerGetAttributes, what, &attributes);
  CALLED(aclrtMemGetAddressRange, what, &base, &bytes);
  CALLED(aclrtMemFlush, what, bytes);
}

// ---- mapped memory
void Map(Program& p) {
  constexpr size_t kPage = size_t{2} << 20;
  void* at = nullptr;
  const size_t size = static_cast<size_t>(p.source.Small()) * (p.source.Choice(8) ? kPage : 1000);
  switch (p.source.Choice(7)) {
    case 0:
      Program::Keep(
          p.reserved,
          CALLED(aclrtReserveMemAddress, &at, size, static_cast<size_t>(p.source.Small()), nullptr, 0), at);
      break;
    case 1:
      CALLED(aclrtReleaseMemAddress, p.From(p.reserved));
      break;
    case 2: {
      aclrtPhysicalMemProp prop{};
      aclrtDrvMemHandle handle = nullptr;
      if (size <= 8 * kPage || size > SIZE_MAX / 4) {
        Program::Keep(p.physical, CALLED(aclrtMallocPhysical, &handle, size, &prop, 0), handle);
      }
      break;
    }
    case 3:
      CALLED(aclrtFreePhysical, p.From(p.physical));
      break;
    case 4:
      at = p.From(p.reserved);
      Program::Keep(
          p.mapped,
          CALLED(aclrtMapMem, at, size, static_cast<size_t>(p.source.Small()) * kPage, p.From(p.physical), 0),
          at);
      break;
    case 5:
      CALLED(aclrtUnmapMem, p.From(p.mapped));
      break;
    default: {
      aclrtDrvMemHandle handle = nullptr;
      Program::Keep(p.physical, CALLED(aclrtMemRetainAllocationHandle, p.From(p.mapped), &handle), handle);
    }
  }
}

// ---- captures and models
void Capture(Program& p) {
  const aclrtStream stream = p.Stream();
  aclmdlRI model = nullptr;
  aclmdlRICaptureStatus status{};
  switch (p.source.Choice(4)) {
    case 0:
    case 1:
      CALLED(aclmdlRICaptureBegin, stream, static_cast<aclmdlRICaptureMode>(p.source.Choice(4)));
      break;
    case 2:
      Program::Keep(p.models, CALLED(aclmdlRICaptureEnd, stream, &model), model);
      break;
    default:
      CALLED(aclmdlRICaptureGetInfo, stream, &status, &model);
  }
}

void Models(Program& p) {
  const aclmdlRI model = p.From(p.models);
  char name[8];
  uint32_t id = 0;
  switch (p.source.Choice(8)) {
    case 0:
      CALLED(aclmdlRIExecute, model, static_cast<int32_t>(p.source.Choice(3)) - (p.blocked ? 0 : 1));
      break;
    case 1:
    case 2:
      CALLED(aclmdlRIExecuteAsync, model, p.Stream());
      break;
    case 3:
      CALLED(aclmdlRISetName, model, p.source.Choice(2) ? "a" : "longer than that");
      break;
    case 4:
      CALLED(aclmdlRIGetName, model, static_cast<uint32_t>(p.source.Choice(sizeof name + 1)), name);
      break;
    case 5:
      CALLED(aclmdlRIGetId, model, &id);
      break;
    case 6:
      CALLED(aclmdlRIDestroyRegisterCallback, model, &Count, &callbacks_run);
      break;
    default:
      CALLED(aclmdlRIDestroy, model);
  }
}

// ---- executors
void Plan(Program& p) {
#if defined(__SANITIZE_THREAD__)
  const int64_t dims[] = {p.source.Small() * 0, 8};  // no elements, as Arena says
#else
  const int64_t dims[] = {p.source.Small(), 8};
#endif
  char* x = p.arena + size_t{p.source.Byte()} * 32;
  char* y = p.arena + size_t{p.source.Byte()} * 32;
  aclTensor* in = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, x);
  aclTensor* out = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, y);
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  const int code = aclnnReluGetWorkspaceSize(p.source.Choice(8) ? in : static_cast<aclTensor*>(p.Any()), out,
                                             &bytes, &executor);
  p.Check(code, "aclnnRelu");
  Program::Keep(p.executors, code, executor);
  aclDestroyTensor(in);
  aclDestroyTensor(out);
}

void Executors(Program& p) {
  auto* executor = static_cast<aclOpExecutor*>(p.From(p.executors));
  switch (p.source.Choice(6)) {
    case 0:
      CALLED(aclSetAclOpExecutorRepeatable, executor);
      break;
    case 1: {
      auto* some = reinterpret_cast<aclTensor*>(&executor);  // only asked whether it is null
      CALLED(aclSetInputTensorAddr, executor, p.source.Choice(3), some,
             p.arena + size_t{p.source.Byte()} * 32);
      break;
    }
    case 2:
      CALLED(aclDestroyAclOpExecutor, executor);
      break;
    default:
      p.Check(aclnnRelu(nullptr, 0, executor, p.Stream()), "aclnnRelu");
  }
}

// ---- notifies, values, what else streams do
void MakeNotify(Program& p) {
  void* made = nullptr;
  if (p.source.Choice(2)) {
    Program::Keep(p.notifies, CALLED(aclrtCreateNotify, &made, p.source.Choice(3)), made);
  } else {
    Program::Keep(p.counters, CALLED(aclrtCntNotifyCreate, &made, 0), made);
  }
}

void Notifies(Program& p) {
  aclrtNotify notify = p.From(p.notifies);
  const aclrtStream stream = p.Stream();
  char key[65] = "none";
  uint32_t id = 0;
  switch (p.source.Choice(6)) {
    case 0:
    case 1:
      CALLED(aclrtRecordNotify, notify, stream);
      break;
    case 2:
      p.blocked = true;
      CALLED(aclrtWaitAndResetNotify, notify, stream, 0);
      break;
    case 3:
      CALLED(aclrtNotifyBatchReset, &notify, p.source.Choice(2));
      break;
    case 4:
      CALLED(aclrtNotifyGetExportKey, notify, key, p.source.Choice(2) ? sizeof key : 3, p.source.Byte());
      Program::Keep(p.notifies, CALLED(aclrtNotifyImportByKey, &notify, key, 0), notify);
      break;
    default:
      CALLED(aclrtGetNotifyId, notify, &id);
      if (p.source.Choice(4) == 0) CALLED(aclrtDestroyNotify, notify);
  }
}

void Counters(Program& p) {
  const aclrtCntNotify counter = p.From(p.counters);
  const aclrtStream stream = p.Stream();
  aclrtCntNotifyRecordInfo record{static_cast<aclrtCntNotifyRecordMode>(p.source.Choice(6)), p.source.Byte()};
  aclrtCntNotifyWaitInfo wait{static_cast<aclrtCntNotifyWaitMode>(p.source.Choice(6)),
                              p.source.Byte(),
                              0,
                              static_cast<uint8_t>(p.source.Choice(3)),
                              {}};
  switch (p.source.Choice(4)) {
    case 0:
      CALLED(aclrtCntNotifyRecord, counter, stream, &record);
      break;
    case 1:
      p.blocked = true;
      CALLED(aclrtCntNotifyWaitWithTimeout, counter, stream, &wait);
      break;
    case 2:
      CALLED(aclrtCntNotifyReset, counter, stream);
      break;
    default:
      CALLED(aclrtCntNotifyDestroy, counter);
  }
}

void Values(Program& p) {
  size_t unused = 0;
  char* at = p.Arena(&unused);
  if (p.source.Choice(2)) {
    CALLED(aclrtValueWrite, at + p.source.Choice(9), p.source.Byte(), p.source.Choice(2), p.Stream());
  } else {
    p.blocked = true;
    CALLED(aclrtValueWait, at, p.source.Byte(), static_cast<uint32_t>(p.source.Choice(5)), p.Stream());
  }
}

void Transfers(Program& p) {
  size_t count = 0, other = 0;
  char* to = p.Arena(&count);
  char* from = p.Arena(&other);
  const aclrtStream stream = p.Stream();
  switch (p.source.Choice(4)) {
    case 0: {
      void *dsts[] = {to, from}, *srcs[] = {from, to};
      size_t sizes[] = {count, other}, rooms[] = {count, count}, firsts[] = {0, p.source.Choice(3)}, fail = 0;
      aclrtMemcpyBatchAttr attributes[2] = {};
      for (aclrtMemcpyBatchAttr& a : attributes) {
        a.srcLoc.type = static_cast<aclrtMemLocationType>(p.source.Choice(3));
        a.dstLoc.type = static_cast<aclrtMemLocationType>(1 - a.srcLoc.type % 2);
      }
      CALLED(aclrtMemcpyBatchAsync, dsts, rooms, srcs, sizes, p.source.Choice(3), attributes, firsts,
             p.source.Choice(3), &fail, stream);
      break;
    }
    case 1:
      CALLED(aclrtReduceAsync, to, from, count, static_cast<aclrtReduceKind>(10 + p.source.Choice(5)),
             static_cast<aclDataType>(p.source.Choice(30)), stream, nullptr);
      break;
    case 2:  // in a place that nothing else writes: a descriptor holds addresses
      CALLED(aclrtSetMemcpyDesc, p.arena + kArena - 64, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, count,
             nullptr);
      break;
    default:
      CALLED(aclrtCmoAsync, to, count, static_cast<aclrtCmoType>(p.source.Choice(5)), stream);
  }
}

void Register(Program& p) {
  alignas(4096) static char pages[4 * 4096];
  char* at = pages + size_t{p.source.Byte()} * 512 % sizeof pages;
  void* device = nullptr;
  switch (p.source.Choice(3)) {
    case 0: {
      const int code =
          CALLED(aclrtHostRegister, at, uint64_t{p.source.Byte()} * 64, ACL_HOST_REGISTER_MAPPED, &device);
      Program::Keep(p.registered, code, at);
      break;
    }
    case 1:
      CALLED(aclrtHostGetDevicePointer, at, &device, 0);
      break;
    default:
      CALLED(aclrtHostUnregister, p.From(p.registered));
  }
}

void Options(Program& p) {
  const aclrtStream stream = p.Stream();
  aclrtStreamAttrValue value{};
  value.streamPriority = p.source.Byte();
  const auto attribute = static_cast<aclrtStreamAttr>(p.source.Choice(7));
  CALLED(aclrtSetStreamAttribute, stream, attribute, &value);
  CALLED(aclrtGetStreamAttribute, stream, attribute, &value);
  uint32_t cores = 0;
  int64_t info = 0;
  size_t limit = 0;
  CALLED(aclrtSetStreamResLimit, stream, static_cast<aclrtDevResLimitType>(p.source.Choice(3)),
         p.source.Byte());
  CALLED(aclrtGetResInCurrentThread, static_cast<aclrtDevResLimitType>(p.source.Choice(3)), &cores);
  CALLED(aclrtGetDeviceInfo, static_cast<uint32_t>(p.source.Small()),
         static_cast<aclrtDevAttr>(p.source.Byte() * 3), &info);
  CALLED(aclrtDeviceGetLimit, static_cast<aclrtDeviceLimit>(p.source.Choice(7)), &limit);
}

constexpr Fuzzed kCalls[] = {MakeStream,    MakeEvent,    Plan,          Capture,    Copy,      Fill,
                             Events,        Callbacks,    Executors,     Models,     CopyRows,  Synchronize,
                             Allocate,      Free,         EndStream,     Contexts,   AskMemory, Map,
                             StreamQueries, EventQueries, DeviceQueries, MakeNotify, Notifies,  Counters,
                             Values,        Transfers,    Register,      Options};

}  // namespace

size_t NumCalls() { return std::size(kCalls); }

void RunCall(Program& p) { kCalls[p.source.Choice(std::size(kCalls))](p); }

void ClearMore(Program& p) {
  for (void* at : p.mapped) aclrtUnmapMem(at);
  for (void* at : p.reserved) aclrtReleaseMemAddress(at);
  for (void* handle : p.physical) aclrtFreePhysical(handle);
  for (void* at : p.registered) aclrtHostUnregister(at);
  for (void* notify : p.notifies) aclrtDestroyNotify(notify);
  for (void* counter : p.counters) aclrtCntNotifyDestroy(counter);
}

}  // namespace opsnn::fuzz
