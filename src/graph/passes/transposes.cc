#include <algorithm>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

bool IsIdentity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// Axes of size > 1 keep their order: the bytes do not move.
bool MovesNothing(const std::vector<int64_t>& perm, const Dims& x) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (x[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool SwapsLastTwo(std::vector<int64_t> perm) {
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return IsIdentity(perm);
}

class Simplifier {
 public:
  Simplifier(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  void Run() {
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n)
      if (r_.Is(n, Known().Transpose)) Compose(n);
    for (NodeId n = 0; n < count; ++n)
      if (r_.Is(n, Known().Transpose)) MakeView(n);
    for (NodeId n = 0; n < count; ++n)
      if (r_.Is(n, Known().MatMul)) ReadThrough(n);
  }

 private:
  void Compose(NodeId n) {
    const NodeId before = r_.Producer(g_.nodes[n].inputs[0], Known().Transpose);
    if (before < 0) return;
    ++c_.matches;
    const std::vector<int64_t> inner = TransposePerm(r_, g_.nodes[before]),
                               outer = TransposePerm(r_, g_.nodes[n]);
    std::vector<int64_t> both;
    for (int64_t axis : outer) both.push_back(inner[axis]);
    const ValueId middle = g_.nodes[n].inputs[0], x = g_.nodes[before].inputs[0], y = g_.nodes[n].outputs[0];
    if (IsIdentity(both) && !r_.IsOutput(y)) {
      r_.ReplaceUses(y, x);
      r_.Kill(n);
    } else {
      r_.SetInput(n, 0, x);
      g_.nodes[n].attrs.Set("perm", both);
    }
    if (r_.Users(middle).empty() && !r_.IsOutput(middle)) r_.Kill(before);
    ++c_.effects;
  }

  void MakeView(NodeId n) {
    const op::OpDef* reshape = Known().Reshape;
    const op::TensorDesc& x = r_.desc(g_.nodes[n].inputs[0]);
    const op::TensorDesc& y = r_.desc(g_.nodes[n].outputs[0]);
    if (!reshape || !IsKnown(x.dims) || NumElements(x.dims) == 0 ||
        !MovesNothing(TransposePerm(r_, g_.nodes[n]), x.dims))
      return;
    ++c_.matches, ++c_.effects;
    const std::vector<int64_t> shape(y.dims.begin(), y.dims.end());
    const ValueId to = r_.AddConstant(g_.nodes[n].name + "/shape",
                                      HostTensor::From<int64_t>({static_cast<int64_t>(shape.size())}, shape));
    r_.Replace(n, reshape, {g_.nodes[n].inputs[0], to}, {}, {n});
  }

  // MatMul reads a transposed matrix as it lies. A constant is better transposed once, ahead.
  void ReadThrough(NodeId n) {
    for (int i : {0, 1}) {
      const ValueId v = g_.nodes[n].inputs[i];
      const NodeId t = r_.Producer(v, Known().Transpose);
      if (t < 0 || r_.desc(v).dims.rank() < 2 || !SwapsLastTwo(TransposePerm(r_, g_.nodes[t]))) continue;
      ++c_.matches;
      const char* attr = i == 0 ? "transA" : "transB";
      if (!g_.nodes[n].op->declaration || g_.nodes[n].attrs.Int(attr, 0) != 0) continue;
      ++c_.effects;
      g_.nodes[n].attrs.Set(attr, int64_t{1});
      auto& origins = g_.nodes[n].origins;
      origins.insert(origins.end(), g_.nodes[t].origins.begin(), g_.nodes[t].origins.end());
      r_.SetInput(n, i, g_.nodes[t].inputs[0]);
      if (r_.Users(v).empty() && !r_.IsOutput(v)) r_.Kill(t);
    }
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status TransposeSimplification(Graph& g, PassContext& c) {
  Simplifier(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
