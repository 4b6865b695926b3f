// Session: a loaded model, ready to be prepared for shapes and run.
//
// Loading does once what does not depend on shapes: constants, identities, batch norms folded into weights,
// decomposed activations and norms recognised. Preparing for concrete input shapes then takes a few
// milliseconds and no compilation: shapes are inferred (folding shape arithmetic by running it), edges are
// put before the judge and fused, layouts assigned, every node planned to a kernel, memory laid out. Prepared
// forms are kept in a byte-bounded LRU; packed weights and the memory for activations are kept once per
// session and shared by all of them.
//
// A model may compute shapes from values that are fed (a target size, an axis). Where planning turns out to
// need them, the values of small inputs become part of what is prepared for, like shapes.
//
// Where a size depends on values that only a run tells, the model is cut: what lies behind is planned during
// the run (stages.h).
//
// An initialiser that the model also lists as an input is a constant until a caller feeds it; then a second
// session takes over in which it is an input.
//
// Run may be called from several threads; runs of one prepared form queue behind each other.
#ifndef OPSNN_GRAPH_SESSION_H_
#define OPSNN_GRAPH_SESSION_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/knobs.h"
#include "device/profile.h"
#include "graph/buckets.h"
#include "graph/ir/graph.h"
#include "graph/pass_manager.h"
#include "graph/prepared.h"

namespace opsnn::graph {

// Some sixteen sizes of a model of a hundred steps. Beyond that, planning a size again for a millisecond is
// better than memory that grows with every size.
inline constexpr size_t kMostFormBytes = size_t{4} << 20;

// Graph node, values, kernel and programs of one step: 1.3 KiB measured on models of convolutions, more where
// programs are longer.
inline constexpr size_t kBytesPerStep = 2 << 10;

struct SessionOptions {
  FusionMode fusion = GetKnobs().fusion;
  NumericsPolicy policy = GetKnobs().policy;
  std::string passes_off = GetKnobs().fusion_off;  // comma-separated names; unknown ones are an error
  // Of all prepared forms together (kMostFormBytes at most), and of buffers that wait for a run; the newest
  // of either always stays.
  size_t cache_bytes = static_cast<size_t>(GetKnobs().model_cache_bytes);
  size_t idle_pack_bytes = static_cast<size_t>(GetKnobs().weight_cache_bytes);  // no prepared form uses them
  // Fusing may keep operands alive for longer. A form whose activations need more than this times what they
  // need unfused is planned with fewer fusions; 0: as much as it takes.
  double peak_limit = 1.5;
  // What the judge assumes of products and convolutions: ContractionEdge's fields of the same names.
  bool training = false, precision_first = false;
  int concurrent = 1;
};

class PlanTemplate;  // plan_template.h

// A contiguous tensor of the caller's; read during the run only.
struct FeedView {
  DType dtype = DType::kF32;
  Dims dims;
  const void* data = nullptr;
};

using Feeds = std::map<std::string, ConstTensor>;
using FeedViews = std::map<std::string, FeedView>;
using Shapes = std::map<std::string, Dims>;

// A contiguous tensor of the caller's that a run may write.
struct OutputView {
  DType dtype = DType::kF32;
  Dims dims;
  void* data = nullptr;
};

struct RunOptions {
  bool time_nodes = false;
  // By output. Where dtype and dims are those of the result it is written there, and RunResult::outputs is
  // null at that place. The memory must belong to no feed and no other output.
  std::vector<OutputView> outputs;
  // Called after each step with every value it produced, in logical order; slow, for verify and debugging.
  std::function<void(const Node&, const std::string& value, ConstTensor)> capture;
};

struct RunResult {
  std::vector<ConstTensor> outputs;  // in the model's order
  std::vector<double> step_us;       // by steps of prepared and later, with time_nodes
  std::shared_ptr<const Prepared> prepared;
  std::vector<std::shared_ptr<const Prepared>> later;  // what was planned during the run, in order
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> Create(Graph imported, SessionOptions options = {});

  // The border of the model: feeds and results in order, unknown dims as kUnknownDim with their names.
  std::vector<const Value*> inputs() const;
  std::vector<const Value*> outputs() const;

  // Plans for these shapes (every input by name), or returns the plan made before. An error names input, what
  // was given and what is allowed; or the node that does not accept these shapes.
  // `values` are feeds whose values shapes are computed from (they also give the shape of their input). Where
  // sizes depend on values that only a run tells, it is the plan of what comes before.
  // `cut` tells whether that is so.
  Result<std::shared_ptr<const Prepared>> Prepare(const Shapes& shapes, const Feeds& values = {},
                                                  bool* cut = nullptr);
  // May one dim be padded and results be cropped? `shapes` has it at `size`; axes[i] is its place in input i,
  // or -1. The axes of the results, or an error that names the node that mixes elements along it (buckets.h).
  Result<std::vector<BucketAxis>> OwnRows(const Shapes& shapes, const std::vector<int>& axes,
                                          int64_t size) const;
  // Plans for likely sizes, which packs the weights, so that the first run need not: those that the model
  // states, and where it leaves them open a guess. What cannot be planned so is left to the first run. Before
  // others use the session.
  void PrepareAhead();
  Result<RunResult> Run(const Feeds& feeds, const RunOptions& options = {});
  Result<RunResult> RunViews(const FeedViews& feeds, const RunOptions& options = {});
  // The same with one feed for each of inputs(), in their order: nothing is looked up by name.
  Result<RunResult> RunInOrder(std::span<const FeedView> feeds, const RunOptions& options = {});
  // One decision per edge that could fuse, for any device; plans nothing. `values` as for Prepare.
  Result<std::vector<plan::Decision>> Decide(const Shapes& shapes, const device::DeviceProfile& profile,
                                             const Feeds& values = {}) const;
  // The same with those of the stages behind a cut, for which what comes before is run; feeds of every input.
  Result<std::vector<plan::Decision>> DecideStages(const Feeds& feeds, const device::DeviceProfile& profile);

  const Graph& imported() const { return imported_; }  // as read, before any pass
  const Graph& loaded() const { return loaded_; }      // after the passes of loading
  const std::vector<PassStat>& load_stats() const { return load_stats_; }
  const SessionOptions& options() const { return options_; }
  size_t weight_bytes() const { return packs_->stats().bytes; }  // packed weights held now
  CacheStats form_stats() const;                                 // prepared forms
  CacheStats pack_stats() const { return packs_->stats(); }      // packed weights
  size_t arena_bytes() const { return arenas_->bytes(); }        // memory for activations, between runs
  size_t constant_bytes() const;  // constants as imported and as loaded, each once

 private:
  Session(Graph imported, SessionOptions options)
      : imported_(std::move(imported)),
        options_(std::move(options)),
        arenas_(std::make_shared<ArenaPool>(options_.cache_bytes)) {}
  bool IsExact() const { return options_.policy == NumericsPolicy::kExact; }
  Status Load();
  // What a prepared form is for: a shape per input, and the values that planning may rely on (else null).
  struct Key {
    std::vector<Dims> dims;
    std::vector<ConstTensor> values;
    bool operator==(const Key& o) const;
  };
  Result<Key> MakeKey(const Shapes& shapes, const Feeds& values) const;
  // What runs for a key: a plan, and where sizes depend on values a session for what is behind it.
  struct Stage {
    std::unique_ptr<Session> rest;
    std::vector<int> handed, from_head;  // as in Split
  };
  struct Form {
    std::shared_ptr<const Prepared> prepared;
    std::shared_ptr<const Stage> stage;  // null: the plan is all
  };
  // The graph for these shapes, its sizes known; with `stage` cut where they are not.
  Result<Graph> Concrete(const Key& key, std::vector<PassStat>* stats,
                         std::shared_ptr<const Stage>* stage) const;
  // Gives the inputs of g what the key says of them.
  static void SetInputs(const Key& key, Graph* g);
  // What activations may need at once: `limit` bytes, as far as the unfused graph tells in passing.
  struct PeakGuard {
    bool bounded = false;
    double limit = 0;
  };
  PeakGuard GuardFor(const Graph& unfused) const;
  // `record`: with a decision per edge.
  // The passes for these shapes, but those in the list `off`.
  Result<Graph> Pass(Graph g, const device::DeviceProfile& profile, bool record, const std::string& off,
                     std::vector<PassStat>* stats) const;
  Status RunPreparePasses(bool keep, const std::string& off, Graph& g, PassContext& c,
                          std::vector<PassStat>* stats) const;
  PassContext ContextFor(const device::DeviceProfile& profile, bool record) const;
  // The graph behind all passes as a template makes it, sizes inferred where the graph of the last plan lies.
  // None where no template fits; errors are found again on the long way.
  std::optional<Graph> FromTemplate(const Key& key, const device::DeviceProfile& profile,
                                    std::vector<PassStat>* stats, PeakGuard* guard) const;
  // Planned again from `before` with fewer passes, where activations need more than the limit.
  Result<std::optional<Graph>> WithinPeak(size_t peak, const Graph& before,
                                          const device::DeviceProfile& profile, bool record,
                                          std::vector<PassStat>* stats) const;
  // `guard`: what the caller holds the peak against, who then asks WithinPeakFor; null: it is done here.
  Result<Graph> Optimise(const Key& key, const device::DeviceProfile& profile, bool record,
                         std::vector<PassStat>* stats, std::shared_ptr<const Stage>* stage,
                         PeakGuard* guard = nullptr) const;
  // None: the graph whose peak that is needs no more than the limit after all, or nothing less is found.
  Result<std::optional<Graph>> WithinPeakFor(const Key& key, size_t peak,
                                             const device::DeviceProfile& profile, bool record,
                                             std::vector<PassStat>* stats, bool may_cut) const;
  // Graph, kernels and memory for a key.
  Result<std::shared_ptr<const Prepared>> Plan(const Key& key, std::shared_ptr<const Stage>* stage) const;
  Result<Form> PrepareFor(const Key& key, bool may_cut);
  bool FindNewest(std::span<const FeedView> feeds, Form* form);
  bool NeedsValues(const Key& key) const;
  Result<Form> PrepareForFeeds(Key key, const std::vector<FeedView>& feeds);
  Result<Form> PrepareWithValues(Key key, const std::vector<FeedView>& feeds, Status first);
  // Outputs of the head where the caller lends memory for them.
  static std::vector<OutputView> LentToHead(const Stage& stage, const RunOptions& options);
  static Status RunRest(const Stage& stage, const FeedViews& feeds, const std::vector<OutputView>& lent,
                        const RunOptions& options, RunResult* r);

  Graph imported_, loaded_;
  SessionOptions options_;
  std::vector<PassStat> load_stats_;
  std::shared_ptr<WeightPacks> packs_ =
      std::make_shared<WeightPacks>();  // of the session and of its later stages
  std::shared_ptr<ArenaPool> arenas_;
  std::vector<ValueId> declared_;  // of loaded_: whom what the model declares is about
  std::unordered_set<const HostTensor*> shared_constants_;  // of loaded_: they cost a prepared form nothing

  struct Entry {
    Key key;
    Form form;
    size_t bytes;
  };
  size_t FormBytes(const Prepared& p) const;
  std::optional<Key> LikelyKey() const;
  Form Keep(const Key& key, Form form);
  // The session in which those defaults among `names` are inputs; null where there are none.
  template <typename Map>
  Result<std::shared_ptr<Session>> WithFedDefaults(const Map& names) const;

  bool has_bodies_ = false;  // loaded_ holds graphs in nodes
  mutable std::mutex scratch_mutex_;
  mutable std::optional<Graph> scratch_;  // a copy of loaded_ that sizes are inferred in, and only those

  mutable std::mutex mutex_;                              // guards what follows
  mutable std::shared_ptr<const PlanTemplate> template_;  // what the passes made of the last sizes
  CacheStats form_stats_;
  std::vector<Entry> cache_;  // newest first
  // What the last new form took the place of: freed by whoever finds a form or makes the next one, so that
  // the first run of a size does not wait for that.
  std::vector<Entry> dropped_;
  std::optional<Key> ahead_;                    // of a form made by PrepareAhead that no run asked for yet
  mutable std::set<std::string> fed_defaults_;  // of the last such session
  mutable std::shared_ptr<Session> with_defaults_;
  std::atomic<bool> values_matter_{false};  // planning failed without the values of small inputs
  std::atomic<bool> cut_{false};            // sizes depend on values that only a run tells
  std::set<std::string> decisive_;          // inputs of any size whose values are part of the key
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_SESSION_H_
