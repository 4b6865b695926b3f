// Contiguous runs of storage types to and from f32, vectorised on every tier, by the rules of convert.h. src
// and dst do not overlap.
#ifndef OPSNN_VECTOR_CONVERT_SIMD_H_
#define OPSNN_VECTOR_CONVERT_SIMD_H_

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/half.h"

namespace opsnn::vector {

void ConvertSimd(const F16* src, float* dst, int64_t n);
void ConvertSimd(const BF16* src, float* dst, int64_t n);
void ConvertSimd(const int8_t* src, float* dst, int64_t n);
void ConvertSimd(const uint8_t* src, float* dst, int64_t n);
void ConvertSimd(const int16_t* src, float* dst, int64_t n);
void ConvertSimd(const int32_t* src, float* dst, int64_t n);
void ConvertSimd(const float* src, F16* dst, int64_t n);
void ConvertSimd(const float* src, BF16* dst, int64_t n);
void ConvertSimd(const float* src, int8_t* dst, int64_t n);
void ConvertSimd(const float* src, uint8_t* dst, int64_t n);
void ConvertSimd(const float* src, int16_t* dst, int64_t n);
void ConvertSimd(const float* src, int32_t* dst, int64_t n);

// Rounded to `type` (f16 or bf16) and written past the caches. FlushStreams comes after the last of them.
void StreamHalf(const float* src, DType type, void* dst, int64_t n);

// Is there a ConvertSimd between f32 and T?
template <typename T>
inline constexpr bool kHasSimdConvert =
    std::is_same_v<T, F16> || std::is_same_v<T, BF16> || std::is_same_v<T, int8_t> ||
    std::is_same_v<T, uint8_t> || std::is_same_v<T, int16_t> || std::is_same_v<T, int32_t>;

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_CONVERT_SIMD_H_
