#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace opsnn {
namespace {

// The whole file, or "" when it cannot be read (no /proc, no cgroups: both are normal).
std::string ReadSmallFile(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "r");
  if (!f) return "";
  char buffer[4096];
  std::string s;
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) s.append(buffer, n);
  std::fclose(f);
  return s;
}

int CpusOf(double quota, double period) {
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(std::ceil(quota / period))) : 0;
}

// v2: "max 100000" or "150000 100000". v1: two files, -1 for none.
int QuotaOfGroup(const std::string& dir, bool v2) {
  if (v2) {
    const std::string text = ReadSmallFile(dir + "/cpu.max");
    double quota = 0, period = 0;
    return std::sscanf(text.c_str(), "%lf %lf", &quota, &period) == 2 ? CpusOf(quota, period) : 0;
  }
  return CpusOf(std::atof(ReadSmallFile(dir + "/cpu.cfs_quota_us").c_str()),
                std::atof(ReadSmallFile(dir + "/cpu.cfs_period_us").c_str()));
}

int Smaller(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// The tightest quota from `path` up to the mount's root.
int QuotaUpwards(const std::string& root, std::string path, bool v2) {
  int cpus = 0;
  for (;;) {
    cpus = Smaller(cpus, QuotaOfGroup(root + path, v2));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) return cpus;
    path.resize(slash);
  }
}

bool HasController(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

int AffinityCpus() {
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return 1;
}

int CgroupCpus(const std::string& cgroup_file, const std::string& mount) {
  int cpus = Smaller(QuotaOfGroup(mount, true), QuotaOfGroup(mount + "/cpu", false));
  // Lines are "hierarchy:controllers:path"; v2 is hierarchy 0 with no controllers.
  for (size_t begin = 0; begin < cgroup_file.size();) {
    size_t end = cgroup_file.find('\n', begin);
    if (end == std::string::npos) end = cgroup_file.size();
    const std::string line = cgroup_file.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      cpus = Smaller(cpus, QuotaUpwards(mount, path, true));
    } else if (HasController(controllers, "cpu")) {
      cpus = Smaller(cpus, QuotaUpwards(mount + "/cpu", path, false));
      cpus = Smaller(cpus, QuotaUpwards(mount + "/" + controllers, path, false));
    }
  }
  return cpus;
}

int AllowedCpus() {
  const int quota = CgroupCpus(ReadSmallFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  return std::max(1, Smaller(AffinityCpus(), quota));
}

}  // namespace opsnn
