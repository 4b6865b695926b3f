#include "graph/available_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace opsnn::graph {
namespace {

// The number at the start of a file, or SIZE_MAX ("max", or no such file).
size_t ReadNumber(const char* path) {
  std::FILE* f = std::fopen(path, "r");
  if (!f) return SIZE_MAX;
  unsigned long long n = 0;
  const bool ok = std::fscanf(f, "%llu", &n) == 1;
  std::fclose(f);
  return ok ? static_cast<size_t>(n) : SIZE_MAX;
}

size_t MemAvailable() {
  std::FILE* f = std::fopen("/proc/meminfo", "r");
  if (!f) return SIZE_MAX;
  char line[128];
  size_t bytes = SIZE_MAX;
  while (std::fgets(line, sizeof line, f)) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) bytes = static_cast<size_t>(kib) * 1024;
  }
  std::fclose(f);
  return bytes;
}

// What is left below a limit; page cache that the kernel would give back counts as used, so this is careful.
size_t Left(const char* limit_path, const char* used_path) {
  const size_t limit = ReadNumber(limit_path), used = ReadNumber(used_path);
  if (limit == SIZE_MAX || used == SIZE_MAX) return SIZE_MAX;
  return limit > used ? limit - used : 0;
}

}  // namespace

size_t AvailableMemory() {
  return std::min(
      {MemAvailable(), Left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
       Left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")});
}

}  // namespace opsnn::graph
