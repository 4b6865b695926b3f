#include "kernels/reduce/column_reduce.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/combine_rows.cc"
#include <type_traits>

#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct SumOp {
  template <class D, class V>
  static V Of(D, V a, V b) {
    return hn::Add(a, b);
  }
  // Signed overflow is undefined in C++: scalars go through unsigned.
  static float Of(float a, float b) { return a + b; }
  static double Of(double a, double b) { return a + b; }
  static int32_t Of(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
  static int64_t Of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

struct ProdOp {
  template <class D, class V>
  static V Of(D, V a, V b) {
    return hn::Mul(a, b);
  }
  static float Of(float a, float b) { return a * b; }
  static double Of(double a, double b) { return a * b; }
  static int32_t Of(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  }
  static int64_t Of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

// The instruction returns its second operand when either is NaN, so only a NaN in the first needs care.
template <class D, class V>
HWY_INLINE V KeepNaN(D, V a, V picked) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Eq(a, a), picked, a);
  } else {
    return picked;
  }
}

struct MaxOp {
  template <class D, class V>
  static V Of(D d, V a, V b) {
    return KeepNaN(d, a, hn::Max(a, b));
  }
  template <typename T>
  static T Of(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

struct MinOp {
  template <class D, class V>
  static V Of(D d, V a, V b) {
    return KeepNaN(d, a, hn::Min(a, b));
  }
  template <typename T>
  static T Of(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

template <class Op, int kCount, class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Tree(D d, const T* const* rows, int64_t c) {
  if constexpr (kCount == 1) {
    return hn::LoadU(d, rows[0] + c);
  } else {
    return Op::Of(d, Tree<Op, kCount / 2>(d, rows, c), Tree<Op, kCount / 2>(d, rows + kCount / 2, c));
  }
}

// The same tree for one column: lanes and tails round alike.
template <class Op, int kCount, typename T>
HWY_INLINE T ScalarTree(const T* const* rows, int64_t c) {
  if constexpr (kCount == 1) {
    return rows[0][c];
  } else {
    return Op::Of(ScalarTree<Op, kCount / 2>(rows, c), ScalarTree<Op, kCount / 2>(rows + kCount / 2, c));
  }
}

template <class Op, int kCount, typename T>
HWY_INLINE void Accumulate(const T* const* rows, T* HWY_RESTRICT acc, int64_t cols) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    hn::StoreU(Op::Of(d, hn::LoadU(d, acc + c), Tree<Op, kCount>(d, rows, c)), d, acc + c);
  }
  for (; c < cols; ++c) acc[c] = Op::Of(acc[c], ScalarTree<Op, kCount>(rows, c));
}

template <class Op, typename T>
HWY_INLINE void AccumulateCount(const void* const* rows, int count, void* acc, int64_t cols) {
  const T* typed[8];
  for (int i = 0; i < count; ++i) typed[i] = static_cast<const T*>(rows[i]);
  const T* const* p = typed;
  T* a = static_cast<T*>(acc);
  if (count == 8) return Accumulate<Op, 8>(p, a, cols);
  if (count & 4) Accumulate<Op, 4>(p, a, cols), p += 4;
  if (count & 2) Accumulate<Op, 2>(p, a, cols), p += 2;
  if (count & 1) Accumulate<Op, 1>(p, a, cols);
}

template <class Op>
HWY_INLINE void AccumulateType(ComputeType type, const void* const* rows, int count, void* acc,
                               int64_t cols) {
  if (type == ComputeType::kF32) return AccumulateCount<Op, float>(rows, count, acc, cols);
  if (type == ComputeType::kF64) return AccumulateCount<Op, double>(rows, count, acc, cols);
  if (type == ComputeType::kS32) return AccumulateCount<Op, int32_t>(rows, count, acc, cols);
  // No 64-bit lane multiply before AVX-512DQ, and 64-bit reductions are rare: plain loops.
  int64_t* a = static_cast<int64_t*>(acc);
  for (int r = 0; r < count; ++r) {
    const int64_t* x = static_cast<const int64_t*>(rows[r]);
    for (int64_t c = 0; c < cols; ++c) a[c] = Op::Of(a[c], x[c]);
  }
}

// kVectors of columns from `x` on, all rows.
template <class Op, int kVectors, typename T>
HWY_INLINE void AccumulateNear(const T* x, int64_t stride, int64_t count, T* acc) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<hn::ScalableTag<T>> sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, acc + v * lanes);
  const T* rows[8];
  const auto add = [&]<int kCount>(std::integral_constant<int, kCount>) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) rows[i] = x + i * stride;
    const T* const* const p = rows;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = Op::Of(d, sum[v], Tree<Op, kCount>(d, p, v * lanes));
    x += kCount * stride;
  };
  for (; count >= 8; count -= 8) add(std::integral_constant<int, 8>());
  if (count & 4) add(std::integral_constant<int, 4>());
  if (count & 2) add(std::integral_constant<int, 2>());
  if (count & 1) add(std::integral_constant<int, 1>());
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, acc + v * lanes);
}

template <class Op>
HWY_INLINE void AccumulateNearF32(const float* x, int64_t stride, int64_t count, float* acc, int64_t cols) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t c = 0;
  for (; c + 8 * lanes <= cols; c += 8 * lanes) AccumulateNear<Op, 8>(x + c, stride, count, acc + c);
  for (; c + lanes <= cols; c += lanes) AccumulateNear<Op, 1>(x + c, stride, count, acc + c);
  if (c == cols) return;
  for (int64_t row = 0; row < count; row += 8) {
    const void* rows[8];
    const int some = static_cast<int>(count - row < 8 ? count - row : 8);
    for (int i = 0; i < some; ++i) rows[i] = x + (row + i) * stride + c;
    AccumulateCount<Op, float>(rows, some, acc + c, cols - c);
  }
}

void CombineNearRowsTier(kernels::Combine op, const float* x, int64_t stride, int64_t count, float* acc,
                         int64_t cols) {
  if (op == kernels::Combine::kSum) return AccumulateNearF32<SumOp>(x, stride, count, acc, cols);
  if (op == kernels::Combine::kMax) return AccumulateNearF32<MaxOp>(x, stride, count, acc, cols);
  if (op == kernels::Combine::kMin) return AccumulateNearF32<MinOp>(x, stride, count, acc, cols);
  AccumulateNearF32<ProdOp>(x, stride, count, acc, cols);
}

void CombineRowsTier(kernels::Combine op, ComputeType type, const void* const* rows, int count, void* acc,
                     int64_t cols) {
  if (op == kernels::Combine::kSum) return AccumulateType<SumOp>(type, rows, count, acc, cols);
  if (op == kernels::Combine::kMax) return AccumulateType<MaxOp>(type, rows, count, acc, cols);
  if (op == kernels::Combine::kMin) return AccumulateType<MinOp>(type, rows, count, acc, cols);
  return AccumulateType<ProdOp>(type, rows, count, acc, cols);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <limits>

namespace opsnn::kernels {
namespace {

OPSNN_TIER_TABLE(CombineRowsTier);
OPSNN_TIER_TABLE(CombineNearRowsTier);

template <typename T>
T Neutral(Combine op) {
  using L = std::numeric_limits<T>;
  switch (op) {
    case Combine::kSum:
      return T{0};
    case Combine::kProd:
      return T{1};
    case Combine::kMax:
      return L::has_infinity ? -L::infinity() : L::lowest();
    default:
      return L::has_infinity ? L::infinity() : L::max();
  }
}

template <typename T>
void Fill(Combine op, void* acc, int64_t cols) {
  std::fill_n(static_cast<T*>(acc), cols, Neutral<T>(op));
}

}  // namespace

void CombineRows(Combine op, ComputeType type, const void* const* rows, int count, void* acc, int64_t cols) {
  OPSNN_TIER_CALL(CombineRowsTier)(op, type, rows, count, acc, cols);
}

void CombineNearRows(Combine op, ComputeType type, const void* first, int64_t stride, int64_t count,
                     void* acc, int64_t cols) {
  if (type == ComputeType::kF32) {
    return OPSNN_TIER_CALL(CombineNearRowsTier)(op, static_cast<const float*>(first), stride, count,
                                                static_cast<float*>(acc), cols);
  }
  const int64_t size = type == ComputeType::kS32 ? 4 : 8;
  for (int64_t row = 0; row < count; row += 8) {
    const void* rows[8];
    const int some = static_cast<int>(std::min<int64_t>(8, count - row));
    for (int i = 0; i < some; ++i) rows[i] = static_cast<const char*>(first) + (row + i) * stride * size;
    CombineRows(op, type, rows, some, acc, cols);
  }
}

void FillNeutral(Combine op, ComputeType type, void* acc, int64_t cols) {
  if (type == ComputeType::kF32) return Fill<float>(op, acc, cols);
  if (type == ComputeType::kF64) return Fill<double>(op, acc, cols);
  if (type == ComputeType::kS32) return Fill<int32_t>(op, acc, cols);
  Fill<int64_t>(op, acc, cols);
}

}  // namespace opsnn::kernels
#endif
