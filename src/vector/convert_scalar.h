// Element conversions between all storage and compute types, by the rules of convert.h.
#ifndef OPSNN_VECTOR_CONVERT_SCALAR_H_
#define OPSNN_VECTOR_CONVERT_SCALAR_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/half.h"

namespace opsnn::vector {

// Storage of a bool: any byte may be there, and reading a C++ bool that is neither 0 nor 1 is undefined.
struct BoolByte {
  uint8_t bits;
};

template <typename T>
inline auto Widen(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return ToFloat(v);
  } else if constexpr (std::is_same_v<T, BoolByte>) {
    return static_cast<int32_t>(v.bits != 0);
  } else {
    return v;
  }
}

template <typename To, typename From>
inline To FloatToInt(From v) {
  // The bounds as floats: min is exact, max + 1 is a power of two.
  constexpr From kMin = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  if (!(v > kMin)) return v <= kMin ? std::numeric_limits<To>::min() : To{0};
  return v >= kEnd ? std::numeric_limits<To>::max() : static_cast<To>(v);
}

// f64 to the halves in one rounding: to f32 by rounding to odd first, so that the second step cannot round
// twice.
inline float ToF32Odd(double v) {
  const float f = static_cast<float>(v);
  if (static_cast<double>(f) == v || v != v || f - f != 0) return f;
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const bool away = (v > 0) ? static_cast<double>(f) > v : static_cast<double>(f) < v;
  return std::bit_cast<float>((away ? u - 1 : u) | 1u);
}

template <typename To, typename From>
inline To CastElement(From raw) {
  const auto v = Widen(raw);
  using V = decltype(v);
  if constexpr (std::is_same_v<To, BoolByte>) {
    return BoolByte{static_cast<uint8_t>(v != 0)};
  } else if constexpr (std::is_same_v<To, F16>) {
    return ToF16(ToF32Odd(static_cast<double>(v)));
  } else if constexpr (std::is_same_v<To, BF16>) {
    return ToBF16(ToF32Odd(static_cast<double>(v)));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<V>) {
    return FloatToInt<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_CONVERT_SCALAR_H_
