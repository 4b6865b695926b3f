#include <gtest/gtest.h>

#include "plan/plan_tester.h"

namespace opsnn::plan {
namespace {

// A thin product whose result leaves the caches: memory is all it waits for.
ContractionEdge Thin(const Program& tail, int64_t m = 2048 + 40, int threads = 1) {
  ContractionEdge e = Gemm(m, 4096, 8, 1, tail, DType::kF32, threads);
  e.full_operands = 1;
  return e;
}

void ExpectCovered(const Decision& d, int64_t m) {
  int64_t row = 0;
  for (const Region& r : d.regions) {
    EXPECT_EQ(r.first, row);
    EXPECT_GT(r.block, 0);
    EXPECT_GE(r.rows, r.block);
    EXPECT_EQ(r.verdict == Verdict::kFuse, r.fused_us < r.split_us);
    row += r.rows;
  }
  EXPECT_EQ(row, m);
}

TEST(Regions, ThinProductsBeyondTheCachesAreHybrid) {
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  for (int threads : {1, 2}) {
    const Decision d = JudgeContraction(Thin(tail, 2048 + 40, threads), p, Knobs{});
    ASSERT_EQ(d.verdict, Verdict::kHybrid) << d.reason;
    EXPECT_LT(d.time_hybrid_us, d.time_fused_us);
    EXPECT_LT(d.time_hybrid_us, d.time_split_us);
    ExpectCovered(d, 2048 + 40);
    EXPECT_EQ(d.regions.front().verdict, Verdict::kSplit);
    EXPECT_NE(d.reason.find("by regions"), std::string::npos);
    // The intermediate of a block fits the cores' own caches with room to spare.
    EXPECT_LE(d.regions.front().block * 4096 * 4, threads * static_cast<int64_t>(p.l1_bytes()) / 2);
    EXPECT_TRUE(Fuses(d)) << "a hybrid call takes the chain";
  }
}

TEST(Regions, AreNotForOthers) {
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  const auto verdict = [&](const ContractionEdge& e, Knobs knobs = {}) {
    return JudgeContraction(e, p, knobs).verdict;
  };
  Knobs forced;
  forced.fusion = FusionMode::kForce;
  EXPECT_EQ(verdict(Thin(tail), forced), Verdict::kFuse);
  ContractionEdge e = Thin(tail, 64);  // stays in the caches
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  e = Thin(tail);
  e.k = 2048;  // computing hides the memory
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  e = Thin(tail);
  e.batch = 8;
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  e = Thin(tail);
  e.kind = ContractionKind::kConv;
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  e = Thin(tail);
  e.out_dtype = DType::kF16;  // its store rounds: regions would show
  EXPECT_NE(verdict(e), Verdict::kHybrid);
}

TEST(Regions, CachedDecisionsCountTheRowsOfTheCall) {
  ClearJudgeCache();
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  for (int64_t m : {2030, 2031, 2048}) {
    const auto d = CachedJudgeContraction(Thin(tail, m), p, Knobs{});
    ASSERT_EQ(d->verdict, Verdict::kHybrid) << d->reason;
    ExpectCovered(*d, m);
  }
  EXPECT_EQ(JudgeCacheCounters().entries, 1);
}

TEST(Regions, AreCounted) {
  const RegionCounters before = RegionsRun();
  CountRegions(1, 31);
  const RegionCounters after = RegionsRun();
  EXPECT_EQ(after.calls - before.calls, 1);
  EXPECT_EQ(after.fused - before.fused, 1);
  EXPECT_EQ(after.split - before.split, 31);
}

}  // namespace
}  // namespace opsnn::plan
