#include <cmath>

#include "base/parallel.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::Rng;

constexpr const char* kOperators[] = {"ReduceSum",       "ReduceMean",  "ReduceMax",       "ReduceMin",
                                      "ReduceProd",      "ReduceL1",    "ReduceSumSquare", "ReduceL2",
                                      "ReduceLogSumExp", "ReduceLogSum"};

ConstTensor AxesTensor(const std::vector<int64_t>& axes) {
  return HostTensor::From<int64_t>({static_cast<int64_t>(axes.size())}, axes);
}

double Bound(const std::string& op, const Reference& r, size_t i, DType dtype, double want) {
  const DType acc = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const double n = static_cast<double>(r.reduction_length), eps = testing::Epsilon(acc);
  const double out = testing::Epsilon(dtype) * std::fabs(want) * 2 + SmallestValue(dtype);
  if (!IsFloat(dtype) || op == "ReduceMax" || op == "ReduceMin") return 0;
  // Below the normal range every product rounds by up to a unit of the smallest subnormal.
  if (op == "ReduceProd") return n * (eps * std::fabs(want) + SmallestValue(acc)) + out;
  if (op == "ReduceL2") return (2 * std::sqrt(n) + 6) * eps * std::fabs(want) + out;
  // A relative error of the sum is an absolute one of its logarithm. Operands are positive there.
  if (op == "ReduceLogSum") return (2 * std::sqrt(n) + 8) * eps * (1 + std::fabs(want)) + out;
  if (op == "ReduceLogSumExp") return (2 * std::sqrt(n) + 16) * eps * (4 + std::fabs(want)) + out;
  return testing::ContractionTolerance(r.abs_sum[i], want, r.reduction_length, acc, dtype) + out;
}

void RunOne(const char* op, DType dtype, const Dims& dims, const std::vector<int64_t>& axes, bool keepdims,
            Rng& rng) {
  testing::GuardedTensor x(dtype, dims, &rng, rng.Chance(0.5));
  const bool positive = std::string(op) == "ReduceLogSum" || !Info(dtype).is_signed;
  // Products of many integers overflow s32; halves reach Inf beyond 65504.
  const bool small = std::string(op) == "ReduceProd" || dtype == DType::kBool;
  x.FillRandom(rng, positive ? 0.1 : small ? -1.4 : -3, small ? 1.4 : 3);
  OpTester call(op);
  const auto axes_tensor = AxesTensor(axes);
  call.In(x).In(axes_tensor).Attr("keepdims", int64_t{keepdims});
  if (rng.Chance(0.5)) call.StridedOutputs(rng);
  ASSERT_TRUE(call.Run().ok()) << op << ": " << call.status().message();
  Attrs attrs = MakeAttrs({{"keepdims", int64_t{keepdims}}});
  const Reference r = Evaluate(op, attrs, {ToRef(x), ref::FromHost(*axes_tensor)}, dtype);
  EXPECT_EQ(call.OutDesc().dims, r.outputs[0].dims);
  std::vector<double> want = r.outputs[0].v, tolerance;
  for (size_t i = 0; i < want.size(); ++i) {
    tolerance.push_back(Bound(op, r, i, dtype, want[i]));
    want[i] = IsFloat(dtype) ? want[i] : RoundTo(dtype, want[i]);
  }
  EXPECT_EQ("", testing::Compare(call.Out().Get(), want, tolerance))
      << op << " " << Name(dtype) << " " << ToString(dims) << " axes " << ToString(Dims(axes)) << " "
      << call.variant();
}

TEST(Reduce, RandomShapesAxesAndDTypesMatchReference) {
  Rng rng;
  for (const char* op : kOperators) {
    const DTypeMask dtypes = FindOperator(op)->declaration->inputs[0].dtypes;
    for (int t = 0; t < kNumDTypes; ++t) {
      if (!Contains(dtypes, static_cast<DType>(t))) continue;
      for (auto _ : testing::FuzzFor(15)) {
        const Dims dims = rng.Shape(0, 5, 4000);
        std::vector<int64_t> axes;
        for (int i = 0; i < dims.rank(); ++i) {
          if (rng.Chance(0.5)) axes.push_back(rng.Chance(0.5) ? i : i - dims.rank());
        }
        RunOne(op, static_cast<DType>(t), dims, axes, rng.Chance(0.5), rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Reduce, LongColumnsAndRows) {
  Rng rng;
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceL2"}) {
    RunOne(op, DType::kF32, {3, 1500, 70}, {1}, true, rng);
    RunOne(op, DType::kF32, {5000, 33}, {0}, false, rng);
    RunOne(op, DType::kF16, {2000, 40}, {0}, false, rng);
    RunOne(op, DType::kF32, {7, 9001}, {1}, false, rng);
    RunOne(op, DType::kF64, {3, 300, 5, 7}, {0, 2}, true, rng);
  }
}

TEST(Reduce, SameBitsForAnyThreadCount) {
  Rng rng;
  testing::GuardedTensor x(DType::kF32, {3000, 130});
  x.FillRandom(rng);
  for (int64_t axis : {0, 1}) {
    std::vector<double> first;
    for (int threads : {1, 2, 3}) {
      SetNumThreads(threads);
      OpTester call("ReduceSum");
      call.In(x).In(AxesTensor({axis}));
      ASSERT_TRUE(call.Run().ok());
      if (first.empty()) first = call.Out().Get();
      EXPECT_EQ(first, call.Out().Get()) << threads << " threads, axis " << axis;
    }
  }
  SetNumThreads(0);
}

double ReduceAll(const char* op, DType t, const Dims& dims, const std::vector<double>& values) {
  testing::GuardedTensor x(t, dims);
  x.Set(values);
  OpTester call(op);
  call.In(x).Attr("keepdims", int64_t{0});
  EXPECT_TRUE(call.Run().ok()) << call.status().message();
  return call.Out().Get()[0];
}

TEST(Reduce, NothingToReduce) {
  EXPECT_EQ(ReduceAll("ReduceSum", DType::kF32, {0, 3}, {}), 0);
  EXPECT_EQ(ReduceAll("ReduceProd", DType::kF32, {0}, {}), 1);
  EXPECT_EQ(ReduceAll("ReduceMax", DType::kF32, {0}, {}), -INFINITY);
  EXPECT_EQ(ReduceAll("ReduceMin", DType::kS32, {0}, {}), 2147483647);
  EXPECT_TRUE(std::isnan(ReduceAll("ReduceMean", DType::kF32, {0}, {})));
  EXPECT_EQ(ReduceAll("ReduceLogSumExp", DType::kF32, {0}, {}), -INFINITY);
}

TEST(Reduce, SpecialValues) {
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceSum"}) {
    for (int64_t n : {3, 40}) {  // within a vector's tail, and beyond it
      for (int64_t at = 0; at < n; ++at) {
        std::vector<double> v(static_cast<size_t>(n), 1.0);
        v[static_cast<size_t>(at)] = NAN;
        EXPECT_TRUE(std::isnan(ReduceAll(op, DType::kF32, {n}, v))) << op << " " << at;
      }
    }
  }
  EXPECT_EQ(ReduceAll("ReduceLogSumExp", DType::kF32, {3}, {-INFINITY, -INFINITY, -INFINITY}), -INFINITY);
  EXPECT_EQ(ReduceAll("ReduceLogSumExp", DType::kF32, {3}, {1, INFINITY, 2}), INFINITY);
  EXPECT_NEAR(ReduceAll("ReduceLogSumExp", DType::kF32, {2}, {1000, 1000}), 1000 + std::log(2), 1e-4);
  // NaN in a column of the accumulator, first, middle and last row.
  for (int64_t row : {0, 9, 18}) {
    testing::GuardedTensor x(DType::kF32, {19, 21});
    std::vector<double> v(19 * 21, 2.0);
    v[static_cast<size_t>(row * 21 + 20)] = NAN;
    x.Set(v);
    OpTester call("ReduceMax");
    call.In(x).In(AxesTensor({0}));
    ASSERT_TRUE(call.Run().ok());
    EXPECT_TRUE(std::isnan(call.Out().Get()[20]));
    EXPECT_EQ(call.Out().Get()[19], 2.0);
  }
}

TEST(Reduce, NoopAndErrors) {
  Rng rng;
  testing::GuardedTensor x(DType::kF32, {2, 3});
  x.FillRandom(rng);
  // Over an empty set of axes only the reduction is left out.
  for (const auto& [op, f] : std::initializer_list<std::pair<const char*, double (*)(double)>>{
           {"ReduceSum", [](double v) { return v; }},
           {"ReduceSumSquare",
            [](double v) { return double{static_cast<float>(v) * static_cast<float>(v)}; }},
           {"ReduceL1", [](double v) { return std::fabs(v); }}}) {
    OpTester noop(op);
    noop.In(x).Attr("noop_with_empty_axes", int64_t{1});
    ASSERT_TRUE(noop.Run().ok());
    std::vector<double> want = x.Get();
    for (double& v : want) v = f(v);
    EXPECT_EQ(noop.Out().Get(), want) << op;
  }
  OpTester bad("ReduceMean");
  bad.In(x).In(AxesTensor({2}));
  EXPECT_EQ(bad.Run().code(), Code::kInvalid);
  EXPECT_EQ(bad.status().message().find("ReduceMean: input axes: "), 0u) << bad.status().message();
}

}  // namespace
}  // namespace opsnn::op
