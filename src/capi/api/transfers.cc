// Copies in batches, by descriptor and with offsets; reductions into memory; registered and shared memory.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "capi/acl_exports.h"
#include "capi/api/copies.h"
#include "capi/boundary.h"
#include "runtime/check.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "tensor/element.h"

namespace opsnn::capi {
namespace {

using runtime::MemoryKind;

int Bad(const char* function, const std::string& message) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, message);
}

// ---- batches
struct Batch {
  void** dsts;
  size_t* rooms;
  void** srcs;
  size_t* sizes;
  size_t count;
  aclrtMemcpyBatchAttr* attributes;
  size_t* firsts;  // of the copies that an attribute is for
  size_t num_attributes;
};

// The direction of copies with these attributes, or a code. A place says where memory is; what was not
// allocated here is the host's.
int DirectionOf(const char* function, size_t k, const aclrtMemcpyBatchAttr& a, aclrtMemcpyKind* kind) {
  const aclrtMemLocationType from = a.srcLoc.type, to = a.dstLoc.type;
  if (from == ACL_MEM_LOCATION_TYPE_HOST && to == ACL_MEM_LOCATION_TYPE_DEVICE) {
    *kind = ACL_MEMCPY_HOST_TO_DEVICE;
  } else if (from == ACL_MEM_LOCATION_TYPE_DEVICE && to == ACL_MEM_LOCATION_TYPE_HOST) {
    *kind = ACL_MEMCPY_DEVICE_TO_HOST;
  } else {
    return Bad(function,
               StrFormat("attrs[%zu] copies from a place of type %d to one of %d; allowed: host to device, "
                         "or device to host",
                         k, static_cast<int>(from), static_cast<int>(to)));
  }
  return ACL_SUCCESS;
}

int CheckBatch(const char* function, const Batch& b, std::vector<aclrtMemcpyKind>* kinds,
               size_t* fail_index) {
  if (fail_index) *fail_index = SIZE_MAX;
  if (!b.dsts || !b.rooms || !b.srcs || !b.sizes || !b.attributes || !b.firsts) {
    return Bad(function, "an array is null; all of them are required");
  }
  if (b.count == 0 || b.num_attributes == 0 || b.num_attributes > b.count || b.firsts[0] != 0) {
    return Bad(function,
               StrFormat("numBatches is %zu and numAttrs %zu; allowed: at least one attribute, no more than "
                         "copies, and attrsIndexes that begin at 0",
                         b.count, b.num_attributes));
  }
  kinds->assign(b.count, ACL_MEMCPY_HOST_TO_DEVICE);
  for (size_t k = 0; k < b.num_attributes; ++k) {
    const size_t end = k + 1 < b.num_attributes ? b.firsts[k + 1] : b.count;
    if (end <= b.firsts[k] || end > b.count) {
      return Bad(function, StrFormat("attrsIndexes[%zu] is %zu; allowed: rising, and below numBatches (%zu)",
                                     k, b.firsts[k], b.count));
    }
    aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;
    if (int code = DirectionOf(function, k, b.attributes[k], &kind)) {
      if (fail_index) *fail_index = b.firsts[k];
      return code;
    }
    if (k > 0 && kind != (*kinds)[0]) {
      if (fail_index) *fail_index = b.firsts[k];
      return Bad(function,
                 StrFormat("attrs[%zu] copies in another direction than attrs[0]; one is allowed", k));
    }
    std::fill(kinds->begin() + static_cast<ptrdiff_t>(b.firsts[k]),
              kinds->begin() + static_cast<ptrdiff_t>(end), kind);
  }
  for (size_t i = 0; i < b.count; ++i) {
    if (int code = CheckCopy(function, b.dsts[i], b.rooms[i], b.srcs[i], b.sizes[i], (*kinds)[i])) {
      if (fail_index) *fail_index = i;
      return code;
    }
  }
  return ACL_SUCCESS;
}

int CopyBatch(const char* function, const Batch& b, size_t* fail_index) {
  std::vector<aclrtMemcpyKind> kinds;
  if (int code = CheckBatch(function, b, &kinds, fail_index)) return code;
  for (size_t i = 0; i < b.count; ++i) {
    if (b.sizes[i]) CopyHere(function, Flat(b.dsts[i], b.srcs[i], b.sizes[i]));
  }
  return ACL_SUCCESS;
}

int QueueBatch(const char* function, const Batch& b, size_t* fail_index, aclrtStream stream) {
  std::vector<aclrtMemcpyKind> kinds;
  if (int code = CheckBatch(function, b, &kinds, fail_index)) return code;
  for (size_t i = 0; i < b.count; ++i) {
    if (b.sizes[i] == 0) continue;
    if (int code = QueueCopy(function, Flat(b.dsts[i], b.srcs[i], b.sizes[i]), stream)) return code;
  }
  return ACL_SUCCESS;
}

int CheckInner(const char* function, aclrtMemcpyKind kind) {
  if (kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE) return ACL_SUCCESS;
  return Bad(function,
             StrFormat("kind is %d; allowed: ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (%d)", static_cast<int>(kind),
                       static_cast<int>(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)));
}

// What a copy descriptor holds; read when the copy runs.
struct CopyDescriptor {
  uint64_t mark;
  const void* from;
  void* to;
  size_t count;
};
constexpr uint64_t kDescriptorMark = 0x6F70736E6E637079;  // that aclrtSetMemcpyDesc wrote it

// Reads addresses when its turn has come.
struct IndirectCopy {
  void** to;
  const void** from;
  size_t room, count, to_offset, from_offset;
};

int Queue(const char* function, aclrtStream stream, std::shared_ptr<const void> payload,
          Status (*run)(const void*)) {
  auto s = runtime::ResolveStream(stream);
  if (!s.ok()) return Fail(function, ACL_ERROR_RT_INVALID_HANDLE, s.status().message());
  if (runtime::Checks(runtime::kCheckSync)) runtime::NoteUnknownOrder((*s)->id());
  runtime::Task task;
  task.name = function;
  task.payload = std::move(payload);
  task.run = run;
  (*s)->Push(std::move(task));
  return ACL_SUCCESS;
}

// ---- reductions
struct Reduction {
  char* to;
  const char* from;
  int64_t count;  // elements
  DType dtype;
  aclrtReduceKind kind;
};

Status Reduce(const void* payload) {
  const auto& r = *static_cast<const Reduction*>(payload);
  const size_t bytes = SizeOf(r.dtype);
  for (int64_t i = 0; i < r.count; ++i) {
    char* at = r.to + static_cast<size_t>(i) * bytes;
    // Both are exact in a double, and so is the sum of two integers or halves; of two floats it is rounded
    // once.
    const double a = ReadElement(at, r.dtype),
                 b = ReadElement(r.from + static_cast<size_t>(i) * bytes, r.dtype);
    double result = a + b;  // a NaN on either side stays one, of the larger and of the smaller as well
    if (r.kind != ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM && !std::isnan(a) && !std::isnan(b))
      result = r.kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX ? std::max(a, b) : std::min(a, b);
    WriteElement(at, r.dtype, result);
  }
  return OkStatus();
}

// ---- registered and shared memory
struct Registered {
  size_t bytes = 0;
  bool mapped = false;
};
struct SharedBlock {
  void* at = nullptr;
  uint64_t serial = 0;  // of the block that holds it
  bool anyone = false;
  std::vector<int32_t> processes;
};
struct Known {
  std::mutex mutex;
  std::map<const char*, Registered> registered;
  std::map<std::string, SharedBlock> shared;
  uint64_t exports = 0;
};
Known& Memory() {
  static auto* known = new Known;
  return *known;
}
constexpr uintptr_t kPage = 4096;  // registered memory begins at one
constexpr size_t kKeyBytes = 65;   // with its end, as documented

int Register(const char* function, void* ptr, uint64_t size, bool mapped) {
  if (!ptr || size == 0) return Bad(function, "ptr is null or size is 0");
  if (reinterpret_cast<uintptr_t>(ptr) % kPage) {
    return Bad(function, StrFormat("ptr is %p; allowed: multiples of %zu", ptr, static_cast<size_t>(kPage)));
  }
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  const auto* begin = static_cast<const char*>(ptr);
  auto next = k.registered.lower_bound(begin);
  const bool overlaps =
      (next != k.registered.end() && next->first < begin + size) ||
      (next != k.registered.begin() && std::prev(next)->first + std::prev(next)->second.bytes > begin);
  if (overlaps)
    return Bad(function, StrFormat("%p with %zu bytes is registered already, or a part of it", ptr,
                                   static_cast<size_t>(size)));
  k.registered[begin] = {size, mapped};
  if (mapped) runtime::NoteMapped(ptr, size);  // to the checker it is device memory now
  return ACL_SUCCESS;
}

SharedBlock* FindShared(const char* function, Known& k, const char* key) {
  if (!key) {
    FailNull(function, "key");
    return nullptr;
  }
  auto it = k.shared.find(key);
  const auto block = it == k.shared.end() ? std::nullopt : runtime::FindBlock(it->second.at);
  if (block && block->serial == it->second.serial) return &it->second;
  Bad(function, "key names no live memory of this process; memory of other processes is out of reach here");
  return nullptr;
}

}  // namespace

OPSNN_ACL_API aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                        size_t numBatches, aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
                                        size_t numAttrs, size_t* failIndex) {
  return CopyBatch("aclrtMemcpyBatch",
                   {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, failIndex);
}
OPSNN_ACL_API aclError aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                          size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                          size_t* attrsIndexes, size_t numAttrs) {
  return CopyBatch("aclrtMemcpyBatchV2",
                   {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, nullptr);
}
OPSNN_ACL_API aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                             size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                             size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                                             aclrtStream stream) {
  return QueueBatch("aclrtMemcpyBatchAsync",
                    {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, failIndex,
                    stream);
}
OPSNN_ACL_API aclError aclrtMemcpyBatchAsyncV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes,
                                               size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                                               size_t* attrsIndexes, size_t numAttrs, aclrtStream stream) {
  return QueueBatch("aclrtMemcpyBatchAsyncV2",
                    {dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, nullptr,
                    stream);
}

// ---- descriptors
OPSNN_ACL_API aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t* descSize) {
  static const char* const kApi = "aclrtGetMemcpyDescSize";
  if (!descSize) return FailNull(kApi, "descSize");
  if (int code = CheckInner(kApi, kind)) return code;
  *descSize = sizeof(CopyDescriptor);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtSetMemcpyDesc(void* desc, aclrtMemcpyKind kind, void* srcAddr, void* dstAddr,
                                          size_t count, void* config) {
  static const char* const kApi = "aclrtSetMemcpyDesc";
  if (!desc) return FailNull(kApi, "desc");
  if (config) return Bad(kApi, "config is reserved; it must be null");
  if (int code = CheckInner(kApi, kind)) return code;
  if (int code = CheckRoom(kApi, "desc", desc, sizeof(CopyDescriptor))) return code;
  if (int code = CheckCopy(kApi, dstAddr, count, srcAddr, count, kind)) return code;
  const CopyDescriptor d{kDescriptorMark, srcAddr, dstAddr, count};
  std::memcpy(desc, &d, sizeof d);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMemcpyAsyncWithDesc(void* desc, aclrtMemcpyKind kind, aclrtStream stream) {
  static const char* const kApi = "aclrtMemcpyAsyncWithDesc";
  if (!desc) return FailNull(kApi, "desc");
  if (int code = CheckInner(kApi, kind)) return code;
  if (int code = CheckRoom(kApi, "desc", desc, sizeof(CopyDescriptor))) return code;
  return Queue(kApi, stream, std::make_shared<const void*>(desc), [](const void* p) {
    CopyDescriptor d;
    std::memcpy(&d, *static_cast<const void* const*>(p), sizeof d);
    if (d.mark != kDescriptorMark) {
      return InvalidArgument("aclrtMemcpyAsyncWithDesc: desc was not written by aclrtSetMemcpyDesc");
    }
    if (d.count) std::memmove(d.to, d.from, d.count);
    return OkStatus();
  });
}

OPSNN_ACL_API aclError aclrtMemcpyAsyncWithOffset(void** dst, size_t destMax, size_t dstDataOffset,
                                                  const void** src, size_t count, size_t srcDataOffset,
                                                  aclrtMemcpyKind kind, aclrtStream stream) {
  static const char* const kApi = "aclrtMemcpyAsyncWithOffset";
  if (!dst || !src) return FailNull(kApi, dst ? "src" : "dst");
  if (int code = CheckInner(kApi, kind)) return code;
  if (count > destMax) {
    return Bad(kApi, StrFormat("count is %zu; allowed: at most destMax, which is %zu", count, destMax));
  }
  const IndirectCopy copy{dst, src, destMax, count, dstDataOffset, srcDataOffset};
  return Queue(kApi, stream, std::make_shared<IndirectCopy>(copy), [](const void* p) {
    const auto& c = *static_cast<const IndirectCopy*>(p);
    if (c.count == 0) return OkStatus();
    if (!*c.to || !*c.from) {
      return InvalidArgument("aclrtMemcpyAsyncWithOffset: the address that %s points to is null",
                             *c.to ? "src" : "dst");
    }
    std::memmove(static_cast<char*>(*c.to) + c.to_offset, static_cast<const char*>(*c.from) + c.from_offset,
                 c.count);
    return OkStatus();
  });
}

// dst = dst + src, max or min, element by element; integers saturate.
OPSNN_ACL_API aclError aclrtReduceAsync(void* dst, const void* src, uint64_t count, aclrtReduceKind kind,
                                        aclDataType type, aclrtStream stream, void* reserve) {
  static const char* const kApi = "aclrtReduceAsync";
  if (reserve) return Bad(kApi, "reserve must be null");
  if (kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN) {
    return Bad(kApi, StrFormat("kind is %d; allowed: 10 (sum), 11 (max), 12 (min)", static_cast<int>(kind)));
  }
  DType dtype;
  switch (type) {
    case ACL_FLOAT:
      dtype = DType::kF32;
      break;
    case ACL_FLOAT16:
      dtype = DType::kF16;
      break;
    case ACL_BF16:
      dtype = DType::kBF16;
      break;
    case ACL_INT8:
      dtype = DType::kS8;
      break;
    case ACL_INT16:
      dtype = DType::kS16;
      break;
    case ACL_INT32:
      dtype = DType::kS32;
      break;
    default:
      return Bad(kApi,
                 StrFormat("type is %d; allowed: f32, f16, bf16, s8, s16, s32", static_cast<int>(type)));
  }
  if (count % SizeOf(dtype)) {
    return Bad(kApi, StrFormat("count is %llu bytes; allowed: whole elements of %zu",
                               static_cast<unsigned long long>(count), SizeOf(dtype)));
  }
  if (int code = CheckCopy(kApi, dst, count, src, count, ACL_MEMCPY_DEVICE_TO_DEVICE)) return code;
  const Reduction r{static_cast<char*>(dst), static_cast<const char*>(src),
                    static_cast<int64_t>(count / SizeOf(dtype)), dtype, kind};
  return Queue(kApi, stream, std::make_shared<Reduction>(r), &Reduce);
}

// A hint: the host's caches prefetch by themselves.
OPSNN_ACL_API aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  static const char* const kApi = "aclrtCmoAsync";
  if (!src || !size) return Bad(kApi, "src is null or size is 0");
  if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
    return Bad(kApi, StrFormat("cmoType is %d; allowed: 0 (prefetch)", static_cast<int>(cmoType)));
  }
  auto s = runtime::ResolveStream(stream);
  return s.ok() ? int{ACL_SUCCESS} : Fail(kApi, ACL_ERROR_RT_INVALID_HANDLE, s.status().message());
}

// ---- registered memory: the host is the device, so addresses stay what they are
OPSNN_ACL_API aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type,
                                         void** devPtr) {
  static const char* const kApi = "aclrtHostRegister";
  if (!devPtr) return FailNull(kApi, "devPtr");
  *devPtr = nullptr;
  if (type != ACL_HOST_REGISTER_MAPPED) {
    return Bad(kApi, StrFormat("type is %d; allowed: 0 (mapped)", static_cast<int>(type)));
  }
  if (int code = Register(kApi, ptr, size, true)) return code;
  *devPtr = ptr;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  static const char* const kApi = "aclrtHostRegisterV2";
  const uint32_t known = static_cast<uint32_t>(ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED);
  if (flag == 0 || (flag & ~known) != 0) {
    return Bad(kApi,
               StrFormat("flag is 0x%x; allowed: ACL_HOST_REG_MAPPED, ACL_HOST_REG_PINNED or both", flag));
  }
  return Register(kApi, ptr, size, (flag & ACL_HOST_REG_MAPPED) != 0);
}

OPSNN_ACL_API aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  static const char* const kApi = "aclrtHostGetDevicePointer";
  if (!pDevice) return FailNull(kApi, "pDevice");
  *pDevice = nullptr;
  if (flag) return Bad(kApi, "flag is reserved; it must be 0");
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  auto it = k.registered.find(static_cast<const char*>(pHost));
  if (it == k.registered.end() || !it->second.mapped) {
    return Bad(kApi, StrFormat("pHost %p is not registered as mapped", pHost));
  }
  *pDevice = pHost;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtHostUnregister(void* ptr) {
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  auto it = k.registered.find(static_cast<const char*>(ptr));
  if (it == k.registered.end()) {
    return Bad("aclrtHostUnregister", StrFormat("ptr %p is not registered", ptr));
  }
  if (it->second.mapped) runtime::NoteUnmapped(ptr);
  k.registered.erase(it);
  return ACL_SUCCESS;
}

// ---- shared memory, inside this process
OPSNN_ACL_API aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len,
                                               uint64_t flags) {
  static const char* const kApi = "aclrtIpcMemGetExportKey";
  if (!key) return FailNull(kApi, "key");
  if (len < kKeyBytes) return Bad(kApi, StrFormat("len is %zu; allowed: at least %zu", len, kKeyBytes));
  const auto block = runtime::FindBlock(devPtr);
  if (!block || block->kind != MemoryKind::kDevice || size == 0) {
    return Bad(kApi, StrFormat("devPtr %p with %zu bytes is no device memory of this process", devPtr, size));
  }
  if (int code = CheckRoom(kApi, "devPtr", devPtr, size)) return code;
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  std::snprintf(key, len, "opsnn-memory-%d-%llu", static_cast<int>(getpid()),
                static_cast<unsigned long long>(++k.exports));
  k.shared[key] = {
      devPtr, block->serial, (flags & ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) != 0, {}};
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  static const char* const kApi = "aclrtIpcMemSetImportPid";
  if (!pid || !num) return Bad(kApi, "pid is null or num is 0");
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  SharedBlock* shared = FindShared(kApi, k, key);
  if (!shared) return ACL_ERROR_INVALID_PARAM;
  shared->processes.assign(pid, pid + num);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  static const char* const kApi = "aclrtIpcMemImportByKey";
  static_cast<void>(flags);  // devices reach each other always
  if (!devPtr) return FailNull(kApi, "devPtr");
  *devPtr = nullptr;
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  SharedBlock* shared = FindShared(kApi, k, key);
  if (!shared) return ACL_ERROR_INVALID_PARAM;
  const auto& list = shared->processes;
  if (!shared->anyone && std::find(list.begin(), list.end(), getpid()) == list.end()) {
    return Bad(kApi, "this process is not in the memory's list; see aclrtIpcMemSetImportPid");
  }
  *devPtr = shared->at;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtIpcMemClose(const char* key) {
  Known& k = Memory();
  std::lock_guard lock(k.mutex);
  if (!key) return FailNull("aclrtIpcMemClose", "key");
  // Importers and the exporter both close; who comes second finds nothing left to do.
  k.shared.erase(key);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  if (!pid) return FailNull("aclrtDeviceGetBareTgid", "pid");
  *pid = getpid();
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMallocForTaskScheduler(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                   aclrtMallocConfig* cfg) {
  static_cast<void>(policy);
  static_cast<void>(cfg);
  return Malloc("aclrtMallocForTaskScheduler", devPtr, size, MemoryKind::kDevice);
}

// 1 where every address is memory of a type in the mask; all device memory is of one type.
OPSNN_ACL_API aclError aclrtCheckMemType(void** addrList, uint32_t size, uint32_t memType,
                                         uint32_t* checkResult, uint32_t reserve) {
  static const char* const kApi = "aclrtCheckMemType";
  if (!addrList || !checkResult) return FailNull(kApi, addrList ? "checkResult" : "addrList");
  if (size == 0 || reserve) return Bad(kApi, "size is 0 or reserve is not");
  *checkResult = (memType & ACL_RT_MEM_TYPE_DEV) != 0;
  for (uint32_t i = 0; i < size && *checkResult; ++i) {
    const auto block = runtime::FindBlock(addrList[i]);
    *checkResult = block && block->kind == MemoryKind::kDevice;
  }
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
