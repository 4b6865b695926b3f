// Bias and activation over a block of C that is still in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/finish.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/tail-inl.h"
#include "simd/act-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows whose chains run side by side: one takes some 80 cycles, of which a core of 12 each sees too few
// ahead.
constexpr int kTogether = 4;

template <vector::RegAct kAct, int kRows>
HWY_INLINE void Finish(float* c, int64_t ldc, int64_t cols, const float* bias, const float* act_imm) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = cols / lanes * lanes;
  const size_t rest = static_cast<size_t>(cols - whole);
  const V neutral = hn::Set(d, -0.0f);  // x + -0 is x for every x
  V x[kRows];
  for (int64_t j = 0; j < whole; j += lanes) {
    const V b = bias ? hn::LoadU(d, bias + j) : neutral;
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) x[i] = hn::Add(hn::LoadU(d, c + i * ldc + j), b);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      x[i] = opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, x[i], act_imm[0], act_imm[1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) hn::StoreU(x[i], d, c + i * ldc + j);
  }
  if (rest == 0) return;
  for (int i = 0; i < kRows; ++i) {
    float* end = c + i * ldc + whole;
    const V y = hn::Add(LoadFirst(d, end, rest), bias ? LoadFirst(d, bias + whole, rest) : neutral);
    StoreFirst(opsnn::HWY_NAMESPACE::ApplyActStatic<kAct>(d, y, act_imm[0], act_imm[1]), d, end, rest);
  }
}

void FinishRowsKernel(float* c, int64_t ldc, int64_t rows, int64_t cols, const float* bias,
                      vector::RegAct act, const float* act_imm) {
  opsnn::HWY_NAMESPACE::DispatchAct(act, [&](auto tag) HWY_ATTR {
    constexpr vector::RegAct kAct = decltype(tag)::value;
    int64_t i = 0;
    for (; i + kTogether <= rows; i += kTogether) {
      Finish<kAct, kTogether>(c + i * ldc, ldc, cols, bias, act_imm);
    }
    for (; i < rows; ++i) Finish<kAct, 1>(c + i * ldc, ldc, cols, bias, act_imm);
  });
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(FinishRowsKernel);
void FinishRows(float* c, int64_t ldc, int64_t rows, int64_t cols, const float* bias, vector::RegAct act,
                const float act_imm[2]) {
  OPSNN_TIER_CALL(FinishRowsKernel)(c, ldc, rows, cols, bias, act, act_imm);
}
}  // namespace opsnn::gemm
#endif
