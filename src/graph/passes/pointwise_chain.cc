#include <algorithm>
#include <optional>

#include "graph/call.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/dequantised.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/fusion/storing.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/plan_template.h"

namespace opsnn::graph {
namespace {

// What the judge is asked about a group: its first node, and the rest as one program.
struct ChainEdge {
  ValueId middle, output;
  std::vector<ValueId> first_inputs, second_inputs;
  Program head, rest;

  plan::PointwiseEdge Describe(const Graph& g) const {
    plan::PointwiseEdge e;
    const auto bytes = [&](ValueId v) { return static_cast<int64_t>(StoredBytes(g.values[v].desc)); };
    e.elements = NumElements(g.values[middle].desc.dims);
    e.dtype = g.values[middle].desc.dtype;
    e.first = &head;
    e.second = &rest;
    for (ValueId v : first_inputs) e.first_bytes += bytes(v);
    for (ValueId v : second_inputs)
      if (v != middle) e.second_bytes += bytes(v);
    e.output_bytes = bytes(output);
    return e;
  }
};

class Chainer {
 public:
  Chainer(Graph& g, PassContext& c)
      : r_(g),
        g_(g),
        c_(c),
        programs_(g),
        storing_(r_),
        dequantising_(g.nodes.size()),
        program_(Known().Program) {
    for (size_t n = 0; n < dequantising_.size(); ++n) dequantising_[n] = DequantisingProgram(g, g.nodes[n]);
  }

  void Run() {
    if (!program_) return;
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n)
      if (ProgramOf(n)) Try(n);
  }

 private:
  // Of a pointwise node, or of a DequantizeLinear, which is one where it has one scale.
  const op::BoundProgram* ProgramOf(NodeId n) {
    const auto i = static_cast<size_t>(n);
    if (i < dequantising_.size() && dequantising_[i] && !g_.nodes[n].dead) return &*dequantising_[i];
    return programs_.Fusable(n);
  }

  // A QuantizeLinear ends a group, as it stores integers.
  const StoringNodes::Storing* Ending(NodeId n) const {
    const auto* s = storing_.Find(n);
    return s && s->node.op == Known().QuantizeLinear ? s : nullptr;
  }

  bool Eligible(NodeId seed, NodeId n) {
    const Node& node = g_.nodes[n];
    if (!Ending(n) && !ProgramOf(n)) return false;
    // What a group quantises is dequantised by others.
    if (node.op == Known().DequantizeLinear && r_.Producer(node.inputs[0], Known().QuantizeLinear) >= 0)
      return false;
    return r_.desc(node.outputs[0]).dims == r_.desc(g_.nodes[seed].outputs[0]).dims;
  }

  bool Add(ChainBuilder& b, NodeId n) {
    if (const auto* s = Ending(n)) return b.AddNode(s->node, s->program);
    return b.AddNode(g_.nodes[n], *ProgramOf(n));
  }

  ChainBuilder Build(NodeId seed, const std::vector<NodeId>& nodes) {
    ChainBuilder b(g_, c_.policy);
    Add(b, seed);
    for (NodeId n : nodes) Add(b, n);
    return b;
  }

  void Try(NodeId seed) {
    const ValueId first = g_.nodes[seed].outputs[0];
    Region region;
    region.output = first;
    std::optional<ChainBuilder> chain;
    size_t added = 0;
    if (AnyReader(r_, first, [&](NodeId n) { return Eligible(seed, n); })) {
      chain.emplace(g_, c_.policy);
      if (!Add(*chain, seed)) return;
      region = GrowRegion(r_, seed, [&](NodeId n) { return Eligible(seed, n) && Add(*chain, n) && ++added; });
    }
    if (region.nodes.empty()) {
      RecordBoundary(r_, c_, programs_, seed, {}, first);
      return;
    }
    ++c_.matches;
    if (!Decide(seed, region)) return;
    ++c_.effects;
    // The last that joined may have led nowhere.
    Apply(seed, region, added == region.nodes.size() ? *chain : Build(seed, region.nodes));
  }

  // The whole group against its parts: the first node, and the rest as one program.
  bool Decide(NodeId seed, const Region& region) {
    const ValueId middle = g_.nodes[seed].outputs[0];
    const ChainBuilder first = Build(seed, {});
    ChainBuilder second(g_, c_.policy);
    for (NodeId n : region.nodes) Add(second, n);
    ChainEdge chain{middle,          region.output,       first.inputs(),
                    second.inputs(), first.Build(middle), second.Build(region.output)};
    plan::PointwiseEdge e = chain.Describe(g_);
    if (c_.record) {
      e.chain = ChainName(g_, seed, region.nodes);
      e.where = g_.nodes[region.nodes.back()].name;
      e.shape = ShapeText(g_, region.nodes.back());
    }
    const bool fuses = Judge(g_, c_, std::move(e));
    if (c_.questions)
      c_.questions->Keep([chain = std::move(chain)](
                             const Graph& g, const PassContext& c) { return AskJudge(c, chain.Describe(g)); },
                         fuses ? Answer::kYes : Answer::kNo);
    return fuses;
  }

  void Apply(NodeId seed, const Region& region, const ChainBuilder& chain) {
    auto tail = std::make_shared<op::FusedTail>();
    tail->program = chain.Build(region.output);
    // Quantised values are as exact as their ties.
    if (!IsFloat(r_.desc(region.output).dtype)) tail->program.exact = true;
    for (ValueId v : chain.inputs()) storing_.Use(v);
    Node made;
    made.name = g_.nodes[region.nodes.back()].name;
    made.op = program_;
    made.inputs = chain.inputs();
    made.num_op_inputs = static_cast<int>(made.inputs.size());
    made.outputs = {region.output};
    made.tail = std::move(tail);
    std::vector<NodeId> all = region.nodes;
    all.push_back(seed);
    std::sort(all.begin(), all.end());
    for (NodeId n : all)
      made.origins.insert(made.origins.end(), g_.nodes[n].origins.begin(), g_.nodes[n].origins.end());
    for (NodeId n : all) r_.Kill(n);
    r_.AddNode(std::move(made));
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  NodePrograms programs_;
  StoringNodes storing_;
  std::vector<std::optional<op::BoundProgram>> dequantising_;  // by node
  const op::OpDef* program_;
};

}  // namespace

Status PointwiseChain(Graph& g, PassContext& c) {
  Chainer(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
