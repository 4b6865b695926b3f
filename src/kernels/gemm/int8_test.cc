#include "kernels/gemm/int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernels/gemm/tiers_for_test.h"
#include "program/program.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;

// Bytes of a logical (batch, rows, cols), row-major or transposed, with gaps between rows.
struct Bytes {
  Bytes(DType t, int64_t batch, int64_t rows, int64_t cols, Rng& rng) {
    const bool transposed = rng.Chance(0.5);
    const int64_t outer = transposed ? cols : rows, inner = transposed ? rows : cols;
    const int64_t stride = inner + rng.Int(0, 3);
    data.resize(static_cast<size_t>(batch * outer * stride));
    for (uint8_t& x : data) x = static_cast<uint8_t>(rng.Chance(0.1) ? rng.Int(0, 1) * 255 : rng.Int(0, 255));
    operand = {data.data(), t, transposed ? 1 : stride, transposed ? stride : 1, outer * stride};
  }
  int64_t At(int64_t b, int64_t r, int64_t c) const {
    const uint8_t x =
        data[static_cast<size_t>(b * operand.batch_stride + r * operand.row_stride + c * operand.col_stride)];
    return operand.dtype == DType::kS8 ? static_cast<int8_t>(x) : x;
  }
  std::vector<uint8_t> data;
  Operand operand;
};

struct Zeros {
  Zeros(int64_t n, Rng& rng) : values(static_cast<size_t>(n)) {
    for (int32_t& x : values) x = static_cast<int32_t>(rng.Int(-128, 255));
    points = {rng.Chance(0.3) ? nullptr : values.data(), rng.Chance(0.5) ? 1 : 0};
  }
  std::vector<int32_t> values;
  ZeroPoints points;
};

std::vector<double> Reference(const Int8Params& p, const Bytes& a, const Bytes& b) {
  std::vector<double> want;
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        int64_t sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum +=
              (a.At(i, r, k) - p.a_zero.At(r)) * (b.At(p.b.batch_stride == 0 ? 0 : i, k, c) - p.b_zero.At(c));
        }
        want.push_back(static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(sum))));
      }
    }
  }
  return want;
}

class Int8Test : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};
INSTANTIATE_TEST_SUITE_P(Tiers, Int8Test, ::testing::ValuesIn(Tiers()),
                         [](const auto& info) { return isa::Name(info.param); });

void CheckOnce(Rng& rng, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const DType at = rng.Chance(0.5) ? DType::kS8 : DType::kU8, bt = rng.Chance(0.5) ? DType::kS8 : DType::kU8;
  Bytes a(at, batch, m, k, rng), b(bt, batch, k, n, rng);
  Zeros a_zero(m, rng), b_zero(n, rng);
  GuardedTensor c(DType::kS32, {batch, m, n});
  Int8Params p;
  p.batch = batch, p.m = m, p.n = n, p.k = k;
  p.a = a.operand, p.b = b.operand;
  if (rng.Chance(0.3)) p.b.batch_stride = 0;
  p.a_zero = a_zero.points, p.b_zero = b_zero.points;
  p.c = c.view().as<int32_t>(), p.c_row_stride = n, p.c_batch_stride = m * n;
  std::shared_ptr<const PackedInt8B> packed;
  if (rng.Chance(0.4)) {
    packed = PackInt8B(p.b, at, k, n, p.b.batch_stride == 0 ? std::min<int64_t>(1, batch) : batch);
    p.packed_b = packed.get();
  }
  // relu(c + 3 * column), or the product as it is
  const bool program = rng.Chance(0.4);
  GuardedTensor addend(DType::kS32, {n});
  std::vector<double> columns(static_cast<size_t>(n)), want = Reference(p, a, b);
  for (int64_t i = 0; i < n; ++i) columns[static_cast<size_t>(i)] = static_cast<double>(3 * i);
  addend.Set(columns);
  ProgramBuilder builder;
  const SlotId x = builder.Input(ComputeType::kS32), y = builder.Input(ComputeType::kS32);
  builder.Output(builder.Unary(StageOp::kRelu, builder.Binary(StageOp::kAdd, x, y)));
  const auto compiled = vector::Compile(std::move(builder).Build());
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const vector::EpilogueArg args[] = {{addend.view().data, DType::kS32, 0, 0, 0, 1},
                                      {c.view().data, DType::kS32, m * n, 0, n, 1}};
  if (program) {
    p.c = nullptr, p.program = compiled->get(), p.args = args;
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] = std::max(0.0, want[i] + columns[i % static_cast<size_t>(n)]);
    }
  }
  RunInt8(p);
  ASSERT_EQ(want, c.Get()) << program << " " << batch << " x (" << m << "," << n << "," << k << ") "
                           << Name(at) << " " << Name(bt);
  ASSERT_TRUE(c.GuardsIntact());
}

TEST_P(Int8Test, RandomShapesAreExact) {
  Rng rng;
  for (auto _ : FuzzFor(300)) {
    CheckOnce(rng, rng.Size(3, true), rng.Size(60, true), rng.Size(90, true), rng.Size(100, true));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Int8Test, LargerThanBlocks) {
  Rng rng;
  CheckOnce(rng, 1, 520, 40, 70);
  CheckOnce(rng, 1, 20, 50, 2100);
  CheckOnce(rng, 1, 3, 700, 1025);
}

// Every value at its extreme and a long K: sums beyond 2^31 wrap.
TEST_P(Int8Test, SumsWrap) {
  const int64_t k = 70000;
  std::vector<uint8_t> a(k, 255), b(k, 255);
  int32_t c = 0;
  const int32_t zero = -1;
  Int8Params p;
  p.m = p.n = 1, p.k = k;
  p.a = {a.data(), DType::kU8, k, 1, 0};
  p.b = {b.data(), DType::kU8, 1, 1, 0};
  p.a_zero = {&zero, 0};
  p.c = &c, p.c_row_stride = 1;
  RunInt8(p);
  EXPECT_EQ(static_cast<int32_t>(static_cast<uint32_t>(256ull * 255 * k)), c);
}

TEST_P(Int8Test, ThreadsDoNotMatter) {
  Rng rng;
  for (int threads : {1, 2, 5}) {
    SetNumThreads(threads);
    CheckOnce(rng, 1, 150, 600, 300);
    CheckOnce(rng, 5, 60, 200, 130);
    if (HasFatalFailure()) break;
  }
  SetNumThreads(0);
}

// Row blocks are rounded up to the threads: together they must still cover every row once.
TEST_P(Int8Test, ManyThreadsCoverEveryRow) {
  Rng rng;
  SetNumThreads(32);
  for (const int64_t m : {int64_t{14337}, int64_t{113}, int64_t{3585}}) {
    const int64_t n = 40, k = 12;
    Bytes a(DType::kU8, 1, m, k, rng), b(DType::kS8, 1, k, n, rng);
    const std::shared_ptr<const PackedInt8B> packed = PackInt8B(b.operand, DType::kU8, k, n, 1);
    GuardedTensor c(DType::kS32, {1, m, n});
    Int8Params p;
    p.m = m, p.n = n, p.k = k;
    p.a = a.operand, p.b = b.operand;
    p.packed_b = packed.get();
    p.c = c.view().as<int32_t>(), p.c_row_stride = n, p.c_batch_stride = m * n;
    RunInt8(p);
    EXPECT_EQ(Reference(p, a, b), c.Get()) << m;
    EXPECT_TRUE(c.GuardsIntact()) << m;
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace opsnn::gemm
