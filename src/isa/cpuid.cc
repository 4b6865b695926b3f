#include "isa/cpuid.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

namespace opsnn::isa {

#if defined(__x86_64__)

namespace {

constexpr unsigned kIntelCacheLeaf = 4, kAmdCacheLeaf = 0x8000001D;

std::vector<CpuCache> ReadCacheLeaf(unsigned leaf) {
  std::vector<CpuCache> caches;
  constexpr unsigned kMaxEntries = 16;  // hypervisors have been seen to never end the list
  for (unsigned i = 0; i < kMaxEntries; ++i) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d)) break;
    const unsigned type = a & 31;  // 0 end, 1 data, 2 instruction, 3 unified
    if (type == 0) break;
    if (type == 2) continue;
    const int64_t ways = (b >> 22) + 1, partitions = ((b >> 12) & 1023) + 1, line = (b & 4095) + 1;
    caches.push_back({static_cast<int>((a >> 5) & 7),
                      ways * partitions * line * (static_cast<int64_t>(c) + 1),
                      static_cast<int>((a >> 14) & 4095) + 1});
  }
  return caches;
}

}  // namespace

std::vector<CpuCache> CachesByCpuid() {
  std::vector<CpuCache> caches = ReadCacheLeaf(kIntelCacheLeaf);
  return caches.empty() ? ReadCacheLeaf(kAmdCacheLeaf) : caches;
}

std::string CpuBrand() {
  unsigned r[12] = {};
  for (unsigned i = 0; i < 3; ++i) {
    if (!__get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3])) return "";
  }
  char text[sizeof r + 1] = {};
  std::memcpy(text, r, sizeof r);
  std::string brand = text;
  const size_t first = brand.find_first_not_of(' ');
  return first == std::string::npos ? "" : brand.substr(first, brand.find_last_not_of(' ') + 1 - first);
}

bool InVirtualMachine() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c >> 31);
}

#else

std::vector<CpuCache> CachesByCpuid() { return {}; }
std::string CpuBrand() { return ""; }
bool InVirtualMachine() { return false; }

#endif

}  // namespace opsnn::isa
