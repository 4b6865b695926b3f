// A depthwise convolution and the pointwise one behind it become one DepthwisePointwise node, whose rows
// between the two stay in the cores' own caches. The judge decides.
#include <algorithm>
#include <string>

#include "graph/fusion/edges.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/plan_template.h"
#include "op/advice.h"

namespace opsnn::graph {
namespace {

constexpr const char* kChain = "depthwise+pointwise";

const op::Advice& Asked() { return op::AdviceOf(*Known().DepthwisePointwise); }

// What the judge is asked about two convolutions: by values, whatever their sizes.
struct PairQuestion {
  ValueId x, first_weights, second_weights;
  NodeAttrs first, second;

  // False where the two are no pair; `why` where they nearly are.
  bool Describe(const Graph& g, const PassContext& c, plan::PairEdge* e, const char** why) const {
    return Asked().pair(
        {g.values[x].desc, g.values[first_weights].desc, g.values[second_weights].desc, first, second},
        *c.profile, e, why);
  }

  Answer Ask(const Graph& g, const PassContext& c) const {
    plan::PairEdge e;
    const char* why = nullptr;
    if (!Describe(g, c, &e, &why)) return Answer::kNo;
    return AskJudge(c, std::move(e));
  }
};

class Pairer {
 public:
  Pairer(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  void Run() {
    if (!Known().DepthwisePointwise) return;
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) Try(n);
  }

 private:
  // A convolution with constant weights whose chain has no regions of its own.
  bool IsPlain(NodeId n) const {
    const Node& node = g_.nodes[n];
    if (node.dead || node.op != Known().Conv || node.outputs.size() != 1) return false;
    if (node.tail && !node.tail->regions.empty()) return false;
    return g_.values[node.inputs[1]].IsConstant() && r_.desc(node.outputs[0]).dtype == DType::kF32;
  }

  void Try(NodeId n) {
    if (!IsPlain(n)) return;
    const ValueId middle = g_.nodes[n].inputs[0];
    const NodeId p = r_.Producer(middle);
    if (p < 0 || !IsPlain(p) || (!c_.record && !r_.SingleUse(middle))) return;
    const Node &first = g_.nodes[p], &second = g_.nodes[n];
    const PairQuestion pair{first.inputs[0], first.inputs[1], second.inputs[1], first.attrs, second.attrs};
    plan::PairEdge e;
    const char* why = nullptr;
    const bool shapes = pair.Describe(g_, c_, &e, &why);
    std::optional<op::Attrs> attrs =
        Asked().pair_attrs(first.attrs, first.tail ? &first.tail->program : nullptr);
    // The second's chain may read what lies between, too.
    const bool alone = std::count(second.inputs.begin(), second.inputs.end(), middle) == 1;
    const char* never = r_.IsOutput(middle)               ? "what lies between is an output of the model"
                        : !r_.SingleUse(middle) || !alone ? "what lies between has other readers"
                        : !attrs ? "the chain between the two is none that is applied in registers"
                                 : nullptr;
    if (shapes && never) why = never;
    if (why) Refuse(g_, c_, kChain, n, DType::kF32, why);
    if (never) return;
    bool joins = false;
    if (shapes) {
      ++c_.matches;
      if (c_.record) {
        e.chain = kChain;
        e.where = g_.nodes[n].name;
        const Dims& y = r_.desc(middle).dims;
        e.shape = ShapeText(y) + StrFormat(" -> %lld", static_cast<long long>(e.out_channels));
      }
      joins = Judge(g_, c_, std::move(e));
    }
    if (c_.questions)
      c_.questions->Keep([pair](const Graph& g, const PassContext& c) { return pair.Ask(g, c); },
                         joins ? Answer::kYes : Answer::kNo, shapes);
    if (!joins) return;
    ++c_.effects;
    Apply(p, n, *std::move(attrs));
  }

  void Apply(NodeId p, NodeId n, op::Attrs attrs) {
    const Node first = g_.nodes[p], second = g_.nodes[n];
    const auto bias = [](const Node& node) {
      return node.num_op_inputs > 2 ? node.inputs[2] : ValueId{kNoValue};
    };
    Node made;
    made.op = Known().DepthwisePointwise;
    made.attrs = std::move(attrs);
    made.inputs = {first.inputs[0], first.inputs[1], second.inputs[1], bias(first), bias(second)};
    made.num_op_inputs = static_cast<int>(made.inputs.size());
    made.inputs.insert(made.inputs.end(), second.inputs.begin() + second.num_op_inputs, second.inputs.end());
    made.tail = second.tail;
    r_.ReplaceBoth(p, n, std::move(made));
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status DepthwisePairs(Graph& g, PassContext& c) {
  Pairer(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
