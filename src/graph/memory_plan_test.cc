#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

std::shared_ptr<const Prepared> PrepareFor(GraphMaker& m, const std::string& off = "") {
  auto s = Session::Create(m.graph(), Mode(FusionMode::kOff, off));
  EXPECT_TRUE(s.ok());
  Shapes shapes;
  for (const auto& [name, t] : m.RandomFeeds()) shapes[name] = t->dims();
  auto p = (*s)->Prepare(shapes);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return *p;
}

// No two arena buffers that live at the same time share bytes.
void CheckNoOverlap(const MemoryPlan& plan) {
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    for (size_t j = i + 1; j < plan.buffers.size(); ++j) {
      const Buffer &a = plan.buffers[i], &b = plan.buffers[j];
      if (a.kind != BufferKind::kArena || b.kind != BufferKind::kArena) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
      EXPECT_EQ(a.offset % kAlignment, 0u);
      EXPECT_LE(a.offset + a.bytes, plan.arena_bytes);
    }
}

TEST(MemoryPlan, AChainOfPointwiseNodesWorksInPlace) {
  GraphMaker m;
  ValueId y = m.In("x", {1000});
  for (int i = 0; i < 6; ++i) y = m.Op(i % 2 ? "Abs" : "Neg", {y});
  m.Out(m.Op("Softmax", {y}));
  const MemoryPlan plan = PrepareFor(m)->memory();
  EXPECT_EQ(plan.in_place, 5u);  // the first reads the caller's tensor
  EXPECT_EQ(plan.arena_bytes, 4096u);
  CheckNoOverlap(plan);
}

TEST(MemoryPlan, SumsBeyondTheAddressSpaceAreErrors) {
  GraphMaker m;
  ValueId y = m.In("x", {kUnknownDim, kUnknownDim}, DType::kF64);
  for (int i = 0; i < 300; ++i) m.Out(y = m.Op("Exp", {y}));  // 2^56 bytes each
  auto s = Session::Create(m.graph(), Mode(FusionMode::kOff));
  ASSERT_TRUE(s.ok());
  auto p = (*s)->Prepare({{"x", Dims{int64_t{1} << 27, int64_t{1} << 26}}});
  ASSERT_FALSE(p.ok());
  EXPECT_NE(p.status().message().find("addressed"), std::string::npos) << p.status().message();
}

TEST(MemoryPlan, AValueReadLaterIsNotOverwritten) {
  GraphMaker m;
  const ValueId a = m.Op("Neg", {m.In("x", {500})});
  const ValueId b = m.Op("Exp", {a});
  m.Out(m.Op("Sub", {m.Op("Abs", {b}), a}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kOff));
  const std::vector<double> x = ToDoubles(*m.RandomFeeds().at("x"));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(o.outputs[0][i], std::exp(-x[i]) + x[i], 1e-4);
}

TEST(MemoryPlan, ViewsShareBytesAndKeepThemAlive) {
  GraphMaker m;
  const ValueId a = m.Op("Neg", {m.In("x", {6, 8})});
  const ValueId view = m.Op("Reshape", {a, m.Ints({8, 6})});
  const ValueId b = m.Op("Abs", {a});  // must not overwrite a: the view is read later
  m.Out(m.Op("Softmax", {m.Op("Reshape", {b, m.Ints({8, 6})})}));
  m.Out(m.Op("Softmax", {view}));
  const Outcome on = RunGraph(m, Mode(FusionMode::kOff));
  EXPECT_EQ(on.prepared->memory().views, 2u);
  CheckNoOverlap(on.prepared->memory());
  const std::vector<double> x = ToDoubles(*m.RandomFeeds().at("x"));
  double sum = 0;
  for (int i = 0; i < 6; ++i) sum += std::exp(-x[i]);
  EXPECT_NEAR(on.outputs[1][0], std::exp(-x[0]) / sum, 1e-5);
}

TEST(MemoryPlan, BroadcastOperandsAreNotOverwritten) {
  GraphMaker m;
  const ValueId small = m.Op("Neg", {m.In("s", {40})});
  const ValueId wide = m.Op("Neg", {m.In("x", {30, 40})});
  m.Out(m.Op("Softmax", {m.Op("Sub", {small, wide})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kOff)), fused = RunGraph(m, Mode(FusionMode::kForce));
  EXPECT_EQ("", testing::Compare(o.outputs[0], fused.outputs[0], 1e-6, 1e-5));
}

// s * t * u * v is small alone, but as a part of the product behind it keeps its four operands alive until
// that runs.
GraphMaker OperandsOfALateSum() {
  constexpr int64_t kSize = 1024;
  GraphMaker m;
  const auto operand = [&](const char* name) { return m.Op("Softmax", {m.In(name, {kSize, kSize})}); };
  ValueId product = operand("s");
  for (const char* name : {"t", "u", "v"}) product = m.Op("Mul", {product, operand(name)});
  const ValueId late = m.Op("MatMul", {operand("x"), m.Random({kSize, kSize}, -0.01, 0.01)});
  m.Out(m.Op("Softmax", {m.Op("Add", {late, product})}));
  return m;
}

// What conversions and blocks take is in the parts as well: an addition joins its convolution.
TEST(PeakLimit, PartsAreMeasuredInTheirLayouts) {
  GraphMaker m;
  const Dims image{8, 64, 56, 56};
  const ValueId v = m.Op("Conv", {m.In("x", image), m.Random({64, 64, 1, 1})});
  m.Out(m.Op("Relu", {m.Op("Add", {v, m.In("r", image)})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  EXPECT_EQ(o.Effects("peak_limit"), 0);
  EXPECT_EQ(o.Count("Add"), 0);
}

TEST(PeakLimit, FusionsThatKeepTooMuchAliveAreLeftOut) {
  GraphMaker m = OperandsOfALateSum();
  const auto run = [&](double limit) {
    SessionOptions options = Mode(FusionMode::kForce);
    options.peak_limit = limit;
    return RunGraph(m, options);
  };
  const Outcome plain = RunGraph(m, Mode(FusionMode::kOff)), free = run(0), limited = run(1.1);
  const auto peak = [](const Outcome& o) { return o.prepared->memory().live_peak; };
  ASSERT_GT(static_cast<double>(peak(free)), 1.5 * static_cast<double>(peak(plain)));
  EXPECT_LE(static_cast<double>(peak(limited)), 1.1 * static_cast<double>(peak(plain)));
  EXPECT_EQ(free.Effects("peak_limit"), 0);
  EXPECT_EQ(limited.Effects("peak_limit"), 1);
  EXPECT_EQ("", testing::Compare(limited.outputs[0], free.outputs[0], 1e-6, 1e-5));
  bool told = false;
  for (const plan::Decision& d : limited.decisions)
    told |= d.verdict == plan::Verdict::kRefuse && d.reason.find("are allowed") != std::string::npos;
  EXPECT_TRUE(told);
}

TEST(MemoryPlan, RandomGraphsNeverOverlap) {
  for (auto _ : testing::FuzzFor(200)) {
    GraphMaker m;
    std::vector<ValueId> pool = {m.In("x", {4, 6})};
    const int nodes = static_cast<int>(m.rng().Int(2, 20));
    for (int i = 0; i < nodes; ++i) {
      const ValueId a = pool[m.rng().Int(0, pool.size() - 1)], b = pool[m.rng().Int(0, pool.size() - 1)];
      switch (m.rng().Int(0, 3)) {
        case 0:
          pool.push_back(m.Op("Tanh", {a}));
          break;
        case 1:
          pool.push_back(m.Op("Add", {a, b}));
          break;
        case 2:
          pool.push_back(m.Op("Softmax", {a}));
          break;
        default:
          pool.push_back(m.Op("Reshape", {m.Op("Reshape", {a, m.Ints({3, 8})}), m.Ints({4, 6})}));
          break;
      }
      if (m.rng().Chance(0.15)) m.Out(pool.back());
    }
    m.Out(pool.back());
    // Reshape pairs would cancel under the fusion passes; here they must stay views.
    const Outcome o = RunGraph(m, Mode(FusionMode::kOff));
    CheckNoOverlap(o.prepared->memory());
    EXPECT_GE(o.prepared->memory().arena_bytes, o.prepared->memory().live_peak);
    const Outcome fused = RunGraph(m, Mode(FusionMode::kForce));
    for (size_t i = 0; i < o.outputs.size(); ++i)
      ASSERT_EQ("", testing::Compare(o.outputs[i], fused.outputs[i], 1e-3, 1e-4)) << m.graph().ToString();
  }
}

}  // namespace
}  // namespace opsnn::graph
