#include <algorithm>

#include "vector/compiled.h"

namespace opsnn::vector {
namespace {

RegAct RegActOf(StageOp op) {
  switch (op) {
    case StageOp::kRelu:
      return RegAct::kRelu;
    case StageOp::kClip:
      return RegAct::kClip;
    case StageOp::kHardSwish:
      return RegAct::kHardSwish;
    case StageOp::kHardSigmoid:
      return RegAct::kHardSigmoid;
    case StageOp::kSilu:
      return RegAct::kSilu;
    case StageOp::kSigmoid:
      return RegAct::kSigmoid;
    case StageOp::kGeluErf:
      return RegAct::kGeluErf;
    case StageOp::kGeluTanh:
      return RegAct::kGeluTanh;
    case StageOp::kTanh:
      return RegAct::kTanh;
    case StageOp::kLeakyRelu:
      return RegAct::kLeakyRelu;
    default:
      return RegAct::kNone;
  }
}

// The stages that are left, with `block` in the place of input 0 and unread inputs dropped.
void BuildRest(const Program& p, const std::vector<bool>& taken, SlotId block, EpilogueSplit& split) {
  std::vector<bool> read(p.slots.size(), false);
  for (SlotId o : p.outputs) read[o] = true;
  for (size_t i = 0; i < p.stages.size(); ++i) {
    for (int k = 0; !taken[i] && k < Info(p.stages[i].op).arity; ++k) read[p.stages[i].src[k]] = true;
  }
  std::vector<SlotId> moved(p.slots.size(), kNoSlot);
  Program& rest = split.rest_program;
  rest.exact = p.exact;
  auto add = [&](SlotId from) {
    moved[from] = static_cast<SlotId>(rest.slots.size());
    rest.slots.push_back(p.slots[from]);
  };
  add(block);
  for (int i = 1; i < p.num_inputs; ++i) {
    if (!read[i]) continue;
    add(static_cast<SlotId>(i));
    split.rest_inputs.push_back(i);
  }
  rest.num_inputs = static_cast<int>(rest.slots.size());
  for (size_t i = 0; i < p.stages.size(); ++i) {
    if (taken[i]) continue;
    Stage s = p.stages[i];
    for (int k = 0; k < Info(s.op).arity; ++k) s.src[k] = moved[s.src[k]];
    add(s.dst);
    s.dst = moved[s.dst];
    rest.stages.push_back(s);
  }
  for (SlotId o : p.outputs) rest.outputs.push_back(moved[o]);
  split.rest = true;
}

}  // namespace

EpilogueSplit SplitEpilogue(const Program& program, std::span<const bool> column_inputs) {
  EpilogueSplit split;
  const Program p = Canonicalize(program);
  std::vector<bool> taken(p.stages.size(), false);
  // The index of the only stage that reads `slot`; -1 if there are others or the slot is an output.
  auto only_reader = [&p](SlotId slot) {
    int reader = -1, reads = static_cast<int>(std::count(p.outputs.begin(), p.outputs.end(), slot));
    for (size_t i = 0; i < p.stages.size(); ++i) {
      for (int k = 0; k < Info(p.stages[i].op).arity; ++k) {
        if (p.stages[i].src[k] == slot) reader = static_cast<int>(i), ++reads;
      }
    }
    return reads == 1 ? reader : -1;
  };
  SlotId block = 0;
  if (p.slots[0].type == ComputeType::kF32) {
    if (const int r = only_reader(block); r >= 0 && p.stages[r].op == StageOp::kAdd) {
      const Stage& s = p.stages[r];
      const SlotId other = s.src[0] == block ? s.src[1] : s.src[0];
      if (other < p.num_inputs && other != block && column_inputs[other]) {
        split.bias_input = other;
        taken[r] = true;
        block = s.dst;
      }
    }
    if (const int r = only_reader(block); r >= 0 && RegActOf(p.stages[r].op) != RegAct::kNone) {
      const Stage& s = p.stages[r];
      split.act = RegActOf(s.op);
      for (int k = 0; k < 2; ++k) split.act_imm[k] = static_cast<float>(s.imm[k]);
      taken[r] = true;
      block = s.dst;
    }
  }
  const bool nothing_left = p.outputs.size() == 1 && p.outputs[0] == block;
  if (!nothing_left) BuildRest(p, taken, block, split);
  return split;
}

}  // namespace opsnn::vector
