#include "graph/stages.h"

#include <algorithm>
#include <map>

namespace opsnn::graph {
namespace {

// Operands of any size whose values tell how large the result is: one bit each.
struct Sizing {
  const char* op;
  uint32_t operands;
};
constexpr Sizing kSizings[] = {{"NonZero", 1},     {"Unique", 1},
                               {"Compress", 0b10}, {"NonMaxSuppression", ~uint32_t{0}},
                               {"If", 1},          {"Loop", 0b11}};

// Does the size of the node's result depend on operand i, as far as one can tell?
bool Decides(const Graph& g, const Node& n, size_t i) {
  for (const Sizing& s : kSizings)
    if (n.op->name == s.op) return i < 32 && (s.operands >> i & 1);
  const op::TensorDesc& d = g.values[n.inputs[i]].desc;
  return d.known_rank && IsKnown(d.dims) && IsSmall(d.dtype, d.dims);
}

class Splitter {
 public:
  Splitter(const Graph& g, const std::vector<bool>& open) : g_(g), open_(open) {
    split_.head = g;
    split_.rest = g;
  }

  Result<Split> Run() {
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      split_.head.nodes[n].dead |= open_[n];
      split_.rest.nodes[n].dead |= !open_[n];
    }
    split_.head.outputs.clear();
    split_.rest.outputs.clear();
    split_.rest.inputs.clear();
    split_.rest.defaults.clear();
    // Sizes that values decide are those of one run: a declared one was taken from an example.
    for (Declared& d : split_.rest.declared) std::fill(d.dims.begin(), d.dims.end(), kUnknownDim);
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (open_[n] && !g_.nodes[n].dead) OPSNN_RETURN_IF_ERROR(AddOperands(g_.nodes[n]));
    for (ValueId v : g_.outputs) {
      split_.from_head.push_back(IsOpen(v) ? -1 : Hand(v));
      if (IsOpen(v)) split_.rest.outputs.push_back(v);
    }
    // The rest starts from names and shapes, as a model that was read.
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (open_[n])
        for (ValueId v : g_.nodes[n].outputs)
          if (v != kNoValue)
            split_.rest.values[v].desc.known_rank = false, split_.rest.values[v].desc.dims = {};
    for (Graph* part : {&split_.head, &split_.rest}) {
      part->RemoveUnused();
      OPSNN_RETURN_IF_ERROR(part->Sort());
    }
    return std::move(split_);
  }

 private:
  bool IsOpen(ValueId v) const { return g_.values[v].producer >= 0 && open_[g_.values[v].producer]; }

  // The output of the head that v is.
  int Hand(ValueId v) {
    std::vector<ValueId>& outputs = split_.head.outputs;
    const auto it = std::find(outputs.begin(), outputs.end(), v);
    if (it != outputs.end()) return static_cast<int>(it - outputs.begin());
    outputs.push_back(v);
    return static_cast<int>(outputs.size()) - 1;
  }

  Status AddOperands(const Node& n) {
    bool root = true, decided = false;
    for (ValueId v : n.inputs) root = root && (v == kNoValue || !IsOpen(v));
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNoValue || IsOpen(v) || g_.values[v].desc.constant) continue;
      Value& in_rest = split_.rest.values[v];
      if (!entered_.count(v)) {
        entered_.insert(v);
        split_.rest.inputs.push_back(v);
        split_.handed.push_back(g_.values[v].producer < 0 ? -1 : Hand(v));
        in_rest.dim_names.clear();
      }
      if (root && Decides(g_, n, i)) split_.decisive.insert(in_rest.name), decided = true;
    }
    if (!root || decided) return OkStatus();
    return Errorf(
        Code::kNotImplemented,
        "node \"%s\" (%s): the shape of its output depends on values that are only known when it runs, "
        "which is not supported for this operator.",
        n.name.c_str(), n.op->name.c_str());
  }

  const Graph& g_;
  const std::vector<bool>& open_;
  std::set<ValueId> entered_;
  Split split_;
};

}  // namespace

bool IsSmall(DType dtype, const Dims& dims) {
  // At most one dim, and about as many values as a shape with a pad on each side, or a region of interest,
  // has.
  constexpr int64_t kSmallInts = 64, kSmallFloats = 16;
  return dims.rank() <= 1 && NumElements(dims) <= (IsFloat(dtype) ? kSmallFloats : kSmallInts);
}

Result<Split> SplitGraph(const Graph& g, const std::vector<bool>& open) { return Splitter(g, open).Run(); }

}  // namespace opsnn::graph
