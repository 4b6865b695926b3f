// Repeats counted by a tensor, masked copies, rows held to a norm, and products with something behind.
#include <cmath>

#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_addmv.h"
#include "aclnnop/aclnn_einsum.h"
#include "aclnnop/aclnn_embedding_renorm.h"
#include "aclnnop/aclnn_fused_matmul.h"
#include "aclnnop/aclnn_masked_scatter.h"
#include "aclnnop/aclnn_modulate_backward.h"
#include "aclnnop/aclnn_renorm.h"
#include "aclnnop/aclnn_repeat_interleave.h"
#include "aclnnop/aclnn_repeat_interleave_grad.h"
#include "aclnnop/aclnn_transpose_batch_mat_mul.h"
#include "base/knobs.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Repeats : public ApiTest {
 protected:
  Rng rng_;
  std::vector<double> Tolerances(const std::vector<double>& want, DType t) {
    std::vector<double> tolerance;
    for (double v : want) tolerance.push_back(std::abs(v) * (testing::Epsilon(t) + 0x1p-18) + 0x1p-17);
    return tolerance;
  }
};

TEST_F(Repeats, InterleaveAndItsGradient) {
  for (int round = 0; round < 30; ++round) {
    const DType t = kFloats[round % 3];
    const Dims dims = rng_.Shape(1, 3, 60);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const int64_t n = dims[dim];
    const bool one = round % 4 == 3;
    ApiTensor counts(round % 2 ? DType::kS32 : DType::kS64, {one ? 1 : n});
    std::vector<double> repeats(static_cast<size_t>(one ? 1 : n));
    for (double& r : repeats) r = static_cast<double>(rng_.Int(0, 3));
    counts.Set(repeats);
    if (one) repeats.resize(static_cast<size_t>(n), repeats[0]);
    std::vector<int64_t> source;
    for (int64_t i = 0; i < n; ++i)
      source.insert(source.end(), static_cast<size_t>(repeats[static_cast<size_t>(i)]), i);
    const auto total = static_cast<int64_t>(source.size());
    Dims out = dims;
    out[dim] = total;
    RandomTensor x(t, dims, rng_, round % 3 == 1), grad(t, out, rng_, round % 3 == 2);
    ApiTensor y(t, out, &rng_, round % 5 == 1), dx(t, dims, &rng_, round % 5 == 2),
        places(counts.dtype(), {total});
    ASSERT_EQ(CALL(aclnnRepeatInterleaveWithDim, x, counts, dim, total, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), Make(out, [&](Index at) {
                at[static_cast<size_t>(dim)] = source[static_cast<size_t>(at[static_cast<size_t>(dim)])];
                return x(at);
              }));
    ASSERT_EQ(CALL(aclnnRepeatInterleaveGrad, grad, counts, dim, dx), 0) << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(NumElements(dims)));
    for (int64_t i = 0; i < NumElements(out); ++i) {
      Index at = At(out, i);
      at[static_cast<size_t>(dim)] = source[static_cast<size_t>(at[static_cast<size_t>(dim)])];
      want[static_cast<size_t>(Linear(dims, at))] += grad[i];
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "") << Name(t);
    if (!one) {
      ASSERT_EQ(CALL(aclnnRepeatInterleaveTensor, counts, total, places), 0) << aclGetRecentErrMsg();
      EXPECT_EQ(places.Get(), std::vector<double>(source.begin(), source.end()));
    }
    if (dims.rank() == 1) {
      ASSERT_EQ(CALL(aclnnRepeatInterleave, x, counts, total, y), 0) << aclGetRecentErrMsg();
      EXPECT_EQ(y.Get(), Make(out, [&](const Index& at) { return x[source[static_cast<size_t>(at[0])]]; }));
    }
    ExpectGuards({&x, &grad, &y, &dx});
  }
  // The sum of the repeats is not what outputSize says.
  RandomTensor x(DType::kF32, {2}, rng_);
  ApiTensor counts(DType::kS64, {2}), y(DType::kF32, {4});
  counts.Set({1, 2});
  ExpectRefused(CALL(aclnnRepeatInterleave, x, counts, 4, y), 161002,
                {"aclnnRepeatInterleave: repeats add up to 3; allowed: 4"});
  counts.Set({3, 2});
  ExpectRefused(CALL(aclnnRepeatInterleaveWithDim, x, counts, 0, 4, y), 161002, {"repeats add up to 5"});
  counts.Set({-1, 5});  // adds up, and is none the better for it
  ExpectRefused(CALL(aclnnRepeatInterleave, x, counts, 4, y), 161002, {"repeats has -1 at 0", "0 or more"});
  ApiTensor three(DType::kS64, {3});
  ExpectRefused(CALL(aclnnRepeatInterleaveTensor, counts, -4, three), 161002, {"outputSize is -4"});
  ExpectRefused(CALL(aclnnRepeatInterleave, x, three, 4, y), 161002, {"repeats has 3 values", "1 or 2"});
  ExpectRefused(CALL(aclnnRepeatInterleaveInt, x, 2, 5, y), 161002,
                {"outputSize is 5", "2 x 2, repeats times the elements of self"});
}

TEST_F(Repeats, MaskedScatter) {
  for (int round = 0; round < 20; ++round) {
    const DType t = kMoved[static_cast<size_t>(round) % std::size(kMoved)];
    const Dims dims = rng_.Shape(1, 3, 100);
    RandomTensor x(t, dims, rng_, round % 3 == 1),
        mask(DType::kBool, round % 2 ? dims : Dims{dims.back()}, rng_);
    RandomTensor source(t, {NumElements(dims)}, rng_, round % 4 == 1);
    ASSERT_EQ(CALL(aclnnInplaceMaskedScatter, x, mask, source), 0) << aclGetRecentErrMsg();
    int64_t next = 0;
    EXPECT_EQ(x.Get(), Make(dims, [&](const Index& at) {
                return mask[BroadcastLinear(mask.dims(), at)] != 0 ? source[next++] : x(at);
              }));
    ExpectGuards({&x, &mask, &source});
  }
  RandomTensor x(DType::kF32, {2, 3}, rng_), source(DType::kF32, {2, 2}, rng_);
  ApiTensor mask(DType::kBool, {2, 3}), none(DType::kF32, {0});
  mask.Set({1, 1, 1, 0, 1, 1});
  ExpectRefused(CALL(aclnnInplaceMaskedScatter, x, mask, source), 161002,
                {"aclnnInplaceMaskedScatter: source has 4 slices for 5 that the mask names"});
  EXPECT_EQ(x.Get(), x.values());
  mask.Set({0, 0, 0, 0, 0, 0});
  EXPECT_EQ(CALL(aclnnInplaceMaskedScatter, x, mask, none), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(x.Get(), x.values());
}

TEST_F(Repeats, Renorm) {
  for (int round = 0; round < 20; ++round) {
    const DType t = kFloats[round % 2];
    const Dims dims = rng_.Shape(2, 3, 100);
    const int dim = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const double p = round % 3 + 1, limit = 3;
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    ApiTensor y(t, dims, &rng_, round % 3 == 2);
    ApiScalar power(static_cast<float>(p)), most(static_cast<float>(limit));
    ASSERT_EQ(CALL(aclnnRenorm, x, power, dim, most, y), 0) << aclGetRecentErrMsg();
    std::vector<double> norms(static_cast<size_t>(dims[dim]));
    for (int64_t i = 0; i < NumElements(dims); ++i)
      norms[static_cast<size_t>(At(dims, i)[static_cast<size_t>(dim)])] += std::pow(std::abs(x[i]), p);
    const auto want = Make(dims, [&](const Index& at) {
      const double norm = std::pow(norms[static_cast<size_t>(at[static_cast<size_t>(dim)])], 1 / p);
      return x(at) * (norm > limit ? limit / (norm + 1e-7) : 1);
    });
    EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, t)), "") << Name(t) << p;
    RandomTensor table(t, {5, 7}, rng_, round % 2);
    ApiTensor rows(DType::kS64, {2, 2});
    rows.Set({0, 3, 3, 4});
    ASSERT_EQ(CALL(aclnnEmbeddingRenorm, table, rows, limit, p), 0) << aclGetRecentErrMsg();
    const auto held = Make({5, 7}, [&](const Index& at) {
      double norm = 0;
      for (int64_t i = 0; i < 7; ++i) norm += std::pow(std::abs(table({at[0], i})), p);
      norm = std::pow(norm, 1 / p);
      const bool chosen = at[0] == 0 || at[0] >= 3;
      return table(at) * (chosen && norm > limit ? limit / (norm + 1e-7) : 1);
    });
    EXPECT_EQ(Compare(table.Get(), held, Tolerances(held, t)), "") << Name(t) << p;
    ExpectGuards({&x, &y, &table});
  }
}

TEST_F(Repeats, ModulateGradient) {
  for (int round = 0; round < 12; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t b = rng_.Int(1, 3), l = rng_.Int(1, 5), d = rng_.Int(1, 9);
    RandomTensor g(t, {b, l, d}, rng_, round % 2), x(t, {b, l, d}, rng_), scale(t, {b, d}, rng_),
        shift(t, {b, d}, rng_);
    ApiTensor dx(t, {b, l, d}, &rng_, round % 3 == 1), ds(t, {b, d}), dt(t, {b, d});
    ASSERT_EQ(CALL(aclnnModulateBackward, g, x, scale, shift, dx, ds, dt), 0) << aclGetRecentErrMsg();
    std::vector<double> want(static_cast<size_t>(b * l * d)), sums(static_cast<size_t>(b * d)),
        shifts(sums.size());
    for (int64_t i = 0; i < b * l * d; ++i) {
      const int64_t at = i / (l * d) * d + i % d;
      want[static_cast<size_t>(i)] = g[i] * scale[at];
      sums[static_cast<size_t>(at)] += g[i] * x[i];
      shifts[static_cast<size_t>(at)] += g[i];
    }
    EXPECT_EQ(Compare(dx.Get(), want, Tolerances(want, t)), "");
    EXPECT_EQ(Compare(ds.Get(), sums, Tolerances(sums, t)), "");
    EXPECT_EQ(Compare(dt.Get(), shifts, Tolerances(shifts, t)), "");
    ExpectGuards({&g, &x, &dx});
  }
}

TEST_F(Repeats, ProductsWithSomethingBehind) {
  const char* const kTypes[] = {"", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu"};
  for (int round = 0; round < 28; ++round) {
    const DType t = kFloats[round % 3];
    const std::string fused = kTypes[round % 7];
    const int64_t m = rng_.Int(1, 12), k = rng_.Int(1, 12), n = rng_.Int(1, 12);
    const bool pair = fused == "add" || fused == "mul", with_bias = fused.rfind("gelu", 0) != 0 && round % 2;
    RandomTensor a(t, {m, k}, rng_, round % 3 == 1, 1), b(t, {k, n}, rng_, round % 4 == 1, 1),
        bias(t, {n}, rng_), x3(t, {m, n}, rng_), vec(t, {k}, rng_), self(t, {1}, rng_);
    const DType out = fused == "16cast32" ? DType::kF32 : t;
    ApiTensor y(out, {m, n}, &rng_, round % 3 == 2), z(t, {m});
    ASSERT_EQ(
        CALL(aclnnFusedMatmul, a, b, OrNull(with_bias, bias), OrNull(pair, x3), fused.c_str(), int8_t{0}, y),
        0)
        << aclGetRecentErrMsg();
    const auto want = Make({m, n}, [&](const Index& at) {
      double v = with_bias ? bias[at[1]] : 0;
      for (int64_t q = 0; q < k; ++q) v += a({at[0], q}) * b({q, at[1]});
      if (fused == "add") v += x3(at);
      if (fused == "mul") v *= x3(at);
      if (fused == "relu") v = std::max(v, 0.0);
      if (fused == "gelu_erf") v = 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      if (fused == "gelu_tanh")
        v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      return v;
    });
    EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, out)), "") << fused << Name(t);
    ApiScalar alpha(0.5F), beta(2.0F);
    ASSERT_EQ(CALL(aclnnAddmv, self, a, vec, alpha, beta, z, int8_t{0}), 0) << aclGetRecentErrMsg();
    const auto sums = Make({m}, [&](const Index& at) {
      double v = 2 * self[0];
      for (int64_t q = 0; q < k; ++q) v += 0.5 * a({at[0], q}) * vec[q];
      return v;
    });
    EXPECT_EQ(Compare(z.Get(), sums, Tolerances(sums, t)), "");
    ExpectGuards({&a, &b, &y, &z});
  }
}

// Fused and apart give the same bits, in place too, and the verdict can be read.
TEST_F(Repeats, DirectCallsAskTheJudge) {
  const std::string fusion = GetKnobs().fusion == FusionMode::kOff ? "off" : "auto";
  for (int round = 0; round < 12; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t m = rng_.Int(1, 40), k = rng_.Int(1, 40), n = rng_.Int(2, 40);
    RandomTensor a(t, {m, k}, rng_, false, 1), b(t, {k, n}, rng_, round % 4 == 1, 1), bias(t, {n}, rng_);
    const RandomTensor self(t, {m, n}, rng_);
    ApiScalar alpha(0.5F), beta(2.0F);
    std::vector<std::vector<double>> results;
    for (const char* mode : {"off", "force", "auto"}) {
      ASSERT_TRUE(SetKnob("fusion", mode).ok());
      ASSERT_TRUE(SetKnob("verbose", "plan").ok());
      ApiTensor y(t, {m, n}, &rng_, round % 3 == 2), z(t, {m, n}, &rng_, false);
      ::testing::internal::CaptureStderr();
      const auto status = CALL(aclnnFusedMatmul, a, b, bias, nullptr, "relu", int8_t{0}, y);
      const auto addmm = CALL(aclnnAddmm, self, a, b, alpha, beta, z, int8_t{0});
      const std::string said = ::testing::internal::GetCapturedStderr();
      ASSERT_EQ(status, 0) << aclGetRecentErrMsg();
      ASSERT_EQ(addmm, 0) << aclGetRecentErrMsg();
      results.push_back(y.Get());
      for (double v : z.Get()) results.back().push_back(v);
      EXPECT_NE(said.find("judge: aclnnFusedMatmul matmul+add+relu"), std::string::npos) << said;
      const char* reason = std::string(mode) == "off" ? "fusion is switched off" : ": ";
      EXPECT_NE(said.find(reason), std::string::npos) << said;
      EXPECT_EQ(said.find("fused program") != std::string::npos, said.find(": split, ") != std::string::npos);
      EXPECT_TRUE(std::string(mode) != "force" || said.find(": split, ") == std::string::npos);
      ExpectGuards({&a, &b, &y, &z});
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
  ASSERT_TRUE(SetKnob("verbose", "").ok());
  ASSERT_TRUE(SetKnob("fusion", fusion).ok());
}

TEST_F(Repeats, TransposedBatchesAndEinsum) {
  for (int round = 0; round < 16; ++round) {
    const DType t = kFloats[round % 3];
    const int64_t split = rng_.Int(1, 2), each = rng_.Int(1, 2), batch = split * each, m = rng_.Int(1, 6),
                  k = rng_.Int(1, 6), n = rng_.Int(1, 6);
    const bool ta = round % 2, tb = round % 4 < 2;
    RandomTensor a(t, ta ? Dims{m, batch, k} : Dims{batch, m, k}, rng_, round % 3 == 1, 1);
    RandomTensor b(t, tb ? Dims{batch, n, k} : Dims{batch, k, n}, rng_, false, 1);
    ApiTensor y(t, split == 1 ? Dims{m, batch, n} : Dims{split, m, each * n}, &rng_, round % 3 == 2);
    ApiInts perm1(ta ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{0, 1, 2}),
        perm2(tb ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{0, 1, 2}), perm3({1, 0, 2});
    ASSERT_EQ(CALL(aclnnTransposeBatchMatMul, a, b, nullptr, nullptr, perm1, perm2, perm3, int8_t{0},
                   static_cast<int32_t>(split), y),
              0)
        << aclGetRecentErrMsg();
    const auto want = Make(y.dims(), [&](const Index& at) {
      const int64_t row = split == 1 ? at[0] : at[1];
      const int64_t g = split == 1 ? at[1] : at[0] * each + at[2] / n, column = at[2] % n;
      double v = 0;
      for (int64_t q = 0; q < k; ++q)
        v += (ta ? a({row, g, q}) : a({g, row, q})) * (tb ? b({g, column, q}) : b({g, q, column}));
      return v;
    });
    EXPECT_EQ(Compare(y.Get(), want, Tolerances(want, t)), "") << Name(t) << split;
    ExpectGuards({&a, &b, &y});
  }
  RandomTensor a(DType::kF32, {3}, rng_), b(DType::kF32, {4}, rng_);
  ApiTensor y(DType::kF32, {3, 4});
  aclTensor* members[] = {a, b};
  ASSERT_EQ(CALL(aclnnEinsum, aclCreateTensorList(members, 2), "a,b->ab", y), 0) << aclGetRecentErrMsg();
  const auto products = Make({3, 4}, [&](const Index& at) { return a[at[0]] * b[at[1]]; });
  EXPECT_EQ(Compare(y.Get(), products, Tolerances(products, DType::kF32)), "");
}

}  // namespace
}  // namespace opsnn::capi
