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
// Two vectors; kPast: past the caches, with p aligned for vectors of the storage type. kFinite: no value is
// NaN, which spares bf16 a third of its work.
template <bool kPast, bool kFinite, typename T>
HWY_INLINE void PutTwo(DF d, VF v0, VF v1, T* p) {
  if constexpr (std::is_same_v<T, float>) {
    kPast ? hn::Stream(v0, d, p) : hn::StoreU(v0, d, p);
    kPast ? hn::Stream(v1, d, p + kLanes) : hn::StoreU(v1, d, p + kLanes);
    return;
  }
  const hn::Repartition<uint16_t, DF> dh;
  auto* const to = reinterpret_cast<uint16_t*>(p);
  if constexpr (std::is_same_v<T, BF16>) {
    const auto both = PackBF16<kFinite>(d, v0, v1);
    kPast ? hn::Stream(both, dh, to) : hn::StoreU(both, dh, to);
    return;
  }
  HWY_ALIGN T bits[2 * kLanes];
  Put(d, v0, kPast ? bits : p);
  Put(d, v1, kPast ? bits + kLanes : p + kLanes);
  if constexpr (kPast) hn::Stream(hn::Load(dh, reinterpret_cast<const uint16_t*>(bits)), dh, to);
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
