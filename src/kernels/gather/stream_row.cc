#include "kernels/gather/stream_row.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather/stream_row.cc"
#include "isa/cache.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void StreamRowTier(const char* src, char* dst, int64_t bytes, const char* ahead) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kLine = 64, kVector = HWY_MAX_BYTES;
  // Whole lines are streamed; what comes before the first and behind the last is stored.
  const int64_t head = std::min<int64_t>(
      bytes, (kLine - static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) % kLine)) % kLine);
  std::memcpy(dst, src, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLine <= bytes; i += kLine) {
    hwy::Prefetch(ahead + i);
    for (int64_t k = 0; k < kLine; k += kVector) {
      const auto v = hn::LoadU(d, reinterpret_cast<const uint8_t*>(src + i + k));
      hn::Stream(v, d, reinterpret_cast<uint8_t*>(dst + i + k));
    }
  }
  std::memcpy(dst + i, src + i, static_cast<size_t>(bytes - i));
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
namespace opsnn::kernels {
OPSNN_TIER_TABLE(StreamRowTier);
void StreamRow(const char* src, char* dst, int64_t bytes, const char* ahead) {
  OPSNN_TIER_CALL(StreamRowTier)(src, dst, bytes, ahead);
}
}  // namespace opsnn::kernels
#endif
