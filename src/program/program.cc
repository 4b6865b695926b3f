#include "program/program.h"

#include <cmath>
#include <cstring>

#include "base/status.h"

namespace opsnn {
namespace {

constexpr StageInfo kStageInfo[] = {
#define OPSNN_STAGE_INFO(id, name, arity, cost) {name, arity, cost},
    OPSNN_STAGES(OPSNN_STAGE_INFO)
#undef OPSNN_STAGE_INFO
};

constexpr int kMaxSlots = kNoSlot;  // ids 0 .. 254

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool SameStage(const Stage& a, const Stage& b) {
  return a.op == b.op && a.dst == b.dst && a.src[0] == b.src[0] && a.src[1] == b.src[1] &&
         a.src[2] == b.src[2] && SameBits(a.imm[0], b.imm[0]) && SameBits(a.imm[1], b.imm[1]);
}

// The value of `slot` as nested calls. Inputs are in0, in1, ...; immediates follow the operands.
std::string Expression(const Program& p, SlotId slot, int depth) {
  if (slot < p.num_inputs) return "in" + std::to_string(slot);
  // A value used many times would print its whole tree each time: deep programs name the slot instead.
  constexpr int kMaxDepth = 12;
  if (depth > kMaxDepth) return "s" + std::to_string(slot);
  for (const Stage& s : p.stages) {
    if (s.dst != slot) continue;
    if (s.op == StageOp::kConst) return StrFormat("%.9g", s.imm[0]);
    std::string text = std::string(Info(s.op).name) + "(";
    for (int i = 0; i < Info(s.op).arity; ++i) {
      text += (i ? ", " : "") + Expression(p, s.src[i], depth + 1);
    }
    const int imms = s.imm[1] != 0 ? 2 : s.imm[0] != 0 ? 1 : 0;
    for (int i = 0; i < imms; ++i) text += StrFormat("; %.9g", s.imm[i]);
    return text + ")";
  }
  return "s" + std::to_string(slot);
}

}  // namespace

ComputeType ComputeTypeOf(DType storage) {
  if (storage == DType::kF64) return ComputeType::kF64;
  if (storage == DType::kS64) return ComputeType::kS64;
  return IsFloat(storage) ? ComputeType::kF32 : ComputeType::kS32;
}

const StageInfo& Info(StageOp op) { return kStageInfo[static_cast<int>(op)]; }
bool IsRowReduction(StageOp op) { return op >= StageOp::kRowSum && op <= StageOp::kRowProd; }

bool Program::HasRowReduction() const {
  for (const Stage& s : stages) {
    if (IsRowReduction(s.op)) return true;
  }
  return false;
}

bool Program::IsF32Pointwise() const {
  for (const Slot& s : slots) {
    if (s.type != ComputeType::kF32) return false;
  }
  return !HasRowReduction();
}

double Program::CostPerElement() const {
  double cost = 0;
  for (const Stage& s : stages) {
    // Stages on per-row values cost next to nothing: one element per row.
    const bool once_per_row = slots[s.dst].per_row && !IsRowReduction(s.op);
    if (!once_per_row) cost += Info(s.op).cost;
  }
  return cost;
}

std::string Program::ToString() const {
  std::string text;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i) text += "\n";
    text += Expression(*this, outputs[i], 0);
  }
  return text;
}

uint64_t Program::Hash() const {
  uint64_t h = 0xCBF29CE484222325u;  // FNV-1a over 64-bit words, mixed at the end
  auto add = [&h](uint64_t v) { h = (h ^ v) * 0x100000001B3u ^ (h >> 29); };
  add(static_cast<uint64_t>(num_inputs));
  add(slots.size());
  for (const Slot& s : slots) add(static_cast<uint64_t>(s.type) << 1 | s.per_row);
  add(stages.size());
  for (const Stage& s : stages) {
    add(static_cast<uint64_t>(s.op) | uint64_t{s.dst} << 8 | uint64_t{s.src[0]} << 16 |
        uint64_t{s.src[1]} << 24 | uint64_t{s.src[2]} << 32);
    for (double imm : s.imm) {
      uint64_t bits;
      std::memcpy(&bits, &imm, sizeof bits);
      add(bits);
    }
  }
  add(outputs.size() << 1 | exact);
  for (SlotId o : outputs) add(o);
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDu;
  return h ^ (h >> 33);
}

bool operator==(const Program& a, const Program& b) {
  if (a.num_inputs != b.num_inputs || a.exact != b.exact || a.outputs != b.outputs ||
      a.slots.size() != b.slots.size() || a.stages.size() != b.stages.size()) {
    return false;
  }
  for (size_t i = 0; i < a.slots.size(); ++i) {
    if (a.slots[i].type != b.slots[i].type || a.slots[i].per_row != b.slots[i].per_row) return false;
  }
  for (size_t i = 0; i < a.stages.size(); ++i) {
    if (!SameStage(a.stages[i], b.stages[i])) return false;
  }
  return true;
}

namespace {

Status ValidateStage(const Program& p, size_t index, const std::vector<bool>& written) {
  const Stage& s = p.stages[index];
  const char* name = Info(s.op).name;
  const int n = static_cast<int>(index);
  if (s.dst >= p.slots.size() || s.dst < p.num_inputs) {
    return Errorf(Code::kInternal, "stage %d (%s) writes slot %d, which is no slot of its own", n, name,
                  s.dst);
  }
  if (written[s.dst]) {
    return Errorf(Code::kInternal, "stage %d (%s) writes slot %d a second time", n, name, s.dst);
  }
  bool all_per_row = Info(s.op).arity > 0;
  for (int i = 0; i < Info(s.op).arity; ++i) {
    if (s.src[i] >= p.slots.size() || !written[s.src[i]]) {
      return Errorf(Code::kInternal, "stage %d (%s) reads slot %d before it is written", n, name, s.src[i]);
    }
    const Slot& src = p.slots[s.src[i]];
    all_per_row = all_per_row && src.per_row;
    if (s.op != StageOp::kConvert && src.type != p.slots[s.dst].type) {
      return Errorf(Code::kInternal, "stage %d (%s) mixes compute types", n, name);
    }
  }
  // A constant may be either; a reduction makes a row value of anything; the rest follow their operands.
  const bool per_row = p.slots[s.dst].per_row;
  if (s.op != StageOp::kConst && per_row != (IsRowReduction(s.op) || all_per_row)) {
    return Errorf(Code::kInternal, "stage %d (%s): slot %d is %sper row", n, name, s.dst,
                  per_row ? "" : "not ");
  }
  return OkStatus();
}

}  // namespace

Status Program::Validate() const {
  if (num_inputs < 0 || slots.size() > static_cast<size_t>(kMaxSlots) ||
      static_cast<size_t>(num_inputs) + stages.size() != slots.size()) {
    return Errorf(Code::kInternal, "%d inputs and %zu stages do not make %zu slots", num_inputs,
                  stages.size(), slots.size());
  }
  std::vector<bool> written(slots.size(), false);
  for (int i = 0; i < num_inputs; ++i) written[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < stages.size(); ++i) {
    OPSNN_RETURN_IF_ERROR(ValidateStage(*this, i, written));
    written[stages[i].dst] = true;
  }
  if (outputs.empty()) return Errorf(Code::kInternal, "a program needs an output");
  for (SlotId o : outputs) {
    if (o >= slots.size()) return Errorf(Code::kInternal, "output slot %d does not exist", o);
  }
  return OkStatus();
}

SlotId ProgramBuilder::Input(ComputeType type, bool per_row) {
  program_.slots.push_back({type, per_row});
  return static_cast<SlotId>(program_.num_inputs++);
}

SlotId ProgramBuilder::Emit(StageOp op, SlotId a, SlotId b, SlotId c, double imm0, double imm1,
                            ComputeType type) {
  const SlotId operands[3] = {a, b, c};
  bool per_row = Info(op).arity > 0;
  for (int i = 0; i < Info(op).arity; ++i) {
    per_row = per_row && operands[i] < program_.slots.size() && program_.slots[operands[i]].per_row;
  }
  const SlotId dst = static_cast<SlotId>(program_.slots.size());
  program_.slots.push_back({type, per_row || IsRowReduction(op)});
  program_.stages.push_back({op, dst, {a, b, c}, {imm0, imm1}});
  return dst;
}

SlotId ProgramBuilder::Const(double value, ComputeType type, bool per_row) {
  const SlotId s = Emit(StageOp::kConst, kNoSlot, kNoSlot, kNoSlot, value, 0, type);
  program_.slots[s].per_row = per_row;
  return s;
}

SlotId ProgramBuilder::Unary(StageOp op, SlotId x, double imm0, double imm1) {
  return Emit(op, x, kNoSlot, kNoSlot, imm0, imm1, program_.slots[x].type);
}

SlotId ProgramBuilder::Binary(StageOp op, SlotId a, SlotId b) {
  return Emit(op, a, b, kNoSlot, 0, 0, program_.slots[a].type);
}

SlotId ProgramBuilder::Ternary(StageOp op, SlotId a, SlotId b, SlotId c) {
  return Emit(op, a, b, c, 0, 0, program_.slots[a].type);
}

SlotId ProgramBuilder::Convert(SlotId x, ComputeType to) {
  if (program_.slots[x].type == to) return x;
  return Emit(StageOp::kConvert, x, kNoSlot, kNoSlot, 0, 0, to);
}

Result<Program> Join(const Program& first, int output, const Program& second, int input, bool keep_outputs) {
  const SlotId link = first.outputs[static_cast<size_t>(output)];
  const bool convert = first.slots[link].type != second.slots[static_cast<size_t>(input)].type;
  const size_t inputs = static_cast<size_t>(first.num_inputs + second.num_inputs - 1);
  const size_t total = inputs + first.stages.size() + second.stages.size() + (convert ? 1 : 0);
  if (total >= static_cast<size_t>(kMaxSlots)) {
    return InvalidArgument("the joined program would need %zu slots; allowed: %d", total, kMaxSlots - 1);
  }
  Program out;
  out.num_inputs = static_cast<int>(inputs);
  out.exact = first.exact || second.exact;
  std::vector<SlotId> map1(first.slots.size()), map2(second.slots.size());
  auto add = [&out](const Slot& s) {
    out.slots.push_back(s);
    return static_cast<SlotId>(out.slots.size() - 1);
  };
  for (int i = 0; i < first.num_inputs; ++i) map1[i] = add(first.slots[i]);
  for (int i = 0; i < second.num_inputs; ++i) {
    if (i != input) map2[i] = add(second.slots[i]);
  }
  // Copies a program's stages; whether a value is per row is derived anew, because a link may change it.
  auto append = [&](const Program& p, std::vector<SlotId>& map) {
    for (Stage s : p.stages) {
      Slot slot = p.slots[s.dst];
      bool per_row = Info(s.op).arity > 0;
      for (int i = 0; i < Info(s.op).arity; ++i) {
        s.src[i] = map[s.src[i]];
        per_row = per_row && out.slots[s.src[i]].per_row;
      }
      if (s.op != StageOp::kConst) slot.per_row = per_row || IsRowReduction(s.op);
      map[s.dst] = add(slot);
      s.dst = map[s.dst];
      out.stages.push_back(s);
    }
  };
  append(first, map1);
  SlotId linked = map1[link];
  if (convert) {
    const Slot slot{second.slots[static_cast<size_t>(input)].type, out.slots[linked].per_row};
    const SlotId dst = add(slot);
    out.stages.push_back({StageOp::kConvert, dst, {linked, kNoSlot, kNoSlot}, {0, 0}});
    linked = dst;
  }
  map2[static_cast<size_t>(input)] = linked;
  append(second, map2);
  if (keep_outputs) {
    for (size_t i = 0; i < first.outputs.size(); ++i) {
      if (i != static_cast<size_t>(output)) out.outputs.push_back(map1[first.outputs[i]]);
    }
  }
  for (SlotId o : second.outputs) out.outputs.push_back(map2[o]);
  return out;
}

Program MergeInputs(const Program& p, int i, int j) {
  Program out = p;
  auto moved = [&](SlotId s) {
    if (s == kNoSlot) return s;
    return static_cast<SlotId>(s == j ? i : s > j ? s - 1 : s);
  };
  out.num_inputs -= 1;
  out.slots.erase(out.slots.begin() + j);
  for (Stage& s : out.stages) {
    s.dst = moved(s.dst);
    for (SlotId& src : s.src) src = moved(src);
  }
  for (SlotId& o : out.outputs) o = moved(o);
  return out;
}

}  // namespace opsnn
