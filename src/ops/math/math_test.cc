#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

testing::Rng& Random() {
  static testing::Rng rng;
  return rng;
}

TEST(Math, UnaryMatchesReference) {
  const PointwiseCase cases[] = {
      {.op = "Erf"},
      {.op = "Exp"},
      {.op = "Log", .lo = 1e-3, .hi = 50},
      {.op = "Sqrt", .lo = 0, .hi = 50, .ulps = 1},
      {.op = "Reciprocal", .ulps = 1},
      {.op = "Neg", .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Abs", .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Sign", .ulps = 0},
      {.op = "Floor", .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Ceil", .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Round", .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Sin"},
      {.op = "Cos"},
      {.op = "Tan", .ulps = 5},
      {.op = "Asin", .lo = -1, .hi = 1},
      {.op = "Acos", .lo = -1, .hi = 1},
      {.op = "Atan", .lo = -30, .hi = 30},
      {.op = "Sinh", .lo = -9, .hi = 9, .ulps = 5},
      {.op = "Cosh", .lo = -9, .hi = 9, .ulps = 5},
      {.op = "Asinh", .lo = -30, .hi = 30},
      {.op = "Acosh", .lo = 1, .hi = 30},
      {.op = "Atanh", .lo = -1, .hi = 1},
  };
  for (const PointwiseCase& k : cases) TestPointwise(k, Random());
}

TEST(Math, BinaryMatchesReference) {
  const PointwiseCase cases[] = {
      {.op = "Add", .arity = 2, .lo = -40, .hi = 40, .ulps = 1},
      {.op = "Sub", .arity = 2, .lo = 0, .hi = 40, .ulps = 1},
      {.op = "Mul", .arity = 2, .lo = -11, .hi = 11, .ulps = 1},
      {.op = "Div", .arity = 2, .lo = -100, .hi = 100, .ulps = 1},
      {.op = "Pow", .arity = 2, .lo = 0, .hi = 3},
      {.op = "Mod", .arity = 2, .lo = -100, .hi = 100, .attrs = MakeAttrs({{"fmod", int64_t{1}}})},
      {.op = "Max", .arity = 3, .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Min", .arity = 3, .lo = -100, .hi = 100, .ulps = 0},
      {.op = "Sum", .arity = 4, .ulps = 4, .absolute = 24},
      {.op = "Mean", .arity = 3, .ulps = 4, .absolute = 24},
  };
  for (const PointwiseCase& k : cases) TestPointwise(k, Random());
}

}  // namespace
}  // namespace opsnn::op
