// The table of the exponential where a tier looks it up (exp-inl.h).
#ifndef OPSNN_SIMD_EXP_TABLE_H_
#define OPSNN_SIMD_EXP_TABLE_H_

#include <bit>
#include <cstdint>

namespace opsnn {

inline constexpr int kExpStepBits = 5, kExpSteps = 1 << kExpStepBits;  // of one doubling
// Shifting a number of steps by this makes whole doublings the exponent field.
inline constexpr int kExpShift = 23 - kExpStepBits;

// Entry j is 2^(j / kExpSteps), less j << kExpShift on its bits: added to k << kExpShift for a k whose low
// bits are j it is 2^(k / kExpSteps).
struct ExpTable {
  alignas(64) float entry[kExpSteps];
  constexpr ExpTable() : entry() {
    constexpr double kStep = 1.0218971486541166;  // 2^(1 / 32)
    double power = 1;
    for (uint32_t j = 0; j < kExpSteps; ++j, power *= kStep)
      entry[j] = std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(power)) - (j << kExpShift));
  }
};
inline constexpr ExpTable kExpTable;
static_assert(kExpSteps == 32);

}  // namespace opsnn

#endif  // OPSNN_SIMD_EXP_TABLE_H_
