// Row templates: a row is read from memory once, worked on in L1, written once, by loops whose stages are
// known at compile time. Bit by bit equal to the interpreter: the reductions are those of reduce-inl.h, the
// stages those of stages-inl.h, in the program's order. Half types are converted in registers.
//
// While one row is worked on, the next is prefetched line by line inside the loops over the current one. A
// row beyond L1 is simply read again from L2 (or, far beyond, from memory) by the second and third loop.
#if defined(OPSNN_VECTOR_ROW_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_ROW_KERNELS_INL_H_
#undef OPSNN_VECTOR_ROW_KERNELS_INL_H_
#else
#define OPSNN_VECTOR_ROW_KERNELS_INL_H_
#endif

#include <cmath>
#include <type_traits>

#include "vector/element-inl.h"
#include "vector/norm_pipeline-inl.h"
#include "vector/reduce-inl.h"
#include "vector/row_template.h"
#include "vector/softmax_pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::NormOptions;
using vector::RowArgs;
using vector::RowFamily;

// Lines of the next row, per group of four vectors (a group of f32 is four lines under AVX-512): half of a
// group's bytes, so that the two reading loops have asked for all of them before the writing loop starts, and
// neither waits for the buffers of all those lines at once.
struct NextRow {
  const char* line;
  const char* end;
  int64_t step;    // bytes per group: one or two lines
  bool long_rows;  // which would push the current one out of L1: into L2 only
  HWY_INLINE void Group() {
    if (long_rows) {
      __builtin_prefetch(line, 0, 2);
      if (step > 64) __builtin_prefetch(line + 64, 0, 2);
    } else {
      hwy::Prefetch(line);
      if (step > 64) hwy::Prefetch(line + 64);
    }
    line += line < end ? step : 0;
  }
};

// Reads x, maps it in registers; nothing is stored.
template <typename T, class Map>
struct Reader {
  const T* x;
  NextRow& next;
  Map map;
  HWY_INLINE void Group() { next.Group(); }
  HWY_INLINE VF Whole(size_t i) const {
    const DF d;
    return map(d, Get(d, x + i));
  }
  HWY_INLINE VF Tail(size_t i, size_t n) const {
    const DF d;
    return map(d, GetTail(d, x + i, n));
  }
};
template <typename T, class Map>
HWY_INLINE Reader<T, Map> MakeReader(const T* x, NextRow& next, const Map& map) {
  return {x, next, map};
}
// The same, and the mapped value is kept in y before it is reduced.
template <typename T, class Map>
struct Keeper {
  const T* x;
  float* y;
  NextRow& next;
  Map map;
  HWY_INLINE void Group() { next.Group(); }
  HWY_INLINE VF Whole(size_t i) const {
    const DF d;
    const VF v = map(d, Get(d, x + i));
    hn::StoreU(v, d, y + i);
    return v;
  }
  HWY_INLINE VF Tail(size_t i, size_t n) const {
    const DF d;
    const VF v = map(d, GetTail(d, x + i, n));
    StoreTail(d, v, y + i, n);
    return v;
  }
};
template <typename T, class Map>
HWY_INLINE Keeper<T, Map> MakeKeeper(const T* x, float* y, NextRow& next, const Map& map) {
  return {x, y, next, map};
}

// y[i] = f(x[i], gamma[i], beta[i]) over a row, the vectors where they are asked for; the last loop, and the
// only one that writes.
template <bool kGamma, bool kBeta, bool kFinite, typename In, typename Out, class F>
HWY_INLINE void WriteRow(const RowArgs& a, const In* x, Out* y, NextRow& next, const F& f) {
  const DF d;
  const float* g = a.gamma;
  const float* b = a.beta;
  size_t n = static_cast<size_t>(a.cols), i = 0;
  auto value = [&](size_t at) HWY_ATTR {
    const VF gv = kGamma ? hn::LoadU(d, g + at) : hn::Zero(d),
             bv = kBeta ? hn::LoadU(d, b + at) : hn::Zero(d);
    return f(d, Get(d, x + at), gv, bv);
  };
  auto partial = [&](size_t at, size_t count) HWY_ATTR {
    const VF gv = kGamma ? LoadTail(d, g + at, count) : hn::Zero(d);
    const VF bv = kBeta ? LoadTail(d, b + at, count) : hn::Zero(d);
    PutTail(d, f(d, GetTail(d, x + at, count), gv, bv), y + at, count);
  };
  if (a.stream && reinterpret_cast<uintptr_t>(y) % sizeof(Out) == 0) {
    constexpr size_t kAlign = HWY_MAX_BYTES;
    const size_t misplaced = reinterpret_cast<uintptr_t>(y) % kAlign / sizeof(Out);
    const size_t head = HWY_MIN((kAlign / sizeof(Out) - misplaced) % (kAlign / sizeof(Out)), n);
    for (; i + kLanes <= head; i += kLanes) Put(d, value(i), y + i);
    if (i < head) partial(i, head - i), i = head;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      next.Group();
      PutTwo<true, kFinite>(d, value(i), value(i + kLanes), y + i);
      PutTwo<true, kFinite>(d, value(i + 2 * kLanes), value(i + 3 * kLanes), y + i + 2 * kLanes);
    }
  } else {
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      next.Group();
      PutTwo<false, kFinite>(d, value(i), value(i + kLanes), y + i);
      PutTwo<false, kFinite>(d, value(i + 2 * kLanes), value(i + 3 * kLanes), y + i + 2 * kLanes);
    }
  }
  for (; i + kLanes <= n; i += kLanes) Put(d, value(i), y + i);
  if (i < n) partial(i, n - i);
}

// The loops over a row: x for the mean, then for the squares, then for the result. Between them the row is
// kept as f32 in `kept`, with the mean taken out after the second, where kKeep says so: that is for rows that
// stay in L1 with it. Others are read again as they are.
template <bool kCentred, bool kKeep, typename T>
struct NormRow {
  static constexpr bool kWidens = kKeep && !std::is_same_v<T, float>;
  using Middle = std::conditional_t<kWidens, float, T>;
  using Last = std::conditional_t<kKeep, float, T>;
  static_assert(kCentred || !kKeep);

  const RowArgs& a;
  const T* x;
  T* y;
  float* kept;
  NextRow next;
  NormFactors f;

  HWY_INLINE void Mean() {
    if constexpr (!kCentred) return;
    const DF d;
    const size_t n = static_cast<size_t>(a.cols);
    const auto same = [](DF, VF v) HWY_ATTR { return v; };
    if constexpr (kWidens) {
      auto sum = MakeKeeper(x, kept, next, same);
      f.mean = MeanOf(ReduceRow<SumReduction>(d, n, sum), n);
    } else {
      auto sum = MakeReader(x, next, same);
      f.mean = MeanOf(ReduceRow<SumReduction>(d, n, sum), n);
    }
  }
  HWY_INLINE void Variance() {
    const DF d;
    const size_t n = static_cast<size_t>(a.cols);
    if constexpr (kCentred) {
      const VF m = hn::Set(d, f.mean);
      const auto centre = [m](DF, VF v) HWY_ATTR { return hn::Sub(v, m); };
      double rest, squares;
      if constexpr (kKeep) {
        auto centred = MakeKeeper(Source<Middle, kWidens>(), kept, next, centre);
        squares = SumSquaresRow(d, n, centred, &rest);
      } else {
        auto centred = MakeReader(x, next, centre);
        squares = SumSquaresRow(d, n, centred, &rest);
      }
      f.Centred(a, squares, rest);
    } else {
      const auto square = [](DF, VF v) HWY_ATTR { return hn::Mul(v, v); };
      auto squares = MakeReader(x, next, square);
      f.Plain(a, ReduceRow<SumReduction>(d, n, squares));
    }
  }
  HWY_INLINE void Write() {
    const DF d;
    const VF m = hn::Set(d, f.mean), s = hn::Set(d, f.missed), scale = hn::Set(d, f.rstd);
    const auto normal = [m, s, scale](DF, VF v, VF g, VF b) HWY_ATTR {
      if constexpr (kCentred && !kKeep) v = hn::Sub(v, m);
      VF r = hn::Mul(kCentred ? hn::Sub(v, s) : v, scale);
      r = hn::Mul(r, g);
      return kCentred ? hn::Add(r, b) : r;
    };
    const Last* const last = Source<Last, kKeep>();
    constexpr bool kCares = std::is_same_v<T, BF16>;
    if (kCares && f.Finite(a)) {
      WriteRow<true, kCentred, kCares>(a, last, y, next, normal);
    } else {
      WriteRow<true, kCentred, false>(a, last, y, next, normal);
    }
  }

 private:
  template <typename From, bool kKept>
  HWY_INLINE const From* Source() const {
    if constexpr (kKept)
      return kept;
    else
      return x;
  }
};

// What to fetch during a row: the one `distance` further down.
template <typename T>
HWY_INLINE NextRow NextOf(const RowArgs& a, int64_t row, const T* x, int64_t distance = 1) {
  constexpr int64_t kStep = sizeof(T) == 4 ? 128 : 64;
  constexpr int64_t kLong = 16 << 10;  // half of the smallest L1 in use
  const int64_t bytes = a.cols * static_cast<int64_t>(sizeof(T));
  if (a.ahead) return {a.ahead, a.ahead + a.ahead_bytes, kStep, bytes > kLong};
  const bool has_next = a.prefetch_next && row + distance < a.rows;
  const char* line = reinterpret_cast<const char*>(has_next ? x + distance * a.x_stride : x);
  return {line, has_next ? line + bytes : line, kStep, bytes > kLong};
}

template <class Row, int64_t kRows, typename T>
HWY_INLINE void NormSomeRows(const RowArgs& a, int64_t first) {
  static_assert(kRows == 1 || kRows == 2);
  const auto row = [&](int64_t k) HWY_ATTR {
    const T* x = static_cast<const T*>(a.x) + (first + k) * a.x_stride;
    return Row{a, x, static_cast<T*>(a.y) + (first + k) * a.y_stride,
               a.scratch + k * vector::ScratchStride(a.cols), NextOf(a, first + k, x, kRows)};
  };
  Row one = row(0), other = row(kRows - 1);
  one.Mean();
  if (kRows == 2) other.Mean();
  one.Variance();
  if (kRows == 2) other.Variance();
  one.Write();
  if (kRows == 2) other.Write();
  one.f.Keep(a, first);
  if (kRows == 2) other.f.Keep(a, first + 1);
}

template <typename T, bool kCentred>
void NormRows(const RowArgs& a) {
  using Kept = NormRow<kCentred, kCentred, T>;
  using Read = NormRow<kCentred, false, T>;
  int64_t r = 0;
  // Its twelve sums and three factors stay in registers only where there are 32.
  if constexpr (kCentred && kLanes == 16) {
    if (RunNormPipeline<T>(a)) return;
  }
  if constexpr (!kCentred && kLanes >= 8) {
    if (RunRmsPipeline<T>(a)) return;
  }
  if constexpr (kCentred) {
    // Two rows at a time: the sums of one are brought together while the other is read.
    for (; 2 * a.cols <= kKeptCols && r + 2 <= a.rows; r += 2) NormSomeRows<Kept, 2, T>(a, r);
    for (; a.cols <= kKeptCols && r < a.rows; ++r) NormSomeRows<Kept, 1, T>(a, r);
  }
  for (; r < a.rows; ++r) NormSomeRows<Read, 1, T>(a, r);
}

template <typename T>
HWY_INLINE float FindBounds(const T* x, size_t n, NextRow& next, float& least) {
  const DF d;
  Bounds bounds;
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    next.Group();
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) bounds.Add(k, Get(d, x + i + k * kLanes));
  }
  bounds.Rest(x, i, n);
  least = bounds.Least();
  return bounds.Most();
}

// The sum of e^(x - m), which `to` gets.
template <typename T>
HWY_INLINE double KeepExps(const T* x, size_t n, VF m, bool normal, float* to, NextRow& next) {
  const DF d;
  if (normal) {
    auto exps = MakeKeeper(x, to, next, [m](DF dd, VF v) HWY_ATTR { return ExpNormal(dd, hn::Sub(v, m)); });
    return ReduceRow<SumReduction>(d, n, exps);
  }
  auto exps = MakeKeeper(x, to, next, [m](DF dd, VF v) HWY_ATTR { return ExpUsual(dd, hn::Sub(v, m)); });
  return ReduceRow<SumReduction>(d, n, exps);
}

// Where the exponentials of row r are kept: in y, and scaled there; in scratch, for two rows in turn, where y
// is written past the caches or rounds.
template <typename T>
HWY_INLINE float* ExpsOf(const RowArgs& a, int64_t r) {
  if constexpr (std::is_same_v<T, float>) {
    if (!a.stream) return static_cast<float*>(a.y) + r * a.y_stride;
  }
  return a.scratch + r % 2 * vector::ScratchStride(a.cols);
}
// The last step for row r.
template <typename T>
HWY_INLINE void ScaleRow(const RowArgs& a, int64_t r, float reciprocal, NextRow& next) {
  const VF scale = hn::Set(DF(), reciprocal);
  const auto scaled = [scale](DF, VF v, VF, VF) HWY_ATTR { return hn::Mul(v, scale); };
  T* const y = static_cast<T*>(a.y) + r * a.y_stride;
  constexpr bool kCares = std::is_same_v<T, BF16>;
  if (kCares && std::isfinite(reciprocal)) {  // then every exponential is
    WriteRow<false, false, kCares>(a, ExpsOf<T>(a, r), y, next, scaled);
  } else {
    WriteRow<false, false, false>(a, ExpsOf<T>(a, r), y, next, scaled);
  }
}

// What log softmax takes off each value of row r, which is written where there is a y.
template <typename T>
HWY_INLINE void FinishLogRow(const RowArgs& a, int64_t r, float most, float log_sum, NextRow& next) {
  const DF d;
  if (a.mean != nullptr) a.mean[r * a.mean_stride] = most;
  if (a.rstd != nullptr) a.rstd[r * a.rstd_stride] = log_sum;
  if (a.y == nullptr) return;
  const VF m = hn::Set(d, most), l = hn::Set(d, log_sum);
  WriteRow<false, false, false>(a, static_cast<const T*>(a.x) + r * a.x_stride,
                                static_cast<T*>(a.y) + r * a.y_stride, next,
                                [m, l](DF, VF v, VF, VF) HWY_ATTR { return hn::Sub(hn::Sub(v, m), l); });
}

// The rows from r on, whose bounds are given, up to the first that is not all normal, which is returned with
// its bounds.
template <typename T, bool kLog>
HWY_INLINE int64_t RunSoftmaxPipeline(const RowArgs& a, int64_t r, float& most, float& least) {
  const T* const x = static_cast<const T*>(a.x);
  SoftmaxStep<T, kLog> step;
  step.n = static_cast<size_t>(a.cols);
  step.next_most = most, step.next_least = least;
  for (const int64_t first = r; r < a.rows && AllNormal(step.next_most, step.next_least); ++r) {
    step.last_x = step.x, step.last_most = step.most;
    step.x = x + r * a.x_stride;
    step.next = r + 1 < a.rows ? step.x + a.x_stride : step.x;
    step.most = step.next_most;
    step.last = step.exps;
    if constexpr (!kLog) step.exps = ExpsOf<T>(a, r);
    step.y = static_cast<T*>(a.y) + (r - 1) * a.y_stride;
    if (r == first || a.y == nullptr) {
      step.template Run<false, false>();
    } else if (kFastForms && a.stream) {
      step.template Run<true, kFastForms>();
    } else {
      step.template Run<true, false>();
    }
    step.scale = kLog ? LogOf(step.sum) : ReciprocalOf(step.sum);
    if (kLog && a.mean != nullptr) a.mean[r * a.mean_stride] = step.most;
    if (kLog && a.rstd != nullptr) a.rstd[r * a.rstd_stride] = step.scale;
  }
  most = step.next_most, least = step.next_least;
  NextRow next = NextOf(a, a.rows, x);
  if constexpr (kLog) {
    FinishLogRow<T>(a, r - 1, step.most, step.scale, next);
  } else {
    ScaleRow<T>(a, r - 1, step.scale, next);
  }
  return r;
}

template <typename T, bool kLog>
void SoftmaxRows(const RowArgs& a) {
  const DF d;
  const size_t n = static_cast<size_t>(a.cols);
  // As in RunNormPipeline. Halves are worth a pipeline of their own (x86_softmax_bf16.cc) or too rare for
  // one.
  const intptr_t places = reinterpret_cast<intptr_t>(a.y) | a.y_stride * static_cast<int64_t>(sizeof(T));
  constexpr bool kPipeline = kLanes == 16 && std::is_same_v<T, float>;
  const bool pipeline = kPipeline && (!a.stream || places % 64 == 0);
  for (int64_t r = 0; r < a.rows; ++r) {
    NextRow next = NextOf(a, r, static_cast<const T*>(a.x) + r * a.x_stride);
    float least;
    float most = FindBounds(static_cast<const T*>(a.x) + r * a.x_stride, n, next, least);
    if constexpr (kPipeline) {
      if (pipeline && r + 1 < a.rows && AllNormal(most, least)) {
        r = RunSoftmaxPipeline<T, kLog>(a, r, most, least);
        if (r == a.rows) return;
      }
    }
    const T* const x = static_cast<const T*>(a.x) + r * a.x_stride;
    const VF m = hn::Set(d, most);
    if constexpr (kLog) {
      auto exps = MakeReader(x, next, [m](DF dd, VF v) HWY_ATTR { return ExpUsual(dd, hn::Sub(v, m)); });
      FinishLogRow<T>(a, r, most, LogOf(ReduceRow<SumReduction>(d, n, exps)), next);
    } else {
      const double sum = KeepExps(x, n, m, AllNormal(most, least), ExpsOf<T>(a, r), next);
      ScaleRow<T>(a, r, ReciprocalOf(sum), next);
    }
  }
}

template <typename T>
void RunRows(const RowArgs& a) {
  switch (a.kind.family) {
    case RowFamily::kLayerNorm:
      return NormRows<T, true>(a);
    case RowFamily::kRmsNorm:
      return NormRows<T, false>(a);
    case RowFamily::kSoftmax:
      return SoftmaxRows<T, false>(a);
    case RowFamily::kLogSoftmax:
      return SoftmaxRows<T, true>(a);
    case RowFamily::kNone:
      return;
  }
}

}  // namespace
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
