// Transposes between NHWC and NCHW beside a conversion become part of it: the conversion reads or writes
// NHWC, and the Transpose is another name for the same memory.
//   Transpose to NCHW, TransData to blocks      one TransData from NHWC to blocks
//   TransData from blocks, Transpose to NHWC    one TransData from blocks to NHWC
//   Transpose and Cast beside each other        one TransData that also converts
#include <algorithm>
#include <vector>

#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

const std::vector<int64_t> kToNchw = {0, 3, 1, 2}, kToNhwc = {0, 2, 3, 1};
constexpr Layout kNhwc = {Format::kNHWC, 0};

class ImageOrder {
 public:
  ImageOrder(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  void Run() {
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n)
      if (IsTranspose(n, kToNchw) || IsTranspose(n, kToNhwc)) JoinCast(n);
    for (NodeId n = 0; n < count; ++n) {
      if (IsTranspose(n, kToNchw)) JoinReaders(n);
      if (IsTranspose(n, kToNhwc)) JoinProducer(n);
    }
  }

 private:
  bool Plain(ValueId v) const {
    const op::TensorDesc& d = r_.desc(v);
    return d.layout == Layout() && d.IsContiguous() && d.dims.rank() == 4 && IsKnown(d.dims) &&
           NumElements(d.dims) > 0 && !g_.values[v].IsConstant();
  }
  bool IsTranspose(NodeId n, const std::vector<int64_t>& perm) const {
    const Node& node = g_.nodes[n];
    return r_.Is(n, Known().Transpose) && node.aliasing == Aliasing::kNone && Plain(node.inputs[0]) &&
           Plain(node.outputs[0]) && TransposePerm(r_, node) == perm;
  }

  // The conversion that takes over: of the NCHW side of transpose n, between the two dtypes.
  void JoinCast(NodeId n) {
    const bool to_nchw = TransposePerm(r_, g_.nodes[n]) == kToNchw;
    const ValueId x = g_.nodes[n].inputs[0], y = g_.nodes[n].outputs[0];
    NodeId cast = r_.Producer(x, Known().Cast);
    const bool before = cast >= 0 && r_.SingleUse(x);
    if (!before) {
      if (!r_.SingleUse(y) || !r_.Is(r_.Users(y)[0], Known().Cast)) return;
      cast = r_.Users(y)[0];
    }
    const ValueId first = before ? g_.nodes[cast].inputs[0] : x;
    const ValueId last = before ? y : g_.nodes[cast].outputs[0];
    if (!Plain(first) || !Plain(last)) return;
    ++c_.matches;
    if (!Decide(n, cast, first, last)) return;
    ++c_.effects;
    // Between the two: NCHW stored as NHWC, in the dtype of the side that is stored so.
    Value middle;
    middle.name = g_.values[last].name + ":NHWC";
    middle.desc = r_.desc(to_nchw ? last : first);
    middle.desc.dtype = r_.desc(to_nchw ? first : last).dtype;
    middle.desc.layout = kNhwc;
    const ValueId m = r_.AddValue(std::move(middle));
    std::vector<NodeId> origins = g_.nodes[n].origins;
    origins.insert(origins.end(), g_.nodes[cast].origins.begin(), g_.nodes[cast].origins.end());
    const std::string name = g_.nodes[std::max(n, cast)].name;
    r_.Kill(n);
    r_.Kill(cast);
    Node view, convert;
    view.op = Known().Transpose;
    view.attrs.Set("perm", to_nchw ? kToNchw : kToNhwc);
    view.aliasing = Aliasing::kOutputsAreParts;
    convert.op = Known().TransData;
    view.name = name + ":view";
    convert.name = name;
    view.inputs = {to_nchw ? first : m}, view.outputs = {to_nchw ? m : last};
    convert.inputs = {to_nchw ? m : first}, convert.outputs = {to_nchw ? last : m};
    view.num_op_inputs = convert.num_op_inputs = 1;
    // Whichever writes the value that the model knows stands for both.
    (to_nchw ? convert : view).origins = std::move(origins);
    r_.AddNode(std::move(view));
    r_.AddNode(std::move(convert));
  }

  bool Decide(NodeId transpose, NodeId cast, ValueId from, ValueId to) {
    plan::ConversionEdge e;
    if (c_.record) {
      e.chain = ChainName(g_, std::min(transpose, cast), {std::max(transpose, cast)});
      e.where = g_.nodes[transpose].name;
      e.shape = ShapeText(g_, transpose);
    }
    e.elements = NumElements(r_.desc(from).dims);
    e.from = r_.desc(from).dtype, e.to = r_.desc(to).dtype;
    return Judge(g_, c_, e);
  }

  // All who read the NCHW side convert it anyway.
  void JoinReaders(NodeId n) {
    const ValueId y = g_.nodes[n].outputs[0];
    const auto& users = r_.Users(y);
    if (users.empty() || r_.IsOutput(y)) return;
    ++c_.matches;
    if (!std::all_of(users.begin(), users.end(), [&](NodeId u) { return r_.Is(u, Known().TransData); }))
      return;
    BecomeView(n, y);
  }

  // A conversion writes the NCHW side for nobody but transposes like this one.
  void JoinProducer(NodeId n) {
    const ValueId x = g_.nodes[n].inputs[0];
    if (r_.Producer(x, Known().TransData) < 0 || r_.IsOutput(x)) return;
    ++c_.matches;
    const auto& users = r_.Users(x);
    if (!std::all_of(users.begin(), users.end(), [&](NodeId u) { return IsTranspose(u, kToNhwc); })) return;
    const std::vector<NodeId> all(users.begin(), users.end());
    for (NodeId u : all) BecomeView(u, x);
  }

  void BecomeView(NodeId n, ValueId nchw) {
    ++c_.effects;
    g_.values[nchw].desc.layout = kNhwc;
    g_.nodes[n].aliasing = Aliasing::kOutputsAreParts;
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status ImageOrderInConversions(Graph& g, PassContext& c) {
  if (Known().TransData) ImageOrder(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
