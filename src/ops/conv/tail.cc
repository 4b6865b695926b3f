#include "ops/conv/tail.h"

#include <algorithm>

#include "kernels/conv/conv.h"

namespace opsnn::ops {
namespace {

// How many operands and outputs of the program are slot `s`.
int Uses(const Program& p, SlotId s) {
  int n = static_cast<int>(std::count(p.outputs.begin(), p.outputs.end(), s));
  for (const Stage& st : p.stages) {
    for (int i = 0; i < Info(st.op).arity; ++i) n += st.src[i] == s;
  }
  return n;
}

// The program without stage `at`, whose result becomes input 0, and without input `drop`, which only that
// stage read.
Program DropStage(const Program& p, size_t at, int drop) {
  const SlotId result = p.stages[at].dst;
  const auto renamed = [&](SlotId s) -> SlotId {
    if (s == kNoSlot) return s;
    if (s == result) return 0;
    return static_cast<SlotId>(s - (s > drop) - (s > result));
  };
  Program q;
  q.num_inputs = p.num_inputs - 1;
  for (size_t i = 0; i < p.slots.size(); ++i) {
    if (static_cast<int>(i) != drop && i != result) q.slots.push_back(p.slots[i]);
  }
  for (size_t i = 0; i < p.stages.size(); ++i) {
    if (i == at) continue;
    Stage s = p.stages[i];
    s.dst = renamed(s.dst);
    for (SlotId& src : s.src) src = renamed(src);
    q.stages.push_back(s);
  }
  for (SlotId o : p.outputs) q.outputs.push_back(renamed(o));
  return q;
}

// The stage that adds an input to the block, if nothing else reads either of the two.
struct Addition {
  size_t stage = 0;
  int input = -1;
};
Addition FirstAddition(const Program& p) {
  if (p.slots[0].type != ComputeType::kF32 || Uses(p, 0) != 1) return {};
  for (size_t i = 0; i < p.stages.size(); ++i) {
    const Stage& s = p.stages[i];
    if (s.op != StageOp::kAdd || (s.src[0] != 0 && s.src[1] != 0)) continue;
    const SlotId other = s.src[0] == 0 ? s.src[1] : s.src[0];
    if (other != 0 && other < p.num_inputs && Uses(p, other) == 1) return {i, other};
  }
  return {};
}

// The constant that stage `s` combines slot `x` with, if it is one.
std::optional<double> ConstantOperand(const Program& p, const Stage& s, SlotId x) {
  const SlotId other = s.src[0] == x ? s.src[1] : s.src[0];
  for (const Stage& c : p.stages) {
    if (c.op == StageOp::kConst && c.dst == other) return c.imm[0];
  }
  return std::nullopt;
}

// Takes the whole of `p` as x * scale + shift with constants; false if it is anything else.
bool TakeAffine(const Program& p, ConvTail* t) {
  if (p.num_inputs != 1 || p.outputs.size() != 1 || p.slots[0].type != ComputeType::kF32) return false;
  std::optional<double> scale, shift;
  SlotId x = 0;
  for (const Stage& s : p.stages) {
    if (s.op == StageOp::kConst) continue;
    const bool binary = Info(s.op).arity == 2;
    if (Uses(p, x) != 1 || (s.src[0] != x && !(binary && s.src[1] == x))) return false;
    const std::optional<double> c = binary ? ConstantOperand(p, s, x) : std::nullopt;
    if (s.op == StageOp::kMul && c && !scale && !shift) {
      scale = c;
    } else if (s.op == StageOp::kAdd && c && !shift) {
      shift = c;
    } else if (s.op == StageOp::kAffine && !scale && !shift) {
      scale = s.imm[0], shift = s.imm[1];
    } else {
      return false;
    }
    x = s.dst;
  }
  if (p.outputs[0] != x) return false;
  t->affine = true;
  if (scale) t->scale = static_cast<float>(*scale);
  if (shift) t->shift = static_cast<float>(*shift);
  return true;
}

}  // namespace

TailShape ShapeOf(const op::TensorDesc& input, const Dims& out) {
  const Dims& d = input.dims;
  if (d == out) return TailShape::kFull;
  // Aligned to the right, as broadcasting does.
  for (int i = 0; i < d.rank(); ++i) {
    const int axis = out.rank() - d.rank() + i;
    if (axis < 0) return TailShape::kOther;
    if (axis >= 2 && d[i] != 1) return TailShape::kOther;
  }
  return TailShape::kChannel;
}

vector::EpilogueArg ArgFor(const op::TensorDesc& desc, const Dims& out) {
  using conv::kC0;
  vector::EpilogueArg a;
  a.dtype = desc.dtype;
  const Dims& d = desc.dims;
  const auto size = [&](int axis) {  // of an axis of the output, 1 where the operand has none
    const int i = axis - (out.rank() - d.rank());
    return i < 0 ? int64_t{1} : d[i];
  };
  int64_t pixels = 1;
  for (int axis = 2; axis < out.rank(); ++axis) pixels *= size(axis);
  const int64_t channels = size(1);
  if (desc.layout.format == Format::kNC1HWC0) {
    const int64_t blocks = (channels + kC0 - 1) / kC0;
    a.batch_stride = blocks * pixels * kC0;
    a.block_stride = channels > 1 ? pixels * kC0 : 0;
    a.row_stride = kC0;
    a.col_stride = channels > 1 ? 1 : 0;
  } else {
    a.batch_stride = channels * pixels;
    a.block_stride = channels > 1 ? kC0 * pixels : 0;
    a.row_stride = 1;
    a.col_stride = channels > 1 ? pixels : 0;
  }
  if (size(0) == 1) a.batch_stride = 0;
  if (pixels == 1) a.row_stride = 0;
  return a;
}

Result<ConvTail> CutTail(const Program& program, const std::vector<bool>& residual_ok) {
  ConvTail t;
  Program p = program;
  std::vector<int> original(static_cast<size_t>(p.num_inputs));  // index in `program` of each input of p
  for (size_t i = 0; i < original.size(); ++i) original[i] = static_cast<int>(i);
  if (const Addition add = FirstAddition(p); add.input > 0 && residual_ok[static_cast<size_t>(add.input)]) {
    t.residual = add.input;
    p = DropStage(p, add.stage, add.input);
    original.erase(original.begin() + add.input);
  }
  // Per-channel addends stay in the program: the kernel's bias starts the sum, which rounds differently from
  // adding it to a finished one, and fused and split must agree.
  const std::unique_ptr<bool[]> columns(new bool[original.size()]());
  const vector::EpilogueSplit split = vector::SplitEpilogue(p, {columns.get(), original.size()});
  t.act = split.act;
  t.act_imm[0] = split.act_imm[0];
  t.act_imm[1] = split.act_imm[1];
  if (!split.rest || TakeAffine(split.rest_program, &t)) return t;
  OPSNN_ASSIGN_OR_RETURN(t.rest, vector::Compile(split.rest_program));
  for (int i : split.rest_inputs) t.rest_inputs.push_back(original[static_cast<size_t>(i)]);
  return t;
}

}  // namespace opsnn::ops
