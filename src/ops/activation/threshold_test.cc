// Activations made of a comparison and few other stages.
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

TEST(ThresholdActivation, MatchesReference) {
  testing::Rng rng;
  const PointwiseCase cases[] = {
      {.op = "Selu"},
      {.op = "Selu", .attrs = MakeAttrs({{"alpha", 2.0}, {"gamma", 0.5}})},
      {.op = "Celu"},
      {.op = "Celu", .ulps = 5, .attrs = MakeAttrs({{"alpha", 1.7}})},
      {.op = "Softsign", .ulps = 2},
      {.op = "ThresholdedRelu", .ulps = 0, .attrs = MakeAttrs({{"alpha", 1.5}})},
      {.op = "Shrink", .ulps = 0},
      {.op = "Shrink", .ulps = 1, .attrs = MakeAttrs({{"lambd", 1.5}, {"bias", 0.5}})},
  };
  for (const PointwiseCase& k : cases) TestPointwise(k, rng);
}

TEST(ThresholdActivation, CeluRefusesAlphaZero) {
  testing::GuardedTensor x(DType::kF32, {3});
  OpTester t("Celu");
  t.In(x).Attr("alpha", 0.0);
  EXPECT_EQ(t.Run().message(), "Celu: attribute alpha is 0; allowed: any other number");
}

}  // namespace
}  // namespace opsnn::op
