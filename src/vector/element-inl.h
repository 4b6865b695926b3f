// Vectors of f32 from and to memory that holds f32, f16 or bf16.
#if defined(OPSNN_VECTOR_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_ELEMENT_INL_H_
#undef OPSNN_VECTOR_ELEMENT_INL_H_
#else
#define OPSNN_VECTOR_ELEMENT_INL_H_
#endif

#include <type_traits>

#include "isa/bf16-inl.h"
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

// Two vectors of bf16 as the even and the odd ones of them: half the instructions of two in order, and
// rounding takes eight instead of eleven for both.
// kNative: as Rounding has it.
template <bool kNative = false>
HWY_INLINE void GetAlternating(DF d, const BF16* p, VF& even, VF& odd) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = InRegister(hn::LoadU(du, reinterpret_cast<const uint32_t*>(p)));
  even = kNative ? LowerBf16(d, bits) : hn::BitCast(d, hn::ShiftLeft<16>(bits));
  odd = hn::BitCast(d, hn::And(bits, hn::Set(du, 0xFFFF0000u)));
}
// How values become bf16. All ways give the same bits; kFinite: where none is NaN; kNative: where none is
// subnormal, nor a normal one that bf16 has as a subnormal, and isa::HasBf16Moves().
enum class Rounding { kAny, kFinite, kNative };
// What PutTwo stores of the two in order.
template <bool kPast, Rounding kRounding>
HWY_INLINE void PutAlternating(DF d, VF even, VF odd, BF16* p) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Repartition<uint16_t, DF> dh;
  auto* const to = reinterpret_cast<uint16_t*>(p);
  if constexpr (kRounding == Rounding::kNative) {
    const auto both = PackAlternatingBf16(d, even, odd);
    kPast ? hn::Stream(both, dh, to) : hn::StoreU(both, dh, to);
    return;
  }
  const auto e = hn::BitCast(du, even), o = hn::BitCast(du, odd);
  auto upper = hn::OddEven(hn::BitCast(dh, o), hn::BitCast(dh, hn::ShiftRight<16>(e)));
  const auto lower = hn::OddEven(hn::BitCast(dh, hn::ShiftLeft<16>(o)), hn::BitCast(dh, e));
  // Rounds up what is more than a half, or a half above an odd number: the carry of lower + 0x7FFF + lsb,
  // which the average (a + b + 1) / 2 of lower and 0x7FFE + lsb has in its highest bit.
  const auto rest = hn::Or(hn::And(upper, hn::Set(dh, 1)), hn::Set(dh, 0x7FFE));
  const auto up = hn::ShiftRight<15>(hn::AverageRound(lower, rest));
  if constexpr (kRounding == Rounding::kFinite) {
    upper = hn::Add(upper, up);
  } else {
    const auto magnitude = hn::And(upper, hn::Set(dh, 0x7FFF));
    const auto is_nan = hn::Or(hn::Gt(magnitude, hn::Set(dh, 0x7F80)),
                               hn::And(hn::Eq(magnitude, hn::Set(dh, 0x7F80)), hn::Ne(lower, hn::Zero(dh))));
    upper = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(dh, 0x40)), hn::Add(upper, up));
  }
  kPast ? hn::Stream(upper, dh, to) : hn::StoreU(upper, dh, to);
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
