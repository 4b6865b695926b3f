// Softmax of several rows as a pipeline: one loop over the columns looks for the bounds of row t + 1, takes
// the exponentials of row t and scales row t - 1. Arithmetic goes on while memory is read and written, where
// loops row by row do one after the other (measured on rows of 32000: 1.2 times as fast in the caches, 1.4
// times with stores past them).
#if defined(OPSNN_VECTOR_SOFTMAX_PIPELINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_SOFTMAX_PIPELINE_INL_H_
#undef OPSNN_VECTOR_SOFTMAX_PIPELINE_INL_H_
#else
#define OPSNN_VECTOR_SOFTMAX_PIPELINE_INL_H_
#endif

#include "vector/element-inl.h"
#include "vector/reduce-inl.h"
#include "vector/row_template.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::RowArgs;

// The largest number of a row, and the least. A NaN may be passed over, as it makes the sum of exponentials
// NaN and with it the whole row.
struct Bounds {
  VF high[4], low[4];
  HWY_INLINE Bounds() {
    const DF d;
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k)
      high[k] = hn::Set(d, -__builtin_inff()), low[k] = hn::Set(d, __builtin_inff());
  }
  HWY_INLINE void Add(size_t k, VF v) { high[k] = hn::Max(v, high[k]), low[k] = hn::Min(v, low[k]); }
  // Elements [i, n), fewer than four vectors.
  template <typename T>
  HWY_INLINE void Rest(const T* x, size_t i, size_t n) {
    const DF d;
    for (; i + kLanes <= n; i += kLanes) Add(0, Get(d, x + i));
    if (i == n) return;
    const auto inside = hn::FirstN(d, n - i);
    const VF v = GetTail(d, x + i, n - i);
    high[1] = hn::Max(hn::IfThenElse(inside, v, high[1]), high[1]);
    low[1] = hn::Min(hn::IfThenElse(inside, v, low[1]), low[1]);
  }
  HWY_INLINE float Most() const {
    const DF d;
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(high[0], high[1]), hn::Max(high[2], high[3]))));
  }
  HWY_INLINE float Least() const {
    const DF d;
    return hn::GetLane(hn::MinOfLanes(d, hn::Min(hn::Min(low[0], low[1]), hn::Min(low[2], low[3]))));
  }
};

// ExpNormal is the answer for all of a row.
HWY_INLINE bool AllNormal(float most, float least) { return most - least < 87.0f; }

// 1 / sum as the Div stage has it: in a short vector, which divides in a quarter of the time.
HWY_INLINE float ReciprocalOf(double sum) {
  const hn::CappedTag<float, 4> d4;
  return hn::GetLane(hn::Div(hn::Set(d4, 1.0f), hn::Set(d4, static_cast<float>(sum))));
}

// As the Log stage has it.
HWY_INLINE float LogOf(double sum) {
  const DF d;
  return hn::GetLane(Log(d, hn::Set(d, static_cast<float>(sum))));
}

// kLog: exponentials are only summed; (x - most) - scale of the row before is written.
template <typename T, bool kLog>
struct SoftmaxStep {
  size_t n = 0;
  const T* next = nullptr;  // whose bounds are looked for
  const T* x = nullptr;     // e^(x - most) to exps
  float most = 0;
  float* exps = nullptr;
  const float* last = nullptr;  // what the step before put there, times `scale`, to y; may be y
  const T* last_x = nullptr;    // or what it read
  float scale = 0, last_most = 0;
  T* y = nullptr;
  float next_most = 0, next_least = 0;  // results
  double sum = 0;                       // in the order of reduce-inl.h

  template <bool kWrites, bool kPast>
  HWY_NOINLINE void Run() {
    const DF d;
    using R = SumReduction;
    // Copies, which no store of a row may change.
    const T *const of_bounds = next, *const of_exps = x;
    const float* const from = last;
    const T* const from_x = last_x;
    float* const kept = exps;
    T* const to = y;
    const size_t count = n;
    const VF m = hn::Set(d, most), last_m = hn::Set(d, last_most), f = hn::Set(d, scale);
    Bounds bounds;
    double total = 0;
    const auto exponential = [&](size_t at) HWY_ATTR {
      const VF e = ExpNormal(d, hn::Sub(Get(d, of_exps + at), m));
      if constexpr (!kLog) hn::StoreU(e, d, kept + at);
      return e;
    };
    const auto finished = [&](VF v)
                              HWY_ATTR { return kLog ? hn::Sub(hn::Sub(v, last_m), f) : hn::Mul(v, f); };
    const auto scaled = [&](size_t at) HWY_ATTR {
      if constexpr (kLog)
        return finished(Get(d, from_x + at));
      else
        return finished(hn::LoadU(d, from + at));
    };
    for (size_t c = 0; c < count; c += kReduceChunk) {
      const size_t end = HWY_MIN(c + kReduceChunk, count);
      VF s[4];
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) s[k] = hn::Zero(d);
      size_t i = c;
      for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
        // What is written as well: stores that wait for their lines hold up all others.
        constexpr size_t kAhead = 1024;  // bytes
        if constexpr (!kLog) {
          for (size_t at = 0; at < 4 * kLanes; at += 64 / sizeof(float))
            hwy::Prefetch(reinterpret_cast<const char*>(kept + i + at) + kAhead);
        }
        if constexpr (kLog && kWrites && !kPast) {
          for (size_t at = 0; at < 4 * kLanes; at += 64 / sizeof(T))
            hwy::Prefetch(reinterpret_cast<const char*>(to + i + at) + kAhead);
        }
        for (size_t at = 0; at < 4 * kLanes; at += 64 / sizeof(T))
          hwy::Prefetch(reinterpret_cast<const char*>(of_bounds + i + at) + kAhead);
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; ++k) bounds.Add(k, Get(d, of_bounds + i + k * kLanes));
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; ++k) s[k] = R::Step(d, s[k], exponential(i + k * kLanes));
        if constexpr (kWrites) {
#pragma GCC unroll 2
          for (size_t k = 0; k < 4; k += 2) {
            const size_t at = i + k * kLanes;
            PutTwo<kPast, false>(d, scaled(at), scaled(at + kLanes), to + at);
          }
        }
      }
#pragma GCC unroll 3
      for (size_t k = 0; k < 3; ++k) {
        if (i + kLanes > end) continue;
        s[k] = R::Step(d, s[k], exponential(i));
        if constexpr (kWrites) Put(d, scaled(i), to + i);
        i += kLanes;
      }
      if (i < end) {
        const size_t rest = end - i;
        const VF e = ExpNormal(d, hn::Sub(GetTail(d, of_exps + i, rest), m));
        if constexpr (!kLog) StoreTail(d, e, kept + i, rest);
        s[3] = R::Step(d, s[3], hn::IfThenElseZero(hn::FirstN(d, rest), e));
        if constexpr (kWrites && kLog) PutTail(d, finished(GetTail(d, from_x + i, rest)), to + i, rest);
        if constexpr (kWrites && !kLog) PutTail(d, finished(LoadTail(d, from + i, rest)), to + i, rest);
      }
      total += R::Lanes(d, R::Step(d, R::Step(d, s[0], s[1]), R::Step(d, s[2], s[3])));
    }
    bounds.Rest(of_bounds, count / (4 * kLanes) * (4 * kLanes), count);
    next_most = bounds.Most(), next_least = bounds.Least();
    sum = total;
  }
};

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
