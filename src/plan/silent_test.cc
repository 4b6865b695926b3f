// A judge that is asked for no words gives the same verdict, times and regions.
#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.h"
#include "plan/judge.h"
#include "plan/plan_tester.h"
#include "testing/testing.h"

namespace opsnn::plan {
namespace {

void ExpectSame(const Decision& silent, const Decision& worded) {
  EXPECT_EQ(silent.verdict, worded.verdict) << worded.reason;
  EXPECT_EQ(silent.time_fused_us, worded.time_fused_us);
  EXPECT_EQ(silent.time_split_us, worded.time_split_us);
  EXPECT_EQ(silent.benefit_us, worded.benefit_us);
  EXPECT_EQ(silent.threshold_us, worded.threshold_us);
  EXPECT_EQ(silent.time_hybrid_us, worded.time_hybrid_us);
  ASSERT_EQ(silent.regions.size(), worded.regions.size());
  for (size_t i = 0; i < silent.regions.size(); ++i) {
    EXPECT_EQ(silent.regions[i].rows, worded.regions[i].rows);
    EXPECT_EQ(silent.regions[i].block, worded.regions[i].block);
    EXPECT_EQ(silent.regions[i].verdict, worded.regions[i].verdict);
  }
  EXPECT_TRUE(silent.chain.empty() && silent.shape.empty() && silent.budget.empty());
  EXPECT_TRUE(silent.fused_terms.empty() && silent.split_terms.empty());
  EXPECT_FALSE(worded.reason.empty());
}

int64_t Size(testing::Rng& rng) { return static_cast<int64_t>(std::exp2(rng.Int(0, 44) / 4.0)); }

TEST(Silent, ContractionsAreJudgedAlike) {
  testing::Rng rng;
  const Program relu = Chain({StageOp::kRelu}), gelu = Chain({StageOp::kGeluErf}), add = AddRelu();
  const Program* tails[] = {&relu, &gelu, &add};
  DeviceProfile slow = TestHost();  // memory so slow that thin products run by regions
  slow.Set(Field::k_hbm_rate, 2.5, "test"), slow.Set(Field::k_hbm_total_rate, 4, "test");
  const DeviceProfile profiles[] = {TestHost(), slow, Npu("910B1"), Npu("950PR")};
  int hybrid = 0;
  for (int i = 0; i < 400; ++i) {
    const Program& tail = *tails[rng.Int(0, 2)];
    ContractionEdge e = Gemm(Size(rng), Size(rng), Size(rng), rng.Chance(0.8) ? 1 : Size(rng), tail,
                             DType::kF32, static_cast<int>(rng.Int(1, 2)));
    e.full_operands = &tail == &add;
    if (rng.Chance(0.2)) {
      e.m = rng.Int(2000, 9000), e.n = 4096, e.k = 8, e.batch = 1;
    } else {
      e.kind = static_cast<ContractionKind>(rng.Int(0, 2));
      e.concurrent = static_cast<int>(rng.Int(1, 3));
    }
    Knobs knobs;
    if (rng.Chance(0.1)) knobs.fusion = FusionMode::kForce;
    const DeviceProfile& p = profiles[rng.Int(0, 3)];
    const Decision worded = JudgeContraction(e, p, knobs);
    e.words = false;
    ExpectSame(JudgeContraction(e, p, knobs), worded);
    hybrid += worded.verdict == Verdict::kHybrid;
  }
  EXPECT_GT(hybrid, 0);
}

TEST(Silent, PointwiseChainsAreJudgedAlike) {
  testing::Rng rng;
  const Program relu = Chain({StageOp::kRelu}), gelu = Chain({StageOp::kGeluErf});
  for (int i = 0; i < 100; ++i) {
    PointwiseEdge e;
    e.chain = "gelu+relu";
    e.elements = Size(rng) * Size(rng);
    e.first = &gelu, e.second = &relu;
    e.first_bytes = e.output_bytes = 4 * e.elements;
    e.threads = 1;
    const Decision worded = JudgePointwiseChain(e, TestHost(), Knobs{});
    e.words = false;
    ExpectSame(JudgePointwiseChain(e, TestHost(), Knobs{}), worded);
  }
}

// A class that was asked about silently still has its words for whoever wants them.
TEST(Silent, TheCacheKeepsBothApart) {
  const Program relu = Chain({StageOp::kRelu});
  ContractionEdge e = Gemm(128, 256, 64, 1, relu);
  e.words = false;
  EXPECT_TRUE(CachedJudgeContraction(e, TestHost(), Knobs{})->reason.empty());
  e.words = true;
  EXPECT_FALSE(CachedJudgeContraction(e, TestHost(), Knobs{})->reason.empty());
}

}  // namespace
}  // namespace opsnn::plan
