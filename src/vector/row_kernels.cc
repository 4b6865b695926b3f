// Row templates: a row is read from memory once, worked on in L1, written once, by loops whose stages are
// known at compile time. Bit by bit equal to the interpreter: the reductions are those of reduce-inl.h, the
// stages those of stages-inl.h, in the program's order.
//
// While one row is worked on, the next is prefetched line by line inside the loops over the current one. A
// row beyond L1 is simply read again from L2 (or, far beyond, from memory) by the second and third loop.
#include "vector/row_template.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::NormOptions;
using vector::RowArgs;
using vector::RowFamily;

// Lines of the next row, two per group of four vectors (a group is four lines under AVX-512): the reading
// loops have asked for all of them before the writing loop starts.
struct NextRow {
  const char* line;
  const char* end;
  HWY_INLINE void Group() {
    hwy::Prefetch(line);
    hwy::Prefetch(line + 64);
    line += line < end ? 128 : 0;
  }
};

// Reads x, maps it in registers; nothing is stored.
template <class Map>
struct Reader {
  const float* x;
  NextRow& next;
  Map map;
  HWY_INLINE void Group() { next.Group(); }
  HWY_INLINE VF Whole(size_t i) const {
    const DF d;
    return map(d, hn::LoadU(d, x + i));
  }
  HWY_INLINE VF Tail(size_t i, size_t n) const {
    const DF d;
    return map(d, LoadTail(d, x + i, n));
  }
};
template <class Map>
HWY_INLINE Reader<Map> MakeReader(const float* x, NextRow& next, const Map& map) {
  return {x, next, map};
}
// The same, and the mapped value is kept in y before it is reduced.
template <class Map>
struct Keeper {
  const float* x;
  float* y;
  NextRow& next;
  Map map;
  HWY_INLINE void Group() { next.Group(); }
  HWY_INLINE VF Whole(size_t i) const {
    const DF d;
    const VF v = map(d, hn::LoadU(d, x + i));
    hn::StoreU(v, d, y + i);
    return v;
  }
  HWY_INLINE VF Tail(size_t i, size_t n) const {
    const DF d;
    const VF v = map(d, LoadTail(d, x + i, n));
    StoreTail(d, v, y + i, n);
    return v;
  }
};
template <class Map>
HWY_INLINE Keeper<Map> MakeKeeper(const float* x, float* y, NextRow& next, const Map& map) {
  return {x, y, next, map};
}

// y[i] = f(x[i], gamma[i], beta[i]) over a row; the last loop, and the only one that writes.
template <bool kGamma, bool kBeta, class F>
HWY_INLINE void WriteRow(const RowArgs& a, const float* x, float* y, NextRow& next, const F& f) {
  const DF d;
  const float* g = a.gamma;
  const float* b = a.beta;
  size_t n = static_cast<size_t>(a.cols), i = 0;
  auto value = [&](size_t at) HWY_ATTR {
    const VF gv = kGamma ? hn::LoadU(d, g + at) : hn::Zero(d),
             bv = kBeta ? hn::LoadU(d, b + at) : hn::Zero(d);
    return f(d, hn::LoadU(d, x + at), gv, bv);
  };
  auto partial = [&](size_t at, size_t count) HWY_ATTR {
    const VF gv = kGamma ? LoadTail(d, g + at, count) : hn::Zero(d);
    const VF bv = kBeta ? LoadTail(d, b + at, count) : hn::Zero(d);
    StoreTail(d, f(d, LoadTail(d, x + at, count), gv, bv), y + at, count);
  };
  if (a.stream) {
    const size_t head = (HWY_MAX_BYTES - reinterpret_cast<uintptr_t>(y) % HWY_MAX_BYTES) % HWY_MAX_BYTES / 4;
    if (head != 0 && head < n) partial(0, head), i = head;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      next.Group();
      for (size_t v = 0; v < 4; ++v) hn::Stream(value(i + v * kLanes), d, y + i + v * kLanes);
    }
  } else {
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      next.Group();
      for (size_t v = 0; v < 4; ++v) hn::StoreU(value(i + v * kLanes), d, y + i + v * kLanes);
    }
  }
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(value(i), d, y + i);
  if (i < n) partial(i, n - i);
}

template <bool kCentred, bool kGamma, bool kBeta>
HWY_INLINE void NormRow(const RowArgs& a, const float* x, float* y, NextRow& next, float& mean_out,
                        float& rstd_out) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  float mean = 0;
  if constexpr (kCentred) {
    auto sum = MakeReader(x, next, [](DF, VF v) HWY_ATTR { return v; });
    mean = MeanOf(ReduceRow<SumReduction>(d, n, sum), n);
  }
  const VF m = hn::Set(d, mean);
  auto squares = MakeReader(x, next, [m](DF, VF v) HWY_ATTR {
    const VF c = kCentred ? hn::Sub(v, m) : v;
    return hn::Mul(c, c);
  });
  float variance = MeanOf(ReduceRow<SumReduction>(d, n, squares), n), missed = 0;
  if constexpr (kCentred) {  // what the rounding of the mean misses, as in program/moments.h
    auto rest = MakeReader(x, next, [m](DF, VF v) HWY_ATTR { return hn::Sub(v, m); });
    missed = MeanOf(ReduceRow<SumReduction>(d, n, rest), n);
    const float excess = missed * missed;
    if (excess < variance) variance = variance - excess;
  }
  const VF s = hn::Set(d, missed);
  // Scalars as one-lane vectors: the very operations of the Affine and Rsqrt stages.
  const VF shifted = hn::Add(hn::Mul(hn::Set(d, 1.0f), hn::Set(d, variance)),
                             hn::Set(d, static_cast<float>(a.kind.norm.eps)));
  const VF rstd = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(shifted));
  WriteRow<kGamma, kBeta>(a, x, y, next, [m, s, rstd](DF, VF v, VF g, VF b) HWY_ATTR {
    VF r = hn::Mul(kCentred ? hn::Sub(hn::Sub(v, m), s) : v, rstd);
    if constexpr (kGamma) r = hn::Mul(r, g);
    if constexpr (kBeta) r = hn::Add(r, b);
    return r;
  });
  mean_out = mean, rstd_out = hn::GetLane(rstd);
}

HWY_INLINE NextRow NextOf(const RowArgs& a, int64_t row, const float* x) {
  const bool has_next = a.prefetch_next && row + 1 < a.rows;
  const char* line = reinterpret_cast<const char*>(has_next ? x + a.x_stride : x);
  return {line, has_next ? line + a.cols * 4 : line};
}

template <bool kCentred, bool kGamma, bool kBeta>
void NormRows(const RowArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.x_stride;
    NextRow next = NextOf(a, r, x);
    float mean, rstd;
    NormRow<kCentred, kGamma, kBeta>(a, x, a.y + r * a.y_stride, next, mean, rstd);
    if (a.mean != nullptr) a.mean[r * a.mean_stride] = mean;
    if (a.rstd != nullptr) a.rstd[r * a.rstd_stride] = rstd;
  }
}

// The exponentials are kept in y and scaled there; in scratch where y is written past the caches.
template <bool kLog>
void SoftmaxRows(const RowArgs& a) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.x_stride;
    float* y = a.y + r * a.y_stride;
    float* exps_of_row = a.stream ? a.scratch : y;
    NextRow next = NextOf(a, r, x);
    auto all = MakeReader(x, next, [](DF, VF v) HWY_ATTR { return v; });
    const VF m = hn::Set(d, static_cast<float>(ReduceRow<MaxReduction>(d, n, all)));
    if constexpr (kLog) {
      auto exps = MakeReader(x, next, [m](DF dd, VF v) HWY_ATTR { return ExpUsual(dd, hn::Sub(v, m)); });
      const VF log_sum = Log(d, hn::Set(d, static_cast<float>(ReduceRow<SumReduction>(d, n, exps))));
      WriteRow<false, false>(
          a, x, y, next, [m, log_sum](DF, VF v, VF, VF) HWY_ATTR { return hn::Sub(hn::Sub(v, m), log_sum); });
    } else {
      auto exps =
          MakeKeeper(x, exps_of_row, next, [m](DF dd, VF v) HWY_ATTR { return ExpUsual(dd, hn::Sub(v, m)); });
      const VF sum = hn::Set(d, static_cast<float>(ReduceRow<SumReduction>(d, n, exps)));
      const VF scale = hn::Div(hn::Set(d, 1.0f), sum);
      WriteRow<false, false>(a, exps_of_row, y, next,
                             [scale](DF, VF v, VF, VF) HWY_ATTR { return hn::Mul(v, scale); });
    }
  }
}

}  // namespace

void RowKernel(const RowArgs& a) {
  const bool g = a.gamma != nullptr, b = a.beta != nullptr;
  switch (a.kind.family) {
    case RowFamily::kLayerNorm:
      return g ? (b ? NormRows<true, true, true>(a) : NormRows<true, true, false>(a))
               : (b ? NormRows<true, false, true>(a) : NormRows<true, false, false>(a));
    case RowFamily::kRmsNorm:
      return g ? NormRows<false, true, false>(a) : NormRows<false, false, false>(a);
    case RowFamily::kSoftmax:
      return SoftmaxRows<false>(a);
    case RowFamily::kLogSoftmax:
      return SoftmaxRows<true>(a);
    case RowFamily::kNone:
      return;
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RowKernel);
void RunRowTemplate(const RowArgs& a) { OPSNN_TIER_CALL(RowKernel)(a); }
}  // namespace opsnn::vector
#endif
