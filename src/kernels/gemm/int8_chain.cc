#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_chain.cc"
#include "kernels/gemm/int8_chain.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

enum class Out { kF32, kFast, kDivide };

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

template <typename T, Out kOut>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> Finish(const Same& s, V x) {
  const D d;
  const V clipped = hn::Min(s.hi, hn::Max(s.lo, x));  // NaN passes
  if constexpr (kOut == Out::kF32) {
    return clipped;
  } else {
    V q;
    if constexpr (kOut == Out::kFast) {
      q = hn::MulAdd(clipped, s.high, hn::Mul(clipped, s.low));
    } else {
      q = hn::Min(s.most, hn::Max(s.least, hn::Div(clipped, s.step)));
    }
    const auto number = hn::Sub(hn::BitCast(DI(), hn::Add(q, hn::Set(d, kMagic))), s.shift);
    const auto kept = hn::IfThenElseZero(hn::RebindMask(DI(), hn::Eq(q, q)), number);  // NaN gives 0
    return hn::DemoteTo(hn::Rebind<T, D>(), kept);
  }
}

// One column of vectors, the last of them `left` wide where kTail.
template <typename T, Out kOut, bool kByColumn, bool kResidual, bool kTail>
HWY_INLINE void Column(const ChainBlock& t, const Same& s, int64_t j, size_t left) {
  const D d;
  const DI di;
  const hn::Rebind<T, D> dt;
  const auto load = [&](const float* p) HWY_ATTR { return kTail ? LoadFirst(d, p, left) : hn::LoadU(d, p); };
  const auto along = [&](const ChainOperand& o, const float* row)
                         HWY_ATTR { return kByColumn && o.col_stride ? load(row + j) : hn::Set(d, *row); };
  const int32_t* c = t.c + j;
  const float *scale = t.scale.data, *bias = t.bias.data,
              *residual = kResidual ? t.residual.data + j : nullptr;
  V scales = along(t.scale, scale), biases = along(t.bias, bias);
  T* y = static_cast<T*>(t.y) + j;
  for (int64_t i = 0; i < t.rows; ++i, c += t.ldc, y += t.y_stride) {
    if (t.scale.row_stride) scales = hn::Set(d, scale[i * t.scale.row_stride]);
    if (t.bias.row_stride) biases = hn::Set(d, bias[i * t.bias.row_stride]);
    const auto sums = hn::BitCast(di, load(reinterpret_cast<const float*>(c)));
    V x = hn::Add(hn::Mul(hn::ConvertTo(d, sums), scales), biases);
    if constexpr (kResidual) x = hn::Add(x, load(residual + i * t.residual.row_stride));
    const auto stored = Finish<T, kOut>(s, x);
    if constexpr (!kTail) {
      hn::StoreU(stored, dt, y);
    } else {
      T lanes[kLanes];
      hn::StoreU(stored, dt, lanes);
      std::copy_n(lanes, std::min(left, static_cast<size_t>(kLanes)), y);
    }
  }
}

template <typename T, Out kOut, bool kByColumn, bool kResidual>
void Block(const ChainBlock& t) {
  const Same s(t);
  int64_t j = 0;
  for (; j + kLanes <= t.cols; j += kLanes) Column<T, kOut, kByColumn, kResidual, false>(t, s, j, kLanes);
  if (j < t.cols) Column<T, kOut, kByColumn, kResidual, true>(t, s, j, static_cast<size_t>(t.cols - j));
}

template <typename T, Out kOut>
void Choose(const ChainBlock& t) {
  const bool by_column = t.scale.col_stride || t.bias.col_stride, residual = t.residual.data != nullptr;
  if (by_column) return (residual ? &Block<T, kOut, true, true> : &Block<T, kOut, true, false>)(t);
  (residual ? &Block<T, kOut, false, true> : &Block<T, kOut, false, false>)(t);
}

void ChainKernel(const ChainBlock& t, DType to, bool fast) {
  if (to == DType::kF32) return Choose<float, Out::kF32>(t);
  if (fast) return (to == DType::kS8 ? &Choose<int8_t, Out::kFast> : &Choose<uint8_t, Out::kFast>)(t);
  (to == DType::kS8 ? &Choose<int8_t, Out::kDivide> : &Choose<uint8_t, Out::kDivide>)(t);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
namespace {
OPSNN_TIER_TABLE(ChainKernel);
}

BoundInt8Chain::BoundInt8Chain(const Int8Chain& chain, std::span<const vector::EpilogueArg> args) {
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
  if (fast_) lo_ = std::max(lo_, lo), hi_ = std::min(hi_, hi);
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
  OPSNN_TIER_CALL(ChainKernel)(t, y.dtype, fast_);
}

}  // namespace opsnn::gemm
#endif
