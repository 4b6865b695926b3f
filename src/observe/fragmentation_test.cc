#include "observe/fragmentation.h"

#include "graph/graph_tester.h"

namespace opsnn::observe {
namespace {

using graph::GraphMaker;
using graph::ValueId;

// Blocks of different sizes that come and go, so that some plan has holes.
GraphMaker& Ladder(GraphMaker& m, int rungs) {
  std::vector<ValueId> kept;
  ValueId x = m.In("x", {1, 64, 32});
  for (int i = 0; i < rungs; ++i) {
    x = m.Op("Softmax", {x});
    kept.push_back(m.Op("Concat", {x, x, m.Op("Exp", {x})}, {{"axis", static_cast<int64_t>(i % 3)}}));
  }
  for (const ValueId v : kept) m.Out(m.Op("ReduceMax", {v}));
  return m;
}

TEST(Fragmentation, UnusedAndUsedMakeTheArena) {
  GraphMaker m;
  const graph::Outcome o = graph::RunGraph(Ladder(m, 6), graph::Mode(FusionMode::kOff));
  const graph::MemoryPlan& plan = o.prepared->memory();
  const Fragmentation f = FragmentationOf(*o.prepared);
  ASSERT_GE(f.at_peak.step, 0);
  EXPECT_EQ(f.at_peak.bytes, plan.arena_bytes - plan.live_peak);
  EXPECT_EQ(plan.curve[static_cast<size_t>(f.at_peak.step)], plan.live_peak);
  for (const Holes& h : {f.at_peak, f.most_scattered}) {
    EXPECT_EQ(h.bytes + plan.curve[static_cast<size_t>(h.step)], plan.arena_bytes);
    EXPECT_LE(h.largest, h.bytes);
    EXPECT_EQ(h.count == 0, h.bytes == 0);
    EXPECT_EQ(h.count <= 1, h.largest == h.bytes);
  }
  EXPECT_GE(f.most_scattered.Scattered(), f.at_peak.Scattered());
}

TEST(Fragmentation, AlignmentCounts) {
  GraphMaker m;  // 5 floats take 128 bytes; the result is the caller's
  m.Out(m.Op("Softmax", {m.Op("Softmax", {m.In("x", {5})})}));
  const graph::Outcome o = graph::RunGraph(m, graph::Mode(FusionMode::kOff));
  EXPECT_EQ(FragmentationOf(*o.prepared).padding % kAlignment, kAlignment - 5 * sizeof(float));
}

TEST(Fragmentation, AModelWithoutStepsHasNone) {
  GraphMaker m;
  m.Out(m.In("x", {4}));
  const Fragmentation f = FragmentationOf(*graph::RunGraph(m, graph::Mode(FusionMode::kOff)).prepared);
  EXPECT_EQ(f.at_peak.bytes + f.most_scattered.bytes + f.padding, 0u);
}

}  // namespace
}  // namespace opsnn::observe
