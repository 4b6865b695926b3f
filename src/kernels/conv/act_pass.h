// Activations that do not run in registers, on values just stored.
#ifndef OPSNN_KERNELS_CONV_ACT_PASS_H_
#define OPSNN_KERNELS_CONV_ACT_PASS_H_

#include <cstdint>

#include "simd/reg_act.h"

namespace opsnn::conv {

// Applied by the tile itself; see epilogue-inl.h.
inline bool IsRegisterAct(RegAct act) {
  return act == RegAct::kNone || act == RegAct::kRelu || act == RegAct::kClip || act == RegAct::kHardSwish;
}

// y[i] = act(y[i]) for i < n.
void ActPass(RegAct act, const float* imm, float* y, int64_t n);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_ACT_PASS_H_
