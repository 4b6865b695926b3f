// Decomposed activations become single stages. The rules are few and exact in what they match; values differ
// from the decomposed form by a rounding or two (a division by 6 becomes a product), never in NaN or Inf.
#include <cmath>

#include "vector/compiled.h"

namespace opsnn::vector {
namespace {

using enum StageOp;

class Rewriter {
 public:
  explicit Rewriter(const Program& p) : p_(p) {}

  Program Run() {
    for (Stage& s : p_.stages) {
      if (p_.exact) break;
      Recount();
      if (s.op == kPow && Constant(s.src[1]) == 2.0) s = Unary(s, kSquare, s.src[0], 0, 0);
      if (p_.slots[s.dst].type != ComputeType::kF32) continue;
      RewriteSilu(s);
      RewriteGelu(s);
      RewriteHardSwish(s);
    }
    return DropUnread();
  }

 private:
  void Recount() {
    maker_.assign(p_.slots.size(), nullptr);
    for (const Stage& s : p_.stages) maker_[s.dst] = &s;
  }
  static Stage Unary(const Stage& s, StageOp op, SlotId x, double i0, double i1) {
    return {op, s.dst, {x, kNoSlot, kNoSlot}, {i0, i1}};
  }
  const Stage* Maker(SlotId s, StageOp op) const {
    const Stage* m = maker_[s];
    return m != nullptr && m->op == op ? m : nullptr;
  }
  // The value of a constant slot; NaN if it is none (so that comparisons fail).
  double Constant(SlotId s) const {
    const Stage* m = Maker(s, kConst);
    return m != nullptr ? m->imm[0] : NAN;
  }
  // slot = a * x + b with constants: affine, x + b, x * a, x / c, or x * a (/ c) + b. x is the innermost
  // slot.
  struct Line {
    SlotId x = kNoSlot;
    double a = 1, b = 0;
  };
  Line LineOf(SlotId s, int depth = 0) const {
    const Line identity{s, 1, 0};
    const Stage* m = maker_[s];
    if (m == nullptr || depth > 1) return identity;
    if (m->op == kAffine) {
      const Line in = LineOf(m->src[0], depth + 1);
      return {in.x, m->imm[0] * in.a, m->imm[0] * in.b + m->imm[1]};
    }
    if (m->op != kAdd && m->op != kMul && m->op != kDiv) return identity;
    for (int k = 0; k < (m->op == kDiv ? 1 : 2); ++k) {
      const double c = Constant(m->src[1 - k]);
      if (std::isnan(c)) continue;
      const Line in = LineOf(m->src[k], depth + 1);
      if (m->op == kAdd) return {in.x, in.a, in.b + c};
      const double f = m->op == kMul ? c : 1 / c;
      return {in.x, in.a * f, in.b * f};
    }
    return identity;
  }
  // slot = clip(line, lo, hi), written as clip, hard_sigmoid or min(max()).
  struct Clipped {
    Line line;
    double lo = 0, hi = -1;  // hi < lo: no match
  };
  Clipped ClippedOf(SlotId s) const {
    if (const Stage* m = Maker(s, kClip)) return {LineOf(m->src[0]), m->imm[0], m->imm[1]};
    if (const Stage* m = Maker(s, kHardSigmoid)) return {{m->src[0], m->imm[0], m->imm[1]}, 0, 1};
    for (StageOp outer : {kMin, kMax}) {
      const Stage* m = Maker(s, outer);
      for (int k = 0; m != nullptr && k < 2; ++k) {
        const double c = Constant(m->src[1 - k]);
        const Stage* in = Maker(m->src[k], outer == kMin ? kMax : kMin);
        const Stage* relu = outer == kMin ? Maker(m->src[k], kRelu) : nullptr;
        if (std::isnan(c)) continue;
        if (relu != nullptr) return {LineOf(relu->src[0]), 0, c};
        for (int j = 0; in != nullptr && j < 2; ++j) {
          const double c2 = Constant(in->src[1 - j]);
          if (!std::isnan(c2)) return {LineOf(in->src[j]), outer == kMin ? c2 : c, outer == kMin ? c : c2};
        }
      }
    }
    return {};
  }

  // x * sigmoid(x).
  void RewriteSilu(Stage& s) {
    for (int k = 0; s.op == kMul && k < 2; ++k) {
      const Stage* gate = Maker(s.src[1 - k], kSigmoid);
      if (gate != nullptr && gate->src[0] == s.src[k]) s = Unary(s, kSilu, s.src[k], 0, 0);
    }
  }

  // The factors of a product of products: its constants multiplied, and the slots that are none.
  void Factors(SlotId slot, int depth, double& constant, std::vector<SlotId>& slots) const {
    const Stage* m = maker_[slot];
    const double c = Constant(slot);
    if (!std::isnan(c)) {
      constant *= c;
    } else if (m != nullptr && m->op == kMul && depth < 3) {
      for (int k = 0; k < 2; ++k) Factors(m->src[k], depth + 1, constant, slots);
    } else if (m != nullptr && m->op == kDiv && !std::isnan(Constant(m->src[1])) && depth < 3) {
      constant /= Constant(m->src[1]);
      Factors(m->src[0], depth + 1, constant, slots);
    } else if (m != nullptr && m->op == kAffine && m->imm[1] == 0 && depth < 3) {
      constant *= m->imm[0];
      Factors(m->src[0], depth + 1, constant, slots);
    } else {
      slots.push_back(slot);
    }
  }
  // 0.5 x (1 + erf(x / sqrt(2))) with the factors in any order.
  void RewriteGelu(Stage& s) {
    if (s.op != kMul && s.op != kDiv && s.op != kAffine) return;
    double constant = 1;
    std::vector<SlotId> factors;
    Factors(s.dst, 0, constant, factors);
    if (factors.size() != 2 || std::fabs(constant - 0.5) > 1e-6) return;
    for (int k = 0; k < 2; ++k) {
      const Line plus_one = LineOf(factors[1 - k]);
      const Stage* erf = plus_one.x == kNoSlot ? nullptr : Maker(plus_one.x, kErf);
      if (erf == nullptr || plus_one.a != 1 || plus_one.b != 1) continue;
      const Line inner = LineOf(erf->src[0]);
      if (inner.x != factors[k] || inner.b != 0 || std::fabs(inner.a - 0.70710678118654752) > 1e-5) continue;
      s = Unary(s, kGeluErf, inner.x, 0, 0);
      return;
    }
  }

  // x * clip(a x + b, 0, 1); x * clip(x + 3, 0, 6) [* or /] 6, the factor on the product or on the clip.
  void RewriteHardSwish(Stage& s) {
    double scale = 1;
    const Stage* product = &s;
    if (s.op == kDiv || s.op == kMul) {
      for (int k = 0; k < (s.op == kDiv ? 1 : 2); ++k) {
        const double c = Constant(s.src[1 - k]);
        const Stage* inner = Maker(s.src[k], kMul);
        if (!std::isnan(c) && inner != nullptr) product = inner, scale = s.op == kDiv ? 1 / c : c;
      }
    }
    if (s.op == kAffine && s.imm[1] == 0) {
      if (const Stage* inner = Maker(s.src[0], kMul)) product = inner, scale = s.imm[0];
    }
    if (product->op != kMul) return;
    for (int k = 0; k < 2; ++k) {
      const SlotId x = product->src[k];
      SlotId gate = product->src[1 - k];
      double gate_scale = scale;
      if (const Stage* m = maker_[gate]; m != nullptr && ClippedOf(gate).hi < 0) {
        // The factor may sit between clip and product.
        if (m->op == kDiv && !std::isnan(Constant(m->src[1])))
          gate_scale /= Constant(m->src[1]), gate = m->src[0];
        else if (m->op == kAffine && m->imm[1] == 0)
          gate_scale *= m->imm[0], gate = m->src[0];
        else if (m->op == kMul && !std::isnan(Constant(m->src[1])))
          gate_scale *= Constant(m->src[1]), gate = m->src[0];
      }
      const Clipped c = ClippedOf(gate);
      if (c.hi <= c.lo || c.lo != 0 || c.line.x != x) continue;
      if (std::fabs(c.hi * gate_scale - 1) > 1e-6) continue;  // constants were f32 once
      s = Unary(s, kHardSwish, x, Tidy(c.line.a * gate_scale), Tidy(c.line.b * gate_scale));
      return;
    }
  }
  // 1/6 and 1/2 however they were spelled, so that equal activations get equal bits.
  static double Tidy(double v) {
    for (double nice : {1.0 / 6, 0.5, 0.2}) {
      if (std::fabs(v - nice) < 1e-6) return nice;
    }
    return v;
  }

  // Removes stages that nothing reads and renumbers the slots.
  Program DropUnread() {
    std::vector<bool> read(p_.slots.size(), false);
    for (SlotId o : p_.outputs) read[o] = true;
    for (size_t i = p_.stages.size(); i-- > 0;) {
      const Stage& s = p_.stages[i];
      for (int k = 0; read[s.dst] && k < Info(s.op).arity; ++k) read[s.src[k]] = true;
    }
    Program out;
    out.num_inputs = p_.num_inputs;
    out.exact = p_.exact;
    std::vector<SlotId> moved(p_.slots.size(), kNoSlot);
    for (int i = 0; i < p_.num_inputs; ++i) moved[i] = static_cast<SlotId>(i);
    out.slots.assign(p_.slots.begin(), p_.slots.begin() + p_.num_inputs);
    for (Stage s : p_.stages) {
      if (!read[s.dst]) continue;
      for (int k = 0; k < Info(s.op).arity; ++k) s.src[k] = moved[s.src[k]];
      moved[s.dst] = static_cast<SlotId>(out.slots.size());
      out.slots.push_back(p_.slots[s.dst]);
      s.dst = moved[s.dst];
      out.stages.push_back(s);
    }
    for (SlotId o : p_.outputs) out.outputs.push_back(moved[o]);
    return out;
  }

  Program p_;
  std::vector<const Stage*> maker_;
};

}  // namespace

Program Canonicalize(const Program& p) { return Rewriter(p).Run(); }

}  // namespace opsnn::vector
