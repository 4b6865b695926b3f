#include "opsnn/planner.h"

#include <gtest/gtest.h>

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

TEST(Planning, StaysWithinItsCache) {
  const PlanningCost c = MeasurePlanning();
  EXPECT_GT(c.new_class_us, 0);
  EXPECT_GT(c.cached_us, 0);
  EXPECT_LE(c.cache_bytes, c.bound_bytes);
}

}  // namespace
}  // namespace opsnn
