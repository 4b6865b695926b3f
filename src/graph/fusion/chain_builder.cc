#include "graph/fusion/chain_builder.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/known_ops.h"

namespace opsnn::graph {
namespace {

// Slots are numbered with a byte, 255 means none; the interpreter keeps every live slot's block in L1.
constexpr size_t kMaxSlots = 200;
constexpr size_t kMaxInputs = 12;

bool SlotHolds(DType t) { return IsFloat(t) || t == DType::kBool || t == DType::kS32 || t == DType::kS64; }

Result<op::BoundProgram> Bind(const Graph& g, const Node& n) {
  std::vector<const op::TensorDesc*> descs;
  std::vector<DType> dtypes;
  DType any = DType::kF32;
  for (ValueId v : n.inputs)
    if (v != kNoValue) any = g.values[v].desc.dtype;
  for (ValueId v : n.inputs) {
    descs.push_back(v == kNoValue ? nullptr : &g.values[v].desc);
    dtypes.push_back(v == kNoValue ? any : g.values[v].desc.dtype);
  }
  return op::BindProgram(*n.op, {dtypes, &n.attrs.get(), descs});
}

}  // namespace

namespace {

// Does n look like a part of a group, before its program is known?
bool MayFuse(const Graph& g, const Node& n) {
  if (n.dead || n.tail || !n.op->program || n.outputs.size() != 1 || n.outputs[0] == kNoValue) return false;
  const op::TensorDesc& out = g.values[n.outputs[0]].desc;
  if (!SlotHolds(out.dtype) || !IsKnown(out.dims) || NumElements(out.dims) == 0) return false;
  for (ValueId v : n.inputs) {
    if (v == kNoValue) continue;
    const DType t = g.values[v].desc.dtype;
    if (!SlotHolds(t)) return false;
    // Conversions to and from integers have rules of their own at load and store.
    if (n.op == Known().Cast && (!IsFloat(t) || !IsFloat(out.dtype))) return false;
  }
  return true;
}

bool Fuses(const Result<op::BoundProgram>& b) {
  return b.ok() && !b->program.HasRowReduction() && b->program.outputs.size() == 1;
}

BoundNode::Operand OperandOf(const Graph& g, ValueId v) {
  if (v == kNoValue) return {};
  return {g.values[v].desc.dtype, g.values[v].desc.constant};
}

std::shared_ptr<const BoundNode> BindNode(const Graph& g, const Node& n) {
  auto bound = std::make_shared<BoundNode>();
  bound->op = n.op;
  for (ValueId v : n.inputs) bound->operands.push_back(OperandOf(g, v));
  if (auto b = Bind(g, n); Fuses(b)) bound->program = std::move(*b);
  return bound;
}

// Is it still what n computes? Attributes of pointwise nodes do not change once they are set.
bool Holds(const BoundNode& b, const Graph& g, const Node& n) {
  if (b.op != n.op || b.operands.size() != n.inputs.size()) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    static const op::TensorDesc absent;
    const op::TensorDesc& d = n.inputs[i] == kNoValue ? absent : g.values[n.inputs[i]].desc;
    if (b.operands[i].dtype != d.dtype || b.operands[i].constant != d.constant) return false;
  }
  return true;
}

}  // namespace

bool IsFusablePointwise(const Graph& g, const Node& n) { return MayFuse(g, n) && Fuses(Bind(g, n)); }

void BindNodes(Graph& g) {
  for (Node& n : g.nodes)
    if (!n.dead && !n.tail && n.op->program && !(n.bound && Holds(*n.bound, g, n))) n.bound = BindNode(g, n);
}

const op::BoundProgram* NodePrograms::Fusable(NodeId n) {
  const Node& node = g_.nodes[n];
  if (node.dead || static_cast<size_t>(n) >= bound_.size()) return nullptr;
  Entry& e = bound_[static_cast<size_t>(n)];
  if (!e.known) {
    e.known = true;
    if (MayFuse(g_, node))
      e.bound = node.bound && Holds(*node.bound, g_, node) ? node.bound : BindNode(g_, node);
  }
  return e.bound && e.bound->program ? &*e.bound->program : nullptr;
}

// Most groups are small: their lists are made once.
ChainBuilder::ChainBuilder(const Graph& g, NumericsPolicy policy) : g_(&g), policy_(policy) {
  constexpr size_t kUsual = 8;
  slots_.reserve(2 * kUsual);
  slot_of_.reserve(2 * kUsual);
  stages_.reserve(kUsual);
  inputs_.reserve(kUsual / 2);
  input_slots_.reserve(kUsual / 2);
}

int ChainBuilder::NewSlot(ComputeType type) {
  slots_.push_back(type);
  return static_cast<int>(slots_.size()) - 1;
}

int ChainBuilder::Emit(StageOp op, int a, int b, int c, double imm0, double imm1, ComputeType type) {
  stages_.push_back({op, NewSlot(type), {a, b, c}, {imm0, imm1}});
  return stages_.back().dst;
}

void ChainBuilder::AddInput(ValueId v) { AddInput(v, ComputeTypeOf(g_->values[v].desc.dtype)); }

void ChainBuilder::AddInput(ValueId v, ComputeType wanted) {
  const DType dtype = g_->values[v].desc.dtype;
  // An f32 slot holds integers of up to 16 bits as they are: loading converts.
  const bool holds = wanted == ComputeType::kF32 && !IsFloat(dtype) && SizeOf(dtype) <= 2;
  const int slot = NewSlot(holds ? wanted : ComputeTypeOf(dtype));
  slot_of_.emplace_back(v, slot);
  inputs_.push_back(v);
  input_slots_.push_back(slot);
}

void ChainBuilder::RoundAsStored(ValueId v) {
  const DType dtype = g_->values[v].desc.dtype;
  if (!IsHalf(dtype)) return;
  for (auto& [value, slot] : slot_of_)
    if (value == v) slot = Emit(StageOp::kRoundTo, slot, -1, -1, static_cast<double>(dtype), 0, slots_[slot]);
}

int ChainBuilder::Find(ValueId v) const {
  for (const auto& [value, slot] : slot_of_)
    if (value == v) return slot;
  return -1;
}

int ChainBuilder::OperandSlot(ValueId v, ComputeType type) {
  const Value& value = g_->values[v];
  if (value.IsConstant() && value.desc.constant && value.desc.constant->size() == 1 && Find(v) < 0) {
    const double c = ToDoubles(*value.desc.constant)[0];
    // A 64-bit integer beyond 2^53 stays an operand.
    if (IsFloat(value.desc.dtype) || std::abs(c) <= 0x1p53)
      return Emit(StageOp::kConst, -1, -1, -1, c, 0, type);
  }
  if (Find(v) < 0) AddInput(v, type);
  const int slot = Find(v);
  return slots_[slot] == type ? slot : Emit(StageOp::kConvert, slot, -1, -1, 0, 0, type);
}

bool ChainBuilder::AddNode(const Node& n) {
  const auto bound = Bind(*g_, n);
  return bound.ok() && AddNode(n, *bound);
}

bool ChainBuilder::AddNode(const Node& n, const op::BoundProgram& bound) {
  const size_t slots = slots_.size(), stages = stages_.size(), inputs = inputs_.size(),
               known = slot_of_.size();
  const Program& p = bound.program;
  std::vector<int> map(p.slots.size(), -1);
  for (int i = 0; i < p.num_inputs; ++i) map[i] = OperandSlot(n.inputs[bound.operands[i]], p.slots[i].type);
  for (const Stage& s : p.stages) {
    int src[3];
    for (int i = 0; i < 3; ++i) src[i] = s.src[i] == kNoSlot ? -1 : map[s.src[i]];
    map[s.dst] = Emit(s.op, src[0], src[1], src[2], s.imm[0], s.imm[1], p.slots[s.dst].type);
  }
  const ValueId out = n.outputs[0];
  const DType dtype = g_->values[out].desc.dtype;
  int slot = map[p.outputs[0]];
  // Casting to a half asks for its rounding; other half intermediates may keep f32 under the excess policy.
  if (IsHalf(dtype) && (policy_ == NumericsPolicy::kExact || n.op == Known().Cast))
    slot = Emit(StageOp::kRoundTo, slot, -1, -1, static_cast<double>(dtype), 0, slots_[slot]);
  slot_of_.emplace_back(out, slot);
  if (slots_.size() <= kMaxSlots && inputs_.size() <= kMaxInputs) return true;
  slots_.resize(slots);
  stages_.resize(stages);
  inputs_.resize(inputs);
  input_slots_.resize(inputs);
  slot_of_.resize(known);
  return false;
}

// Storing rounds to the value's dtype: a stage that does the same right before it is none.
int ChainBuilder::StoredSlot(ValueId output) const {
  const int slot = Find(output);
  const auto dtype = static_cast<double>(g_->values[output].desc.dtype);
  for (const VStage& s : stages_) {
    const bool rounds = s.dst == slot && s.op == StageOp::kRoundTo && s.imm[0] == dtype;
    if (rounds && std::find(input_slots_.begin(), input_slots_.end(), s.src[0]) == input_slots_.end())
      return s.src[0];
  }
  return slot;
}

Program ChainBuilder::Build(ValueId output) const {
  std::vector<bool> needed(slots_.size(), false);
  const int stored = StoredSlot(output);
  needed[stored] = true;
  for (auto s = stages_.rbegin(); s != stages_.rend(); ++s)
    for (int src : s->src)
      if (needed[s->dst] && src >= 0) needed[src] = true;

  Program p;
  p.slots.reserve(slots_.size());
  p.stages.reserve(stages_.size());
  std::vector<SlotId> number(slots_.size(), kNoSlot);
  for (int s : input_slots_) {
    number[s] = static_cast<SlotId>(p.slots.size());
    p.slots.push_back({slots_[s], false});
  }
  p.num_inputs = static_cast<int>(input_slots_.size());
  for (const VStage& v : stages_) {
    if (!needed[v.dst]) continue;
    number[v.dst] = static_cast<SlotId>(p.slots.size());
    p.slots.push_back({slots_[v.dst], false});
    Stage s{v.op};
    s.dst = number[v.dst];
    for (int i = 0; i < 3; ++i) s.src[i] = v.src[i] < 0 ? kNoSlot : number[v.src[i]];
    s.imm[0] = v.imm[0], s.imm[1] = v.imm[1];
    p.stages.push_back(s);
  }
  p.outputs.push_back(number[stored]);
  p.exact = policy_ == NumericsPolicy::kExact;
  return p;
}

}  // namespace opsnn::graph
