// Blocks of bf16 pairs with AVX512-BF16: the tiles of f32 with another instruction; packing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/x86_bf16.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/bf16_internal.h"
#define OPSNN_BLOCK_ATTR __attribute__((target("avx512bf16")))
#include "kernels/gemm/block-inl.h"
#include "kernels/gemm/wide-inl.h"
#undef OPSNN_BLOCK_ATTR

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
struct DotPairs {
  static HWY_INLINE __attribute__((target("avx512bf16"))) V MulAdd(V a, V b, V sum) {
    return V{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
  }
};
void PairBlockKernel(const BlockArgs& g) { RunBlock<DotPairs>(g); }
void PairWideBlockKernel(const BlockArgs& g) { RunWide<DotPairs>(g); }

void PackPairRowsKernel(const PairRows& f, uint32_t* dst, int64_t ld) {
  constexpr int64_t kStep = 32;  // columns
  // Words of the columns 0 to 15 and 16 to 31 from two rows.
  alignas(64) uint16_t low[32], high[32];
  for (int i = 0; i < 16; ++i) {
    low[2 * i] = static_cast<uint16_t>(i), low[2 * i + 1] = static_cast<uint16_t>(32 + i);
    high[2 * i] = static_cast<uint16_t>(16 + i), high[2 * i + 1] = static_cast<uint16_t>(48 + i);
  }
  const __m512i to_low = _mm512_load_si512(low), to_high = _mm512_load_si512(high);
  const auto first = [](int64_t n) { return n <= 0 ? 0 : n >= 32 ? ~uint32_t{0} : (uint32_t{1} << n) - 1; };
  for (int64_t i = 0; i < f.fill; i += kStep) {
    const __mmask32 columns = first(f.width - i), words = first(f.fill - i);
    const auto low_words = static_cast<__mmask16>(words), high_words = static_cast<__mmask16>(words >> 16);
    for (int64_t k = 0; k < f.depth; ++k) {
      const uint16_t* row = f.src + 2 * k * f.row_stride + i;
      const __m512i even = _mm512_maskz_loadu_epi16(columns, row);
      const __m512i odd =
          2 * k + 1 < f.rows ? _mm512_maskz_loadu_epi16(columns, row + f.row_stride) : _mm512_setzero_si512();
      uint32_t* to = dst + k * ld + i;
      _mm512_mask_storeu_epi32(to, low_words, _mm512_permutex2var_epi16(even, to_low, odd));
      if (high_words)
        _mm512_mask_storeu_epi32(to + 16, high_words, _mm512_permutex2var_epi16(even, to_high, odd));
    }
  }
}
#else
void PairBlockKernel(const BlockArgs&) {}
void PairWideBlockKernel(const BlockArgs&) {}
void PackPairRowsKernel(const PairRows&, uint32_t*, int64_t) {}
#endif

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(PairBlockKernel);
OPSNN_TIER_TABLE(PairWideBlockKernel);
OPSNN_TIER_TABLE(PackPairRowsKernel);
void PairBlock(const BlockArgs& args) { OPSNN_TIER_CALL(PairBlockKernel)(args); }
void PairWideBlock(const BlockArgs& args) { OPSNN_TIER_CALL(PairWideBlockKernel)(args); }
void PackPairRows(const PairRows& from, uint32_t* dst, int64_t ld) {
  OPSNN_TIER_CALL(PackPairRowsKernel)(from, dst, ld);
}
}  // namespace opsnn::gemm
#endif
