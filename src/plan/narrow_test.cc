// Hosts whose vectors pass in halves, and hosts whose cores wait for each other's lines: what follows from
// those rates.
#include <gtest/gtest.h>

#include <array>

#include "plan/cost.h"
#include "plan/plan_tester.h"

namespace opsnn::plan {
namespace {

DeviceProfile NarrowHost() {
  DeviceProfile p = TestHost();
  p.Set(Field::k_mac_f32, 16, "test");
  return p;
}

double Term(const std::vector<CostTerm>& terms, const char* name) {
  double us = 0;
  for (const CostTerm& t : terms) us += t.name == name ? t.us : 0;
  return us;
}

TEST(Narrow, FollowsFromTheRateOfMultiplyAdds) {
  EXPECT_EQ(NarrowPaths(TestHost()), 0);
  EXPECT_EQ(NarrowPaths(NarrowHost()), 1);
  DeviceProfile p = TestHost();
  p.Set(Field::k_mac_f32, 64, "test");
  EXPECT_EQ(NarrowPaths(p), 0);
  p.Set(Field::k_mac_f32, 4, "test"), p.Set(Field::k_vector_bytes, 16, "test");
  EXPECT_EQ(NarrowPaths(p), 1);
  EXPECT_EQ(NarrowPaths(Npu("910B1")), 0);
  const Program gelu = Chain({StageOp::kGeluErf});
  EXPECT_GT(InstructionsPerElement(gelu, NarrowHost()), InstructionsPerElement(gelu, TestHost()));
}

// An activation on a tile holds the next tile up; few rows have no tiles, and a clip happens in registers.
TEST(Narrow, ActivationsHoldTilesUp) {
  const Program gelu = Chain({StageOp::kGeluErf}), relu = Chain({StageOp::kRelu});
  const auto tiles = [](const ContractionEdge& e, const DeviceProfile& p) {
    return Term(JudgeContraction(e, p, Knobs{}).fused_terms, "tiles");
  };
  const ContractionEdge e = Gemm(12544, 16, 8, 1, gelu);
  EXPECT_EQ(tiles(e, TestHost()), 0);
  EXPECT_GT(tiles(e, NarrowHost()), 0);
  EXPECT_EQ(tiles(Gemm(12544, 16, 8, 1, relu), NarrowHost()), 0);
  EXPECT_EQ(tiles(Gemm(8, 4096, 64, 1, gelu), NarrowHost()), 0);
  EXPECT_EQ(JudgeContraction(Gemm(1024, 1024, 1024, 1, relu), NarrowHost(), Knobs{}).verdict, Verdict::kFuse);
}

TEST(Narrow, OperandsThatProgramsWaitFor) {
  const Program tail = AddRelu();
  for (const int threads : {1, 2}) {
    for (const auto& [m, n, k, batch] : {std::array<int64_t, 4>{16, 16, 16, 1024}, {4096, 4096, 32, 1}}) {
      ContractionEdge e = Gemm(m, n, k, batch, tail, DType::kF32, threads);
      e.full_operands = 1;
      const Decision narrow = JudgeContraction(e, NarrowHost(), Knobs{});
      EXPECT_NE(narrow.verdict, Verdict::kFuse) << m << " " << threads << " " << narrow.reason;
      EXPECT_GT(narrow.time_fused_us, JudgeContraction(e, TestHost(), Knobs{}).time_fused_us);
    }
  }
}

// The split form pays for lines that its pass read on another core; one core has none, memory needs none.
TEST(OtherCores, LinesThatWereReadThere) {
  const Program relu = Chain({StageOp::kRelu});
  DeviceProfile p = TestHost();
  p.Set(Field::k_handover_cycles, 60, "test");
  const auto again = [&](int64_t m, int threads, const DeviceProfile& host) {
    const ContractionEdge e = Gemm(m, 64, 64, 1, relu, DType::kF32, threads);
    return Term(JudgeContraction(e, host, Knobs{}).split_terms, "shared out again");
  };
  EXPECT_GT(again(20000, 2, p), again(20000, 2, TestHost()));
  EXPECT_EQ(again(20000, 1, p), 0);
  EXPECT_EQ(again(2000000, 2, p), again(2000000, 2, TestHost()));
}

}  // namespace
}  // namespace opsnn::plan
