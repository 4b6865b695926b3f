// Row templates for rows of one to four vectors of f32: a row stays in registers from its one read to its one
// write. The sums are those of reduce-inl.h, bit by bit: whole vector k goes to accumulator k, what is left
// to the last.
#include <cmath>
#include <type_traits>

#include "vector/row_template.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels_short.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/reduce-inl.h"
#include "vector/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::RowArgs;
using vector::RowFamily;

// As in row_kernels-inl.h: a NaN that is passed over makes the sum of exponentials NaN.
struct NumberMax : MaxReduction {
  static HWY_INLINE VF Step(DF, VF acc, VF x) { return hn::Max(x, acc); }
};

// kVectors of them, the last with `rest` values where kPart says so.
template <size_t kVectors, bool kPart>
struct ShortRow {
  static constexpr size_t kWhole = kPart ? kVectors - 1 : kVectors;
  VF v[kVectors];
  size_t rest;

  HWY_INLINE void Load(const float* x) {
    const DF d;
#pragma GCC unroll 4
    for (size_t k = 0; k < kWhole; ++k) {
      hwy::Prefetch(x + k * kLanes + kAhead);
      v[k] = hn::LoadU(d, x + k * kLanes);
    }
    if constexpr (kPart) v[kWhole] = LoadTail(d, x + kWhole * kLanes, rest);
  }
  HWY_INLINE void Store(float* y, bool stream) const {
    const DF d;
#pragma GCC unroll 4
    for (size_t k = 0; k < kWhole; ++k)
      stream ? hn::Stream(v[k], d, y + k * kLanes) : hn::StoreU(v[k], d, y + k * kLanes);
    if constexpr (kPart) StoreTail(d, v[kWhole], y + kWhole * kLanes, rest);
  }
  template <class F>
  HWY_INLINE ShortRow Map(const F& f) const {
    ShortRow r;
    r.rest = rest;
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) r.v[k] = f(v[k], k);
    return r;
  }
  template <class R>
  HWY_INLINE double Reduce() const {
    const DF d;
    const VF init = hn::Set(d, R::kInit);
    VF a[4] = {init, init, init, init};
#pragma GCC unroll 4
    for (size_t k = 0; k < kWhole; ++k) a[k] = R::Step(d, a[k], v[k]);
    if constexpr (kPart) a[3] = R::Step(d, a[3], hn::IfThenElse(hn::FirstN(d, rest), v[kWhole], init));
    const VF all = R::Step(d, R::Step(d, a[0], a[1]), R::Step(d, a[2], a[3]));
    return R::Merge(static_cast<double>(R::kInit), R::Lanes(d, all));
  }
  // A vector of `p`, which has as many values as the row.
  HWY_INLINE VF Of(const float* p, size_t k) const {
    const DF d;
    return kPart && k == kWhole ? LoadTail(d, p + k * kLanes, rest) : hn::LoadU(d, p + k * kLanes);
  }

 private:
  static constexpr size_t kAhead = 512;  // 2 KiB: rows follow each other
};

template <class Row>
HWY_INLINE Row Normal(const RowArgs& a, const Row& x, bool centred, float& mean, float& rstd) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  float variance, missed = 0;
  Row c = x;
  mean = 0;
  const auto square = [](VF v, size_t) HWY_ATTR { return hn::Mul(v, v); };
  if (centred) {  // with what the rounding of the mean misses, as in program/moments.h
    mean = MeanOf(x.template Reduce<SumReduction>(), n);
    const VF m = hn::Set(d, mean);
    c = x.Map([m](VF v, size_t) HWY_ATTR { return hn::Sub(v, m); });
    if (!a.kind.norm.narrow) missed = MeanOf(c.template Reduce<SumReduction>(), n);
  }
  variance = MeanOf(c.Map(square).template Reduce<SumReduction>(), n);
  const float excess = missed * missed;
  if (centred && excess < variance) variance = variance - excess;
  const hn::CappedTag<float, 4> d4;  // divides in a quarter of the time
  const auto shifted = hn::Add(hn::Mul(hn::Set(d4, 1.0f), hn::Set(d4, variance)),
                               hn::Set(d4, static_cast<float>(a.kind.norm.eps)));
  rstd = hn::GetLane(hn::Div(hn::Set(d4, 1.0f), hn::Sqrt(shifted)));
  const VF s = hn::Set(d, missed), scale = hn::Set(d, rstd);
  return c.Map([&](VF v, size_t k) HWY_ATTR {
    VF r = hn::Mul(centred ? hn::Sub(v, s) : v, scale);
    if (a.gamma) r = hn::Mul(r, c.Of(a.gamma, k));
    if (a.beta) r = hn::Add(r, c.Of(a.beta, k));
    return r;
  });
}

template <class Row>
HWY_INLINE Row Softmax(const Row& x, bool log) {
  const DF d;
  const VF m = hn::Set(d, static_cast<float>(x.template Reduce<NumberMax>()));
  const Row shifted = x.Map([m](VF v, size_t) HWY_ATTR { return hn::Sub(v, m); });
  const Row exps = shifted.Map([](VF v, size_t) HWY_ATTR { return ExpUsual(DF(), v); });
  const float sum = static_cast<float>(exps.template Reduce<SumReduction>());
  if (log) {
    const VF log_sum = Log(d, hn::Set(d, sum));
    return shifted.Map([log_sum](VF v, size_t) HWY_ATTR { return hn::Sub(v, log_sum); });
  }
  const hn::CappedTag<float, 4> d4;
  const VF scale = hn::Set(d, hn::GetLane(hn::Div(hn::Set(d4, 1.0f), hn::Set(d4, sum))));
  return exps.Map([scale](VF v, size_t) HWY_ATTR { return hn::Mul(v, scale); });
}

template <size_t kVectors, bool kPart, RowFamily kFamily>
void Rows(const RowArgs& a) {
  ShortRow<kVectors, kPart> row;
  row.rest = static_cast<size_t>(a.cols) - (kVectors - 1) * kLanes;
  constexpr bool kSoftmax = kFamily == RowFamily::kSoftmax || kFamily == RowFamily::kLogSoftmax;
  using Block = std::conditional_t<kSoftmax, SoftmaxBlock<kVectors, kPart, kFamily == RowFamily::kLogSoftmax>,
                                   NormBlock<kVectors, kPart, kFamily == RowFamily::kLayerNorm>>;
  for (int64_t r = RunBlocks<Block, kPart>(a, row.rest); r < a.rows; ++r) {
    float* const y = static_cast<float*>(a.y) + r * a.y_stride;
    const bool stream = a.stream && reinterpret_cast<uintptr_t>(y) % HWY_MAX_BYTES == 0;
    row.Load(static_cast<const float*>(a.x) + r * a.x_stride);
    if constexpr (kSoftmax) {
      Softmax(row, kFamily == RowFamily::kLogSoftmax).Store(y, stream);
    } else {
      float mean, rstd;
      Normal(a, row, kFamily == RowFamily::kLayerNorm, mean, rstd).Store(y, stream);
      if (a.mean != nullptr) a.mean[r * a.mean_stride] = mean;
      if (a.rstd != nullptr) a.rstd[r * a.rstd_stride] = rstd;
    }
  }
}

template <size_t kVectors, bool kPart>
void RowsOf(const RowArgs& a) {
  switch (a.kind.family) {
    case RowFamily::kLayerNorm:
      return Rows<kVectors, kPart, RowFamily::kLayerNorm>(a);
    case RowFamily::kRmsNorm:
      return Rows<kVectors, kPart, RowFamily::kRmsNorm>(a);
    case RowFamily::kSoftmax:
      return Rows<kVectors, kPart, RowFamily::kSoftmax>(a);
    case RowFamily::kLogSoftmax:
      return Rows<kVectors, kPart, RowFamily::kLogSoftmax>(a);
    case RowFamily::kNone:
      return;
  }
}

}  // namespace

bool RunShortRowsTier(const RowArgs& a) {
  const auto cols = static_cast<size_t>(a.cols);
  const bool part = cols % kLanes != 0;
  switch ((cols + kLanes - 1) / kLanes) {
    case 1:
      return (part ? RowsOf<1, true>(a) : RowsOf<1, false>(a)), true;
    case 2:
      return (part ? RowsOf<2, true>(a) : RowsOf<2, false>(a)), true;
    case 3:
      return (part ? RowsOf<3, true>(a) : RowsOf<3, false>(a)), true;
    case 4:
      return (part ? RowsOf<4, true>(a) : RowsOf<4, false>(a)), true;
    default:
      return false;
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RunShortRowsTier);
bool RunShortRowTemplate(const RowArgs& a) { return OPSNN_TIER_CALL(RunShortRowsTier)(a); }
}  // namespace opsnn::vector
#endif
