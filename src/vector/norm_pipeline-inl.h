// Norms of many rows as a pipeline: one loop over the columns sums row t, centres row t - 1 and writes row
// t - 2, or two such rows each. Reading, arithmetic and writing go on all the time, where loops row by row
// wait for memory in the first and the last and for the ends of their sums in between (measured: 1.2 times as
// fast in bf16, 1.1 in f32).
#if defined(OPSNN_VECTOR_NORM_PIPELINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_NORM_PIPELINE_INL_H_
#undef OPSNN_VECTOR_NORM_PIPELINE_INL_H_
#else
#define OPSNN_VECTOR_NORM_PIPELINE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "isa/caches.h"
#include "isa/cpuid.h"
#include "vector/element-inl.h"
#include "vector/reduce-inl.h"
#include "vector/row_template.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::RowArgs;

// 16 KiB of kept values: half of the smallest L1 in use.
constexpr int64_t kKeptCols = 4096;

// What a norm takes out of a row and multiplies it by: the mean, what its rounding misses as in
// program/moments.h, and the reciprocal of the deviation.
struct NormFactors {
  float mean = 0, missed = 0, variance = 0, rstd = 0;

  HWY_INLINE void Centred(const RowArgs& a, double squares, double rest) {
    const size_t n = static_cast<size_t>(a.cols);
    CentredMeans(a, MeanOf(squares, n), MeanOf(rest, n));
  }
  HWY_INLINE void CentredMeans(const RowArgs& a, float squares, float rest) {
    variance = squares;
    missed = a.kind.norm.narrow ? 0.0f : rest;
    const float excess = missed * missed;
    if (excess < variance) variance = variance - excess;
    Finish(a);
  }
  HWY_INLINE void Plain(const RowArgs& a, double squares) {
    variance = MeanOf(squares, static_cast<size_t>(a.cols));
    Finish(a);
  }
  // Sums that are finite have seen no NaN and no infinity; what overflows from finite factors is no NaN.
  HWY_INLINE bool Finite(const RowArgs& a) const {
    return a.finite_weights && std::isfinite(mean) && std::isfinite(variance) && std::isfinite(rstd);
  }
  HWY_INLINE void Keep(const RowArgs& a, int64_t row) const {
    if (a.mean != nullptr) a.mean[row * a.mean_stride] = mean;
    if (a.rstd != nullptr) a.rstd[row * a.rstd_stride] = rstd;
  }

 private:
  HWY_INLINE void Finish(const RowArgs& a) {
    // Scalars in a short vector, which divides in a quarter of the time: the very operations of the Affine
    // and Rsqrt stages.
    const hn::CappedTag<float, 4> d4;
    const auto shifted = hn::Add(hn::Mul(hn::Set(d4, 1.0f), hn::Set(d4, variance)),
                                 hn::Set(d4, static_cast<float>(a.kind.norm.eps)));
    rstd = hn::GetLane(hn::Div(hn::Set(d4, 1.0f), hn::Sqrt(shifted)));
  }
};

// bf16 rows are worked on as the even and the odd values of each two vectors. Lane l of the four accumulators
// of a group then sums what lanes of other accumulators sum in order; brought back there before they are
// added up, they give the same bits.
template <typename T>
constexpr bool kAlternates = std::is_same_v<T, BF16>;

template <bool kNative, typename T>
HWY_INLINE void GetTwo(DF d, const T* p, VF& one, VF& other) {
  if constexpr (kAlternates<T>) {
    GetAlternating<kNative>(d, p, one, other);
  } else {
    one = Get(d, p), other = Get(d, p + kLanes);
  }
}
// A step's values of cols, such as gamma, in the order in which rows are worked on.
template <typename T>
HWY_INLINE const float* InOrderOfWork(const float* v, int64_t cols, float* scratch) {
  if (!kAlternates<T>) return v;
  for (int64_t i = 0; i < cols; i += 2 * kLanes) {
    for (int64_t l = 0; l < static_cast<int64_t>(kLanes); ++l)
      scratch[i + l] = v[i + 2 * l], scratch[i + kLanes + l] = v[i + 2 * l + 1];
  }
  return scratch;
}
// The sum of four accumulators in the order of reduce-inl.h.
template <typename T>
HWY_INLINE double TotalOf(const VF* v) {
  const DF d;
  using R = SumReduction;
  if constexpr (!kAlternates<T>)
    return 0.0 + R::Lanes(d, R::Step(d, R::Step(d, v[0], v[1]), R::Step(d, v[2], v[3])));
  // The even lanes of the sums of the first two and of the last two, and the odd ones: in the lower halves.
  const auto both = [d](VF w) HWY_ATTR { return R::Step(d, w, hn::ConcatLowerUpper(d, w, w)); };
  const VF even = R::Step(d, both(v[0]), both(v[2])), odd = R::Step(d, both(v[1]), both(v[3]));
  HWY_ALIGN static constexpr int32_t kTwice[16] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  const auto twice = hn::SetTableIndices(d, kTwice);
  return 0.0 + R::Lanes(d, hn::OddEven(hn::TableLookupLanes(odd, twice), hn::TableLookupLanes(even, twice)));
}

// The mean's rounding is taken out of f32; halves do without (program/moments.h).
template <typename T>
constexpr bool kCorrects = std::is_same_v<T, float>;
// Centred rows are kept until they are written, or centred again from halves: a store takes as long as the
// three instructions that it saves (Zen 4: 40 cycles a group with stores, 25 without).
template <typename T>
constexpr bool kKeeps = std::is_same_v<T, float>;

// Two vectors as GetTwo has them, or four lines of a row that are asked for.
template <bool kPast, Rounding kRounding, typename T>
HWY_INLINE void PutInOrderOfWork(DF d, VF one, VF other, T* p) {
  if constexpr (kAlternates<T>) {
    PutAlternating<kPast, kRounding>(d, one, other, p);
  } else {
    PutTwo<kPast, kRounding != Rounding::kAny>(d, one, other, p);
  }
}

// The lines of a row that comes some steps later, and of what is written.
template <typename T>
struct RowAhead {
  const char* row = nullptr;
  bool to_l1 = true;  // else into L2

  template <bool kPast>
  HWY_INLINE void Fetch(size_t i, const T* to) const {
    for (size_t byte = 0; byte < 4 * kLanes * sizeof(T); byte += 64) {
      const char* const line = row + i * sizeof(T) + byte;
      to_l1 ? __builtin_prefetch(line, 0, 3) : __builtin_prefetch(line, 0, 2);
    }
    if constexpr (!kPast) {  // stores that wait for their lines hold up all others
      for (size_t byte = 0; byte < 4 * kLanes * sizeof(T); byte += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(to + i) + 1024 + byte);
    }
  }
};

// Rows that a step takes side by side: halves share the loads of gamma and beta, and the ends of their sums.
template <typename T>
constexpr size_t kStepRows = kAlternates<T>&& kLanes == 16 ? 2 : 1;

// TotalOf of four times four accumulators of bf16 rows, side by side: {first, second, third, fourth}.
using D4 = hn::CappedTag<float, 4>;
using V4 = hn::Vec<D4>;
HWY_INLINE V4 FourTotals(const VF* first, const VF* second, const VF* third, const VF* fourth) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  // The even lanes' sums in the lower half, the odd ones' in the upper.
  const auto sides = [d](const VF* v) HWY_ATTR {
    const auto both = [d](VF even, VF odd) HWY_ATTR {
      return hn::Add(hn::ConcatLowerLower(d, odd, even), hn::ConcatUpperUpper(d, odd, even));
    };
    return hn::Add(both(v[0], v[1]), both(v[2], v[3]));
  };
  const auto blocks = [d](VF a, VF b) HWY_ATTR {  // neighbouring blocks of 128 bits
    return hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a),
                   hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)));
  };
  const auto one = hn::BitCast(dd, blocks(sides(first), sides(third)));
  const auto other = hn::BitCast(dd, blocks(sides(second), sides(fourth)));
  const VF pairs = hn::Add(hn::BitCast(d, hn::InterleaveLower(dd, one, other)),
                           hn::BitCast(d, hn::InterleaveUpper(dd, one, other)));
  const VF ends = hn::Add(hn::ConcatEven(d, pairs, pairs), hn::ConcatOdd(d, pairs, pairs));
  HWY_ALIGN float even_odd[kLanes];
  hn::Store(ends, d, even_odd);
  const D4 d4;
  // Adding 0 is what starting with 0 does: there is no -0.
  return hn::Add(hn::Add(hn::Load(d4, even_odd), hn::Load(d4, even_odd + 4)), hn::Zero(d4));
}

// What one step works on: kStepRows rows, and as many before them. Rows that are not there are stood in for
// by others, whose results nobody reads.
template <typename T>
struct NormStep {
  using Value = T;
  static constexpr bool kCentred = true;
  static constexpr size_t kRows = kStepRows<T>;
  size_t n = 0;
  RowAhead<T> ahead[kRows];
  const T* summed[kRows] = {};
  const T* centred[kRows] = {};  // less `mean`, to `kept` where kKeeps
  float* kept[kRows] = {};
  const float* last[kRows] = {};  // what an earlier step kept, less `missed`, times `rstd`, to y
  const T* written[kRows] = {};   // or what it centred, less `mean`
  float mean[kRows] = {};
  const NormFactors* factors[kRows] = {};  // of what is written
  const float* gamma = nullptr;
  const float* beta = nullptr;
  T* y[kRows] = {};
  float sum[kRows] = {}, rest[kRows] = {}, squares[kRows] = {};  // results, divided by n

  // In the order of reduce-inl.h for rows of one chunk that are whole groups of four vectors.
  template <bool kPast, Rounding kRounding>
  HWY_NOINLINE void Run() {
    const DF d;
    using R = SumReduction;
    // Copies, which no store of a row may change.
    const float *const scales = gamma, *const shifts = beta;
    const T *of_sum[kRows], *of_centre[kRows], *of_last[kRows];
    const float* from[kRows];
    RowAhead<T> fetched[kRows];
    float* to_keep[kRows];
    T* to[kRows];
    VF m[kRows], s[kRows], scale[kRows], sums[kRows][4], rests[kRows][4], products[kRows][4];
    const size_t count = n;
#pragma GCC unroll 2
    for (size_t r = 0; r < kRows; ++r) {
      of_sum[r] = summed[r], of_centre[r] = centred[r], of_last[r] = written[r], from[r] = last[r];
      fetched[r] = ahead[r], to_keep[r] = kept[r], to[r] = y[r];
      m[r] = hn::Set(d, mean[r]);
      s[r] = hn::Set(d, kKeeps<T> ? factors[r]->missed : factors[r]->mean);
      scale[r] = hn::Set(d, factors[r]->rstd);
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) sums[r][k] = rests[r][k] = products[r][k] = hn::Zero(d);
    }
    for (size_t i = 0; i < count; i += 4 * kLanes) {
#pragma GCC unroll 2
      for (size_t r = 0; r < kRows; ++r) fetched[r].template Fetch<kPast>(i, to[r]);
#pragma GCC unroll 4
      for (size_t rk = 0; rk < 2 * kRows; ++rk) {
        const size_t r = rk / 2, k = rk % 2 * 2;
        VF two[2];
        GetTwo<kRounding == Rounding::kNative>(d, of_sum[r] + i + k * kLanes, two[0], two[1]);
        sums[r][k] = R::Step(d, sums[r][k], two[0]), sums[r][k + 1] = R::Step(d, sums[r][k + 1], two[1]);
      }
#pragma GCC unroll 4
      for (size_t rk = 0; rk < 2 * kRows; ++rk) {
        const size_t r = rk / 2, k = rk % 2 * 2;
        VF two[2];
        GetTwo<kRounding == Rounding::kNative>(d, of_centre[r] + i + k * kLanes, two[0], two[1]);
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; ++j) {
          const VF v = hn::Sub(two[j], m[r]);
          if constexpr (kKeeps<T>) hn::StoreU(v, d, to_keep[r] + i + (k + j) * kLanes);
          if constexpr (kCorrects<T>) rests[r][k + j] = R::Step(d, rests[r][k + j], v);
          products[r][k + j] = R::Step(d, products[r][k + j], hn::Mul(v, v));
        }
      }
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        const size_t at = i + k * kLanes;
        VF g[2], b[2];
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; ++j) {
          g[j] = hn::LoadU(d, scales + at + j * kLanes);
          b[j] = hn::LoadU(d, shifts + at + j * kLanes);
        }
#pragma GCC unroll 2
        for (size_t r = 0; r < kRows; ++r) {
          VF two[2];
          if constexpr (kKeeps<T>) {
            two[0] = hn::LoadU(d, from[r] + at), two[1] = hn::LoadU(d, from[r] + at + kLanes);
          } else {
            GetTwo<kRounding == Rounding::kNative>(d, of_last[r] + at, two[0], two[1]);
          }
#pragma GCC unroll 2
          for (size_t j = 0; j < 2; ++j) {
            two[j] = hn::Mul(hn::Sub(two[j], s[r]), scale[r]);
            two[j] = hn::Add(hn::Mul(two[j], g[j]), b[j]);
          }
          PutInOrderOfWork<kPast, kRounding>(d, two[0], two[1], to[r] + at);
        }
      }
    }
    if constexpr (kRows == 2) {
      const D4 d4;
      HWY_ALIGN float all[4];
      hn::Store(hn::Div(FourTotals(sums[0], sums[1], products[0], products[1]),
                        hn::Set(d4, static_cast<float>(count))),
                d4, all);
      sum[0] = all[0], sum[1] = all[1], squares[0] = all[2], squares[1] = all[3];
    } else {
      sum[0] = MeanOf(TotalOf<T>(sums[0]), count), squares[0] = MeanOf(TotalOf<T>(products[0]), count);
      if constexpr (kCorrects<T>) rest[0] = MeanOf(TotalOf<T>(rests[0]), count);
    }
  }
};

// The same without a mean: two loops in one, over the row that is summed and the row that is written.
template <typename T>
struct RmsStep {
  using Value = T;
  static constexpr bool kCentred = false;
  static constexpr size_t kRows = 1;
  size_t n = 0;
  RowAhead<T> ahead;
  const T* summed = nullptr;
  const T* last = nullptr;  // times `rstd`, to y
  float rstd = 0;
  const float* gamma = nullptr;
  T* y = nullptr;
  double squares = 0;  // result

  template <bool kPast, Rounding kRounding>
  HWY_NOINLINE void Run() {
    const DF d;
    using R = SumReduction;
    const T *const of_sum = summed, *const from = last;
    const float* const scales = gamma;
    const RowAhead<T> fetched = ahead;
    T* const to = y;
    const size_t count = n;
    const VF scale = hn::Set(d, rstd);
    VF products[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) products[k] = hn::Zero(d);
    for (size_t i = 0; i < count; i += 4 * kLanes) {
      fetched.template Fetch<kPast>(i, to);
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        VF two[2];
        GetTwo<kRounding == Rounding::kNative>(d, of_sum + i + k * kLanes, two[0], two[1]);
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; ++j) products[k + j] = R::Step(d, products[k + j], hn::Mul(two[j], two[j]));
      }
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        const size_t at = i + k * kLanes;
        VF two[2];
        GetTwo<kRounding == Rounding::kNative>(d, from + at, two[0], two[1]);
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; ++j) {
          two[j] = hn::Mul(hn::Mul(two[j], scale), hn::LoadU(d, scales + at + j * kLanes));
        }
        PutInOrderOfWork<kPast, kRounding>(d, two[0], two[1], to + at);
      }
    }
    squares = TotalOf<T>(products);
  }
};

// The forms of a step that are only faster: instrumented, each takes half a minute to compile.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFastForms = false;
#else
constexpr bool kFastForms = true;
#endif

template <bool kPast, class Step>
HWY_INLINE void RunStepRounding(Step& step, Rounding rounding) {
  constexpr bool kMay = kFastForms && std::is_same_v<typename Step::Value, BF16>;
  constexpr bool kMayNative = kMay && kMayPackBf16 && Step::kCentred;
  if (kMayNative && rounding == Rounding::kNative) {
    step.template Run<kPast, kMayNative ? Rounding::kNative : Rounding::kAny>();
  } else if (kMay && rounding == Rounding::kFinite) {
    step.template Run<kPast, kMay ? Rounding::kFinite : Rounding::kAny>();
  } else {
    step.template Run<kPast, Rounding::kAny>();
  }
}
template <class Step>
HWY_INLINE void RunStep(Step& step, bool past, Rounding rounding) {
  if (kFastForms && past) return RunStepRounding<kFastForms>(step, rounding);
  RunStepRounding<false>(step, rounding);
}

// The least that is not zero of whole vectors.
HWY_INLINE float LeastMagnitude(const float* v, int64_t n) {
  const DF d;
  VF least = hn::Set(d, HUGE_VALF);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes)) {
    const VF x = hn::Abs(hn::LoadU(d, v + i));
    least = hn::Min(hn::IfThenElse(hn::Eq(x, hn::Zero(d)), least, x), least);
  }
  return hn::GetLane(hn::MinOfLanes(d, least));
}

// Which rows of a norm the processor may round. A difference that is not zero is at least 2^-25 of either
// side, so x - mean is at least that of the mean, the product with a factor that of the mean's, and the sum
// with beta that of beta: 2^-25 * 2^-100 is normal.
struct NativeRows {
  float least_gamma = 1;
  bool any = false;

  HWY_INLINE NativeRows(const RowArgs& a, bool may) {
    constexpr float kLeast = 0x1p-100f;
    if (!may || !isa::HasBf16Moves()) return;
    least_gamma = LeastMagnitude(a.gamma, a.cols);
    any = LeastMagnitude(a.beta, a.cols) >= kLeast;
  }
  HWY_INLINE bool Allow(const NormFactors& f) const {
    constexpr float kLeast = 0x1p-100f;
    return any && std::fabs(f.mean) >= kLeast && std::fabs(f.mean) * f.rstd >= kLeast &&
           std::fabs(f.mean) * f.rstd * least_gamma >= kLeast;
  }
};

// Rows that a pipeline takes, as far as type and places go.
template <typename T>
HWY_INLINE bool SuitsPipeline(const RowArgs& a) {
  constexpr int64_t kFewest = 32;  // some more steps than rows are taken
  if (a.rows < kFewest || a.cols > kKeptCols / 2 || a.cols % (4 * kLanes) != 0) return false;
  const intptr_t places = reinterpret_cast<intptr_t>(a.y) | (a.y_stride * static_cast<int64_t>(sizeof(T)));
  return !a.stream || places % 64 == 0;
}

// Which rows to fetch while others are worked on. They go into L1 where all that a step touches takes half of
// it: x of `steps` steps with those ahead, what is kept of two, gamma and beta. Where it takes more, lines
// fetched early push out what is being worked on, and L2 is near enough (rows of 768 f32 with an L1 of 32
// KiB: 1.7 times as fast).
struct Ahead {
  int64_t steps = 2;
  bool to_l1 = true;

  template <class Step>
  HWY_INLINE static Ahead Of(const RowArgs& a, int64_t steps) {
    using T = typename Step::Value;
    constexpr int64_t kRowBytes = static_cast<int64_t>(Step::kRows * sizeof(T)), kFloat = sizeof(float);
    constexpr int64_t vectors = Step::kCentred ? (kKeeps<T> ? 4 : 2) : 1;
    const bool to_l1 = 2 * a.cols * (steps * kRowBytes + vectors * kFloat) <= isa::HostCaches().l1d;
    return {to_l1 ? 2 : 3, to_l1};
  }
};

// False, and nothing is done: these rows want the loops one by one.
template <typename T>
HWY_INLINE bool RunNormPipeline(const RowArgs& a) {
  if (!SuitsPipeline<T>(a) || a.kind.norm.narrow == kCorrects<T>) return false;
  const T* const x = static_cast<const T*>(a.x);
  T* const y = static_cast<T*>(a.y);
  const auto row = [&](int64_t r) { return x + std::clamp<int64_t>(r, 0, a.rows - 1) * a.x_stride; };
  const int64_t stride = vector::ScratchStride(a.cols);
  using Step = NormStep<T>;
  constexpr int64_t kRows = Step::kRows;
  const Ahead ahead = Ahead::Of<Step>(a, kKeeps<T> ? 4 : 5);
  const int64_t steps = (a.rows + kRows - 1) / kRows;
  Step step;
  step.n = static_cast<size_t>(a.cols);
  step.gamma = InOrderOfWork<T>(a.gamma, a.cols, a.scratch + 4 * stride);
  step.beta = InOrderOfWork<T>(a.beta, a.cols, a.scratch + 5 * stride);
  const NativeRows native(a, kAlternates<T>);
  constexpr int64_t kFactors = 8;  // of rows between their sum and their end
  NormFactors of_row[kFactors];
  const auto factors = [&](int64_t r) HWY_ATTR -> NormFactors& { return of_row[r & (kFactors - 1)]; };
  for (int64_t t = 0; t < steps + 2; ++t) {
    Rounding rounding = Rounding::kNative;
    for (int64_t k = 0; k < kRows; ++k) {
      const int64_t summed = t * kRows + k, centred = summed - kRows, written = centred - kRows;
      const bool real = written >= 0 && written < a.rows;
      const NormFactors& f = factors(written);
      step.summed[k] = row(summed);
      step.ahead[k] = {reinterpret_cast<const char*>(row(summed + ahead.steps * kRows)), ahead.to_l1};
      step.centred[k] = row(centred);
      step.mean[k] = factors(centred).mean;
      step.factors[k] = &f;
      if constexpr (kKeeps<T>) {
        static_assert(!kKeeps<T> || kRows == 1);
        step.kept[k] = a.scratch + t % 2 * stride;
        step.last[k] = a.scratch + (t + 1) % 2 * stride;
      } else {
        step.written[k] = row(written);
      }
      step.y[k] = real ? y + written * a.y_stride : reinterpret_cast<T*>(a.scratch + (3 - k) * stride);
      const Rounding allowed = !real             ? Rounding::kNative
                               : native.Allow(f) ? Rounding::kNative
                               : f.Finite(a)     ? Rounding::kFinite
                                                 : Rounding::kAny;
      rounding = std::min(rounding, allowed);
    }
    if (!native.any) rounding = std::min(rounding, Rounding::kFinite);
    RunStep(step, a.stream, rounding);
    for (int64_t k = 0; k < kRows; ++k) {
      const int64_t summed = t * kRows + k, centred = summed - kRows;
      factors(summed).mean = step.sum[k];
      if (centred < 0 || centred >= a.rows) continue;
      factors(centred).CentredMeans(a, step.squares[k], step.rest[k]);
      factors(centred).Keep(a, centred);
    }
  }
  return true;
}
template <typename T>
HWY_INLINE bool RunRmsPipeline(const RowArgs& a) {
  if (!SuitsPipeline<T>(a)) return false;
  const T* const x = static_cast<const T*>(a.x);
  T* const y = static_cast<T*>(a.y);
  const auto row = [&](int64_t r) { return x + std::clamp<int64_t>(r, 0, a.rows - 1) * a.x_stride; };
  const int64_t stride = vector::ScratchStride(a.cols);
  constexpr int64_t kAhead = 3;  // rows, into L2 (with an L1 of 32 KiB: into L1 takes a tenth longer)
  RmsStep<T> step;
  step.ahead.to_l1 = false;
  step.n = static_cast<size_t>(a.cols);
  step.gamma = InOrderOfWork<T>(a.gamma, a.cols, a.scratch + 4 * stride);
  constexpr int64_t kFactors = 4;
  NormFactors of_row[kFactors];
  for (int64_t t = 0; t < a.rows + 1; ++t) {
    const int64_t written = t - 1;
    const NormFactors& f = of_row[written & (kFactors - 1)];
    step.summed = row(t);
    step.ahead.row = reinterpret_cast<const char*>(row(t + kAhead));
    step.last = row(written);
    step.rstd = f.rstd;
    step.y = written >= 0 ? y + written * a.y_stride : reinterpret_cast<T*>(a.scratch + 3 * stride);
    const bool finite = written >= 0 && f.Finite(a);
    RunStep(step, a.stream, finite ? Rounding::kFinite : Rounding::kAny);
    if (t >= a.rows) continue;
    of_row[t & (kFactors - 1)].Plain(a, step.squares);
    of_row[t & (kFactors - 1)].Keep(a, t);
  }
  return true;
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
