// Memory plan: which values share which bytes.
//
// Values that are the same bytes (views, results computed in place) form one buffer. Buffers live from the
// step that writes them to the last step that reads them; those of the arena get offsets such that buffers
// alive at the same time do not overlap. Several ways to place them are tried, the smallest arena wins.
#ifndef OPSNN_GRAPH_MEMORY_PLAN_H_
#define OPSNN_GRAPH_MEMORY_PLAN_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

enum class BufferKind : uint8_t {
  kArena,
  kInput,   // the caller's feed, read only
  kOutput,  // the tensor that the caller gets, written directly
  kConstant,
};

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  size_t bytes = 0;
  int first = 0, last = 0;      // steps
  size_t offset = 0;            // in the arena
  int index = -1;               // which graph input or output
  ValueId constant = kNoValue;  // kConstant: the value that holds the data
};

struct MemoryPlan {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;                          // by value; -1: not used
  std::vector<size_t> offset_of;                       // by value: bytes from the start of its buffer
  std::vector<size_t> workspace_offset;                // by step
  std::vector<std::pair<ValueId, int>> output_copies;  // outputs that share bytes with something else: copied
  size_t arena_bytes = 0;                              // the printed peak
  size_t live_peak = 0;                                // largest sum of live buffers: no plan can be smaller
  size_t value_peak = 0;                               // the same without workspaces: PeakOf the graph
  std::vector<size_t> curve;                           // live bytes by step
  size_t in_place = 0, views = 0;                      // outputs that needed no memory of their own
  std::string strategy;                                // how the offsets were chosen, see placement.h
  std::vector<std::pair<std::string, size_t>> tried;   // what each way that was tried needed
};

// `workspace[i]` is what node i needs while it runs, `is_view[i]` is true for nodes that run
// nothing. The graph is in topological order and its nodes run in that order.
MemoryPlan PlanMemory(const Graph& g, const std::vector<size_t>& workspace, const std::vector<bool>& is_view);

// Bytes of activations that live at once where nothing runs but the nodes themselves (no workspaces), and the
// sum over all of them, which is faster to know and never smaller.
size_t PeakOf(const Graph& g);
size_t ActivationBytes(const Graph& g);
// A lower bound of PeakOf for a graph without fused nodes, in a tenth of the time.
size_t LeastPeak(const Graph& g);

// Does nothing have to run for this node: is its result the same bytes as its operand?
bool CanAlias(const Graph& g, const Node& n);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_MEMORY_PLAN_H_
