// PlanTemplate: what the passes before layouts made of a model of images, kept for the next size.
//
// Most sizes of a model are fused alike. What passes decide by is: which dims are equal, which are 0 or 1,
// channels, small constants, and the judge's verdicts. A template remembers the graph before and behind the
// passes, and each verdict as a question that can be asked again of other sizes. Where nothing has another
// answer the passes would make the same of the new sizes: its nodes are taken over. Layouts, Winograd's
// tiles, parts in place, kernels and memory are decided for the new sizes always.
//
// Only graphs whose passes are known to decide by nothing else are served: products of matrices, transposes
// and row operators ask more of sizes.
#ifndef OPSNN_GRAPH_PLAN_TEMPLATE_H_
#define OPSNN_GRAPH_PLAN_TEMPLATE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/pass_manager.h"

namespace opsnn::graph {

enum class Answer : uint8_t { kNo, kYes, kOther };  // kOther: in part, by regions

// The judge's verdicts while passes run, and how to ask for them again: of a graph as it is before the
// passes, with values of the same ids.
class Questions {
 public:
  using Ask = std::function<Answer(const Graph&, const PassContext&)>;

  // Called by whoever asks the judge; each must be kept.
  void Asked() { ++asked_; }
  // `judged`: the judge was asked for it.
  void Keep(Ask ask, Answer answer, bool judged = true);
  // Something was decided that nobody can ask again.
  void Close() { closed_ = true; }
  bool complete() const { return !closed_ && asked_ == kept_; }
  // Is every answer still the same?
  bool SameAnswers(const Graph& g, const PassContext& c) const;

 private:
  int asked_ = 0, kept_ = 0;
  bool closed_ = false;
  std::vector<std::pair<Ask, Answer>> list_;
};

class PlanTemplate {
 public:
  static bool Serves(const Graph& g);
  // Remembers a graph that the passes are about to change; `others` were made before, for sizes with other
  // answers.
  explicit PlanTemplate(const Graph& before, std::shared_ptr<const PlanTemplate> others = nullptr);
  // What they made of it. False where it cannot stand for other sizes.
  bool Finish(const Graph& after, Questions questions, std::vector<PassStat> stats);

  // The one, of this and the others, that Fits; null where none does. Dead nodes of g do not count.
  const PlanTemplate* Find(const Graph& g, const PassContext& c) const;
  // Would the passes make the same of this graph?
  bool Fits(const Graph& g, const PassContext& c) const;
  // What they make of it: a graph of the values that are left alone.
  Graph Make(const Graph& g) const;
  const std::vector<PassStat>& stats() const { return stats_; }  // of the passes that ran

 private:
  struct NodeKey {
    const op::OpDef* op;
    NodeAttrs attrs;
    std::vector<ValueId> inputs, outputs;
  };
  void KeepUsed(const Graph& after);
  bool SameNodes(const Graph& g) const;
  bool SameDims(const Graph& g) const;
  bool SameConstants(const Graph& g) const;
  bool MayChange(const Graph& g, ValueId v) const;

  std::shared_ptr<const PlanTemplate> others_;
  int count_ = 1;  // with the others
  std::vector<NodeKey> before_;
  std::vector<ValueId> inputs_, results_;  // of the graph before
  std::vector<Dims> dims_;                 // by value
  std::vector<int> classes_;               // of all dims of all values one behind the other: which size it is
  std::vector<std::pair<int, int64_t>> sizes_;  // by class: the place among the dims, the size
  std::vector<ConstTensor> constants_;          // by value
  std::vector<Node> nodes_;                     // behind the passes, by numbers of the values left
  std::vector<ValueId> left_;                   // those: the numbers before
  std::vector<ValueId> left_inputs_, left_outputs_;
  Questions questions_;
  std::vector<PassStat> stats_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PLAN_TEMPLATE_H_
