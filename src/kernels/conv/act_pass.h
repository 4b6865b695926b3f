// Activations that do not run in registers, and what follows them, on values just stored.
#ifndef OPSNN_KERNELS_CONV_ACT_PASS_H_
#define OPSNN_KERNELS_CONV_ACT_PASS_H_

#include <cstdint>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Applied by the tile itself, and the affine step with it; see epilogue-inl.h.
inline bool IsRegisterAct(RegAct act) {
  return act == RegAct::kNone || act == RegAct::kRelu || act == RegAct::kClip || act == RegAct::kHardSwish;
}

// y[i] = post(y[i]) for i < n.
void PostPass(const Post& post, float* y, int64_t n);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_ACT_PASS_H_
