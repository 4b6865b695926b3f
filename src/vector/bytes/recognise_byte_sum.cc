// Which programs are the sums of byte_sum.h: read from the result backwards.
#include <cmath>
#include <limits>

#include "vector/bytes/byte_sum.h"

namespace opsnn::vector {
namespace {

using enum StageOp;

class Reader {
 public:
  explicit Reader(const Program& p) : p_(p) {}

  std::optional<ByteSum> Run() {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    if (p_.outputs.size() != 1 || !p_.IsF32Pointwise()) return std::nullopt;
    sum_.clip_lo = -kInf, sum_.clip_hi = kInf;
    SlotId at = p_.outputs[0];
    const Stage* clip = Take(at, kClip);
    if (!clip) return std::nullopt;
    sum_.least = static_cast<float>(clip->imm[0]), sum_.most = static_cast<float>(clip->imm[1]);
    at = clip->src[0];
    if (const Stage* add = Take(at, kAdd)) {
      if (!Constant(*add, &at, &sum_.zero)) return std::nullopt;
    }
    const Stage* round = Take(at, kRound);
    const Stage* div = round ? Take(round->src[0], kDiv) : nullptr;
    if (!div || !Constant(div->src[1], &sum_.step)) return std::nullopt;
    if (!Value(div->src[0]) || taken_ != NumStages() || !Stores()) return std::nullopt;
    sum_.quotient = FindQuotient(sum_.step, sum_.least - sum_.zero, sum_.most - sum_.zero);
    return sum_;
  }

 private:
  int NumStages() const {
    int n = 0;
    for (const Stage& s : p_.stages) n += s.op != kConst;
    return n;
  }
  const Stage* Maker(SlotId slot, StageOp op) const {
    for (const Stage& s : p_.stages)
      if (s.dst == slot) return s.op == op ? &s : nullptr;
    return nullptr;
  }
  // The stage of this kind that made a slot, which is then accounted for.
  const Stage* Take(SlotId slot, StageOp op) {
    const Stage* s = Maker(slot, op);
    taken_ += s != nullptr;
    return s;
  }
  bool Constant(SlotId slot, float* value) const {
    const Stage* s = Maker(slot, kConst);
    if (s) *value = static_cast<float>(s->imm[0]);
    return s != nullptr;
  }
  // One operand of a stage is a constant, `*other` the other one.
  bool Constant(const Stage& s, SlotId* other, float* value) const {
    for (const int k : {1, 0}) {
      if (!Constant(s.src[k], value)) continue;
      *other = s.src[1 - k];
      return true;
    }
    return false;
  }

  // What is divided.
  bool Value(SlotId at) {
    if (const Stage* clip = Take(at, kClip)) {
      sum_.clip_lo = static_cast<float>(clip->imm[0]), sum_.clip_hi = static_cast<float>(clip->imm[1]);
      if (!(sum_.clip_lo <= sum_.clip_hi)) return false;
      at = clip->src[0];
    } else if (const Stage* relu = Take(at, kRelu)) {
      sum_.clip_lo = 0;
      at = relu->src[0];
    }
    if (const Stage* add = Take(at, kAdd)) return Term(add->src[0]) && Term(add->src[1]);
    return Term(at);
  }
  bool Term(SlotId at) {
    ByteSum::Term& t = sum_.term[sum_.num_terms++];
    if (const Stage* mul = Take(at, kMul)) {
      if (!Constant(*mul, &at, &t.scale)) return false;
    }
    if (const Stage* sub = Take(at, kSub)) {
      if (!Constant(sub->src[1], &t.zero)) return false;
      at = sub->src[0];
    }
    t.input = at;
    return at < p_.num_inputs;
  }
  bool Stores() const {
    const bool bytes = (sum_.least == 0 && sum_.most == 255) || (sum_.least == -128 && sum_.most == 127);
    return bytes && sum_.zero == std::nearbyint(sum_.zero) && std::abs(sum_.zero) <= 255;
  }

  const Program& p_;
  ByteSum sum_;
  int taken_ = 0;
};

}  // namespace

std::optional<ByteSum> RecogniseByteSum(const Program& p) { return Reader(p).Run(); }

}  // namespace opsnn::vector
