// Wide products with long sums: what their scratch takes.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/buffer_stats.h"
#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/internal.h"
#include "testing/testing.h"

namespace opsnn::gemm {
namespace {

constexpr int64_t kRows = 24, kDepth = kSumSpan + 600, kStep = 16;

// A product with `cols` columns whose rows of B overlap, kStep floats apart, so that B is small.
struct Product {
  explicit Product(int64_t cols)
      : n(cols),
        a(DType::kF32, {kRows, kDepth}),
        b(DType::kF32, {(kDepth - 1) * kStep + cols}),
        c(DType::kF32, {kRows, cols}) {
    a.FillRandom(rng);
    b.FillRandom(rng);
  }
  void Run(Path path) {
    Params p;
    p.batch = 1, p.m = kRows, p.n = n, p.k = kDepth;
    p.a = {a.view().data, DType::kF32, kDepth, 1, 0};
    p.b = {b.view().data, DType::kF32, kStep, 1, 0};
    p.c = c.view().as<float>(), p.c_row_stride = n;
    p.path = path;
    p.blocking.kc = 500;  // several blocks to a span: its sums are kept apart from those of the span before
    gemm::Run(p);
  }
  testing::Rng rng;
  const int64_t n;
  testing::GuardedTensor a, b, c;
};

// What a thread that has no scratch yet keeps after the product.
int64_t ScratchBytes(Product& product, Path path) {
  int64_t grown = 0;
  std::thread([&] {
    const ScopedThreadLimit one(1);
    const int64_t before = ThreadBufferBytes();
    product.Run(path);
    grown = ThreadBufferBytes() - before;
  }).join();
  return grown;
}

TEST(LongProducts, ScratchDoesNotGrowWithTheColumns) {
  Product narrow(4096), wide(3 * 4096 + 40);
  for (const Path path : {Path::kPanel, Path::kDirect}) {
    const int64_t few = ScratchBytes(narrow, path), many = ScratchBytes(wide, path);
    // The sums of a span for a tile, and operands that a path packs by rows or by blocks of B.
    EXPECT_GE(few, kRows * 4096 * static_cast<int64_t>(sizeof(float))) << Name(path);
    EXPECT_LE(many, few + few / 16) << Name(path);
    EXPECT_TRUE(wide.c.GuardsIntact());
    const auto a = wide.a.Get(), b = wide.b.Get(), c = wide.c.Get();
    for (int sample = 0; sample < 300; ++sample) {
      const int64_t row = wide.rng.Int(0, kRows - 1), col = wide.rng.Int(0, wide.n - 1);
      double sum = 0, size = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const double term =
            a[static_cast<size_t>(row * kDepth + k)] * b[static_cast<size_t>(k * kStep + col)];
        sum += term, size += std::abs(term);
      }
      EXPECT_NEAR(c[static_cast<size_t>(row * wide.n + col)], sum,
                  testing::ContractionTolerance(size, sum, kDepth, DType::kF32, DType::kF32))
          << Name(path) << " " << row << " " << col;
    }
  }
}

}  // namespace
}  // namespace opsnn::gemm
