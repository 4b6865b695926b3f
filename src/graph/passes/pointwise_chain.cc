#include <algorithm>
#include <optional>

#include "graph/call.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

class Chainer {
 public:
  Chainer(Graph& g, PassContext& c) : r_(g), g_(g), c_(c), programs_(g), program_(Known().Program) {}

  void Run() {
    if (!program_) return;
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n)
      if (programs_.Fusable(n)) Try(n);
  }

 private:
  bool Eligible(NodeId seed, NodeId n) {
    return programs_.Fusable(n) &&
           r_.desc(g_.nodes[n].outputs[0]).dims == r_.desc(g_.nodes[seed].outputs[0]).dims;
  }

  bool Add(ChainBuilder& b, NodeId n) { return b.AddNode(g_.nodes[n], *programs_.Fusable(n)); }

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
    const Program head = first.Build(middle), rest = second.Build(region.output);
    plan::PointwiseEdge e;
    if (c_.record) {
      e.chain = ChainName(g_, seed, region.nodes);
      e.where = g_.nodes[region.nodes.back()].name;
      e.shape = ShapeText(g_, region.nodes.back());
    }
    e.elements = NumElements(r_.desc(middle).dims);
    e.dtype = r_.desc(middle).dtype;
    e.first = &head;
    e.second = &rest;
    for (ValueId v : first.inputs()) e.first_bytes += static_cast<int64_t>(StoredBytes(r_.desc(v)));
    for (ValueId v : second.inputs())
      if (v != middle) e.second_bytes += static_cast<int64_t>(StoredBytes(r_.desc(v)));
    e.output_bytes = static_cast<int64_t>(StoredBytes(r_.desc(region.output)));
    return Judge(g_, c_, e);
  }

  void Apply(NodeId seed, const Region& region, const ChainBuilder& chain) {
    auto tail = std::make_shared<op::FusedTail>();
    tail->program = chain.Build(region.output);
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
  const op::OpDef* program_;
};

}  // namespace

Status PointwiseChain(Graph& g, PassContext& c) {
  Chainer(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
