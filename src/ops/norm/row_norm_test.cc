#include <cmath>

#include "base/parallel.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::Rng;

struct NormCase {
  const char* op;
  DType dtype = DType::kF32;
  Dims dims;
  int64_t axis = -1;
  bool scale = true, bias = true;
  int outputs = 1;
  double shift = 0;  // mean of the operand: what cancels
};

void RunOne(const NormCase& k, Rng& rng) {
  testing::GuardedTensor x(k.dtype, k.dims, &rng, rng.Chance(0.5));
  x.FillRandom(rng, k.shift - 2, k.shift + 2);
  Dims row;
  const int axis = static_cast<int>(k.axis < 0 ? k.axis + k.dims.rank() : k.axis);
  for (int i = axis; i < k.dims.rank(); ++i) row.push_back(k.dims[i]);
  testing::GuardedTensor gamma(k.dtype, row), beta(k.dtype, row);
  gamma.FillRandom(rng), beta.FillRandom(rng);

  std::vector<ref::Tensor> in = {ToRef(x)};
  OpTester call(k.op);
  call.In(x);
  if (k.scale) call.In(gamma), in.push_back(ToRef(gamma));
  if (k.bias) call.In(beta), in.push_back(ToRef(beta));
  constexpr double kEpsilon = 1e-3;
  call.Attr("axis", k.axis).Attr("epsilon", kEpsilon).Outputs(k.outputs);
  const bool in_place = rng.Chance(0.3);
  if (in_place) {
    call.InPlace(0);
  } else if (rng.Chance(0.5)) {
    call.StridedOutputs(rng);
  }
  ASSERT_TRUE(call.Run().ok()) << call.status().message();

  const Attrs attrs = MakeAttrs({{"axis", k.axis}, {"epsilon", kEpsilon}});
  const Reference r = Evaluate(k.op, attrs, in, k.dtype, 3);
  const double eps = testing::Epsilon(k.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  const double n = static_cast<double>(NumElements(row));
  // The centred value carries the rounding of x and of the mean, scaled by 1 / sqrt(var + epsilon) and gamma
  // (<= 2).
  const double noise = (2 * std::sqrt(n) + 8) * eps * (std::fabs(k.shift) + 2);
  std::vector<double> tolerance;
  const std::vector<double>& inv = r.outputs[2].v;
  for (size_t i = 0; i < r.outputs[0].v.size(); ++i) {
    const double scale = 2 * inv[i / static_cast<size_t>(n)], w = std::fabs(r.outputs[0].v[i]);
    tolerance.push_back(noise * scale * (1 + w) + 8 * eps * (w + 4) + 2 * testing::Epsilon(k.dtype) * w +
                        SmallestValue(k.dtype));
  }
  const std::string what = StrFormat("%s %s %s axis %d", k.op, Name(k.dtype), ToString(k.dims).c_str(), axis);
  EXPECT_EQ("", testing::Compare(in_place ? x.Get() : call.Out().Get(), r.outputs[0].v, tolerance)) << what;
  if (k.outputs < 3) return;
  EXPECT_EQ(call.OutDesc(1).dims, r.outputs[1].dims);
  EXPECT_EQ(call.OutDesc(1).dtype, k.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  EXPECT_EQ("", testing::Compare(call.Out(1).Get(), r.outputs[1].v, noise, 4 * eps)) << what;
  EXPECT_EQ("", testing::Compare(call.Out(2).Get(), inv, 0, (2 * std::sqrt(n) + 8) * eps + noise)) << what;
}

TEST(RowNorm, RandomShapesMatchReference) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (auto _ : testing::FuzzFor(100)) {
      NormCase k{.op = "LayerNormalization", .dtype = t, .dims = rng.Shape(1, 4, 5000)};
      k.axis = rng.Int(-k.dims.rank(), k.dims.rank() - 1);
      k.scale = rng.Chance(0.7);
      k.bias = k.scale && rng.Chance(0.7);
      k.outputs = rng.Chance(0.5) ? 3 : 1;
      k.shift = rng.Chance(0.3) ? 10 : 0;
      RunOne(k, rng);
      NormCase rms{.op = "RMSNormalization", .dtype = t, .dims = k.dims, .axis = k.axis, .bias = false};
      RunOne(rms, rng);
      if (HasFailure()) return;
    }
  }
}

TEST(RowNorm, LongRowsAndThreads) {
  Rng rng;
  RunOne({.op = "LayerNormalization", .dims = {300, 768}, .outputs = 3}, rng);
  RunOne({.op = "LayerNormalization", .dims = {2, 200000}}, rng);
  RunOne({.op = "RMSNormalization", .dims = {3, 40000}, .bias = false}, rng);
  testing::GuardedTensor x(DType::kF32, {200, 768});
  x.FillRandom(rng);
  std::vector<double> first;
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    OpTester call("LayerNormalization");
    call.In(x);
    ASSERT_TRUE(call.Run().ok());
    if (first.empty()) first = call.Out().Get();
    EXPECT_EQ(first, call.Out().Get()) << threads;
  }
  SetNumThreads(0);
}

TEST(RowNorm, NaNStaysInItsRow) {
  testing::GuardedTensor x(DType::kF32, {3, 19});
  std::vector<double> v(57, 1.0);
  v[20] = NAN;
  x.Set(v);
  OpTester call("LayerNormalization");
  call.In(x);
  ASSERT_TRUE(call.Run().ok());
  const auto y = call.Out().Get();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 19 == 1) << i;
}

TEST(RowNorm, BadShapesAreNamed) {
  testing::GuardedTensor x(DType::kF32, {2, 3, 4}), gamma(DType::kF32, {5});
  OpTester shape("LayerNormalization");
  shape.In(x).In(gamma);
  EXPECT_EQ(shape.Run().message(),
            "LayerNormalization: input Scale has shape [5]; allowed: [4], the dims of X from axis 2 on");
  OpTester axis("RMSNormalization");
  axis.In(x).In(gamma).Attr("axis", int64_t{3});
  EXPECT_EQ(axis.Run().message().find("RMSNormalization: attribute axis: "), 0u) << axis.status().message();
}

}  // namespace
}  // namespace opsnn::op
