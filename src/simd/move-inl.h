// Copies of a constant number of bytes by the widest moves there are: no call, no loop.
#if defined(OPSNN_SIMD_MOVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_MOVE_INL_H_
#undef OPSNN_SIMD_MOVE_INL_H_
#else
#define OPSNN_SIMD_MOVE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

// kBytes is a power of two; any alignment, no overlap.
template <int kBytes>
HWY_INLINE void MoveBytes(const uint8_t* src, uint8_t* dst) {
  if constexpr (kBytes < 16) {
    std::memcpy(dst, src, kBytes);
  } else if constexpr (kBytes <= HWY_MAX_BYTES) {
    const hwy::HWY_NAMESPACE::FixedTag<uint8_t, kBytes> d;
    hwy::HWY_NAMESPACE::StoreU(hwy::HWY_NAMESPACE::LoadU(d, src), d, dst);
  } else {
    MoveBytes<kBytes / 2>(src, dst);
    MoveBytes<kBytes / 2>(src + kBytes / 2, dst + kBytes / 2);
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
