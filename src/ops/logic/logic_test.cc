#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

TEST(Logic, MatchesReference) {
  testing::Rng rng;
  const PointwiseCase cases[] = {
      {.op = "Not"},
      {.op = "IsNaN"},
      {.op = "IsInf"},
      {.op = "IsInf", .attrs = MakeAttrs({{"detect_negative", int64_t{0}}})},
      {.op = "IsInf", .attrs = MakeAttrs({{"detect_positive", int64_t{0}}})},
      {.op = "IsInf", .attrs = MakeAttrs({{"detect_positive", int64_t{0}}, {"detect_negative", int64_t{0}}})},
      {.op = "And", .arity = 2},
      {.op = "Or", .arity = 2},
      {.op = "Xor", .arity = 2},
      {.op = "Equal", .arity = 2, .lo = -3, .hi = 3},
      {.op = "Less", .arity = 2},
      {.op = "LessOrEqual", .arity = 2},
      {.op = "Greater", .arity = 2},
      {.op = "GreaterOrEqual", .arity = 2},
      {.op = "BitwiseAnd", .arity = 2, .lo = -128, .hi = 127, .ulps = 0},
      {.op = "BitwiseOr", .arity = 2, .lo = -128, .hi = 127, .ulps = 0},
      {.op = "BitwiseXor", .arity = 2, .lo = -128, .hi = 127, .ulps = 0},
      {.op = "BitwiseNot", .lo = -128, .hi = 127, .ulps = 0},
      {.op = "BitShift",
       .arity = 2,
       .lo = 0,
       .hi = 33,
       .ulps = 0,
       .attrs = MakeAttrs({{"direction", std::string("RIGHT")}})},
      {.op = "BitShift",
       .arity = 2,
       .lo = -3,
       .hi = 33,
       .ulps = 0,
       .attrs = MakeAttrs({{"direction", std::string("LEFT")}})},
      {.op = "Where", .arity = 3, .ulps = 0, .first_is_bool = true},
  };
  for (const PointwiseCase& k : cases) TestPointwise(k, rng, 8);
}

}  // namespace
}  // namespace opsnn::op
