#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/resize/resize.h"
#include "tensor/element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize/nearest.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/move-inl.h"
HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using opsnn::HWY_NAMESPACE::MoveBytes;
namespace {

template <int kBytes>
void Pick(const uint8_t* src, uint8_t* dst, const int32_t* index, int64_t out) {
  for (int64_t o = 0; o < out; ++o) MoveBytes<kBytes>(src + int64_t{index[o]} * kBytes, dst + o * kBytes);
}

// Every pixel twice: the doubling of feature pyramids. One load for two stores.
template <int kBytes>
void TwicePixels(const uint8_t* src, uint8_t* dst, int64_t in) {
  for (int64_t i = 0; i < in; ++i) {
    MoveBytes<kBytes>(src + i * kBytes, dst + 2 * i * kBytes);
    MoveBytes<kBytes>(src + i * kBytes, dst + (2 * i + 1) * kBytes);
  }
}

template <typename T>
void TwiceElements(const uint8_t* src_bytes, uint8_t* dst_bytes, int64_t in) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const T* src = reinterpret_cast<const T*>(src_bytes);
  T* dst = reinterpret_cast<T*>(dst_bytes);
  int64_t i = 0;
  for (; i + lanes <= in; i += lanes) {
    const auto v = hn::LoadU(d, src + i);
    hn::StoreInterleaved2(v, v, d, dst + 2 * i);
  }
  for (; i < in; ++i) dst[2 * i] = dst[2 * i + 1] = src[i];
}

}  // namespace

// One output row; doubles says that output pixel o is input pixel o / 2.
void NearestRowKernel(const uint8_t* src, uint8_t* dst, const AxisTaps& columns, int64_t pixel,
                      bool doubles) {
  const int64_t in = columns.in, out = columns.out;
  if (columns.identity) {
    std::memcpy(dst, src, static_cast<size_t>(out * pixel));
    return;
  }
  const int32_t* index = columns.index.data();
  switch (pixel) {
    case 1:
      return doubles ? TwiceElements<uint8_t>(src, dst, in) : Pick<1>(src, dst, index, out);
    case 2:
      return doubles ? TwiceElements<uint16_t>(src, dst, in) : Pick<2>(src, dst, index, out);
    case 4:
      return doubles ? TwiceElements<uint32_t>(src, dst, in) : Pick<4>(src, dst, index, out);
    case 8:
      return Pick<8>(src, dst, index, out);
    case 32:
      return doubles ? TwicePixels<32>(src, dst, in) : Pick<32>(src, dst, index, out);
    case 64:
      return doubles ? TwicePixels<64>(src, dst, in) : Pick<64>(src, dst, index, out);
    default:
      break;
  }
  for (int64_t o = 0; o < out; ++o) {
    std::memcpy(dst + o * pixel, src + int64_t{index[o]} * pixel, static_cast<size_t>(pixel));
  }
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
namespace opsnn::kernels {
namespace {

constexpr int64_t kTaskBytes = 128 << 10;

OPSNN_TIER_TABLE(NearestRowKernel);

bool Doubles(const AxisTaps& a) {
  bool doubles = a.out == 2 * a.in;
  for (int64_t o = 0; doubles && o < a.out; ++o) doubles = a.index[static_cast<size_t>(o)] == o / 2;
  return doubles;
}

void FillPixels(uint8_t* dst, int64_t pixels, int64_t pixel, const uint8_t* element, int64_t elem) {
  for (int64_t at = 0; at < pixels * pixel; at += elem)
    std::memcpy(dst + at, element, static_cast<size_t>(elem));
}

}  // namespace

void ResizeNearest(const ResizeParams& p) {
  const AxisTaps &rows = *p.rows, &columns = *p.columns;
  const auto elem = static_cast<int64_t>(SizeOf(p.dtype));
  const int64_t pixel = p.lanes * elem, in_row = columns.in * pixel, out_row = columns.out * pixel;
  if (p.planes * rows.out * out_row == 0) return;
  const auto* src = static_cast<const uint8_t*>(p.src);
  auto* dst = static_cast<uint8_t*>(p.dst);
  const bool doubles = Doubles(columns);
  const auto row_kernel = OPSNN_TIER_CALL(NearestRowKernel);
  // A task is some output rows of one plane. Rows that repeat the one above copy it, but only inside a task.
  const int64_t group = std::clamp<int64_t>(kTaskBytes / out_row, 1, rows.out);
  const int64_t groups = (rows.out + group - 1) / group;
  uint8_t outside_value[8] = {};
  if (!rows.outside.empty() || !columns.outside.empty())
    WriteElement(outside_value, p.dtype, p.extrapolation);
  const auto task = [&](int64_t t, int) {
    const int64_t plane = t / groups, begin = t % groups * group, end = std::min(rows.out, begin + group);
    for (int64_t o = begin; o < end; ++o) {
      const int32_t from = rows.index[static_cast<size_t>(o)];
      uint8_t* to = dst + (plane * rows.out + o) * out_row;
      if (!rows.outside.empty() && rows.outside[static_cast<size_t>(o)]) {
        FillPixels(to, columns.out, pixel, outside_value, elem);
        continue;
      }
      const bool repeats =
          o > begin && rows.index[static_cast<size_t>(o - 1)] == from && rows.outside.empty();
      if (repeats) {
        std::memcpy(to, to - out_row, static_cast<size_t>(out_row));
      } else {
        row_kernel(src + (plane * rows.in + from) * in_row, to, columns, pixel, doubles);
      }
      for (size_t c = 0; c < columns.outside.size(); ++c) {
        if (columns.outside[c])
          FillPixels(to + static_cast<int64_t>(c) * pixel, 1, pixel, outside_value, elem);
      }
    }
  };
  const int64_t tasks = p.planes * groups;
  if (p.planes * rows.out * out_row < 2 * kTaskBytes) {
    for (int64_t t = 0; t < tasks; ++t) task(t, 0);
  } else {
    ParallelFor(tasks, task);
  }
}

}  // namespace opsnn::kernels
#endif
