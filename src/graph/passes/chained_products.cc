// Two products in a row, act(x W1 + b1) W2 + ..., become one FeedForward node that takes its rows in blocks,
// so that what lies between the products stays in the cores' own caches. The judge decides.
#include <algorithm>
#include <string>

#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

class Chainer {
 public:
  Chainer(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  void Run() {
    if (!Known().FeedForward) return;
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) Try(n);
  }

 private:
  // A product with one constant matrix for all rows, whose chain has no regions of its own.
  bool IsPlain(NodeId n) const {
    const Node& node = g_.nodes[n];
    if (node.dead || node.op != Known().MatMul || node.num_op_inputs != 2 || node.outputs.size() != 1)
      return false;
    if (node.attrs.Int("transA", 0) || node.attrs.Int("transB", 0)) return false;
    if (node.tail && !node.tail->regions.empty()) return false;
    const op::TensorDesc &x = r_.desc(node.inputs[0]), &w = r_.desc(node.inputs[1]);
    return g_.values[node.inputs[1]].IsConstant() && w.dims.rank() == 2 && x.dims.rank() >= 2 &&
           x.dtype == DType::kF32 && r_.desc(node.outputs[0]).dtype == DType::kF32;
  }

  // [x + bias], [act]: what FeedForward has between its products. The bias is an input of the tail.
  struct Between {
    bool fits = true;
    ValueId bias = kNoValue;
    std::string activation = "copy";
  };
  Between BetweenOf(const Node& first) const {
    Between b;
    if (!first.tail) return b;
    const Program& p = first.tail->program;
    b.fits = false;
    size_t at = 0;
    SlotId x = 0;
    if (at < p.stages.size() && p.stages[at].op == StageOp::kAdd) {
      const Stage& s = p.stages[at];
      const bool both = (s.src[0] == 0 && s.src[1] == 1) || (s.src[0] == 1 && s.src[1] == 0);
      if (!both || p.num_inputs != 2) return b;
      b.bias = first.inputs[2];
      if (r_.desc(b.bias).dims != Dims{r_.desc(first.outputs[0]).dims.back()}) return b;
      x = s.dst, ++at;
    } else if (p.num_inputs != 1) {
      return b;
    }
    if (at < p.stages.size()) {
      const Stage& s = p.stages[at++];
      const std::string name = Info(s.op).name;
      const char* known[] = {"relu", "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh"};
      if (s.src[0] != x || std::find(std::begin(known), std::end(known), name) == std::end(known)) return b;
      b.activation = name;
    }
    b.fits = at == p.stages.size();
    return b;
  }

  // Operands of the second product's tail that differ by row only as its result does.
  bool TailFits(const Node& second) const {
    const Dims& out = r_.desc(second.outputs[0]).dims;
    for (size_t i = 2; i < second.inputs.size(); ++i) {
      const Dims& d = r_.desc(second.inputs[i]).dims;
      if (NumElements(d) != 1 && d != Dims{out.back()} && d != out) return false;
    }
    return true;
  }

  void Try(NodeId n) {
    if (!IsPlain(n)) return;
    const ValueId middle = g_.nodes[n].inputs[0];
    const NodeId p = r_.Producer(middle);
    if (p < 0 || !IsPlain(p) || !r_.SingleUse(middle) || !TailFits(g_.nodes[n])) return;
    const auto& in = g_.nodes[n].inputs;  // the second product's tail may read it too
    if (std::count(in.begin(), in.end(), middle) != 1) return;
    const Between between = BetweenOf(g_.nodes[p]);
    if (!between.fits) return;
    ++c_.matches;
    plan::ChainedEdge e;
    const Dims& h = r_.desc(middle).dims;
    e.chain = "matmul" + (between.activation == "copy" ? "" : "+" + between.activation) + "+matmul";
    e.where = g_.nodes[n].name;
    e.hidden = h.back();
    e.m = NumElements(h) / std::max<int64_t>(1, e.hidden);
    e.k = r_.desc(g_.nodes[p].inputs[1]).dims[0];
    e.n = r_.desc(g_.nodes[n].inputs[1]).dims[1];
    e.shape = ShapeText(g_, n) + StrFormat(" m=%lld k=%lld hidden=%lld n=%lld", static_cast<long long>(e.m),
                                           static_cast<long long>(e.k), static_cast<long long>(e.hidden),
                                           static_cast<long long>(e.n));
    e.between = g_.nodes[p].tail ? &g_.nodes[p].tail->program : nullptr;
    if (!Judge(g_, c_, e)) return;
    ++c_.effects;
    Apply(p, n, between, g_.decisions.back().regions.front().block);
  }

  void Apply(NodeId p, NodeId n, const Between& between, int64_t block) {
    const Node first = g_.nodes[p], second = g_.nodes[n];
    Node made;
    made.op = Known().FeedForward;
    made.attrs.Set("activation", between.activation);
    made.attrs.Set("rows", block);
    made.inputs = {first.inputs[0], first.inputs[1], second.inputs[1], between.bias};
    if (between.bias == kNoValue) made.inputs.pop_back();
    made.num_op_inputs = static_cast<int>(made.inputs.size());
    made.inputs.insert(made.inputs.end(), second.inputs.begin() + 2, second.inputs.end());
    made.tail = second.tail;
    r_.ReplaceBoth(p, n, std::move(made));
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status ChainedProducts(Graph& g, PassContext& c) {
  Chainer(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
