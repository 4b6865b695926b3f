// What only moves or compares values does so on bytes: MaxPool(DequantizeLinear(q)) becomes
// DequantizeLinear(MaxPool(q)), as dequantising keeps the order of values; and what is quantised again with
// the scale that it was dequantised with is the bytes that it was. No bit changes.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

class Finder {
 public:
  Finder(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  Status Run() {
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) {
      if (IsMaxPool(n) && Dequantised(g_.nodes[n].inputs[0]) >= 0) MovePool(n);
    }
    for (NodeId n = 0; n < r_.num_nodes(); ++n) {
      if (r_.Is(n, Known().QuantizeLinear)) Undo(n);
    }
    return OkStatus();
  }

 private:
  bool IsMaxPool(NodeId n) const {
    const Node& node = g_.nodes[n];
    if (!r_.Is(n, Known().MaxPool) || node.outputs.size() != 1 || node.outputs[0] == kNoValue) return false;
    // A dilated window may meet no element: bytes have no -Inf.
    const std::vector<int64_t> d = node.attrs.Ints("dilations");
    return std::all_of(d.begin(), d.end(), [](int64_t x) { return x == 1; });
  }

  // The DequantizeLinear of bytes that makes v with one positive scale for all of it, or -1. Scales are such
  // that no result is infinite or loses bits.
  NodeId Dequantised(ValueId v) const {
    const NodeId n = r_.Producer(v, Known().DequantizeLinear);
    if (n < 0) return -1;
    const Node& node = g_.nodes[n];
    if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return -1;
    const op::TensorDesc &scale = r_.desc(node.inputs[1]), &zero = r_.desc(node.inputs[2]);
    const bool bytes = zero.dtype == DType::kU8 || zero.dtype == DType::kS8;
    const auto s = r_.Scalar(node.inputs[1]), z = r_.Scalar(node.inputs[2]);
    constexpr double kLeast = 0x1p-100, kMost = 0x1p100;
    return bytes && scale.dtype == DType::kF32 && scale.dims.rank() <= 1 && zero.dims.rank() <= 1 && s && z &&
                   *s >= kLeast && *s <= kMost
               ? n
               : -1;
  }

  // The last of the new nodes answers for the group: the value before it is none of the model's.
  void MovePool(NodeId n) {
    ++c_.matches, ++c_.effects;
    const Node old = g_.nodes[n];
    const NodeId d = r_.Producer(old.inputs[0]);
    const Node dequantises = g_.nodes[d];
    std::vector<NodeId> origins = old.origins;
    origins.insert(origins.end(), dequantises.origins.begin(), dequantises.origins.end());
    r_.Kill(n);
    const ValueId bytes = r_.AddUnsized(old.outputs[0], ":bytes", r_.desc(dequantises.inputs[2]).dtype);
    const NodeId pool = r_.AddNode(Known().MaxPool, old.name, {dequantises.inputs[0]}, {bytes});
    g_.nodes[pool].attrs = old.attrs;
    const NodeId last = r_.AddNode(Known().DequantizeLinear, old.name + "/real",
                                   {bytes, dequantises.inputs[1], dequantises.inputs[2]}, {old.outputs[0]});
    g_.nodes[last].attrs = dequantises.attrs;
    g_.nodes[last].origins = std::move(origins);
  }

  void Undo(NodeId n) {
    const Node& node = g_.nodes[n];
    if (node.inputs.size() < 3 || node.inputs[2] == kNoValue || node.outputs.size() != 1) return;
    const NodeId d = Dequantised(node.inputs[0]);
    if (d < 0 || r_.IsOutput(node.outputs[0])) return;
    const Node& before = g_.nodes[d];
    const auto same = [&](size_t i) {
      const auto a = r_.Scalar(node.inputs[i]), b = r_.Scalar(before.inputs[i]);
      return a && b && *a == *b && r_.desc(node.inputs[i]).dtype == r_.desc(before.inputs[i]).dtype &&
             r_.desc(node.inputs[i]).dims.rank() <= 1;
    };
    if (!same(1) || !same(2) || node.attrs.Int("output_dtype", 0) != 0) return;
    ++c_.matches, ++c_.effects;
    r_.ReplaceUses(node.outputs[0], before.inputs[0]);
    r_.Kill(n);
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status BytePools(Graph& g, PassContext& c) { return Finder(g, c).Run(); }

}  // namespace opsnn::graph
