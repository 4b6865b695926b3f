// What a session keeps: forms per shape, packed weights, memory for activations.
#include <gtest/gtest.h>
#include <malloc.h>

#include <set>

#include "base/buffer.h"
#include "base/buffer_stats.h"
#include "base/parallel.h"
#include "graph/arena_pool.h"
#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

TEST(ArenaPool, GivesTheSmallestThatFitsAndKeepsTheBound) {
  ArenaPool pool(1 << 20);
  Arena a = pool.Take(300 << 10), b = pool.Take(600 << 10);
  const void *small = a.data(), *large = b.data();
  pool.Give(std::move(a));
  pool.Give(std::move(b));
  EXPECT_EQ(pool.bytes(), size_t{900} << 10);
  Arena again = pool.Take(200 << 10);
  EXPECT_EQ(again.data(), small);
  Arena other = pool.Take(200 << 10);
  EXPECT_EQ(other.data(), large);
  pool.Give(std::move(again));
  pool.Give(std::move(other));
  Arena big;
  ASSERT_TRUE(big.Grow(4 << 20));
  pool.Give(std::move(big));  // more than the bound: it stays alone
  EXPECT_EQ(pool.bytes(), size_t{4} << 20);
  EXPECT_GE(pool.Take(6 << 20).bytes(), size_t{6} << 20);  // grown from the one that waited
  EXPECT_EQ(pool.bytes(), 0u);
}

TEST(Arena, GrowsWithTheContentsOfItsPages) {
  Arena a;
  size_t filled = 0;
  for (size_t bytes :
       {size_t{1}, size_t{9000}, size_t{3} << 20, size_t{5} << 20, size_t{4} << 20, size_t{16} << 20}) {
    ASSERT_TRUE(a.Grow(bytes));
    ASSERT_GE(a.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % kAlignment, 0u);
    for (size_t i = 0; i < filled; i += 997)
      ASSERT_EQ(a.data()[i], static_cast<char>(i % 101)) << bytes << " " << i;
    filled = a.bytes();
    for (size_t i = 0; i < filled; ++i) a.data()[i] = static_cast<char>(i % 101);
  }
  EXPECT_FALSE(a.Grow(SIZE_MAX / 2));
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_TRUE(a.Grow(100));
}

TEST(WeightPacks, IdlePacksAreBounded) {
  WeightPacks packs;
  const auto constant = HostTensor::From<float>({256}, std::vector<float>(256));
  const auto make = [] { return std::make_shared<int>(1); };
  const auto held = packs.GetOrMake(constant, "held", make);
  for (const char* key : {"a", "b", "c"}) (void)packs.GetOrMake(constant, key, make);
  (void)packs.GetOrMake(constant, "a", make);  // used again: "b" is the oldest now
  EXPECT_EQ(packs.stats().entries, 4u);
  packs.Trim(2048);
  EXPECT_EQ(packs.stats().entries, 3u);
  EXPECT_EQ(packs.stats().evictions, 1);
  EXPECT_EQ(packs.stats().hits, 1);
  int made = 0;
  const auto count = [&] { return ++made, std::make_shared<int>(2); };
  (void)packs.GetOrMake(constant, "a", count);
  (void)packs.GetOrMake(constant, "held", count);
  EXPECT_EQ(made, 0);
  (void)packs.GetOrMake(constant, "b", count);
  EXPECT_EQ(made, 1);
  packs.Trim(0);
  EXPECT_EQ(packs.stats().entries, 1u);  // what somebody holds stays
}

TEST(WeightPacks, PacksOfForgottenConstantsGo) {
  WeightPacks packs;
  auto constant = HostTensor::From<float>({4}, {1, 2, 3, 4});
  const auto make = [] { return std::make_shared<int>(1); };
  (void)packs.GetOrMake(constant, "a", make);
  (void)packs.GetOrMake(constant, "b", make);
  packs.Trim(1 << 20);
  EXPECT_EQ(packs.stats().entries, 2u);
  constant.reset();
  packs.Trim(1 << 20);
  EXPECT_EQ(packs.stats().entries, 0u);
}

TEST(WeightPacks, WithoutMemoryNothingIsKept) {
  WeightPacks packs;
  const auto constant = HostTensor::From<float>({1}, {1});
  EXPECT_EQ(packs.GetOrMake(constant, "a", [] { return std::shared_ptr<const void>(); }), nullptr);
  EXPECT_NE(packs.GetOrMake(constant, "a", [] { return std::make_shared<int>(1); }), nullptr);
}

// A convolution, products on constants, an attention-like product and a constant folded per shape.
void AddManyShapesModel(GraphMaker& m) {
  const ValueId x = m.In("x", {1, 16, 4, kUnknownDim});
  ValueId y =
      m.Op("Relu", {m.Op("Conv", {x, m.Random({32, 16, 3, 3})}, {{"pads", std::vector<int64_t>(4, 1)}})});
  y = m.Op("Reshape",
           {m.Op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}), m.Ints({0, -1, 128})});
  y = m.Op("Add", {m.Op("MatMul", {y, m.Random({128, 96})}), m.Random({96})});
  const ValueId t = m.Op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  y = m.Op("MatMul", {m.Op("Softmax", {m.Op("MatMul", {y, t})}), y});
  m.Out(m.Op("MatMul", {y, m.Random({96, 64})}));
}

TEST(Session, ManyShapesNeedNoMoreMemory) {
  GraphMaker m;
  AddManyShapesModel(m);
  SessionOptions o = Mode(FusionMode::kAuto);
  o.cache_bytes = 1 << 20;
  auto s = Session::Create(m.graph(), o);
  ASSERT_TRUE(s.ok()) << s.status().message();
  std::set<int64_t> seen;
  size_t packs_at_half = 0, largest = 0;
  testing::Rng& rng = m.rng();
  while (seen.size() < 100) {
    // From where products pack their constants on: below, they are read in place.
    const int64_t w = rng.Int(64, 400);
    if (!seen.insert(w).second) continue;
    auto r = (*s)->Run({{"x", m.RandomTensor({1, 16, 4, w})}});
    ASSERT_TRUE(r.ok()) << r.status().message();
    largest = std::max(largest, r->prepared->peak_bytes());
    const CacheStats forms = (*s)->form_stats();
    EXPECT_TRUE(forms.bytes <= o.cache_bytes || forms.entries == 1);
    if (seen.size() == 50) packs_at_half = (*s)->pack_stats().bytes;
  }
  EXPECT_EQ((*s)->pack_stats().bytes, packs_at_half) << "a constant is packed once for all widths";
  constexpr size_t kHugePage = size_t{2} << 20;  // arenas end with one
  EXPECT_LE((*s)->arena_bytes(), std::max(largest + kHugePage, o.cache_bytes));
  EXPECT_GT((*s)->form_stats().evictions, 0);
  EXPECT_EQ((*s)->form_stats().misses, 100);
}

// What the C library gave out, none under sanitizers, which have an allocator of their own.
size_t HeapBytes() {
  const struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}

// The accounts are of bytes that are really held, and hold all of them but scratch of kernels and verdicts.
TEST(Session, AccountsHoldAllMemory) {
  GraphMaker m;
  AddManyShapesModel(m);
  constexpr size_t kBesides = 3 << 20;  // a thread's scratch, verdicts of the judge, tables made once
  constexpr size_t kSizes = 50;
  std::vector<ConstTensor> images;
  for (size_t i = 0; i < kSizes; ++i)
    images.push_back(m.RandomTensor({1, 16, 4, 64 + 4 * static_cast<int64_t>(i)}));
  const size_t before = HeapBytes();
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  ASSERT_TRUE(s.ok()) << s.status().message();
  size_t at_half = 0, at_end = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    ASSERT_TRUE((*s)->Run({{"x", images[i]}}).ok());
    (i < kSizes / 2 ? at_half : at_end) = HeapBytes();
  }
  const size_t forms = (*s)->form_stats().bytes;
  const size_t accounted = (*s)->constant_bytes() + (*s)->pack_stats().bytes + forms +
                           static_cast<size_t>(IdleBufferBytes()) + kBesides;
  EXPECT_LE(forms, kMostFormBytes);
  EXPECT_LE(at_end, before + accounted);
  EXPECT_LE(at_end, at_half + forms + (1 << 20)) << "only plans may have come since";
}

// Results are the same bits for any number of threads, whatever the graph.
TEST(Session, ThreadsDoNotChangeABit) {
  for (auto _ : testing::FuzzFor(60)) {
    GraphMaker m;
    testing::Rng& rng = m.rng();
    const int64_t n = rng.Int(1, 3), c = rng.Int(1, 70), h = rng.Int(1, 20), w = rng.Int(1, 20),
                  oc = rng.Int(1, 70);
    const ValueId x = m.In("x", {n, c, h, w});
    const int64_t k = rng.Int(0, 1) * 2 + 1;
    ValueId y = m.Op("Conv", {x, m.Random({oc, c, k, k}), m.Random({oc})},
                     {{"pads", std::vector<int64_t>(4, k / 2)}});
    y = m.Op("HardSwish", {y});
    y = m.Op("Conv", {y, m.Random({oc, 1, 3, 3})}, {{"pads", std::vector<int64_t>(4, 1)}, {"group", oc}});
    y = m.Op("Add", {y, m.Op("Sigmoid", {m.Op("GlobalAveragePool", {y})})});
    y = m.Op("Transpose", {m.Op("Reshape", {y, m.Ints({n, oc, h * w})})},
             {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const int64_t d = rng.Int(1, 100);
    const ValueId q = m.Op("Add", {m.Op("MatMul", {y, m.Random({oc, d})}), m.Random({d})});
    const ValueId scores =
        m.Op("MatMul", {q, m.Op("Transpose", {q}, {{"perm", std::vector<int64_t>{0, 2, 1}}})});
    y = m.Op("MatMul", {m.Op("Softmax", {m.Op("Mul", {scores, m.Scalar(0.1f)})}), q});
    m.Out(m.Op("LayerNormalization", {m.Op("Gelu", {y}), m.Random({d})}));
    SetNumThreads(1);
    const Outcome one = RunGraph(m, Mode(FusionMode::kAuto));
    for (int threads : {2, 3}) {
      SetNumThreads(threads);
      ASSERT_EQ(one.outputs, RunGraph(m, Mode(FusionMode::kAuto)).outputs) << threads << " threads";
    }
    SetNumThreads(0);
  }
}

}  // namespace
}  // namespace opsnn::graph
