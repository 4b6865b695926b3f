// op::fp16_t: a 16-bit IEEE half as client programs use it: made from numbers, kept in vectors, copied as
// bytes, read as float. Rounds to nearest even; NaN and Inf are kept.
#ifndef OPSNN_ACLNN_OPDEV_FP16_T_H_
#define OPSNN_ACLNN_OPDEV_FP16_T_H_

#include <cstdint>
#include <cstring>

namespace op {

struct fp16_t {
  uint16_t val;

  fp16_t() : val(0) {}
  fp16_t(float value) : val(FromFloat(value)) {}                       // NOLINT: implicit, as clients rely on
  fp16_t(double value) : val(FromFloat(static_cast<float>(value))) {}  // NOLINT
  fp16_t(int value) : val(FromFloat(static_cast<float>(value))) {}     // NOLINT
  fp16_t(uint16_t bits, bool) : val(bits) {}
  operator float() const { return ToFloat(val); }  // NOLINT

 private:
  static uint32_t Bits(float f) {
    uint32_t u;
    std::memcpy(&u, &f, sizeof(u));
    return u;
  }
  static float Value(uint32_t u) {
    float f;
    std::memcpy(&f, &u, sizeof(f));
    return f;
  }
  static uint16_t FromFloat(float f) {
    const uint32_t u = Bits(f), a = u & 0x7FFFFFFF, sign = (u >> 16) & 0x8000;
    if (a > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
    if (a >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // rounds to 65536 or more
    if (a < 0x38800000) {  // subnormal: adding 0.5 rounds to a multiple of 2^-24
      return static_cast<uint16_t>(sign | (Bits(Value(a) + 0.5f) - 0x3F000000));
    }
    return static_cast<uint16_t>(sign | ((a - 0x38000000 + 0xFFF + ((a >> 13) & 1)) >> 13));
  }
  static float ToFloat(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31) return Value(sign | 0x7F800000 | mantissa << 13);
    if (exponent) return Value(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return sign ? -magnitude : magnitude;
  }
};

}  // namespace op

#endif  // OPSNN_ACLNN_OPDEV_FP16_T_H_
