#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/resize/resize.h"
#include "tensor/element.h"
#include "vector/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize/weighted.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Single values: a vector is as many output positions, whose taps are gathered.
void ResizeRow(const float* src, float* dst, const AxisTaps& c) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = hn::Lanes(d);
  const int64_t out = c.out;
  int64_t o = 0;
  for (; o + lanes <= out; o += lanes) {
    auto sum = hn::Mul(hn::LoadU(d, &c.weight[o]), hn::GatherIndex(d, src, hn::LoadU(di, &c.index[o])));
    for (int t = 1; t < c.taps; ++t) {
      const int64_t at = t * out + o;
      const auto x = hn::GatherIndex(d, src, hn::LoadU(di, &c.index[at]));
      sum = hn::Add(sum, hn::Mul(hn::LoadU(d, &c.weight[at]), x));
    }
    hn::StoreU(sum, d, dst + o);
  }
  for (; o < out; ++o) {  // tap tables are not padded: the rest goes one by one through the same operations
    float sum = c.weight[o] * src[c.index[o]];
    for (int t = 1; t < c.taps; ++t) sum = sum + c.weight[t * out + o] * src[c.index[t * out + o]];
    dst[o] = sum;
  }
}

// Pixels of several values that lie together.
void ResizePixels(const float* src, float* dst, const AxisTaps& c, int64_t pixel) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t o = 0; o < c.out; ++o) {
    int64_t l = 0;
    for (; l + lanes <= pixel; l += lanes) {
      auto sum = hn::Mul(hn::Set(d, c.weight[o]), hn::LoadU(d, src + int64_t{c.index[o]} * pixel + l));
      for (int t = 1; t < c.taps; ++t) {
        const int64_t at = t * c.out + o;
        const auto x = hn::LoadU(d, src + int64_t{c.index[at]} * pixel + l);
        sum = hn::Add(sum, hn::Mul(hn::Set(d, c.weight[at]), x));
      }
      hn::StoreU(sum, d, dst + o * pixel + l);
    }
    for (; l < pixel; ++l) {
      float sum = c.weight[o] * src[int64_t{c.index[o]} * pixel + l];
      for (int t = 1; t < c.taps; ++t) {
        const int64_t at = t * c.out + o;
        sum = sum + c.weight[at] * src[int64_t{c.index[at]} * pixel + l];
      }
      dst[o * pixel + l] = sum;
    }
  }
}

}  // namespace

void HorizontalKernel(const float* src, float* dst, const AxisTaps& columns, int64_t pixel) {
  pixel == 1 ? ResizeRow(src, dst, columns) : ResizePixels(src, dst, columns, pixel);
}

// dst[i] = sum over taps of weights[t] * rows[t][i]; n is a multiple of the vector's lanes.
void VerticalKernel(const float* const* rows, const float* weights, int taps, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < n; i += lanes) {
    auto sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, rows[0] + i));
    for (int t = 1; t < taps; ++t) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[t]), hn::LoadU(d, rows[t] + i)));
    }
    hn::StoreU(sum, d, dst + i);
  }
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
namespace opsnn::kernels {
namespace {

OPSNN_TIER_TABLE(HorizontalKernel);
OPSNN_TIER_TABLE(VerticalKernel);

constexpr int64_t kRowPadding = 16;  // f32 lanes of the widest tier: vertical sums then have no tail
constexpr int64_t kTaskBytes = 128 << 10;
constexpr int kMaxTaps = 4;

int64_t PadRow(int64_t n) { return (n + kRowPadding - 1) / kRowPadding * kRowPadding; }

// What one thread needs to produce rows: horizontally resized input rows, kept as long as output rows want
// them.
class RowCache {
 public:
  explicit RowCache(const ResizeParams& p)
      : p_(p),
        row_(p.columns->out * p.lanes),
        padded_(PadRow(row_)),
        rows_(static_cast<size_t>(kMaxTaps * padded_)),
        out_(static_cast<size_t>(padded_)),
        loaded_(p.dtype == DType::kF32 ? 0 : static_cast<size_t>(p.columns->in * p.lanes)) {}

  // Output row o of a plane.
  void Produce(int64_t plane, int64_t o, char* dst) {
    if (plane != plane_) Forget(plane);
    const AxisTaps& rows = *p_.rows;
    const float* taps[kMaxTaps];
    float weights[kMaxTaps];
    for (int t = 0; t < rows.taps; ++t) {
      taps[t] = Row(rows.index[static_cast<size_t>(t * rows.out + o)]);
      weights[t] = rows.weight[static_cast<size_t>(t * rows.out + o)];
    }
    OPSNN_TIER_CALL(VerticalKernel)(taps, weights, rows.taps, out_.data(), padded_);
    Extrapolate(!rows.outside.empty() && rows.outside[static_cast<size_t>(o)]);
    vector::StoreConvert(ComputeType::kF32, out_.data(), p_.dtype, dst, 1, row_);
  }

 private:
  void Forget(int64_t plane) {
    plane_ = plane;
    std::fill(std::begin(held_), std::end(held_), -1);
  }

  // Input row r, resized along the row. Taps of one output row are at most kMaxTaps consecutive rows
  // (clamped), so their slots differ.
  const float* Row(int64_t r) {
    float* slot = rows_.data() + r % kMaxTaps * padded_;
    if (held_[r % kMaxTaps] == r) return slot;
    held_[r % kMaxTaps] = r;
    const AxisTaps& columns = *p_.columns;
    const int64_t n = columns.in * p_.lanes;
    const char* src = static_cast<const char*>(p_.src) +
                      (plane_ * p_.rows->in + r) * n * static_cast<int64_t>(SizeOf(p_.dtype));
    const auto* values = reinterpret_cast<const float*>(src);
    if (p_.dtype != DType::kF32) {
      vector::LoadConvert(p_.dtype, src, 1, ComputeType::kF32, loaded_.data(), n);
      values = loaded_.data();
    }
    if (columns.identity) {
      std::memcpy(slot, values, static_cast<size_t>(n) * sizeof(float));
    } else {
      OPSNN_TIER_CALL(HorizontalKernel)(values, slot, columns, p_.lanes);
    }
    return slot;
  }

  void Extrapolate(bool whole_row) {
    const auto value = static_cast<float>(p_.extrapolation);
    if (whole_row) std::fill_n(out_.begin(), row_, value);
    const auto& outside = p_.columns->outside;
    for (size_t c = 0; c < outside.size(); ++c) {
      if (outside[c]) std::fill_n(out_.begin() + static_cast<int64_t>(c) * p_.lanes, p_.lanes, value);
    }
  }

  const ResizeParams& p_;
  int64_t row_, padded_;
  std::vector<float> rows_, out_, loaded_;
  int64_t plane_ = -1;
  int64_t held_[kMaxTaps] = {-1, -1, -1, -1};
};

// f64 stays f64: the same sums, one value after the other.
void ResizeDouble(const ResizeParams& p, int64_t plane) {
  const AxisTaps &rows = *p.rows, &columns = *p.columns;
  const auto* src = static_cast<const double*>(p.src) + plane * rows.in * columns.in * p.lanes;
  auto* dst = static_cast<double*>(p.dst) + plane * rows.out * columns.out * p.lanes;
  const auto along_row = [&](int64_t r, int64_t o, int64_t l) {
    double sum = 0;
    for (int t = 0; t < columns.taps; ++t) {
      const auto at = static_cast<size_t>(t * columns.out + o);
      sum += columns.weight[at] * src[(r * columns.in + columns.index[at]) * p.lanes + l];
    }
    return sum;
  };
  for (int64_t y = 0; y < rows.out; ++y) {
    for (int64_t x = 0; x < columns.out; ++x) {
      const bool outside = (!rows.outside.empty() && rows.outside[static_cast<size_t>(y)]) ||
                           (!columns.outside.empty() && columns.outside[static_cast<size_t>(x)]);
      for (int64_t l = 0; l < p.lanes; ++l) {
        double sum = 0;
        for (int t = 0; t < rows.taps; ++t) {
          const auto at = static_cast<size_t>(t * rows.out + y);
          sum += rows.weight[at] * along_row(rows.index[at], x, l);
        }
        dst[(y * columns.out + x) * p.lanes + l] = outside ? p.extrapolation : sum;
      }
    }
  }
}

}  // namespace

void ResizeWeighted(const ResizeParams& p) {
  const AxisTaps& rows = *p.rows;
  const int64_t out_row = p.columns->out * p.lanes * static_cast<int64_t>(SizeOf(p.dtype));
  const int64_t total = p.planes * rows.out * out_row;
  if (total == 0) return;
  if (p.dtype == DType::kF64) {
    return ParallelFor(p.planes, [&](int64_t plane, int) { ResizeDouble(p, plane); });
  }
  // A task is a run of output rows, counted over all planes.
  const int64_t all_rows = p.planes * rows.out;
  const int64_t group =
      total < 2 * kTaskBytes ? all_rows : std::clamp<int64_t>(kTaskBytes / out_row, 1, all_rows);
  ParallelFor((all_rows + group - 1) / group, [&](int64_t t, int) {
    RowCache cache(p);
    for (int64_t r = t * group; r < std::min(all_rows, (t + 1) * group); ++r) {
      cache.Produce(r / rows.out, r % rows.out, static_cast<char*>(p.dst) + r * out_row);
    }
  });
}

}  // namespace opsnn::kernels
#endif
