// f16 and bf16 vectors to and from f32: round to nearest even, NaN kept and quieted, subnormals kept; bit for
// bit the scalar conversions of base/half.h. (Highway 1.0.3 truncates to bf16, and its SSE4 f16 code rounds
// wrongly.)
#if defined(OPSNN_SIMD_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_HALF_INL_H_
#undef OPSNN_SIMD_HALF_INL_H_
#else
#define OPSNN_SIMD_HALF_INL_H_
#endif

#include "base/half.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 16-bit storage for as many lanes as an f32 tag has.
template <class D>
using TagU16 = hn::Rebind<uint16_t, D>;

template <class D>
HWY_INLINE hn::Vec<D> LoadBF16(D d, const BF16* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::LoadU(TagU16<D>(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}
template <class D>
HWY_INLINE void StoreBF16(hn::Vec<D> v, D, BF16* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto u = hn::BitCast(du, v);
  const auto lsb = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(lsb, hn::Set(du, 0x7FFF))));
  const auto nan = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40));
  const auto bits = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, rounded);
  hn::StoreU(hn::DemoteTo(TagU16<D>(), hn::BitCast(di, bits)), TagU16<D>(), reinterpret_cast<uint16_t*>(p));
}

// Two vectors as one of bf16, in order: what StoreBF16 stores of each. kFinite: there is no NaN among them,
// which saves a third of the work.
template <bool kFinite, class D>
HWY_INLINE hn::Vec<hn::Repartition<uint16_t, D>> PackBF16(D, hn::Vec<D> lo, hn::Vec<D> hi) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> dh;
  const auto rounded = [&](hn::Vec<D> v) HWY_ATTR {  // in the upper halves
    const auto u = hn::BitCast(du, v);
    const auto lsb = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
    const auto sum = hn::Add(hn::Add(u, hn::Set(du, 0x7FFF)), lsb);
    if constexpr (kFinite) return hn::BitCast(dh, sum);
    const auto quiet = hn::Or(u, hn::Set(du, 0x400000));
    return hn::BitCast(dh, hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, sum));
  };
  return hn::ConcatOdd(dh, rounded(hi), rounded(lo));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadF16(D d, const F16* HWY_RESTRICT p) {
  const auto bits = hn::LoadU(TagU16<D>(), reinterpret_cast<const uint16_t*>(p));
#if HWY_TARGET == HWY_SSE4  // no F16C there; the integer form costs 12 instructions instead of 1
  const hn::RebindToUnsigned<D> du;
  const auto u = hn::PromoteTo(du, bits);
  const auto sign = hn::ShiftLeft<16>(hn::And(u, hn::Set(du, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(u, hn::Set(du, 0x7FFF)));
  // Exponent rebias by a multiplication, which also normalises subnormals; Inf and NaN get their exponent
  // back.
  const auto scaled = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto special = hn::Gt(magnitude, hn::Set(du, (0x7C00u << 13) - 1));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7C00u << 13));
  const auto quiet = hn::IfThenElseZero(is_nan, hn::Set(du, 0x400000));
  const auto wide = hn::Or(hn::Or(magnitude, hn::Set(du, 0x7F800000)), quiet);
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(special, wide, scaled)));
#else
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
#endif
}
template <class D>
HWY_INLINE void StoreF16(hn::Vec<D> v, D d, F16* HWY_RESTRICT p) {
#if HWY_TARGET == HWY_SSE4
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto u = hn::BitCast(du, v);
  const auto a = hn::And(u, hn::Set(du, 0x7FFFFFFF));
  const auto sign = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 0x8000));
  const auto lsb = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(a, hn::Set(du, 0x38000000)), hn::Add(lsb, hn::Set(du, 0xFFF))));
  // Below 2^-14: adding 0.5 rounds to a multiple of 2^-24, ties to even.
  const auto shifted = hn::BitCast(du, hn::Add(hn::BitCast(d, a), hn::Set(d, 0.5f)));
  const auto tiny = hn::Sub(shifted, hn::Set(du, 0x3F000000));
  const auto nan = hn::Or(hn::And(hn::ShiftRight<13>(a), hn::Set(du, 0x3FF)), hn::Set(du, 0x7E00));
  auto h = hn::IfThenElse(hn::Lt(a, hn::Set(du, 0x38800000)), tiny, normal);
  h = hn::IfThenElse(hn::Gt(a, hn::Set(du, 0x477FEFFF)), hn::Set(du, 0x7C00), h);
  h = hn::IfThenElse(hn::Gt(a, hn::Set(du, 0x7F800000)), nan, h);
  hn::StoreU(hn::DemoteTo(TagU16<D>(), hn::BitCast(di, hn::Or(h, sign))), TagU16<D>(),
             reinterpret_cast<uint16_t*>(p));
#else
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::BitCast(TagU16<D>(), hn::DemoteTo(dh, v)), TagU16<D>(), reinterpret_cast<uint16_t*>(p));
#endif
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
