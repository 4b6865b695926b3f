// op::Float4E2M1: a 4-bit float with two exponent bits and one mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and
// their negatives. Made from float, to nearest even, saturating; `value` holds the code in its low four bits.
#ifndef OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_
#define OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_

#include <cmath>
#include <cstdint>

namespace op {

struct Float4E2M1 {
  uint8_t value;

  Float4E2M1() : value(0) {}
  Float4E2M1(float f) : value(Encode(f)) {}  // NOLINT: implicit, as clients rely on
  operator float() const {                   // NOLINT
    return (value & 8) ? -Magnitude(value & 7) : Magnitude(value & 7);
  }

 private:
  static float Magnitude(int code) {
    static const float kValues[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return kValues[code];
  }
  static uint8_t Encode(float f) {
    const float a = std::fabs(f);
    uint8_t code = 0;
    // Past the midpoint to the next value, or on it when that one is even.
    while (code < 7) {
      const float middle = (Magnitude(code) + Magnitude(code + 1)) / 2;
      if (!(a > middle || (a == middle && code % 2 == 1))) break;
      ++code;
    }
    return static_cast<uint8_t>(code | (std::signbit(f) ? 8 : 0));
  }
};

}  // namespace op

#endif  // OPSNN_ACLNN_OPDEV_FLOAT4_E2M1_H_
