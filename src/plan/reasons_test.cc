// What a decision says of itself: terms and reasons.
#include <gtest/gtest.h>

#include "base/status.h"
#include "plan/judge.h"
#include "plan/plan_tester.h"

namespace opsnn::plan {
namespace {

double TermOf(const std::vector<CostTerm>& terms, const std::string& name) {
  double us = 0;
  for (const CostTerm& t : terms) us += t.name == name ? t.us : 0;
  return us;
}

TEST(Judge, ReasonsNameTheLargestDifference) {
  const Program relu = Chain({StageOp::kRelu}), rest = AddRelu();
  PointwiseEdge e;
  e.chain = "relu+add";
  e.first = &relu, e.second = &rest;
  e.elements = 1000000;
  e.first_bytes = e.second_bytes = e.output_bytes = 4 * e.elements;
  const Decision d = JudgePointwiseChain(e, TestHost(), Knobs{});
  const double saved = TermOf(d.split_terms, "intermediate") - TermOf(d.fused_terms, "intermediate");
  EXPECT_NE(d.reason.find(StrFormat("saves mostly \"intermediate\" (%.3g us)", saved)), std::string::npos)
      << d.reason;
  // A term of the fused side against those of the split one that it takes the place of.
  for (const int64_t size : {64, 512, 4096}) {
    const Decision c = JudgeContraction(Gemm(size, size, size, 1, rest), TestHost(), Knobs{});
    EXPECT_EQ(c.reason.find("mostly \"write output\""), std::string::npos) << c.reason;
    EXPECT_EQ(c.reason.find("mostly \"other operands\""), std::string::npos) << c.reason;
  }
}

// Small blocks hand over for longer than the cube works on them: the two units take turns.
TEST(Judge, LostParallelismIsATermOfItsOwn) {
  const Program relu = Chain({StageOp::kRelu});
  const Decision small = JudgeContraction(Gemm(64, 64, 64, 1024, relu), Npu("910B1"), Knobs{});
  const Decision large = JudgeContraction(Gemm(4096, 4096, 4096, 1, relu), Npu("910B1"), Knobs{});
  EXPECT_GT(TermOf(small.fused_terms, "lost parallelism"), 0);
  EXPECT_EQ(TermOf(large.fused_terms, "lost parallelism"), 0);
  EXPECT_NE(large.reason.find("written while the cube works"), std::string::npos) << large.reason;
}

}  // namespace
}  // namespace opsnn::plan
