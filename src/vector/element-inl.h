// Vectors of f32 from and to memory that holds f32, f16 or bf16.
#if defined(OPSNN_VECTOR_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_ELEMENT_INL_H_
#undef OPSNN_VECTOR_ELEMENT_INL_H_
#else
#define OPSNN_VECTOR_ELEMENT_INL_H_
#endif

#include <type_traits>

#include "simd/half-inl.h"
#include "vector/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

// A vector of values stored as T.
template <typename T>
HWY_INLINE VF Get(DF d, const T* p) {
  if constexpr (std::is_same_v<T, float>) return hn::LoadU(d, p);
  if constexpr (std::is_same_v<T, BF16>) return LoadBF16(d, p);
  if constexpr (std::is_same_v<T, F16>) return LoadF16(d, p);
}
template <typename T>
HWY_INLINE void Put(DF d, VF v, T* p) {
  if constexpr (std::is_same_v<T, float>) hn::StoreU(v, d, p);
  if constexpr (std::is_same_v<T, BF16>) StoreBF16(v, d, p);
  if constexpr (std::is_same_v<T, F16>) StoreF16(v, d, p);
}
template <typename T>
HWY_INLINE VF GetTail(DF d, const T* p, size_t n) {
  if constexpr (std::is_same_v<T, float>) return LoadTail(d, p, n);
  HWY_ALIGN T buffer[kLanes] = {};
  for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
  return Get(d, buffer);
}
template <typename T>
HWY_INLINE void PutTail(DF d, VF v, T* p, size_t n) {
  if constexpr (std::is_same_v<T, float>) return StoreTail(d, v, p, n);
  HWY_ALIGN T buffer[kLanes];
  Put(d, v, buffer);
  for (size_t i = 0; i < n; ++i) p[i] = buffer[i];
}
// Four vectors; kPast: past the caches, with p aligned for vectors. kFinite: no value is NaN, which spares
// bf16 a third of its work.
template <bool kPast, bool kFinite, typename T>
HWY_INLINE void PutFour(DF d, const VF (&v)[4], T* p) {
  if constexpr (std::is_same_v<T, float>) {
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k)
      kPast ? hn::Stream(v[k], d, p + k * kLanes) : hn::StoreU(v[k], d, p + k * kLanes);
    return;
  }
  const hn::Repartition<uint16_t, DF> dh;
  auto* const to = reinterpret_cast<uint16_t*>(p);
  if constexpr (std::is_same_v<T, BF16>) {
    const auto lo = PackBF16<kFinite>(d, v[0], v[1]), hi = PackBF16<kFinite>(d, v[2], v[3]);
    kPast ? hn::Stream(lo, dh, to) : hn::StoreU(lo, dh, to);
    kPast ? hn::Stream(hi, dh, to + 2 * kLanes) : hn::StoreU(hi, dh, to + 2 * kLanes);
    return;
  }
  HWY_ALIGN T bits[4 * kLanes];
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) Put(d, v[k], kPast ? bits + k * kLanes : p + k * kLanes);
  if constexpr (kPast) {
    const auto* from = reinterpret_cast<const uint16_t*>(bits);
    hn::Stream(hn::Load(dh, from), dh, to);
    hn::Stream(hn::Load(dh, from + 2 * kLanes), dh, to + 2 * kLanes);
  }
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
