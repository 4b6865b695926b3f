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
constexpr bool kFuses = HWY_TARGET != HWY_SSE4;  // else MulAdd rounds twice

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
  if (fast && kFuses)
    return (to == DType::kS8 ? &Choose<int8_t, Out::kFast> : &Choose<uint8_t, Out::kFast>)(t);
  (to == DType::kS8 ? &Choose<int8_t, Out::kDivide> : &Choose<uint8_t, Out::kDivide>)(t);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
namespace {
OPSNN_TIER_TABLE(ChainKernel);

ChainOperand Moved(const Int8Chain::Value& v, std::span<const vector::EpilogueArg> args,
                   const SumsBlock& at) {
  if (v.arg < 0) return {&v.constant, 0, 0};
  const vector::BlockArg a = args[static_cast<size_t>(v.arg)].At(at.batch, 0, at.row, at.col);
  return {static_cast<const float*>(a.data), a.row_stride, a.col_stride};
}
}  // namespace

void RunInt8Chain(const Int8Chain& chain, std::span<const vector::EpilogueArg> args, const SumsBlock& at) {
  ChainBlock t;
  t.c = at.c, t.ldc = at.ldc, t.rows = at.rows, t.cols = at.cols;
  t.scale = Moved(chain.scale, args, at), t.bias = Moved(chain.bias, args, at);
  if (chain.residual >= 0) t.residual = Moved({chain.residual, 0}, args, at);
  t.lo = chain.clip_lo, t.hi = chain.clip_hi;
  bool fast = false;
  if (chain.quantises) {
    t.step = *Moved(chain.step, args, at).data, t.zero = chain.zero.constant;
    t.least = chain.least - t.zero, t.most = chain.most - t.zero;
    // What lies beyond these rounds to integers beyond what is stored, so that x is clipped once for both.
    constexpr float kBeyond = 0.25f;
    const float lo = t.step * (t.least - kBeyond), hi = t.step * (t.most + kBeyond);
    fast = chain.quotient.exact && chain.clip_lo <= hi && chain.clip_hi >= lo;
    if (fast) t.lo = std::max(t.lo, lo), t.hi = std::min(t.hi, hi);
    t.high = chain.quotient.high, t.low = chain.quotient.low;
  }
  const vector::BlockArg y = args[static_cast<size_t>(chain.output)].At(at.batch, 0, at.row, at.col);
  t.y = y.data, t.y_stride = y.row_stride;
  // The tier without fused multiply-add divides: its clip is the program's own.
  if (isa::ActiveTier() == isa::Tier::kSse4) fast = false, t.lo = chain.clip_lo, t.hi = chain.clip_hi;
  OPSNN_TIER_CALL(ChainKernel)(t, y.dtype, fast);
}

}  // namespace opsnn::gemm
#endif
