// The small C API: budgets by the numbers, products against double arithmetic, messages.
#include "opsnn/ops_nn.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <string>
#include <vector>

#include "base/knobs.h"
#include "testing/testing.h"

namespace opsnn::capi {
namespace {

// The chosen profile for the length of a test.
struct Profile {
  explicit Profile(const char* name) { EXPECT_TRUE(SetKnob("profile", name).ok()); }
  ~Profile() { EXPECT_TRUE(SetKnob("profile", "host").ok()); }
};

TEST(OpsNn, BudgetOfAGivenTile) {
  Profile npu("910B1");
  EXPECT_EQ(get_l1_capacity(), 512 * 1024);
  EXPECT_GT(get_ub_capacity(), 0);
  TilingArgs args{128, 256, 64, 0, 0, 0};
  EXPECT_EQ(calc_tiling(128, 256, 64, &args), 0) << ops_nn_last_error();
  EXPECT_EQ(args.l1_budget, 352 * 1024);  // A 32 + B 64 + C 128 + activation 128 KiB
  EXPECT_EQ(args.ub_budget, 128 * 1024);
  EXPECT_EQ(args.fuse_enable, 1);
  EXPECT_EQ(args.tile_m, 128);
  EXPECT_EQ(args.tile_n, 256);
  EXPECT_EQ(args.tile_k, 64);
}

TEST(OpsNn, PartialOverlapsAreRefused) {
  std::vector<float> a(64, 1), b(64, 1);
  auto refused = [](int code, const std::string& message) {
    EXPECT_EQ(code, -1);
    EXPECT_NE(std::string(ops_nn_last_error()).find(message), std::string::npos) << ops_nn_last_error();
  };
  refused(asccl_relu(a.data(), a.data() + 1, 4, 8), "asccl_relu: y (4x8 floats at ");
  refused(asccl_relu(a.data() + 1, a.data(), 4, 8), "overlaps x (4x8 floats at ");
  refused(asccl_matmul(a.data(), b.data(), a.data() + 3, 4, 4, 4), "asccl_matmul: c (4x4 floats at ");
  refused(asccl_matmul(a.data(), b.data(), b.data() + 15, 4, 4, 4), "overlaps b (4x4 floats at ");
  refused(asccl_matmul(a.data(), b.data(), a.data(), 4, 4, 8), "overlaps a (4x8 floats at ");
  refused(asccl_matmul(a.data(), b.data(), a.data(), INT_MAX, INT_MAX, INT_MAX),
          "asccl_matmul: a has 2147483647x2147483647");
  refused(asccl_matmul(a.data(), b.data(), a.data(), 1, INT_MAX, INT_MAX),
          "asccl_matmul: b has 2147483647x2147483647");
  refused(asccl_relu(a.data(), a.data(), INT_MAX, INT_MAX), "asccl_relu: x has 2147483647x2147483647");
  TilingArgs args{};
  for (int fuse : {0, 1}) {
    args.fuse_enable = fuse;
    refused(ops_nn_fused_matmul_relu(a.data(), b.data(), a.data() + 3, 4, 4, 4, args), "overlaps a");
  }
  EXPECT_EQ(a, std::vector<float>(64, 1));
  // In place, and side by side.
  EXPECT_EQ(asccl_relu(a.data(), a.data(), 4, 8), 0) << ops_nn_last_error();
  EXPECT_EQ(asccl_relu(a.data(), a.data() + 32, 4, 8), 0) << ops_nn_last_error();
  EXPECT_EQ(asccl_matmul(a.data(), b.data(), a.data(), 4, 4, 4), 0) << ops_nn_last_error();
  EXPECT_EQ(a[0], 4);
}

TEST(OpsNn, TilesThatDoNotFit) {
  Profile npu("910B1:l1_bytes=256K");
  TilingArgs args{128, 256, 64, 0, 0, 1};
  EXPECT_EQ(calc_tiling(1024, 1024, 1024, &args), -1);
  EXPECT_EQ(args.fuse_enable, 0);
  EXPECT_NE(std::string(ops_nn_last_error()).find("calc_tiling"), std::string::npos);
  TilingArgs free_tile{};
  EXPECT_EQ(calc_tiling(1024, 1024, 1024, &free_tile), 0) << ops_nn_last_error();
  EXPECT_LE(free_tile.l1_budget, 256 * 1024);
  EXPECT_GT(free_tile.tile_m, 0);
}

TEST(OpsNn, FusedAndSplitProductsAgree) {
  testing::Rng rng;
  for (auto [m, n, k] :
       std::vector<std::array<int, 3>>{{7, 9, 11}, {64, 64, 64}, {1, 100, 33}, {5, 4, 0}, {0, 4, 4}}) {
    std::vector<float> a(m * k), b(k * n), c(m * n, -1), d(m * n, -1), e(m * n, -1);
    for (float& v : a) v = static_cast<float>(rng.Real(-1, 1));
    for (float& v : b) v = static_cast<float>(rng.Real(-1, 1));
    TilingArgs args{};
    if (m && k) {
      EXPECT_EQ(calc_tiling(m, n, k, &args), 0) << ops_nn_last_error();
    }
    args.fuse_enable = 1;
    ASSERT_EQ(ops_nn_fused_matmul_relu(a.data(), b.data(), c.data(), m, n, k, args), 0)
        << ops_nn_last_error();
    args.fuse_enable = 0;
    ASSERT_EQ(ops_nn_fused_matmul_relu(a.data(), b.data(), d.data(), m, n, k, args), 0)
        << ops_nn_last_error();
    ASSERT_EQ(asccl_matmul(a.data(), b.data(), e.data(), m, n, k), 0) << ops_nn_last_error();
    EXPECT_EQ(c, d);
    for (int i = 0; i < m * n; ++i) {
      double sum = 0, magnitude = 0;
      for (int p = 0; p < k; ++p) {
        sum += static_cast<double>(a[i / n * k + p]) * b[p * n + i % n];
        magnitude += std::abs(static_cast<double>(a[i / n * k + p]) * b[p * n + i % n]);
      }
      EXPECT_NEAR(e[i], sum, testing::ContractionTolerance(magnitude, sum, k, DType::kF32, DType::kF32));
    }
    ASSERT_EQ(asccl_relu(e.data(), e.data(), m, n), 0);
    EXPECT_EQ(c, e);
  }
}

TEST(OpsNn, MistakesHaveMessages) {
  float x = 1;
  EXPECT_EQ(asccl_matmul(nullptr, &x, &x, 1, 1, 1), -1);
  EXPECT_EQ(std::string(ops_nn_last_error()), "asccl_matmul: a is null");
  EXPECT_EQ(asccl_relu(&x, &x, -1, 1), -1);
  EXPECT_EQ(std::string(ops_nn_last_error()), "asccl_relu: m is -1; allowed: 0 or more");
  EXPECT_EQ(calc_tiling(1, 1, 1, nullptr), -1);
  EXPECT_EQ(asccl_relu(&x, &x, 1, 1), 0);
  EXPECT_STREQ(ops_nn_last_error(), "");
  EXPECT_EQ(alloc_device(size_t{1} << 60), nullptr);
  EXPECT_NE(std::string(ops_nn_last_error()).find("limit"), std::string::npos);
  void* p = alloc_device(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 128, 0u);
  free_device(p);
  free_device(p);
  EXPECT_NE(std::string(ops_nn_last_error()).find("freed already"), std::string::npos);
}

}  // namespace
}  // namespace opsnn::capi
