// Hybrid calls: some regions of the rows fused, others product and pass, with the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "base/parallel.h"
#include "op/op_tester.h"
#include "plan/judge.h"
#include "testing/testing.h"

namespace opsnn::op {
namespace {

using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;
using plan::Region;
using plan::Verdict;

// act(product + bias) * residual, or without the residual.
Program Tail(StageOp act, bool residual) {
  ProgramBuilder b;
  const SlotId x = b.Input(), bias = b.Input(), r = residual ? b.Input() : kNoSlot;
  SlotId y = b.Unary(act, b.Binary(StageOp::kAdd, x, bias));
  if (residual) y = b.Binary(StageOp::kMul, y, r);
  b.Output(y);
  return std::move(b).Build();
}

std::vector<Region> All(int64_t m, int64_t block, Verdict v) { return {{0, m, block, v, 0, 0}}; }

// Random regions of both kinds that cover m rows.
std::vector<Region> Mixed(int64_t m, Rng& rng) {
  std::vector<Region> list;
  for (int64_t row = 0; row < m;) {
    Region r;
    r.first = row;
    r.rows = std::min(m - row, rng.Int(1, m));
    r.block = rng.Int(1, r.rows);
    r.verdict = list.size() % 2 ? Verdict::kFuse : Verdict::kSplit;
    row += r.rows;
    list.push_back(r);
  }
  return list;
}

struct Case {
  GuardedTensor a, b, bias, residual;
  Program tail;
  bool with_residual;

  std::vector<double> Run(const std::vector<Region>& regions, std::string* variant) const {
    OpTester op("MatMul");
    op.In(a).In(b).Tail(FusedTail{tail, regions}).In(bias);
    if (with_residual) op.In(residual);
    EXPECT_TRUE(op.Run().ok()) << op.status().message();
    *variant = op.variant();
    return op.Out().Get();
  }
};

Case RandomCase(Rng& rng, int64_t m, int64_t n, int64_t k) {
  const StageOp acts[] = {StageOp::kRelu, StageOp::kGeluErf, StageOp::kSilu, StageOp::kTanh};
  const bool residual = rng.Chance(0.5);
  Case c{{DType::kF32, {m, k}, &rng, rng.Chance(0.5)},
         {DType::kF32, {k, n}, &rng, rng.Chance(0.3)},
         {DType::kF32, {n}},
         {DType::kF32, {m, n}, &rng, rng.Chance(0.3)},
         Tail(acts[rng.Int(0, 3)], residual),
         residual};
  c.a.FillRandom(rng), c.b.FillRandom(rng), c.bias.FillRandom(rng), c.residual.FillRandom(rng);
  return c;
}

bool SameBits(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

TEST(MatMulRegions, HybridEqualsAllFusedAndAllSplit) {
  Rng rng;
  for (auto _ : FuzzFor(400)) {
    const int64_t m = rng.Int(2, 150), n = rng.Size(90), k = rng.Size(120);
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    const Case c = RandomCase(rng, m, n, k);
    ScopedThreadLimit limit(static_cast<int>(rng.Int(1, 2)));
    std::string variant;
    const std::vector<double> fused = c.Run({}, &variant);
    EXPECT_TRUE(SameBits(c.Run(All(m, m, Verdict::kFuse), &variant), fused));
    EXPECT_TRUE(SameBits(c.Run(All(m, m, Verdict::kSplit), &variant), fused));
    EXPECT_TRUE(SameBits(c.Run(All(m, rng.Int(1, m), Verdict::kSplit), &variant), fused));
    EXPECT_TRUE(SameBits(c.Run(Mixed(m, rng), &variant), fused)) << variant;
  }
}

TEST(MatMulRegions, BothKindsAreCountedAndNamed) {
  Rng rng;
  const Case c = RandomCase(rng, 100, 40, 30);
  const plan::RegionCounters before = plan::RegionsRun();
  std::string variant;
  c.Run({{0, 96, 32, Verdict::kSplit, 0, 0}, {96, 4, 4, Verdict::kFuse, 0, 0}}, &variant);
  const plan::RegionCounters after = plan::RegionsRun();
  EXPECT_EQ(after.calls - before.calls, 1);
  EXPECT_EQ(after.split - before.split, 3);
  EXPECT_EQ(after.fused - before.fused, 1);
  EXPECT_NE(variant.find("96 rows split by 32, 4 rows fused"), std::string::npos) << variant;
}

// Regions that do not cover the rows of the loops are not taken.
TEST(MatMulRegions, OnlyForOneMatrix) {
  Rng rng;
  GuardedTensor a(DType::kF32, {3, 20, 8}), b(DType::kF32, {3, 8, 16}), bias(DType::kF32, {16});
  a.FillRandom(rng), b.FillRandom(rng), bias.FillRandom(rng);
  const int64_t before = plan::RegionsRun().calls;
  OpTester op("MatMul");
  const std::vector<Region> regions = All(60, 20, Verdict::kSplit);
  ASSERT_TRUE(op.In(a).In(b).Tail(FusedTail{Tail(StageOp::kRelu, false), regions}).In(bias).Run().ok());
  EXPECT_EQ(plan::RegionsRun().calls, before);
}

}  // namespace
}  // namespace opsnn::op
