// Drivers of pooling. NCHW images are converted a few rows at a time, so that the copies stay in cache.
#include "kernels/pool/pool.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "kernels/pool/inside.h"
#include "kernels/pool/plane.h"
#include "kernels/pool/row.h"
#include "kernels/transpose/tile.h"

namespace opsnn::pool {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kScratchBytes = 256 << 10;  // a quarter of the smallest private L2 in use

class PoolRun {
 public:
  PoolRun(const PoolShape& s, const float* x, float* y) : s_(s), x_(x), y_(y) {
    if (s.kind != Kind::kAverage) return;
    cols_.resize(static_cast<size_t>(s.ow));
    for (int64_t ox = 0; ox < s.ow; ++ox)
      cols_[static_cast<size_t>(ox)] = Counted(s.include_pad, ox * s.sw - s.pl, s.kw, s.dw, s.w, s.pl, s.pr);
  }

  Status Run() const {
    const int64_t blocks = CeilDiv(s_.c, kC0);
    const int64_t row_bytes = (s_.w * s_.sh + s_.ow) * kC0 * kFloat;
    const int64_t per_task = std::clamp<int64_t>(kScratchBytes / row_bytes, 1, s_.oh);
    const int64_t chunks = CeilDiv(s_.oh, per_task);
    std::atomic<bool> failed{false};
    // By rows, as the convolutions before and behind are shared out.
    ParallelOwned(s_.n * blocks * chunks, [&](int64_t i) {
      const int64_t begin = i / blocks % chunks * per_task, end = std::min(begin + per_task, s_.oh);
      if (!RunRows(i / blocks / chunks, i % blocks, begin, end)) failed = true;
    });
    if (!failed) return OkStatus();
    return Errorf(Code::kRuntime, "pooling: no memory for the copies of image rows.");
  }

 private:
  // False when there is no memory for the copies.
  bool RunRows(int64_t n, int64_t block, int64_t begin, int64_t end) const {
    thread_local AlignedBuffer scratch;
    const int64_t blocks = CeilDiv(s_.c, kC0), lanes = std::min<int64_t>(kC0, s_.c - block * kC0);
    // Input rows that any window of these output rows touches.
    const int64_t lo = std::clamp<int64_t>(begin * s_.sh - s_.pt, 0, s_.h);
    const int64_t hi = std::clamp<int64_t>((end - 1) * s_.sh - s_.pt + (s_.kh - 1) * s_.dh + 1, lo, s_.h);
    const int64_t in_floats = s_.x_blocked ? 0 : (hi - lo) * s_.w * kC0;
    const int64_t out_floats = s_.y_blocked ? 0 : (end - begin) * s_.ow * kC0;
    const size_t bytes = static_cast<size_t>((in_floats + out_floats + s_.ow) * kFloat);
    if (scratch.bytes() < bytes) scratch = AlignedBuffer(bytes);
    if (scratch.data() == nullptr) return false;
    float* in_copy = scratch.as<float>();
    float* out_copy = in_copy + in_floats;
    float* scale = out_copy + out_floats;

    PoolRow r;
    r.kind = s_.kind;
    r.w = s_.w, r.ow = s_.ow, r.kw = s_.kw, r.sw = s_.sw, r.dh = s_.dh, r.dw = s_.dw, r.pl = s_.pl;
    if (s_.x_blocked) {
      r.x = x_ + (n * blocks + block) * s_.h * s_.w * kC0;
    } else {
      const float* planes = x_ + (n * s_.c + block * kC0) * s_.h * s_.w + lo * s_.w;
      if (lanes < kC0) std::fill(in_copy, in_copy + in_floats, 0.0f);
      kernels::Transpose2D(
          {sizeof(float), lanes, (hi - lo) * s_.w, planes, s_.h * s_.w * kFloat, in_copy, kC0 * kFloat});
      r.x = in_copy;
      r.first_row = lo;
    }
    float* out = s_.y_blocked ? y_ + ((n * blocks + block) * s_.oh + begin) * s_.ow * kC0 : out_copy;
    r.scale = scale;
    for (int64_t oy = begin; oy < end; ++oy) {
      r.iy = oy * s_.sh - s_.pt;
      const Range rows = Inside(r.iy, s_.kh, s_.dh, 0, s_.h);
      r.ky_begin = rows.begin, r.ky_end = rows.end;
      r.y = out + (oy - begin) * s_.ow * kC0;
      if (s_.kind == Kind::kAverage) FillScale(oy, scale);
      RunRow(r);
    }
    if (s_.y_blocked) return true;
    float* planes = y_ + (n * s_.c + block * kC0) * s_.oh * s_.ow + begin * s_.ow;
    kernels::Transpose2D({sizeof(float), (end - begin) * s_.ow, lanes, out_copy, kC0 * kFloat, planes,
                          s_.oh * s_.ow * kFloat});
    return true;
  }

  void FillScale(int64_t oy, float* scale) const {
    if (s_.sum) {
      std::fill(scale, scale + s_.ow, 1.0f);
      return;
    }
    const int64_t rows = Counted(s_.include_pad, oy * s_.sh - s_.pt, s_.kh, s_.dh, s_.h, s_.pt, s_.pb);
    for (int64_t ox = 0; ox < s_.ow; ++ox) {
      const int64_t count = rows * cols_[static_cast<size_t>(ox)];
      scale[ox] = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
    }
  }

  const PoolShape& s_;
  const float* x_;
  float* y_;
  std::vector<int64_t> cols_;  // average: counted columns per output column
};

}  // namespace

Status RunPool(const PoolShape& shape, const float* x, float* y) {
  if (shape.n * shape.c * shape.oh * shape.ow == 0) return OkStatus();
  return FitsPlanes(shape) ? RunPlanes(shape, x, y) : PoolRun(shape, x, y).Run();
}

void RunGlobalPool(Kind kind, int64_t n, int64_t c, int64_t pixels, bool x_blocked, bool y_blocked,
                   const float* x, float* y) {
  const int64_t blocks = CeilDiv(c, kC0), y_channels = y_blocked ? blocks * kC0 : c;
  constexpr int64_t kAloneBytes = 256 << 10;  // read in less time than another core takes to fetch its half
  std::optional<ScopedThreadLimit> alone;
  if (n * blocks * pixels * kC0 * kFloat < kAloneBytes) alone.emplace(1);
  ParallelOwned(n * blocks, [&](int64_t i) {
    const int64_t image = i / blocks, b = i % blocks, lanes = std::min<int64_t>(kC0, c - b * kC0);
    alignas(64) float out[kC0] = {};
    if (x_blocked) {
      ReduceBlock(kind, x + i * pixels * kC0, pixels, out);
    } else {
      for (int64_t l = 0; l < lanes; ++l)
        out[l] = ReducePlane(kind, x + (image * c + b * kC0 + l) * pixels, pixels);
    }
    // One division by the count, as the definition says: exact where the sum is a multiple of it.
    if (kind == Kind::kAverage) {
      for (float& v : out) v /= static_cast<float>(pixels);
    }
    std::copy(out, out + (y_blocked ? kC0 : lanes), y + image * y_channels + b * kC0);
  });
}

}  // namespace opsnn::pool
