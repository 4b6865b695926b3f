#include "isa/tier.h"

#include <atomic>

#include "base/knobs.h"
#include "isa/cpuid.h"

namespace opsnn::isa {
namespace {

Tier Detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("bmi");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? Tier::kAvx512 : avx2 ? Tier::kAvx2 : Tier::kSse4;
#else
  return Tier::kSse4;
#endif
}

// The cap from environment or config file. An unknown name was reported and dropped by base/knobs.
Tier InitialTier() {
  Tier t = BestTier();
  const Result<Tier> named = TierFromName(GetKnobs().max_isa);
  if (named.ok() && *named < t) t = *named;
  return t;
}

std::atomic<int>& Active() {
  static std::atomic<int> active{static_cast<int>(InitialTier())};
  return active;
}

}  // namespace

const char* Name(Tier t) {
  static constexpr const char* kNames[] = {"sse4", "avx2", "avx512"};
  return kNames[static_cast<int>(t)];
}

Result<Tier> TierFromName(std::string_view name) {
  for (int i = 0; i < kNumTiers; ++i) {
    if (name == Name(static_cast<Tier>(i))) return static_cast<Tier>(i);
  }
  return InvalidArgument("unknown instruction-set tier \"%.*s\"; allowed: sse4, avx2, avx512",
                         static_cast<int>(name.size()), name.data());
}

Tier BestTier() {
  static const Tier best = Detect();
  return best;
}

Tier ActiveTier() { return static_cast<Tier>(Active().load(std::memory_order_relaxed)); }

void SetMaxTier(Tier t) {
  Active().store(static_cast<int>(t < BestTier() ? t : BestTier()), std::memory_order_relaxed);
}

bool HasVnni() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has && ActiveTier() == Tier::kAvx512;
#else
  return false;
#endif
}

bool HasBf16() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && ActiveTier() == Tier::kAvx512;
#else
  return false;
#endif
}

bool HasBf16Moves() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512vbmi2");
  return has && HasBf16();
#else
  return false;
#endif
}

std::string FeatureString() {
  std::string s = Name(ActiveTier());
  if (HasVnni()) s += "+vnni";
  if (HasBf16()) s += "+bf16";
  return s;
}

}  // namespace opsnn::isa
