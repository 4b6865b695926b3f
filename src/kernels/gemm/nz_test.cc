// Weights in FRACTAL_NZ give the panels that the same weights give as rows.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/int8.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

using opsnn::testing::FuzzFor;
using opsnn::testing::Rng;

// Random bytes as row-major k x n (or n x k) matrices, and the same in FRACTAL_NZ with padding of 0xFF, which
// is NaN in every float type.
struct Weights {
  Weights(DType t, bool transposed, int64_t k, int64_t n, int64_t batch, Rng& rng) {
    const int64_t size = static_cast<int64_t>(SizeOf(t)), strip = NzStrip(t);
    const int64_t rows = transposed ? n : k, cols = transposed ? k : n, padded = (rows + 15) / 16 * 16;
    const int64_t elements = NzElements(rows, cols, t);
    plain.resize(static_cast<size_t>(batch * rows * cols * size));
    for (uint8_t& x : plain) x = static_cast<uint8_t>(rng.Int(0, 120));  // no exponent of Inf or NaN
    nz.assign(static_cast<size_t>(batch * elements * size), 0xFF);
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t to = i * elements + c / strip * padded * strip + r * strip + c % strip;
          memcpy(&nz[static_cast<size_t>(to * size)],
                 &plain[static_cast<size_t>((i * rows * cols + r * cols + c) * size)],
                 static_cast<size_t>(size));
        }
      }
    }
    as_rows = {plain.data(), t, transposed ? 1 : cols, transposed ? cols : 1, rows * cols};
    as_nz = {nz.data(), t, transposed, elements};
  }
  std::vector<uint8_t> plain, nz;
  Operand as_rows;
  NzOperand as_nz;
};

bool SameBytes(const AlignedBuffer& a, const AlignedBuffer& b) {
  return a.bytes() == b.bytes() && memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class NzTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override {
    if (GetParam() <= isa::BestTier()) isa::SetMaxTier(GetParam());
  }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};
INSTANTIATE_TEST_SUITE_P(Tiers, NzTest,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return isa::Name(info.param); });

TEST_P(NzTest, GivesThePanelsOfRows) {
  Rng rng;
  for (auto _ : FuzzFor(200)) {
    const std::array<DType, 3> types = {DType::kF32, DType::kF16, DType::kBF16};
    const DType t = types[static_cast<size_t>(rng.Int(0, 2))];
    const int64_t k = rng.Size(120, true), n = rng.Size(100, true), batch = rng.Int(1, 3);
    const Weights w(t, rng.Chance(0.5), k, n, batch, rng);
    Blocking blocking;
    if (rng.Chance(0.5)) blocking.kc = 16 * rng.Int(1, 5);
    const auto rows = PackB(w.as_rows, k, n, batch, blocking), nz = PackNzB(w.as_nz, k, n, batch, blocking);
    ASSERT_TRUE(rows && nz);
    EXPECT_EQ(rows->kc, nz->kc);
    if (k > 0 && n > 0) {
      ASSERT_TRUE(SameBytes(rows->data, nz->data)) << k << " x " << n << (w.as_nz.transposed ? " T" : "");
    }
  }
}

TEST_P(NzTest, GivesTheProductsOfRows) {
  Rng rng;
  for (auto _ : FuzzFor(300)) {
    const DType t = std::array{DType::kF32, DType::kF16, DType::kBF16}[static_cast<size_t>(rng.Int(0, 2))];
    const int64_t k = rng.Chance(0.1) ? rng.Int(2000, 4500) : rng.Size(150, true);
    const int64_t m = rng.Chance(0.7) ? rng.Int(1, 18) : rng.Size(50), n = rng.Size(100),
                  batch = rng.Int(1, 3);
    const bool transposed = rng.Chance(0.5);
    const Weights w(t, transposed, k, n, batch, rng);
    const int64_t ld = transposed ? k : n + 1;  // one column is no contiguous vector, which would be a dot
    std::vector<uint8_t> rows(static_cast<size_t>(batch * (transposed ? n : k) * ld) * SizeOf(t));
    for (int64_t i = 0; i < batch * (transposed ? n : k); ++i) {
      const size_t bytes = static_cast<size_t>(transposed ? k : n) * SizeOf(t);
      if (bytes > 0)
        memcpy(&rows[static_cast<size_t>(i * ld) * SizeOf(t)], &w.plain[static_cast<size_t>(i) * bytes],
               bytes);
    }
    std::vector<float> a(static_cast<size_t>(batch * m * k)), bias(static_cast<size_t>(n));
    for (float& x : a) x = static_cast<float>(rng.Real(-1, 1));
    for (float& x : bias) x = static_cast<float>(rng.Real(-1, 1));
    Params p;
    p.m = m, p.n = n, p.k = k, p.batch = batch;
    p.a = {a.data(), DType::kF32, k, 1, m * k};
    if (rng.Chance(0.5)) p.blocking.kc = 16 * rng.Int(1, 20);
    if (rng.Chance(0.5)) p.epilogue.bias = bias.data();
    std::vector<float> results[2];
    for (int i = 0; i < 2; ++i) {
      results[i].assign(static_cast<size_t>(batch * m * n), -1.0f);
      p.c = results[i].data(), p.c_row_stride = n, p.c_batch_stride = m * n;
      if (i == 0) {
        p.b = {rows.data(), t, transposed ? 1 : ld, transposed ? ld : 1, (transposed ? n : k) * ld};
      } else {
        p.b = {}, p.nz_b = w.as_nz;
      }
      gemm::Run(p);
    }
    ASSERT_EQ(0, memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)))
        << m << " x " << n << " x " << k << " " << opsnn::Name(t) << (transposed ? " T " : " ")
        << Name(ChoosePath(p));
  }
}

TEST_P(NzTest, GivesTheProductsOfIntegers) {
  Rng rng;
  for (auto _ : FuzzFor(150)) {
    const DType at = rng.Chance(0.5) ? DType::kS8 : DType::kU8,
                bt = rng.Chance(0.5) ? DType::kS8 : DType::kU8;
    const int64_t m = rng.Int(1, 20), batch = rng.Int(1, 2);
    const int64_t k = rng.Chance(0.1) ? rng.Int(500, 1100) : rng.Size(120), n = rng.Size(100);
    const Weights w(bt, rng.Chance(0.5), k, n, batch, rng);
    std::vector<uint8_t> a(static_cast<size_t>(batch * m * k));
    for (uint8_t& x : a) x = static_cast<uint8_t>(rng.Int(0, 255));
    const int32_t a_zero = static_cast<int32_t>(rng.Int(-3, 3));
    std::vector<int32_t> results[2];
    const std::shared_ptr<const PackedInt8B> packed[2] = {PackInt8B(w.as_rows, at, k, n, batch),
                                                          PackNzInt8B(w.as_nz, at, k, n, batch)};
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(packed[i]);
      results[i].resize(static_cast<size_t>(batch * m * n));
      Int8Params p;
      p.m = m, p.n = n, p.k = k, p.batch = batch;
      p.a = {a.data(), at, k, 1, m * k};
      p.b.dtype = bt;
      p.packed_b = packed[i].get();
      p.a_zero = {&a_zero, 0};
      p.c = results[i].data(), p.c_row_stride = n, p.c_batch_stride = m * n;
      RunInt8(p);
    }
    ASSERT_EQ(results[0], results[1]) << m << " x " << n << " x " << k << (w.as_nz.transposed ? " T" : "");
  }
}

}  // namespace
}  // namespace opsnn::gemm
