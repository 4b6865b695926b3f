// Prepared: a model planned for concrete input shapes: the optimised graph, one kernel per step and the
// memory plan. The memory itself is taken from the session for the time of a run.
#ifndef OPSNN_GRAPH_PREPARED_H_
#define OPSNN_GRAPH_PREPARED_H_

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "graph/arena_pool.h"
#include "graph/ir/graph.h"
#include "graph/memory_plan.h"
#include "graph/pass_manager.h"

namespace opsnn::graph {

struct RunOptions;
struct FeedView;

// What a cache did since the session was made, and what it holds.
struct CacheStats {
  int64_t hits = 0, misses = 0, evictions = 0;
  size_t entries = 0, bytes = 0;
};

// Packed weights and constants in other layouts, made once and shared by all prepared forms of a session.
// Those that a form uses live as long as it does; of the others the least recently used go first when they
// exceed the bound. A pack counts the buffers that it holds, or as many bytes as the constant that it was
// made from where it holds none.
class WeightPacks : public op::PackCache {
 public:
  std::shared_ptr<const void> GetOrMake(const ConstTensor& constant, const std::string& key,
                                        FunctionRef<std::shared_ptr<const void>()> make) override;
  // Drops packs of constants that nobody else holds any more, then the oldest idle ones beyond `idle_bytes`.
  void Trim(size_t idle_bytes);
  CacheStats stats() const;

 private:
  struct Pack {
    ConstTensor constant;  // kept alive: its address is part of the key
    std::shared_ptr<const void> data;
    size_t bytes = 0;
    int64_t used = 0;  // the newest look-up has the largest number
    bool Idle() const { return data.use_count() == 1; }
  };
  using Packs = std::map<std::pair<const HostTensor*, std::string>, Pack>;
  void DropOrphans();
  std::shared_ptr<const void> Find(const ConstTensor& constant, const std::string& key);  // null: not there

  mutable std::mutex mutex_;
  Packs packs_;
  CacheStats stats_;
  int64_t clock_ = 0;
};

// One node of the optimised graph as it runs, for tables and traces.
struct Step {
  NodeId node = -1;         // in graph()
  op::KernelPtr kernel;     // null for a view: nothing runs
  int64_t bytes_moved = 0;  // inputs read and outputs written, by their definition
  size_t live_bytes = 0;    // of the arena while it runs (the memory curve)
  std::string variant() const { return kernel ? kernel->variant() : "view"; }
};

class Prepared {
 public:
  // Plans kernels and memory for an optimised graph; an error if it would need more memory than is allowed.
  static Result<std::shared_ptr<const Prepared>> Make(Graph graph, op::PackCache* packs,
                                                      std::vector<PassStat> pass_stats,
                                                      std::shared_ptr<ArenaPool> arenas, bool exact);

  const Graph& graph() const { return graph_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<PassStat>& pass_stats() const { return pass_stats_; }
  const MemoryPlan& memory() const { return memory_; }
  size_t peak_bytes() const { return memory_.arena_bytes; }
  int64_t bytes_moved() const;
  int nodes_run() const;  // steps that compute something
  size_t io_bytes() const { return io_bytes_; }
  double kernels_us() const { return kernels_us_; }  // planning them, and packing weights where they were new
  double memory_us() const { return memory_us_; }    // laying out memory

  // Feeds by position, already checked. Outputs are new tensors.
  Result<std::vector<ConstTensor>> Run(std::span<const FeedView> feeds, const RunOptions& options,
                                       std::vector<double>* step_us) const;

 private:
  Prepared() = default;
  Status PlanSteps(op::PackCache* packs, bool exact);
  Status CheckMemory() const;
  void Bind();
  void Rebase(char* arena) const;
  Status RunSteps(const RunOptions& options, std::vector<double>* step_us) const;
  Status Capture(const Step& step, const RunOptions& options) const;
  void PrintTrace(const std::vector<double>& us) const;  // OPSNN_VERBOSE=trace
  void* AddressOf(ValueId v) const;

  // Where an address goes before a run: a graph input's or output's, or one in the arena.
  struct Patch {
    size_t slot;    // in pointers_
    size_t io;      // in io_
    size_t offset;  // bytes from there, or from the start of the arena
  };
  struct Range {
    size_t inputs, outputs;  // first slot in pointers_
  };

  Graph graph_;
  std::vector<Step> steps_;
  std::vector<PassStat> pass_stats_;
  MemoryPlan memory_;
  size_t io_bytes_ = 0;
  double kernels_us_ = 0, memory_us_ = 0;
  std::vector<Range> ranges_;  // by step
  std::vector<Patch> io_patches_, arena_patches_;
  std::shared_ptr<ArenaPool> arenas_;
  mutable char* arena_ = nullptr;        // that arena_patches_ were applied for; guarded by mutex_
  mutable std::vector<void*> pointers_;  // operands of all steps; guarded by mutex_
  mutable std::vector<void*> io_;        // addresses of the run: inputs, then outputs; guarded by mutex_
  mutable std::mutex mutex_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PREPARED_H_
