// Transposes between channels first and channels last are placed for the whole graph: what stands between two
// of them and is the same in either order runs in the order in which the fewest bytes are transposed.
//   Conv, to NHWC, Relu, to NCHW, Conv      Conv, Relu, Conv
//   both operands of an Add to NHWC         one transpose behind the Add
// Every node that can run in both orders gets a label, 1 where it runs on its operands in order `perm`; a
// value costs its bytes where someone reads it in the order in which it is not made. The cheapest labels are
// a minimum cut, for any graph.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/call.h"
#include "graph/ir/reordered.h"
#include "graph/passes/min_cut.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "op/declaration.h"

namespace opsnn::graph {
namespace {

// From channels last to channels first.
Perm ChannelsFirst(int64_t rank) {
  Perm perm{0, rank - 1};
  for (int64_t i = 1; i + 1 < rank; ++i) perm.push_back(i);
  return perm;
}

const op::OpDef* Resize() {
  static const op::OpDef* const resize = op::FindOperator("Resize");
  return resize;
}

// A list that holds something for every axis, in the new order.
ConstTensor PermutedRow(const HostTensor& t, const Perm& perm) {
  auto out = std::make_shared<HostTensor>(t.dtype(), t.dims());
  if (!out->ok()) return nullptr;
  const size_t size = SizeOf(t.dtype()), halves = static_cast<size_t>(t.size()) / perm.size();
  for (size_t half = 0; half < halves; ++half)
    for (size_t i = 0; i < perm.size(); ++i)
      std::copy_n(t.as<char>() + (half * perm.size() + static_cast<size_t>(perm[i])) * size, size,
                  out->as<char>() + (half * perm.size() + i) * size);
  return out;
}

class Placer {
 public:
  Placer(Graph& g, PassContext& c, Perm perm)
      : r_(g), g_(g), c_(c), perm_(std::move(perm)), back_(Inverse(perm_)) {}

  Status Run() {
    FindNodes();
    if (flexible_ == 0 || flexible_ > kMostNodes) return OkStatus();
    c_.matches += flexible_;
    for (size_t v = 0; v < g_.values.size(); ++v) AddCosts(static_cast<ValueId>(v));
    if (cut_.Solve() >= unplaced_) return OkStatus();
    const auto count = static_cast<NodeId>(label_.size());
    for (NodeId n = 0; n < count; ++n)
      if (Flips(n)) OPSNN_RETURN_IF_ERROR(Flip(n));
    return OkStatus();
  }

 private:
  static constexpr int kMostNodes = 10000;
  int rank() const { return static_cast<int>(perm_.size()); }

  // ---- which nodes can run in either order

  bool IsTranspose(NodeId n, const Perm& perm) const {
    return r_.Is(n, Known().Transpose) && g_.nodes[n].aliasing == Aliasing::kNone &&
           TransposePerm(r_, g_.nodes[n]) == perm;
  }
  bool Whole(ValueId v) const {
    const op::TensorDesc& d = r_.desc(v);
    return d.dims.rank() == rank() && IsKnown(d.dims) && NumElements(d.dims) > 0;
  }
  bool OneElement(ValueId v) const { return NumElements(r_.desc(v).dims) == 1; }
  bool IsConstant(ValueId v) const { return g_.values[v].IsConstant(); }

  // Elementwise: constants are brought into the order ahead, one element is the same in all.
  bool Elementwise(const Node& n) const {
    if (n.op->layout != op::LayoutRule::kElementwise || !n.op->program || !n.op->declaration ||
        n.op->declaration->FindAttr("axis"))
      return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
      if (v == kNoValue || OneElement(v)) return true;
      return IsConstant(v) ? r_.desc(v).dims.rank() <= rank() : Whole(v);
    });
  }

  // Operands behind the first that say something for every axis.
  bool ConstantRows(const Node& n, size_t first, size_t last, int64_t entries) const {
    for (size_t i = first; i <= last && i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      if (v == kNoValue || NumElements(r_.desc(v).dims) == 0) continue;
      if (!IsConstant(v) || !r_.desc(v).constant || r_.desc(v).constant->size() != entries) return false;
    }
    return true;
  }

  bool CanFlip(const Node& n) const {
    if (n.dead || n.tail || n.aliasing != Aliasing::kNone || n.outputs.size() != 1 || n.inputs.empty() ||
        n.outputs[0] == kNoValue || n.inputs[0] == kNoValue || !Whole(n.outputs[0]))
      return false;
    const KnownOps& k = Known();
    if (n.op == k.Concat)
      return std::all_of(n.inputs.begin(), n.inputs.end(),
                         [&](ValueId v) { return v != kNoValue && Whole(v) && !IsConstant(v); });
    if (n.op == k.Pad)
      return Whole(n.inputs[0]) && n.inputs.size() >= 2 && ConstantRows(n, 1, 1, 2 * rank()) &&
             (n.inputs.size() < 3 || n.inputs[2] == kNoValue || OneElement(n.inputs[2])) &&
             (n.inputs.size() < 4 || n.inputs[3] == kNoValue);
    if (n.op == Resize())  // sums of several pixels are in another order
      return Whole(n.inputs[0]) && !n.attrs.Has("axes") && ConstantRows(n, 2, 3, rank()) &&
             ConstantRows(n, 1, 1, 2 * rank()) &&
             (n.attrs.String("mode", "nearest") == "nearest" || c_.policy != NumericsPolicy::kExact);
    return Elementwise(n);
  }

  void FindNodes() {
    label_.assign(g_.nodes.size(), MinCut::kZero);
    for (NodeId n = 0; n < r_.num_nodes(); ++n) {
      if (!CanFlip(g_.nodes[n])) continue;
      label_[static_cast<size_t>(n)] = cut_.AddNode();
      ++flexible_;
    }
  }
  bool Flips(NodeId n) const {
    const int label = label_[static_cast<size_t>(n)];
    return label != MinCut::kZero && cut_.IsOne(label);
  }

  // ---- what it costs

  // As whom node n reads: the transpose to the other order reads as one that runs in it.
  int ReaderLabel(NodeId n) const {
    return IsTranspose(n, perm_) ? MinCut::kOne : label_[static_cast<size_t>(n)];
  }

  void AddCosts(ValueId v) {
    const NodeId p = r_.Producer(v);
    if (IsConstant(v) || (r_.Users(v).empty() && !r_.IsOutput(v)) || !Whole(v) || OneElement(v)) return;
    const bool comes_so = p >= 0 && IsTranspose(p, back_);
    const int made = comes_so ? MinCut::kOne : p >= 0 ? label_[static_cast<size_t>(p)] : MinCut::kZero;
    std::vector<int> readers;
    for (NodeId n : r_.Users(v)) readers.push_back(ReaderLabel(n));
    if (r_.IsOutput(v)) readers.push_back(MinCut::kZero);
    const auto bytes = static_cast<int64_t>(StoredBytes(r_.desc(v)));
    // What follows at once behind a convolution or product needs no pass, and a chain is one: where all else
    // is equal nobody comes between them.
    const NodeId maker = comes_so ? r_.Producer(g_.nodes[p].inputs[0]) : p;
    const bool alone = maker >= 0 && readers.size() == 1;
    const int64_t joined = !alone                           ? 0
                           : g_.nodes[maker].op->takes_tail ? bytes / 2
                           : made > MinCut::kOne            ? bytes / 4
                                                            : 0;
    const auto ones_read = std::count(readers.begin(), readers.end(), MinCut::kOne);
    const int ones = cut_.AddNode(), zeros = cut_.AddNode();
    cut_.AddCost(made, ones, bytes);
    cut_.AddCost(zeros, made, bytes);
    for (const int label : readers) {
      if (label != MinCut::kZero) cut_.AddCost(ones, label, MinCut::kNever);
      if (label != MinCut::kOne) cut_.AddCost(label, zeros, MinCut::kNever);
      if (joined == 0 || label <= MinCut::kOne) continue;
      cut_.AddCost(made, label, joined);
      cut_.AddCost(label, made, joined);
      if (made == MinCut::kOne) unplaced_ += joined;
    }
    // As it is, nobody but transposes runs in the other order.
    const bool all_ones = ones_read == static_cast<std::ptrdiff_t>(readers.size());
    if (made == MinCut::kOne ? !all_ones : ones_read > 0) unplaced_ += bytes;
  }

  // ---- doing it

  Node Transpose(const std::string& name, const Perm& perm, ValueId from, ValueId to) const {
    Node n;
    n.name = name;
    n.op = Known().Transpose;
    n.attrs.Set("perm", perm);
    n.inputs = {from};
    n.num_op_inputs = 1;
    n.outputs = {to};
    return n;
  }

  // Its name is that of the model's value and new in the graph: runs keep values by name.
  Value InOrder(ValueId v) {
    Value made;
    const Value& from = g_.values[v];
    const Reordered old = from.reordered ? *from.reordered : Reordered{from.name, AsItIs()};
    Reordered now{old.of, {}};
    for (const int64_t axis : perm_) now.perm.push_back(old.perm[static_cast<size_t>(axis)]);
    made.name = NewName(old.of);
    made.desc = r_.desc(v);
    made.desc.constant = nullptr;
    made.desc.dims = Permuted(made.desc.dims, perm_);
    made.reordered = std::make_shared<const Reordered>(std::move(now));
    return made;
  }

  Perm AsItIs() const {
    Perm perm(perm_.size());
    std::iota(perm.begin(), perm.end(), 0);
    return perm;
  }

  std::string NewName(const std::string& of) {
    if (names_.empty())
      for (const Value& v : g_.values) names_.insert(v.name);
    std::string name = of + ":placed";
    for (int i = 2; !names_.insert(name).second; ++i) name = of + ":placed" + std::to_string(i);
    return name;
  }

  // v in order `perm`.
  Result<ValueId> Placed(ValueId v) {
    if (v == kNoValue) return v;
    if (const auto it = placed_.find(v); it != placed_.end()) return it->second;
    if (OneElement(v)) return v;
    const auto it = placed_.try_emplace(v, kNoValue).first;
    if (IsConstant(v)) {
      OPSNN_ASSIGN_OR_RETURN(it->second, PlacedConstant(v));
      return it->second;
    }
    const NodeId p = r_.Producer(v);
    if (p >= 0 && IsTranspose(p, back_)) return it->second = g_.nodes[p].inputs[0];
    if (const ValueId known = KnownPlaced(v); known != kNoValue) return it->second = known;
    const ValueId made = r_.AddValue(InOrder(v));
    placed_[v] = made;
    r_.AddNode(Transpose(g_.values[made].name, perm_, v, made));
    return made;
  }

  // The model's own name for v in that order.
  ValueId KnownPlaced(ValueId v) const {
    for (NodeId n : r_.Users(v))
      if (IsTranspose(n, perm_)) return g_.nodes[n].outputs[0];
    return kNoValue;
  }

  Result<ValueId> PlacedConstant(ValueId v) {
    const ConstTensor t = r_.desc(v).constant;
    Dims dims = Dims::Filled(rank(), 1);
    for (int i = 0, shift = rank() - t->dims().rank(); i < t->dims().rank(); ++i)
      dims[i + shift] = t->dims()[i];
    const auto make = [&]() -> std::shared_ptr<const void> { return PermutedTensor(*t, dims, perm_); };
    std::string key = "placed";
    for (const int64_t axis : perm_) key += " " + std::to_string(axis);
    const std::shared_ptr<const void> data = c_.packs ? c_.packs->GetOrMake(t, key, make) : make();
    if (!data) return Errorf(Code::kRuntime, "no memory for a constant in another order.");
    return r_.AddConstant(NewName(g_.values[v].name), std::static_pointer_cast<const HostTensor>(data));
  }

  // Operand i holds an entry for every axis, or two halves of them.
  Status PermuteRow(NodeId n, size_t i) {
    if (i >= g_.nodes[n].inputs.size()) return OkStatus();
    const ValueId v = g_.nodes[n].inputs[i];
    if (v == kNoValue || NumElements(r_.desc(v).dims) == 0) return OkStatus();
    const ConstTensor row = PermutedRow(*r_.desc(v).constant, perm_);
    if (!row) return Errorf(Code::kRuntime, "no memory for a list of axes.");
    r_.SetInput(n, i, r_.AddConstant(NewName(g_.values[v].name), row));
    return OkStatus();
  }

  Status Flip(NodeId n) {
    ++c_.effects;
    const op::OpDef* op = g_.nodes[n].op;
    const bool first_only = op == Known().Pad || op == Resize();
    for (size_t i = 0; i < g_.nodes[n].inputs.size(); ++i) {
      if (first_only && i > 0 && (op == Resize() || i == 1)) {
        OPSNN_RETURN_IF_ERROR(PermuteRow(n, i));
        continue;
      }
      const ValueId v = g_.nodes[n].inputs[i];
      if (v == kNoValue) continue;
      OPSNN_ASSIGN_OR_RETURN(const ValueId placed, Placed(v));
      if (placed != v) r_.SetInput(n, i, placed);
    }
    if (op == Known().Concat) {
      const int64_t given = g_.nodes[n].attrs.Int("axis", 0);
      g_.nodes[n].attrs.Set("axis", back_[static_cast<size_t>(given < 0 ? given + rank() : given)]);
    }
    PlaceResult(n);
    return OkStatus();
  }

  // The result is made in the other order, under the model's name for that if there is one. Who reads it as
  // it was gets it through a transpose.
  void PlaceResult(NodeId n) {
    const ValueId v = g_.nodes[n].outputs[0];
    ValueId made = KnownPlaced(v);
    if (made != kNoValue) {
      for (bool more = true; more;) {
        more = false;
        for (NodeId t : r_.Users(v)) {
          if (!IsTranspose(t, perm_)) continue;
          if (const ValueId same = g_.nodes[t].outputs[0]; same != made && !r_.IsOutput(same))
            r_.ReplaceUses(same, made);
          else if (same != made)
            continue;
          auto& origins = g_.nodes[t].origins;
          g_.nodes[n].origins.insert(g_.nodes[n].origins.end(), origins.begin(), origins.end());
          r_.Kill(t);
          more = true;
          break;
        }
      }
    } else {
      made = r_.AddValue(InOrder(v));
    }
    placed_[v] = made;
    g_.nodes[n].outputs[0] = made;
    g_.values[made].producer = n;
    g_.values[v].producer = -1;
    const auto& users = r_.Users(v);
    if (!r_.IsOutput(v) &&
        std::all_of(users.begin(), users.end(), [&](NodeId u) { return u < count() && Flips(u); }))
      return;
    Node back = Transpose(g_.nodes[n].name + ":back", back_, made, v);
    back.origins = g_.nodes[n].origins;
    r_.AddNode(std::move(back));
  }
  NodeId count() const { return static_cast<NodeId>(label_.size()); }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  const Perm perm_, back_;
  MinCut cut_;
  int flexible_ = 0;
  int64_t unplaced_ = 0;                   // what it costs as the graph is
  std::vector<int> label_;                 // by node: in cut_
  std::map<ValueId, ValueId> placed_;      // value -> the same in order perm_
  std::unordered_set<std::string> names_;  // of all values; empty until one is asked for
};

}  // namespace

Status TransposePlacement(Graph& g, PassContext& c) {
  for (const int64_t rank : {4, 5}) {
    const Perm first = ChannelsFirst(rank), last = Inverse(first);
    const auto between = std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
      if (n.dead || n.op != Known().Transpose) return false;
      const Perm perm = n.attrs.Ints("perm");
      return perm == first || perm == last;
    });
    if (between < 2) continue;
    for (const Perm& perm : {first, last}) {
      const int before = c.effects;
      OPSNN_RETURN_IF_ERROR(Placer(g, c, perm).Run());
      if (c.effects == before) continue;
      g.RemoveUnused();  // transposes that nobody reads any more would count as readers
      OPSNN_RETURN_IF_ERROR(g.Sort());
    }
  }
  return OkStatus();
}

}  // namespace opsnn::graph
