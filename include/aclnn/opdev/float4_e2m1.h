// op::Float4E2M1: the bits of a 4-bit float (sign, two bits of exponent, one of mantissa) for host code.
#ifndef OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_
#define OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_

#include <cmath>
#include <cstdint>

namespace op {

struct Float4E2M1 {
  uint8_t value = 0;  // the low four bits

  Float4E2M1() = default;
  // To nearest, ties to even; what is too large, and NaN, becomes the largest, 6.
  Float4E2M1(float f) {  // NOLINT: numbers convert
    const float magnitude = std::fabs(f);
    uint8_t best = 0;
    for (uint8_t i = 1; i < 8; ++i) {
      const float nearer = std::fabs(Magnitude(i) - magnitude),
                  before = std::fabs(Magnitude(best) - magnitude);
      if (!(nearer > before) && (nearer < before || i % 2 == 0)) best = i;
    }
    if (magnitude > Magnitude(7) || std::isnan(f)) best = 7;
    value = static_cast<uint8_t>((std::signbit(f) ? 8 : 0) | best);
  }
  operator float() const { return value & 8 ? -Magnitude(value & 7) : Magnitude(value & 7); }  // NOLINT

 private:
  static float Magnitude(uint8_t bits) {
    static const float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return kValues[bits];
  }
};

}  // namespace op

#endif  // OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_
