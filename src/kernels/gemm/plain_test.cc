// Products of f64 and s32, with and without a program behind them.
#include "kernels/gemm/plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "program/program.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::ContractionTolerance;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;

class PlainTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override {
    if (GetParam() <= isa::BestTier()) isa::SetMaxTier(GetParam());
  }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};
INSTANTIATE_TEST_SUITE_P(Tiers, PlainTest,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return isa::Name(info.param); });

// A logical (batch, rows, cols), perhaps stored transposed or with gaps.
struct Matrix {
  Matrix(DType t, int64_t batch, int64_t rows, int64_t cols, Rng& rng)
      : transposed(rng.Chance(0.4)),
        tensor(t, transposed ? Dims{batch, cols, rows} : Dims{batch, rows, cols}, &rng, rng.Chance(0.4)) {
    std::vector<double> v(static_cast<size_t>(batch * rows * cols));
    for (double& x : v) x = t == DType::kF64 ? rng.Real(-1, 1) : static_cast<double>(rng.Int(-9, 9));
    tensor.Set(v);
  }
  Operand operand() const {
    const Dims& s = tensor.view().strides;
    return {tensor.view().data, tensor.view().dtype, transposed ? s[2] : s[1], transposed ? s[1] : s[2],
            s[0]};
  }
  double At(int64_t b, int64_t r, int64_t c) const {
    const Operand o = operand();
    const int64_t at = b * o.batch_stride + r * o.row_stride + c * o.col_stride;
    return testing::ReadElement(static_cast<const char*>(o.data) + at * static_cast<int64_t>(SizeOf(o.dtype)),
                                o.dtype);
  }
  bool transposed;
  GuardedTensor tensor;
};

struct Shape {
  int64_t batch, m, n, k;
};

// bias[col] + the product, then relu, stored as `out`; without a program the product alone.
void CheckOnce(Rng& rng, DType t, DType out, const Shape& s, bool program) {
  const Matrix a(t, s.batch, s.m, s.k, rng), b(t, s.batch, s.k, s.n, rng);
  GuardedTensor c(program ? out : t, {s.batch, s.m, s.n}), bias(t, {s.n});
  bias.Set([&] {
    std::vector<double> v(static_cast<size_t>(s.n));
    for (double& x : v) x = static_cast<double>(rng.Int(-20, 20));
    return v;
  }());
  PlainParams p;
  p.batch = s.batch, p.m = s.m, p.n = s.n, p.k = s.k;
  p.a = a.operand(), p.b = b.operand();
  const bool shared = rng.Chance(0.3);
  if (shared) p.b.batch_stride = 0;
  ProgramBuilder builder;
  const ComputeType type = ComputeTypeOf(t);
  SlotId x = builder.Input(type);
  x = builder.Unary(StageOp::kRelu, builder.Binary(StageOp::kAdd, x, builder.Input(type)));
  builder.Output(out == t ? x : builder.Convert(x, ComputeTypeOf(out)));
  const auto compiled = vector::Compile(std::move(builder).Build());
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const vector::EpilogueArg args[] = {{bias.view().data, t, 0, 0, 0, 1},
                                      {c.view().data, c.view().dtype, s.m * s.n, 0, s.n, 1}};
  if (program) {
    p.program = compiled->get();
    p.args = args;
  } else {
    p.c = c.view().data, p.c_row_stride = s.n, p.c_batch_stride = s.m * s.n;
  }
  RunPlain(p);
  std::vector<double> want, bounds;
  const std::vector<double> biases = bias.Get();
  for (int64_t i = 0; i < s.batch; ++i) {
    for (int64_t r = 0; r < s.m; ++r) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0, abs_sum = 0;
        for (int64_t l = 0; l < s.k; ++l) {
          const double y = a.At(i, r, l) * b.At(shared ? 0 : i, l, j);
          sum += y, abs_sum += std::fabs(y);
        }
        const double y = program ? std::max(0.0, sum + biases[static_cast<size_t>(j)]) : sum;
        want.push_back(y);
        bounds.push_back(
            t == DType::kS32 ? 0 : ContractionTolerance(abs_sum + 20, y, s.k, DType::kF64, c.view().dtype));
      }
    }
  }
  ASSERT_EQ("", Compare(c.Get(), want, bounds))
      << s.batch << " x (" << s.m << "," << s.n << "," << s.k << ") " << Name(t) << " " << program;
  ASSERT_TRUE(c.GuardsIntact());
}

TEST_P(PlainTest, RandomShapes) {
  Rng rng;
  for (auto _ : FuzzFor(300)) {
    const DType t = rng.Chance(0.5) ? DType::kF64 : DType::kS32;
    const DType out = t == DType::kF64 && rng.Chance(0.5) ? DType::kF32 : t;
    const Shape s = {rng.Size(3, true), rng.Size(40, true), rng.Size(70, true), rng.Size(50, true)};
    CheckOnce(rng, t, out, s, rng.Chance(0.6));
    if (HasFatalFailure()) return;
  }
}

// More than a block of rows, a group of panels and a task; rows that lie a power of two apart.
TEST_P(PlainTest, LargerThanBlocks) {
  Rng rng;
  for (const DType t : {DType::kF64, DType::kS32}) {
    for (const Shape& s : {Shape{1, 150, 33, 256}, Shape{1, 14, 600, 300}, Shape{2, 70, 40, 1100}}) {
      CheckOnce(rng, t, t, s, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(PlainTest, ThreadsDoNotChangeABit) {
  Rng rng;
  const Shape s = {1, 130, 140, 120};
  const Matrix a(DType::kF64, 1, s.m, s.k, rng), b(DType::kF64, 1, s.k, s.n, rng);
  std::vector<double> first;
  for (int threads : {1, 2, 5}) {
    SetNumThreads(threads);
    GuardedTensor c(DType::kF64, {1, s.m, s.n});
    RunPlain({s.m, s.n, s.k, 1, a.operand(), b.operand(), c.view().data, s.n, s.m * s.n, nullptr, {}});
    if (first.empty()) first = c.Get();
    EXPECT_EQ(first, c.Get()) << threads;
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace opsnn::gemm
