// Positions of extremes. Rows along memory: the largest key of each block of a row, then a search in the one
// block that has it. Rows side by side: keys and positions of a panel of them advance together. The last
// among equals is the first from the other end, so that only a strictly larger key ever replaces another.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/select.h"
#include "kernels/gather/with_type.h"
#include "kernels/transpose/tile.h"

#ifndef OPSNN_KERNELS_GATHER_ARG_EXTREME_PARTS
#define OPSNN_KERNELS_GATHER_ARG_EXTREME_PARTS
namespace opsnn::kernels {

constexpr int64_t kPanelBytes = 2048;  // of all rows' elements: what a prefetcher follows

// `n` elements along memory, or a panel of rows side by side: element j of row i is x[j * stride + i].
struct ArgPart {
  DType dtype = DType::kF32;
  bool largest = true, last = false;
  const void* x = nullptr;
  int64_t n = 0;
  int64_t stride = 1, rows = 1;  // panels: at most kPanelBytes of rows
  int64_t* position = nullptr;   // one per row, from the part's beginning
};

}  // namespace opsnn::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather/arg_extreme.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gather/order_key-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
using FullTag = hn::ScalableTag<KeyOf<T>>;
template <typename T>
using ArgKey = OrderKey<T, NanRule::kFirst, FullTag<T>>;

// The largest key of x[0, n), in every lane; n is a vector at least.
template <typename T>
HWY_INLINE hn::Vec<FullTag<T>> LargestKey(const ArgKey<T>& key, const T* x, int64_t n) {
  const FullTag<T> d;
  using V = hn::Vec<FullTag<T>>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  V most[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) most[k] = key(x);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) most[k] = hn::Max(most[k], key(x + i + k * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) most[0] = hn::Max(most[0], key(x + i));
  if (i < n) most[1] = hn::Max(most[1], key(x + n - kLanes));
  return hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
}

template <class D>
HWY_INLINE uint64_t BitsOf(D d, hn::Mask<D> m) {
  uint64_t bits = 0;
  hn::StoreMaskBits(d, m, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

// Where x[0, n) has the key `sought`, which it has.
template <typename T>
HWY_INLINE int64_t FirstWithKey(const ArgKey<T>& key, const T* x, int64_t n, hn::Vec<FullTag<T>> sought) {
  const FullTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t i = 0;; i = std::min(i + kLanes, n - kLanes)) {
    const uint64_t hit = BitsOf(d, hn::Eq(key(x + i), sought));
    if (hit != 0) return i + std::countr_zero(hit);
  }
}
template <typename T>
HWY_INLINE int64_t LastWithKey(const ArgKey<T>& key, const T* x, int64_t n, hn::Vec<FullTag<T>> sought) {
  const FullTag<T> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  for (int64_t i = n - kLanes;; i = std::max<int64_t>(i - kLanes, 0)) {
    const uint64_t hit = BitsOf(d, hn::Eq(key(x + i), sought));
    if (hit != 0) return i + 63 - std::countl_zero(hit);
  }
}

template <typename T>
void RowT(const ArgPart& p) {
  const FullTag<T> d;
  using K = KeyOf<T>;
  constexpr int64_t kBlockBytes = 4096;
  constexpr int64_t kLanes = hn::MaxLanes(d), kBlock = kBlockBytes / static_cast<int64_t>(sizeof(T));
  const T* const x = static_cast<const T*>(p.x);
  const ArgKey<T> key(d, p.largest);
  hn::Vec<FullTag<T>> best = hn::Zero(d);
  int64_t best_begin = -1, best_n = 0;
  const int64_t blocks = (p.n + kBlock - 1) / kBlock;
  for (int64_t b = 0; b < blocks; ++b) {
    // The last block of a row may reach back into the one before, as it must be a vector at least: what it
    // shares with that is not strictly larger, or was not seen yet.
    const int64_t end = std::min(((p.last ? blocks - 1 - b : b) + 1) * kBlock, p.n);
    const int64_t begin = std::max<int64_t>(std::min((end - 1) / kBlock * kBlock, end - kLanes), 0);
    const auto most = LargestKey<T>(key, x + begin, end - begin);
    if (best_begin >= 0 && hn::AllFalse(d, hn::Gt(most, best))) continue;
    HWY_ALIGN K lanes[kLanes];
    hn::Store(most, d, lanes);
    best = hn::Set(d, *std::max_element(lanes, lanes + kLanes));
    best_begin = begin, best_n = end - begin;
  }
  *p.position = best_begin + (p.last ? LastWithKey<T>(key, x + best_begin, best_n, best)
                                     : FirstWithKey<T>(key, x + best_begin, best_n, best));
}

// Positions as numbers of a key's size: a segment has no more elements than they can count.
template <typename T>
struct PanelState {
  static constexpr int64_t kMost = kPanelBytes / static_cast<int64_t>(sizeof(T));
  using Unsigned = hwy::MakeUnsigned<KeyOf<T>>;
  alignas(64) KeyOf<T> best[kMost];
  alignas(64) Unsigned at[kMost];
};

// Rows [row, row + lanes) over `count` elements, `first` the number of the first of them in its segment.
template <typename T, class D>
HWY_INLINE void AdvanceRows(D d, const OrderKey<T, NanRule::kFirst, D>& key, const T* x, int64_t step,
                            int64_t count, int64_t first, KeyOf<T>* best, hwy::MakeUnsigned<KeyOf<T>>* at) {
  using U = hwy::MakeUnsigned<KeyOf<T>>;
  const hn::RebindToUnsigned<D> du;
  auto b = hn::LoadU(d, best);
  auto p = hn::LoadU(du, at);
  for (int64_t j = 0; j < count; ++j) {
    const auto v = key(x + j * step);
    const auto larger = hn::Gt(v, b);
    b = hn::IfThenElse(larger, v, b);
    p = hn::IfThenElse(hn::RebindMask(du, larger), hn::Set(du, static_cast<U>(first + j)), p);
  }
  hn::StoreU(b, d, best);
  hn::StoreU(p, du, at);
}

template <typename T>
void PanelT(const ArgPart& p) {
  const FullTag<T> d;
  const hn::CappedTag<KeyOf<T>, 1> d1;
  using State = PanelState<T>;
  constexpr int64_t kLanes = hn::MaxLanes(d), kGroup = 8;
  constexpr uint64_t kSegment =
      std::min<uint64_t>(std::numeric_limits<typename State::Unsigned>::max(), uint64_t{1} << 40);
  const ArgKey<T> key(d, p.largest);
  const OrderKey<T, NanRule::kFirst, hn::CappedTag<KeyOf<T>, 1>> key1(d1, p.largest);
  const int64_t step = p.last ? -p.stride : p.stride;
  const T* x = static_cast<const T*>(p.x) + (p.last ? (p.n - 1) * p.stride : 0);
  const int64_t whole = p.rows / kLanes * kLanes;
  State s;
  KeyOf<T> best[State::kMost];
  for (int64_t begin = 0; begin < p.n; begin += static_cast<int64_t>(kSegment)) {
    const int64_t n = std::min(static_cast<int64_t>(kSegment), p.n - begin);
    std::fill_n(s.at, p.rows, 0);
    for (int64_t i = 0; i < whole; i += kLanes) hn::StoreU(key(x + i), d, s.best + i);
    for (int64_t i = whole; i < p.rows; ++i) hn::StoreU(key1(x + i), d1, s.best + i);
    for (int64_t j = 1; j < n; j += kGroup) {
      const T* const group = x + j * step;
      const int64_t count = std::min(kGroup, n - j);
      for (int64_t i = 0; i < whole; i += kLanes)
        AdvanceRows<T>(d, key, group + i, step, count, j, s.best + i, s.at + i);
      for (int64_t i = whole; i < p.rows; ++i)
        AdvanceRows<T>(d1, key1, group + i, step, count, j, s.best + i, s.at + i);
    }
    for (int64_t i = 0; i < p.rows; ++i) {
      if (begin != 0 && s.best[i] <= best[i]) continue;
      best[i] = s.best[i];
      const int64_t visited = begin + static_cast<int64_t>(s.at[i]);
      p.position[i] = p.last ? p.n - 1 - visited : visited;
    }
    x += n * step;
  }
}

}  // namespace

void ArgRowTier(const ArgPart& p) {
  WithType(p.dtype, [&](auto t) HWY_ATTR { RowT<decltype(t)>(p); });
}
void ArgPanelTier(const ArgPart& p) {
  WithType(p.dtype, [&](auto t) HWY_ATTR { PanelT<decltype(t)>(p); });
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::kernels {
namespace {

OPSNN_TIER_TABLE(ArgRowTier);
OPSNN_TIER_TABLE(ArgPanelTier);

// Rows shorter than this are turned to lie side by side: a search would take longer than the scan.
constexpr int64_t kShortRowBytes = 128;
constexpr int64_t kTurnedRows = 256;
constexpr int64_t kTaskBytes = 64 << 10;

// Does the element of part b replace that of part a, which was looked at before?
template <typename T>
bool Replaces(T b, T a, bool largest) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return Replaces(ToFloat(b), ToFloat(a), largest);
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (b != b || a != a) return a == a;
    }
    return largest ? b > a : b < a;
  }
}

class ArgRun {
 public:
  ArgRun(const AxisParams& p, bool largest, bool last, int64_t* dst)
      : p_(p), size_(static_cast<int64_t>(SizeOf(p.dtype))), dst_(dst) {
    part_.dtype = p.dtype;
    part_.largest = largest, part_.last = last;
  }

  void Run() {
    if (p_.inner == 1 && p_.n * size_ < kShortRowBytes) return RunTurned();
    panel_ = p_.inner == 1 ? 1 : std::min(kPanelBytes / size_, p_.inner);
    panels_ = (p_.inner + panel_ - 1) / panel_;
    const int64_t units = p_.outer * panels_, unit_bytes = p_.n * panel_ * size_;
    const int64_t threads = units * unit_bytes < 2 * kTaskBytes ? 1 : ThreadsAvailable();
    // Few rows, or panels of them: their axis is shared, too. Each share counts from its own beginning.
    if (units < 2 * threads && unit_bytes >= 2 * kTaskBytes) return RunShares(units, threads);
    const int64_t group =
        threads == 1 ? units : std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(unit_bytes, 1));
    ParallelFor((units + group - 1) / group, [&](int64_t t, int) {
      for (int64_t u = t * group; u < std::min(units, (t + 1) * group); ++u)
        RunUnit(u, 0, p_.n, Positions(u));
    });
  }

 private:
  int64_t* Positions(int64_t unit) const {
    return dst_ + unit / panels_ * p_.inner + unit % panels_ * panel_;
  }
  int64_t Rows(int64_t unit) const { return std::min(panel_, p_.inner - unit % panels_ * panel_); }
  const char* First(int64_t unit) const {
    return static_cast<const char*>(p_.src) +
           (unit / panels_ * p_.n * p_.inner + unit % panels_ * panel_) * size_;
  }

  // Elements [begin, end) of the axis.
  void RunUnit(int64_t unit, int64_t begin, int64_t end, int64_t* position) const {
    ArgPart a = part_;
    a.x = First(unit) + begin * p_.inner * size_;
    a.n = end - begin;
    a.stride = p_.inner;
    a.rows = Rows(unit);
    a.position = position;
    // A few elements are a panel of one row.
    p_.inner == 1 && a.n* size_ >= kShortRowBytes ? OPSNN_TIER_CALL(ArgRowTier)(a)
                                                  : OPSNN_TIER_CALL(ArgPanelTier)(a);
  }

  void RunShares(int64_t units, int64_t threads) {
    const int64_t shares = std::min(p_.n * panel_ * size_ / kTaskBytes, 4 * threads);
    std::vector<int64_t> found(static_cast<size_t>(units * shares * panel_));
    const auto begin = [&](int64_t s) { return p_.n * s / shares; };
    ParallelFor(units * shares, [&](int64_t t, int) {
      RunUnit(t / shares, begin(t % shares), begin(t % shares + 1), found.data() + t * panel_);
    });
    for (int64_t u = 0; u < units; ++u) {
      WithType(p_.dtype, [&](auto type) {
        using T = decltype(type);
        const T* const x = reinterpret_cast<const T*>(First(u));
        for (int64_t i = 0; i < Rows(u); ++i) {
          const auto position = [&](int64_t s) {
            return begin(s) + found[static_cast<size_t>((u * shares + s) * panel_ + i)];
          };
          int64_t best = position(part_.last ? shares - 1 : 0);
          for (int64_t k = 1; k < shares; ++k) {
            const int64_t at = position(part_.last ? shares - 1 - k : k);
            if (Replaces(x[at * p_.inner + i], x[best * p_.inner + i], part_.largest)) best = at;
          }
          Positions(u)[i] = best;
        }
      });
    }
  }

  void RunTurned() const {
    const int64_t groups = (p_.outer + kTurnedRows - 1) / kTurnedRows;
    const auto task = [&](int64_t g, int) {
      alignas(64) char turned[kTurnedRows * kShortRowBytes];
      const int64_t first = g * kTurnedRows, rows = std::min(kTurnedRows, p_.outer - first);
      Transpose2D({.elem_bytes = static_cast<int>(size_),
                   .rows = rows,
                   .cols = p_.n,
                   .src = static_cast<const char*>(p_.src) + first * p_.n * size_,
                   .src_stride = p_.n * size_,
                   .dst = turned,
                   .dst_stride = kTurnedRows * size_,
                   .stream = false});
      ArgPart a = part_;
      a.x = turned, a.n = p_.n, a.stride = kTurnedRows, a.rows = rows, a.position = dst_ + first;
      OPSNN_TIER_CALL(ArgPanelTier)(a);
    };
    if (p_.outer * p_.n * size_ < 2 * kTaskBytes) {
      for (int64_t g = 0; g < groups; ++g) task(g, 0);
    } else {
      ParallelFor(groups, task);
    }
  }

  const AxisParams& p_;
  const int64_t size_;
  int64_t* const dst_;
  ArgPart part_;
  int64_t panel_ = 1, panels_ = 1;
};

}  // namespace

void ArgExtreme(const AxisParams& p, bool largest, bool last, int64_t* dst) {
  if (p.outer * p.inner == 0) return;
  ArgRun(p, largest, last, dst).Run();
}

}  // namespace opsnn::kernels
#endif
