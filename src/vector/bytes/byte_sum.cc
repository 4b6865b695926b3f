#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/bytes/byte_sum.cc"
#include "vector/bytes/byte_sum.h"

#include <algorithm>
#include <type_traits>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/compiled.h"

#ifndef OPSNN_VECTOR_BYTE_SUM_ROW_
#define OPSNN_VECTOR_BYTE_SUM_ROW_
namespace opsnn::vector {
struct ByteRow {
  const void* x[2] = {nullptr, nullptr};
  void* y = nullptr;
  int64_t n = 0;
  bool fast = false;
  float lo = 0, hi = 0;  // of the clip; of both clips where fast
};
}  // namespace opsnn::vector
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::ScalableTag<float>;
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// Adding this leaves an integer of up to 22 bits, rounded to even, at the low end.
constexpr float kMagic = 12582912.0f;
constexpr int32_t kMagicBits = 0x4B400000;

template <typename T>
HWY_INLINE V LoadReal(const T* p) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(D(), p);
  } else {
    return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<T, D>(), p)));
  }
}

template <typename X, typename Y, bool kTwo, bool kFast>
void Row(const vector::ByteSum& s, const vector::ByteRow& r) {
  const D d;
  const DI di;
  const hn::Rebind<Y, D> dy;
  const V zero0 = hn::Set(d, s.term[0].zero), scale0 = hn::Set(d, s.term[0].scale),
          zero1 = hn::Set(d, s.term[1].zero), scale1 = hn::Set(d, s.term[1].scale), lo = hn::Set(d, r.lo),
          hi = hn::Set(d, r.hi), high = hn::Set(d, s.quotient.high), low = hn::Set(d, s.quotient.low),
          step = hn::Set(d, s.step), least = hn::Set(d, s.least - s.zero), most = hn::Set(d, s.most - s.zero),
          magic = hn::Set(d, kMagic);
  const auto shift = hn::Set(di, kMagicBits - static_cast<int32_t>(s.zero));
  const auto bytes = [&](const X* a, const X* b) HWY_ATTR {
    V x = hn::Mul(hn::Sub(LoadReal(a), zero0), scale0);
    if constexpr (kTwo) x = hn::Add(x, hn::Mul(hn::Sub(LoadReal(b), zero1), scale1));
    x = hn::Min(hi, hn::Max(lo, x));  // NaN passes
    V q;
    if constexpr (kFast) {
      q = hn::MulAdd(x, high, hn::Mul(x, low));
    } else {
      q = hn::Min(most, hn::Max(least, hn::Div(x, step)));
    }
    const auto number = hn::Sub(hn::BitCast(di, hn::Add(q, magic)), shift);
    return hn::DemoteTo(dy, hn::IfThenElseZero(hn::RebindMask(di, hn::Eq(q, q)), number));  // NaN gives 0
  };
  const auto *a = static_cast<const X*>(r.x[0]), *b = static_cast<const X*>(r.x[kTwo ? 1 : 0]);
  auto* y = static_cast<Y*>(r.y);
  int64_t i = 0;
  for (; i + kLanes <= r.n; i += kLanes) hn::StoreU(bytes(a + i, b + i), dy, y + i);
  if (i == r.n) return;
  X in[2][kLanes] = {};
  Y out[kLanes];
  const int64_t left = std::min(r.n - i, kLanes);
  std::copy_n(a + i, left, in[0]);
  std::copy_n(b + i, left, in[1]);
  hn::StoreU(bytes(in[0], in[1]), dy, out);
  std::copy_n(out, left, y + i);
}

template <typename X, bool kTwo>
void Choose(const vector::ByteSum& s, const vector::ByteRow& r) {
  if (r.fast) return (s.least < 0 ? &Row<X, int8_t, kTwo, true> : &Row<X, uint8_t, kTwo, true>)(s, r);
  (s.least < 0 ? &Row<X, int8_t, kTwo, false> : &Row<X, uint8_t, kTwo, false>)(s, r);
}

}  // namespace

void ByteSumKernel(const vector::ByteSum& s, const vector::ByteRow& r, DType x) {
  const bool two = s.num_terms == 2;
  if (x == DType::kF32) return (two ? &Choose<float, true> : &Choose<float, false>)(s, r);
  if (x == DType::kU8) return (two ? &Choose<uint8_t, true> : &Choose<uint8_t, false>)(s, r);
  (two ? &Choose<int8_t, true> : &Choose<int8_t, false>)(s, r);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
namespace {
OPSNN_TIER_TABLE(ByteSumKernel);
}

bool ExecuteByteSum(const CompiledProgram& p, int64_t rows, int64_t cols, const BlockArg* args) {
  if (!p.byte_sum) return false;
  const ByteSum& s = *p.byte_sum;
  const BlockArg *x[2] = {&args[s.term[0].input], &args[s.term[s.num_terms - 1].input]},
                 &y = args[p.num_inputs];
  const DType t = x[0]->dtype;
  if (y.dtype != (s.least < 0 ? DType::kS8 : DType::kU8) || x[1]->dtype != t || y.col_stride != 1)
    return false;
  if (t != DType::kF32 && t != DType::kU8 && t != DType::kS8) return false;
  for (const BlockArg* a : x)
    if (a->col_stride != 1 || (a->data == y.data && a->row_stride != y.row_stride) ||
        (a->data == y.data && SizeOf(t) != 1))
      return false;
  ByteRow r;
  r.n = cols;
  r.lo = s.clip_lo, r.hi = s.clip_hi;
  // What lies beyond these rounds to integers beyond what is stored, so that x is clipped once for both. The
  // tier without fused multiply-add divides.
  constexpr float kBeyond = 0.25f;
  const float lo = s.step * (s.least - s.zero - kBeyond), hi = s.step * (s.most - s.zero + kBeyond);
  r.fast = s.quotient.exact && s.clip_lo <= hi && s.clip_hi >= lo && isa::ActiveTier() != isa::Tier::kSse4;
  if (r.fast) r.lo = std::max(r.lo, lo), r.hi = std::min(r.hi, hi);
  const auto at = [](const BlockArg& a, int64_t row) {
    return static_cast<char*>(a.data) + row * a.row_stride * static_cast<int64_t>(SizeOf(a.dtype));
  };
  for (int64_t i = 0; i < rows; ++i) {
    r.x[0] = at(*x[0], i), r.x[1] = at(*x[1], i), r.y = at(y, i);
    OPSNN_TIER_CALL(ByteSumKernel)(s, r, t);
  }
  return true;
}

}  // namespace opsnn::vector
#endif
