// A depthwise convolution and the pointwise one behind it become one DepthwisePointwise node, whose rows
// between the two stay in the cores' own caches; with the pointwise convolution in front of them, the
// expansion of an inverted residual block, where that is better still. The judge decides.
#include <algorithm>
#include <string>

#include "graph/fusion/edges.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/plan_template.h"
#include "op/advice.h"

namespace opsnn::graph {
namespace {

constexpr const char *kChain = "depthwise+pointwise", *kExpandedChain = "pointwise+depthwise+pointwise";

const op::Advice& Asked() { return op::AdviceOf(*Known().DepthwisePointwise); }

// What the judge is asked about two convolutions, or three: by values, whatever their sizes.
struct PairQuestion {
  ValueId x, first_weights, second_weights;
  NodeAttrs first, second;
  ValueId expand_weights = kNoValue;
  NodeAttrs expand = {};

  // False where they are none; `why` where they nearly are.
  bool Describe(const Graph& g, const PassContext& c, plan::PairEdge* e, const char** why) const {
    const bool expands = expand_weights != kNoValue;
    return Asked().pair({g.values[x].desc, g.values[first_weights].desc, g.values[second_weights].desc, first,
                         second, expands ? &g.values[expand_weights].desc : nullptr,
                         expands ? &static_cast<const op::Attrs&>(expand) : nullptr},
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
    std::optional<op::Attrs> attrs = Asked().pair_attrs(first.attrs, ChainOf(first), nullptr);
    const char* never = r_.IsOutput(middle)        ? "what lies between is an output of the model"
                        : !OnlyFor(middle, second) ? "what lies between has other readers"
                        : !attrs ? "the chain between the two is none that is applied in registers"
                                 : nullptr;
    if (shapes && never) why = never;
    if (why) Refuse(g_, c_, kChain, n, DType::kF32, why);
    if (never || TryExpanded(p, n)) return;
    if (shapes) Describe(kChain, n, r_.desc(middle).dims, &e);
    if (!Joins(pair, shapes, std::move(e))) return;
    ++c_.effects;
    Apply(-1, p, n, *std::move(attrs));
  }

  // The chain behind the convolution; null: none.
  static const Program* ChainOf(const Node& n) { return n.tail ? &n.tail->program : nullptr; }

  // Nobody but this node reads v, and it reads it once: its chain may do so, too.
  bool OnlyFor(ValueId v, const Node& n) const {
    return r_.SingleUse(v) && std::count(n.inputs.begin(), n.inputs.end(), v) == 1;
  }

  // The two with the pointwise convolution in front.
  bool TryExpanded(NodeId p, NodeId n) {
    const ValueId image = g_.nodes[p].inputs[0];
    const NodeId x = r_.Producer(image);
    if (x < 0 || !IsPlain(x) || !OnlyFor(image, g_.nodes[p])) return false;
    const Node &expand = g_.nodes[x], &first = g_.nodes[p], &second = g_.nodes[n];
    const Program* const chain = ChainOf(expand);
    std::optional<op::Attrs> attrs = Asked().pair_attrs(first.attrs, ChainOf(first), chain);
    if (!attrs) return false;
    const PairQuestion all{expand.inputs[0], first.inputs[1],  second.inputs[1], first.attrs,
                           second.attrs,     expand.inputs[1], expand.attrs};
    plan::PairEdge e;
    const char* why = nullptr;
    const bool shapes = all.Describe(g_, c_, &e, &why);
    if (shapes) Describe(kExpandedChain, n, r_.desc(image).dims, &e);
    if (!Joins(all, shapes, std::move(e))) return false;
    ++c_.effects;
    Apply(x, p, n, *std::move(attrs));
    return true;
  }

  void Describe(const char* chain, NodeId n, const Dims& between, plan::PairEdge* e) const {
    if (!c_.record) return;
    e->chain = chain;
    e->where = g_.nodes[n].name;
    e->shape = ShapeText(between) + StrFormat(" -> %lld", static_cast<long long>(e->out_channels));
  }

  // The judge's answer, kept for other sizes. `shapes`: there is a question at this one.
  bool Joins(const PairQuestion& question, bool shapes, plan::PairEdge e) {
    c_.matches += shapes;
    const bool joins = shapes && Judge(g_, c_, std::move(e));
    if (c_.questions)
      c_.questions->Keep([question](const Graph& g, const PassContext& c) { return question.Ask(g, c); },
                         joins ? Answer::kYes : Answer::kNo, shapes);
    return joins;
  }

  // `x` is the expansion, or -1.
  void Apply(NodeId x, NodeId p, NodeId n, op::Attrs attrs) {
    const Node first = g_.nodes[p], second = g_.nodes[n];
    const auto bias = [](const Node& node) {
      return node.num_op_inputs > 2 ? node.inputs[2] : ValueId{kNoValue};
    };
    Node made;
    made.op = Known().DepthwisePointwise;
    made.attrs = std::move(attrs);
    made.inputs = {first.inputs[0], first.inputs[1], second.inputs[1], bias(first), bias(second)};
    if (x >= 0) {
      const Node& expand = g_.nodes[x];
      made.inputs[0] = expand.inputs[0];
      made.inputs.push_back(expand.inputs[1]), made.inputs.push_back(bias(expand));
      made.origins = expand.origins;
    }
    made.num_op_inputs = static_cast<int>(made.inputs.size());
    made.inputs.insert(made.inputs.end(), second.inputs.begin() + second.num_op_inputs, second.inputs.end());
    made.tail = second.tail;
    r_.ReplaceBoth(p, n, std::move(made));
    if (x >= 0) r_.Kill(x);
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
