#include <gtest/gtest.h>

#include "plan/plan_tester.h"

namespace opsnn::plan {
namespace {

// Memory so slow that what is read for stores alone, line by line, decides.
DeviceProfile SlowMemoryHost() {
  DeviceProfile p = TestHost();
  p.Set(device::Field::k_hbm_rate, 2.5, "test"), p.Set(device::Field::k_hbm_total_rate, 4, "test");
  return p;
}

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
    row += r.rows;
  }
  EXPECT_EQ(row, m);
}

TEST(Regions, ThinProductsBeyondTheCachesAreHybrid) {
  const DeviceProfile p = SlowMemoryHost();
  const Program tail = AddRelu();
  const Decision d = JudgeContraction(Thin(tail), p, Knobs{});
  ASSERT_EQ(d.verdict, Verdict::kHybrid) << d.reason;
  EXPECT_LT(d.time_hybrid_us, d.time_fused_us);
  EXPECT_LT(d.time_hybrid_us, d.time_split_us);
  ExpectCovered(d, 2048 + 40);
  for (const Region& r : d.regions) EXPECT_EQ(r.verdict == Verdict::kFuse, r.fused_us < r.split_us);
  EXPECT_EQ(d.regions.front().verdict, Verdict::kSplit);
  EXPECT_NE(d.reason.find("by regions"), std::string::npos);
  // The intermediate of a block fits the core's own cache with room to spare.
  EXPECT_LE(d.regions.front().block * 4096 * 4, static_cast<int64_t>(p.l1_bytes()) / 2);
  EXPECT_TRUE(Fuses(d)) << "a hybrid call takes the chain";
  // Two threads meet twice per block, which is charged.
  EXPECT_GT(JudgeContraction(Thin(tail, 2048 + 40, 2), p, Knobs{}).time_hybrid_us, d.time_hybrid_us / 2);
}

TEST(Regions, AreNotForOthers) {
  const DeviceProfile p = SlowMemoryHost();
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
  const auto says = [&](const char* why) {
    const std::string reason = JudgeContraction(e, p, Knobs{}).reason;
    EXPECT_NE(reason.find(std::string("; no regions: ") + why), std::string::npos) << reason;
  };
  says("the products of a batch are blocks already");
  e = Thin(tail);
  e.kind = ContractionKind::kConv;
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  e = Thin(tail);
  e.out_dtype = DType::kF16;  // its store rounds: regions would show
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  says("they are for f32 that stays f32");
  e = Thin(tail);
  e.dtype = e.out_dtype = DType::kF64;
  EXPECT_NE(verdict(e), Verdict::kHybrid);
  says("they are for f32 that stays f32");
}

TEST(Regions, CachedDecisionsCountTheRowsOfTheCall) {
  ClearJudgeCache();
  const DeviceProfile p = SlowMemoryHost();
  const Program tail = AddRelu();
  for (int64_t m : {2030, 2031, 2048}) {
    const auto d = CachedJudgeContraction(Thin(tail, m), p, Knobs{});
    ASSERT_EQ(d->verdict, Verdict::kHybrid) << d->reason;
    ExpectCovered(*d, m);
  }
  EXPECT_EQ(JudgeCacheCounters().entries, 1);
}

TEST(Regions, RowReductionsNeedWholeRows) {
  const DeviceProfile p = TestHost();
  ProgramBuilder b;
  const SlotId x = b.Input();
  b.Output(b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x)));
  const Program tail = std::move(b).Build();
  ContractionEdge e = Gemm(65536, 768, 16, 1, tail);
  const Decision d = JudgeRowsBehind(e, p, Knobs{});
  ASSERT_EQ(d.verdict, Verdict::kHybrid) << d.reason;
  ExpectCovered(d, e.m);
  EXPECT_LT(d.time_hybrid_us, d.time_split_us);
  EXPECT_EQ(d.regions.front().verdict, Verdict::kSplit);
  e.m = 128;  // stays in a cache anyway
  EXPECT_EQ(JudgeRowsBehind(e, p, Knobs{}).verdict, Verdict::kSplit);
  e.n = 1 << 20;  // no 16 rows fit
  EXPECT_NE(JudgeRowsBehind(e, p, Knobs{}).reason.find("whole rows does not fit L1"), std::string::npos);
  e = Gemm(64, 64, 64, 12, tail);
  EXPECT_EQ(JudgeRowsBehind(e, p, Knobs{}).verdict, Verdict::kRefuse);
  EXPECT_EQ(JudgeRowsBehind(Gemm(65536, 768, 16, 1, tail), Npu("910B1"), Knobs{}).reason, kNeedsGather);
}

// ---- two products in a chain

ChainedEdge FeedForward(int64_t m, int64_t width, int64_t hidden) {
  ChainedEdge e;
  e.chain = "matmul+relu+matmul";
  e.m = m, e.k = e.n = width, e.hidden = hidden;
  e.threads = 1;
  return e;
}

TEST(Chained, NarrowAndTallIsBlockedWideIsNot) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  ChainedEdge e = FeedForward(65536, 32, 128);
  e.between = &relu;
  const Decision tall = JudgeChained(e, p, Knobs{});
  ASSERT_EQ(tall.verdict, Verdict::kFuse) << tall.reason;
  ASSERT_EQ(tall.regions.size(), 1u);
  const int64_t block = tall.regions.front().block;
  EXPECT_EQ(tall.regions.front().rows, 65536);
  EXPECT_EQ(tall.budget.front().bytes, block * 128 * 4);
  EXPECT_LE(tall.budget.front().bytes, static_cast<int64_t>(p.l1_bytes() / 4));
  EXPECT_TRUE(tall.retries.back().fits);
  EXPECT_GT(tall.retries.size(), 1u);
  // What lies between stays in a cache, or computing hides it.
  EXPECT_EQ(JudgeChained(FeedForward(128, 768, 3072), p, Knobs{}).verdict, Verdict::kSplit);
  EXPECT_EQ(JudgeChained(FeedForward(4096, 4096, 16384), p, Knobs{}).verdict, Verdict::kSplit);
}

TEST(Chained, KnobsBoundIt) {
  const DeviceProfile p = TestHost();
  Knobs knobs;
  knobs.fusion = FusionMode::kOff;
  EXPECT_EQ(JudgeChained(FeedForward(65536, 32, 128), p, knobs).verdict, Verdict::kSplit);
  knobs.fusion = FusionMode::kForce;
  EXPECT_EQ(JudgeChained(FeedForward(100, 32, 128), p, knobs).verdict, Verdict::kFuse);
  EXPECT_EQ(JudgeChained(FeedForward(16, 32, 128), p, knobs).verdict, Verdict::kSplit);
  // No block of rows fits.
  const Decision d = JudgeChained(FeedForward(1000, 32, 1 << 20), p, knobs);
  EXPECT_EQ(d.verdict, Verdict::kSplit);
  EXPECT_NE(d.reason.find("do not fit"), std::string::npos) << d.reason;
  knobs = Knobs{};
  knobs.l1_reserve = 0.9;
  const Decision reserved = JudgeChained(FeedForward(65536, 32, 128), p, knobs);
  EXPECT_LE(reserved.budget.front().bytes, static_cast<int64_t>(p.l1_bytes() / 40) + 1);
}

// ---- training, random numbers

TEST(Judge, TrainingChargesWhatTheBackwardPassNeeds) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu}), gelu = Chain({StageOp::kGeluErf});
  const auto charge = [&](const Program& tail, bool training) {
    ContractionEdge e = Gemm(1024, 1024, 64, 1, tail);
    e.training = training;
    double us = 0;
    for (const CostTerm& t : JudgeContraction(e, p, Knobs{}).fused_terms)
      us += t.name == "kept for the backward pass" ? t.us : 0;
    return us;
  };
  EXPECT_EQ(charge(gelu, false), 0);
  EXPECT_GT(charge(gelu, true), 0);
  EXPECT_EQ(charge(relu, true), 0) << "the derivative follows from the result";
  // It can flip a verdict.
  const Program silu = Chain({StageOp::kSilu});
  int flipped = 0;
  for (const Program* tail : {&gelu, &silu}) {
    for (const int64_t m : {256, 512, 1024, 2048, 4096}) {
      for (const int64_t k : {64, 128, 256, 512, 1024, 2048}) {
        ContractionEdge e = Gemm(m, m, k, 1, *tail);
        const bool alone = Fuses(JudgeContraction(e, p, Knobs{}));
        e.training = true;
        const bool trained = Fuses(JudgeContraction(e, p, Knobs{}));
        EXPECT_LE(trained, alone) << m << " " << k;
        flipped += alone && !trained;
      }
    }
  }
  EXPECT_GT(flipped, 0);
}

TEST(Judge, ConcurrentOperatorsShareTheBudget) {
  const Program gelu = Chain({StageOp::kGeluErf});
  const DeviceProfile p = Npu("910B1");
  ContractionEdge e = Gemm(4096, 4096, 512, 1, gelu, DType::kF16);
  const Decision alone = JudgeContraction(e, p, Knobs{});
  e.concurrent = 4;
  const Decision shared = JudgeContraction(e, p, Knobs{});
  EXPECT_EQ(alone.retries.back().available, 4 * shared.retries.back().available);
  EXPECT_EQ(shared.profile, alone.profile);
  e.concurrent = 400;  // nothing fits what is left
  EXPECT_EQ(JudgeContraction(e, p, Knobs{}).verdict, Verdict::kSplit);
  // They are classes of their own.
  ClearJudgeCache();
  e.concurrent = 1;
  EXPECT_TRUE(Fuses(*CachedJudgeContraction(e, p, Knobs{})));
  e.concurrent = 400;
  EXPECT_FALSE(Fuses(*CachedJudgeContraction(e, p, Knobs{})));
}

TEST(Judge, RandomNumbersAreDrawnWhereTheyAreUsed) {
  const DeviceProfile p = TestHost();
  const Program scale = Chain({StageOp::kRelu});
  RandomEdge e;
  e.chain = "random+mask";
  e.apply = &scale;
  for (int64_t n : {100, 100000, 50000000}) {
    e.elements = n;
    for (bool kept : {false, true}) {
      e.mask_kept = kept;
      const Decision d = JudgeRandom(e, p, Knobs{});
      EXPECT_EQ(d.verdict, Verdict::kFuse) << d.reason;
      EXPECT_FALSE(d.split_terms.empty());
    }
  }
  e.apply = nullptr;
  EXPECT_EQ(JudgeRandom(e, p, Knobs{}).verdict, Verdict::kRefuse);
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
