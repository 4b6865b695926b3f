#include <algorithm>
#include <map>
#include <vector>

#include "graph/call.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "op/declaration.h"

namespace opsnn::graph {
namespace {

// The first convolution of an image network reads so few channels that it takes them unblocked.
constexpr int64_t kFewChannels = 4;

// A constant in the stored order of a blocked layout; channels of size 1 are repeated in every lane, so that
// the stored form broadcasts as the logical one does. Padding lanes are zero.
ConstTensor BlockConstant(const HostTensor& t, const Dims& d, const Layout& layout) {
  auto out = std::make_shared<HostTensor>(t.dtype(), StoredDims(d, layout));
  if (!out->ok()) return nullptr;
  const int64_t c0 = layout.c0, blocks = (d[1] + c0 - 1) / c0, pixels = d[2] * d[3];
  const float* from = t.as<float>();
  float* to = out->as<float>();
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t lane = 0; lane < c0; ++lane, ++to) {
          const int64_t c = d[1] == 1 ? 0 : b * c0 + lane;
          *to = c < d[1] ? from[(n * d[1] + c) * pixels + p] : 0.0f;
        }
  return out;
}

class LayoutAssigner {
 public:
  LayoutAssigner(Graph& g, PassContext& c) : r_(g), g_(g), c_(c), transdata_(Known().TransData) {}

  Status Run() {
    if (!transdata_) return OkStatus();
    mode_.assign(g_.nodes.size(), false);
    Outward();
    Backward();
    if (std::none_of(mode_.begin(), mode_.end(), [](bool b) { return b; })) return OkStatus();
    for (size_t n = 0; n < mode_.size(); ++n)
      if (mode_[n])
        for (ValueId v : g_.nodes[n].outputs)
          if (v != kNoValue) g_.values[v].desc.layout = BlockedOf(v);
    const NodeId count = static_cast<NodeId>(mode_.size());
    for (NodeId n = 0; n < count; ++n) OPSNN_RETURN_IF_ERROR(Convert(n));
    for (ValueId& v : g_.outputs) v = Stored(v, Layout());
    return OkStatus();
  }

 private:
  static bool IsByte(DType t) { return t == DType::kU8 || t == DType::kS8; }
  bool Image(ValueId v) const {
    if (v == kNoValue) return false;
    const op::TensorDesc& d = r_.desc(v);
    return (d.dtype == DType::kF32 || IsByte(d.dtype)) && d.dims.rank() == 4 && NumElements(d.dims) > 0;
  }
  Layout BlockedOf(ValueId v) const { return BlockedLayout(r_.desc(v).dtype); }
  // Convolutions of floats, and those of bytes that make bytes.
  static bool Prefers(const Node& n) {
    return n.op->layout == op::LayoutRule::kPrefers || n.op == Known().ConvInteger;
  }
  bool OneElement(ValueId v) const { return NumElements(r_.desc(v).dims) == 1; }

  // How an operand takes part when its node runs on blocked images.
  enum class Role : uint8_t {
    kIgnored,   // absent, a parameter, or one element: the same in every layout
    kCarries,   // an image that must be blocked
    kConstant,  // a constant that is stored blocked
    kForbids,   // cannot be blocked: the node runs on logical order
  };

  // Operands of an elementwise chain, relative to the result's dims.
  Role ElementwiseRole(ValueId v, const op::TensorDesc& out) const {
    if (v == kNoValue || OneElement(v)) return Role::kIgnored;
    const op::TensorDesc& d = r_.desc(v);
    // Blocks of bytes and of floats hold different channels.
    if (IsByte(d.dtype) != IsByte(out.dtype) || d.dims.rank() > 4) return Role::kForbids;
    if (g_.values[v].IsConstant()) return d.dtype == DType::kF32 ? Role::kConstant : Role::kForbids;
    // A single channel against many would have to be repeated in every lane.
    return Image(v) && d.dims[1] == out.dims[1] ? Role::kCarries : Role::kForbids;
  }

  Role RoleOf(const Node& n, size_t i) const {
    const ValueId v = n.inputs[i];
    const bool is_tail = static_cast<int>(i) >= n.num_op_inputs;
    const op::TensorDesc& out = r_.desc(n.outputs[0]);
    if (n.op == Known().ConvInteger) return i == 0 ? Role::kCarries : Role::kIgnored;
    if (is_tail || n.op->layout == op::LayoutRule::kElementwise) return ElementwiseRole(v, out);
    const op::Declaration* decl = n.op->declaration;
    const bool variadic = decl && !decl->inputs.empty() && decl->inputs.back().variadic;
    if (i > 0 && !variadic) return Role::kIgnored;
    if (!Image(v)) return Role::kForbids;
    return g_.values[v].IsConstant() ? Role::kConstant : Role::kCarries;
  }

  bool CanBlock(const Node& n) const {
    if ((n.op->layout == op::LayoutRule::kLogicalOnly && !Prefers(n)) || n.outputs.empty() || IsRowProgram(n))
      return false;
    for (ValueId v : n.outputs)
      if (!Image(v)) return false;
    if (n.op == Known().ConvInteger) return Image(n.inputs[0]) && BlocksBytes(g_, n);
    if (IsByte(r_.desc(n.outputs[0]).dtype) && n.op != Known().Program &&
        (n.op != Known().MaxPool || n.outputs.size() > 1))
      return false;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (RoleOf(n, i) == Role::kForbids) return false;
    return true;
  }

  bool Blocked(ValueId v) const {
    const NodeId p = r_.Producer(v);
    return p >= 0 && mode_[p];
  }

  // Convolutions are blocked; whoever can work on blocked images follows where most of its operands' bytes
  // are.
  void Outward() {
    for (NodeId n = 0; n < r_.num_nodes(); ++n) {
      const Node& node = g_.nodes[n];
      if (!CanBlock(node)) continue;
      if (Prefers(node)) {
        mode_[n] = true;
        continue;
      }
      int64_t blocked = 0, plain = 0;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (RoleOf(node, i) == Role::kCarries)
          (Blocked(node.inputs[i]) ? blocked : plain) += NumElements(r_.desc(node.inputs[i]).dims);
      mode_[n] = blocked > 0 && blocked >= plain;
    }
  }

  // A flexible node in logical order all of whose readers want its result blocked joins them, if what it
  // reads is no larger than what it writes: one conversion before it replaces one behind.
  void Backward() {
    for (NodeId n = r_.num_nodes() - 1; n >= 0; --n) {
      const Node& node = g_.nodes[n];
      if (mode_[n] || Prefers(node) || node.outputs.size() != 1 || !CanBlock(node)) continue;
      const ValueId out = node.outputs[0];
      const auto& users = r_.Users(out);
      if (users.empty() || r_.IsOutput(out)) continue;
      const bool wanted =
          std::all_of(users.begin(), users.end(), [&](NodeId u) { return WantsBlocked(u, out); });
      int64_t reads = 0;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (RoleOf(node, i) == Role::kCarries && !Blocked(node.inputs[i]))
          reads += NumElements(r_.desc(node.inputs[i]).dims);
      mode_[n] = wanted && reads <= NumElements(r_.desc(out).dims);
    }
  }

  bool WantsBlocked(NodeId user, ValueId v) const {
    const Node& n = g_.nodes[user];
    if (!mode_[user]) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] == v && RoleOf(n, i) == Role::kCarries && !TakesPlain(n, i)) return true;
    return false;
  }

  // The first layer: unblocked input with few channels.
  bool TakesPlain(const Node& n, size_t i) const {
    return Prefers(n) && i == 0 && r_.desc(n.inputs[0]).dims[1] <= kFewChannels && !Blocked(n.inputs[0]);
  }

  Status Convert(NodeId n) {
    for (size_t i = 0; i < g_.nodes[n].inputs.size(); ++i) {
      const Node& node = g_.nodes[n];
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      if (!mode_[n]) {
        if (!g_.values[v].IsConstant()) r_.SetInput(n, i, Stored(v, Layout()));
        continue;
      }
      const Role role = RoleOf(node, i);
      if (role == Role::kCarries && !TakesPlain(node, i)) r_.SetInput(n, i, Stored(v, BlockedOf(v)));
      if (role == Role::kIgnored && !g_.values[v].IsConstant() && !OneElement(v))
        r_.SetInput(n, i, Stored(v, Layout()));
      if (role == Role::kConstant) {
        const ValueId c = StoredConstant(v);
        if (c == kNoValue) return Errorf(Code::kRuntime, "no memory for a constant in blocked layout.");
        r_.SetInput(n, i, c);
      }
    }
    return OkStatus();
  }

  // v in this layout: itself, or through a TransData that all its readers share.
  ValueId Stored(ValueId v, const Layout& layout) {
    if (r_.desc(v).layout == layout) return v;
    const auto [it, fresh] = converted_.try_emplace(v, kNoValue);
    if (!fresh) return it->second;
    ++c_.matches, ++c_.effects;
    Value made;
    made.name = g_.values[v].name + (layout.format == Format::kNC1HWC0 ? ":NC1HWC0" : ":ND");
    made.desc = r_.desc(v);
    made.desc.layout = layout;
    Node n;
    n.name = made.name;
    n.op = transdata_;
    n.inputs = {v};
    n.num_op_inputs = 1;
    n.outputs = {r_.AddValue(std::move(made))};
    const ValueId out = n.outputs[0];
    r_.AddNode(std::move(n));
    converted_[v] = out;
    return out;
  }

  ValueId StoredConstant(ValueId v) {
    const auto [it, fresh] = converted_.try_emplace(v, kNoValue);
    if (!fresh) return it->second;
    const ConstTensor t = r_.desc(v).constant;
    Value made;
    made.name = g_.values[v].name + ":NC1HWC0";
    made.desc.dtype = r_.desc(v).dtype;
    made.desc.layout = BlockedOf(v);
    made.desc.dims = Dims::Filled(4, 1);
    for (int i = 0, shift = 4 - t->dims().rank(); i < t->dims().rank(); ++i)
      made.desc.dims[i + shift] = t->dims()[i];
    const auto make = [&]() -> std::shared_ptr<const void> {
      return BlockConstant(*t, made.desc.dims, made.desc.layout);
    };
    const std::string key = "stored " + opsnn::ToString(made.desc.layout);
    const std::shared_ptr<const void> data = c_.packs ? c_.packs->GetOrMake(t, key, make) : make();
    if (!data) return kNoValue;
    made.stored = std::static_pointer_cast<const HostTensor>(data);
    return it->second = r_.AddValue(std::move(made));
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  const op::OpDef* transdata_;
  std::vector<bool> mode_;                // by node: its images are blocked
  std::map<ValueId, ValueId> converted_;  // value -> the same in the other layout
};

}  // namespace

Status AssignLayouts(Graph& g, PassContext& c) { return LayoutAssigner(g, c).Run(); }

}  // namespace opsnn::graph
