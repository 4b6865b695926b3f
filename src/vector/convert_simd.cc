#include "vector/convert_simd.h"

#include <algorithm>
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
// Pairs of bf16 vectors are packed together.
template <typename T>
void FromF32(const float* src, T* dst, int64_t n) {
  if constexpr (std::is_same_v<T, BF16>) {
    const DC d;
    const hn::Repartition<uint16_t, DC> dh;
    constexpr int64_t kLanes = hn::MaxLanes(DC());
    for (; n >= 2 * kLanes; n -= 2 * kLanes, src += 2 * kLanes, dst += 2 * kLanes) {
      const auto bits = PackBF16<false>(d, hn::LoadU(d, src), hn::LoadU(d, src + kLanes));
      hn::StoreU(bits, dh, reinterpret_cast<uint16_t*>(dst));
    }
  }
  Convert(src, dst, n, [](const float* s, T* t) HWY_ATTR { StoreOne(hn::LoadU(DC(), s), t); });
}

// Whole lines are streamed; what comes before the first and behind the last is stored.
template <typename T>
HWY_INLINE void StreamTo(const float* src, T* dst, int64_t n) {
  // Of whole vectors: a stream of less writes a whole one in SSE.
  const hn::Repartition<uint16_t, DC> dw;
  constexpr int64_t kLine = 64 / sizeof(T), kLanes = hn::MaxLanes(DC());
  if (reinterpret_cast<uintptr_t>(dst) % sizeof(T) != 0) return FromF32<T>(src, dst, n);
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) % 64 / sizeof(T));
  const int64_t head = std::min(n, (kLine - misplaced) % kLine);
  FromF32<T>(src, dst, head);
  int64_t i = head;
  HWY_ALIGN uint16_t line[kLine];
  if constexpr (std::is_same_v<T, BF16>) {
    for (; i + kLine <= n; i += kLine) {
      for (int64_t k = 0; k < kLine; k += 2 * kLanes) {
        const auto a = hn::LoadU(DC(), src + i + k), b = hn::LoadU(DC(), src + i + k + kLanes);
        hn::Stream(PackBF16<false>(DC(), a, b), dw, reinterpret_cast<uint16_t*>(dst + i + k));
      }
    }
  }
  for (; i + kLine <= n; i += kLine) {
    for (int64_t k = 0; k < kLine; k += kLanes)
      StoreOne(hn::LoadU(DC(), src + i + k), reinterpret_cast<T*>(line + k));
    for (int64_t k = 0; k < kLine; k += 2 * kLanes)
      hn::Stream(hn::Load(dw, line + k), dw, reinterpret_cast<uint16_t*>(dst + i + k));
  }
  FromF32<T>(src + i, dst + i, n - i);
}
void StreamF16(const float* src, F16* dst, int64_t n) { StreamTo(src, dst, n); }
void StreamBF16(const float* src, BF16* dst, int64_t n) { StreamTo(src, dst, n); }

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
OPSNN_TIER_TABLE(StreamF16);
OPSNN_TIER_TABLE(StreamBF16);
void StreamHalf(const float* src, DType type, void* dst, int64_t n) {
  if (type == DType::kF16) return OPSNN_TIER_CALL(StreamF16)(src, static_cast<F16*>(dst), n);
  OPSNN_TIER_CALL(StreamBF16)(src, static_cast<BF16*>(dst), n);
}
}  // namespace opsnn::vector
#endif
