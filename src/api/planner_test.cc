#include "opsnn/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "opsnn/operator_model.h"

namespace opsnn {
namespace {

using plan::Verdict;

TEST(JudgeMatmul, DecidesByDevice) {
  const auto verdict = [](const MatmulEdge& e, const char* profile) {
    return JudgeMatmul(e, profile)->verdict;
  };
  const MatmulEdge small{.m = 64, .n = 64, .k = 64, .batch = 1024, .epilogue = {"relu"}};
  EXPECT_EQ(Verdict::kSplit, verdict(small, "910B1"));
  EXPECT_EQ(Verdict::kSplit, verdict(small, "A3"));
  EXPECT_EQ(Verdict::kFuse, verdict(small, "950PR"));
  const MatmulEdge large{.m = 4096, .n = 4096, .k = 4096, .epilogue = {"bias", "relu"}};
  EXPECT_EQ(Verdict::kFuse, verdict(large, "910B1"));
  // Buffers too small for any tile: what if.
  EXPECT_EQ(Verdict::kSplit, verdict(large, "910B1:ub_bytes=256"));
}

TEST(JudgeMatmul, Assumptions) {
  MatmulEdge e{.m = 512, .n = 512, .k = 512, .epilogue = {"gelu"}};
  const auto alone = *JudgeMatmul(e, "910B1");
  e.training = true;
  EXPECT_LT(JudgeMatmul(e, "910B1")->benefit_us, alone.benefit_us);
  e.training = false, e.precision_first = true;
  EXPECT_EQ(Verdict::kSplit, JudgeMatmul(e, "910B1")->verdict);
  e.precision_first = false, e.concurrent = 4;
  EXPECT_EQ(alone.retries.at(0).available, 4 * JudgeMatmul(e, "910B1")->retries.at(0).available);
  e.concurrent = 0;
  EXPECT_NE(std::string::npos, JudgeMatmul(e, "910B1").status().message().find("allowed: 1 to 4096"));
}

TEST(JudgeMatmul, ErrorsNameWhatIsWrong) {
  const auto message = [](const MatmulEdge& e, const char* profile) {
    return std::string(JudgeMatmul(e, profile).status().message());
  };
  EXPECT_NE(std::string::npos,
            message({.m = 1, .n = 1, .k = 1, .epilogue = {"frob"}}, "A2").find("allowed: bias"));
  EXPECT_NE(std::string::npos, message({.m = -1, .n = 1, .k = 1}, "A2").find("m is -1"));
  EXPECT_NE(std::string::npos, message({.m = 1, .n = 1, .k = 1}, "A2:frob=1").find("frob"));
  EXPECT_NE(std::string::npos, message({.m = 1, .n = 1, .k = 1}, "A9").find("A9"));
}

TEST(Convolutions, OneRunsTheOthersSayWhy) {
  OpSpec spec;
  spec.op = "conv2d";
  spec.ints["x"] = {1, 32, 14, 14};
  spec.ints["w"] = {32, 32, 1, 1};
  auto m = MakeOperatorModel(spec);
  ASSERT_TRUE(m.ok()) << m.status().message();
  const auto list = m->Convolutions(m->FillShapes({}));
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_EQ(list->size(), 1u);
  const auto& candidates = list->front().candidates;
  EXPECT_GT(candidates.size(), 2u);
  EXPECT_EQ(1, std::count_if(candidates.begin(), candidates.end(),
                             [](const auto& c) { return c.refused.empty(); }));
}

TEST(Terms, EveryTermIsMeasured) {
  const auto terms = MeasureTerms(1);
  ASSERT_TRUE(terms.ok()) << terms.status().message();
  EXPECT_GE(terms->size(), 6u);
  for (const TermError& t : *terms) {
    EXPECT_GT(t.points, 0) << t.term;
    EXPECT_GE(t.factor, 1) << t.term;
    EXPECT_GE(t.worst, t.factor) << t.term;
  }
  EXPECT_FALSE(MeasureTerms(0).ok());
}

TEST(Planning, StaysWithinItsCache) {
  const PlanningCost c = MeasurePlanning();
  EXPECT_GT(c.new_class_us, 0);
  EXPECT_GT(c.cached_us, 0);
  EXPECT_LE(c.cache_bytes, c.bound_bytes);
}

}  // namespace
}  // namespace opsnn
