#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

testing::Rng& Random() {
  static testing::Rng rng;
  return rng;
}

TEST(Activation, MatchesReference) {
  const PointwiseCase cases[] = {
      {.op = "Relu", .ulps = 0},
      {.op = "LeakyRelu", .ulps = 2, .attrs = MakeAttrs({{"alpha", 0.3}})},
      {.op = "Sigmoid"},
      {.op = "Tanh"},
      {.op = "HardSigmoid", .absolute = 4, .attrs = MakeAttrs({{"alpha", 0.25}, {"beta", 0.4}})},
      {.op = "HardSwish", .absolute = 8},
      {.op = "Elu", .attrs = MakeAttrs({{"alpha", 1.5}})},
      {.op = "Softplus", .lo = -30, .hi = 30, .ulps = 8},
      {.op = "Mish", .ulps = 8, .limit_at_minus_inf = true},
      {.op = "Swish", .limit_at_minus_inf = true},
      {.op = "Gelu", .absolute = 2, .limit_at_minus_inf = true},
      {.op = "Gelu",
       .absolute = 4,
       .attrs = MakeAttrs({{"approximate", std::string("tanh")}}),
       .limit_at_minus_inf = true},
      {.op = "PRelu", .arity = 2, .ulps = 2},
  };
  for (const PointwiseCase& k : cases) TestPointwise(k, Random());
}

}  // namespace
}  // namespace opsnn::op
