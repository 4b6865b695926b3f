#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

int64_t OnnxType(DType t) { return Info(t).onnx; }

TEST(Cast, EveryPairMatchesReference) {
  testing::Rng rng;
  for (int to = 0; to < kNumDTypes; ++to) {
    PointwiseCase k{.op = "Cast", .lo = -100, .hi = 100, .ulps = 0};
    k.attrs.Set("to", OnnxType(static_cast<DType>(to)));
    // Negative floats to u8 saturate while negative integers wrap: kept to their own test below.
    if (static_cast<DType>(to) == DType::kU8) k.lo = 0;
    TestPointwise(k, rng, 2);
  }
}

std::vector<double> CastValues(DType from, DType to, const std::vector<double>& values) {
  testing::GuardedTensor x(from, {static_cast<int64_t>(values.size())});
  x.Set(values);
  OpTester call("Cast");
  call.In(x).Attr("to", OnnxType(to));
  EXPECT_TRUE(call.Run().ok()) << call.status().message();
  return call.Out().Get();
}

TEST(Cast, FloatToIntegerSaturates) {
  const double inf = INFINITY;
  const std::vector<double> x = {-inf, -300, -128.5, -1.5, -0.5, 0.5, 1.9, 127.5, 300, inf, NAN};
  EXPECT_EQ(CastValues(DType::kF32, DType::kS8, x),
            (std::vector<double>{-128, -128, -128, -1, 0, 0, 1, 127, 127, 127, 0}));
  EXPECT_EQ(CastValues(DType::kF64, DType::kU8, x),
            (std::vector<double>{0, 0, 0, 0, 0, 0, 1, 127, 255, 255, 0}));
  EXPECT_EQ(CastValues(DType::kF32, DType::kS32, {3e9, -3e9, 2147483520.0}),
            (std::vector<double>{2147483647, -2147483648.0, 2147483520}));
  EXPECT_EQ(CastValues(DType::kF32, DType::kBool, {0, -0.0, 1e-40, NAN, -3}),
            (std::vector<double>{0, 0, 1, 1, 1}));
}

TEST(Cast, IntegersWrapAndHalvesRoundOnce) {
  EXPECT_EQ(CastValues(DType::kS32, DType::kS8, {127, 128, 255, 256, -129}),
            (std::vector<double>{127, -128, -1, 0, 127}));
  EXPECT_EQ(CastValues(DType::kS32, DType::kU8, {-1, 256}), (std::vector<double>{255, 0}));
  // Halfway between two halves plus less than an f32 can hold: rounding twice would give the even neighbour.
  EXPECT_EQ(CastValues(DType::kF64, DType::kF16, {1 + 0x1p-11 + 0x1p-40}),
            (std::vector<double>{1 + 0x1p-10}));
  EXPECT_EQ(CastValues(DType::kF32, DType::kF16, {65519, 65520, 1e-8}),
            (std::vector<double>{65504, INFINITY, 0}));
}

TEST(Cast, BadTargetIsNamed) {
  testing::GuardedTensor x(DType::kF32, {2});
  OpTester call("Cast");
  call.In(x).Attr("to", int64_t{99});
  EXPECT_EQ(call.Run().code(), Code::kInvalid);
  EXPECT_NE(call.status().message().find("attribute to is 99; allowed: 1 (f32)"), std::string::npos)
      << call.status().message();
}

}  // namespace
}  // namespace opsnn::op
