#include "kernels/gather/select.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "base/half.h"
#include "base/parallel.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kTaskElements = 16 << 10;

template <typename T>
auto Value(T x) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return ToFloat(x);
  } else {
    return x;
  }
}
template <typename T>
using ValueOf = decltype(Value(T{}));

// Does a come strictly before b in the order sought?
template <bool kLargest, typename V>
bool Before(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    if (a != a) return b == b;
  }
  return kLargest ? a > b : a < b;
}

// The same for sorting: NaN is larger than everything in both directions.
template <bool kLargest, typename V>
bool SortsBefore(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    if (a != a || b != b) return kLargest ? a != a && b == b : a == a && b != b;
  }
  return kLargest ? a > b : a < b;
}

// Calls fn(T{}) with the storage type.
template <typename Fn>
void WithType(DType t, Fn fn) {
  switch (t) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kF16:
      return fn(F16{});
    case DType::kBF16:
      return fn(BF16{});
    case DType::kS8:
      return fn(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return fn(uint8_t{});
    case DType::kS16:
      return fn(int16_t{});
    case DType::kS32:
      return fn(int32_t{});
    case DType::kS64:
      return fn(int64_t{});
  }
}

// fn(o, i) for every row, in tasks.
template <typename Fn>
void ForEachRow(const AxisParams& p, Fn fn) {
  const int64_t rows = p.outer * p.inner;
  const int64_t group = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(p.n, 1));
  ParallelFor((rows + group - 1) / group, [&](int64_t t, int) {
    for (int64_t r = t * group; r < std::min(rows, (t + 1) * group); ++r) fn(r / p.inner, r % p.inner);
  });
}

// Rows side by side: the bests of kColumns of them advance together along the axis, so that memory is read in
// order.
constexpr int64_t kColumns = 256;

template <typename T, bool kLargest>
void ArgExtremeT(const AxisParams& p, bool last, int64_t* dst) {
  const T* src = static_cast<const T*>(p.src);
  const int64_t groups = (p.inner + kColumns - 1) / kColumns;
  const auto task = [&](int64_t t, int) {
    const int64_t o = t / groups, begin = t % groups * kColumns, width = std::min(kColumns, p.inner - begin);
    const T* column = src + o * p.n * p.inner + begin;
    ValueOf<T> best[kColumns];
    int64_t* position = dst + o * p.inner + begin;
    for (int64_t i = 0; i < width; ++i) best[i] = Value(column[i]), position[i] = 0;
    for (int64_t j = 1; j < p.n; ++j) {
      column += p.inner;
      for (int64_t i = 0; i < width; ++i) {
        const ValueOf<T> v = Value(column[i]);
        if (Before<kLargest>(v, best[i]) || (last && !Before<kLargest>(best[i], v))) {
          best[i] = v;
          position[i] = j;
        }
      }
    }
  };
  if (p.outer * p.inner * p.n < 2 * kTaskElements) {
    for (int64_t t = 0; t < p.outer * groups; ++t) task(t, 0);
  } else {
    ParallelFor(p.outer * groups, task);
  }
}

template <typename T, bool kLargest>
void TopKT(const AxisParams& p, int64_t k, bool sorted, T* values, int64_t* positions) {
  const T* src = static_cast<const T*>(p.src);
  ForEachRow(p, [&](int64_t o, int64_t i) {
    const T* row = src + o * p.n * p.inner + i;
    std::vector<int64_t> order(static_cast<size_t>(p.n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
      const ValueOf<T> x = Value(row[a * p.inner]), y = Value(row[b * p.inner]);
      return SortsBefore<kLargest>(x, y) || (!SortsBefore<kLargest>(y, x) && a < b);
    });
    if (!sorted) std::sort(order.begin(), order.begin() + k);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = (o * k + j) * p.inner + i;
      values[at] = row[order[static_cast<size_t>(j)] * p.inner];
      positions[at] = order[static_cast<size_t>(j)];
    }
  });
}

// Sums wrap as unsigned numbers do. Others are kept in double: one chain of additions along a long axis
// drifts by percents in f32, and its latency is the same.
template <typename T>
void CumulativeSumT(const AxisParams& p, bool exclusive, bool reverse, T* dst) {
  const T* src = static_cast<const T*>(p.src);
  ForEachRow(p, [&](int64_t o, int64_t i) {
    const int64_t base = o * p.n * p.inner + i;
    const auto run = [&](auto sum, auto add, auto store) {
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t at = base + (reverse ? p.n - 1 - j : j) * p.inner;
        const auto before = sum;
        sum = add(sum, src[at]);
        dst[at] = store(exclusive ? before : sum);
      }
    };
    if constexpr (std::is_integral_v<T>) {
      run(
          uint64_t{0}, [](uint64_t s, T x) { return s + static_cast<uint64_t>(x); },
          [](uint64_t s) { return static_cast<T>(s); });
    } else if constexpr (std::is_same_v<T, F16>) {
      run(
          0.0, [](double s, T x) { return s + double{ToFloat(x)}; },
          [](double s) { return ToF16(static_cast<float>(s)); });
    } else if constexpr (std::is_same_v<T, BF16>) {
      run(
          0.0, [](double s, T x) { return s + double{ToFloat(x)}; },
          [](double s) { return ToBF16(static_cast<float>(s)); });
    } else {
      run(
          0.0, [](double s, T x) { return s + double{x}; }, [](double s) { return static_cast<T>(s); });
    }
  });
}

}  // namespace

void ArgExtreme(const AxisParams& p, bool largest, bool last, int64_t* dst) {
  WithType(p.dtype, [&](auto t) {
    largest ? ArgExtremeT<decltype(t), true>(p, last, dst) : ArgExtremeT<decltype(t), false>(p, last, dst);
  });
}

void TopK(const AxisParams& p, int64_t k, bool largest, bool sorted, void* values, int64_t* positions) {
  WithType(p.dtype, [&](auto t) {
    using T = decltype(t);
    largest ? TopKT<T, true>(p, k, sorted, static_cast<T*>(values), positions)
            : TopKT<T, false>(p, k, sorted, static_cast<T*>(values), positions);
  });
}

void CumulativeSum(const AxisParams& p, bool exclusive, bool reverse, void* dst) {
  WithType(p.dtype, [&](auto t) {
    CumulativeSumT<decltype(t)>(p, exclusive, reverse, static_cast<decltype(t)*>(dst));
  });
}

}  // namespace opsnn::kernels
