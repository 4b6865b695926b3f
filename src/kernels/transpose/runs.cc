#include "kernels/transpose/runs.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose/runs.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/move-inl.h"
HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
using opsnn::HWY_NAMESPACE::MoveBytes;
namespace {

// Runs of kHead to 2 * kHead bytes as two moves that may overlap: no branch on the length, no call.
template <int kHead>
void TwoMoves(const uint8_t* src, uint8_t* dst, const Runs& r) {
  const int64_t tail = r.bytes - kHead;
  for (int64_t i = 0; i < r.count; ++i) {
    MoveBytes<kHead>(src, dst);
    MoveBytes<kHead>(src + tail, dst + tail);
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

template <int kBytes>
void OneMove(const uint8_t* src, uint8_t* dst, const Runs& r) {
  for (int64_t i = 0; i < r.count; ++i) {
    MoveBytes<kBytes>(src, dst);
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

// More than 64 bytes, but not enough to pay for a call of memcpy.
void Lines(const uint8_t* src, uint8_t* dst, const Runs& r) {
  const int64_t tail = r.bytes - 64;
  for (int64_t i = 0; i < r.count; ++i) {
    for (int64_t at = 0; at < tail; at += 64) MoveBytes<64>(src + at, dst + at);
    MoveBytes<64>(src + tail, dst + tail);
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

// Elements of 1, 2, 4 or 8 bytes. The common strides get loops of their own, which the compiler vectorises.
template <typename T>
void Elements(const uint8_t* src, uint8_t* dst, const Runs& r) {
  constexpr int64_t kSize = sizeof(T);
  if (r.src_stride == 0) {
    T v;
    std::memcpy(&v, src, kSize);
    if (r.dst_stride == kSize) {
      for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, &v, kSize);
    } else {
      for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * r.dst_stride, &v, kSize);
    }
  } else if (r.dst_stride == kSize && r.src_stride == 2 * kSize) {  // every other element: strided slices
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, src + 2 * i * kSize, kSize);
  } else if (r.dst_stride == kSize && r.src_stride == -kSize) {  // reversal
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * kSize, src - i * kSize, kSize);
  } else {
    for (int64_t i = 0; i < r.count; ++i) std::memcpy(dst + i * r.dst_stride, src + i * r.src_stride, kSize);
  }
}

void StreamRuns(const uint8_t* src, uint8_t* dst, const Runs& r) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<uint8_t, 64> d;
  for (int64_t i = 0; i < r.count; ++i, src += r.src_stride, dst += r.dst_stride) {
    for (int64_t at = 0; at < r.bytes; at += static_cast<int64_t>(hn::Lanes(d)))
      hn::Stream(hn::LoadU(d, src + at), d, dst + at);
  }
}

}  // namespace

void CopyRunsKernel(const Runs& r) {
  const uint8_t* src = static_cast<const uint8_t*>(r.src);
  uint8_t* dst = static_cast<uint8_t*>(r.dst);
  if (r.stream) return StreamRuns(src, dst, r);
  switch (r.bytes) {
    case 1:
      return Elements<uint8_t>(src, dst, r);
    case 2:
      return Elements<uint16_t>(src, dst, r);
    case 4:
      return Elements<uint32_t>(src, dst, r);
    case 8:
      return Elements<uint64_t>(src, dst, r);
    case 16:
      return OneMove<16>(src, dst, r);
    case 32:
      return OneMove<32>(src, dst, r);
    case 64:
      return OneMove<64>(src, dst, r);
    default:
      break;
  }
  if (r.bytes < 4) return TwoMoves<2>(src, dst, r);
  if (r.bytes < 8) return TwoMoves<4>(src, dst, r);
  if (r.bytes < 16) return TwoMoves<8>(src, dst, r);
  if (r.bytes < 32) return TwoMoves<16>(src, dst, r);
  if (r.bytes < 64) return TwoMoves<32>(src, dst, r);
  constexpr int64_t kCallBytes = 1024;  // from here on the call and its set-up are a few per cent of the copy
  if (r.bytes < kCallBytes) return Lines(src, dst, r);
  for (int64_t i = 0; i < r.count; ++i) {
    std::memcpy(dst, src, static_cast<size_t>(r.bytes));
    src += r.src_stride;
    dst += r.dst_stride;
  }
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
namespace opsnn::kernels {
OPSNN_TIER_TABLE(CopyRunsKernel);
void CopyRuns(const Runs& r) { OPSNN_TIER_CALL(CopyRunsKernel)(r); }
}  // namespace opsnn::kernels
#endif
