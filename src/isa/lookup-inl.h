// Lookups in tables larger than a vector, which Highway does not offer. Per-target guard: included once per
// tier.
#if defined(OPSNN_ISA_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_ISA_LOOKUP_INL_H_
#undef OPSNN_ISA_LOOKUP_INL_H_
#else
#define OPSNN_ISA_LOOKUP_INL_H_
#endif

#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Does a vector of D look up 32 floats in one instruction?
template <class D>
constexpr bool HasLookup32(D d) {
  return HWY_TARGET == HWY_AVX3 && hn::MaxLanes(d) == 16;
}

// table[low five bits of index] in every lane; table is aligned to 64 bytes. Only where HasLookup32.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Lookup32([[maybe_unused]] D d, [[maybe_unused]] const float (&table)[32], V index) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (HasLookup32(D())) {
    return V{_mm512_permutex2var_ps(hn::Load(d, table).raw, _mm512_castps_si512(index.raw),
                                    hn::Load(d, table + 16).raw)};
  }
#endif
  return index;
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
