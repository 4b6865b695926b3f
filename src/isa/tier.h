// Instruction-set tiers: one binary, the tier is chosen at run time.
//
// A tier is a set of kernels compiled for one Highway target; each kernel file is compiled once per tier and
// exports a table (isa/hwy.h). The active tier is the best one the CPU runs, capped by OPSNN_MAX_ISA
// (sse4 | avx2 | avx512). We keep our own mask instead of Highway's process-wide DisableTargets, so that a
// program with its own Highway is not disturbed. VNNI and BF16 are features on top of avx512.
#ifndef OPSNN_ISA_TIER_H_
#define OPSNN_ISA_TIER_H_

#include <string_view>

#include "base/status.h"

namespace opsnn::isa {

enum class Tier : int { kSse4 = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kNumTiers = 3;

const char* Name(Tier t);  // "sse4", "avx2", "avx512"
Result<Tier> TierFromName(std::string_view name);
Tier BestTier();              // what this CPU can run, ignoring any cap
Tier ActiveTier();            // BestTier() under the cap; constant after the first call unless
void SetMaxTier(Tier t);      // ... a test or the API changes the cap
bool HasVnni();               // AVX512-VNNI, and the cap allows avx512
bool HasBf16();               // AVX512-BF16, and the cap allows avx512
std::string FeatureString();  // "avx512+vnni+bf16"

}  // namespace opsnn::isa

#endif  // OPSNN_ISA_TIER_H_
