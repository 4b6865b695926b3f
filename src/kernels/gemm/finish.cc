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

void FinishRowsKernel(float* c, int64_t ldc, int64_t rows, int64_t cols, const float* bias,
                      vector::RegAct act, const float* act_imm) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = cols / lanes * lanes;
  const size_t rest = static_cast<size_t>(cols - whole);
  const auto neutral = hn::Set(d, -0.0f);  // x + -0 is x for every x
  opsnn::HWY_NAMESPACE::DispatchAct(act, [&](auto tag) HWY_ATTR {
    for (int64_t i = 0; i < rows; ++i) {
      float* row = c + i * ldc;
      for (int64_t j = 0; j < whole; j += lanes) {
        const auto x = hn::Add(hn::LoadU(d, row + j), bias ? hn::LoadU(d, bias + j) : neutral);
        hn::StoreU(opsnn::HWY_NAMESPACE::ApplyActStatic<decltype(tag)::value>(d, x, act_imm[0], act_imm[1]),
                   d, row + j);
      }
      if (rest == 0) continue;
      const auto x =
          hn::Add(LoadFirst(d, row + whole, rest), bias ? LoadFirst(d, bias + whole, rest) : neutral);
      StoreFirst(opsnn::HWY_NAMESPACE::ApplyActStatic<decltype(tag)::value>(d, x, act_imm[0], act_imm[1]), d,
                 row + whole, rest);
    }
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
