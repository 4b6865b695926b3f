// Bitwise stages on one element, the same for every tier and type.
#ifndef OPSNN_VECTOR_BIT_STAGES_H_
#define OPSNN_VECTOR_BIT_STAGES_H_

#include <cstdint>
#include <type_traits>

#include "program/program.h"
#include "vector/convert_scalar.h"

namespace opsnn::vector {

// Floats are truncated to s32 before (saturating); a shift count outside [0, width) gives 0, shifting right
// keeps the sign.
template <typename T>
T BitStage(StageOp op, T x, T y) {
  if constexpr (!std::is_integral_v<T>) {
    return static_cast<T>(BitStage<int32_t>(op, CastElement<int32_t>(x), CastElement<int32_t>(y)));
  } else {
    using U = std::make_unsigned_t<T>;
    constexpr T kWidth = 8 * sizeof(T);
    const bool shifts = y >= 0 && y < kWidth;
    switch (op) {
      case StageOp::kBitAnd:
        return x & y;
      case StageOp::kBitOr:
        return x | y;
      case StageOp::kBitXor:
        return x ^ y;
      case StageOp::kShiftLeft:
        return shifts ? static_cast<T>(static_cast<U>(x) << y) : T{0};
      case StageOp::kShiftRight:
        return shifts ? static_cast<T>(x >> y) : T{0};
      default:
        return x;
    }
  }
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_BIT_STAGES_H_
