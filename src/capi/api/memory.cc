// Memory: allocation, copies, fills, data buffers.
#include "runtime/memory.h"

#include <cstring>

#include "base/half.h"
#include "capi/acl_exports.h"
#include "capi/api/copies.h"
#include "capi/api/reserved.h"
#include "capi/boundary.h"
#include "capi/objects.h"
#include "runtime/check.h"
#include "runtime/device.h"

namespace opsnn::capi {
namespace {

using runtime::Checks;
using runtime::MemoryAccess;
using runtime::MemoryKind;

MemoryAccess Access(const void* p, size_t bytes, bool write, const char* argument) {
  return {p, static_cast<const char*>(p) + bytes, write, true, argument};
}

int Free(const char* function, void* pointer, MemoryKind kind) {
  if (!pointer) return Fail(function, ACL_ERROR_INVALID_PARAM, "the pointer is null");
  if (Checks(runtime::kCheckSync)) {
    if (auto block = runtime::FindBlock(pointer)) runtime::CheckFreed(function, block->base, block->bytes);
  }
  if (Checks(runtime::kCheckLeak)) runtime::NoteEnded(pointer);
  // Queued work may still use the block; a program that forgot to synchronise must not crash.
  // What still waits for a notify is not waited for.
  if (!runtime::Stream::InsideTask()) runtime::DrainAllStreams(-1, std::nullopt, runtime::AtGates::kGiveUp);
  Status s = runtime::Free(pointer, kind);
  return s.ok() ? ACL_SUCCESS : Fail(function, ACL_ERROR_INVALID_PARAM, s.message());
}

void DoCopy(const Copy& c) {
  for (size_t r = 0; r < c.rows; ++r) std::memmove(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
}

int CheckKind(const char* function, aclrtMemcpyKind kind) {
  if (kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) return ACL_SUCCESS;
  return Fail(function, ACL_ERROR_INVALID_PARAM, StrFormat("kind is %d; allowed: 0 to 7", int{kind}));
}

// The bytes of one side of a copy from its first to its last.
size_t Span(const Copy& c, size_t pitch) { return c.rows ? pitch * (c.rows - 1) + c.width : 0; }
std::vector<MemoryAccess> Accesses(const Copy& c) {
  std::vector<MemoryAccess> a = {Access(c.to, Span(c, c.to_pitch), true, "dst"),
                                 Access(c.from, Span(c, c.from_pitch), false, "src")};
  for (MemoryAccess& x : a) x.dense = c.rows == 1;
  return a;
}

// Which side of a copy is device memory is said by its kind.
void CheckSides(const char* function, void* dst, size_t dst_bytes, const void* src, size_t src_bytes,
                aclrtMemcpyKind kind) {
  if (!Checks(runtime::kCheckMemory)) return;
  if (kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
    runtime::CheckDevicePointer(function, "dst", dst, static_cast<int64_t>(dst_bytes));
  }
  if (kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
    runtime::CheckDevicePointer(function, "src", src, static_cast<int64_t>(src_bytes));
  }
}

struct Fill {
  char* to;
  size_t count;  // elements
  uint32_t value;
  bool words;  // 4-byte elements, else bytes
};

void DoFill(const Fill& f) {
  if (!f.words) {
    std::memset(f.to, static_cast<int>(f.value), f.count);
    return;
  }
  for (size_t i = 0; i < f.count; ++i) std::memcpy(f.to + 4 * i, &f.value, 4);
}

// Saturated: more than any block.
size_t WordBytes(size_t count) { return count > SIZE_MAX / 4 ? SIZE_MAX : 4 * count; }

int CheckFill(const char* function, void* p, size_t max_bytes, size_t bytes) {
  if (bytes == 0) return ACL_SUCCESS;
  if (!p) return Fail(function, ACL_ERROR_INVALID_PARAM, "the pointer is null");
  if (bytes > max_bytes || bytes == SIZE_MAX) {
    return Fail(function, ACL_ERROR_INVALID_PARAM,
                StrFormat("%zu bytes are to be set; allowed: at most %zu", bytes, max_bytes));
  }
  return CheckRoom(function, "the memory", p, bytes);
}

MemoryAccess AccessOf(const Fill& f) {
  return Access(f.to, f.words ? 4 * f.count : f.count, true, "the memory");
}

void FillHere(const char* function, const Fill& fill) {
  if (Checks(runtime::kCheckSync)) runtime::CheckHostAccess(function, AccessOf(fill));
  DoFill(fill);
}

int QueueFill(const char* function, const Fill& fill, aclrtStream stream) {
  auto s = runtime::ResolveStream(stream);
  if (!s.ok()) return Fail(function, ACL_ERROR_RT_INVALID_HANDLE, s.status().message());
  runtime::Task task;
  task.name = function;
  if (Checks(runtime::kCheckSync)) runtime::NoteAccesses(**s, function, {AccessOf(fill)}, &task);
  task.payload = std::make_shared<Fill>(fill);
  task.run = [](const void* payload) {
    DoFill(*static_cast<const Fill*>(payload));
    return OkStatus();
  };
  (*s)->Push(std::move(task));
  return ACL_SUCCESS;
}

int CheckCopy2d(const char* function, void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                size_t height, aclrtMemcpyKind kind) {
  if (int code = CheckKind(function, kind)) return code;
  if (width > dpitch || width > spitch) {
    return Fail(
        function, ACL_ERROR_INVALID_PARAM,
        StrFormat("width is %zu; allowed: at most dpitch (%zu) and spitch (%zu)", width, dpitch, spitch));
  }
  if (width == 0 || height == 0) return ACL_SUCCESS;
  if (!dst || !src)
    return Fail(function, ACL_ERROR_INVALID_PARAM, StrFormat("%s is null", dst ? "src" : "dst"));
  size_t to = 0, from = 0;
  if (__builtin_mul_overflow(dpitch, height - 1, &to) || __builtin_add_overflow(to, width, &to) ||
      __builtin_mul_overflow(spitch, height - 1, &from) || __builtin_add_overflow(from, width, &from)) {
    return Fail(function, ACL_ERROR_INVALID_PARAM,
                StrFormat("height is %zu; allowed: rows of pitches dpitch (%zu) and spitch "
                          "(%zu) whose bytes "
                          "64 bits count",
                          height, dpitch, spitch));
  }
  if (int code = CheckRoom(function, "dst", dst, to)) return code;
  if (int code = CheckRoom(function, "src", src, from)) return code;
  CheckSides(function, dst, to, src, from, kind);
  return ACL_SUCCESS;
}

Copy Rows(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height) {
  return {static_cast<char*>(dst), static_cast<const char*>(src), dpitch, spitch, width, width ? height : 0};
}

}  // namespace

int Malloc(const char* function, void** pointer, size_t size, MemoryKind kind) {
  if (!pointer) return Fail(function, ACL_ERROR_INVALID_PARAM, "the result pointer is null");
  *pointer = nullptr;
  auto context = runtime::CurrentContext();
  if (!context) {
    return Fail(function, ACL_ERROR_RT_CONTEXT_NULL,
                "no device is set in this process; call aclrtSetDevice first");
  }
  auto block = runtime::Allocate(size, kind, context->device);
  if (!block.ok()) {
    return Fail(function,
                block.status().code() == Code::kInvalid ? int{ACL_ERROR_INVALID_PARAM}
                                                        : ACL_ERROR_RT_MEMORY_ALLOCATION,
                block.status().message());
  }
  *pointer = *block;
  if (Checks(runtime::kCheckLeak)) {
    runtime::NoteMade(kind == MemoryKind::kDevice ? "device memory" : "host memory", *pointer, size);
  }
  return ACL_SUCCESS;
}

int CheckRoom(const char* function, const char* argument, const void* p, size_t bytes) {
  auto block = runtime::FindBlock(p);
  if (!block) {
    const char* const hole = FindHole(static_cast<const char*>(p), bytes);
    if (hole == nullptr) return ACL_SUCCESS;
    return Fail(function, ACL_ERROR_INVALID_PARAM,
                StrFormat("%s is reserved and not mapped from byte %zu of %zu on", argument,
                          static_cast<size_t>(hole - static_cast<const char*>(p)), bytes));
  }
  const size_t room =
      static_cast<size_t>(static_cast<char*>(block->base) + block->bytes - static_cast<const char*>(p));
  // Existing programs overrun small buffers by a few bytes; those are there
  // (runtime/memory.h).
  constexpr size_t kSpare = 32;
  if (bytes <= room + kSpare) return ACL_SUCCESS;
  return Fail(function, ACL_ERROR_INVALID_PARAM,
              StrFormat("%s has %zu bytes left in its allocation of %zu; the copy needs %zu", argument, room,
                        block->bytes, bytes));
}

int CheckCopy(const char* function, void* dst, size_t dest_max, const void* src, size_t count,
              aclrtMemcpyKind kind) {
  if (int code = CheckKind(function, kind)) return code;
  if (count == 0) return ACL_SUCCESS;
  if (!dst || !src)
    return Fail(function, ACL_ERROR_INVALID_PARAM, StrFormat("%s is null", dst ? "src" : "dst"));
  if (count > dest_max) {
    return Fail(function, ACL_ERROR_INVALID_PARAM,
                StrFormat("count is %zu; allowed: at most destMax, which is %zu", count, dest_max));
  }
  if (int code = CheckRoom(function, "dst", dst, count)) return code;
  if (int code = CheckRoom(function, "src", src, count)) return code;
  CheckSides(function, dst, count, src, count, kind);
  return ACL_SUCCESS;
}

void CopyHere(const char* function, const Copy& copy) {
  if (Checks(runtime::kCheckSync)) {
    for (const MemoryAccess& a : Accesses(copy)) runtime::CheckHostAccess(function, a);
  }
  DoCopy(copy);
}

int QueueCopy(const char* function, const Copy& copy, aclrtStream stream) {
  auto s = runtime::ResolveStream(stream);
  if (!s.ok()) return Fail(function, ACL_ERROR_RT_INVALID_HANDLE, s.status().message());
  runtime::Task task;
  task.name = function;
  if (Checks(runtime::kCheckSync)) runtime::NoteAccesses(**s, function, Accesses(copy), &task);
  task.payload = std::make_shared<Copy>(copy);
  task.run = [](const void* payload) {
    DoCopy(*static_cast<const Copy*>(payload));
    return OkStatus();
  };
  (*s)->Push(std::move(task));
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  static_cast<void>(policy);  // huge pages are asked for wherever they help
  return Malloc("aclrtMalloc", devPtr, size, MemoryKind::kDevice);
}
OPSNN_ACL_API aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  static_cast<void>(policy);
  return Malloc("aclrtMallocAlign32", devPtr, size, MemoryKind::kDevice);
}
OPSNN_ACL_API aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  static_cast<void>(policy);
  return Malloc("aclrtMallocCached", devPtr, size, MemoryKind::kDevice);
}
OPSNN_ACL_API aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                          aclrtMallocConfig* cfg) {
  static_cast<void>(policy);
  static_cast<void>(cfg);
  return Malloc("aclrtMallocWithCfg", devPtr, size, MemoryKind::kDevice);
}
OPSNN_ACL_API aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return Malloc("aclrtMallocHost", hostPtr, size, MemoryKind::kHost);
}
OPSNN_ACL_API aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  static_cast<void>(cfg);
  return Malloc("aclrtMallocHostWithCfg", ptr, size, MemoryKind::kHost);
}
OPSNN_ACL_API aclError aclrtFree(void* devPtr) { return Free("aclrtFree", devPtr, MemoryKind::kDevice); }
OPSNN_ACL_API aclError aclrtFreeWithDevSync(void* devPtr) {
  return Free("aclrtFreeWithDevSync", devPtr, MemoryKind::kDevice);
}
OPSNN_ACL_API aclError aclrtFreeHost(void* hostPtr) {
  return Free("aclrtFreeHost", hostPtr, MemoryKind::kHost);
}
OPSNN_ACL_API aclError aclrtFreeHostWithDevSync(void* hostPtr) {
  return Free("aclrtFreeHostWithDevSync", hostPtr, MemoryKind::kHost);
}

OPSNN_ACL_API aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                                   aclrtMemcpyKind kind) {
  if (int code = CheckCopy("aclrtMemcpy", dst, destMax, src, count, kind)) return code;
  if (count) CopyHere("aclrtMemcpy", Flat(dst, src, count));
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                        aclrtMemcpyKind kind, aclrtStream stream) {
  if (int code = CheckCopy("aclrtMemcpyAsync", dst, destMax, src, count, kind)) return code;
  return QueueCopy("aclrtMemcpyAsync", Flat(dst, src, count), stream);
}
OPSNN_ACL_API aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                     size_t height, aclrtMemcpyKind kind) {
  if (int code = CheckCopy2d("aclrtMemcpy2d", dst, dpitch, src, spitch, width, height, kind)) return code;
  CopyHere("aclrtMemcpy2d", Rows(dst, dpitch, src, spitch, width, height));
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                                          size_t width, size_t height, aclrtMemcpyKind kind,
                                          aclrtStream stream) {
  if (int code = CheckCopy2d("aclrtMemcpy2dAsync", dst, dpitch, src, spitch, width, height, kind))
    return code;
  return QueueCopy("aclrtMemcpy2dAsync", Rows(dst, dpitch, src, spitch, width, height), stream);
}

OPSNN_ACL_API aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (int code = CheckFill("aclrtMemset", devPtr, maxCount, count)) return code;
  if (count)
    FillHere("aclrtMemset", {static_cast<char*>(devPtr), count, static_cast<uint32_t>(value), false});
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                        aclrtStream stream) {
  if (int code = CheckFill("aclrtMemsetAsync", devPtr, maxCount, count)) return code;
  return QueueFill("aclrtMemsetAsync",
                   {static_cast<char*>(devPtr), count, static_cast<uint32_t>(value), false}, stream);
}
OPSNN_ACL_API aclError aclrtMemsetD32(void* ptr, size_t memSize, uint32_t value, size_t N) {
  if (int code = CheckFill("aclrtMemsetD32", ptr, memSize, WordBytes(N))) return code;
  FillHere("aclrtMemsetD32", {static_cast<char*>(ptr), N, value, true});
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtMemsetD32Async(void* ptr, size_t memSize, uint32_t value, size_t N,
                                           aclrtStream stream) {
  if (int code = CheckFill("aclrtMemsetD32Async", ptr, memSize, WordBytes(N))) return code;
  return QueueFill("aclrtMemsetD32Async", {static_cast<char*>(ptr), N, value, true}, stream);
}

// Caches are coherent here.
OPSNN_ACL_API aclError aclrtMemFlush(void* devPtr, size_t size) {
  if (!devPtr || !size) return Fail("aclrtMemFlush", ACL_ERROR_INVALID_PARAM, "devPtr is null or size is 0");
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtMemInvalidate(void* devPtr, size_t size) {
  if (!devPtr || !size)
    return Fail("aclrtMemInvalidate", ACL_ERROR_INVALID_PARAM, "devPtr is null or size is 0");
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  if (!ptr || !attributes) {
    return Fail("aclrtPointerGetAttributes", ACL_ERROR_INVALID_PARAM, "ptr and attributes must not be null");
  }
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  if (auto block = runtime::FindBlock(ptr)) {
    attributes->location.id = static_cast<uint32_t>(block->device);
    attributes->location.type =
        block->kind == MemoryKind::kDevice ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
  }
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
  auto block = runtime::FindBlock(ptr);
  if (!block) {
    return Fail("aclrtMemGetAddressRange", ACL_ERROR_INVALID_PARAM,
                StrFormat("%p is not in a live allocation", ptr));
  }
  if (pbase) *pbase = block->base;
  if (psize) *psize = block->bytes;
  return ACL_SUCCESS;
}

// ---- data buffers and scalar conversions
namespace {
struct DataBuffer {
  std::atomic<void*> data;
  std::atomic<size_t> size;
};
auto& Buffers() {
  static auto* table = new runtime::HandleTable<DataBuffer, runtime::HandleKind::kDataBuffer>;
  return *table;
}
}  // namespace

OPSNN_ACL_API aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  auto buffer = std::make_shared<DataBuffer>();
  buffer->data = data;
  buffer->size = size;
  return static_cast<aclDataBuffer*>(Buffers().Insert(std::move(buffer)));
}
OPSNN_ACL_API aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  if (!dataBuffer || Buffers().Remove(dataBuffer)) return ACL_SUCCESS;
  return Fail("aclDestroyDataBuffer", ACL_ERROR_INVALID_PARAM, "dataBuffer is not live (destroyed already?)");
}
OPSNN_ACL_API aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  auto buffer = Buffers().Find(dataBuffer);
  if (!buffer) return Fail("aclUpdateDataBuffer", ACL_ERROR_INVALID_PARAM, "dataBuffer is null or not live");
  buffer->data = data;
  buffer->size = size;
  return ACL_SUCCESS;
}
OPSNN_ACL_API void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  auto buffer = Buffers().Find(dataBuffer);
  return buffer ? buffer->data.load() : nullptr;
}
OPSNN_ACL_API uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  auto buffer = Buffers().Find(dataBuffer);
  return buffer ? static_cast<uint32_t>(buffer->size.load()) : 0;
}
OPSNN_ACL_API size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  auto buffer = Buffers().Find(dataBuffer);
  return buffer ? buffer->size.load() : 0;
}

OPSNN_ACL_API size_t aclDataTypeSize(aclDataType dataType) { return AclTypeSize(dataType); }

// The published functions know no Inf and no NaN: to half everything from 65504 up saturates;
// from half the top exponent is read as one more power of two.
OPSNN_ACL_API aclFloat16 aclFloatToFloat16(float value) {
  const F16 h = ToF16(value);
  return (h.bits & 0x7C00) == 0x7C00 ? static_cast<aclFloat16>((h.bits & 0x8000) | 0x7BFF) : h.bits;
}
OPSNN_ACL_API float aclFloat16ToFloat(aclFloat16 value) {
  if ((value & 0x7C00) != 0x7C00) return ToFloat(F16{value});
  const float magnitude = 65536.0f * (1.0f + static_cast<float>(value & 0x3FF) / 1024.0f);
  return value & 0x8000 ? -magnitude : magnitude;
}

}  // namespace opsnn::capi
