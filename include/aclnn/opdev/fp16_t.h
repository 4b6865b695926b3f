// op::fp16_t: a half-precision number for host code that fills and prints buffers of ACL_FLOAT16.
#ifndef OPSNN_ACLNN_OPDEV_FP16_T_H_
#define OPSNN_ACLNN_OPDEV_FP16_T_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace op {

struct fp16_t {
  uint16_t val = 0;  // the bits

  constexpr fp16_t() = default;
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  fp16_t(T v) : val(Round(static_cast<float>(v))) {}  // NOLINT: numbers convert as they do to float
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  fp16_t& operator=(T v) {
    val = Round(static_cast<float>(v));
    return *this;
  }
  operator float() const { return Widen(val); }  // NOLINT
  float toFloat() const { return Widen(val); }

  fp16_t& operator+=(fp16_t o) { return *this = toFloat() + o.toFloat(); }
  fp16_t& operator-=(fp16_t o) { return *this = toFloat() - o.toFloat(); }
  fp16_t& operator*=(fp16_t o) { return *this = toFloat() * o.toFloat(); }
  fp16_t& operator/=(fp16_t o) { return *this = toFloat() / o.toFloat(); }

 private:
  // To nearest, ties to even; too large becomes Inf, NaN stays NaN.
  static uint16_t Round(float f) {
    uint32_t b;
    std::memcpy(&b, &f, sizeof(b));
    const uint16_t sign = static_cast<uint16_t>((b >> 16) & 0x8000u);
    const uint32_t magnitude = b & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
    if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // from 65520 on
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + 15;
    if (exponent < -10) return sign;  // below half of the smallest
    uint32_t mantissa = magnitude & 0x7FFFFFu;
    int drop = 13;
    uint32_t high = static_cast<uint32_t>(exponent > 0 ? exponent : 0) << 10;
    if (exponent <= 0) {  // subnormal: the leading one becomes visible
      mantissa |= 0x800000u;
      drop += 1 - exponent;
    }
    const uint32_t rest = mantissa & ((1u << drop) - 1), half = 1u << (drop - 1);
    high += mantissa >> drop;
    if (rest > half || (rest == half && (high & 1u))) ++high;  // may carry into the exponent
    return static_cast<uint16_t>(sign | high);
  }
  static float Widen(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1Fu, mantissa = h & 0x3FFu, b;
    if (exponent == 0x1F) {
      b = sign | 0x7F800000u | (mantissa << 13);
    } else if (exponent != 0) {
      b = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else {
      const float f = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
      return sign ? -f : f;
    }
    float f;
    std::memcpy(&f, &b, sizeof(f));
    return f;
  }
};
static_assert(sizeof(fp16_t) == 2, "buffers of fp16_t are buffers of ACL_FLOAT16");

}  // namespace op

#endif  // OPSNN_ACLNN_OPDEV_FP16_T_H_
