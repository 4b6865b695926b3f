#include "tensor/element.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/half.h"

namespace opsnn {
namespace {

template <typename T>
T Load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <typename T>
void Store(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

// A double to f32 with the last bit made sticky (round to odd): rounding that to a half then gives what one
// rounding from the double would have given.
float ToFloatSticky(double v) {
  float f = static_cast<float>(v);
  if (std::isnan(v) || std::isinf(f) || static_cast<double>(f) == v) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  const bool rounded_away = std::fabs(static_cast<double>(f)) > std::fabs(v);
  if (rounded_away) --bits;  // to the neighbour nearer to zero
  return std::bit_cast<float>(bits | 1);
}

template <typename T>
T Saturate(double v) {
  if (std::isnan(v)) return 0;
  const double r = std::nearbyint(v);
  // The largest s64 is not a double: compare with the power of two above it.
  constexpr double kAbove = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  if (r >= kAbove) return std::numeric_limits<T>::max();
  if (r <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(r);
}

}  // namespace

double ReadElement(const void* p, DType t) {
  switch (t) {
    case DType::kF32:
      return Load<float>(p);
    case DType::kF64:
      return Load<double>(p);
    case DType::kF16:
      return ToFloat(Load<F16>(p));
    case DType::kBF16:
      return ToFloat(Load<BF16>(p));
    case DType::kS8:
      return Load<int8_t>(p);
    case DType::kU8:
      return Load<uint8_t>(p);
    case DType::kS16:
      return Load<int16_t>(p);
    case DType::kS32:
      return Load<int32_t>(p);
    case DType::kS64:
      return static_cast<double>(Load<int64_t>(p));
    case DType::kBool:
      return Load<uint8_t>(p) != 0;
  }
  return 0;
}

void WriteElement(void* p, DType t, double v) {
  switch (t) {
    case DType::kF32:
      return Store(p, static_cast<float>(v));
    case DType::kF64:
      return Store(p, v);
    case DType::kF16:
      return Store(p, ToF16(ToFloatSticky(v)));
    case DType::kBF16:
      return Store(p, ToBF16(ToFloatSticky(v)));
    case DType::kS8:
      return Store(p, Saturate<int8_t>(v));
    case DType::kU8:
      return Store(p, Saturate<uint8_t>(v));
    case DType::kS16:
      return Store(p, Saturate<int16_t>(v));
    case DType::kS32:
      return Store(p, Saturate<int32_t>(v));
    case DType::kS64:
      return Store(p, Saturate<int64_t>(v));
    case DType::kBool:
      return Store(p, static_cast<uint8_t>(v != 0));
  }
}

}  // namespace opsnn
