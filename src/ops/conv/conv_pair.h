// DepthwisePointwise: a depthwise convolution, an activation and the pointwise convolution behind it as one
// call. The rows between them stay in the cache.
#ifndef OPSNN_OPS_CONV_CONV_PAIR_H_
#define OPSNN_OPS_CONV_CONV_PAIR_H_

#include <optional>

#include "kernels/conv/pair.h"
#include "ops/conv/conv_op.h"
#include "plan/pair.h"
#include "simd/reg_act.h"

namespace opsnn::ops {

inline constexpr const char* kConvPair = "DepthwisePointwise";

struct PairShapes {
  conv::ConvShape first, second;
};
// W: (C, 1, kh, kw), W2: (O, C, 1, 1); the attributes are those of the first.
Result<PairShapes> PairShapesOf(const Dims& x, const Dims& w, const Dims& w2, const op::Attrs& attrs);

// What the first applies to its sums, as attributes of the call.
struct PairActivation {
  RegAct act = RegAct::kNone;
  float imm[2] = {0, 0};
  static PairActivation Of(const op::Attrs& attrs);
  void Set(op::Attrs* attrs) const;
  // The chain behind a convolution, if it is one that the pair can apply between its two.
  static std::optional<PairActivation> FromTail(const Program& program);
};

// Of nodes as they stand in a graph: nullopt where they are no pair that runs together on a device with such
// room. `why` is then the reason where they are a depthwise and a pointwise convolution, else null.
std::optional<PairShapes> MatchPair(const op::TensorDesc& x, const op::TensorDesc& w, const op::Attrs& attrs,
                                    const op::TensorDesc& w2, const op::Attrs& attrs2,
                                    const plan::PairRoom& room, const char** why);
plan::PairEdge EdgeOf(const PairShapes& s, int threads, const plan::PairRoom& room);

Result<op::KernelPtr> PlanConvolutionPair(const op::PlanContext& c);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_CONV_PAIR_H_
