#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_chain.cc"
#include "kernels/gemm/int8_chain.h"

#include <algorithm>
#include <cmath>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/tail-inl.h"
#include "simd/math-inl.h"

#ifndef OPSNN_KERNELS_GEMM_INT8_CHAIN_BLOCK_
#define OPSNN_KERNELS_GEMM_INT8_CHAIN_BLOCK_
namespace opsnn::gemm {
// Values that are read with steps of 0 or 1.
struct ChainOperand {
  const float* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};
// One block, operands moved to it.
struct ChainBlock {
  const int32_t* c = nullptr;
  int64_t ldc = 0, rows = 0, cols = 0;
  ChainOperand scale, bias, residual;
  float lo = 0, hi = 0;  // of the clip; of both clips where the quotient is fast
  float step = 1, high = 0, low = 0;
  float least = 0, most = 0, zero = 0;  // least and most without zero
  bool fast = false;                    // multiplies instead of dividing
  bool finite = false;                  // so is all that comes to that
  void* y = nullptr;
  int64_t y_stride = 0;
};
}  // namespace opsnn::gemm
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// How what is stored follows from the chain: as it is; as integers without dividing, from values that are all
// finite or not; as integers.
enum class Out { kF32, kFinite, kFast, kDivide };

// Adding this leaves an integer of up to 22 bits, rounded to even, at the low end.
constexpr float kMagic = 12582912.0f;
constexpr int32_t kMagicBits = 0x4B400000;

// What is the same throughout a block.
struct Same {
  V lo, hi, step, high, low, least, most;
  hn::Vec<DI> shift;
  explicit Same(const ChainBlock& t)
      : lo(hn::Set(D(), t.lo)),
        hi(hn::Set(D(), t.hi)),
        step(hn::Set(D(), t.step)),
        high(hn::Set(D(), t.high)),
        low(hn::Set(D(), t.low)),
        least(hn::Set(D(), t.least)),
        most(hn::Set(D(), t.most)),
        shift(hn::Set(DI(), kMagicBits - static_cast<int32_t>(t.zero))) {}
};

// The integers before they become bytes.
template <Out kOut>
HWY_INLINE hn::Vec<DI> Integers(const Same& s, V x) {
  const V clipped = hn::Min(s.hi, hn::Max(s.lo, x));  // NaN passes
  V q;
  if constexpr (kOut == Out::kDivide) {
    q = hn::Min(s.most, hn::Max(s.least, hn::Div(clipped, s.step)));
  } else {
    q = hn::MulAdd(clipped, s.high, hn::Mul(clipped, s.low));
  }
  const auto number = hn::Sub(hn::BitCast(DI(), hn::Add(q, hn::Set(D(), kMagic))), s.shift);
  if constexpr (kOut == Out::kFinite) return number;
  return hn::IfThenElseZero(hn::RebindMask(DI(), hn::Eq(q, q)), number);  // NaN gives 0
}

// Two vectors of integers as bytes side by side. Packing goes by blocks of 16 bytes, which leaves four of one
// and four of the other in turn.
template <typename T>
HWY_INLINE void StorePair(hn::Vec<DI> a, hn::Vec<DI> b, T* y) {
  const hn::Repartition<int16_t, DI> d16;
  const hn::Rebind<T, decltype(d16)> d8;
  const auto bytes = hn::DemoteTo(d8, hn::ReorderDemote2To(d16, a, b));
  constexpr int kBlocks = static_cast<int>(kLanes) / 4;
  if constexpr (kBlocks > 1) {
    const hn::Repartition<int32_t, decltype(d8)> d32;
    alignas(64) static constexpr int32_t kFourBlocks[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    alignas(64) static constexpr int32_t kTwoBlocks[4] = {0, 2, 1, 3};
    const auto order = hn::SetTableIndices(d32, kBlocks == 2 ? kTwoBlocks : kFourBlocks);
    hn::StoreU(hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, bytes), order)), d8, y);
  } else {
    hn::StoreU(bytes, d8, y);
  }
}

// Columns [j, j + kVectors vectors), the only one of them `left` wide where kTail.
template <typename T, Out kOut, bool kByColumn, bool kResidual, int kVectors, bool kTail = false>
HWY_INLINE void Columns(const ChainBlock& t, const Same& s, int64_t j, size_t left = kLanes) {
  static_assert(kVectors == 1 || !kTail);
  const D d;
  const DI di;
  const auto load = [&](const float* p) HWY_ATTR { return kTail ? LoadFirst(d, p, left) : hn::LoadU(d, p); };
  const auto along = [&](const ChainOperand& o, const float* row, int v) HWY_ATTR {
    return kByColumn && o.col_stride ? load(row + j + v * kLanes) : hn::Set(d, *row);
  };
  const int32_t* c = t.c + j;
  const float *scale = t.scale.data, *bias = t.bias.data,
              *residual = kResidual ? t.residual.data + j : nullptr;
  V scales[kVectors], biases[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) scales[v] = along(t.scale, scale, v), biases[v] = along(t.bias, bias, v);
  T* y = static_cast<T*>(t.y) + j;
  for (int64_t i = 0; i < t.rows; ++i, c += t.ldc, y += t.y_stride) {
    V x[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if (t.scale.row_stride) scales[v] = hn::Set(d, scale[i * t.scale.row_stride]);
      if (t.bias.row_stride) biases[v] = hn::Set(d, bias[i * t.bias.row_stride]);
      const auto sums = hn::BitCast(di, load(reinterpret_cast<const float*>(c + v * kLanes)));
      x[v] = hn::Add(hn::Mul(hn::ConvertTo(d, sums), scales[v]), biases[v]);
      if constexpr (kResidual) x[v] = hn::Add(x[v], load(residual + i * t.residual.row_stride + v * kLanes));
    }
    if constexpr (kTail) {
      T lanes[kLanes];
      if constexpr (kOut == Out::kF32) {
        hn::StoreU(hn::Min(s.hi, hn::Max(s.lo, x[0])), d, lanes);
      } else {
        hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), Integers<kOut>(s, x[0])), hn::Rebind<T, D>(), lanes);
      }
      std::copy_n(lanes, std::min(left, static_cast<size_t>(kLanes)), y);
    } else if constexpr (kOut == Out::kF32) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Min(s.hi, hn::Max(s.lo, x[v])), d, y + v * kLanes);
    } else if constexpr (kVectors == 2) {
      StorePair(Integers<kOut>(s, x[0]), Integers<kOut>(s, x[1]), y);
    } else {
      hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), Integers<kOut>(s, x[0])), hn::Rebind<T, D>(), y);
    }
  }
}

template <typename T, Out kOut, bool kByColumn, bool kResidual>
void Block(const ChainBlock& t) {
  const Same s(t);
  int64_t j = 0;
  for (; j + 2 * kLanes <= t.cols; j += 2 * kLanes) Columns<T, kOut, kByColumn, kResidual, 2>(t, s, j);
  for (; j + kLanes <= t.cols; j += kLanes) Columns<T, kOut, kByColumn, kResidual, 1>(t, s, j);
  if (j < t.cols) Columns<T, kOut, kByColumn, kResidual, 1, true>(t, s, j, static_cast<size_t>(t.cols - j));
}

template <typename T, Out kOut>
void Choose(const ChainBlock& t) {
  const bool by_column = t.scale.col_stride || t.bias.col_stride, residual = t.residual.data != nullptr;
  if (by_column) return (residual ? &Block<T, kOut, true, true> : &Block<T, kOut, true, false>)(t);
  (residual ? &Block<T, kOut, false, true> : &Block<T, kOut, false, false>)(t);
}

template <typename T>
void ChooseIntegers(const ChainBlock& t) {
  (!t.fast ? &Choose<T, Out::kDivide> : t.finite ? &Choose<T, Out::kFinite> : &Choose<T, Out::kFast>)(t);
}

void ChainKernel(const ChainBlock& t, DType to) {
  if (to == DType::kF32) return Choose<float, Out::kF32>(t);
  (to == DType::kS8 ? &ChooseIntegers<int8_t> : &ChooseIntegers<uint8_t>)(t);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
namespace {
OPSNN_TIER_TABLE(ChainKernel);
}

BoundInt8Chain::BoundInt8Chain(const Int8Chain& chain, std::span<const vector::EpilogueArg> args,
                               int64_t batch, int64_t rows, int64_t cols) {
  const auto bind = [&](const Int8Chain::Value& v) -> Operand {
    if (v.arg < 0) return {&v.constant, 0, 0, 0};
    const vector::EpilogueArg& a = args[static_cast<size_t>(v.arg)];
    return {static_cast<const float*>(a.data), a.batch_stride, a.row_stride, a.col_stride};
  };
  scale_ = bind(chain.scale), bias_ = bind(chain.bias);
  if (chain.residual >= 0) residual_ = bind({chain.residual, 0});
  y_ = args[static_cast<size_t>(chain.output)];
  lo_ = chain.clip_lo, hi_ = chain.clip_hi;
  if (!chain.quantises) return;
  step_ = *bind(chain.step).data, zero_ = chain.zero.constant;
  high_ = chain.quotient.high, low_ = chain.quotient.low;
  least_ = chain.least - zero_, most_ = chain.most - zero_;
  // What lies beyond these rounds to integers beyond what is stored, so that x is clipped once for both. The
  // tier without fused multiply-add divides.
  constexpr float kBeyond = 0.25f;
  const float lo = step_ * (least_ - kBeyond), hi = step_ * (most_ + kBeyond);
  fast_ = chain.quotient.exact && lo_ <= hi && hi_ >= lo && isa::ActiveTier() != isa::Tier::kSse4;
  if (!fast_) return;
  lo_ = std::max(lo_, lo), hi_ = std::min(hi_, hi);
  // Far from where the largest sum would overflow.
  constexpr float kFar = 1e18f;
  const auto near = [&](const Operand& o) {
    const int64_t count = o.row_stride   ? rows
                          : o.col_stride ? cols
                                         : 1,
                  step = o.row_stride ? o.row_stride : 1;
    for (int64_t b = 0; b < (o.batch_stride ? batch : 1); ++b) {
      bool far = false;
      for (int64_t i = 0; i < count; ++i) far |= !(std::fabs(o.data[b * o.batch_stride + i * step]) <= kFar);
      if (far) return false;
    }
    return true;
  };
  finite_ = !residual_.data && near(scale_) && near(bias_);
}

void BoundInt8Chain::Run(const SumsBlock& at) const {
  const auto moved = [&](const Operand& o) -> ChainOperand {
    return {o.data + at.batch * o.batch_stride + at.row * o.row_stride + at.col * o.col_stride, o.row_stride,
            o.col_stride};
  };
  ChainBlock t;
  t.c = at.c, t.ldc = at.ldc, t.rows = at.rows, t.cols = at.cols;
  t.scale = moved(scale_), t.bias = moved(bias_);
  if (residual_.data) t.residual = moved(residual_);
  t.lo = lo_, t.hi = hi_;
  t.step = step_, t.high = high_, t.low = low_, t.least = least_, t.most = most_, t.zero = zero_;
  const vector::BlockArg y = y_.At(at.batch, 0, at.row, at.col);
  t.y = y.data, t.y_stride = y.row_stride;
  t.fast = fast_, t.finite = finite_;
  OPSNN_TIER_CALL(ChainKernel)(t, y.dtype);
}

}  // namespace opsnn::gemm
#endif
