#include "kernels/pool/bytes.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/pool/inside.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/bytes.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

#ifndef OPSNN_KERNELS_POOL_BYTES_LINE_
#define OPSNN_KERNELS_POOL_BYTES_LINE_
namespace opsnn::pool {
// One line of results: rows [row0, row1) of the window lie in the image, at `x` the first of them.
struct ByteMaxLine {
  const uint8_t* x = nullptr;
  int64_t rows = 0, row_bytes = 0;  // bytes from one of them to the next
  uint8_t* y = nullptr;
};
}  // namespace opsnn::pool
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void Line(const PoolShape& s, const ByteMaxLine& t) {
  const hn::CappedTag<T, kByteC0> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<T, kByteC0>()));
  for (int64_t o = 0; o < s.ow; ++o) {
    const auto in = Inside(o * s.sw - s.pl, s.kw, s.dw, 0, s.w);
    const int64_t first = o * s.sw - s.pl + in.begin * s.dw;
    for (int64_t lane = 0; lane < kByteC0; lane += kLanes) {
      auto most = hn::Set(d, hwy::LowestValue<T>());
      const T* row = reinterpret_cast<const T*>(t.x) + first * kByteC0 + lane;
      for (int64_t r = 0; r < t.rows; ++r, row += t.row_bytes) {
        const T* at = row;
        for (int64_t k = in.begin; k < in.end; ++k, at += s.dw * kByteC0)
          most = hn::Max(most, hn::LoadU(d, at));
      }
      hn::StoreU(most, d, reinterpret_cast<T*>(t.y) + o * kByteC0 + lane);
    }
  }
}

void ByteMaxLineKernel(const PoolShape& s, bool is_signed, const ByteMaxLine& t) {
  (is_signed ? &Line<int8_t> : &Line<uint8_t>)(s, t);
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {
namespace {
OPSNN_TIER_TABLE(ByteMaxLineKernel);
}

void RunByteMaxPool(const PoolShape& s, bool is_signed, const void* x, void* y) {
  constexpr int64_t kLinesBytes = 32 * 1024;  // of results, which are worth another core
  const int64_t line = s.ow * kByteC0, lines = s.n * CeilDiv(s.c, kByteC0) * s.oh;
  if (lines == 0 || line == 0) return;
  const int64_t step = std::max<int64_t>(1, kLinesBytes / line), chunks = CeilDiv(lines, step);
  ParallelFor(chunks, [&](int64_t chunk, int) {
    for (int64_t i = chunk * step; i < std::min(lines, (chunk + 1) * step); ++i) {
      const int64_t o = i % s.oh;
      const auto in = Inside(o * s.sh - s.pt, s.kh, s.dh, 0, s.h);
      ByteMaxLine t;
      const int64_t row = i / s.oh * s.h + o * s.sh - s.pt + in.begin * s.dh;
      t.x = static_cast<const uint8_t*>(x) + row * s.w * kByteC0;
      t.rows = in.end - in.begin, t.row_bytes = s.dh * s.w * kByteC0;
      t.y = static_cast<uint8_t*>(y) + i * line;
      OPSNN_TIER_CALL(ByteMaxLineKernel)(s, is_signed, t);
    }
  });
}

}  // namespace opsnn::pool
#endif
