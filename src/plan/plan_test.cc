#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "plan/cost.h"
#include "plan/gemm_blocking.h"
#include "plan/judge.h"
#include "plan/plan_cache.h"
#include "plan/plan_tester.h"
#include "plan/tiling.h"
#include "testing/testing.h"

namespace opsnn::plan {
namespace {

using device::DeviceProfile;
using device::Field;

// ---- budget

MatrixShape Shape(int64_t m, int64_t n, int64_t k) { return {m, n, k, 1, DType::kF32, 4 * m * k, false}; }

constexpr TileBlocks kSingle{4, 4, 4, 4, 1, 1};
constexpr TileBlocks kDouble{4, 4, 4, 4, 2, 1};
constexpr int64_t KiB = 1024;

TEST(Budget, TheWrittenExamples) {
  DeviceProfile p = TestHost();
  p.Set(Field::k_l1_bytes, 512 * 1024, "test");
  const Budget b = ComputeBudget({128, 256, 64}, kSingle, p, 0, true);
  ASSERT_EQ(b.items.size(), 4u);
  EXPECT_EQ(b.items[0].bytes, 32 * KiB);
  EXPECT_EQ(b.items[1].bytes, 64 * KiB);
  EXPECT_EQ(b.items[2].bytes, 128 * KiB);
  EXPECT_EQ(b.items[3].bytes, 128 * KiB);
  EXPECT_EQ(b.l1, 352 * KiB);
  EXPECT_TRUE(b.fits);
  const Budget reserved = ComputeBudget({128, 256, 64}, kSingle, p, 0.3, true);
  EXPECT_EQ(reserved.l1_available, static_cast<int64_t>(358.4 * KiB));
  EXPECT_TRUE(reserved.fits);
  const Budget doubled = ComputeBudget({128, 256, 64}, kDouble, p, 0.3, true);
  EXPECT_EQ(doubled.l1, 448 * KiB);
  EXPECT_FALSE(doubled.fits);
  EXPECT_EQ(doubled.overflow, "L1: 458752 of 367001 bytes");
  EXPECT_EQ(ComputeBudget({64, 256, 32}, kSingle, p, 0, true).l1, 168 * KiB);
}

TEST(Budget, PoolsOfAnNpu) {
  const Budget b = ComputeBudget({128, 256, 64}, kDouble, Npu("910B1"), 0, false);
  EXPECT_EQ(b.l1, 2 * (32 + 64) * KiB);
  EXPECT_EQ(b.l0c, 128 * KiB);
  EXPECT_EQ(b.ub, 64 * KiB);  // two vector cores share the block
  EXPECT_TRUE(b.fits);
  EXPECT_EQ(ComputeBudget({256, 256, 64}, kDouble, Npu("910B1"), 0, false).overflow,
            "L0C: 262144 of 131072 bytes");
}

TEST(Tiling, CalcTiling) {
  DeviceProfile p = TestHost();
  p.Set(Field::k_l1_bytes, 512 * 1024, "test");
  Knobs knobs;
  TilingAnswer a = CalcTiling(1024, 1024, 1024, {128, 256, 64}, p, knobs);
  EXPECT_TRUE(a.fuse) << a.reason;
  EXPECT_EQ(a.tile, (Tile{128, 256, 64}));
  EXPECT_EQ(a.l1_budget, 352 * KiB);
  EXPECT_EQ(a.ub_budget, 128 * KiB);
  // Given fields are never changed: this one is too large and says so.
  a = CalcTiling(4096, 4096, 4096, {512, 512, 512}, p, knobs);
  EXPECT_FALSE(a.fuse);
  EXPECT_EQ(a.tile, (Tile{512, 512, 512}));
  EXPECT_NE(a.reason.find("do not fit L1"), std::string::npos) << a.reason;
  // Zeros are filled, and what is filled fits.
  for (int64_t size : {1, 7, 64, 1000, 100000}) {
    a = CalcTiling(size, size, size, {}, p, knobs);
    EXPECT_TRUE(a.fuse) << size << ": " << a.reason;
    EXPECT_LE(a.l1_budget, 512 * KiB);
    EXPECT_GT(a.tile.m, 0);
    EXPECT_GT(a.tile.n, 0);
    EXPECT_GT(a.tile.k, 0);
  }
  a = CalcTiling(1024, 1024, 1024, {128, 0, 64}, p, knobs);
  EXPECT_TRUE(a.fuse);
  EXPECT_EQ(a.tile.m, 128);
  EXPECT_EQ(a.tile.k, 64);
  EXPECT_GT(a.tile.n, 0);
  // Sizes whose products exceed 64 bits.
  const int64_t huge = (int64_t{1} << 31) - 1;
  a = CalcTiling(huge, huge, huge, {huge, huge, huge}, p, knobs);
  EXPECT_FALSE(a.fuse);
  EXPECT_GT(a.l1_budget, 0);
  EXPECT_TRUE(CalcTiling(huge, huge, huge, {}, p, knobs).fuse);
}

TEST(Tiling, LadderShrinksKFirstAndLogsEveryTry) {
  const DeviceProfile p = Npu("910B1:ub_bytes=24K");
  const TileBlocks blocks{2, 2, 4, 4, 2, 1};
  const TileChoice c = ChooseTile(Shape(4096, 4096, 4096), {}, blocks, p, 24, Knobs{}, false);
  ASSERT_TRUE(c.fits);
  ASSERT_GE(c.retries.size(), 3u);
  EXPECT_FALSE(c.retries.front().fits);
  EXPECT_TRUE(c.retries.back().fits);
  EXPECT_EQ(c.retries.back().tile_m, c.tile.m);
  EXPECT_LT(c.retries[1].tile_k, c.retries[0].tile_k);
  EXPECT_EQ(c.retries[1].tile_m, c.retries[0].tile_m);
  for (const Retry& r : c.retries) EXPECT_EQ(r.fits, r.bytes <= r.available);
}

TEST(Tiling, MinimumTileK) {
  const TileBlocks blocks{4, 4, 4, 4, 1, 1};
  Knobs knobs;
  knobs.min_tile_k = 128;
  DeviceProfile p = TestHost();
  for (double l1 : {512.0 * 1024, 64.0 * 1024, 8.0 * 1024}) {
    p.Set(Field::k_l1_bytes, l1, "test");
    const TileChoice c = ChooseTile(Shape(1024, 1024, 1024), {}, blocks, p, 2, knobs, true);
    EXPECT_GE(c.tile.k, 128) << l1;
    EXPECT_EQ(c.fits, ComputeBudget(c.tile, blocks, p, 0, true).fits);
  }
  EXPECT_FALSE(ChooseTile(Shape(1024, 1024, 1024), {}, blocks, p, 2, knobs, true)
                   .fits);  // 8 KiB hold no 16 x 16 x 128
  const Program relu = Chain({StageOp::kRelu});
  const Decision d = JudgeContraction(Gemm(1024, 1024, 1024, 1, relu), p, knobs);
  EXPECT_EQ(d.verdict, Verdict::kSplit);
  EXPECT_NE(d.reason.find("no tile fits after"), std::string::npos) << d.reason;
}

TEST(Tiling, AlwaysLegal) {
  testing::Rng rng;
  const std::vector<std::string> names = device::ProfileNames();
  for (auto _ : testing::FuzzFor(300)) {
    const DeviceProfile p =
        rng.Chance(0.3)
            ? TestHost()
            : Npu(names[static_cast<size_t>(rng.Int(1, static_cast<int64_t>(names.size()) - 1))].c_str());
    const size_t size = size_t{1} << rng.Int(0, 2);
    const TileBlocks blocks{
        size, size, 4, 4, static_cast<int>(rng.Int(1, 2)), static_cast<int>(rng.Int(0, 3))};
    const int64_t m = rng.Size(5000), n = rng.Size(5000), k = rng.Size(5000);
    const TileChoice c =
        ChooseTile(Shape(m, n, k), {}, blocks, p, static_cast<int>(p.cores()), Knobs{}, rng.Chance(0.5));
    ASSERT_TRUE(c.fits) << p.name << " " << m << "x" << n << "x" << k;
    ASSERT_GT(c.tile.m, 0);
    ASSERT_GT(c.tile.n, 0);
    ASSERT_GT(c.tile.k, 0);
    ASSERT_FALSE(c.retries.empty());
    ASSERT_LE(c.retries.size(), 40u);
  }
}

// ---- gemm blocking

TEST(GemmBlocking, FitsTheCacheAndDividesEvenly) {
  testing::Rng rng;
  const DeviceProfile p = TestHost();
  for (auto _ : testing::FuzzFor(100)) {
    const MicroTile tile{static_cast<int>(rng.Int(4, 14)), static_cast<int>(8 * rng.Int(1, 6)),
                         static_cast<double>(rng.Int(0, 40))};
    const GemmShape s{rng.Size(4000), rng.Size(4000), rng.Size(4000), 1, 4, rng.Chance(0.5)};
    const GemmBlocking b = PlanGemmBlocking(s, tile, p);
    ASSERT_EQ(b.mc % tile.mr, 0);
    ASSERT_GT(b.kc, 0);
    ASSERT_LE(b.kc, s.k);
    ASSERT_LE(b.mc * b.kc * 4, p.l1_bytes() / 2);
    ASSERT_LT(b.mc - tile.mr, s.m);
    // Equal parts: as few as the largest depth allows, and no stump.
    const int64_t parts = (s.k + b.kc - 1) / b.kc;
    ASSERT_GE(s.k, (parts - 1) * b.kc + b.kc - 16 * parts);
  }
}

TEST(GemmBlocking, DepthDependsOnTheShapeAlone) {
  DeviceProfile p = TestHost();
  const GemmShape s{1024, 1024, 1000};
  const int64_t kc = PlanGemmBlocking(s, {14, 32}, p).kc;
  EXPECT_EQ(kc, 336);  // 1000 in three parts of whole cache lines
  EXPECT_EQ(PlanGemmBlocking(s, {6, 8}, p).kc, kc);
  for (int64_t l2 : {256, 512, 1024, 4096}) {
    p.Set(Field::k_l1_bytes, static_cast<double>(l2 * 1024), "test", false);
    p.Set(Field::k_ub_bytes, static_cast<double>(l2 * 16), "test", false);
    EXPECT_EQ(PlanGemmBlocking(s, {14, 32}, p).kc, kc);
  }
}

TEST(GemmBlocking, PackedWeightsAreDeepWhereAStepTakesLong) {
  const DeviceProfile p = TestHost();
  GemmShape s{2048, 2048, 2048};
  const MicroTile quick{14, 32, 14}, slow{14, 32, 28}, unknown{14, 32};
  const int64_t shallow = PlanGemmBlocking(s, unknown, p).kc;
  EXPECT_EQ(PlanGemmBlocking(s, slow, p).kc, shallow);
  s.packed_b = true;
  EXPECT_EQ(PlanGemmBlocking(s, quick, p).kc, shallow);
  EXPECT_EQ(PlanGemmBlocking(s, slow, p).kc, 1024);
  EXPECT_LE(PlanGemmBlocking(s, slow, p).mc * 1024 * 4, p.l1_bytes() / 2);
}

// ---- judge

void ExpectComplete(const Decision& d) {
  EXPECT_FALSE(d.reason.empty());
  EXPECT_FALSE(d.chain.empty());
  EXPECT_FALSE(d.profile.empty());
  double split = 0, fused = 0;
  for (const CostTerm& t : d.split_terms) split += t.us;
  for (const CostTerm& t : d.fused_terms) fused += t.us;
  EXPECT_DOUBLE_EQ(split, d.time_split_us);
  EXPECT_DOUBLE_EQ(fused, d.time_fused_us);
  for (const CostTerm& t : d.split_terms) EXPECT_GE(t.us, 0) << t.name;
  for (const CostTerm& t : d.fused_terms) EXPECT_GE(t.us, 0) << t.name;
}

TEST(Judge, HostFusesPointwiseTails) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu}), gelu = Chain({StageOp::kGeluErf});
  for (const Program* tail : {&relu, &gelu}) {
    for (int64_t size : {32, 64, 256, 512, 1024, 2048, 4096}) {
      for (int threads : {1, 2}) {
        const Decision d =
            JudgeContraction(Gemm(size, size, size, 1, *tail, DType::kF32, threads), p, Knobs{});
        EXPECT_EQ(d.verdict, Verdict::kFuse) << size << " " << d.reason;
        ExpectComplete(d);
        ASSERT_EQ(d.budget.size(), 4u);
        EXPECT_FALSE(d.retries.empty());
      }
    }
  }
  // What was measured: nothing to win in a large product, a lot in a small one.
  const Decision small = JudgeContraction(Gemm(64, 64, 64, 1, relu), p, Knobs{});
  const Decision large = JudgeContraction(Gemm(1024, 1024, 1024, 1, relu), p, Knobs{});
  EXPECT_GT(small.time_split_us / small.time_fused_us, 1.05);
  EXPECT_LT(large.time_split_us / large.time_fused_us, 1.05);
}

TEST(Judge, LevelOfTheIntermediateMatters) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  auto level = [&](int64_t m) {
    for (const CostTerm& t : JudgeContraction(Gemm(m, 256, 256, 1, relu), p, Knobs{}).split_terms) {
      if (t.name.rfind("write C to ", 0) == 0) return t.name.substr(11);
    }
    return std::string();
  };
  EXPECT_EQ(level(128), "L1");
  EXPECT_EQ(level(4096), "L2");
  EXPECT_EQ(level(65536), "HBM");
}

TEST(Judge, ColdOperandsInShortRowsCost) {
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  const auto short_rows = [&](const ContractionEdge& e) {
    double us = 0;
    for (const CostTerm& t : JudgeContraction(e, p, Knobs{}).fused_terms)
      us += t.name == "short rows" ? t.us : 0;
    return us;
  };
  ContractionEdge e = Gemm(4096, 4096, 32, 1, tail);
  e.full_operands = 1;
  EXPECT_GT(short_rows(e), 0);
  e.kind = ContractionKind::kConv;  // its blocks are contiguous
  EXPECT_EQ(short_rows(e), 0);
  e = Gemm(512, 512, 512, 1, tail);  // stays in the caches
  e.full_operands = 1;
  EXPECT_EQ(short_rows(e), 0);
  EXPECT_EQ(JudgeContraction(e, p, Knobs{}).verdict, Verdict::kFuse);
}

// A program is started once per product of a batch, which a pass over all of them is spared.
TEST(Judge, ManyTinyProductsWithAProgramAreSplit) {
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  ContractionEdge e = Gemm(16, 16, 16, 1024, tail);
  e.full_operands = 1;
  e.threads = 1;
  const Decision one = JudgeContraction(e, p, Knobs{});
  e.batch = 1;
  const Decision d = JudgeContraction(e, p, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kFuse);
  EXPECT_GT(one.time_fused_us, 1024 * d.time_fused_us * 0.5);
}

TEST(Judge, DepthwiseGainsMost) {
  const DeviceProfile p = TestHost();
  const Program tail = AddRelu();
  ContractionEdge e = Gemm(112 * 112, 64, 9, 1, tail);
  e.kind = ContractionKind::kDepthwise;
  e.full_operands = 1;
  const Decision d = JudgeContraction(e, p, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kFuse);
  EXPECT_GT(d.time_split_us / d.time_fused_us, 1.1);
  ExpectComplete(d);
}

TEST(Judge, NpuSmallBatchesAreSplitLargeProductsFused) {
  const Program relu = Chain({StageOp::kRelu});
  for (DType t : {DType::kF16, DType::kF32}) {
    const Decision small = JudgeContraction(Gemm(64, 64, 64, 1024, relu, t), Npu("910B1"), Knobs{});
    EXPECT_EQ(small.verdict, Verdict::kSplit) << small.reason;
    EXPECT_TRUE(small.rests_on_assumed) << "the hand-over is an assumption";
    ExpectComplete(small);
    const Decision large = JudgeContraction(Gemm(4096, 4096, 4096, 1, relu, t), Npu("910B1"), Knobs{});
    EXPECT_EQ(large.verdict, Verdict::kFuse) << large.reason;
    ExpectComplete(large);
  }
}

TEST(Judge, A2AndA3AgreeAnd950Differs) {
  const Program relu = Chain({StageOp::kRelu}), gelu = Chain({StageOp::kGeluErf});
  int differing = 0;
  for (const Program* tail : {&relu, &gelu}) {
    for (int64_t size : {64, 128, 256, 512, 1024, 4096}) {
      for (int64_t batch : {1, 16, 1024}) {
        const ContractionEdge e = Gemm(size, size, size, batch, *tail, DType::kF16);
        const Decision a2 = JudgeContraction(e, Npu("910B1"), Knobs{});
        EXPECT_EQ(a2.verdict, JudgeContraction(e, Npu("910_9382"), Knobs{}).verdict) << size << "x" << batch;
        differing += a2.verdict != JudgeContraction(e, Npu("950PR"), Knobs{}).verdict;
      }
    }
  }
  EXPECT_GT(differing, 0);
  // The case the difference is about: accumulators of the 950 reach UB directly.
  const ContractionEdge e = Gemm(64, 64, 64, 1024, relu, DType::kF16);
  EXPECT_EQ(JudgeContraction(e, Npu("950PR"), Knobs{}).verdict, Verdict::kFuse);
}

TEST(Judge, CapacityOverrideFlipsADecision) {
  const Program gelu = Chain({StageOp::kGeluErf});
  const ContractionEdge e = Gemm(4096, 4096, 512, 1, gelu, DType::kF16);
  const Decision small = JudgeContraction(e, Npu("910B1:ub_bytes=512"), Knobs{});
  const Decision large = JudgeContraction(e, Npu("910B1"), Knobs{});
  EXPECT_EQ(small.verdict, Verdict::kSplit) << small.reason;
  EXPECT_EQ(large.verdict, Verdict::kFuse) << large.reason;
  EXPECT_GT(small.retries.size(), large.retries.size());
}

TEST(Judge, RulesComeFirst) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  ContractionEdge e = Gemm(64, 64, 64, 1, relu);
  Knobs knobs;
  knobs.fusion = FusionMode::kOff;
  EXPECT_EQ(JudgeContraction(e, p, knobs).reason, "fusion is switched off");
  knobs.fusion = FusionMode::kForce;
  EXPECT_EQ(JudgeContraction(e, p, knobs).verdict, Verdict::kFuse);
  knobs = Knobs{};
  e.precision_first = true;
  EXPECT_EQ(JudgeContraction(e, p, knobs).verdict, Verdict::kSplit);
  e.precision_first = false;
  e.legal = false;
  e.illegal_reason = "the intermediate has two readers";
  EXPECT_EQ(JudgeContraction(e, p, knobs).verdict, Verdict::kRefuse);
  EXPECT_EQ(JudgeContraction(e, p, knobs).reason, e.illegal_reason);

  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kRowSum, b.Input()));
  const Program rows = std::move(b).Build();
  const Decision d = JudgeContraction(Gemm(64, 64, 64, 1, rows), p, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kRefuse);
  EXPECT_NE(d.reason.find("needs cross-channel gather"), std::string::npos);
  EXPECT_EQ(RefuseEdge("conv+softmax", "n", "", DType::kF32, kNeedsGather, p).verdict, Verdict::kRefuse);
  EXPECT_EQ(JudgeContraction(Gemm(0, 64, 64, 1, relu), p, Knobs{}).verdict, Verdict::kFuse);
}

TEST(Judge, ThresholdAndGreyZone) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  Knobs knobs;
  knobs.fuse_threshold = 0.5;
  const Decision d = JudgeContraction(Gemm(1024, 1024, 1024, 1, relu), p, knobs);
  EXPECT_EQ(d.verdict, Verdict::kSplit);
  EXPECT_DOUBLE_EQ(d.threshold_us, 0.5 * d.time_split_us);
  EXPECT_NE(d.reason.find("(fuse_threshold, 0.5 of the split time)"), std::string::npos) << d.reason;
  EXPECT_NE(d.reason.find("; saves mostly"), std::string::npos) << d.reason;
  EXPECT_EQ(d.reason.find("costs mostly"), std::string::npos) << d.reason;
}

TEST(Judge, PointwiseChains) {
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu}), add = AddRelu();
  PointwiseEdge e;
  e.chain = "relu+add";
  e.first = &relu;
  e.second = &add;
  for (int64_t n : {100, 100000, 10000000}) {
    e.elements = n;
    e.first_bytes = 4 * n;
    e.second_bytes = 4 * n;
    e.output_bytes = 4 * n;
    e.intermediate_kept = false;
    const Decision d = JudgePointwiseChain(e, p, Knobs{});
    EXPECT_EQ(d.verdict, Verdict::kFuse) << n << " " << d.reason;
    ExpectComplete(d);
    // 3 x n read and written once instead of 5 x n: beyond the caches the gain is what was measured, 1.5
    // to 2.
    if (n == 10000000) {
      EXPECT_GT(d.time_split_us / d.time_fused_us, 1.5);
      EXPECT_LT(d.time_split_us / d.time_fused_us, 2.1);
    }
    e.intermediate_kept = true;
    EXPECT_LT(JudgePointwiseChain(e, p, Knobs{}).benefit_us, d.benefit_us + 1e-9);
  }
  e.second = nullptr;
  EXPECT_EQ(JudgePointwiseChain(e, p, Knobs{}).verdict, Verdict::kRefuse);
}

TEST(Judge, RowProgramsNeedTheWholeRow) {
  const DeviceProfile p = Npu("910B1");
  ProgramBuilder b;
  const SlotId x = b.Input();
  b.Output(b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x)));
  const Program rows = std::move(b).Build();
  RowEdge e;
  e.chain = "add+softmax";
  e.program = &rows;
  e.rows = 100, e.cols = 768;
  EXPECT_EQ(JudgeRowProgram(e, p, Knobs{}).verdict, Verdict::kFuse);
  e.cols = 1 << 20;
  const Decision d = JudgeRowProgram(e, p, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kSplit);
  EXPECT_NE(d.reason.find("does not fit UB"), std::string::npos);
}

TEST(Judge, Conversions) {
  const DeviceProfile p = TestHost();
  ConversionEdge e;
  e.chain = "cast+conv";
  e.elements = 1 << 20;
  e.from = DType::kF16;
  e.to = DType::kF32;
  const Decision d = JudgeConversion(e, p, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kFuse) << d.reason;
  ExpectComplete(d);
  e.changes_layout = true;
  EXPECT_LT(JudgeConversion(e, p, Knobs{}).benefit_us, d.benefit_us);
}

TEST(Judge, PeakLiveSlots) {
  EXPECT_EQ(PeakLiveSlots(Chain({StageOp::kRelu})), 1);
  EXPECT_EQ(PeakLiveSlots(AddRelu()), 2);
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId y = b.Unary(StageOp::kExp, x);
  b.Output(b.Binary(StageOp::kAdd, x, y));
  EXPECT_EQ(PeakLiveSlots(std::move(b).Build()), 2);
}

TEST(Judge, RandomEdgesAreDecidedAndExplained) {
  testing::Rng rng;
  const std::vector<std::string> names = device::ProfileNames();
  const Program tails[] = {Chain({StageOp::kRelu}), Chain({StageOp::kGeluErf, StageOp::kTanh}), AddRelu()};
  for (auto _ : testing::FuzzFor(300)) {
    const DeviceProfile p =
        rng.Chance(0.3)
            ? TestHost()
            : Npu(names[static_cast<size_t>(rng.Int(1, static_cast<int64_t>(names.size()) - 1))].c_str());
    ContractionEdge e = Gemm(rng.Size(100000), rng.Size(5000), rng.Size(5000, true), rng.Size(64),
                             tails[rng.Int(0, 2)], static_cast<DType>(rng.Int(0, 4)));
    e.kind = static_cast<ContractionKind>(rng.Int(0, 2));
    e.full_operands = static_cast<int>(rng.Int(0, 2));
    const Decision d = JudgeContraction(e, p, Knobs{});
    ExpectComplete(d);
    ASSERT_TRUE(d.verdict == Verdict::kFuse || d.verdict == Verdict::kSplit || d.verdict == Verdict::kHybrid);
    ASSERT_TRUE(std::isfinite(d.benefit_us));
    if (d.verdict == Verdict::kFuse) {
      ASSERT_GT(d.benefit_us, d.threshold_us);
    }
  }
}

// ---- cache

struct IntKey {
  static constexpr int kWords = 1;
  uint64_t v = 0;
  const uint64_t* words() const { return &v; }
  friend bool operator==(const IntKey&, const IntKey&) = default;
};

TEST(PlanCache, LeastRecentlyUsedGoesFirst) {
  PlanCache<IntKey, int> c;
  EXPECT_EQ(c.Find({1}), nullptr);
  for (uint64_t i = 1; i <= 3; ++i) c.Insert({i}, std::make_shared<int>(static_cast<int>(i)), 10, 30);
  EXPECT_EQ(*c.Find({1}), 1);
  c.Insert({4}, std::make_shared<int>(4), 10, 30);
  EXPECT_EQ(c.Find({2}), nullptr);
  EXPECT_NE(c.Find({1}), nullptr);
  EXPECT_NE(c.Find({3}), nullptr);
  // The first value of a key stays; one that is too large is handed back and not kept.
  EXPECT_EQ(*c.Insert({1}, std::make_shared<int>(99), 10, 30), 1);
  EXPECT_EQ(*c.Insert({5}, std::make_shared<int>(5), 31, 30), 5);
  EXPECT_EQ(c.Find({5}), nullptr);
  const CacheCounters k = c.counters();
  EXPECT_EQ(k.entries, 3);
  EXPECT_EQ(k.bytes, 30);
  EXPECT_EQ(k.hits, 3);
  EXPECT_EQ(k.misses, 3);
  c.Clear();
  EXPECT_EQ(c.counters().entries, 0);
}

TEST(PlanCache, ManyThreads) {
  PlanCache<IntKey, int> c;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&c, t] {
      for (uint64_t i = 0; i < 3000; ++i) {
        const IntKey key{(i * 7 + static_cast<uint64_t>(t)) % 50};
        auto v = c.Find(key);
        if (!v) v = c.Insert(key, std::make_shared<int>(static_cast<int>(key.v)), 8, 200);
        ASSERT_EQ(*v, static_cast<int>(key.v));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(c.counters().bytes, 200);
}

TEST(JudgeCache, ClassesShareADecision) {
  ClearJudgeCache();
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  const auto a = CachedJudgeContraction(Gemm(1000, 768, 768, 1, relu), p, Knobs{});
  EXPECT_EQ(CachedJudgeContraction(Gemm(1001, 768, 768, 1, relu), p, Knobs{}), a);
  EXPECT_EQ(CachedJudgeContraction(Gemm(1024, 768, 768, 1, relu), p, Knobs{}), a);
  EXPECT_NE(CachedJudgeContraction(Gemm(1025, 768, 768, 1, relu), p, Knobs{}), a);
  EXPECT_NE(CachedJudgeContraction(Gemm(1000, 768, 768, 1, relu, DType::kF32, 2), p, Knobs{}), a);
  Knobs off;
  off.fusion = FusionMode::kOff;
  EXPECT_NE(CachedJudgeContraction(Gemm(1000, 768, 768, 1, relu), p, off), a);
  EXPECT_EQ(JudgeCacheCounters().hits, 2);
  EXPECT_EQ(JudgeCacheCounters().misses, 4);
  EXPECT_TRUE(a->where.empty());
}

TEST(JudgeCache, DecidingIsCheap) {
  ClearJudgeCache();
  const DeviceProfile p = TestHost();
  const Program relu = Chain({StageOp::kRelu});
  using Clock = std::chrono::steady_clock;
  auto microseconds = [](Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
  std::vector<double> fresh, cached;
  for (int64_t m = 1 << 8; m < 1 << 20; m += m / 4) {
    const ContractionEdge e = Gemm(m, 768, 3072, 1, relu);
    Clock::time_point begin = Clock::now();
    (void)CachedJudgeContraction(e, p, Knobs{});
    fresh.push_back(microseconds(Clock::now() - begin));
    const Knobs knobs;
    begin = Clock::now();
    for (int i = 0; i < 100; ++i) (void)CachedJudgeContraction(e, p, knobs);
    cached.push_back(microseconds(Clock::now() - begin) / 100);
  }
  std::sort(fresh.begin(), fresh.end());
  std::sort(cached.begin(), cached.end());
  printf("  new class %.2f us, cached %.3f us (medians)\n", fresh[fresh.size() / 2],
         cached[cached.size() / 2]);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The promise is 20 and 1; a busy machine gets some slack.
  EXPECT_LT(fresh[fresh.size() / 4], 40);
  EXPECT_LT(cached[cached.size() / 4], 2);
#endif
}

}  // namespace
}  // namespace opsnn::plan
