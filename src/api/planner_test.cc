#include "opsnn/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/knobs.h"
#include "base/status.h"
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

TEST(AskTile, TheFourBlocks) {
  constexpr int64_t KiB = 1024;
  TileQuestion q{.tile_m = 128, .tile_n = 256, .tile_k = 64};
  auto r = AskTile(q, "host:l1_bytes=512K");
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_EQ(r->tile.items.size(), 4u);
  EXPECT_EQ(r->tile.total_bytes, 352 * KiB);
  EXPECT_TRUE(r->tile.fits);
  EXPECT_EQ(r->retries.size(), 1u);
  q.double_buffer = true;
  EXPECT_EQ(AskTile(q, "host:l1_bytes=512K")->tile.total_bytes, 448 * KiB);
  q = {.tile_m = 64, .tile_n = 256, .tile_k = 32};
  EXPECT_EQ(AskTile(q)->tile.total_bytes, 168 * KiB);
}

// tile_k changes A and B, tile_m A, C and the epilogue, tile_n B, C and the epilogue.
TEST(AskTile, EachSideChangesItsBlocks) {
  const auto r = AskTile({.tile_m = 128, .tile_n = 256, .tile_k = 64});
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->changes.size(), 6u);
  const std::vector<std::vector<bool>> changed = {
      {true, false, true, true}, {false, true, true, true}, {true, true, false, false}};
  for (size_t i = 0; i < r->changes.size(); ++i) {
    for (size_t block = 0; block < 4; ++block) {
      const double factor = !changed[i / 2][block] ? 1 : i % 2 ? 2 : 0.5;
      EXPECT_EQ(static_cast<double>(r->changes[i].items[block].bytes),
                factor * static_cast<double>(r->tile.items[block].bytes))
          << i << " " << r->tile.items[block].block;
    }
  }
}

TEST(AskTile, TheLadderFollowsTheOrder) {
  const auto sides = [&](const char* order) {
    TileQuestion q{.tile_m = 128, .tile_n = 256, .tile_k = 64};
    q.order = order;
    std::string s;
    const auto r = AskTile(q, "host:l1_bytes=200K");
    for (const plan::Retry& t : r->retries)
      s += std::to_string(t.tile_m) + "," + std::to_string(t.tile_n) + "," + std::to_string(t.tile_k) + " ";
    return s;
  };
  EXPECT_EQ(sides("kmn"), "128,256,64 128,256,32 64,256,32 ");
  EXPECT_EQ(sides("mnk"), "128,256,64 64,256,64 32,256,64 ");
  EXPECT_EQ(sides("nkm"), "128,256,64 128,128,64 ");
  EXPECT_EQ(sides("k"), "128,256,64 128,256,32 128,128,32 ");
  // Sides of 0: what the solver likes best goes down the same ladder, in the order given. How large that is
  // depends on the host's vectors: one L1 of these makes it shrink by sides that can be halved.
  const auto tiles = [](int kib, const char* order) {
    TileQuestion q{.m = 4096, .n = 4096, .k = 4096, .double_buffer = true, .epilogue_blocks = 2};
    q.order = order;
    return AskTile(q, StrFormat("host:l1_bytes=%dK", kib))->retries;
  };
  bool shrunk = false;
  for (int kib = 24; kib <= 96 && !shrunk; kib += 8) {
    const auto first = tiles(kib, "mnk").front();
    shrunk = !first.fits && std::min(first.tile_m, first.tile_n) >= 32 && first.tile_k >= 64;
    if (!shrunk) continue;
    EXPECT_LT(tiles(kib, "mnk")[1].tile_m, first.tile_m) << kib;
    EXPECT_LT(tiles(kib, "nkm")[1].tile_n, first.tile_n) << kib;
    EXPECT_LT(tiles(kib, "kmn")[1].tile_k, first.tile_k) << kib;
  }
  EXPECT_TRUE(shrunk);
  // Without an order of its own a question follows the setting, and so does the judge.
  ASSERT_TRUE(SetKnob("retry_order", "nkm").ok());
  EXPECT_EQ(sides(""), sides("nkm"));
  EXPECT_EQ(sides("mnk"), "128,256,64 64,256,64 32,256,64 ");
  ASSERT_TRUE(SetKnob("retry_order", "k").ok());
  EXPECT_EQ(sides(""), sides("k"));
  EXPECT_FALSE(SetKnob("retry_order", "kk").ok());
  TileQuestion wrong{.tile_m = 1, .tile_n = 1, .tile_k = 1};
  wrong.order = "kk";
  EXPECT_NE(std::string::npos, AskTile(wrong).status().message().find("each at most once"));
}

TEST(AskTile, TheSolverFillsWhatIsMissing) {
  const auto r = AskTile({.m = 4096, .n = 4096, .k = 4096, .dtype = DType::kF16, .pools = true}, "910B1");
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(r->tile.fits);
  EXPECT_GT(r->tile.tile_k, 0);
  EXPECT_GT(r->tile.time_us, 0);
  EXPECT_GT(r->l0c_available, 0);
  EXPECT_NE(std::string::npos, AskTile({.tile_m = 8}).status().message().find("allowed: one of them"));
  EXPECT_NE(std::string::npos, AskTile({.m = -1}).status().message().find("allowed: 0 to"));
}

Result<Model> Product(const char* epilogue) {
  OpSpec spec;
  spec.op = "matmul";
  spec.ints["m"] = {64}, spec.ints["n"] = {96}, spec.ints["k"] = {32};
  if (*epilogue) spec.epilogue = {epilogue};
  ModelOptions options;
  options.fusion = Fusion::kForce;
  return MakeOperatorModel(spec, options);
}

TEST(Traffic, CountsAProductAndItsChain) {
  auto alone = Product(""), fused = Product("relu");
  ASSERT_TRUE(alone.ok() && fused.ok());
  const auto a = *alone->Traffic(alone->FillShapes({})), b = *fused->Traffic(fused->FillShapes({}));
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u) << "one kernel";
  EXPECT_EQ(a[0].unit, "cube");
  EXPECT_EQ(a[0].operations, 2.0 * 64 * 96 * 32);
  EXPECT_EQ(a[0].l1_bytes + a[0].l2_bytes + a[0].hbm_bytes, 4.0 * (64 * 32 + 32 * 96 + 64 * 96));
  EXPECT_EQ(a[0].l0c_bytes, 4.0 * 64 * 96);
  EXPECT_EQ(a[0].ub_bytes, 0);
  EXPECT_EQ(b[0].operations, a[0].operations + 64 * 96) << "one more per element";
  EXPECT_EQ(b[0].ub_bytes, 2 * 4.0 * 64 * 96) << "what the chain reads and writes";
  // Accumulators of A2 reach the vector unit through L2 only.
  const auto npu = *fused->Traffic(fused->FillShapes({}), "910B1");
  EXPECT_EQ(npu[0].l2_bytes - 2 * 4.0 * 64 * 96, 4.0 * (64 * 32 + 32 * 96 + 64 * 96));
  EXPECT_FALSE(fused->Traffic(fused->FillShapes({}), "A9").ok());
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
