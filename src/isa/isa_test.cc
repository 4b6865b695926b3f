#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "isa/cpuid.h"
#include "isa/tier.h"

namespace opsnn::isa {
namespace {

TEST(Tier, NamesRoundTrip) {
  for (int i = 0; i < kNumTiers; ++i)
    EXPECT_EQ(*TierFromName(Name(static_cast<Tier>(i))), static_cast<Tier>(i));
  EXPECT_EQ(TierFromName("avx9").status().message(),
            "unknown instruction-set tier \"avx9\"; allowed: sse4, avx2, avx512");
}

TEST(Tier, CapIsNeverExceeded) {
  const Tier before = ActiveTier();
  for (int i = 0; i < kNumTiers; ++i) {
    SetMaxTier(static_cast<Tier>(i));
    EXPECT_LE(ActiveTier(), static_cast<Tier>(i));
    EXPECT_LE(ActiveTier(), BestTier());
    EXPECT_EQ(FeatureString().rfind(Name(ActiveTier()), 0), 0u);
    if (ActiveTier() != Tier::kAvx512) {
      EXPECT_FALSE(HasVnni());
      EXPECT_FALSE(HasBf16());
    }
  }
  SetMaxTier(before);
}

// The tier is chosen at its first use: this style of death test runs in a process of its own.
TEST(TierDeathTest, EnvironmentCaps) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("OPSNN_MAX_ISA", "sse4", 1);
  EXPECT_EXIT(_exit(10 + static_cast<int>(ActiveTier())), ::testing::ExitedWithCode(10), "");
  setenv("OPSNN_MAX_ISA", "avx2", 1);
  const int want = 10 + static_cast<int>(std::min(BestTier(), Tier::kAvx2));
  EXPECT_EXIT(_exit(10 + static_cast<int>(ActiveTier())), ::testing::ExitedWithCode(want), "");
  unsetenv("OPSNN_MAX_ISA");
}

TEST(Cpuid, CachesAreOrdered) {
  int64_t previous = 0;
  for (const CpuCache& c : CachesByCpuid()) {
    EXPECT_GE(c.level, 1);
    EXPECT_LE(c.level, 4);
    EXPECT_GE(c.bytes, previous / 64);
    EXPECT_GE(c.sharing, 1);
    previous = c.bytes;
  }
}

}  // namespace
}  // namespace opsnn::isa
