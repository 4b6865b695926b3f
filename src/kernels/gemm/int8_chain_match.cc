// Which programs are the chain of int8_chain.h.
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/gemm/int8_chain.h"
#include "vector/compiled.h"

namespace opsnn::gemm {
namespace {

using vector::EpilogueArg;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Walks the stages, each of which reads what the one before it made.
class Matcher {
 public:
  Matcher(const Program& p, std::span<const EpilogueArg> args) : p_(p), args_(args) {
    chain_.clip_lo = -kInf, chain_.clip_hi = kInf;
  }

  std::optional<Int8Chain> Run() {
    if (p_.outputs.size() != 1 || p_.num_inputs < 1 || p_.slots[0].type != ComputeType::kS32)
      return std::nullopt;
    for (const Stage& s : p_.stages) {
      if (s.op != StageOp::kConst && !Take(s)) return std::nullopt;
    }
    chain_.output = p_.num_inputs - 1;
    const EpilogueArg& y = args_[static_cast<size_t>(chain_.output)];
    if (p_.outputs[0] != x_ || y.col_stride != 1) return std::nullopt;
    if (phase_ != kSaturated) {
      return phase_ >= kReal && phase_ <= kClipped && y.dtype == DType::kF32 ? std::optional(chain_)
                                                                             : std::nullopt;
    }
    return FitsIntegers(y.dtype) ? std::optional(chain_) : std::nullopt;
  }

 private:
  enum Phase { kSums, kReal, kScaled, kBiased, kAdded, kClipped, kDivided, kRounded, kShifted, kSaturated };

  // The stage's operand other than the chain; kNoSlot for those of one operand, nullopt where it does not
  // read the chain or reads more.
  std::optional<SlotId> Other(const Stage& s) const {
    const int arity = Info(s.op).arity;
    if (arity == 1 && s.src[0] == x_) return kNoSlot;
    if (arity != 2 || (s.src[0] == x_) == (s.src[1] == x_)) return std::nullopt;
    return s.src[0] == x_ ? s.src[1] : s.src[0];
  }
  const Stage* ConstantOf(SlotId slot) const {
    for (const Stage& s : p_.stages) {
      if (s.dst == slot) return s.op == StageOp::kConst ? &s : nullptr;
    }
    return nullptr;
  }
  const EpilogueArg* ArgOf(SlotId slot) const {
    return slot > 0 && slot < p_.num_inputs ? &args_[slot - 1u] : nullptr;
  }

  // A constant, or an f32 operand that varies along rows, columns or neither.
  std::optional<Int8Chain::Value> Small(SlotId slot) const {
    if (const Stage* s = ConstantOf(slot)) return Int8Chain::Value{-1, static_cast<float>(s->imm[0])};
    const EpilogueArg* a = ArgOf(slot);
    if (!a || a->dtype != DType::kF32) return std::nullopt;
    if (a->row_stride != 0 && a->col_stride != 0) return std::nullopt;
    if (a->col_stride != 0 && a->col_stride != 1) return std::nullopt;
    return Int8Chain::Value{slot - 1, 0};
  }
  // One value for all.
  std::optional<Int8Chain::Value> One(SlotId slot) const {
    if (const Stage* s = ConstantOf(slot)) return Int8Chain::Value{-1, static_cast<float>(s->imm[0])};
    const EpilogueArg* a = ArgOf(slot);
    const bool one = a && a->dtype == DType::kF32 && a->row_stride == 0 && a->col_stride == 0;
    return one ? std::optional(Int8Chain::Value{slot - 1, 0}) : std::nullopt;
  }

  bool Take(const Stage& s) {
    const std::optional<SlotId> other = Other(s);
    if (!other || !Step(s, *other)) return false;
    x_ = s.dst;
    return true;
  }
  bool To(Phase next) {
    phase_ = next;
    return true;
  }

  bool Step(const Stage& s, SlotId other) {
    if (phase_ != kSums && p_.slots[s.dst].type != ComputeType::kF32) return false;
    switch (s.op) {
      case StageOp::kConvert:
        return phase_ == kSums && p_.slots[s.dst].type == ComputeType::kF32 && To(kReal);
      case StageOp::kMul:
        return phase_ == kReal && Set(chain_.scale, Small(other)) && To(kScaled);
      case StageOp::kAdd:
        return phase_ == kRounded ? SetZero(other) : Add(other);
      case StageOp::kRelu:
        return phase_ >= kReal && phase_ < kClipped && SetClip(0, kInf);
      case StageOp::kClip:
        if (phase_ == kRounded || phase_ == kShifted) return Saturate(s.imm[0], s.imm[1]);
        return phase_ >= kReal && phase_ < kClipped &&
               SetClip(static_cast<float>(s.imm[0]), static_cast<float>(s.imm[1]));
      case StageOp::kDiv:
        return phase_ >= kReal && phase_ <= kClipped && s.src[0] == x_ && Set(chain_.step, One(other)) &&
               To(kDivided);
      case StageOp::kRound:
        return phase_ == kDivided && To(kRounded);
      default:
        return false;
    }
  }

  static bool Set(Int8Chain::Value& to, const std::optional<Int8Chain::Value>& from) {
    if (from) to = *from;
    return from.has_value();
  }
  bool SetClip(float lo, float hi) {
    if (!(lo <= hi)) return false;
    chain_.clip_lo = lo, chain_.clip_hi = hi;
    return To(kClipped);
  }
  bool Add(SlotId other) {
    if (phase_ < kReal || phase_ > kBiased) return false;
    if (phase_ < kBiased && Set(chain_.bias, Small(other))) return To(kBiased);
    const EpilogueArg* a = ArgOf(other);
    if (!a || a->dtype != DType::kF32 || a->row_stride == 0 || a->col_stride != 1) return false;
    chain_.residual = other - 1;
    return To(kAdded);
  }
  bool SetZero(SlotId other) {
    const Stage* s = ConstantOf(other);
    if (!s || s->imm[0] != std::nearbyint(s->imm[0]) || std::abs(s->imm[0]) > 255) return false;
    chain_.zero = {-1, static_cast<float>(s->imm[0])};
    return To(kShifted);
  }
  bool Saturate(double lo, double hi) {
    chain_.least = static_cast<float>(lo), chain_.most = static_cast<float>(hi);
    chain_.quantises = true;
    return To(kSaturated);
  }
  // Do bytes of this type hold what is stored, and do both clips leave something between them?
  bool FitsIntegers(DType t) {
    const bool s8 = t == DType::kS8 && chain_.least == -128 && chain_.most == 127;
    const bool u8 = t == DType::kU8 && chain_.least == 0 && chain_.most == 255;
    if (!s8 && !u8) return false;
    const float lo = chain_.least - chain_.zero.constant, hi = chain_.most - chain_.zero.constant;
    if (chain_.step.arg < 0) chain_.quotient = vector::FindQuotient(chain_.step.constant, lo, hi);
    return true;
  }

  const Program& p_;
  std::span<const EpilogueArg> args_;
  Int8Chain chain_;
  SlotId x_ = 0;
  Phase phase_ = kSums;
};

}  // namespace

std::shared_ptr<const Int8Chain> MatchInt8Chain(const vector::CompiledProgram& program,
                                                std::span<const EpilogueArg> args) {
  const std::optional<Int8Chain> chain = Matcher(program.program, args).Run();
  return chain ? std::make_shared<const Int8Chain>(*chain) : nullptr;
}

}  // namespace opsnn::gemm
