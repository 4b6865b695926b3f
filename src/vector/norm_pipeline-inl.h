// Layer norms of many rows as a pipeline: one loop over the columns sums row t, centres row t - 1 and writes
// row t - 2. Reading, arithmetic and writing go on all the time, where loops row by row wait for memory in
// the first and the last and for the ends of their sums in between (measured: 1.2 times as fast in bf16, 1.1
// in f32).
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
    variance = MeanOf(squares, n);
    missed = MeanOf(rest, n);
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

template <typename T>
HWY_INLINE void GetTwo(DF d, const T* p, VF& one, VF& other) {
  if constexpr (kAlternates<T>) {
    GetAlternating(d, p, one, other);
  } else {
    one = Get(d, p), other = Get(d, p + kLanes);
  }
}
// A step's values of cols, such as gamma, in the order in which rows are worked on.
template <typename T>
HWY_INLINE const float* InOrderOfWork(const float* v, int64_t cols, float* scratch) {
  if (!kAlternates<T> || v == nullptr) return v;
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

// What one step works on. Rows that are not there are stood in for by others, whose results nobody reads.
template <typename T>
struct NormStep {
  size_t n = 0;
  const T* summed = nullptr;
  const char* ahead = nullptr;  // what to fetch while `summed` is read
  bool ahead_to_l1 = true;      // else into L2
  const T* centred = nullptr;   // less `mean` to `kept`
  float mean = 0;
  float* kept = nullptr;
  const float* last = nullptr;  // what the step before kept, less `missed`, times `rstd`, to y
  float missed = 0, rstd = 0;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  T* y = nullptr;
  double sum = 0, rest = 0, squares = 0;  // results: of `summed`, and of what was kept

  // In the order of reduce-inl.h for rows of one chunk that are whole groups of four vectors.
  template <bool kGamma, bool kBeta, bool kPast, bool kFinite>
  HWY_NOINLINE void Run() {
    const DF d;
    using R = SumReduction;
    // Copies, which no store of a row may change.
    const T *const of_sum = summed, *const of_centre = centred;
    const float *const from = last, *const scales = gamma, *const shifts = beta;
    const char* const fetched = ahead;
    const bool to_l1 = ahead_to_l1;
    float* const to_keep = kept;
    T* const to = y;
    const size_t count = n;
    const VF m = hn::Set(d, mean), s = hn::Set(d, missed), scale = hn::Set(d, rstd);
    VF sums[4], rests[4], products[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) sums[k] = rests[k] = products[k] = hn::Zero(d);
    const auto value = [&](size_t at) HWY_ATTR {
      VF v = hn::Mul(hn::Sub(hn::LoadU(d, from + at), s), scale);
      if constexpr (kGamma) v = hn::Mul(v, hn::LoadU(d, scales + at));
      if constexpr (kBeta) v = hn::Add(v, hn::LoadU(d, shifts + at));
      return v;
    };
    for (size_t i = 0; i < count; i += 4 * kLanes) {
      for (size_t byte = 0; byte < 4 * kLanes * sizeof(T); byte += 64) {
        const char* const line = fetched + i * sizeof(T) + byte;
        to_l1 ? __builtin_prefetch(line, 0, 3) : __builtin_prefetch(line, 0, 2);
      }
      if constexpr (!kPast) {  // stores that wait for their lines hold up all others
        for (size_t byte = 0; byte < 4 * kLanes * sizeof(T); byte += 64)
          __builtin_prefetch(reinterpret_cast<const char*>(to + i) + 1024 + byte);
      }
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        VF two[2];
        GetTwo(d, of_sum + i + k * kLanes, two[0], two[1]);
        sums[k] = R::Step(d, sums[k], two[0]), sums[k + 1] = R::Step(d, sums[k + 1], two[1]);
      }
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        VF two[2];
        GetTwo(d, of_centre + i + k * kLanes, two[0], two[1]);
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; ++j) {
          const VF v = hn::Sub(two[j], m);
          hn::StoreU(v, d, to_keep + i + (k + j) * kLanes);
          rests[k + j] = R::Step(d, rests[k + j], v);
          products[k + j] = R::Step(d, products[k + j], hn::Mul(v, v));
        }
      }
#pragma GCC unroll 2
      for (size_t k = 0; k < 4; k += 2) {
        const size_t at = i + k * kLanes;
        if constexpr (kAlternates<T>) {
          PutAlternating<kPast, kFinite>(d, value(at), value(at + kLanes), to + at);
        } else {
          PutTwo<kPast, kFinite>(d, value(at), value(at + kLanes), to + at);
        }
      }
    }
    sum = TotalOf<T>(sums), rest = TotalOf<T>(rests), squares = TotalOf<T>(products);
  }
};

// The forms of a step that are only faster: instrumented, each takes half a minute to compile.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFastForms = false;
#else
constexpr bool kFastForms = true;
#endif

template <typename T, bool kGamma, bool kBeta, bool kPast>
HWY_INLINE void RunNormStep(NormStep<T>& step, bool finite) {
  constexpr bool kCares = kFastForms && std::is_same_v<T, BF16>;
  if (kCares && finite) return step.template Run<kGamma, kBeta, kPast, kCares>();
  step.template Run<kGamma, kBeta, kPast, false>();
}

// False, and nothing is done: these rows want the loops one by one.
template <typename T, bool kGamma, bool kBeta>
HWY_INLINE bool RunNormPipeline(const RowArgs& a) {
  constexpr int64_t kFewest = 32;  // two more steps than rows are taken
  if (a.rows < kFewest || a.cols > kKeptCols / 2 || a.cols % (4 * kLanes) != 0) return false;
  const T* const x = static_cast<const T*>(a.x);
  T* const y = static_cast<T*>(a.y);
  if (a.stream && (reinterpret_cast<intptr_t>(y) | (a.y_stride * static_cast<int64_t>(sizeof(T)))) % 64 != 0)
    return false;
  const auto row = [&](int64_t r) { return x + std::clamp<int64_t>(r, 0, a.rows - 1) * a.x_stride; };
  const int64_t stride = vector::ScratchStride(a.cols);
  // Rows ahead are fetched into L1 where all that a step touches takes half of it: four rows, two of scratch,
  // gamma and beta. Where it takes more, lines fetched early push out what is being worked on, and L2 is near
  // enough (rows of 768 with an L1 of 32 KiB: 1.7 times as fast).
  const int64_t touched = a.cols * static_cast<int64_t>(4 * sizeof(T) + (2 + kGamma + kBeta) * sizeof(float));
  const bool to_l1 = 2 * touched <= isa::HostCaches().l1d;
  const int64_t ahead = to_l1 ? 2 : 3;  // rows
  NormStep<T> step;
  step.ahead_to_l1 = to_l1;
  step.n = static_cast<size_t>(a.cols);
  step.gamma = InOrderOfWork<T>(a.gamma, a.cols, a.scratch + 3 * stride);
  step.beta = InOrderOfWork<T>(a.beta, a.cols, a.scratch + 4 * stride);
  NormFactors centred, written;
  for (int64_t t = 0; t < a.rows + 2; ++t) {
    step.summed = row(t);
    step.ahead = reinterpret_cast<const char*>(row(t + ahead));
    step.centred = row(t - 1);
    step.mean = centred.mean;
    step.kept = a.scratch + t % 2 * stride;
    step.last = a.scratch + (t + 1) % 2 * stride;
    step.missed = written.missed, step.rstd = written.rstd;
    step.y = t >= 2 ? y + (t - 2) * a.y_stride : reinterpret_cast<T*>(a.scratch + 2 * stride);
    const bool finite = t >= 2 && written.Finite(a);
    if (kFastForms && a.stream)
      RunNormStep<T, kGamma, kBeta, kFastForms>(step, finite);
    else
      RunNormStep<T, kGamma, kBeta, false>(step, finite);
    written = centred;
    written.Centred(a, step.squares, step.rest);
    if (t >= 1 && t <= a.rows) written.Keep(a, t - 1);
    centred.mean = MeanOf(step.sum, step.n);
  }
  return true;
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
