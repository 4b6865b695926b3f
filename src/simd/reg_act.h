// Activations cheap enough to apply to accumulators in registers (the register epilogue of cube kernels).
#ifndef OPSNN_SIMD_REG_ACT_H_
#define OPSNN_SIMD_REG_ACT_H_

#include <cstdint>

namespace opsnn {

enum class RegAct : uint8_t {
  kNone,
  kRelu,
  kClip,
  kHardSwish,
  kHardSigmoid,
  kSilu,
  kSigmoid,
  kGeluErf,
  kGeluTanh,
  kTanh,
  kLeakyRelu
};
template <RegAct kValue>
struct RegActTag {
  static constexpr RegAct value = kValue;
};

namespace vector {
using opsnn::RegAct;
}

}  // namespace opsnn

#endif  // OPSNN_SIMD_REG_ACT_H_
