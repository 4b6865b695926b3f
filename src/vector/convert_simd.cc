#include "vector/convert_simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/convert_simd.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using DC = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DC>;
using VC = hn::Vec<DC>;

// NaN -> 0, truncated, saturated: Highway's ConvertTo saturates at both ends but leaves NaN to the hardware.
HWY_INLINE hn::Vec<DI> ToInt(VC v) {
  const DI di;
  const VC number = hn::IfThenZeroElse(hn::IsNaN(v), v);
  return hn::ConvertTo(di, number);
}

template <typename T>
HWY_INLINE VC LoadOne(const T* p) {
  const DC d;
  if constexpr (std::is_same_v<T, F16>) {
    return LoadF16(d, p);
  } else if constexpr (std::is_same_v<T, BF16>) {
    return LoadBF16(d, p);
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return hn::ConvertTo(d, hn::LoadU(DI(), p));
  } else {
    return hn::ConvertTo(d, hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<T, DC>(), p)));
  }
}
template <typename T>
HWY_INLINE void StoreOne(VC v, T* p) {
  const DC d;
  if constexpr (std::is_same_v<T, F16>) {
    StoreF16(v, d, p);
  } else if constexpr (std::is_same_v<T, BF16>) {
    StoreBF16(v, d, p);
  } else if constexpr (std::is_same_v<T, int32_t>) {
    hn::StoreU(ToInt(v), DI(), p);
  } else {
    hn::StoreU(hn::DemoteTo(hn::Rebind<T, DC>(), ToInt(v)), hn::Rebind<T, DC>(), p);
  }
}

// Whole vectors; the tail goes through one vector of scratch.
template <class From, class To, class Step>
HWY_INLINE void Convert(const From* src, To* dst, int64_t n, const Step& step) {
  constexpr int64_t kLanes = hn::MaxLanes(DC());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(src + i, dst + i);
  if (i == n) return;
  From in[kLanes] = {};
  To out[kLanes];
  for (int64_t k = i; k < n; ++k) in[k - i] = src[k];
  step(in, out);
  for (int64_t k = i; k < n; ++k) dst[k] = out[k - i];
}

}  // namespace

template <typename T>
void ToF32(const T* src, float* dst, int64_t n) {
  Convert(src, dst, n, [](const T* s, float* t) HWY_ATTR { hn::StoreU(LoadOne(s), DC(), t); });
}
template <typename T>
void FromF32(const float* src, T* dst, int64_t n) {
  Convert(src, dst, n, [](const float* s, T* t) HWY_ATTR { StoreOne(hn::LoadU(DC(), s), t); });
}

#define OPSNN_CONVERT_PAIR(NAME, T)                                                \
  void NAME##ToF32(const T* src, float* dst, int64_t n) { ToF32<T>(src, dst, n); } \
  void NAME##FromF32(const float* src, T* dst, int64_t n) { FromF32<T>(src, dst, n); }
OPSNN_CONVERT_PAIR(F16, F16)
OPSNN_CONVERT_PAIR(BF16, BF16)
OPSNN_CONVERT_PAIR(S8, int8_t)
OPSNN_CONVERT_PAIR(U8, uint8_t)
OPSNN_CONVERT_PAIR(S16, int16_t)
OPSNN_CONVERT_PAIR(S32, int32_t)
#undef OPSNN_CONVERT_PAIR

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
#define OPSNN_CONVERT_PAIR(NAME, T)                                                                    \
  OPSNN_TIER_TABLE(NAME##ToF32);                                                                       \
  OPSNN_TIER_TABLE(NAME##FromF32);                                                                     \
  void ConvertSimd(const T* src, float* dst, int64_t n) { OPSNN_TIER_CALL(NAME##ToF32)(src, dst, n); } \
  void ConvertSimd(const float* src, T* dst, int64_t n) { OPSNN_TIER_CALL(NAME##FromF32)(src, dst, n); }
OPSNN_CONVERT_PAIR(F16, F16)
OPSNN_CONVERT_PAIR(BF16, BF16)
OPSNN_CONVERT_PAIR(S8, int8_t)
OPSNN_CONVERT_PAIR(U8, uint8_t)
OPSNN_CONVERT_PAIR(S16, int16_t)
OPSNN_CONVERT_PAIR(S32, int32_t)
#undef OPSNN_CONVERT_PAIR
}  // namespace opsnn::vector
#endif
