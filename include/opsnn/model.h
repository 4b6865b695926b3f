// Model: load an ONNX file, run it, and ask what was fused, why, and whether it is right.
//
//   auto model = opsnn::Model::Load("rec.onnx", {});
//   if (!model.ok()) { std::puts(model.status().message().c_str()); return 1; }
//   auto outputs = model->Run({{"x", tensor}});
//
// A Model may be used from several threads; runs of one shape queue behind each other.
#ifndef OPSNN_MODEL_H_
#define OPSNN_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opsnn/decision.h"
#include "opsnn/export.h"
#include "opsnn/status.h"
#include "opsnn/tensor.h"

namespace opsnn {

namespace api {
struct ModelAccess;
}

enum class Fusion { kAuto, kOff, kForce };  // the judge decides / nothing is fused / wherever it is legal
enum class Policy { kExcess, kExact };      // may fusing drop an intermediate rounding, or is it kept?

// One dim of an input whose sizes are padded to the next of a few, so that few plans serve all sizes; zeros
// go in, results are cropped. Only where every element along the dim is computed by itself (a batch, tokens
// of a network that does not mix them): a run of another model is an error that names the node that mixes
// them. Other inputs whose dim has the same name are padded with it.
struct SizeBuckets {
  std::string input;
  int dim = 0;
  std::vector<int64_t> sizes;  // ascending; empty: 256, 512, 1024, 2048. Beyond the last: multiples of it.
};

struct ModelOptions {
  std::optional<Fusion> fusion;  // unset: what the knob says (OPSNN_FUSION)
  std::optional<Policy> policy;  // unset: what the knob says (OPSNN_POLICY)
  std::vector<std::string>
      passes_off;  // names of graph passes that do not run; Model::PassNames() lists them
  // Fusing may keep operands alive for longer: a form whose activations need more than this times what they
  // need unfused is planned with fewer fusions (from 16 MiB of activations on). 0: as much as it takes.
  double peak_limit = 1.5;
  // What the planner assumes of products and convolutions: the backward pass follows; weights are quantised
  // and activations cheap, so that precision comes first; operators that run at the same time and share the
  // on-chip memories (1 to 4096).
  bool training = false, precision_first = false;
  int concurrent = 1;
  // Loading plans for the sizes that the model states, or likely ones where it leaves them open: the first
  // run then finds its weights packed. false: that is left to the first run.
  bool prepare_ahead = true;
  std::optional<SizeBuckets> buckets;
};

struct ValueInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;           // -1 where only known at run time
  std::vector<std::string> dim_names;  // symbolic name of such a dim, "" elsewhere
};

using Feeds = std::map<std::string, Tensor>;
using Shapes = std::map<std::string, std::vector<int64_t>>;

struct NodeTime {
  std::string node, op, variant;  // model node, operator with its fused tail, kernel variant
  std::string shape;              // of the first output
  double us = 0;
  int64_t bytes = 0;       // read and written by its definition
  int64_t live_bytes = 0;  // of the activations that live while it runs: over all nodes, the memory curve
  double operations =
      -1;  // multiplications, additions and the like, of the fused tail as well; -1: not known
};

// What a node moves and computes, counted from shapes, tiles and the levels of a device profile.
struct NodeTraffic {
  std::string node, op;
  std::string unit;        // that the kernel runs on: "cube", "vector", "data" (moves only), "control"
  double operations = -1;  // as in NodeTime
  // Operands and results by the level where they live between operators: memory, the shared cache, and on the
  // host a core's own one.
  double hbm_bytes = 0, l2_bytes = 0, l1_bytes = 0;
  double ub_bytes = 0;      // what vector instructions load and store
  double l0c_bytes = 0;     // sums that leave the accumulators
  double loaded_bytes = 0;  // A and B as brought to the cube: once per block that needs them
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;  // of a product; 0 elsewhere
};

// What came before a run, by the layer that took the time: the model file, what loading rewrites, and of the
// plan that ran shapes, passes, the judge's verdicts (part of the passes), kernels with packing of weights
// that were new, and memory.
struct PlanTimes {
  double import_us = 0, load_us = 0;
  double shapes_us = 0, passes_us = 0, judge_us = 0, kernels_us = 0, memory_us = 0;
  int edges = 0, fused = 0;                             // the judge was asked about, and what it fused
  std::vector<std::pair<std::string, double>> pass_us;  // of those that run for every size
  double plan_us() const { return shapes_us + passes_us + kernels_us + memory_us; }
};

// Unused stretches of the arena while a node runs: how many, all of them, the largest.
struct ArenaHoles {
  std::string node;
  int count = 0;
  int64_t bytes = 0, largest_bytes = 0;
};

struct RunStats {
  std::vector<NodeTime> nodes;  // filled by RunProfiled, in execution order
  int64_t peak_bytes = 0;       // of the memory plan: activations, not weights
  int64_t bytes_moved = 0;      // sum over nodes of bytes read and written
  // What the model holds beside activations: weights as read and as folded, weights packed for kernels,
  // plans.
  int64_t constant_bytes = 0, weight_bytes = 0, plan_bytes = 0;
  int64_t plans_made = 0, plans_found = 0;  // by all runs so far
  int nodes_imported = 0, nodes_run = 0;    // before and after the passes
  // How the memory plan with the largest peak was made.
  int64_t live_peak_bytes = 0;  // most that lives at once: no plan needs less
  int64_t io_bytes = 0;         // inputs and outputs, which are the caller's
  int views = 0, in_place = 0;  // results that needed no memory of their own
  std::string memory_strategy;  // "size, smallest gap"; every one that was tried with its need
  std::vector<std::pair<std::string, int64_t>> memory_tried;
  // Its fragmentation: what lies unused where the most lives, and where the least of it is in one piece; what
  // alignment adds to all buffers.
  ArenaHoles holes_at_peak, holes_most_scattered;
  int64_t padding_bytes = 0;
  // Buffers of the process that are none of the above: scratch of kernels, kept by every thread, blocks that
  // wait to be used again, and what other models hold.
  int64_t scratch_bytes = 0, idle_bytes = 0;
  int64_t idle_blocks = 0, idle_largest_bytes = 0;  // how many wait, and the largest
  // Everything that running it holds, inputs and outputs included; activations of the largest plan so far.
  int64_t total_bytes = 0;
  PlanTimes times;
};

struct NodeCheck {
  std::string node, op;
  double cosine = 1, max_abs = 0, max_rel = 0;
  // Of the element whose error is the largest share of what it may be: its bound by docs/numerics.md, and
  // that share (above 1 is out of bounds).
  double bound = 0, share = 0;
  bool ok = true;
  bool checked = true;  // false: there is no reference to compare with
  std::string note;     // why not checked, or what is wrong
};

struct VerifyReport {
  bool ok = true;
  int nodes = 0;          // values checked, fused and unfused
  int unchecked = 0;      // values without a reference
  NodeCheck worst;        // closest to (or furthest over) its bound
  std::string first_bad;  // "" when all are in bounds
  std::vector<NodeCheck> checks;
  std::string first_difference;  // first value where fused and unfused differ more than they may, in words
  std::string guilty_pass;       // graph pass that causes the failure; "" when none does
};

// A convolution of a model: every algorithm there is for it, best first. One runs; the others say why not.
struct ConvolutionChoice {
  struct Candidate {
    std::string name;
    std::string refused;  // empty: it runs
    double multiply_adds = 0;
    int64_t buffer_bytes = 0;  // written and read between input and output
  };
  std::string node, shape;
  std::vector<Candidate> candidates;
  std::string padding;  // what padding channels to blocks costs; empty where there is none
};

class OPSNN_API Model {
 public:
  // An ONNX file, or a text that Save wrote.
  static Result<Model> Load(const std::string& path, const ModelOptions& options = {});
  static Result<Model> LoadBytes(const void* data, size_t size, const ModelOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const std::vector<ValueInfo>& inputs() const;
  const std::vector<ValueInfo>& outputs() const;

  // Feeds by input name; the outputs in the model's order. Errors name the input, what it got, what is
  // allowed.
  Result<std::vector<Tensor>> Run(const Feeds& feeds);
  // The same into tensors of the caller's, such as the outputs of an earlier run: a loop over one shape then
  // allocates nothing. An element of another dtype or shape, or a list of another length, is replaced. Their
  // memory may not overlap a feed or each other (invalid argument). After an error the contents are
  // unspecified.
  Status Run(const Feeds& feeds, std::vector<Tensor>* outputs);
  // The same with the time of every node.
  Result<std::vector<Tensor>> RunProfiled(const Feeds& feeds, RunStats* stats);
  // Plans for these input shapes without running: memory peak, bytes moved, node counts. `values` are inputs
  // that shapes are computed from (a target size, an axis); they also give the shape of their input. A model
  // in which sizes depend on values that only a run tells is run once for it, on `values` and random numbers.
  Result<RunStats> Plan(const Shapes& shapes, const Feeds& values = {});
  // One decision per edge that could fuse, for a device profile ("" = the profile knob); `values` and runs as
  // above.
  Result<std::vector<plan::Decision>> Explain(const Shapes& shapes, const std::string& profile = "",
                                              const Feeds& values = {});
  // What every kernel of the model as it runs on the host moves, by the levels of a device profile; `values`
  // as above.
  Result<std::vector<NodeTraffic>> Traffic(const Shapes& shapes, const std::string& profile = "",
                                           const Feeds& values = {});
  // The algorithm of every convolution as it runs on the host; `values` as above.
  Result<std::vector<ConvolutionChoice>> Convolutions(const Shapes& shapes, const Feeds& values = {});
  // Runs fused and unfused, recomputes every node in double precision on that node's own inputs and compares.
  // progress(done, total) is called now and then.
  Result<VerifyReport> Verify(const Feeds& feeds, const std::function<void(int, int)>& progress = nullptr);
  // Shapes of all inputs: as given; of the others a named dim is what a given input has under that name, and
  // what is then still free is 1. `assumed` takes the names of inputs with such a 1.
  Shapes FillShapes(const Shapes& given, std::vector<std::string>* assumed = nullptr) const;
  // Random inputs for all model inputs: floats uniform in [-1, 1), integers in [0, 8), bools. Dims by
  // FillShapes. The same seed gives the same values on every machine.
  Result<Feeds> RandomFeeds(const Shapes& shapes, uint64_t seed) const;
  std::string Dump(const Shapes& shapes, const Feeds& values = {});  // readable text of the optimised graph

  // Writes the graph as it was read, weights included, as text that Load reads (docs/graph.md). Not for
  // models with graphs inside nodes (If, Loop, Scan).
  Status Save(const std::string& path) const;

  static std::vector<std::string> PassNames();

 private:
  friend struct api::ModelAccess;
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opsnn

#endif  // OPSNN_MODEL_H_
