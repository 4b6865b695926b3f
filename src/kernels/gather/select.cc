#include "kernels/gather/select.h"

#include <algorithm>
#include <type_traits>

#include "base/half.h"
#include "base/parallel.h"
#include "kernels/gather/with_type.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kTaskElements = 16 << 10;

// fn(o, i) for every row, in tasks.
template <typename Fn>
void ForEachRow(const AxisParams& p, Fn fn) {
  const int64_t rows = p.outer * p.inner;
  const int64_t group = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(p.n, 1));
  ParallelFor((rows + group - 1) / group, [&](int64_t t, int) {
    for (int64_t r = t * group; r < std::min(rows, (t + 1) * group); ++r) fn(r / p.inner, r % p.inner);
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

void CumulativeSum(const AxisParams& p, bool exclusive, bool reverse, void* dst) {
  WithType(p.dtype, [&](auto t) {
    CumulativeSumT<decltype(t)>(p, exclusive, reverse, static_cast<decltype(t)*>(dst));
  });
}

}  // namespace opsnn::kernels
