// Loads and stores of any storage type from and to blocks of a compute type.
//
// The rules, the same in every lane, tail and tier:
//   float -> narrower float  rounded once, to nearest even; overflow gives Inf; NaN stays NaN
//   float -> integer         NaN -> 0, truncated toward zero, out of range saturates
//   integer -> narrower      wraps for s64/s32 -> s32/s16/s8/u8, as a C cast does
//   anything -> bool         x != 0 (NaN is true);   bool -> number: 0 or 1
#ifndef OPSNN_VECTOR_CONVERT_H_
#define OPSNN_VECTOR_CONVERT_H_

#include <cstdint>

#include "base/dtype.h"
#include "program/program.h"

namespace opsnn::vector {

constexpr size_t SizeOfCompute(ComputeType t) {
  return t == ComputeType::kF64 || t == ComputeType::kS64 ? 8 : 4;
}
// Does `storage` hold values of compute type `t` as they are?
constexpr bool SameRepresentation(DType storage, ComputeType t) {
  return (storage == DType::kF32 && t == ComputeType::kF32) ||
         (storage == DType::kF64 && t == ComputeType::kF64) ||
         (storage == DType::kS32 && t == ComputeType::kS32) ||
         (storage == DType::kS64 && t == ComputeType::kS64);
}

// dst[i] = src[i * stride], stride in elements of `from`; n elements.
void LoadConvert(DType from, const void* src, int64_t stride, ComputeType to, void* dst, int64_t n);
// dst[i * stride] = src[i].
void StoreConvert(ComputeType from, const void* src, DType to, void* dst, int64_t stride, int64_t n);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_CONVERT_H_
