// From a dtype to the type that stores it.
#ifndef OPSNN_KERNELS_GATHER_WITH_TYPE_H_
#define OPSNN_KERNELS_GATHER_WITH_TYPE_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/half.h"

namespace opsnn::kernels {

// Calls fn(T{}) with the storage type; bool is uint8_t.
template <typename Fn>
void WithType(DType t, Fn fn) {
  switch (t) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kF16:
      return fn(F16{});
    case DType::kBF16:
      return fn(BF16{});
    case DType::kS8:
      return fn(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return fn(uint8_t{});
    case DType::kS16:
      return fn(int16_t{});
    case DType::kS32:
      return fn(int32_t{});
    case DType::kS64:
      return fn(int64_t{});
  }
}

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_WITH_TYPE_H_
