// DepthwisePointwise: a depthwise convolution, an activation and the pointwise convolution behind it as one
// call, on x or on what a third convolution, a pointwise one, makes of it. The rows between them stay in the
// cache.
#ifndef OPSNN_OPS_CONV_CONV_PAIR_H_
#define OPSNN_OPS_CONV_CONV_PAIR_H_

#include <optional>

#include "kernels/conv/pair.h"
#include "op/advice.h"
#include "ops/conv/conv_op.h"
#include "plan/pair.h"
#include "simd/reg_act.h"

namespace opsnn::ops {

inline constexpr const char* kConvPair = "DepthwisePointwise";

struct PairShapes {
  conv::ConvShape first, second;
  std::optional<conv::ConvShape> expand;
  conv::PairShape views() const { return {first, second, expand ? &*expand : nullptr}; }
};
// W: (C, 1, kh, kw), W2: (O, C, 1, 1), w0: (C, channels of x, 1, 1) or null; the attributes are those of the
// first.
Result<PairShapes> PairShapesOf(const Dims& x, const Dims& w, const Dims& w2, const Dims* w0,
                                const op::Attrs& attrs);

// Inputs of the call.
enum PairInput : size_t { kPairX, kPairW, kPairW2, kPairB, kPairB2, kPairW0, kPairB0 };

// What the first applies to its sums, as attributes of the call.
struct PairActivation {
  RegAct act = RegAct::kNone;
  float imm[2] = {0, 0};
  // `name`: "activation", or "expand_activation" of the third.
  static PairActivation Of(const op::Attrs& attrs, const char* name);
  void Set(const char* name, op::Attrs* attrs) const;
  // The chain behind a convolution, if it is one that the pair can apply between its two.
  static std::optional<PairActivation> FromTail(const Program& program);
};

// Of nodes as they stand in a graph: nullopt where they do not run together on a device with such room. `why`
// is then the reason where they are a depthwise and a pointwise convolution, else null.
std::optional<PairShapes> MatchPair(const op::ConvPair& p, const plan::PairRoom& room, const char** why);
plan::PairEdge EdgeOf(const PairShapes& s, int threads, const plan::PairRoom& room);

Result<op::KernelPtr> PlanConvolutionPair(const op::PlanContext& c);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_CONV_PAIR_H_
