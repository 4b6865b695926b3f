// Device and pinned host memory, with a registry of what is alive.
//
// Blocks are aligned to kAlignment (128: one widely used client refuses less), rounded up to a multiple of 32
// bytes and followed by 32 spare bytes, because existing programs overrun small buffers by a few bytes. From
// 2 MiB up huge pages are asked for (base/buffer.h).
#ifndef OPSNN_RUNTIME_MEMORY_H_
#define OPSNN_RUNTIME_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.h"

namespace opsnn::runtime {

enum class MemoryKind : uint8_t { kDevice, kHost };

struct MemoryBlock {
  void* base = nullptr;
  size_t bytes = 0;  // as asked for
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  uint64_t serial = 0;  // never given twice: another block at the same address has another one
};

// kRuntime with the numbers when the memory limit, the machine or the system says no; kInvalid for 0 bytes.
Result<void*> Allocate(size_t bytes, MemoryKind kind, int device);
// kInvalid when p is not the start of a live block of this kind.
Status Free(void* p, MemoryKind kind);
// The live block that holds address p.
std::optional<MemoryBlock> FindBlock(const void* p);
// Blocks freed so far: while it stands still, every block that was found is still live.
uint64_t FreeCount();

struct MemoryUse {
  size_t bytes = 0, peak_bytes = 0, blocks = 0;
};
MemoryUse GetMemoryUse();
// What a device may hold: the memory_limit knob, else the machine's memory.
size_t MemoryLimit();

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_MEMORY_H_
