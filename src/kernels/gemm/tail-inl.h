// Loads and stores of the first n lanes that touch no other memory. Per-target guard: included once per tier.
#if defined(OPSNN_KERNELS_GEMM_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_GEMM_TAIL_INL_H_
#undef OPSNN_KERNELS_GEMM_TAIL_INL_H_
#else
#define OPSNN_KERNELS_GEMM_TAIL_INL_H_
#endif

#include <cstring>

#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Zero in the other lanes. Highway emulates masked loads of 16-byte vectors by a full load, which could
// fault.
template <class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const float* p, size_t n) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    alignas(16) float lanes[4] = {0, 0, 0, 0};
    memcpy(lanes, p, n * sizeof(float));
    return hn::Load(d, lanes);
  } else {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  }
}

template <class D>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, float* p, size_t n) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    alignas(16) float lanes[4];
    hn::Store(v, d, lanes);
    memcpy(p, lanes, n * sizeof(float));
  } else {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
