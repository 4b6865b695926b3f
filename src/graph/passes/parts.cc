// Values that are parts of other values, so that nothing is copied:
//   Split, and Transpose and Reshape of what is strided already, read in place by matrix products;
//   the Transpose behind a product, which then writes its result in the transposed order;
//   Concat, whose operands are written where they belong, also in blocks of channels; of concatenations that
//   begin alike (dense blocks) or read each other only the longest has memory.
#include <algorithm>
#include <optional>
#include <vector>

#include "graph/ir/known_ops.h"
#include "graph/memory_plan.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// The strides of the same elements in the same order under other dims, if strides can say that.
std::optional<Dims> ReshapeStrides(const Dims& dims, const Dims& strides, const Dims& to) {
  // Runs of axes that are contiguous among themselves, from the outside in: elements and innermost stride.
  std::vector<int64_t> count, inner;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == 1) continue;
    if (!count.empty() && inner.back() == dims[i] * strides[i]) {
      count.back() *= dims[i];
      inner.back() = strides[i];
    } else {
      count.push_back(dims[i]);
      inner.push_back(strides[i]);
    }
  }
  Dims out = Dims::Filled(to.rank(), 0);
  int i = to.rank() - 1;
  for (size_t run = count.size(); run-- > 0;) {
    int64_t stride = inner[run], left = count[run];
    for (; left > 1; --i) {
      if (i < 0 || left % to[i] != 0) return std::nullopt;
      out[i] = stride;
      stride *= to[i];
      left /= to[i];
    }
  }
  for (; i >= 0; --i)
    if (to[i] != 1) return std::nullopt;
  return out;
}

Dims Permuted(const Dims& d, const std::vector<int64_t>& perm) {
  Dims out;
  for (int64_t axis : perm) out.push_back(d[static_cast<int>(axis)]);
  return out;
}

class PartFinder {
 public:
  PartFinder(Graph& g, PassContext& c) : r_(g), g_(g), c_(c), whole_(g.values.size(), kNoValue) {}

  void Run() {
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) {
      const Node& node = g_.nodes[n];
      if (node.dead || node.tail || node.aliasing != Aliasing::kNone) continue;
      if (node.op == Known().Split) TrySplit(n);
      if (node.op == Known().Transpose && !TryTransposeBehind(n)) TryRead(n, PermutedStrides(n));
    }
    // From the end: a longer concatenation gives shorter ones their place.
    for (NodeId n = count - 1; n >= 0; --n) {
      const Node& node = g_.nodes[n];
      if (!node.dead && !node.tail && node.aliasing == Aliasing::kNone && node.op == Known().Concat)
        TryConcat(n);
    }
  }

 private:
  bool Plain(ValueId v) const {
    const op::TensorDesc& d = r_.desc(v);
    return d.layout == Layout() && IsKnown(d.dims) && NumElements(d.dims) > 0 && !g_.values[v].IsConstant();
  }
  Dims StridesOf(ValueId v) const {
    const op::TensorDesc& d = r_.desc(v);
    return d.strides.empty() ? ContiguousStrides(d.dims) : d.strides;
  }
  bool IsReshape(const Node& n) const { return n.op->is_view && n.outputs.size() == 1; }

  Dims PermutedStrides(NodeId n) const {
    return Permuted(StridesOf(g_.nodes[n].inputs[0]), TransposePerm(r_, g_.nodes[n]));
  }

  // Can every reader of v take it with these strides? Products can, and what passes them on to products.
  bool ReadersTake(ValueId v, const Dims& strides) const {
    if (r_.IsOutput(v) || !Plain(v)) return false;
    const auto& users = r_.Users(v);
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](NodeId u) {
      const Node& n = g_.nodes[u];
      if (n.op == Known().MatMul) return ProductTakes(n, v, strides);
      if (n.tail || n.inputs[0] != v || n.aliasing != Aliasing::kNone) return false;
      const ValueId y = n.outputs[0];
      if (n.op == Known().Transpose) return ReadersTake(y, Permuted(strides, TransposePerm(r_, n)));
      if (!IsReshape(n)) return false;
      const auto to = ReshapeStrides(r_.desc(v).dims, strides, r_.desc(y).dims);
      return to && ReadersTake(y, *to);
    });
  }

  // A row reduction behind a product runs in blocks of rows of one matrix, in and out.
  static bool HoldsRows(const Node& n) { return n.tail && n.tail->program.HasRowReduction(); }

  // Rows or columns that lie together; anything else would be gathered element by element.
  bool ProductTakes(const Node& n, ValueId v, const Dims& strides) const {
    const int rank = strides.rank();
    if (rank < 2 || !IsFloat(r_.desc(v).dtype)) return false;
    if (HoldsRows(n)) return false;
    if (strides[rank - 1] != 1 && strides[rank - 2] != 1) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] == v && i >= 2) return false;
    return true;
  }

  void SetPart(ValueId v, const Dims& strides, int64_t offset) {
    g_.values[v].desc.strides = strides;
    g_.values[v].offset = offset;
    for (NodeId u : r_.Users(v)) {
      Node& n = g_.nodes[u];
      if (n.op == Known().MatMul) continue;
      n.aliasing = Aliasing::kOutputsAreParts;
      const ValueId y = n.outputs[0];
      SetPart(y,
              n.op == Known().Transpose ? Permuted(strides, TransposePerm(r_, n))
                                        : *ReshapeStrides(r_.desc(v).dims, strides, r_.desc(y).dims),
              0);
    }
  }

  void TryRead(NodeId n, const Dims& strides) {
    const ValueId x = g_.nodes[n].inputs[0], y = g_.nodes[n].outputs[0];
    if (!Plain(x) || !ReadersTake(y, strides)) return;
    ++c_.matches, ++c_.effects;
    g_.nodes[n].aliasing = Aliasing::kOutputsAreParts;
    SetPart(y, strides, 0);
  }

  void TrySplit(NodeId n) {
    const Node& node = g_.nodes[n];
    const ValueId x = node.inputs[0];
    const Dims strides = StridesOf(x);
    const int64_t given = node.attrs.Int("axis", 0), rank = strides.rank();
    if (!Plain(x) || rank == 0) return;
    ++c_.matches;
    for (ValueId v : node.outputs)
      if (v == kNoValue || (!r_.Users(v).empty() && !ReadersTake(v, strides)) || r_.IsOutput(v)) return;
    ++c_.effects;
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    g_.nodes[n].aliasing = Aliasing::kOutputsAreParts;
    int64_t at = 0;
    for (ValueId v : g_.nodes[n].outputs) {
      SetPart(v, strides, at * strides[axis]);
      at += r_.desc(v).dims[axis];
    }
  }

  // A product whose only reader is this Transpose writes the transposed order, if rows stay rows.
  bool TryTransposeBehind(NodeId n) {
    const ValueId product = g_.nodes[n].inputs[0], y = g_.nodes[n].outputs[0];
    const NodeId p = r_.Producer(product);
    if (p < 0 || g_.nodes[p].op != Known().MatMul || !r_.SingleUse(product) || !Plain(product) || !Plain(y))
      return false;
    if (HoldsRows(g_.nodes[p])) return false;
    const std::vector<int64_t> perm = TransposePerm(r_, g_.nodes[n]);
    const int rank = static_cast<int>(perm.size());
    if (rank < 2 || perm.back() != rank - 1 || r_.desc(product).dtype != DType::kF32) return false;
    ++c_.matches, ++c_.effects;
    const Dims stored = ContiguousStrides(r_.desc(y).dims);
    Dims strides = stored;
    for (int i = 0; i < rank; ++i) strides[static_cast<int>(perm[static_cast<size_t>(i)])] = stored[i];
    g_.values[product].desc.strides = strides;
    g_.nodes[n].aliasing = Aliasing::kOutputsAreParts;
    return true;
  }

  // Do the operands lie one behind the other in the result?
  bool OperandsInOrder(const Node& concat) const {
    const op::TensorDesc& out = r_.desc(concat.outputs[0]);
    const int64_t given = concat.attrs.Int("axis", 0), rank = out.dims.rank();
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    if (!IsKnown(out.dims) || NumElements(out.dims) == 0 || concat.inputs.size() < 2) return false;
    for (int i = 0; i < axis; ++i)
      if (out.dims[i] != 1) return false;
    for (size_t i = 0; i < concat.inputs.size(); ++i) {
      const ValueId v = concat.inputs[i];
      if (v == kNoValue || r_.desc(v).layout != out.layout || r_.desc(v).dtype != out.dtype) return false;
      // Blocks of channels follow each other only where the one before is full.
      const bool last = i + 1 == concat.inputs.size();
      if (out.layout != Layout() && (axis != 1 || (!last && r_.desc(v).dims[1] % out.layout.c0 != 0)))
        return false;
    }
    return true;
  }

  int64_t Stored(ValueId v) const { return StoredElements(r_.desc(v).dims, r_.desc(v).layout); }

  void TryConcat(NodeId n) {
    const Node& node = g_.nodes[n];
    if (!OperandsInOrder(node)) return;
    ++c_.matches;
    const ValueId y = node.outputs[0];
    if (LiesInAWhole(node)) {
      whole_[y] = whole_[node.inputs[0]];
      g_.values[y].offset = g_.values[node.inputs[0]].offset;
    } else {
      for (ValueId v : node.inputs)
        if (!WrittenInPlace(v, n)) return;
      int64_t at = g_.values[y].offset;
      for (ValueId v : node.inputs) {
        whole_[v] = whole_[y] == kNoValue ? y : whole_[y];
        g_.values[v].offset = at;
        at += Stored(v);
      }
    }
    ++c_.effects;
    g_.nodes[n].aliasing = Aliasing::kInputsAreParts;
  }

  // Are the operands side by side in one value already, and the result free to lie there?
  bool LiesInAWhole(const Node& concat) const {
    const ValueId first = concat.inputs[0], y = concat.outputs[0];
    if (whole_[first] == kNoValue || whole_[y] != kNoValue || r_.IsOutput(y)) return false;
    int64_t at = g_.values[first].offset;
    for (ValueId v : concat.inputs) {
      if (whole_[v] != whole_[first] || g_.values[v].offset != at) return false;
      at += Stored(v);
    }
    return true;
  }

  // Other readers find v in the whole.
  bool WrittenInPlace(ValueId v, NodeId concat) const {
    if (g_.values[v].IsConstant() || r_.IsOutput(v) || whole_[v] != kNoValue) return false;
    if (!r_.desc(v).IsContiguous() || g_.values[v].offset != 0) return false;
    const auto& in = g_.nodes[concat].inputs;
    if (std::count(in.begin(), in.end(), v) != 1) return false;
    const NodeId p = r_.Producer(v);
    if (p < 0) return false;
    const Node& n = g_.nodes[p];
    return !CanAlias(g_, n) && n.outputs.size() == 1;
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  std::vector<ValueId> whole_;  // by value: the concatenation in whose memory it lies, or kNoValue
};

}  // namespace

Status PartsInPlace(Graph& g, PassContext& c) {
  PartFinder(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
