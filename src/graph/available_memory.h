// How much memory this process may still take.
#ifndef OPSNN_GRAPH_AVAILABLE_MEMORY_H_
#define OPSNN_GRAPH_AVAILABLE_MEMORY_H_

#include <cstddef>

namespace opsnn::graph {

// The smaller of what the system has available and what the process's cgroup leaves; SIZE_MAX where neither
// can be read.
size_t AvailableMemory();

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_AVAILABLE_MEMORY_H_
