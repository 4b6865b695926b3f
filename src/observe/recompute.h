// One run of a model with every value kept, and its parts recomputed in double precision.
#ifndef OPSNN_OBSERVE_RECOMPUTE_H_
#define OPSNN_OBSERVE_RECOMPUTE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/session.h"
#include "observe/error_model.h"

namespace opsnn::observe {

using Captured = std::map<std::string, ConstTensor>;
using Descs = std::map<std::string, op::TensorDesc>;

// A run: what each step produced, by value name.
struct Form {
  Captured captured;  // feeds too
  std::vector<std::pair<const graph::Node*, std::vector<std::string>>> steps;
  std::vector<ConstTensor> outputs;
  // Values that hold those of the model in another order, by name: the model's name. They are captured in the
  // model's order.
  std::map<std::string, std::string> of_model;
  const std::string& OfModel(const std::string& value) const;
  std::vector<std::string> OfModel(std::vector<std::string> values) const;
  std::vector<std::shared_ptr<const graph::Prepared>> prepared;  // hold the nodes
};
Result<Form> RunForm(graph::Session& session, const graph::Feeds& feeds);

// Descs of all values of an imported graph for these feeds, by name; those of `form` where inference finds
// none.
Descs InferDescs(const graph::Graph& imported, const graph::Feeds& feeds, const Form& form);

// The imported graph with what these feeds make run in the place of control flow, as far as that can be told
// before a run. Its nodes are its own origins.
Result<graph::Graph> WithChosenBodies(const graph::Graph& imported, const graph::Feeds& feeds);

// Recomputes nodes of the imported graph from the values that a run really read.
class Recomputer {
 public:
  // rewritten: chains of several nodes may have been rewritten (the excess policy).
  Recomputer(const graph::Graph& imported, const Captured& captured, const Descs& descs, bool rewritten);

  // Errors that values carry when they are read: by value name, elements in order. For values that were not
  // captured the error found by Evaluate is kept. Used to see how far differences travel.
  void SetError(const std::string& value, std::vector<double> error) { errors_[value] = std::move(error); }

  // Evaluates `nodes` (ids of the imported graph) in order; their results stay until the next call. Other
  // values are read as captured; those that were folded away are recomputed from what they depend on.
  // `winograd`: the tile with which a Conv among the nodes ran. Where one of `values` bears the name of what
  // identities behind the nodes give, these are evaluated too.
  Status Evaluate(std::vector<graph::NodeId> nodes, int winograd, const std::vector<std::string>& values);
  // Another form of the model may have rewritten the chain inside which values that `hidden` names lie: what
  // a sum among them rounds by there, relative to its terms.
  void WatchSums(std::function<bool(const std::string&)> hidden) { hidden_ = std::move(hidden); }
  // Of a result of the last Evaluate; null where it is no such sum.
  const std::vector<double>* SumRounding(const std::string& value) const;
  // Did the last Evaluate read folded arithmetic, which has errors of its own beside those of SetError?
  bool read_folded() const { return read_folded_; }
  // A result of the last Evaluate, or null.
  const Bounded* Local(const std::string& value) const;
  // Any value of the imported graph, as captured or recomputed.
  Result<const Bounded*> Read(const std::string& value);

 private:
  using Map = std::unordered_map<graph::ValueId, Bounded>;
  Result<const Bounded*> Find(graph::ValueId v);
  Status EvaluateNode(const graph::Node& n, Map* into);
  void AddIdentities(const std::string& value, std::vector<graph::NodeId>* nodes) const;
  void Release();

  const graph::Graph& g_;
  const Captured& captured_;
  const Descs& descs_;
  const bool rewritten_;
  bool in_chain_ = false, read_folded_ = false;
  int winograd_ = 0;
  std::function<bool(const std::string&)> hidden_;
  std::unordered_map<std::string, std::vector<double>> sums_;  // of the last Evaluate
  std::unordered_map<std::string, graph::ValueId> ids_;
  std::vector<int> reads_left_;  // by value: readers that have not been evaluated
  // By value: a reader was not captured, so that it is evaluated again for each of its own readers.
  std::vector<bool> read_again_;
  std::vector<graph::ValueId> read_now_;
  std::map<std::string, std::vector<double>> errors_;
  Map local_;                                  // of the node being checked
  std::unordered_set<graph::ValueId> folded_;  // of read_: computed here, and not exact
  Map read_;  // captured values and folded arithmetic, as f64; dropped after their last reader
};

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_RECOMPUTE_H_
