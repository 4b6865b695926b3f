// Bias and activation over a block of C that is still in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/finish.cc"
#include <algorithm>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/tail-inl.h"
#include "simd/act-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of a row whose chains run side by side: one takes some 80 cycles, of which a core of 12 each sees
// too few ahead.
constexpr int kTogether = 4;
// Of those, how many are evaluated at a time.
constexpr int kGroup = hn::MaxLanes(hn::ScalableTag<float>()) == 16 ? 2 : 4;

template <vector::RegAct kAct>
HWY_INLINE void FinishTogether(const float* x_row, float* y_row, const float* bias, const float* act_imm) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 4
  for (int first = 0; first < kTogether; first += kGroup) {
    hn::Vec<decltype(d)> x[kGroup];
#pragma GCC unroll 4
    for (int i = 0; i < kGroup; ++i) {
      x[i] = hn::LoadU(d, x_row + (first + i) * lanes);
      if (bias) x[i] = hn::Add(x[i], hn::LoadU(d, bias + (first + i) * lanes));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kGroup; ++i) {
      x[i] = opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, x[i], act_imm[0], act_imm[1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kGroup; ++i) hn::StoreU(x[i], d, y_row + (first + i) * lanes);
  }
}

template <vector::RegAct kAct>
HWY_INLINE void FinishRow(const float* x, float* y, int64_t cols, const float* bias, const float* act_imm) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + kTogether * lanes <= cols; j += kTogether * lanes) {
    FinishTogether<kAct>(x + j, y + j, bias ? bias + j : nullptr, act_imm);
  }
  for (; j + lanes <= cols; j += lanes) {
    auto v = hn::LoadU(d, x + j);
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + j));
    hn::StoreU(opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, v, act_imm[0], act_imm[1]), d, y + j);
  }
  if (j == cols) return;
  const size_t rest = static_cast<size_t>(cols - j);
  auto v = LoadFirst(d, x + j, rest);
  if (bias) v = hn::Add(v, LoadFirst(d, bias + j, rest));
  StoreFirst(opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, v, act_imm[0], act_imm[1]), d, y + j, rest);
}

// Rows of two vectors, those of a register tile: two rows side by side. Returns how many rows are done.
template <vector::RegAct kAct>
HWY_INLINE int64_t FinishPairs(FromTo at, int64_t rows, const float* act_imm) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  static_assert(kTogether == 4);
  int64_t i = 0;
  for (; i + 2 <= rows; i += 2, at.x += 2 * at.ldx, at.y += 2 * at.ldy) {
    const float* from[kTogether] = {at.x, at.x + lanes, at.x + at.ldx, at.x + at.ldx + lanes};
    float* to[kTogether] = {at.y, at.y + lanes, at.y + at.ldy, at.y + at.ldy + lanes};
#pragma GCC unroll 4
    for (int first = 0; first < kTogether; first += kGroup) {
      hn::Vec<decltype(d)> x[kGroup];
#pragma GCC unroll 4
      for (int v = 0; v < kGroup; ++v) x[v] = hn::LoadU(d, from[first + v]);
#pragma GCC unroll 4
      for (int v = 0; v < kGroup; ++v) {
        x[v] = opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, x[v], act_imm[0], act_imm[1]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < kGroup; ++v) hn::StoreU(x[v], d, to[first + v]);
    }
  }
  return i;
}

void FinishRowsKernel(const FromTo& at, int64_t rows, int64_t cols, const float* bias, vector::RegAct act,
                      const float* act_imm) {
  // Rows without gaps are one row: narrow ones by themselves leave too few chains side by side.
  if (!bias && at.ldx == cols && at.ldy == cols) {
    cols *= rows;
    rows = 1;
  }
  const bool pairs = !bias && cols == 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  opsnn::HWY_NAMESPACE::DispatchAct(act, [&](auto tag) HWY_ATTR {
    int64_t i = pairs ? FinishPairs<decltype(tag)::value>(at, rows, act_imm) : 0;
    for (; i < rows; ++i)
      FinishRow<decltype(tag)::value>(at.x + i * at.ldx, at.y + i * at.ldy, cols, bias, act_imm);
  });
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(FinishRowsKernel);
void FinishRows(const FromTo& at, int64_t rows, int64_t cols, const float* bias, vector::RegAct act,
                const float act_imm[2]) {
  OPSNN_TIER_CALL(FinishRowsKernel)(at, rows, cols, bias, act, act_imm);
}
}  // namespace opsnn::gemm
#endif
