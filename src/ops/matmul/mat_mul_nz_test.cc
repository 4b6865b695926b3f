// Products with B in FRACTAL_NZ: against double arithmetic, and bit by bit against B in rows.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "op/op_tester.h"
#include "testing/testing.h"

namespace opsnn::op {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::ContractionTolerance;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;

int64_t Blocks(int64_t x, int64_t by) { return (x + by - 1) / by; }

// The strips of `batch` matrices k x n whose rows are `plain`; NaN where they are filled up.
struct Strips {
  Strips(const GuardedTensor& plain, const Dims& batch, int64_t k, int64_t n, bool transposed)
      : strip(32 / static_cast<int64_t>(SizeOf(plain.view().dtype))) {
    const int64_t rows = transposed ? n : k, cols = transposed ? k : n;
    Dims dims = batch;
    for (int64_t d : {Blocks(cols, strip), Blocks(rows, 16) * 16, strip}) dims.push_back(d);
    tensor = std::make_unique<GuardedTensor>(plain.view().dtype, dims);
    std::vector<double> all(static_cast<size_t>(NumElements(dims)), std::numeric_limits<double>::quiet_NaN());
    const std::vector<double> values = plain.Get();
    const int rank = dims.rank();
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      int64_t r = i / n % k, c = i % n;
      if (transposed) std::swap(r, c);
      const int64_t at = i / (n * k) * dims[rank - 3] * dims[rank - 2] * strip +
                         (c / strip * dims[rank - 2] + r) * strip + c % strip;
      all[static_cast<size_t>(at)] = values[static_cast<size_t>(i)];
    }
    tensor->Set(all);
  }
  int64_t strip;
  std::unique_ptr<GuardedTensor> tensor;
};

Dims With(Dims batch, int64_t rows, int64_t cols) {
  batch.push_back(rows), batch.push_back(cols);
  return batch;
}

FusedTail BiasRelu() {
  ProgramBuilder b;
  const SlotId x = b.Input();
  b.Output(b.Unary(StageOp::kRelu, b.Binary(StageOp::kAdd, x, b.Input())));
  return {std::move(b).Build()};
}

TEST(MatMulNz, RandomShapes) {
  Rng rng;
  for (auto _ : FuzzFor(1500)) {
    const DType t = std::array{DType::kF32, DType::kF16, DType::kBF16}[static_cast<size_t>(rng.Int(0, 2))];
    const int64_t m = rng.Chance(0.5) ? rng.Size(9, true) : rng.Size(60, true), n = rng.Size(80, true);
    const int64_t k = rng.Chance(0.03) ? rng.Int(2000, 4200) : rng.Size(70, true);
    Dims batch;
    for (int64_t i = rng.Int(0, 2); i > 0; --i) batch.push_back(rng.Int(1, 3));
    const Dims b_batch = rng.Chance(0.3) ? Dims{} : batch;
    const bool transposed = rng.Chance(0.5), tail = rng.Chance(0.4), strided = rng.Chance(0.3);
    GuardedTensor a(t, With(batch, m, k), &rng, rng.Chance(0.3)), b(t, With(b_batch, k, n), &rng);
    GuardedTensor bias(DType::kF32, {n});
    for (GuardedTensor* x : {&a, &b, &bias}) x->FillRandom(rng, -2, 2);
    const Strips strips(b, b_batch, k, n, transposed);
    OpTester op("MatMulNz");
    op.In(a).In(*strips.tensor).Attr("columns", n).Attr("transB", int64_t{transposed});
    if (tail) op.Tail(BiasRelu()).In(bias);
    if (strided) op.StridedOutputs(rng);
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    ASSERT_EQ(With(batch, m, n), op.OutDesc().dims);
    const std::vector<double> av = a.Get(), bv = b.Get(), cv = bias.Get();
    std::vector<double> want, tolerance;
    const int64_t each = b_batch.empty() ? 0 : k * n;
    for (int64_t i = 0; i < NumElements(batch) * m * n; ++i) {
      double sum = 0, abs_sum = 0;
      for (int64_t q = 0; q < k; ++q) {
        const double p = av[static_cast<size_t>(i / n * k + q)] *
                         bv[static_cast<size_t>(i / (n * m) * each + q * n + i % n)];
        sum += p, abs_sum += std::fabs(p);
      }
      if (tail) {
        const double c = cv[static_cast<size_t>(i % n)];
        sum = std::fmax(sum + c, 0), abs_sum += std::fabs(c);
      }
      want.push_back(sum);
      tolerance.push_back(ContractionTolerance(abs_sum, sum, k + 1, DType::kF32, t) +
                          (t == DType::kF16 ? 0x1p-25 : 0x1p-134));
    }
    ASSERT_EQ("", Compare(op.Out().Get(), want, tolerance))
        << Name(t) << m << "x" << n << "x" << k << (transposed ? " T " : " ") << op.variant();
    // A single column in rows is a vector, and other strides of Y keep a batch from becoming rows: both may
    // choose dots, which add in another order.
    if (n < 2 || strided) continue;
    OpTester rows("MatMul");
    Dims turned = With(b_batch, n, k);
    GuardedTensor bt(t, transposed ? turned : With(b_batch, k, n));
    std::vector<double> values = bv;
    for (size_t i = 0; transposed && i < bv.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i), r = at / n % k, c = at % n;
      values[static_cast<size_t>(at / (k * n) * k * n + c * k + r)] = bv[i];
    }
    bt.Set(values);
    rows.In(a).In(bt).Attr("transB", int64_t{transposed});
    if (tail) rows.Tail(BiasRelu()).In(bias);
    ASSERT_TRUE(rows.Run().ok()) << rows.status().message();
    ASSERT_EQ(rows.Out().Get(), op.Out().Get())
        << Name(t) << m << "x" << n << "x" << k << (transposed ? " T " : " ") << op.variant()
        << rows.variant();
  }
}

TEST(MatMulNz, OutputMayBeAnInput) {
  Rng rng;
  GuardedTensor a(DType::kF32, {16, 16}), b(DType::kF32, {16, 16});
  a.FillRandom(rng);
  b.FillRandom(rng);
  const Strips strips(b, {}, 16, 16, false);
  OpTester apart("MatMulNz"), in_place("MatMulNz");
  ASSERT_TRUE(apart.In(a).In(*strips.tensor).Attr("columns", int64_t{16}).Run().ok());
  const std::vector<double> want = apart.Out().Get();
  ASSERT_TRUE(in_place.In(a).In(*strips.tensor).Attr("columns", int64_t{16}).InPlace(0).Run().ok());
  EXPECT_EQ(want, a.Get());
}

TEST(MatMulNz, ErrorsNameWhatIsWrong) {
  GuardedTensor a(DType::kF16, {2, 20}), row(DType::kF16, {20});
  const struct {
    const GuardedTensor* a;
    Dims b;
    int64_t columns;
    const char* message;
  } cases[] = {{&a, {1, 16, 16}, 9, "B has shape [1,16,16]; allowed: [.., 1, 32, 16]"},
               {&a, {1, 32, 8}, 9, "B has shape [1,32,8]"},
               {&a, {1, 32, 16}, 17, "allowed: [.., 2, 32, 16]"},
               {&a, {32, 16}, 9, "B has shape [32,16]"},
               {&a, {1, 32, 16}, -1, "columns is -1; allowed: 0 and up"},
               {&row, {1, 32, 16}, 9, "A has shape [20]; allowed: rank 2 and up"}};
  for (const auto& c : cases) {
    const GuardedTensor b(DType::kF16, c.b);
    OpTester op("MatMulNz");
    EXPECT_EQ(Code::kInvalid, op.In(*c.a).In(b).Attr("columns", c.columns).Run().code());
    EXPECT_NE(std::string::npos, op.status().message().find(c.message)) << op.status().message();
  }
}

TEST(MatMulNz, InfersUnknownSizes) {
  TensorDesc a, b;
  a.dims = {kUnknownDim, 4, kUnknownDim};
  b.dims = {1, kUnknownDim, 8};
  Attrs attrs;
  attrs.Set("columns", int64_t{5});
  InferContext c;
  const TensorDesc* in[] = {&a, &b};
  c.inputs = in;
  c.attrs = &attrs;
  ASSERT_TRUE(Infer(*FindOperator("MatMulNz"), c).ok());
  EXPECT_EQ((Dims{kUnknownDim, 4, 5}), c.outputs[0].dims);
}

}  // namespace
}  // namespace opsnn::op
