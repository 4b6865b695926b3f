#include "graph/buckets.h"

#include <algorithm>
#include <cstring>

#include "graph/ir/known_ops.h"
#include "op/declaration.h"
#include "op/traits.h"

namespace opsnn::graph {
namespace {

using op::Mixes;

// What a node mixes; a program works element by element.
Mixes MixesOf(const Node& n) { return n.op->program ? Mixes::kNothing : op::TraitsOf(*n.op).mixes; }

int64_t Product(const Dims& d, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= d[i];
  return n;
}

class RowProof {
 public:
  RowProof(const Graph& a, int64_t size_a, const Graph& b, int64_t size_b)
      : a_(a), b_(b), size_a_(size_a), size_b_(size_b), axes_(a.values.size()) {}

  Result<std::vector<BucketAxis>> Run(const std::vector<int>& inputs) {
    if (a_.values.size() != b_.values.size() || a_.nodes.size() != b_.nodes.size())
      return InvalidArgument("the graph itself depends on the size");
    for (size_t i = 0; i < a_.inputs.size(); ++i)
      if (inputs[i] >= 0) axes_[a_.inputs[i]] = {inputs[i], 1};
    for (size_t v = 0; v < a_.values.size(); ++v) OPSNN_RETURN_IF_ERROR(AddConstant(static_cast<ValueId>(v)));
    for (size_t n = 0; n < a_.nodes.size(); ++n) {
      if (a_.nodes[n].dead != b_.nodes[n].dead)
        return InvalidArgument("node \"%s\" depends on the size itself", a_.nodes[n].name.c_str());
      if (!a_.nodes[n].dead) OPSNN_RETURN_IF_ERROR(AddNode(a_.nodes[n]));
    }
    std::vector<BucketAxis> outputs;
    for (ValueId v : a_.outputs) outputs.push_back(axes_[v]);
    return outputs;
  }

 private:
  const Dims& dims(ValueId v) const { return a_.values[v].desc.dims; }

  // The one dim that differs between the two sizes, in proportion to them. False where there is another way
  // in which they differ.
  bool FindAxis(ValueId v, BucketAxis* found) const {
    const Dims &x = a_.values[v].desc.dims, &y = b_.values[v].desc.dims;
    *found = {};
    if (x.rank() != y.rank()) return false;
    for (int i = 0; i < x.rank(); ++i) {
      if (x[i] == y[i]) continue;
      if (found->axis >= 0 || x[i] % size_a_ != 0 || x[i] / size_a_ * size_b_ != y[i]) return false;
      *found = {i, x[i] / size_a_};
    }
    return true;
  }

  // A constant that was computed for the size: one whose longer form begins with the shorter (positions), or
  // one that only says a shape.
  Status AddConstant(ValueId v) {
    const ConstTensor &x = a_.values[v].desc.constant, &y = b_.values[v].desc.constant;
    if (a_.values[v].producer >= 0 || !x || !y || x == y) return OkStatus();
    BucketAxis axis;
    if (FindAxis(v, &axis) && axis.axis >= 0 && Product(x->dims(), 0, axis.axis) == 1 &&
        std::memcmp(x->data(), y->data(), x->bytes()) == 0) {
      axes_[v] = axis;
      return OkStatus();
    }
    if (x->bytes() != y->bytes() || std::memcmp(x->data(), y->data(), x->bytes()) != 0) {
      if (says_size_.empty()) says_size_.assign(a_.values.size(), false);
      says_size_[v] = true;
    }
    return OkStatus();
  }

  bool SaysSize(ValueId v) const { return !says_size_.empty() && says_size_[v]; }

  Status Mixes(const Node& n, const char* why) const {
    return InvalidArgument("node \"%s\" (%s) %s", n.name.c_str(), n.op->name.c_str(), why);
  }

  Status AddNode(const Node& n) {
    bool depends = false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNoValue) continue;
      depends |= axes_[v].axis >= 0;
      if (!SaysSize(v)) continue;
      if (i != 1 || !(MixesOf(n) == Mixes::kReshape || n.op == Known().Expand))
        return Mixes(n, "computes with the size itself");
      depends = true;
    }
    if (!depends) return OkStatus();
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      BucketAxis y;
      if (!FindAxis(v, &y)) return Mixes(n, "has a result whose dims do not grow with the size");
      if (y.axis < 0 || !Keeps(n, v, y)) return Mixes(n, "mixes elements along the dim");
      axes_[v] = y;
    }
    return OkStatus();
  }

  // Input i, where it depends on the size, lies with its axis under that of the result.
  bool Aligned(const Node& n, size_t i, ValueId out, const BucketAxis& y) const {
    const ValueId v = n.inputs[i];
    if (v == kNoValue || axes_[v].axis < 0) return true;
    return axes_[v].factor == y.factor && axes_[v].axis - dims(v).rank() == y.axis - dims(out).rank();
  }
  bool AllAligned(const Node& n, ValueId out, const BucketAxis& y) const {
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (!Aligned(n, i, out, y)) return false;
    return true;
  }
  bool OnlyFirstDepends(const Node& n) const {
    return std::all_of(n.inputs.begin() + 1, n.inputs.end(),
                       [&](ValueId v) { return v == kNoValue || axes_[v].axis < 0; });
  }

  // Attribute `axis` of a node, counted from the front.
  int AxisOf(const Node& n) const {
    const op::AttrDecl* declared = n.op->declaration->FindAttr("axis");
    const int64_t axis = n.attrs.Int("axis", declared ? declared->int_default : 0);
    return static_cast<int>(axis < 0 ? axis + dims(n.inputs[0]).rank() : axis);
  }

  // Does element i along the axis of `out` depend on elements i of the inputs alone?
  bool Keeps(const Node& n, ValueId out, const BucketAxis& y) const {
    if (n.inputs.empty() || n.inputs[0] == kNoValue) return false;
    const BucketAxis x = axes_[n.inputs[0]];
    switch (MixesOf(n)) {
      case Mixes::kAll:
        return false;
      case Mixes::kNothing:
        return AllAligned(n, out, y);
      case Mixes::kProduct:
        return KeepsProduct(n, out, y);
      case Mixes::kAxis:
        return AxisOf(n) != y.axis && AllAligned(n, out, y);
      case Mixes::kGather:  // of rows that do not depend, by indices that do; or along another axis
        return x.axis < 0 || (OnlyFirstDepends(n) && AxisOf(n) != x.axis);
      default:
        return x.axis >= 0 && OnlyFirstDepends(n) && KeepsFirst(n, out, x, y);
    }
  }

  // The same where input 0 alone depends on the size.
  bool KeepsFirst(const Node& n, ValueId out, const BucketAxis& x, const BucketAxis& y) const {
    switch (MixesOf(n)) {
      case Mixes::kReshape:
        return Product(dims(n.inputs[0]), 0, x.axis) == Product(dims(out), 0, y.axis);
      case Mixes::kImage:
        return x.axis == 0 && y.axis == 0 && x.factor == y.factor;
      case Mixes::kTranspose:
        return KeepsTranspose(n, x, y);
      case Mixes::kTrailing:
        return AxisOf(n) > x.axis;
      case Mixes::kReduced:  // the dim is still there in proportion, so it is not among the reduced ones
        return x.factor == y.factor;
      default:
        return false;
    }
  }

  bool KeepsProduct(const Node& n, ValueId out, const BucketAxis& y) const {
    const int out_rank = dims(out).rank();
    for (size_t i = 0; i < 2; ++i) {
      const ValueId v = n.inputs[i];
      const BucketAxis& x = axes_[v];
      if (x.axis < 0) continue;
      const int rank = dims(v).rank(), from_end = rank - x.axis;
      const bool transposed = n.attrs.Int(i == 0 ? "transA" : "transB", 0) != 0;
      // Counted from the end: 1 is the sum of A and the columns of B, 2 rows of A and the sum of B.
      const int summed = (i == 0) != transposed ? 1 : 2;
      if (rank < 2 || x.factor != y.factor || from_end == summed) return false;
      const int at = from_end > 2 ? from_end : i == 0 ? 2 : 1;
      if (out_rank - y.axis != at) return false;
    }
    return n.inputs.size() < 3 || Aligned(n, 2, out, y);
  }

  bool KeepsTranspose(const Node& n, const BucketAxis& x, const BucketAxis& y) const {
    std::vector<int64_t> perm = n.attrs.Ints("perm");
    if (perm.empty())
      for (int64_t i = dims(n.inputs[0]).rank() - 1; i >= 0; --i) perm.push_back(i);
    return perm[static_cast<size_t>(y.axis)] == x.axis;
  }

  const Graph &a_, &b_;
  const int64_t size_a_, size_b_;
  std::vector<BucketAxis> axes_;  // by value
  std::vector<bool> says_size_;   // by value, or empty: a constant with the size in its content
};

}  // namespace

Result<std::vector<BucketAxis>> OwnRows(const Graph& a, int64_t size_a, const Graph& b, int64_t size_b,
                                        const std::vector<int>& inputs) {
  return RowProof(a, size_a, b, size_b).Run(inputs);
}

}  // namespace opsnn::graph
