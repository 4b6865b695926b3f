#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "vector/compiled.h"
#include "vector/convert_scalar.h"

namespace opsnn::vector {
namespace {

using enum StageOp;

bool IsCommutative(StageOp op) { return op == kAdd || op == kMul; }
bool IsUnary(StageOp op) { return op <= kIsInf; }

// Merges stages into super-stages and assigns scratch. One object per Compile.
class Compiler {
 public:
  explicit Compiler(CompiledProgram& out) : out_(out), p_(out.program) {}

  void Run() {
    PlanSlots();
    consumed_.assign(p_.stages.size(), false);
    replaced_.assign(p_.stages.size(), Instruction{});
    for (size_t i = p_.stages.size(); i-- > 0;) {
      if (!consumed_[i]) replaced_[i] = Lower(i);
    }
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      if (!consumed_[i] && p_.stages[i].op != kConst) out_.code.push_back(replaced_[i]);
    }
    for (Instruction& in : out_.code) {
      in.per_row = in.kind != Instruction::Kind::kReduce && out_.slots[in.dst].per_row;
      out_.num_full_passes += !in.per_row;
    }
    AssignBuffers();
  }

 private:
  void PlanSlots() {
    out_.slots.resize(p_.slots.size());
    uses_.assign(p_.slots.size(), 0);
    maker_.assign(p_.slots.size(), -1);
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      SlotPlan& s = out_.slots[p_.outputs[i]];
      if (s.output < 0) s.output = static_cast<int16_t>(i);
      uses_[p_.outputs[i]] += 2;  // an output is never merged away
    }
    for (size_t i = 0; i < p_.slots.size(); ++i) {
      out_.slots[i].type = p_.slots[i].type;
      out_.slots[i].per_row = p_.slots[i].per_row;
    }
    for (size_t i = 0; i < p_.stages.size(); ++i) {
      const Stage& s = p_.stages[i];
      maker_[s.dst] = static_cast<int>(i);
      bool any_row = false, any_full = false;
      for (int k = 0; k < Info(s.op).arity; ++k) {
        ++uses_[s.src[k]];
        const SlotPlan& src = out_.slots[s.src[k]];
        if (!src.is_const) (src.per_row ? any_row : any_full) = true;
      }
      SlotPlan& dst = out_.slots[s.dst];
      if (s.op == kConst) {
        SetConst(dst, s.imm[0]);
      } else if (!IsRowReduction(s.op) && dst.output < 0) {
        dst.per_row = any_row && !any_full;  // constants do not make a row value a full one
      }
      out_.has_reduction |= IsRowReduction(s.op);
    }
    for (const SlotPlan& s : out_.slots) {
      out_.has_per_row |= s.per_row;
      if (s.type == ComputeType::kF64 || s.type == ComputeType::kS64) out_.element_size = 8;
    }
  }

  static void SetConst(SlotPlan& s, double v) {
    s.is_const = true;
    s.per_row = false;
    switch (s.type) {
      case ComputeType::kF32: {
        const float f = static_cast<float>(v);
        std::memcpy(s.value, &f, 4);
        break;
      }
      case ComputeType::kF64:
        std::memcpy(s.value, &v, 8);
        break;
      case ComputeType::kS32: {
        const int32_t i = CastElement<int32_t>(v);
        std::memcpy(s.value, &i, 4);
        break;
      }
      case ComputeType::kS64: {
        const int64_t i = CastElement<int64_t>(v);
        std::memcpy(s.value, &i, 8);
        break;
      }
    }
  }

  // The stage that makes `slot`, if it may be merged into its only reader: f32, as wide as the reader's
  // result.
  const Stage* Mergeable(SlotId slot, const Stage& reader) const {
    const int m = maker_[slot];
    if (m < 0 || consumed_[m] || uses_[slot] != 1) return nullptr;
    const Stage& s = p_.stages[m];
    if (s.op == kConst || IsRowReduction(s.op) || s.op == kConvert || s.op == kRoundTo) return nullptr;
    if (out_.slots[slot].type != ComputeType::kF32) return nullptr;
    if (out_.slots[slot].per_row != out_.slots[reader.dst].per_row) return nullptr;
    return &s;
  }
  void Consume(SlotId slot) { consumed_[maker_[slot]] = true; }

  static Instruction Make(const TierPasses& passes, SlotId dst, std::initializer_list<SlotId> src) {
    Instruction in;
    std::copy(passes.fn, passes.fn + 3, in.fn);
    in.dst = dst;
    for (SlotId s : src) in.src[in.num_src++] = s;
    return in;
  }
  static void SetImm(Instruction& in, const Stage& s) {
    for (int k = 0; k < 2; ++k) in.imm[k] = static_cast<float>(s.imm[k]), in.imm64[k] = s.imm[k];
  }

  Instruction Lower(size_t index) {
    const Stage& s = p_.stages[index];
    const ComputeType type = Info(s.op).arity > 0 ? out_.slots[s.src[0]].type : out_.slots[s.dst].type;
    if (s.op == kConst) return {};
    if (s.op == kRoundTo) {
      Instruction in = Make({}, s.dst, {s.src[0]});
      in.kind = Instruction::Kind::kRoundTo;
      in.round_to = static_cast<DType>(static_cast<int>(s.imm[0]));
      return in;
    }
    if (s.op == kConvert) {
      const PassFn fn = FindConvertPass(type, out_.slots[s.dst].type);
      return Make({{fn, fn, fn}}, s.dst, {s.src[0]});
    }
    Instruction in;
    if (IsRowReduction(s.op)) {
      in = LowerReduction(index, type);
    } else if (type != ComputeType::kF32) {
      const PassFn fn = FindScalarPass(s.op, type);
      in = Plain(s, {{fn, fn, fn}});
    } else if (!Fuse(s, in)) {
      in = Plain(s, FindPass({PassShape::kSingle, s.op}));
    }
    return in;
  }

  static Instruction Plain(const Stage& s, const TierPasses& passes) {
    Instruction in = Make(passes, s.dst, {});
    for (int k = 0; k < Info(s.op).arity; ++k) in.src[in.num_src++] = s.src[k];
    SetImm(in, s);
    return in;
  }

  // root(child(...)) where a pass exists and the child has no other reader.
  bool Fuse(const Stage& s, Instruction& in) {
    if (IsUnary(s.op)) {
      const Stage* child = Mergeable(s.src[0], s);
      if (child == nullptr || Info(child->op).arity < 2) return false;
      if (FuseMulAdd(s, *child, in)) return true;
      const bool three = Info(child->op).arity == 3;
      const TierPasses passes = FindPass({three ? PassShape::kTernUn : PassShape::kBinUn, s.op, child->op});
      if (!passes) return false;
      in = Make(passes, s.dst, {child->src[0], child->src[1]});
      if (three) in.src[in.num_src++] = child->src[2];
      SetImm(in, s);
      Consume(s.src[0]);
      return true;
    }
    if (Info(s.op).arity != 2) return false;
    if (FuseScaleShift(s, in)) return true;
    for (int k = 0; k < (IsCommutative(s.op) ? 2 : 1); ++k) {
      const Stage* child = Mergeable(s.src[k], s);
      if (child == nullptr) continue;
      const bool unary = IsUnary(child->op);
      if (!unary && Info(child->op).arity != 2) continue;
      const TierPasses passes = FindPass({unary ? PassShape::kUnBin : PassShape::kBinBin, s.op, child->op});
      if (!passes) continue;
      in = unary ? Make(passes, s.dst, {child->src[0], s.src[1 - k]})
                 : Make(passes, s.dst, {child->src[0], child->src[1], s.src[1 - k]});
      SetImm(in, *child);
      Consume(s.src[k]);
      return true;
    }
    return false;
  }
  // root(x * y + z) out of single stages: a norm with known statistics and its activation.
  bool FuseMulAdd(const Stage& s, const Stage& add, Instruction& in) {
    if (add.op != kAdd) return false;
    const TierPasses passes = FindPass({PassShape::kTernUn, s.op, kMulAdd});
    for (int k = 0; passes && k < 2; ++k) {
      const Stage* mul = Mergeable(add.src[k], add);
      if (mul == nullptr || mul->op != kMul) continue;
      in = Make(passes, s.dst, {mul->src[0], mul->src[1], add.src[1 - k]});
      SetImm(in, s);
      Consume(s.src[0]), Consume(add.src[k]);
      return true;
    }
    return false;
  }
  // (x * y) * z + w: the end of every norm.
  bool FuseScaleShift(const Stage& s, Instruction& in) {
    if (s.op != kAdd) return false;
    for (int k = 0; k < 2; ++k) {
      const Stage* outer = Mergeable(s.src[k], s);
      if (outer == nullptr || outer->op != kMul) continue;
      for (int j = 0; j < 2; ++j) {
        const Stage* inner = Mergeable(outer->src[j], *outer);
        if (inner == nullptr || inner->op != kMul) continue;
        in = Make(FindPass({PassShape::kTriple, kAdd, kMul, kMul}), s.dst,
                  {inner->src[0], inner->src[1], outer->src[1 - j], s.src[1 - k]});
        Consume(s.src[k]), Consume(outer->src[j]);
        return true;
      }
    }
    return false;
  }

  Instruction LowerReduction(size_t index, ComputeType type) {
    const Stage& s = p_.stages[index];
    Instruction in;
    if (type != ComputeType::kF32) {
      const PassFn fn = FindScalarPass(s.op, type);
      in = Make({{fn, fn, fn}}, kNoSlot, {s.src[0]});
    } else if (!FuseCentre(index, in) && !FuseSquareMean(s, in)) {
      in = Make(FindRowReduction(s.op, false), kNoSlot, {s.src[0]});
    }
    in.kind = Instruction::Kind::kReduce;
    in.reduced = s.dst;
    return in;
  }
  bool FuseSquareMean(const Stage& s, Instruction& in) {
    if (s.op != kRowMean && s.op != kRowSum) return false;
    const int m = maker_[s.src[0]];
    if (m < 0 || consumed_[m] || p_.stages[m].op != kSquare || uses_[s.src[0]] != 1) return false;
    in = Make(FindRowReduction(s.op, true), kNoSlot, {p_.stages[m].src[0]});
    consumed_[m] = true;
    return true;
  }
  // Sum or mean of square(x - y) or exp(x - y): one pass writes what is read later and reduces the rest.
  bool FuseCentre(size_t index, Instruction& in) {
    const Stage& s = p_.stages[index];
    if (s.op != kRowMean && s.op != kRowSum) return false;
    const int second = maker_[s.src[0]];
    if (second < 0 || consumed_[second]) return false;
    const Stage& f = p_.stages[second];
    if ((f.op != kSquare && f.op != kExp) || out_.slots[f.dst].per_row) return false;
    const int first = maker_[f.src[0]];
    if (first < 0 || consumed_[first] || p_.stages[first].op != kSub || out_.slots[f.src[0]].per_row)
      return false;
    const Stage& sub = p_.stages[first];
    const bool keeps_second = f.op == kExp && uses_[f.src[0]] == 1;
    if (!keeps_second && uses_[f.dst] != 1) return false;
    const SlotId written = keeps_second ? f.dst : sub.dst;
    // The written value appears at the reduction's place: nobody may read it before.
    for (size_t i = 0; i < index; ++i) {
      for (int k = 0; k < Info(p_.stages[i].op).arity; ++k) {
        const bool own = static_cast<int>(i) == second && !keeps_second;
        if (p_.stages[i].src[k] == written && !own) return false;
      }
    }
    const StageOp kind = keeps_second ? kExp : f.op == kExp ? kCopy : kSquare;
    const TierPasses passes = FindCentreReduction(kind, s.op == kRowMean);
    if (!passes) return false;
    in = Make(passes, written, {sub.src[0], sub.src[1]});
    consumed_[first] = consumed_[second] = true;
    return true;
  }

  // Linear scan over the instructions; full and per-row values have pools of their own.
  void AssignBuffers() {
    std::vector<SlotPlan>& slots = out_.slots;
    for (size_t i = 0; i < out_.code.size(); ++i) {
      Instruction& in = out_.code[i];
      const int16_t at = static_cast<int16_t>(i);
      for (int k = 0; k < in.num_src; ++k) {
        slots[in.src[k]].last = at;
        if (in.per_row) slots[in.src[k]].read_per_row = true;
      }
      if (in.dst != kNoSlot) slots[in.dst].first = at;
      if (in.reduced != kNoSlot) slots[in.reduced].first = at;
    }
    std::vector<int16_t> free_full, free_row;
    auto take = [](std::vector<int16_t>& pool, int& count) {
      if (pool.empty()) return static_cast<int16_t>(count++);
      const int16_t b = pool.back();
      pool.pop_back();
      return b;
    };
    for (size_t i = 0; i < out_.code.size(); ++i) {
      Instruction& in = out_.code[i];
      auto release = [&] {
        for (int k = 0; k < in.num_src; ++k) {
          SlotPlan& s = slots[in.src[k]];
          const bool seen = std::find(in.src, in.src + k, in.src[k]) != in.src + k;
          if (s.first >= 0 && s.last == static_cast<int>(i) && s.output < 0 && !seen) {
            (s.per_row ? free_row : free_full).push_back(s.buffer);
          }
        }
      };
      // A pass may write over an operand that dies here; a conversion may not (the element size may change).
      const bool in_place = in.kind == Instruction::Kind::kPass && in.num_src > 0 && in.dst != kNoSlot &&
                            slots[in.src[0]].type == slots[in.dst].type;
      if (in_place) release();
      for (SlotId s : {in.dst, in.reduced}) {
        if (s == kNoSlot) continue;
        slots[s].buffer =
            slots[s].per_row ? take(free_row, out_.num_row_buffers) : take(free_full, out_.num_buffers);
      }
      if (!in_place) release();
      if (in.dst != kNoSlot) in.dst_dies = slots[in.dst].last <= static_cast<int>(i);
    }
  }

  CompiledProgram& out_;
  const Program& p_;
  std::vector<int> uses_, maker_;  // by slot: readers (outputs count twice); the stage that writes it
  std::vector<bool> consumed_;     // by stage: merged into a later one
  std::vector<Instruction> replaced_;
};

// What plans hold now: those of further sizes bring the same programs again, and compiling one takes as long
// as all else about its step. Weak, so that nothing lives longer for it.
class CompiledPrograms {
 public:
  std::shared_ptr<const CompiledProgram> Find(uint64_t hash, const Program& program) {
    const std::lock_guard lock(mutex_);
    const auto it = held_.find(hash);
    auto found = it == held_.end() ? nullptr : it->second.lock();
    return found && found->source == program ? found : nullptr;
  }
  void Add(uint64_t hash, const std::shared_ptr<const CompiledProgram>& compiled) {
    const std::lock_guard lock(mutex_);
    held_[hash] = compiled;
    if (held_.size() < sweep_at_) return;
    std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(kFewest, 2 * held_.size());
  }

 private:
  static constexpr size_t kFewest = 256;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<const CompiledProgram>> held_;
  size_t sweep_at_ = kFewest;
};

CompiledPrograms& Held() {
  static auto* const held = new CompiledPrograms;  // outlives static destructors of programs that still plan
  return *held;
}

}  // namespace

Result<std::shared_ptr<const CompiledProgram>> Compile(const Program& program) {
  const uint64_t hash = program.Hash();
  if (auto found = Held().Find(hash, program)) return found;
  OPSNN_RETURN_IF_ERROR(program.Validate());
  constexpr size_t kMaxArgs = 64;  // what an interpreter keeps on its stack
  if (static_cast<size_t>(program.num_inputs) + program.outputs.size() > kMaxArgs) {
    return InvalidArgument("a vector program has %zu inputs and outputs; allowed: %zu",
                           static_cast<size_t>(program.num_inputs) + program.outputs.size(), kMaxArgs);
  }
  auto out = std::make_shared<CompiledProgram>();
  out->source = program;
  out->program = Canonicalize(program);
  out->num_inputs = program.num_inputs;
  out->num_outputs = static_cast<int>(program.outputs.size());
  Compiler(*out).Run();
  out->row_template = RecogniseRowTemplate(out->program);
  out->byte_sum = RecogniseByteSum(out->program);
  Held().Add(hash, out);
  return std::shared_ptr<const CompiledProgram>(std::move(out));
}

const Program& Source(const CompiledProgram& p) { return p.source; }

}  // namespace opsnn::vector
