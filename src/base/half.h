// f16 and bf16 storage types with scalar conversions: round to nearest even, NaN stays NaN (quiet, payload's
// top bits kept), Inf, signed zero and subnormals kept. Vector code has its own in simd/convert-inl.h; tests
// hold the two equal on all 65,536 half values and on rounding ties.
#ifndef OPSNN_BASE_HALF_H_
#define OPSNN_BASE_HALF_H_

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace opsnn {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};

inline float ToFloat(BF16 h) { return std::bit_cast<float>(uint32_t{h.bits} << 16); }

inline BF16 ToBF16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((u >> 16) | 0x40)};
  return {static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16)};
}

inline float ToFloat(F16 h) {
  const uint32_t sign = uint32_t{h.bits & 0x8000u} << 16;
  const uint32_t exp = (h.bits >> 10) & 31, man = h.bits & 1023;
  if (exp == 31) return std::bit_cast<float>(sign | 0x7F800000 | (man << 13) | (man ? 0x400000 : 0));
  if (exp != 0) return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
  const float magnitude = static_cast<float>(man) * 0x1p-24f;  // zero or subnormal: exact in f32
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

inline F16 ToF16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f), a = u & 0x7FFFFFFF;
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  if (a > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00 | ((a >> 13) & 0x3FF))};
  if (a >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // rounds to 65536 or more: Inf
  if (a < 0x38800000) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24, ties to even
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000))};
  }
  return {static_cast<uint16_t>(sign | ((a - 0x38000000 + 0xFFF + ((a >> 13) & 1)) >> 13))};
}

}  // namespace opsnn

#endif  // OPSNN_BASE_HALF_H_
