#include "kernels/pool/plane.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/work_range.h"
#include "kernels/pool/inside.h"
#include "kernels/pool/window_plane.h"
#include "kernels/pool/window_row.h"
#include "vector/streaming.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/plane.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

// NaN sticks: Max gives its second operand when either is NaN, so only a NaN in x needs the select.
HWY_INLINE V Larger(V acc, V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, acc)); }

// to[i] = max over the rows; `rows` of them, `distance` floats apart. Whole vectors, as both ends have room.
void ColumnMaxima(const float* from, int64_t rows, int64_t distance, int64_t n, float* to) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V acc = hn::LoadU(d, from + i);
    for (int64_t r = 1; r < rows; ++r) acc = Larger(acc, hn::LoadU(d, from + r * distance + i));
    hn::StoreU(acc, d, to + i);
  }
  for (; i < n; ++i) {
    float acc = from[i];
    for (int64_t r = 1; r < rows; ++r) {
      const float x = from[r * distance + i];
      acc = x > acc || x != x ? x : acc;  // a NaN in acc fails the comparison and stays
    }
    to[i] = acc;
  }
}

template <int kStride>
HWY_INLINE V Every(const float* p) {
  const D d;
  if constexpr (kStride == 1) return hn::LoadU(d, p);
  return hn::ConcatEven(d, hn::LoadU(d, p + kLanes), hn::LoadU(d, p));
}

// y[o] = max over kx of row[o * stride + kx * dilation]; the row may be read two vectors beyond its end.
template <int kStride>
HWY_INLINE void RowMaximaOf(const float* row, int64_t kernel, int64_t dilation, int64_t n, float* y) {
  const D d;
  for (int64_t o = 0; o < n; o += kLanes) {
    const float* at = row + o * kStride;
    V acc = Every<kStride>(at);
    for (int64_t k = 1; k < kernel; ++k) acc = Larger(acc, Every<kStride>(at + k * dilation));
    if (o + kLanes <= n) {
      hn::StoreU(acc, d, y + o);
    } else {
      HWY_ALIGN float lanes[kLanes];
      hn::Store(acc, d, lanes);
      std::copy(lanes, lanes + (n - o), y + o);
    }
  }
}
void RowMaxima(const float* row, int64_t stride, int64_t kernel, int64_t dilation, int64_t n, float* y) {
  if (stride == 1) return RowMaximaOf<1>(row, kernel, dilation, n, y);
  if (stride == 2) return RowMaximaOf<2>(row, kernel, dilation, n, y);
  for (int64_t o = 0; o < n; ++o) {
    float acc = row[o * stride];
    for (int64_t k = 1; k < kernel; ++k) {
      const float x = row[o * stride + k * dilation];
      acc = x > acc || x != x ? x : acc;
    }
    y[o] = acc;
  }
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {

OPSNN_TIER_TABLE(ColumnMaxima);
OPSNN_TIER_TABLE(RowMaxima);

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int64_t kSlack = 64;  // floats that a vector may read behind the row

int64_t PaddedWidth(const PoolShape& s) { return (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1; }

// A row of -Inf; null when there is no memory.
float* PaddedRow(int64_t floats) {
  thread_local AlignedBuffer buffer;
  const size_t bytes = static_cast<size_t>(floats + kSlack) * sizeof(float);
  if (buffer.bytes() < bytes) buffer = AlignedBuffer(bytes);
  float* const row = buffer.as<float>();
  if (row) std::fill(row, row + floats + kSlack, kLowest);
  return row;
}

// rows(x of the plane, begin, end, to): rows [begin, end) of its result, densely to `to`; false when there is
// no memory for it.
using RowsFn = FunctionRef<bool(const float* x, int64_t begin, int64_t end, float* to)>;

// Results that are written past the caches: some rows at a time go to a buffer in L1 and leave it by whole
// lines. Otherwise each line of the result is read before it is written, a fifth of all traffic of a window
// of stride 2.
constexpr int64_t kStaged = 256, kWidest = 2048, kLine = 64 / sizeof(float);  // floats

bool StreamRows(const PoolShape& s, RowsFn rows, const float* x, int64_t begin, int64_t end, float* to) {
  alignas(64) float staged[kWidest + kLine];
  const int64_t skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float)) % kLine;
  const int64_t batch = std::max<int64_t>(kStaged / s.ow, 1);
  float* line = to - skew;  // where staged[0] belongs; the first line has others' elements in front
  int64_t filled = skew, mine = skew;
  const auto store = [&](int64_t from, int64_t until) {
    std::copy(staged + from, staged + until, line + from);
  };
  for (int64_t oy = begin; oy < end; oy += batch) {
    const int64_t count = std::min(batch, end - oy);
    if (!rows(x, oy, oy + count, staged + filled)) return false;
    filled += count * s.ow;
    const int64_t full = filled / kLine * kLine;
    if (full == 0) continue;
    if (mine > 0) store(mine, kLine);
    const int64_t from = mine > 0 ? kLine : 0;
    StreamLines(staged + from, full - from, line + from);
    std::copy(staged + full, staged + filled, staged);
    line += full, filled -= full, mine = 0;
  }
  store(mine, filled);
  vector::FlushStreams();
  return true;
}

Status RunTasks(const PoolShape& s, const float* x, float* y, RowsFn rows) {
  constexpr int64_t kTaskPixels = 32 << 10;
  const int64_t per_task = std::clamp<int64_t>(kTaskPixels / std::max<int64_t>(s.w, 1), 1, s.oh);
  const int64_t chunks = CeilDiv(s.oh, per_task);
  const int64_t bytes = s.n * s.c * s.oh * s.ow * static_cast<int64_t>(sizeof(float));
  const bool stream =
      s.ow <= kWidest && std::max(bytes, vector::PartOfResult::Bytes()) >= vector::StreamingThreshold();
  std::atomic<bool> failed{false};
  ParallelOwned(s.n * s.c * chunks, [&](int64_t task) {
    const int64_t plane = task / chunks, begin = task % chunks * per_task,
                  end = std::min(begin + per_task, s.oh);
    const float* const from = x + plane * s.h * s.w;
    float* const to = y + (plane * s.oh + begin) * s.ow;
    if (!(stream ? StreamRows(s, rows, from, begin, end, to) : rows(from, begin, end, to))) failed = true;
  });
  if (!failed) return OkStatus();
  return Errorf(Code::kRuntime, "pooling: no memory for a row.");
}

Status RunAverages(const PoolShape& s, const float* x, float* y) {
  std::vector<int64_t> columns;
  for (int64_t ox = 0; ox < s.ow; ++ox)
    columns.push_back(Counted(s.include_pad, ox * s.sw - s.pl, s.kw, s.dw, s.w, s.pl, s.pr));
  return RunTasks(s, x, y, [&](const float* plane, int64_t begin, int64_t end, float* to) {
    float* const scale = PaddedRow(s.ow);
    if (!scale) return false;
    int64_t scaled = -1;  // rows that the scales are for: all but the edges have the same
    for (int64_t oy = begin; oy < end; ++oy, to += s.ow) {
      const int64_t iy = oy * s.sh - s.pt;
      const Range ky = Inside(iy, s.kh, s.dh, 0, s.h);
      if (ky.begin >= ky.end) {
        std::fill(to, to + s.ow, 0.0f);
        continue;
      }
      const int64_t rows = Counted(s.include_pad, iy, s.kh, s.dh, s.h, s.pt, s.pb);
      for (int64_t ox = 0; rows != scaled && ox < s.ow; ++ox) {
        const int64_t count = s.sum ? 1 : rows * columns[static_cast<size_t>(ox)];
        scale[ox] = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
      }
      scaled = rows;
      const float* const first = plane + (iy + ky.begin * s.dh) * s.w;
      RunWindowRow(
          {s.kind, first, ky.end - ky.begin, s.dh * s.w, s.w, s.pl, s.kw, s.sw, to, s.ow, s.sh, scale});
    }
    return true;
  });
}

// Maxima of any window.
bool MaxRows(const PoolShape& s, const float* x, int64_t begin, int64_t end, float* to) {
  const auto columns = OPSNN_TIER_CALL(ColumnMaxima);
  const auto rows_of = OPSNN_TIER_CALL(RowMaxima);
  const bool in_registers = FitsWindowRow(s);
  float* row = nullptr;  // made for the first output row that needs it
  for (int64_t oy = begin; oy < end; ++oy, to += s.ow) {
    const int64_t iy = oy * s.sh - s.pt;
    const Range ky = Inside(iy, s.kh, s.dh, 0, s.h);
    const int64_t count = ky.end - ky.begin;
    const float* const first = count > 0 ? x + (iy + ky.begin * s.dh) * s.w : nullptr;
    if (in_registers && count > 0 &&
        RunWindowRow({s.kind, first, count, s.dh * s.w, s.w, s.pl, s.kw, s.sw, to, s.ow, s.sh})) {
      continue;
    }
    if (!row) row = PaddedRow(std::max(PaddedWidth(s), s.pl + s.w));
    if (!row) return false;
    if (count > 0) {
      columns(first, count, s.dh * s.w, s.w, row + s.pl);
    } else {
      std::fill(row + s.pl, row + s.pl + s.w, kLowest);
    }
    rows_of(row, s.sw, s.kw, s.dw, s.ow, to);
  }
  return true;
}

}  // namespace

bool FitsPlanes(const PoolShape& s) {
  constexpr int64_t kTimesWider = 4;
  return (s.kind == Kind::kMax || FitsWindowRow(s)) && s.pl >= 0 && !s.x_blocked && !s.y_blocked &&
         PaddedWidth(s) <= kTimesWider * (s.w + kSlack);
}

Status RunPlanes(const PoolShape& s, const float* x, float* y) {
  const bool planes = FitsWindowPlane(s);
  if (s.kind == Kind::kAverage && !planes) return RunAverages(s, x, y);
  return RunTasks(s, x, y, [&](const float* plane, int64_t begin, int64_t end, float* to) {
    return (planes && RunWindowPlane(s, plane, begin, end, to)) || MaxRows(s, plane, begin, end, to);
  });
}

}  // namespace opsnn::pool
#endif
