// The random generator: Philox4x32 with ten rounds, a counter-based one. Element i takes its words from
// counter i whatever the threads, so results depend on the seed only.
#ifndef OPSNN_OPS_RANDOM_PHILOX_H_
#define OPSNN_OPS_RANDOM_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>

namespace opsnn::ops {

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords Philox(uint64_t seed, uint64_t counter) {
  constexpr uint64_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;    // multipliers and key increments of the
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // published generator
  PhiloxWords x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += kWeyl0, k1 += kWeyl1) {
    const uint64_t a = kMul0 * x[0], b = kMul1 * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(a)};
  }
  return x;
}

// In [0, 1) with 53 bits, from two words.
inline double UniformOf(uint32_t hi, uint32_t lo) {
  return static_cast<double>((static_cast<uint64_t>(hi) << 32 | lo) >> 11) * 0x1p-53;
}
inline double PhiloxUniform(uint64_t seed, uint64_t counter) {
  const PhiloxWords w = Philox(seed, counter);
  return UniformOf(w[0], w[1]);
}
// Standard normal by Box and Muller, from one counter.
inline double PhiloxNormal(uint64_t seed, uint64_t counter) {
  const PhiloxWords w = Philox(seed, counter);
  const double u = 1 - UniformOf(w[0], w[1]);  // above 0: its logarithm is finite
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * UniformOf(w[2], w[3]));
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_RANDOM_PHILOX_H_
