// The loop of a pass, written once: operands, tails, prefetch and streaming stores around a register functor.
#if defined(OPSNN_VECTOR_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_PASS_INL_H_
#undef OPSNN_VECTOR_PASS_INL_H_
#else
#define OPSNN_VECTOR_PASS_INL_H_
#endif

#include <cstring>

#include "isa/cache.h"
#include "isa/hwy.h"
#include "vector/pass.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
inline constexpr size_t kLanes = HWY_MAX_BYTES / sizeof(float);

// The first n < kLanes values, zeros behind. The masked loads of AVX do not touch what they skip; SSE4 has
// none.
HWY_INLINE VF LoadTail(DF d, const float* HWY_RESTRICT p, size_t n) {
  if constexpr (kLanes == 4) {
    HWY_ALIGN float buffer[kLanes] = {};
    for (size_t i = 0; i < n; ++i) buffer[i] = p[i];
    return hn::Load(d, buffer);
  } else {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  }
}
HWY_INLINE void StoreTail(DF d, VF v, float* HWY_RESTRICT p, size_t n) {
  if constexpr (kLanes == 4) {
    HWY_ALIGN float buffer[kLanes];
    hn::Store(v, d, buffer);
    for (size_t i = 0; i < n; ++i) p[i] = buffer[i];
  } else {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  }
}

// The lines of one group of four vectors; see PassArgs.
HWY_INLINE const char* PrefetchGroup(const char* line, int64_t step) {
  hwy::Prefetch(line);
  if (step > 64) {
    hwy::Prefetch(line + 64);
    if (step > 128) hwy::Prefetch(line + 128), hwy::Prefetch(line + 192);
  }
  return line + step;
}

// A vector for each repeated operand. Not part of the cursor, whose pointers would then have to be reloaded
// after every store, and such loads wait for stores in flight to other pages (4 KiB apart) to finish.
template <int kArity>
struct Splats {
  HWY_ALIGN float values[(kArity > 0 ? kArity : 1) * kLanes];
};

// Where the operands of one row are. A repeated value is splatted and then stays put.
template <int kArity>
struct RowCursor {
  const float* p[kArity > 0 ? kArity : 1];
  size_t inc[kArity > 0 ? kArity : 1];  // per vector: kLanes or 0

  HWY_INLINE void SetRow(DF d, const vector::PassArgs& a, int64_t row, Splats<kArity>& splats) {
#pragma GCC unroll 4
    for (int k = 0; k < kArity; ++k) {
      const float* src = static_cast<const float*>(a.src[k].data) + row * a.src[k].row_stride;
      if (a.src[k].step == 0) {
        hn::Store(hn::Set(d, *src), d, splats.values + k * kLanes);
        src = splats.values + k * kLanes;
      }
      p[k] = src;
      inc[k] = a.src[k].step == 0 ? 0 : kLanes;
    }
  }
  template <class F>
  HWY_INLINE VF Eval(DF d, size_t vec, const F& f) const {
    if constexpr (kArity == 0) return f(d);
    if constexpr (kArity == 1) return f(d, hn::LoadU(d, p[0] + vec * inc[0]));
    if constexpr (kArity == 2)
      return f(d, hn::LoadU(d, p[0] + vec * inc[0]), hn::LoadU(d, p[1] + vec * inc[1]));
    if constexpr (kArity == 3) {
      return f(d, hn::LoadU(d, p[0] + vec * inc[0]), hn::LoadU(d, p[1] + vec * inc[1]),
               hn::LoadU(d, p[2] + vec * inc[2]));
    }
    if constexpr (kArity == 4) {
      return f(d, hn::LoadU(d, p[0] + vec * inc[0]), hn::LoadU(d, p[1] + vec * inc[1]),
               hn::LoadU(d, p[2] + vec * inc[2]), hn::LoadU(d, p[3] + vec * inc[3]));
    }
  }
  // n <= kLanes elements.
  template <class F>
  HWY_INLINE VF EvalFew(DF d, size_t n, const F& f) const {
    auto get = [&](int k) HWY_ATTR {
      return inc[k] == 0 || n == kLanes ? hn::LoadU(d, p[k]) : LoadTail(d, p[k], n);
    };
    if constexpr (kArity == 0) return f(d);
    if constexpr (kArity == 1) return f(d, get(0));
    if constexpr (kArity == 2) return f(d, get(0), get(1));
    if constexpr (kArity == 3) return f(d, get(0), get(1), get(2));
    if constexpr (kArity == 4) return f(d, get(0), get(1), get(2), get(3));
  }
  HWY_INLINE void Advance(size_t vectors) {
#pragma GCC unroll 4
    for (int k = 0; k < kArity; ++k) p[k] += vectors * inc[k];
  }
  HWY_INLINE void AdvanceElements(size_t n) {
#pragma GCC unroll 4
    for (int k = 0; k < kArity; ++k) p[k] += inc[k] == 0 ? 0 : n;
  }
};

// dst = f(src...) over all rows; f(d, v...) -> vector. In place is fine: every vector is read before it is
// written.
template <int kArity, class F>
HWY_INLINE void RunPass(const vector::PassArgs& a, const F& f) {
  constexpr size_t kUnroll = 4;  // vectors per group
  // Two vectors are stored before the next two are loaded: four loads and then four stores take half as long
  // again where the operands are in L2.
  constexpr size_t kPair = 2;
  const DF d;
  const bool stream = a.stream, fetch_dst = a.fetch_dst;
  const int64_t prefetch_step = a.prefetch_step;
  const char* prefetch = a.prefetch;
  Splats<kArity> splats;
  for (int64_t row = 0; row < a.rows; ++row) {
    RowCursor<kArity> cursor;
    cursor.SetRow(d, a, row, splats);
    float* dst = static_cast<float*>(a.dst) + row * a.dst_row_stride;
    size_t n = static_cast<size_t>(a.cols), few = 0;
    if (stream) {  // streaming stores want whole aligned vectors: a short head first
      const size_t head =
          (HWY_MAX_BYTES - reinterpret_cast<uintptr_t>(dst) % HWY_MAX_BYTES) % HWY_MAX_BYTES / 4;
      if (head < n) few = head;
    }
    for (;;) {
      // Less than a group: the head, then what is left. One place for both: f is long, and compiled for each.
      for (n -= few; few != 0;) {
        const size_t some = HWY_MIN(few, kLanes);
        const VF v = cursor.EvalFew(d, some, f);
        some == kLanes ? hn::StoreU(v, d, dst) : StoreTail(d, v, dst, some);
        cursor.AdvanceElements(some);
        dst += some, few -= some;
      }
      if (n == 0) break;
      for (; n >= kUnroll * kLanes; n -= kUnroll * kLanes) {
        prefetch = PrefetchGroup(prefetch, prefetch_step);
        if (fetch_dst) {                  // stores that wait for their lines hold up all others
          constexpr size_t kAhead = 256;  // 1 KiB
          for (size_t at = 0; at < kUnroll * kLanes; at += 64 / sizeof(float))
            hwy::Prefetch(dst + kAhead + at);
        }
#pragma GCC unroll 2
        for (size_t k = 0; k < kUnroll; k += kPair) {
          const VF v0 = cursor.Eval(d, k, f), v1 = cursor.Eval(d, k + 1, f);
          float* const to = dst + k * kLanes;
          if (HWY_UNLIKELY(stream)) {
            hn::Stream(v0, d, to), hn::Stream(v1, d, to + kLanes);
          } else {
            hn::StoreU(v0, d, to), hn::StoreU(v1, d, to + kLanes);
          }
        }
        cursor.Advance(kUnroll);
        dst += kUnroll * kLanes;
      }
      few = n;
    }
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
