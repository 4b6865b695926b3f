#include "kernels/transpose/runs.h"

#include <cstring>

namespace opsnn::kernels {
namespace {

// A copy of Head <= bytes <= 2 * Head as two overlapping moves of constant size: no branches, no call.
template <int kHead>
void Overlapping(const char* src, char* dst, const Runs& r) {
  const int64_t tail = r.bytes - kHead;
  for (int64_t i = 0; i < r.count; ++i) {
    char a[kHead], b[kHead];
    std::memcpy(a, src, kHead);
    std::memcpy(b, src + tail, kHead);
    std::memcpy(dst, a, kHead);
    std::memcpy(dst + tail, b, kHead);
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

// Elements. The common strides get loops of their own, which the compiler vectorises.
template <typename T>
void Elements(const char* src, char* dst, const Runs& r) {
  constexpr int64_t kSize = sizeof(T);
  if (r.src_stride == 0) {
    T v;
    std::memcpy(&v, src, kSize);
    if (r.dst_stride == kSize) {
      for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, &v, kSize);
    } else {
      for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * r.dst_stride, &v, kSize);
    }
    return;
  }
  if (r.dst_stride == kSize && r.src_stride == 2 * kSize) {  // every other element: pooling strides, slices
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, src + 2 * i * kSize, kSize);
    return;
  }
  if (r.dst_stride == kSize && r.src_stride == -kSize) {  // reversal
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, src - i * kSize, kSize);
    return;
  }
  for (int64_t i = 0; i < r.count; ++i) {
    std::memcpy(dst + i * r.dst_stride, src + i * r.src_stride, kSize);
  }
}

}  // namespace

void CopyRuns(const Runs& r) {
  const char* src = static_cast<const char*>(r.src);
  char* dst = static_cast<char*>(r.dst);
  switch (r.bytes) {
    case 1:
      return Elements<uint8_t>(src, dst, r);
    case 2:
      return Elements<uint16_t>(src, dst, r);
    case 4:
      return Elements<uint32_t>(src, dst, r);
    case 8:
      return Elements<uint64_t>(src, dst, r);
    default:
      break;
  }
  if (r.bytes <= 4) return Overlapping<2>(src, dst, r);
  if (r.bytes < 8) return Overlapping<4>(src, dst, r);
  if (r.bytes <= 16) return Overlapping<8>(src, dst, r);
  if (r.bytes <= 32) return Overlapping<16>(src, dst, r);
  if (r.bytes <= 64) return Overlapping<32>(src, dst, r);
  if (r.bytes <= 128) return Overlapping<64>(src, dst, r);
  for (int64_t i = 0; i < r.count; ++i) {
    std::memcpy(dst, src, static_cast<size_t>(r.bytes));
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

}  // namespace opsnn::kernels
