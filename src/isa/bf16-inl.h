// What Highway does not offer for bf16. Per-target guard: included once per tier.
#if defined(OPSNN_ISA_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_ISA_BF16_INL_H_
#undef OPSNN_ISA_BF16_INL_H_
#else
#define OPSNN_ISA_BF16_INL_H_
#endif

#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector that is used twice and loaded once: compilers fold the load into both uses, and a processor that
// loads one whole vector a cycle then waits for loads.
template <class V>
HWY_INLINE V InRegister(V v) {
#if HWY_TARGET == HWY_AVX3
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// Rounding by the processor (AVX512-BF16): to nearest even, NaN quieted, as simd/half-inl.h has it, but for
// subnormals, which count as zero.
//
// May this tier have the instructions? Whether this processor has them, isa::HasBf16Moves() knows.
constexpr bool kMayPackBf16 = HWY_TARGET == HWY_AVX3;

// The lower halves as f32. Some processors shift whole vectors where they add, and only there (Zen 4): this
// is done where they multiply. Only where isa::HasBf16Moves().
template <class D, class VU>
HWY_INLINE hn::Vec<D> LowerBf16(D d, VU bits) {
  const hn::RebindToUnsigned<D> du;
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(d) == 16) {
    __m512i up;
    asm("vpshldd $16, %2, %1, %0" : "=v"(up) : "v"(bits.raw), "v"(hn::Zero(du).raw));
    return hn::Vec<D>{_mm512_castsi512_ps(up)};
  }
#endif
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

// Lane l of `even` to lane 2l, lane l of `odd` to lane 2l + 1. Only where isa::HasBf16Moves().
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Repartition<uint16_t, D>> PackAlternatingBf16(D d, [[maybe_unused]] V even,
                                                                     [[maybe_unused]] V odd) {
  const hn::Repartition<uint16_t, D> dh;
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(d) == 16) {
    alignas(64) static constexpr uint16_t kInTurn[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                         21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                         11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i halves;  // by the assembler: the tier's functions are not compiled for the extension
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(odd.raw), "v"(even.raw));
    return hn::Vec<hn::Repartition<uint16_t, D>>{_mm512_permutexvar_epi16(hn::Load(dh, kInTurn).raw, halves)};
  }
#endif
  return hn::Zero(dh);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
