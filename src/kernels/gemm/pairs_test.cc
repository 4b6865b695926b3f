// Products of bf16 by the processor's dot products of pairs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "isa/bf16_dots.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/internal.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::ContractionTolerance;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::ReadElement;
using opsnn::testing::Rng;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Operands, and the same in FRACTAL_NZ with NaN as its padding.
struct Problem {
  Problem(Rng& rng, int64_t batch, int64_t m, int64_t n, int64_t k, bool strided)
      : trans_a(rng.Chance(0.4)),
        trans_b(rng.Chance(0.4)),
        a(DType::kBF16, trans_a ? Dims{batch, k, m} : Dims{batch, m, k}, &rng, strided),
        b(DType::kBF16, trans_b ? Dims{batch, n, k} : Dims{batch, k, n}, &rng, strided) {
    a.FillRandom(rng), b.FillRandom(rng);
    p.batch = batch, p.m = m, p.n = n, p.k = k;
    p.bf16_pairs = true;
    Bind();
  }
  void Bind() {
    const auto operand = [](const GuardedTensor& x, bool transposed) {
      const Dims& s = x.view().strides;
      return Operand{x.view().data, DType::kBF16, transposed ? s[2] : s[1], transposed ? s[1] : s[2], s[0]};
    };
    p.a = operand(a, trans_a), p.b = operand(b, trans_b);
  }
  static double At(const Operand& x, int64_t batch, int64_t row, int64_t col) {
    const int64_t at = batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
    return ReadElement(static_cast<const char*>(x.data) + at * 2, DType::kBF16);
  }
  void UseStrips() {
    const int64_t rows = trans_b ? p.n : p.k, cols = trans_b ? p.k : p.n, c0 = NzStrip(DType::kBF16);
    const int64_t elements = NzElements(rows, cols, DType::kBF16), padded = (rows + 15) / 16 * 16;
    nz.assign(static_cast<size_t>(p.batch * elements), 0xFFFF);
    for (int64_t i = 0; i < p.batch; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const double v = At(p.b, i, trans_b ? c : r, trans_b ? r : c);
          WriteElement(&nz[static_cast<size_t>(i * elements + c / c0 * padded * c0 + r * c0 + c % c0)],
                       DType::kBF16, v);
        }
      }
    }
    strips = {nz.data(), DType::kBF16, trans_b, elements};
  }
  std::vector<double> Run(const std::string& form, int64_t batches_of_b = -1) {
    GuardedTensor c(DType::kF32, {p.batch, p.m, p.n});
    Params q = p;
    q.c = c.view().as<float>(), q.c_row_stride = p.n, q.c_batch_stride = p.m * p.n;
    const int64_t batch = batches_of_b < 0 ? p.batch : batches_of_b;
    std::shared_ptr<const PackedB> packed;
    if (form == "gemv") q.path = Path::kGemv;
    if (form == "panel") q.path = Path::kPanel;
    if (form == "packed") packed = PackB(p.b, p.k, p.n, batch, p.blocking, true);
    if (form == "packed strips") packed = PackNzB(strips, p.k, p.n, batch, p.blocking, true);
    if (form == "strips") q.nz_b = strips, q.path = Path::kPanel;
    if (form == "few on strips") q.nz_b = strips;
    q.packed_b = packed.get();
    gemm::Run(q);
    EXPECT_TRUE(c.GuardsIntact()) << Text(form);
    return c.Get();
  }
  std::string Text(const std::string& form) const {
    return form + " " + std::to_string(p.batch) + " x (" + std::to_string(p.m) + "," + std::to_string(p.n) +
           "," + std::to_string(p.k) + ")" + (trans_a ? " A^T" : "") + (trans_b ? " B^T" : "") + " kc " +
           std::to_string(p.blocking.kc);
  }
  bool trans_a, trans_b;
  GuardedTensor a, b;
  Params p;
  std::vector<uint16_t> nz;
  NzOperand strips;
};

constexpr const char* kForms[] = {"auto",   "gemv",          "few on strips", "panel",
                                  "packed", "packed strips", "strips"};

// Without the instruction there is nothing to compare.
class Pairs : public ::testing::Test {
 protected:
  const bool has = isa::HasBf16();
  Rng rng;
};

TEST_F(Pairs, RandomShapes) {
  if (!has) return;
  for (auto _ : FuzzFor(600)) {
    const int64_t m = rng.Chance(0.4) ? rng.Int(1, 8) : rng.Size(60), n = rng.Size(140),
                  k = rng.Size(150, true);
    Problem x(rng, rng.Int(1, 3), m, n, k, rng.Chance(0.5));
    if (rng.Chance(0.5)) x.p.blocking.kc = 16 * rng.Int(1, 5), x.p.blocking.mc = 20 * rng.Int(1, 3);
    x.UseStrips();
    std::vector<double> want, tolerance;
    for (int64_t i = 0; i < x.p.batch; ++i) {
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0, size = 0;
          for (int64_t u = 0; u < k; ++u) {
            const double term = x.At(x.p.a, i, r, u) * x.At(x.p.b, i, u, c);
            sum += term, size += std::fabs(term);
          }
          want.push_back(sum);
          tolerance.push_back(ContractionTolerance(size, sum, k, DType::kF32, DType::kF32));
        }
      }
    }
    for (const char* form : kForms) ASSERT_EQ("", Compare(x.Run(form), want, tolerance)) << x.Text(form);
  }
}

// Whatever cuts the work, sums are the same bit by bit, across spans too; dots alone sum by lanes.
TEST_F(Pairs, FormsBlocksAndThreadsDoNotChangeABit) {
  if (!has) return;
  for (auto _ : FuzzFor(600)) {
    const int64_t m = rng.Chance(0.7) ? rng.Int(1, 8) : rng.Int(9, 60), n = rng.Int(2, 150);
    const int64_t k = rng.Chance(0.3) ? rng.Int(kSumSpan - 20, 2 * kSumSpan + 100) : rng.Int(1, 500);
    Problem x(rng, 1, m, n, k, rng.Chance(0.5));
    x.UseStrips();
    std::vector<double> first;
    for (const char* form : kForms) {
      const std::string name = form;
      if (x.p.b.col_stride != 1 && (name == "auto" || name == "gemv")) continue;
      if (x.trans_b && name == "few on strips") continue;
      SetNumThreads(static_cast<int>(rng.Int(1, 4)));
      x.p.blocking.kc = 16 * rng.Int(1, 40), x.p.blocking.mc = 14 * rng.Int(1, 3);
      const std::vector<double> got = x.Run(form);
      if (first.empty()) first = got;
      ASSERT_EQ(first, got) << x.Text(form);
    }
  }
  SetNumThreads(0);
}

TEST_F(Pairs, ThreadsDoNotChangeABitOfLargeProducts) {
  if (!has) return;
  const int64_t sizes[][3] = {{150, 300, 600}, {4, 3000, 330}, {40, 900, 2500}, {300, 200, 128}};
  for (const auto& s : sizes) {
    Problem x(rng, 2, s[0], s[1], s[2], false);
    for (const char* form : {"auto", "packed"}) {
      SetNumThreads(1);
      const std::vector<double> first = x.Run(form);
      for (int threads : {2, 5}) {
        SetNumThreads(threads);
        ASSERT_EQ(first, x.Run(form)) << x.Text(form) << " threads " << threads;
      }
    }
  }
  SetNumThreads(0);
}

TEST_F(Pairs, NanAndInfStayInTheirRows) {
  if (!has) return;
  for (auto _ : FuzzFor(200)) {
    const int64_t m = rng.Int(2, 30), n = rng.Int(1, 70), k = rng.Int(1, 40), bad = rng.Int(0, m - 1);
    Problem x(rng, 1, m, n, k, false);
    x.b.FillRandom(rng, 0.5, 2);
    const bool nan = rng.Chance(0.5);
    std::vector<double> a = x.a.Get();
    const int64_t at = rng.Chance(0.5) ? k - 1 : rng.Int(0, k - 1);  // the last may be odd
    a[static_cast<size_t>(x.trans_a ? at * m + bad : bad * k + at)] = nan ? std::nan("") : kInf;
    x.a.Set(a);
    x.UseStrips();
    for (const char* form : kForms) {
      const std::vector<double> got = x.Run(form);
      for (int64_t i = 0; i < m * n; ++i) {
        const double v = got[static_cast<size_t>(i)];
        if (i / n != bad) {
          ASSERT_TRUE(std::isfinite(v)) << x.Text(form);
        } else {
          ASSERT_TRUE(nan ? std::isnan(v) : v == kInf) << x.Text(form) << " " << v;
        }
      }
    }
  }
}

// What the numerics page says of values below 2^-126.
TEST_F(Pairs, SubnormalsCountAsZero) {
  if (!has) return;
  Problem x(rng, 1, 20, 40, 7, false);
  x.a.Set(std::vector<double>(20 * 7, 0x1p-127));
  x.b.Set(std::vector<double>(40 * 7, 0x1p100));
  for (const char* form : {"auto", "panel", "packed"}) {
    for (const double v : x.Run(form)) ASSERT_EQ(v, 0) << form;
  }
  x.p.bf16_pairs = false;  // widened: exact
  for (const double v : x.Run("auto")) ASSERT_EQ(v, 7 * 0x1p-27);
}

TEST_F(Pairs, EpiloguesAreThoseOfAPass) {
  if (!has) return;
  for (auto _ : FuzzFor(200)) {
    const int64_t m = rng.Int(1, 50), n = rng.Int(1, 140), k = rng.Int(0, 90);
    Problem x(rng, 1, m, n, k, rng.Chance(0.5));
    std::vector<float> bias(static_cast<size_t>(n));
    for (float& v : bias) v = static_cast<float>(rng.Real(-1, 1));
    for (const char* form : {"auto", "panel", "packed"}) {
      x.p.epilogue = {};
      const std::vector<double> plain = x.Run(form);
      std::vector<float> want(plain.begin(), plain.end());
      for (const vector::RegAct act : {vector::RegAct::kRelu, vector::RegAct::kGeluErf}) {
        std::vector<float> passed = want;
        FinishRows({passed.data(), n, passed.data(), n}, m, n, bias.data(), act, x.p.epilogue.act_imm);
        x.p.epilogue.bias = bias.data(), x.p.epilogue.act = act;
        ASSERT_EQ(std::vector<double>(passed.begin(), passed.end()), x.Run(form)) << x.Text(form);
      }
    }
  }
}

// The answer is asked for at every plan: it must not change within a process, and needs the instruction.
TEST(Bf16Dots, AnswerIsConstantAndUnderTheCap) {
  const bool pay = isa::Bf16DotsPay();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pay, isa::Bf16DotsPay());
  EXPECT_TRUE(!pay || isa::HasBf16());
  const isa::Tier before = isa::ActiveTier();
  isa::SetMaxTier(isa::Tier::kAvx2);
  EXPECT_FALSE(isa::Bf16DotsPay());
  isa::SetMaxTier(before);
}

}  // namespace
}  // namespace opsnn::gemm
