#include "isa/caches.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "isa/cpuid.h"

namespace opsnn::isa {
namespace {

std::string ReadLine(const std::string& path) {
  char line[256] = {};
  if (std::FILE* f = std::fopen(path.c_str(), "r")) {
    if (!std::fgets(line, sizeof line, f)) line[0] = '\0';
    std::fclose(f);
  }
  std::string s = line;
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.pop_back();
  return s;
}

int FirstAllowedCpu() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) return i;
  }
  return 0;
}

// "2048K" or "32M".
int64_t SizeText(const std::string& s) {
  const int64_t n = std::atoll(s.c_str());
  return s.empty() ? 0 : s.back() == 'K' ? n << 10 : s.back() == 'M' ? n << 20 : n;
}

void Keep(Caches& c, int level, int64_t bytes) {
  int64_t& slot = level == 1 ? c.l1d : level == 2 ? c.l2 : c.l3;
  if (level >= 1 && level <= 3) slot = std::max(slot, bytes);
}

}  // namespace

Caches ProbeCaches(const std::string& sysfs) {
  Caches c;
  const std::string cpu = sysfs + "/cpu" + std::to_string(FirstAllowedCpu()) + "/cache/index";
  for (int i = 0; i < 8; ++i) {
    const std::string dir = cpu + std::to_string(i);
    const std::string type = ReadLine(dir + "/type");
    if (type == "Data" || type == "Unified") {
      Keep(c, std::atoi(ReadLine(dir + "/level").c_str()), SizeText(ReadLine(dir + "/size")));
    }
  }
  c.source = "sysfs";
  if (c.l1d == 0) {
    for (const CpuCache& k : CachesByCpuid()) Keep(c, k.level, k.bytes);
    c.source = "cpuid";
  }
  if (c.l1d == 0) {  // the smallest of today's machines
    c = {32 << 10, 512 << 10, 4 << 20, "assumed"};
  }
  if (c.l2 == 0) c.l2 = c.l1d;
  if (c.l3 == 0) c.l3 = c.l2;
  return c;
}

const Caches& HostCaches() {
  static const Caches caches = ProbeCaches("/sys/devices/system/cpu");
  return caches;
}

}  // namespace opsnn::isa
