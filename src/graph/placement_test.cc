#include "graph/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/testing.h"

namespace opsnn::graph {
namespace {

void ExpectApart(const std::vector<Block>& blocks, size_t arena) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].offset + blocks[i].bytes, arena);
    for (size_t j = 0; j < i; ++j) {
      const Block &a = blocks[i], &b = blocks[j];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(Placement, NothingNeedsNothing) {
  std::vector<Block> none;
  EXPECT_EQ(PlaceBlocks(none).bytes, 0u);
  EXPECT_EQ(LivePeak(none), 0u);
}

TEST(Placement, RandomBlocksStayApartAndNoWayThatWasTriedIsBetter) {
  testing::Rng rng;
  int close = 0, rounds = 0;
  for (auto _ : testing::FuzzFor(100)) {
    ++rounds;
    std::vector<Block> blocks;
    const int count = static_cast<int>(rng.Int(1, 40));
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(rng.Int(0, 30));
      blocks.push_back(
          {static_cast<size_t>(rng.Int(1, 50)) * 128, 0, first, first + static_cast<int>(rng.Int(0, 6))});
    }
    const Placement p = PlaceBlocks(blocks);
    ExpectApart(blocks, p.bytes);
    EXPECT_GE(p.bytes, LivePeak(blocks));
    for (const auto& [name, bytes] : p.tried) EXPECT_LE(p.bytes, bytes) << name;
    EXPECT_FALSE(p.strategy.empty());
    close += p.bytes <= LivePeak(blocks) + LivePeak(blocks) / 16;
  }
  // Not a promise about any one case, but most small cases come close to the bound.
  EXPECT_GT(close, rounds / 2);
}

TEST(Placement, StopsAtTheFirstThatIsGoodEnough) {
  std::vector<Block> blocks = {
      {512, 0, 0, 1}, {384, 0, 1, 2}, {640, 0, 2, 3}, {256, 0, 0, 3}, {384, 0, 3, 4}};
  const Placement p = PlaceBlocks(blocks);
  ExpectApart(blocks, p.bytes);
  EXPECT_LE(p.bytes, LivePeak(blocks) + LivePeak(blocks) / 16);
  EXPECT_EQ(p.tried.back().second, p.bytes);
}

}  // namespace
}  // namespace opsnn::graph
