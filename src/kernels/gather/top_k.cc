// The k most extreme values of rows: a heap of the k best so far, and vectors that look for a key better than
// the worst of them. Of values in no particular order few are.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/select.h"
#include "kernels/gather/with_type.h"

#ifndef OPSNN_KERNELS_GATHER_TOP_K_PARTS
#define OPSNN_KERNELS_GATHER_TOP_K_PARTS
namespace opsnn::kernels {

struct RankedPosition {
  int64_t key;  // larger is better
  int64_t position;
  // Better comes first; equal ones in the order of their positions.
  bool operator<(const RankedPosition& o) const { return key != o.key ? key > o.key : position < o.position; }
};

// One row along memory.
struct TopKRow {
  DType dtype = DType::kF32;
  bool largest = true;
  const void* x = nullptr;
  int64_t n = 0, k = 0;            // 0 < k <= n
  RankedPosition* best = nullptr;  // k: a heap whose first is the worst
};

}  // namespace opsnn::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather/top_k.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gather/order_key-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
void TopKRowT(const TopKRow& r) {
  using K = KeyOf<T>;
  const hn::ScalableTag<K> d;
  const hn::CappedTag<K, 1> d1;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const OrderKey<T, NanRule::kLargest, hn::ScalableTag<K>> key(d, r.largest);
  const OrderKey<T, NanRule::kLargest, hn::CappedTag<K, 1>> key1(d1, r.largest);
  const T* const x = static_cast<const T*>(r.x);
  RankedPosition *const best = r.best, *const end = best + r.k;
  const auto at = [&](int64_t i) HWY_ATTR { return hn::GetLane(key1(x + i)); };
  int64_t i = 0;
  for (; i < r.k; ++i) best[i] = {at(i), i};
  std::make_heap(best, end);
  const auto offer = [&](int64_t j) HWY_ATTR {
    const K v = at(j);
    if (v <= best->key) return;  // equal ones came before
    std::pop_heap(best, end);
    end[-1] = {v, j};
    std::push_heap(best, end);
  };
  for (; i + kLanes <= r.n; i += kLanes) {
    const auto better = hn::Gt(key(x + i), hn::Set(d, static_cast<K>(best->key)));
    if (HWY_LIKELY(hn::AllFalse(d, better))) continue;
    uint64_t bits = 0;
    hn::StoreMaskBits(d, better, reinterpret_cast<uint8_t*>(&bits));
    for (; bits != 0; bits &= bits - 1) offer(i + std::countr_zero(bits));
  }
  for (; i < r.n; ++i) offer(i);
}

}  // namespace

void TopKRowTier(const TopKRow& r) {
  WithType(r.dtype, [&](auto t) HWY_ATTR { TopKRowT<decltype(t)>(r); });
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::kernels {
namespace {

OPSNN_TIER_TABLE(TopKRowTier);

constexpr int64_t kTaskElements = 16 << 10;

// The rows of one task.
template <typename T>
class TopKRows {
 public:
  TopKRows(const AxisParams& p, int64_t k, bool largest, bool sorted)
      : p_(p), k_(k), largest_(largest), sorted_(sorted), best_(static_cast<size_t>(k)) {
    if (p.inner > 1) copy_.resize(static_cast<size_t>(p.n));
  }

  void Run(int64_t row, T* values, int64_t* positions) {
    const int64_t o = row / p_.inner, i = row % p_.inner;
    const T* x = static_cast<const T*>(p_.src) + o * p_.n * p_.inner + i;
    if (p_.inner > 1) {
      for (int64_t j = 0; j < p_.n; ++j) copy_[static_cast<size_t>(j)] = x[j * p_.inner];
      x = copy_.data();
    }
    OPSNN_TIER_CALL(TopKRowTier)({p_.dtype, largest_, x, p_.n, k_, best_.data()});
    if (sorted_) {
      std::sort_heap(best_.begin(), best_.end());
    } else {
      std::sort(best_.begin(), best_.end(),
                [](const RankedPosition& a, const RankedPosition& b) { return a.position < b.position; });
    }
    for (int64_t j = 0; j < k_; ++j) {
      const int64_t at = (o * k_ + j) * p_.inner + i, position = best_[static_cast<size_t>(j)].position;
      values[at] = x[position];
      positions[at] = position;
    }
  }

 private:
  const AxisParams& p_;
  const int64_t k_;
  const bool largest_, sorted_;
  std::vector<RankedPosition> best_;
  std::vector<T> copy_;  // of a row whose elements do not lie side by side
};

}  // namespace

void TopK(const AxisParams& p, int64_t k, bool largest, bool sorted, void* values, int64_t* positions) {
  const int64_t rows = p.outer * p.inner;
  if (rows * k == 0) return;
  const int64_t group = std::max<int64_t>(1, kTaskElements / p.n);
  WithType(p.dtype, [&](auto t) {
    using T = decltype(t);
    ParallelFor((rows + group - 1) / group, [&](int64_t task, int) {
      TopKRows<T> of(p, k, largest, sorted);
      for (int64_t r = task * group; r < std::min(rows, (task + 1) * group); ++r)
        of.Run(r, static_cast<T*>(values), positions);
    });
  });
}

}  // namespace opsnn::kernels
#endif
