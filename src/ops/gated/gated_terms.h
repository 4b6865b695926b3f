// The two factors of gated units and their derivatives, by the attributes of GatedUnit.
#ifndef OPSNN_OPS_GATED_GATED_TERMS_H_
#define OPSNN_OPS_GATED_GATED_TERMS_H_

#include <limits>
#include <string>

#include "op/formula_math.h"

namespace opsnn::ops {

struct GateAttrs {
  explicit GateAttrs(const op::Formula& f)
      : activation(f.attrs().String("activation", "silu")),
        alpha(f.Attr("alpha", 1)),
        limit(f.Attr("limit", std::numeric_limits<double>::infinity())),
        limited(f.attrs().Has("limit")),
        limit_after(f.attrs().Int("limit_after", 0) != 0),
        open(f.attrs().Int("limit_open", 0) != 0),
        up_beta(f.Attr("up_beta", 0)) {}
  // Whether a value passes the limit.
  op::Term Passes(op::Term x) const { return open ? x < limit : x <= limit; }
  std::string activation;
  double alpha, limit;
  bool limited, limit_after, open;
  double up_beta;
};

inline op::Term Activate(const GateAttrs& g, op::Term a) {
  if (g.activation == "sigmoid") return Sigmoid(a);
  if (g.activation == "gelu") return GeluErf(a);
  if (g.activation == "gelu_tanh") return GeluTanh(a);
  if (g.activation == "situ") return Tanh(a / g.alpha) * g.alpha * Sigmoid(a);
  if (g.alpha == 1) return Silu(a);
  if (g.alpha == 0) return a * 0.5;
  return Silu(a * g.alpha) / g.alpha;
}

inline op::Term ActivationSlope(const GateAttrs& g, op::Term a) {
  if (g.activation == "sigmoid") return Sigmoid(a) * Sigmoid(-a);
  if (g.activation == "gelu") return op::GeluErfSlope(a);
  if (g.activation == "gelu_tanh") return op::GeluTanhSlope(a);
  if (g.activation == "situ") {
    const op::Term t = Tanh(a / g.alpha), s = Sigmoid(a);
    return s * ((1.0 - t * t) + t * g.alpha * Sigmoid(-a));
  }
  return op::SiluSlope(a * g.alpha);
}

inline op::Term ActivatedGate(op::Formula& f, op::Term a) {
  const GateAttrs g(f);
  if (!g.limited) return Activate(g, a);
  return g.limit_after ? Min(Activate(g, a), g.limit) : Activate(g, Min(a, g.limit));
}

inline op::Term GateSlope(op::Formula& f, op::Term a) {
  const GateAttrs g(f);
  if (!g.limited) return ActivationSlope(g, a);
  if (g.limit_after) return Select(g.Passes(Activate(g, a)), ActivationSlope(g, a), 0);
  return Select(g.Passes(a), ActivationSlope(g, a), 0);
}

inline op::Term LinearPart(op::Formula& f, op::Term b) {
  const GateAttrs g(f);
  if (g.up_beta > 0) b = Tanh(b / g.up_beta) * g.up_beta;
  return g.limited ? Clip(b, -g.limit, g.limit) : b;
}

inline op::Term LinearSlope(op::Formula& f, op::Term b) {
  const GateAttrs g(f);
  op::Term slope = f.Const(1);
  if (g.up_beta > 0) {
    const op::Term t = Tanh(b / g.up_beta);
    slope = 1.0 - t * t;
  }
  return g.limited ? Select(g.Passes(Abs(b)), slope, 0) : slope;
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_GATED_GATED_TERMS_H_
