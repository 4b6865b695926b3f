// Row templates for many rows of one to four vectors of f32.
#include "vector/row_template.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels_short.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::RowArgs;
using vector::RowFamily;

template <size_t kVectors, bool kPart>
HWY_NOINLINE int64_t RowsOf(const RowArgs& a) {
  const size_t rest = static_cast<size_t>(a.cols) - (kVectors - 1) * kLanes;
  switch (a.kind.family) {
    case RowFamily::kLayerNorm:
      return RunBlocks<ShortNorm<kVectors, kPart, true>>(a, rest);
    case RowFamily::kRmsNorm:
      return RunBlocks<ShortNorm<kVectors, kPart, false>>(a, rest);
    case RowFamily::kSoftmax:
    case RowFamily::kLogSoftmax:
      return RunBlocks<ShortSoftmax<kVectors, kPart>>(a, rest);
    case RowFamily::kNone:
      break;
  }
  return 0;
}

}  // namespace

int64_t RunShortRowsTier(const RowArgs& a) {
  const auto cols = static_cast<size_t>(a.cols);
  const bool part = cols % kLanes != 0;
  switch ((cols + kLanes - 1) / kLanes) {
    case 1:
      return part ? RowsOf<1, true>(a) : RowsOf<1, false>(a);
    case 2:
      return part ? RowsOf<2, true>(a) : RowsOf<2, false>(a);
    case 3:
      return part ? RowsOf<3, true>(a) : RowsOf<3, false>(a);
    case 4:
      return part ? RowsOf<4, true>(a) : RowsOf<4, false>(a);
    default:
      return 0;
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RunShortRowsTier);
int64_t RunShortRowTemplate(const RowArgs& a) { return OPSNN_TIER_CALL(RunShortRowsTier)(a); }
}  // namespace opsnn::vector
#endif
