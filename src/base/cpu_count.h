// How many CPUs this process may compute on: affinity mask and cgroup CPU quota (v1 and v2).
#ifndef OPSNN_BASE_CPU_COUNT_H_
#define OPSNN_BASE_CPU_COUNT_H_

#include <string>

namespace opsnn {

// CPUs in the calling thread's affinity mask, at least 1.
int AffinityCpus();
// CPUs that the cgroup quota amounts to, rounded up; 0 when there is no quota. `cgroup_file` is what
// /proc/self/cgroup holds, `mount` the cgroup file system. A path that the mount does not show (a container
// sees its own group as the root) falls back to the mount's root; every ancestor's quota counts.
int CgroupCpus(const std::string& cgroup_file, const std::string& mount);
// The smaller of the two for this process; never below 1.
int AllowedCpus();

}  // namespace opsnn

#endif  // OPSNN_BASE_CPU_COUNT_H_
