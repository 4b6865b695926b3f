// Prepared: a model planned for concrete input shapes: the optimised graph, one kernel per step, the memory
// plan and the arena.
#ifndef OPSNN_GRAPH_PREPARED_H_
#define OPSNN_GRAPH_PREPARED_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "graph/ir/graph.h"
#include "graph/memory_plan.h"
#include "graph/pass_manager.h"

namespace opsnn::graph {

struct RunOptions;

// Packed weights and constants in other layouts, made once and shared by all prepared forms of a session.
class WeightPacks : public op::PackCache {
 public:
  std::shared_ptr<const void> GetOrMake(const ConstTensor& constant, const std::string& key,
                                        FunctionRef<std::shared_ptr<const void>()> make) override;
  size_t bytes() const;  // of the constants that packs were made from: what the packs hold, roughly
  size_t entries() const;

 private:
  struct Pack {
    ConstTensor constant;  // kept alive: its address is part of the key
    std::shared_ptr<const void> data;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<const HostTensor*, std::string>, Pack> packs_;
};

// One node of the optimised graph as it runs, for tables and traces.
struct Step {
  NodeId node = -1;         // in graph()
  op::KernelPtr kernel;     // null for a view: nothing runs
  std::string variant;      // "view" for a view
  int64_t bytes_moved = 0;  // inputs read and outputs written, by their definition
  size_t live_bytes = 0;    // of the arena while it runs (the memory curve)
};

class Prepared {
 public:
  // Plans kernels and memory for an optimised graph; an error if it would need more memory than is allowed.
  static Result<std::shared_ptr<const Prepared>> Make(Graph graph, op::PackCache* packs,
                                                      std::vector<PassStat> pass_stats);

  const Graph& graph() const { return graph_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<PassStat>& pass_stats() const { return pass_stats_; }
  const MemoryPlan& memory() const { return memory_; }
  size_t peak_bytes() const { return memory_.arena_bytes; }
  int64_t bytes_moved() const;
  int nodes_run() const;  // steps that compute something
  size_t io_bytes() const { return io_bytes_; }

  // Feeds by position, already checked. Outputs are new tensors.
  Result<std::vector<ConstTensor>> Run(const std::vector<ConstTensor>& feeds, const RunOptions& options,
                                       std::vector<double>* step_us) const;

 private:
  Prepared() = default;
  Status PlanSteps(op::PackCache* packs);
  Status CheckMemory() const;
  Status Bind();
  Status Capture(const Step& step, const RunOptions& options) const;
  void PrintTrace(const std::vector<double>& us) const;  // OPSNN_VERBOSE=trace
  void* AddressOf(ValueId v) const;

  // Where a graph input's or output's address goes before a run.
  struct Patch {
    size_t slot;  // in pointers_
    int index;    // of the graph input or output
    bool is_input;
  };
  struct Range {
    size_t inputs, outputs;  // first slot in pointers_
    void* workspace;
  };

  Graph graph_;
  std::vector<Step> steps_;
  std::vector<PassStat> pass_stats_;
  MemoryPlan memory_;
  size_t io_bytes_ = 0;
  std::vector<Range> ranges_;  // by step
  std::vector<Patch> patches_;
  AlignedBuffer arena_;
  mutable std::vector<void*> pointers_;  // operands of all steps; guarded by mutex_
  mutable std::vector<void*> io_;        // addresses of the run: inputs, then outputs; guarded by mutex_
  mutable std::mutex mutex_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PREPARED_H_
