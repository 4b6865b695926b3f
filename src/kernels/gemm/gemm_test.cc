#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/plain.h"
#include "kernels/gemm/tiers_for_test.h"
#include "program/program.h"
#include "testing/testing.h"
#include "vector/scratch_failures.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::ContractionTolerance;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::ReadElement;
using opsnn::testing::Rng;

constexpr Path kAllPaths[] = {Path::kAuto, Path::kGemv, Path::kDirect, Path::kStream, Path::kPanel};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A matrix operand of logical (batch, rows, cols), stored as it is or transposed, with or without gaps.
struct Matrix {
  Matrix(DType t, int64_t batch, int64_t rows, int64_t cols, bool transposed, bool strided, Rng& rng)
      : transposed(transposed),
        tensor(t, transposed ? Dims{batch, cols, rows} : Dims{batch, rows, cols}, &rng, strided) {}
  Operand operand() const {
    const Dims& s = tensor.view().strides;
    return {tensor.view().data, tensor.view().dtype, transposed ? s[2] : s[1], transposed ? s[1] : s[2],
            s[0]};
  }
  double At(int64_t b, int64_t r, int64_t c) const {
    const Operand o = operand();
    const int64_t at = b * o.batch_stride + r * o.row_stride + c * o.col_stride;
    return ReadElement(static_cast<const char*>(o.data) + at * static_cast<int64_t>(SizeOf(o.dtype)),
                       o.dtype);
  }
  bool transposed;
  GuardedTensor tensor;
};

struct Expected {
  std::vector<double> value, abs_sum;  // (batch, m, n)
};
Expected Reference(const Params& p, const Matrix& a, const Matrix& b) {
  Expected e;
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t c = 0; c < p.n; ++c) {
        double sum = 0, abs_sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const double x = a.At(i, r, k), y = b.At(p.b.batch_stride == 0 ? 0 : i, k, c);
          sum += x * y;
          abs_sum += std::fabs(x * y);
        }
        e.value.push_back(sum);
        e.abs_sum.push_back(abs_sum);
      }
    }
  }
  return e;
}

std::vector<double> Tolerances(const Expected& e, int64_t k, DType out = DType::kF32) {
  std::vector<double> t;
  for (size_t i = 0; i < e.value.size(); ++i) {
    t.push_back(ContractionTolerance(e.abs_sum[i], e.value[i], k, DType::kF32, out));
  }
  return t;
}

Params MakeParams(const Matrix& a, const Matrix& b, const GuardedTensor& c, int64_t k, bool share_b = false) {
  Params p;
  const Dims& dims = c.view().dims;
  p.batch = dims[0], p.m = dims[1], p.n = dims[2], p.k = k;
  p.a = a.operand(), p.b = b.operand();
  if (share_b) p.b.batch_stride = 0;
  p.c = c.view().as<float>();
  p.c_batch_stride = c.view().strides[0], p.c_row_stride = c.view().strides[1];
  return p;
}

// C with unit column stride, rows apart.
GuardedTensor MakeC(Rng& rng, int64_t batch, int64_t m, int64_t n) {
  for (int i = 0; i < 20; ++i) {
    GuardedTensor c(DType::kF32, {batch, m, n}, &rng, true);
    if (c.view().strides[2] == 1) return c;
  }
  return GuardedTensor(DType::kF32, {batch, m, n});
}

std::string Describe(const Params& p, Path path) {
  return std::to_string(p.batch) + " x (" + std::to_string(p.m) + "," + std::to_string(p.n) + "," +
         std::to_string(p.k) + ") path " + Name(path) + " a " + std::to_string(p.a.row_stride) + "/" +
         std::to_string(p.a.col_stride) + " b " + std::to_string(p.b.row_stride) + "/" +
         std::to_string(p.b.col_stride);
}

class GemmTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

INSTANTIATE_TEST_SUITE_P(Tiers, GemmTest, ::testing::ValuesIn(Tiers()),
                         [](const auto& info) { return isa::Name(info.param); });

void CheckOnce(Rng& rng, int64_t batch, int64_t m, int64_t n, int64_t k, DType t) {
  const bool share_b = rng.Chance(0.3), strided = rng.Chance(0.5);
  Matrix a(t, batch, m, k, rng.Chance(0.4), strided, rng), b(t, batch, k, n, rng.Chance(0.4), strided, rng);
  a.tensor.FillRandom(rng);
  b.tensor.FillRandom(rng);
  Params p;
  Expected want;
  for (Path path : kAllPaths) {
    GuardedTensor c = MakeC(rng, batch, m, n);
    p = MakeParams(a, b, c, k, share_b);
    p.path = path;
    if (rng.Chance(0.5)) p.blocking.mc = rng.Int(1, 3) * 20, p.blocking.kc = rng.Int(1, 4) * 16;
    if (want.value.empty()) want = Reference(p, a, b);
    gemm::Run(p);
    ASSERT_EQ("", Compare(c.Get(), want.value, Tolerances(want, k))) << Describe(p, path);
    ASSERT_TRUE(c.GuardsIntact()) << Describe(p, path);
  }
  std::shared_ptr<const PackedB> packed =
      PackB(p.b, k, n, share_b ? std::min<int64_t>(1, batch) : batch, p.blocking);
  GuardedTensor c = MakeC(rng, batch, m, n);
  p = MakeParams(a, b, c, k, share_b);
  p.packed_b = packed.get();
  gemm::Run(p);
  ASSERT_EQ("", Compare(c.Get(), want.value, Tolerances(want, k))) << Describe(p, Path::kPacked);
  ASSERT_TRUE(c.GuardsIntact()) << Describe(p, Path::kPacked);
}

TEST_P(GemmTest, RandomShapes) {
  Rng rng;
  for (auto _ : FuzzFor(400)) {
    CheckOnce(rng, rng.Size(3, true), rng.Size(70, true), rng.Size(80, true), rng.Size(90, true),
              DType::kF32);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GemmTest, HalfInputs) {
  Rng rng;
  for (auto _ : FuzzFor(150)) {
    CheckOnce(rng, rng.Size(2), rng.Size(40), rng.Size(70), rng.Size(60),
              rng.Chance(0.5) ? DType::kF16 : DType::kBF16);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GemmTest, LargerThanBlocks) {
  Rng rng;
  CheckOnce(rng, 1, 600, 70, 130, DType::kF32);
  CheckOnce(rng, 1, 30, 600, 900, DType::kF32);
  CheckOnce(rng, 1, 3, 5000, 70, DType::kF32);
  CheckOnce(rng, 1, 5000, 3, 70, DType::kF32);
  CheckOnce(rng, 2, 100, 250, 200, DType::kF32);
}

// Products that follow each other without gaps have tiles of their own, which sum in the same order as
// others.
TEST_P(GemmTest, SmallBatchesGiveTheBitsOfOtherPaths) {
  Rng rng;
  for (auto _ : FuzzFor(200)) {
    const int64_t batch = rng.Int(2, 9), m = rng.Int(1, 70), n = 16 * rng.Int(1, 8), k = rng.Int(1, 70);
    const bool share_b = rng.Chance(0.3);
    Matrix a(DType::kF32, batch, m, k, false, false, rng), b(DType::kF32, batch, k, n, false, false, rng);
    GuardedTensor bias(DType::kF32, {n}), c(DType::kF32, {batch, m, n}), d(DType::kF32, {batch, m, n});
    for (GuardedTensor* x : {&a.tensor, &b.tensor, &bias}) x->FillRandom(rng);
    Params p = MakeParams(a, b, c, k, share_b);
    p.path = Path::kDirect;
    gemm::Run(p);
    const Expected want = Reference(p, a, b);
    ASSERT_EQ("", Compare(c.Get(), want.value, Tolerances(want, k))) << Describe(p, p.path);
    if (rng.Chance(0.7)) p.epilogue.bias = bias.view().as<float>();
    if (rng.Chance(0.5)) p.epilogue.act = rng.Chance(0.5) ? vector::RegAct::kRelu : vector::RegAct::kGeluErf;
    gemm::Run(p);
    p.c = d.view().as<float>();
    p.path = Path::kPanel;
    gemm::Run(p);
    ASSERT_EQ(c.Get(), d.Get()) << Describe(p, Path::kDirect);
    ASSERT_TRUE(c.GuardsIntact());
  }
}

// Small integers make every sum exact, so that each tile height, width and depth is compared bit by bit.
TEST_P(GemmTest, EveryTileIsExact) {
  Rng rng;
  const MicroTile t = TileFor(GetParam());
  for (int64_t m = 1; m <= 2 * t.mr + 1; ++m) {
    for (int64_t n : {1, t.nr / 2 - 1, t.nr / 2, t.nr / 2 + 1, t.nr - 1, t.nr, t.nr + 1, 2 * t.nr + 3}) {
      const int64_t k = rng.Int(1, 40);
      Matrix a(DType::kF32, 1, m, k, rng.Chance(0.5), false, rng),
          b(DType::kF32, 1, k, n, rng.Chance(0.5), false, rng);
      std::vector<double> av(m * k), bv(k * n);
      for (double& x : av) x = static_cast<double>(rng.Int(-8, 8));
      for (double& x : bv) x = static_cast<double>(rng.Int(-8, 8));
      a.tensor.Set(av);
      b.tensor.Set(bv);
      for (Path path : kAllPaths) {
        GuardedTensor c(DType::kF32, {1, m, n});
        Params p = MakeParams(a, b, c, k);
        p.path = path;
        gemm::Run(p);
        ASSERT_EQ(Reference(p, a, b).value, c.Get()) << Describe(p, path);
        ASSERT_TRUE(c.GuardsIntact());
      }
    }
  }
}

TEST_P(GemmTest, ThreadsDoNotChangeABit) {
  Rng rng;
  for (auto [m, n, k] : {std::array<int64_t, 3>{150, 300, 100},
                         {600, 130, 70},
                         {4, 3000, 130},
                         {3000, 5, 90},
                         {40, 900, 700}}) {
    Matrix a(DType::kF32, 2, m, k, false, false, rng), b(DType::kF32, 2, k, n, rng.Chance(0.5), false, rng);
    a.tensor.FillRandom(rng);
    b.tensor.FillRandom(rng);
    for (Path path : kAllPaths) {
      std::vector<double> first;
      for (int threads : {1, 2, 5}) {
        SetNumThreads(threads);
        GuardedTensor c(DType::kF32, {2, m, n});
        Params p = MakeParams(a, b, c, k);
        p.path = path;
        gemm::Run(p);
        if (threads == 1) first = c.Get();
        ASSERT_EQ(first, c.Get()) << Describe(p, path) << " threads " << threads;
      }
    }
  }
  SetNumThreads(0);
}

// The blocking cuts work, not sums: every panel path gives the same bits.
TEST_P(GemmTest, BlockingDoesNotChangeABit) {
  Rng rng;
  Matrix a(DType::kF32, 1, 50, 200, false, false, rng), b(DType::kF32, 1, 200, 70, false, false, rng);
  a.tensor.FillRandom(rng);
  b.tensor.FillRandom(rng);
  std::vector<double> first;
  for (int64_t kc : {16, 48, 200, 1000}) {
    for (Path path : {Path::kDirect, Path::kStream, Path::kPanel}) {
      GuardedTensor c(DType::kF32, {1, 50, 70});
      Params p = MakeParams(a, b, c, 200);
      p.path = path;
      p.blocking.kc = kc, p.blocking.mc = kc;
      gemm::Run(p);
      if (first.empty()) first = c.Get();
      EXPECT_EQ(first, c.Get()) << kc << Name(path);
    }
  }
}

// The same across spans, for few rows too, and with an epilogue in the tile.
TEST_P(GemmTest, SpansOfLongSumsDoNotDependOnThePath) {
  Rng rng;
  for (int64_t k : {kSumSpan + 1, 2 * kSumSpan, 3 * kSumSpan + 40}) {
    Matrix a(DType::kF32, 1, 5, k, false, false, rng), b(DType::kF32, 1, k, 70, false, false, rng);
    a.tensor.FillRandom(rng);
    b.tensor.FillRandom(rng);
    GuardedTensor bias(DType::kF32, {70});
    bias.FillRandom(rng);
    std::vector<double> first;
    for (int64_t kc : {16, 500, 4000}) {
      for (Path path : {Path::kGemv, Path::kDirect, Path::kStream, Path::kPanel, Path::kPacked}) {
        GuardedTensor c(DType::kF32, {1, 5, 70});
        Params p = MakeParams(a, b, c, k);
        p.path = path;
        p.blocking.kc = kc, p.blocking.mc = 3;
        p.epilogue.bias = static_cast<const float*>(bias.view().data);
        p.epilogue.act = vector::RegAct::kRelu;
        std::shared_ptr<const PackedB> packed;
        if (path == Path::kPacked) packed = PackB(p.b, k, 70, 1, p.blocking), p.packed_b = packed.get();
        gemm::Run(p);
        if (first.empty()) first = c.Get();
        EXPECT_EQ(first, c.Get()) << k << " " << kc << Name(path);
        EXPECT_TRUE(c.GuardsIntact());
      }
    }
  }
}

// Equal terms round in the same direction: the bound of the numerics page must hold for them too.
TEST_P(GemmTest, LongSumsOfEqualTermsStayInBounds) {
  Rng rng;
  constexpr int64_t kK = 1 << 16;
  for (Path path : kAllPaths) {
    for (int64_t n : {1, 9, 40}) {
      Matrix a(DType::kF32, 1, 2, kK, false, false, rng), b(DType::kF32, 1, kK, n, false, false, rng);
      a.tensor.Set(std::vector<double>(static_cast<size_t>(2 * kK), 1.0));
      b.tensor.Set(std::vector<double>(static_cast<size_t>(n * kK), 0.1f));
      GuardedTensor c(DType::kF32, {1, 2, n});
      Params p = MakeParams(a, b, c, kK);
      p.path = path;
      gemm::Run(p);
      const double want = double{0.1f} * kK;
      for (double v : c.Get()) {
        ASSERT_NEAR(v, want, ContractionTolerance(want, want, kK, DType::kF32, DType::kF32))
            << Name(path) << n;
      }
    }
  }
}

TEST_P(GemmTest, NanAndInfStayInTheirRows) {
  Rng rng;
  for (int64_t m : {1, 3, 17, 40}) {
    for (int64_t n : {1, 7, 33, 50}) {
      for (int64_t k : {3, 21}) {
        Matrix a(DType::kF32, 1, m, k, false, false, rng),
            b(DType::kF32, 1, k, n, rng.Chance(0.5), false, rng);
        a.tensor.FillRandom(rng);
        b.tensor.FillRandom(rng, 0.5, 2);
        std::vector<double> av = a.tensor.Get();
        const int64_t bad = rng.Int(0, m - 1);
        const double value = rng.Chance(0.5) ? kNaN : kInf;
        av[bad * k + rng.Int(0, k - 1)] = value;
        a.tensor.Set(av);
        for (Path path : kAllPaths) {
          GuardedTensor c(DType::kF32, {1, m, n});
          c.Set(std::vector<double>(m * n, kNaN));
          Params p = MakeParams(a, b, c, k);
          p.path = path;
          gemm::Run(p);
          const std::vector<double> got = c.Get();
          for (int64_t i = 0; i < m * n; ++i) {
            if (i / n != bad) {
              ASSERT_TRUE(std::isfinite(got[i])) << Describe(p, path) << " element " << i;
            } else {
              ASSERT_EQ(std::isnan(value), std::isnan(got[i])) << Describe(p, path) << " element " << i;
              ASSERT_FALSE(std::isfinite(got[i]));
            }
          }
        }
      }
    }
  }
}

TEST_P(GemmTest, InfinityMeetsNoPadding) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t m = 1; m <= 17; ++m) {
      Matrix a(t, 1, m, 3, false, false, rng), b(t, 1, 3, 1, false, false, rng);
      std::vector<double> av;
      for (int64_t i = 0; i < m; ++i) av.insert(av.end(), {kInf, 0, -kInf});
      a.tensor.Set(av);
      b.tensor.Set({0.5, 3.0, -0.25});
      for (Path path : kAllPaths) {
        GuardedTensor c(DType::kF32, {1, m, 1});
        Params p = MakeParams(a, b, c, 3);
        p.path = path;
        gemm::Run(p);
        EXPECT_EQ(std::vector<double>(m, kInf), c.Get()) << Describe(p, path);
      }
    }
  }
}

TEST_P(GemmTest, EmptyInnerDimensionGivesTheEpilogueOfZeros) {
  Rng rng;
  Matrix a(DType::kF32, 1, 9, 0, false, false, rng), b(DType::kF32, 1, 0, 37, false, false, rng);
  for (Path path : kAllPaths) {
    for (bool with_bias : {false, true}) {
      std::vector<float> bias(37);
      std::vector<double> want;
      for (int i = 0; i < 37; ++i) bias[i] = static_cast<float>(i - 5);
      for (int i = 0; i < 9 * 37; ++i) want.push_back(with_bias ? std::max(0, i % 37 - 5) : 0);
      GuardedTensor c(DType::kF32, {1, 9, 37});
      c.Set(std::vector<double>(9 * 37, kNaN));
      Params p = MakeParams(a, b, c, 0);
      p.path = path;
      p.epilogue.act = vector::RegAct::kRelu;
      if (with_bias) p.epilogue.bias = bias.data();
      gemm::Run(p);
      EXPECT_EQ(want, c.Get()) << Name(path);
      if (with_bias) continue;
      std::shared_ptr<const PackedB> packed = PackB(p.b, 0, 37, 1, p.blocking);
      p.packed_b = packed.get();
      c.Set(std::vector<double>(9 * 37, kNaN));
      gemm::Run(p);
      EXPECT_EQ(want, c.Get());
    }
  }
}

// An activation applied to tiles gives the bits of the same activation applied afterwards, wherever a tile
// ends; constant weights and others alike.
TEST_P(GemmTest, ActivationsInTilesGiveTheBitsOfAPass) {
  Rng rng;
  for (auto [m, n, k] : {std::array<int64_t, 3>{13, 64, 64},
                         {70, 130, 40},
                         {25, 200, 300},
                         {6, 113, 16},
                         {40, 127, 700},
                         {64, 64, 0}}) {
    Matrix a(DType::kF32, 1, m, k, rng.Chance(0.3), false, rng), b(DType::kF32, 1, k, n, false, false, rng);
    a.tensor.FillRandom(rng);
    b.tensor.FillRandom(rng);
    std::vector<float> bias(static_cast<size_t>(n));
    for (float& x : bias) x = static_cast<float>(rng.Int(-8, 8)) / 4;
    GuardedTensor c = MakeC(rng, 1, m, n);
    Params p = MakeParams(a, b, c, k);
    p.epilogue.bias = bias.data();
    p.path = Path::kPanel;
    gemm::Run(p);
    FinishRows({p.c, p.c_row_stride, p.c, p.c_row_stride}, m, n, nullptr, vector::RegAct::kGeluErf,
               p.epilogue.act_imm);
    const std::vector<double> want = c.Get();
    p.epilogue.act = vector::RegAct::kGeluErf;
    const std::shared_ptr<const PackedB> packed = PackB(p.b, k, n, 1, p.blocking);
    for (const Path path : {Path::kDirect, Path::kPanel, Path::kPacked}) {
      c.Set(std::vector<double>(static_cast<size_t>(m * n), kNaN));
      p.path = path;
      p.packed_b = path == Path::kPacked ? packed.get() : nullptr;
      gemm::Run(p);
      ASSERT_EQ(want, c.Get()) << Describe(p, path);
      ASSERT_TRUE(c.GuardsIntact()) << Describe(p, path);
    }
  }
}

// A residual is added by a program that works in its output, unless the output's memory is the residual
// itself: then sums may not pass through it.
// Strides of 0 make operands of any size, whose copies no memory holds.
TEST(Gemm, NoMemoryForScratchIsNotedAndWritesNothing) {
  const int64_t depth = int64_t{1} << 45;
  double value = 1, c = 7;
  auto* c32 = reinterpret_cast<float*>(&c);
  Params p;
  p.m = p.n = 1, p.k = depth;
  p.a = {&value, DType::kF32, 0, 0, 0};
  p.b = {&value, DType::kF32, 0, 1, 0};
  p.c = c32;
  p.c_row_stride = p.c_batch_stride = 1;
  p.path = Path::kGemv;
  const vector::ScratchCheck gemv;
  gemm::Run(p);
  EXPECT_EQ(gemv.Check("gemv").message(), "gemv: no memory for its scratch.");
  const vector::ScratchCheck plain;
  EXPECT_TRUE(plain.Check("plain").ok());
  RunPlain({1, 1, depth, 1, {&value, DType::kF64, 0, 0, 0}, {&value, DType::kF64, 0, 1, 0}, &c, 1, 1});
  EXPECT_EQ(plain.Check("plain").code(), Code::kRuntime);
  EXPECT_EQ(c, 7);
}

TEST_P(GemmTest, ProgramAddsAResidual) {
  Rng rng;
  ProgramBuilder builder;
  const SlotId x = builder.Input(), y = builder.Input();
  builder.Output(builder.Binary(StageOp::kAdd, x, y));
  const Result<std::shared_ptr<const vector::CompiledProgram>> add =
      vector::Compile(std::move(builder).Build());
  ASSERT_TRUE(add.ok());
  for (auto [batch, m, n, k] : {std::array<int64_t, 4>{1, 37, 45, 50},
                                {2, 70, 150, 130},
                                {3, 5, 33, 40},
                                {1, 20, 600, 90},
                                {2, 75, 131, 30},
                                {1, 66, 47, 20}}) {
    Matrix a(DType::kF32, batch, m, k, false, false, rng), b(DType::kF32, batch, k, n, false, false, rng);
    a.tensor.FillRandom(rng);
    b.tensor.FillRandom(rng);
    for (Path path : kAllPaths) {
      for (bool shared : {false, true}) {
        GuardedTensor residual(DType::kF32, {batch, m, n}), c = MakeC(rng, batch, m, n);
        if (!shared) residual.FillRandom(rng);
        if (shared) c.FillRandom(rng);
        const TensorView out = c.view(), in = shared ? out : residual.view();
        Params p = MakeParams(a, b, c, k);
        p.c = nullptr;
        p.path = path;
        p.blocking.kc = 32, p.blocking.mc = 28;
        const auto arg = [](const TensorView& v) {
          return vector::EpilogueArg{v.data, v.dtype, v.strides[0], 0, v.strides[1], v.strides[2]};
        };
        const std::array<vector::EpilogueArg, 2> args = {arg(in), arg(out)};
        p.epilogue.program = add->get();
        p.epilogue.args = args;
        Expected want = Reference(p, a, b);
        const std::vector<double> before = shared ? c.Get() : residual.Get();
        for (size_t i = 0; i < before.size(); ++i) {
          want.value[i] += before[i];
          want.abs_sum[i] += std::fabs(before[i]);
        }
        gemm::Run(p);
        ASSERT_EQ("", Compare(c.Get(), want.value, Tolerances(want, k + 1)))
            << Describe(p, path) << (shared ? " shared" : "");
        ASSERT_TRUE(c.GuardsIntact()) << Describe(p, path);
      }
    }
  }
}

}  // namespace
}  // namespace opsnn::gemm
