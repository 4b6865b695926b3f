// Scale and offset of quantised products as 64 bits: the scale as f32 in the low half, of which a device
// reads 19 bits; an offset of 9 bits from bit 37 on; bit 46 set.
#ifndef OPSNN_BASE_QUANT_PARAM_BITS_H_
#define OPSNN_BASE_QUANT_PARAM_BITS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace opsnn {

inline constexpr int kOffsetShift = 37, kOffsetBits = 9, kScaleCut = 13;

inline int64_t PackQuantParam(float scale, const float* offset, bool round_scale) {
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  // To nearest, ties to even, among values whose last 13 bits are 0.
  if (round_scale) bits += (uint32_t{1} << (kScaleCut - 1)) - 1 + ((bits >> kScaleCut) & 1);
  uint64_t packed = (bits & ~((uint32_t{1} << kScaleCut) - 1)) | uint64_t{1} << 46;
  if (offset) {
    const float limited = std::min(255.0f, std::max(-256.0f, std::nearbyint(*offset)));
    const auto whole = limited == limited ? static_cast<int64_t>(limited) : 0;
    packed |= (static_cast<uint64_t>(whole) & ((1 << kOffsetBits) - 1)) << kOffsetShift;
  }
  return static_cast<int64_t>(packed);
}

inline float ScaleOfQuantParam(int64_t packed) {
  const auto bits = static_cast<uint32_t>(packed);
  float scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

inline float OffsetOfQuantParam(int64_t packed) {
  const auto field = static_cast<int>((packed >> kOffsetShift) & ((1 << kOffsetBits) - 1));
  return static_cast<float>(field >= 1 << (kOffsetBits - 1) ? field - (1 << kOffsetBits) : field);
}

}  // namespace opsnn

#endif  // OPSNN_BASE_QUANT_PARAM_BITS_H_
