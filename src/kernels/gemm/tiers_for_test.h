// The instruction-set tiers that tests of products run under.
#ifndef OPSNN_KERNELS_GEMM_TIERS_FOR_TEST_H_
#define OPSNN_KERNELS_GEMM_TIERS_FOR_TEST_H_

#include <vector>

#include "isa/tier.h"

namespace opsnn::gemm {

inline std::vector<isa::Tier> Tiers() {
  std::vector<isa::Tier> tiers;
  for (int t = 0; t <= static_cast<int>(isa::ActiveTier()); ++t) tiers.push_back(static_cast<isa::Tier>(t));
  return tiers;
}

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_TIERS_FOR_TEST_H_
