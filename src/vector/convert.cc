#include "vector/convert.h"

#include "vector/convert_scalar.h"
#include "vector/convert_simd.h"

namespace opsnn::vector {
namespace {

template <typename From, typename To>
void ConvertRun(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t n) {
  const From* s = static_cast<const From*>(src);
  To* t = static_cast<To*>(dst);
  if (src_stride == 1 && dst_stride == 1) {
    if constexpr ((std::is_same_v<From, float> && kHasSimdConvert<To>) ||
                  (std::is_same_v<To, float> && kHasSimdConvert<From>)) {
      ConvertSimd(s, t, n);
    } else {
      for (int64_t i = 0; i < n; ++i) t[i] = CastElement<To>(s[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) t[i * dst_stride] = CastElement<To>(s[i * src_stride]);
}

using RunFn = void (*)(const void*, int64_t, void*, int64_t, int64_t);

// Rows in the order of DType.
template <typename C>
constexpr RunFn kLoad[kNumDTypes] = {ConvertRun<float, C>,   ConvertRun<double, C>,  ConvertRun<F16, C>,
                                     ConvertRun<BF16, C>,    ConvertRun<int8_t, C>,  ConvertRun<uint8_t, C>,
                                     ConvertRun<int16_t, C>, ConvertRun<int32_t, C>, ConvertRun<int64_t, C>,
                                     ConvertRun<BoolByte, C>};
template <typename C>
constexpr RunFn kStore[kNumDTypes] = {ConvertRun<C, float>,   ConvertRun<C, double>,  ConvertRun<C, F16>,
                                      ConvertRun<C, BF16>,    ConvertRun<C, int8_t>,  ConvertRun<C, uint8_t>,
                                      ConvertRun<C, int16_t>, ConvertRun<C, int32_t>, ConvertRun<C, int64_t>,
                                      ConvertRun<C, BoolByte>};
// Indexed by ComputeType.
constexpr const RunFn* kLoads[] = {kLoad<float>, kLoad<double>, kLoad<int32_t>, kLoad<int64_t>};
constexpr const RunFn* kStores[] = {kStore<float>, kStore<double>, kStore<int32_t>, kStore<int64_t>};

}  // namespace

void LoadConvert(DType from, const void* src, int64_t stride, ComputeType to, void* dst, int64_t n) {
  kLoads[static_cast<int>(to)][static_cast<int>(from)](src, stride, dst, 1, n);
}

void StoreConvert(ComputeType from, const void* src, DType to, void* dst, int64_t stride, int64_t n) {
  kStores[static_cast<int>(from)][static_cast<int>(to)](src, 1, dst, stride, n);
}

}  // namespace opsnn::vector
