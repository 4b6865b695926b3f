// f64, s32 and s64 stages: plain loops over the block, one function per (stage, type).
//
// Integers: + - * and negation wrap; x / 0 = 0 and x mod 0 = 0 (nothing traps), INT_MIN / -1 wraps; division
// truncates, mod takes the divisor's sign (as Python). Functions that only make sense for floats go through
// f64. f64: C's functions per element; mod is fmod.
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "vector/bit_stages.h"
#include "vector/convert_scalar.h"
#include "vector/pass.h"

namespace opsnn::vector {
namespace {

using enum StageOp;

template <typename T>
constexpr bool kInt = std::is_integral_v<T>;
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
T Wrap(Bits<T> v) {
  return static_cast<T>(v);
}

// Functions of a float argument; s32 and s64 pass through f64 and are cast back (saturating).
inline double FloatFn(StageOp op, double x, const double* imm) {
  switch (op) {
    case kSqrt:
      return std::sqrt(x);
    case kRsqrt:
      return 1 / std::sqrt(x);
    case kExp:
      return std::exp(x);
    case kLog:
      return std::log(x);
    case kErf:
      return std::erf(x);
    case kTanh:
      return std::tanh(x);
    case kSigmoid:
      return 1 / (1 + std::exp(-x));
    case kSilu:
      return std::isinf(x) && x < 0 ? 0.0 : x / (1 + std::exp(-x));
    case kGeluErf:
      return std::isinf(x) && x < 0 ? 0.0 : 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case kGeluTanh: {
      if (std::isinf(x) && x < 0) return 0.0;
      const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case kElu:
      return x >= 0 || std::isnan(x) ? x : imm[0] * std::expm1(x);
    case kSoftplus:
      return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))) + (std::isnan(x) ? x : 0);
    case kMish: {
      if (x > 40) return x;
      const double n = std::exp(x), w = n * (n + 2);
      return std::isinf(x) ? 0.0 : x * (w / (w + 2));
    }
    case kSin:
      return std::sin(x);
    case kCos:
      return std::cos(x);
    case kTan:
      return std::tan(x);
    case kAsin:
      return std::asin(x);
    case kAcos:
      return std::acos(x);
    case kAtan:
      return std::atan(x);
    case kSinh:
      return std::sinh(x);
    case kCosh:
      return std::cosh(x);
    case kAsinh:
      return std::asinh(x);
    case kAcosh:
      return std::acosh(x);
    case kAtanh:
      return std::atanh(x);
    default:
      return x;
  }
}

template <typename T>
T DivideOrZero(T x, T y) {
  if constexpr (kInt<T>) {
    if (y == 0) return 0;
    if (y == -1) return Wrap<T>(0 - static_cast<Bits<T>>(x));
    return x / y;
  } else {
    return x / y;
  }
}
template <typename T>
T ModOrZero(T x, T y) {
  if constexpr (kInt<T>) {
    if (y == 0 || y == -1) return 0;
    const T r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  } else {
    return std::fmod(x, y);
  }
}
template <StageOp kOp, typename T>
inline T Unary(T x, const double* imm) {
  const T i0 = CastElement<T>(imm[0]), i1 = CastElement<T>(imm[1]);
  (void)i0, (void)i1;
  if constexpr (kOp == kCopy) {
    return x;
  } else if constexpr (kOp == kNeg) {
    if constexpr (kInt<T>)
      return Wrap<T>(0 - static_cast<Bits<T>>(x));
    else
      return -x;
  } else if constexpr (kOp == kAbs) {
    if constexpr (kInt<T>)
      return x < 0 ? Wrap<T>(0 - static_cast<Bits<T>>(x)) : x;
    else
      return std::fabs(x);
  } else if constexpr (kOp == kSign) {
    return x > 0 ? T{1} : x < 0 ? T{-1} : x;
  } else if constexpr (kOp == kSquare) {
    if constexpr (kInt<T>)
      return Wrap<T>(static_cast<Bits<T>>(x) * static_cast<Bits<T>>(x));
    else
      return x * x;
  } else if constexpr (kOp == kReciprocal) {
    return DivideOrZero<T>(1, x);
  } else if constexpr (kOp == kRelu) {
    return x < 0 ? T{0} : x;
  } else if constexpr (kOp == kLeakyRelu) {
    return x < 0 ? CastElement<T>(imm[0] * static_cast<double>(x)) : x;
  } else if constexpr (kOp == kClip) {
    const T low = x < i0 ? i0 : x;
    return low > i1 ? i1 : low;
  } else if constexpr (kOp == kHardSigmoid || kOp == kHardSwish) {
    double h = imm[0] * static_cast<double>(x) + imm[1];
    h = h < 0 ? 0 : h > 1 ? 1 : h;
    return CastElement<T>(kOp == kHardSigmoid ? h : static_cast<double>(x) * h);
  } else if constexpr (kOp == kFloor || kOp == kCeil || kOp == kRound || kOp == kTrunc) {
    if constexpr (kInt<T>)
      return x;
    else
      return kOp == kFloor   ? std::floor(x)
             : kOp == kCeil  ? std::ceil(x)
             : kOp == kTrunc ? std::trunc(x)
                             : std::nearbyint(x);
  } else if constexpr (kOp == kAffine) {
    if constexpr (kInt<T>) {
      return Wrap<T>(static_cast<Bits<T>>(i0) * static_cast<Bits<T>>(x) + static_cast<Bits<T>>(i1));
    } else {
      return i0 * x + i1;
    }
  } else if constexpr (kOp == kNot) {
    return x == 0;
  } else if constexpr (kOp == kIsNan) {
    return x != x;
  } else if constexpr (kOp == kIsInf) {
    if constexpr (kInt<T>)
      return 0;
    else
      return std::isinf(x);
  } else {
    return CastElement<T>(FloatFn(kOp, static_cast<double>(x), imm));
  }
}

// Integer powers by squaring, wrapping; a negative exponent truncates toward zero: 0 except for 1 and -1.
template <typename T>
T Power(T x, T y) {
  if constexpr (kInt<T>) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    Bits<T> result = 1, base = static_cast<Bits<T>>(x);
    for (Bits<T> e = static_cast<Bits<T>>(y); e != 0; e >>= 1, base *= base) {
      if (e & 1) result *= base;
    }
    return Wrap<T>(result);
  } else {
    return std::pow(x, y);
  }
}

template <StageOp kOp, typename T>
inline T Binary(T x, T y) {
  if constexpr (kOp == kAdd || kOp == kSub || kOp == kMul) {
    using B = std::conditional_t<kInt<T>, Bits<T>, T>;
    const B a = static_cast<B>(x), b = static_cast<B>(y);
    return static_cast<T>(kOp == kAdd ? a + b : kOp == kSub ? a - b : a * b);
  }
  if constexpr (kOp == kDiv) return DivideOrZero(x, y);
  if constexpr (kOp == kMod) return ModOrZero(x, y);
  if constexpr (kOp == kPow) return Power(x, y);
  if constexpr (kOp == kMax) return x != x ? x : y != y ? y : x > y ? x : y;
  if constexpr (kOp == kMin) return x != x ? x : y != y ? y : x < y ? x : y;
  if constexpr (kOp == kPRelu) return x >= 0 ? x : Binary<kMul, T>(y, x);
  if constexpr (kOp >= kBitAnd && kOp <= kShiftRight) return BitStage(kOp, x, y);
  if constexpr (kOp == kEqual) return x == y;
  if constexpr (kOp == kLess) return x < y;
  if constexpr (kOp == kLessEqual) return x <= y;
  if constexpr (kOp == kGreater) return x > y;
  if constexpr (kOp == kGreaterEqual) return x >= y;
  if constexpr (kOp == kAnd) return x != 0 && y != 0;
  if constexpr (kOp == kOr) return x != 0 || y != 0;
  if constexpr (kOp == kXor) return (x != 0) != (y != 0);
  return x;
}

// Calls fn(row pointers of the operands, row pointer of dst) for each row.
template <typename T, int kArity, typename Fn>
void ForRows(const PassArgs& a, const Fn& fn) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* src[3] = {};
    for (int k = 0; k < kArity; ++k) src[k] = static_cast<const T*>(a.src[k].data) + r * a.src[k].row_stride;
    fn(src, static_cast<T*>(a.dst) + r * a.dst_row_stride);
  }
}

template <StageOp kOp, typename T>
void UnaryLoop(const PassArgs& a) {
  ForRows<T, 1>(a, [&a](const T* const* s, T* d) {
    const int64_t step = a.src[0].step;
    for (int64_t i = 0; i < a.cols; ++i) d[i] = Unary<kOp, T>(s[0][i * step], a.imm64);
  });
}
template <StageOp kOp, typename T>
void BinaryLoop(const PassArgs& a) {
  ForRows<T, 2>(a, [&a](const T* const* s, T* d) {
    const int64_t s0 = a.src[0].step, s1 = a.src[1].step;
    if (s0 == 1 && s1 == 1) {  // the form that vectorises
      for (int64_t i = 0; i < a.cols; ++i) d[i] = Binary<kOp, T>(s[0][i], s[1][i]);
    } else {
      for (int64_t i = 0; i < a.cols; ++i) d[i] = Binary<kOp, T>(s[0][i * s0], s[1][i * s1]);
    }
  });
}
template <StageOp kOp, typename T>
void TernaryLoop(const PassArgs& a) {
  ForRows<T, 3>(a, [&a](const T* const* s, T* d) {
    for (int64_t i = 0; i < a.cols; ++i) {
      const T x = s[0][i * a.src[0].step], y = s[1][i * a.src[1].step], z = s[2][i * a.src[2].step];
      d[i] = kOp == kSelect ? (x != 0 ? y : z) : Binary<kAdd, T>(Binary<kMul, T>(x, y), z);
    }
  });
}

template <StageOp kOp, typename T>
inline T Reduce(const T* x, int64_t step, int64_t n) {
  T acc = 0;
  if constexpr (kOp == kRowProd) acc = 1;
  if constexpr (kOp == kRowMax)
    acc = kInt<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
  if constexpr (kOp == kRowMin)
    acc = kInt<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * step];
    if constexpr (kOp == kRowSum || kOp == kRowMean) acc = Binary<kAdd, T>(acc, v);
    if constexpr (kOp == kRowSumSquare) acc = Binary<kAdd, T>(acc, Binary<kMul, T>(v, v));
    if constexpr (kOp == kRowProd) acc = Binary<kMul, T>(acc, v);
    if constexpr (kOp == kRowMax) acc = Binary<kMax, T>(acc, v);
    if constexpr (kOp == kRowMin) acc = Binary<kMin, T>(acc, v);
  }
  return kOp == kRowMean ? DivideOrZero<T>(acc, static_cast<T>(n)) : acc;
}
template <StageOp kOp, typename T>
void ReduceLoop(const PassArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* x = static_cast<const T*>(a.src[0].data) + r * a.src[0].row_stride;
    static_cast<T*>(a.reduced)[r] = Reduce<kOp, T>(x, a.src[0].step, a.cols);
  }
}

template <size_t kOpIndex, typename T>
constexpr PassFn LoopOf() {
  constexpr StageOp op = static_cast<StageOp>(kOpIndex);
  if constexpr (op <= kIsInf)
    return &UnaryLoop<op, T>;
  else if constexpr (op >= kAdd && op <= kXor)
    return &BinaryLoop<op, T>;
  else if constexpr (op == kMulAdd || op == kSelect)
    return &TernaryLoop<op, T>;
  else if constexpr (op >= kRowSum)
    return &ReduceLoop<op, T>;
  else
    return nullptr;
}
template <typename T, size_t... kOps>
PassFn Lookup(size_t op, std::index_sequence<kOps...>) {
  static constexpr PassFn kTable[] = {LoopOf<kOps, T>()...};
  return kTable[op];
}

template <typename From, typename To>
void ConvertLoop(const PassArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const From* s = static_cast<const From*>(a.src[0].data) + r * a.src[0].row_stride;
    To* d = static_cast<To*>(a.dst) + r * a.dst_row_stride;
    for (int64_t i = 0; i < a.cols; ++i) d[i] = CastElement<To>(s[i * a.src[0].step]);
  }
}
template <typename From>
constexpr PassFn kConvertFrom[] = {&ConvertLoop<From, float>, &ConvertLoop<From, double>,
                                   &ConvertLoop<From, int32_t>, &ConvertLoop<From, int64_t>};

}  // namespace

PassFn FindScalarPass(StageOp op, ComputeType type) {
  constexpr auto kAll = std::make_index_sequence<static_cast<size_t>(kRowProd) + 1>();
  const size_t index = static_cast<size_t>(op);
  switch (type) {
    case ComputeType::kF64:
      return Lookup<double>(index, kAll);
    case ComputeType::kS32:
      return Lookup<int32_t>(index, kAll);
    case ComputeType::kS64:
      return Lookup<int64_t>(index, kAll);
    case ComputeType::kF32:
      return nullptr;
  }
  return nullptr;
}

PassFn FindConvertPass(ComputeType from, ComputeType to) {
  const int t = static_cast<int>(to);
  switch (from) {
    case ComputeType::kF32:
      return kConvertFrom<float>[t];
    case ComputeType::kF64:
      return kConvertFrom<double>[t];
    case ComputeType::kS32:
      return kConvertFrom<int32_t>[t];
    case ComputeType::kS64:
      return kConvertFrom<int64_t>[t];
  }
  return nullptr;
}

}  // namespace opsnn::vector
