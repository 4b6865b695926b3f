#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/knobs.h"
#include "base/parallel.h"
#include "op/op_tester.h"
#include "testing/testing.h"
#include "vector/run.h"

namespace opsnn::op {
namespace {

using opsnn::testing::Compare;
using opsnn::testing::ContractionTolerance;
using opsnn::testing::FuzzFor;
using opsnn::testing::GuardedTensor;
using opsnn::testing::Rng;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Values in logical row-major order with dims; element access broadcasts to `out`.
struct Values {
  Dims dims;
  std::vector<double> v;
  double At(const Dims& out, const std::vector<int64_t>& index) const {
    int64_t at = 0;
    for (int i = 0; i < dims.rank(); ++i) {
      const int64_t x = index[static_cast<size_t>(out.rank() - dims.rank() + i)];
      at = at * dims[i] + (dims[i] == 1 ? 0 : x);
    }
    return v[static_cast<size_t>(at)];
  }
  // Element (row, col) of the matrix that belongs to the batch part of `index`.
  const double* Row(const std::vector<int64_t>& index, int64_t row, int64_t col) const {
    const int batch = dims.rank() - 2, skip = static_cast<int>(index.size()) - dims.rank();
    int64_t at = 0;
    for (int i = 0; i < batch; ++i)
      at = at * dims[i] + (dims[i] == 1 ? 0 : index[static_cast<size_t>(skip + i)]);
    return v.data() + (at * dims[batch] + row) * dims.back() + col;
  }
};
Values Of(const GuardedTensor& t) { return {t.view().dims, t.Get()}; }

std::vector<int64_t> Unravel(int64_t flat, const Dims& dims) {
  std::vector<int64_t> index(static_cast<size_t>(dims.rank()));
  for (int i = dims.rank() - 1; i >= 0; --i) {
    index[static_cast<size_t>(i)] = flat % dims[i];
    flat /= dims[i];
  }
  return index;
}

// Half the spacing of the dtype's smallest values, which the relative bounds do not cover.
double Subnormal(DType t) { return t == DType::kF16 ? 0x1p-25 : t == DType::kBF16 ? 0x1p-134 : 0; }

struct Want {
  Dims dims;
  std::vector<double> value, abs_sum;
  int64_t k = 0;
  std::vector<double> Tolerance(DType acc, DType out) const {
    std::vector<double> t;
    for (size_t i = 0; i < value.size(); ++i) {
      t.push_back(ContractionTolerance(abs_sum[i], value[i], k, acc, out) + Subnormal(out));
    }
    return t;
  }
};

Values Transposed(const Values& x) {
  Values y = x;
  const int r = x.dims.rank();
  if (r < 2) return y;
  const int64_t rows = x.dims[r - 2], cols = x.dims[r - 1];
  std::swap(y.dims[r - 2], y.dims[r - 1]);
  for (size_t i = 0; i < x.v.size(); ++i) {
    const int64_t m = static_cast<int64_t>(i) / (rows * cols), at = static_cast<int64_t>(i) % (rows * cols);
    y.v[static_cast<size_t>(m * rows * cols + at % cols * rows + at / cols)] = x.v[i];
  }
  return y;
}

Want Reference(Values a, Values b, bool trans_a = false, bool trans_b = false) {
  if (trans_a) a = Transposed(a);
  if (trans_b) b = Transposed(b);
  const bool row = a.dims.rank() == 1, col = b.dims.rank() == 1;
  if (row) a.dims.insert(0, 1);
  if (col) b.dims.insert(1, 1);
  Dims full = *BroadcastDims(Dims(std::span(a.dims.data(), static_cast<size_t>(a.dims.rank() - 2))),
                             Dims(std::span(b.dims.data(), static_cast<size_t>(b.dims.rank() - 2))));
  Want w;
  w.k = a.dims.back();
  full.push_back(a.dims[a.dims.rank() - 2]);
  full.push_back(b.dims.back());
  for (int64_t i = 0; i < NumElements(full); ++i) {
    double sum = 0, abs_sum = 0;
    const std::vector<int64_t> index = Unravel(i, full);
    const double* x = a.Row(index, index[index.size() - 2], 0);
    const double* y = b.Row(index, 0, index.back());
    for (int64_t k = 0; k < w.k; ++k) {
      const double p = x[k] * y[k * b.dims.back()];
      sum += p, abs_sum += std::fabs(p);
    }
    w.value.push_back(sum);
    w.abs_sum.push_back(abs_sum);
  }
  w.dims = full;
  if (col) w.dims.erase(w.dims.rank() - 1);
  if (row) w.dims.erase(w.dims.rank() - (col ? 1 : 2));
  return w;
}

Dims RandomBatch(Rng& rng) {
  Dims d;
  for (int64_t i = rng.Int(0, 3); i > 0; --i) d.push_back(rng.Int(0, 20) == 0 ? 0 : rng.Int(1, 3));
  return d;
}
// The trailing dims of `batch`, some of them 1.
Dims PartOf(Rng& rng, const Dims& batch) {
  Dims d;
  for (int i = static_cast<int>(rng.Int(0, batch.rank())); i < batch.rank(); ++i) {
    d.push_back(rng.Chance(0.3) ? 1 : batch[i]);
  }
  return d;
}
Dims Matrix(Dims batch, int64_t rows, int64_t cols, bool transposed) {
  batch.push_back(transposed ? cols : rows);
  batch.push_back(transposed ? rows : cols);
  return batch;
}

TEST(MatMul, RandomShapesAndStrides) {
  Rng rng;
  for (auto _ : FuzzFor(1500)) {
    const DType t = std::array{DType::kF32, DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kS32}
        [static_cast<size_t>(rng.Int(0, 5))];
    const int64_t m = rng.Size(40, true), n = rng.Size(60, true), k = rng.Size(50, true);
    const Dims batch = RandomBatch(rng);
    const bool ta = rng.Chance(0.3), tb = rng.Chance(0.3);
    Dims ad = Matrix(PartOf(rng, batch), m, k, ta), bd = Matrix(PartOf(rng, batch), k, n, tb);
    if (rng.Chance(0.1)) ad = {k};
    if (rng.Chance(0.1)) bd = {k};
    GuardedTensor a(t, ad, &rng, rng.Chance(0.5)), b(t, bd, &rng, rng.Chance(0.5));
    a.FillRandom(rng, -3, 3);
    b.FillRandom(rng, -3, 3);
    OpTester op("MatMul");
    op.In(a).In(b).Attr("transA", int64_t{ta}).Attr("transB", int64_t{tb});
    if (rng.Chance(0.5)) op.StridedOutputs(rng);
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    const Want want = Reference(Of(a), Of(b), ta, tb);
    ASSERT_EQ(want.dims, op.OutDesc().dims);
    const DType acc = t == DType::kF64 || t == DType::kS32 ? t : DType::kF32;
    ASSERT_EQ("", Compare(op.Out().Get(), want.value, want.Tolerance(acc, t)))
        << Name(t) << ToString(ad) << ToString(bd) << op.variant();
  }
}

TEST(MatMul, SharedWeightsBecomeOneProduct) {
  Rng rng;
  GuardedTensor a(DType::kF32, {7, 1, 5}), b(DType::kF32, {5, 9});
  a.FillRandom(rng);
  b.FillRandom(rng);
  OpTester op("MatMul");
  op.In(a).In(b);
  ASSERT_TRUE(op.Run().ok());
  const Want want = Reference(Of(a), Of(b));
  EXPECT_EQ("", Compare(op.Out().Get(), want.value, want.Tolerance(DType::kF32, DType::kF32)));
}

TEST(MatMul, EmptyDims) {
  GuardedTensor a(DType::kF32, {0, 2, 3}), b(DType::kF32, {1, 3, 4});
  OpTester op("MatMul");
  ASSERT_TRUE(op.In(a).In(b).Run().ok());
  EXPECT_EQ((Dims{0, 2, 4}), op.OutDesc().dims);
  GuardedTensor c(DType::kF32, {3, 0}), d(DType::kF32, {0, 2});
  OpTester inner("MatMul");
  ASSERT_TRUE(inner.In(c).In(d).Run().ok());
  EXPECT_EQ(std::vector<double>(6, 0), inner.Out().Get());
}

TEST(MatMul, S32WrapsAndIsExact) {
  GuardedTensor a(DType::kS32, {1, 2}), b(DType::kS32, {2, 1});
  a.Set({2147483647, 100000});
  b.Set({2, 30000});
  OpTester op("MatMul");
  ASSERT_TRUE(op.In(a).In(b).Run().ok());
  EXPECT_EQ(
      std::vector<double>{static_cast<double>(static_cast<int32_t>(uint32_t{4294967294u} + 3000000000u))},
      op.Out().Get());
}

TEST(MatMul, OutputMayBeAnInput) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (int in_place : {0, 1}) {
      GuardedTensor a(t, {20, 20}), b(t, {20, 20});
      a.FillRandom(rng);
      b.FillRandom(rng);
      const Want want = Reference(Of(a), Of(b));
      OpTester op("MatMul");
      ASSERT_TRUE(op.In(a).In(b).InPlace(in_place).Run().ok());
      const DType acc = t == DType::kF64 ? t : DType::kF32;
      EXPECT_EQ("", Compare((in_place == 0 ? a : b).Get(), want.value, want.Tolerance(acc, t)));
    }
  }
}

TEST(MatMul, ErrorsNameWhatIsWrong) {
  GuardedTensor a(DType::kF32, {2, 3}), b(DType::kF32, {4, 5}), s(DType::kF32, {});
  OpTester op("MatMul");
  EXPECT_EQ(Code::kInvalid, op.In(a).In(b).Run().code());
  EXPECT_NE(std::string::npos, op.status().message().find("inner dimensions 3 and 4"))
      << op.status().message();
  OpTester scalar("MatMul");
  EXPECT_EQ(Code::kInvalid, scalar.In(a).In(s).Run().code());
  EXPECT_NE(std::string::npos, scalar.status().message().find("B is a scalar")) << scalar.status().message();
  GuardedTensor c(DType::kF32, {2, 2, 3}), d(DType::kF32, {3, 3, 5});
  OpTester batch("MatMul");
  EXPECT_EQ(Code::kInvalid, batch.In(c).In(d).Run().code());
  EXPECT_NE(std::string::npos, batch.status().message().find("do not broadcast")) << batch.status().message();
}

TEST(MatMul, InfersUnknownSizes) {
  TensorDesc a, b;
  a.dims = {kUnknownDim, 4, kUnknownDim};
  b.dims = {8, 5};
  InferContext c;
  const TensorDesc* in[] = {&a, &b};
  c.inputs = in;
  ASSERT_TRUE(Infer(*FindOperator("MatMul"), c).ok());
  EXPECT_EQ((Dims{kUnknownDim, 4, 5}), c.outputs[0].dims);
}

// ---- fused tails

// act(x + in1) (+ in2), the forms that the graph fuses.
Program TailProgram(StageOp act, bool second) {
  ProgramBuilder b;
  const SlotId x = b.Input(), in1 = b.Input();
  const SlotId in2 = second ? b.Input() : kNoSlot;
  SlotId y = b.Binary(StageOp::kAdd, x, in1);
  if (act != StageOp::kCopy) y = b.Unary(act, y, act == StageOp::kLeakyRelu ? 0.1 : -0.5, 0.75);
  if (second) y = b.Binary(StageOp::kAdd, y, in2);
  b.Output(y);
  return std::move(b).Build();
}

double Apply(StageOp act, double x) {
  switch (act) {
    case StageOp::kRelu:
      return x < 0 ? 0 : x;
    case StageOp::kClip:
      return std::fmin(std::fmax(x, -0.5), 0.75);
    case StageOp::kLeakyRelu:
      return x < 0 ? x * 0.1 : x;
    case StageOp::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case StageOp::kSilu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

TEST(MatMulTail, EveryOperandShape) {
  Rng rng;
  const StageOp acts[] = {StageOp::kCopy,      StageOp::kRelu,    StageOp::kClip,
                          StageOp::kLeakyRelu, StageOp::kGeluErf, StageOp::kSilu};
  for (auto _ : FuzzFor(1000)) {
    const int64_t m = rng.Size(90), n = rng.Size(150), k = rng.Size(30, true);
    const Dims batch = rng.Chance(0.5) ? Dims{} : Dims{rng.Int(1, 3), rng.Int(1, 3)};
    const Dims out = Matrix(batch, m, n, false);
    const DType t = rng.Chance(0.7) ? DType::kF32 : DType::kBF16;
    GuardedTensor a(t, Matrix(batch, m, k, false), &rng, rng.Chance(0.3));
    GuardedTensor b(t, Matrix(rng.Chance(0.5) ? Dims{} : batch, k, n, false), &rng, rng.Chance(0.3));
    const auto operand = [&] {
      Dims d = out;
      for (int i = 0; i < d.rank(); ++i) d[i] = rng.Chance(0.5) ? 1 : d[i];
      for (int64_t drop = rng.Int(0, d.rank()); drop > 0; --drop) d.erase(0);
      if (rng.Chance(0.3)) d = {n};
      return GuardedTensor(rng.Chance(0.8) ? DType::kF32 : DType::kF16, d, &rng, rng.Chance(0.2));
    };
    GuardedTensor c = operand(), e = operand();
    for (GuardedTensor* x : {&a, &b, &c, &e}) x->FillRandom(rng, -1, 1);
    const StageOp act = acts[rng.Int(0, 5)];
    const bool second = rng.Chance(0.5);
    OpTester op("MatMul");
    op.In(a).In(b).Tail({TailProgram(act, second)}).In(c);
    if (second) op.In(e);
    if (rng.Chance(0.3)) op.StridedOutputs(rng);
    const DType out_type = rng.Chance(0.7) ? t : DType::kF16;
    op.OutDType(0, out_type);
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    Want want = Reference(Of(a), Of(b));
    std::vector<double> tol = want.Tolerance(DType::kF32, DType::kF32);
    const Values cv = Of(c), ev = Of(e);
    for (size_t i = 0; i < want.value.size(); ++i) {
      const std::vector<int64_t> at = Unravel(static_cast<int64_t>(i), out);
      double y = Apply(act, want.value[i] + cv.At(out, at));
      if (second) y += ev.At(out, at);
      want.value[i] = y;
      tol[i] = 1.2 * tol[i] + 16 * testing::Epsilon(DType::kF32) * (std::fabs(y) + 2) +
               testing::Epsilon(out_type) * std::fabs(y) + Subnormal(out_type);
    }
    ASSERT_EQ("", Compare(op.Out().Get(), want.value, tol))
        << ToString(out) << " k " << k << " c " << ToString(c.view().dims) << " e " << ToString(e.view().dims)
        << op.variant();
  }
}

TEST(MatMulTail, NanPassesThroughFusedActivations) {
  for (StageOp act : {StageOp::kRelu, StageOp::kClip}) {
    GuardedTensor a(DType::kF32, {3, 1}), b(DType::kF32, {1, 20}), c(DType::kF32, {20});
    a.Set({kNaN, -1, 2});
    b.Set(std::vector<double>(20, 1));
    c.Set(std::vector<double>(20, 0));
    OpTester op("MatMul");
    ASSERT_TRUE(op.In(a).In(b).Tail({TailProgram(act, false)}).In(c).Run().ok());
    std::vector<double> want(20, kNaN);
    want.insert(want.end(), 20, Apply(act, -1));
    want.insert(want.end(), 20, Apply(act, 2));
    EXPECT_EQ("", Compare(op.Out().Get(), want, 0, 0));
  }
}

TEST(MatMulTail, ResidualMayBeTheOutput) {
  Rng rng;
  GuardedTensor a(DType::kF32, {100, 700}), b(DType::kF32, {700, 300}), c(DType::kF32, {100, 300});
  for (GuardedTensor* x : {&a, &b, &c}) x->FillRandom(rng, -1, 1);
  Want want = Reference(Of(a), Of(b));
  std::vector<double> tol = want.Tolerance(DType::kF32, DType::kF32), addend = c.Get();
  for (size_t i = 0; i < addend.size(); ++i) want.value[i] = std::fmax(0, want.value[i] + addend[i]);
  OpTester op("MatMul");
  ASSERT_TRUE(op.In(a).In(b).Tail({TailProgram(StageOp::kRelu, false)}).In(c).InPlace(2).Run().ok());
  for (double& x : tol) x += 8 * testing::Epsilon(DType::kF32);
  EXPECT_EQ("", Compare(c.Get(), want.value, tol));
}

// Fused equals split bit by bit, whatever the thread count.
TEST(MatMulTail, FusedEqualsSplit) {
  Rng rng;
  GuardedTensor a(DType::kF32, {2, 70, 300}), b(DType::kF32, {300, 200}), c(DType::kF32, {200}),
      e(DType::kF32, {2, 70, 200});
  for (GuardedTensor* x : {&a, &b, &c, &e}) x->FillRandom(rng, -1, 1);
  for (StageOp act : {StageOp::kRelu, StageOp::kGeluErf, StageOp::kSilu}) {
    OpTester product("MatMul");
    ASSERT_TRUE(product.In(a).In(b).Run().ok());
    const Program tail = TailProgram(act, true);
    std::shared_ptr<const vector::CompiledProgram> program = *vector::Compile(tail);
    GuardedTensor y(DType::kF32, {2, 70, 200});
    const TensorView in[] = {product.Out().view(), BroadcastTo(c.view(), y.view().dims), e.view()},
                     out[] = {y.view()};
    vector::RunTensors(*program, in, out);
    for (int threads : {1, 2, 3}) {
      SetNumThreads(threads);
      OpTester fused("MatMul");
      ASSERT_TRUE(fused.In(a).In(b).Tail({tail}).In(c).In(e).Run().ok());
      ASSERT_EQ(y.Get(), fused.Out().Get()) << threads;
    }
  }
  SetNumThreads(0);
}

// ---- constants

class MapCache : public PackCache {
 public:
  std::shared_ptr<const void> GetOrMake(const ConstTensor& constant, const std::string& key,
                                        FunctionRef<std::shared_ptr<const void>()> make) override {
    std::shared_ptr<const void>& entry = map[{constant.get(), key}];
    if (!entry) entry = make();
    return entry;
  }
  std::map<std::pair<const HostTensor*, std::string>, std::shared_ptr<const void>> map;
};

TEST(MatMul, ConstantWeightsArePackedOnce) {
  Rng rng;
  MapCache cache;
  for (const Dims& dims : {Dims{400, 1100}, Dims{2, 400, 1100}}) {
    std::vector<float> values(static_cast<size_t>(NumElements(dims)));
    for (float& v : values) v = static_cast<float>(rng.Real(-1, 1));
    const ConstTensor b = HostTensor::From(dims, values);
    cache.map.clear();
    for (int64_t m : {20, 50}) {
      GuardedTensor a(DType::kF32, {2, m, 400});
      a.FillRandom(rng);
      OpTester op("MatMul");
      ASSERT_TRUE(op.In(a).In(b).Packs(&cache).Run().ok());
      EXPECT_NE(std::string::npos, op.variant().find("packed")) << op.variant();
      const Want want = Reference(Of(a), {dims, {values.begin(), values.end()}});
      EXPECT_EQ("", Compare(op.Out().Get(), want.value, want.Tolerance(DType::kF32, DType::kF32)));
    }
    EXPECT_EQ(1u, cache.map.size());
  }
}

// ---- Gemm

TEST(Gemm, AlphaBetaAndEveryAddend) {
  Rng rng;
  for (auto _ : FuzzFor(600)) {
    const int64_t m = rng.Size(40), n = rng.Size(70), k = rng.Size(40, true);
    const DType t = std::array{DType::kF32, DType::kF16, DType::kF64}[static_cast<size_t>(rng.Int(0, 2))];
    const bool ta = rng.Chance(0.5), tb = rng.Chance(0.5), adds = rng.Chance(0.8);
    const double alpha = rng.Chance(0.5) ? 1 : 0.5, beta = rng.Chance(0.4) ? 1 : rng.Chance(0.3) ? 0 : -0.25;
    GuardedTensor a(t, Matrix({}, m, k, ta), &rng, rng.Chance(0.3)),
        b(t, Matrix({}, k, n, tb), &rng, rng.Chance(0.3));
    const Dims shapes[] = {{}, {1}, {n}, {1, n}, {m, 1}, {m, n}};
    GuardedTensor c(t, shapes[rng.Int(0, 5)], &rng, rng.Chance(0.3));
    for (GuardedTensor* x : {&a, &b, &c}) x->FillRandom(rng);
    OpTester op("Gemm");
    op.In(a)
        .In(b)
        .Attr("alpha", alpha)
        .Attr("beta", beta)
        .Attr("transA", int64_t{ta})
        .Attr("transB", int64_t{tb});
    if (adds) op.In(c);
    ASSERT_TRUE(op.Run().ok()) << op.status().message();
    Want want = Reference(Of(a), Of(b), ta, tb);
    const DType acc = t == DType::kF64 ? t : DType::kF32;
    std::vector<double> tol = want.Tolerance(acc, acc);
    const Values cv = Of(c);
    for (size_t i = 0; i < want.value.size(); ++i) {
      const double addend = adds ? beta * cv.At(want.dims, Unravel(static_cast<int64_t>(i), want.dims)) : 0;
      want.value[i] = alpha * want.value[i] + addend;
      tol[i] += 4 * testing::Epsilon(acc) * (std::fabs(want.value[i]) + std::fabs(addend)) +
                testing::Epsilon(t) * std::fabs(want.value[i]) + Subnormal(t);
    }
    ASSERT_EQ("", Compare(op.Out().Get(), want.value, tol))
        << Name(t) << ToString(c.view().dims) << op.variant();
  }
}

// The yardstick: other blocks and no packing ahead, the same bits.
TEST(MatMul, PlainBlocksGiveTheBitsOfThePlannedOnes) {
  struct Plain {
    Plain() { EXPECT_TRUE(SetKnob("product", "plain").ok()); }
    ~Plain() { EXPECT_TRUE(SetKnob("product", "planned").ok()); }
  };
  Rng rng;
  for (int i = 0; i < 20; ++i) {
    const DType t = std::array{DType::kF32, DType::kF16, DType::kBF16}[static_cast<size_t>(rng.Int(0, 2))];
    // Fewer columns are planned as dots, which add up in another order.
    const int64_t m = rng.Int(1, 90), n = rng.Int(9, 150), k = rng.Int(0, rng.Chance(0.2) ? 5000 : 200);
    GuardedTensor a(t, {m, k}), b(t, {k, n});
    a.FillRandom(rng), b.FillRandom(rng);
    const auto run = [&](std::string* variant) {
      OpTester op("MatMul");
      EXPECT_TRUE(op.In(a).In(b).Run().ok()) << op.status().message();
      *variant = op.variant();
      return op.Out().Get();
    };
    std::string planned, plain;
    const std::vector<double> want = run(&planned);
    const Plain setting;
    EXPECT_EQ(want, run(&plain)) << m << "x" << n << "x" << k << " " << planned << " / " << plain;
    EXPECT_NE(std::string::npos, plain.find("plain blocks")) << plain;
    EXPECT_EQ(std::string::npos, planned.find("plain")) << planned;
  }
}

TEST(Gemm, BetaZeroIgnoresNan) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    GuardedTensor a(t, {2, 2}), b(t, {2, 3}), c(t, {3});
    a.Set({1, 2, 3, 4});
    b.Set({1, 0, 2, 0, 1, -1});
    c.Set({kNaN, kInf, -kInf});
    OpTester op("Gemm");
    ASSERT_TRUE(op.In(a).In(b).In(c).Attr("beta", 0.0).Run().ok());
    EXPECT_EQ((std::vector<double>{1, 2, 0, 3, 4, 2}), op.Out().Get());
  }
}

TEST(Gemm, EmptyInnerDimensionKeepsTheAddend) {
  GuardedTensor a(DType::kF32, {2, 0}), b(DType::kF32, {0, 3}), c(DType::kF32, {3});
  c.Set({5, -1, 0.25});
  OpTester op("Gemm");
  ASSERT_TRUE(op.In(a).In(b).In(c).Run().ok());
  EXPECT_EQ((std::vector<double>{5, -1, 0.25, 5, -1, 0.25}), op.Out().Get());
  c.Set({kNaN, kNaN, kNaN});
  OpTester zero("Gemm");
  ASSERT_TRUE(zero.In(a).In(b).In(c).Attr("beta", 0.0).Run().ok());
  EXPECT_EQ(std::vector<double>(6, 0), zero.Out().Get());
}

TEST(Gemm, ErrorsNameWhatIsWrong) {
  GuardedTensor a(DType::kF32, {2, 3}), b(DType::kF32, {3, 4}), c(DType::kF32, {2}),
      d(DType::kF32, {1, 2, 3});
  OpTester addend("Gemm");
  EXPECT_EQ(Code::kInvalid, addend.In(a).In(b).In(c).Run().code());
  EXPECT_NE(std::string::npos, addend.status().message().find("broadcasts to [2,4]"))
      << addend.status().message();
  OpTester rank("Gemm");
  EXPECT_EQ(Code::kInvalid, rank.In(d).In(b).Run().code());
  EXPECT_NE(std::string::npos, rank.status().message().find("rank 2")) << rank.status().message();
}

}  // namespace
}  // namespace opsnn::op
