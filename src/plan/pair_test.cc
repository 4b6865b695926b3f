// What the judge says of a depthwise convolution and the pointwise one behind it.
#include "plan/pair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/judge.h"
#include "plan/plan_tester.h"

namespace opsnn::plan {
namespace {

PairEdge Edge(int64_t images, int64_t channels, int64_t size, int64_t out, int threads = 1) {
  PairEdge e;
  e.chain = "depthwise+pointwise";
  e.images = images, e.rows = e.columns = size;
  e.channels = channels, e.taps = 9, e.out_channels = out;
  e.input_bytes = 4 * images * channels * size * size;
  e.strip_rows = std::max<int64_t>(1, std::min<int64_t>(size, (256 << 10) / (4 * channels * size)));
  e.overlap_bytes = 2 * 4 * channels * size;
  e.threads = threads;
  return e;
}

// The block of MobileNetV2 with so many images.
PairEdge Expanded(int64_t images, int64_t from, int64_t channels, int64_t size, int64_t stride, int64_t out) {
  PairEdge e = Edge(images, channels, size / stride, out);
  e.chain = "pointwise+depthwise+pointwise";
  e.input_bytes = 4 * images * from * size * size;
  e.strip_rows = 2, e.pieces = 1;
  e.expand_channels = from;
  e.expanded_rows = e.expanded_columns = size;
  e.expanded_strip_rows = stride + 3;
  e.overlap_bytes = (3 - stride) * 4 * channels * size;
  return e;
}

TEST(Pairs, ExpansionsPayWhereWhatTheyMakeLeavesTheCaches) {
  const DeviceProfile p = TestHost();
  const Decision large = JudgePair(Expanded(8, 16, 96, 112, 2, 24), p, Knobs{});
  EXPECT_EQ(large.verdict, Verdict::kFuse) << large.reason;
  EXPECT_EQ(JudgePair(Expanded(1, 32, 192, 28, 1, 32), p, Knobs{}).verdict, Verdict::kSplit);
  ASSERT_EQ(large.budget.size(), 2u);
  EXPECT_EQ(large.budget[1].block, "expanded");
  EXPECT_EQ(large.budget[1].bytes, 5 * 96 * 112 * 4);
  double fused = 0, split = 0, expanded = 0;
  for (const CostTerm& t : large.fused_terms) fused += t.us;
  for (const CostTerm& t : large.split_terms) {
    split += t.us;
    if (t.name.find("expanded") != std::string::npos) expanded += t.us;
  }
  EXPECT_DOUBLE_EQ(fused, large.time_fused_us);
  EXPECT_DOUBLE_EQ(split, large.time_split_us);
  EXPECT_GT(expanded, 0) << "what is written and read back";
  // Apart, the two behind the expansion do what is better for them.
  PairEdge two = Expanded(8, 16, 96, 112, 2, 24);
  two.expand_channels = 0, two.input_bytes = 4 * 8 * 96 * 112 * 112;
  const Decision rest = JudgePair(two, p, Knobs{});
  EXPECT_GT(large.time_split_us, std::min(rest.time_fused_us, rest.time_split_us));
  // More pieces make more rows twice.
  PairEdge cut = Expanded(8, 16, 96, 112, 2, 24);
  cut.pieces = 4;
  EXPECT_GT(JudgePair(cut, p, Knobs{}).time_fused_us, large.time_fused_us);
}

TEST(Pairs, PayWhereWhatLiesBetweenLeavesTheCores) {
  const DeviceProfile p = TestHost();
  const Decision large = JudgePair(Edge(8, 32, 112, 16), p, Knobs{});
  EXPECT_EQ(large.verdict, Verdict::kFuse) << large.reason;
  EXPECT_NE(large.reason.find("strips of 18 rows"), std::string::npos) << large.reason;
  EXPECT_GT(large.time_split_us, large.time_fused_us);
  EXPECT_EQ(JudgePair(Edge(1, 192, 28, 32), p, Knobs{}).verdict, Verdict::kSplit);
  EXPECT_EQ(JudgePair(Edge(1, 32, 7, 16), p, Knobs{}).verdict, Verdict::kSplit);
  // A product long enough to hide what it reads and what was written.
  EXPECT_EQ(JudgePair(Edge(8, 576, 14, 512), p, Knobs{}).verdict, Verdict::kSplit);
}

TEST(Pairs, ItemisedWithBudget) {
  const Decision d = JudgePair(Edge(8, 144, 56, 24, 2), TestHost(), Knobs{});
  ASSERT_EQ(d.budget.size(), 1u);
  EXPECT_EQ(d.budget[0].bytes, 8 * 144 * 56 * 4);
  ASSERT_EQ(d.retries.size(), 1u);
  EXPECT_TRUE(d.retries[0].fits);
  double fused = 0, split = 0;
  for (const CostTerm& t : d.fused_terms) fused += t.us;
  for (const CostTerm& t : d.split_terms) split += t.us;
  EXPECT_DOUBLE_EQ(fused, d.time_fused_us);
  EXPECT_DOUBLE_EQ(split, d.time_split_us);
}

TEST(Pairs, TheSameWithoutWords) {
  for (const PairEdge& edge : {Edge(8, 32, 112, 16), Edge(1, 192, 28, 32), Edge(8, 144, 56, 24, 2),
                               Expanded(8, 16, 96, 112, 2, 24)}) {
    PairEdge silent = edge;
    silent.words = false;
    const Decision d = JudgePair(edge, TestHost(), Knobs{}), s = JudgePair(silent, TestHost(), Knobs{});
    EXPECT_EQ(s.verdict, d.verdict);
    EXPECT_EQ(s.time_split_us, d.time_split_us);
    EXPECT_EQ(s.time_fused_us, d.time_fused_us);
    EXPECT_TRUE(s.split_terms.empty() && s.reason.empty());
  }
}

TEST(Pairs, StripsFollowFromTheDevice) {
  DeviceProfile p = TestHost();
  p.Set(Field::k_l1_bytes, 2 << 20, "test");
  EXPECT_EQ(RoomOfPair(p, 1).strip_bytes, 256 << 10);
  EXPECT_EQ(RoomOfPair(p, 2).strip_bytes, 256 << 10);
  EXPECT_EQ(RoomOfPair(p, 2).weight_bytes, 1 << 20);
  p.Set(Field::k_l1_bytes, 512 << 10, "test");
  EXPECT_EQ(RoomOfPair(p, 2).strip_bytes, 64 << 10);
  const auto npu = device::FindProfile("910B1");
  ASSERT_TRUE(npu.ok());
  const int cores = static_cast<int>(npu->cores());
  EXPECT_GT(RoomOfPair(*npu, cores).strip_bytes, 0);
  EXPECT_LE(static_cast<double>(RoomOfPair(*npu, cores).strip_bytes) * cores, npu->l2_bytes() / 4);
}

TEST(Pairs, Cached) {
  ClearJudgeCache();
  const DeviceProfile p = TestHost();
  for (int i = 0; i < 2; ++i)
    for (const PairEdge& edge : {Edge(8, 32, 112, 16), Edge(1, 192, 28, 32), Edge(8, 144, 56, 24, 2),
                                 Expanded(8, 16, 96, 112, 2, 24), Expanded(8, 24, 96, 112, 2, 24)}) {
      EXPECT_EQ(CachedJudgePair(edge, p, Knobs{})->verdict, JudgePair(edge, p, Knobs{}).verdict);
    }
  EXPECT_EQ(JudgeCacheCounters().misses, 5);
  EXPECT_EQ(JudgeCacheCounters().hits, 5);
  Knobs force;
  force.fusion = FusionMode::kForce;
  EXPECT_EQ(CachedJudgePair(Edge(1, 192, 28, 32), p, force)->verdict, Verdict::kFuse);
}

TEST(Pairs, KnobsAndRules) {
  const DeviceProfile p = TestHost();
  Knobs knobs;
  knobs.fusion = FusionMode::kForce;
  EXPECT_EQ(JudgePair(Edge(1, 32, 7, 16), p, knobs).verdict, Verdict::kFuse);
  knobs.fusion = FusionMode::kOff;
  EXPECT_EQ(JudgePair(Edge(8, 32, 112, 16), p, knobs).verdict, Verdict::kSplit);
  EXPECT_EQ(JudgePair(Edge(0, 32, 112, 16), p, Knobs{}).verdict, Verdict::kSplit);
  DeviceProfile small = p;
  small.Set(Field::k_l1_bytes, 256 << 10, "test");
  const Decision d = JudgePair(Edge(8, 32, 112, 16), small, Knobs{});
  EXPECT_EQ(d.verdict, Verdict::kSplit);
  EXPECT_NE(d.reason.find("do not fit"), std::string::npos) << d.reason;
}

}  // namespace
}  // namespace opsnn::plan
