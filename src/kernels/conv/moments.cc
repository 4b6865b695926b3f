#include "kernels/conv/moments.h"

#include <algorithm>
#include <limits>

#include "base/int_math.h"
#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/moments.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four sums per lane, of every fourth pixel: one alone would wait for its own result. term(acc, x) is the sum
// with x taken in.
template <class D, class Term, class V = hn::Vec<D>>
HWY_INLINE V SumOf(D d, const float* row, int64_t pixels, Term term) {
  constexpr int kChains = 4;
  V acc[kChains] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t p = 0;
  for (; p + kChains <= pixels; p += kChains) {
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) acc[i] = term(acc[i], hn::LoadU(d, row + (p + i) * kC0));
  }
  for (; p < pixels; ++p) acc[0] = term(acc[0], hn::LoadU(d, row + p * kC0));
  return hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3]));
}

void OneRow(const float* row, int64_t pixels, float* out) {
  const hn::CappedTag<float, kC0> d;
  using V = hn::Vec<decltype(d)>;
  const V each = hn::Set(d, 1.0f / static_cast<float>(pixels));
  for (int lane = 0; lane < kC0; lane += static_cast<int>(hn::MaxLanes(d))) {
    const V mean =
        hn::Mul(SumOf(d, row + lane, pixels, [](V acc, V x) HWY_ATTR { return hn::Add(acc, x); }), each);
    const V missed = hn::Mul(
        SumOf(d, row + lane, pixels, [mean](V acc, V x) HWY_ATTR { return hn::Add(acc, hn::Sub(x, mean)); }),
        each);
    const V squares = SumOf(d, row + lane, pixels, [mean](V acc, V x) HWY_ATTR {
      const V away = hn::Sub(x, mean);
      return hn::MulAdd(away, away, acc);
    });
    hn::StoreU(mean, d, out + lane);
    hn::StoreU(missed, d, out + kC0 + lane);
    hn::StoreU(squares, d, out + 2 * kC0 + lane);
  }
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(OneRow);

namespace {

constexpr int64_t kRowFloats = 3 * kC0;

int64_t RowsOfImage(const ConvShape& s) { return s.od * s.oh; }

// Of channels [0, lanes) of a block.
void JoinBlock(const ConvPlan& plan, const float* moments, int64_t b, int lanes, double* mean,
               double* variance) {
  const ConvShape& s = plan.shape;
  const auto pixels = static_cast<double>(s.ow);
  const double count = static_cast<double>(s.n * RowsOfImage(s)) * pixels;
  const auto for_each_row = [&](auto&& fn) {
    for (int64_t n = 0; n < s.n; ++n) {
      const float* row = MomentsOf(plan, const_cast<float*>(moments), n, b, 0);
      for (int64_t r = 0; r < RowsOfImage(s); ++r, row += kRowFloats)
        for (int l = 0; l < lanes; ++l) fn(l, row + l);
    }
  };
  std::fill_n(mean, lanes, 0.0), std::fill_n(variance, lanes, 0.0);
  for_each_row([&](int l, const float* row) { mean[l] += (double{row[0]} + double{row[kC0]}) * pixels; });
  for (int l = 0; l < lanes; ++l) mean[l] /= count;
  for_each_row([&](int l, const float* row) {
    const double missed = row[kC0], squares = row[2 * kC0], excess = pixels * missed * missed,
                 away = double{row[0]} + missed - mean[l];
    variance[l] += (excess < squares ? squares - excess : squares) + pixels * away * away;
  });
  for (int l = 0; l < lanes; ++l) variance[l] /= count;
}

}  // namespace

int64_t MomentFloats(const ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  return s.n * CeilDiv(s.oc, int64_t{kC0}) * RowsOfImage(s) * kRowFloats;
}

float* MomentsOf(const ConvPlan& plan, float* moments, int64_t n, int64_t b, int64_t row) {
  const ConvShape& s = plan.shape;
  return moments + ((n * CeilDiv(s.oc, int64_t{kC0}) + b) * RowsOfImage(s) + row) * kRowFloats;
}

void RowMoments(const ConvPlan& plan, const float* rows_of_block, int64_t rows, float* out) {
  const int64_t ow = plan.shape.ow;
  for (int64_t r = 0; r < rows; ++r)
    OneRow_tiers[static_cast<int>(plan.tier)](rows_of_block + r * ow * kC0, ow, out + r * kRowFloats);
}

void JoinMoments(const ConvPlan& plan, const float* moments, double* mean, double* variance) {
  const ConvShape& s = plan.shape;
  if (s.n * s.out_plane() == 0) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(mean, s.oc, kNan), std::fill_n(variance, s.oc, kNan);
    return;
  }
  ParallelFor(CeilDiv(s.oc, int64_t{kC0}), [&](int64_t b, int) {
    const auto lanes = static_cast<int>(std::min<int64_t>(kC0, s.oc - b * kC0));
    JoinBlock(plan, moments, b, lanes, mean + b * kC0, variance + b * kC0);
  });
}

}  // namespace opsnn::conv
#endif
