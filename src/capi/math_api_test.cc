// The element-wise functions of the math library against C's functions in double.
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_add_n.h"
#include "aclnnop/aclnn_eq_scalar.h"
#include "aclnnop/aclnn_maxn.h"
#include "aclnnop/aclnn_minn.h"
#include "aclnnop/aclnn_mul.h"
#include "capi/api_case.h"

namespace opsnn::capi {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double Min(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::fmin(a, b); }
double Max(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::fmax(a, b); }
double FloorMod(double a, double b) {
  const double m = std::fmod(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

#define UNARY(expression)                          \
  [](const double* x, const double* s) -> double { \
    (void)s;                                       \
    const double a = x[0];                         \
    return expression;                             \
  }
#define BINARY(expression)                         \
  [](const double* x, const double* s) -> double { \
    (void)s;                                       \
    const double a = x[0], b = x[1];               \
    return expression;                             \
  }
// A tensor and a scalar.
#define SCALAR(expression)                         \
  [](const double* x, const double* s) -> double { \
    const double a = x[0], b = s[0];               \
    return expression;                             \
  }

const ApiCase kUnary[] = {
    {.api = "aclnnAbs", .f = UNARY(std::fabs(a)), .ulps = 0},
    {.api = "aclnnNeg", .f = UNARY(-a), .ulps = 0},
    {.api = "aclnnSign", .f = UNARY(std::isnan(a) || a == 0 ? a : std::copysign(1, a)), .ulps = 0},
    {.api = "aclnnSqrt", .f = UNARY(std::sqrt(a)), .lo = 0, .hi = 50, .result = &FloatResult},
    {.api = "aclnnRsqrt", .f = UNARY(1 / std::sqrt(a)), .lo = 0.1, .hi = 50, .result = &FloatResult},
    {.api = "aclnnReciprocal", .f = UNARY(1 / a), .lo = 0.5, .hi = 9, .result = &FloatResult},
    {.api = "aclnnSquare", .f = UNARY(a * a)},
    {.api = "aclnnExp", .f = UNARY(std::exp(a)), .result = &FloatResult},
    {.api = "aclnnExp2", .f = UNARY(std::exp2(a)), .result = &FloatResult},
    {.api = "aclnnExpm1", .f = UNARY(std::expm1(a)), .result = &FloatResult},
    {.api = "aclnnLog", .f = UNARY(std::log(a)), .lo = 0, .hi = 50, .absolute = 2, .result = &FloatResult},
    {.api = "aclnnLog2", .f = UNARY(std::log2(a)), .lo = 0, .hi = 50, .absolute = 4, .result = &FloatResult},
    {.api = "aclnnLog10",
     .f = UNARY(std::log10(a)),
     .lo = 0,
     .hi = 50,
     .absolute = 2,
     .result = &FloatResult},
    {.api = "aclnnLog1p", .f = UNARY(std::log1p(a)), .lo = -0.9, .hi = 20, .result = &FloatResult},
    {.api = "aclnnSin", .f = UNARY(std::sin(a)), .absolute = 4, .result = &FloatResult},
    {.api = "aclnnCos", .f = UNARY(std::cos(a)), .absolute = 4, .result = &FloatResult},
    {.api = "aclnnTan", .f = UNARY(std::tan(a)), .lo = -1.4, .hi = 1.4, .result = &FloatResult},
    {.api = "aclnnAsin", .f = UNARY(std::asin(a)), .lo = -1, .hi = 1, .result = &FloatResult},
    {.api = "aclnnAcos", .f = UNARY(std::acos(a)), .lo = -1, .hi = 1, .absolute = 4, .result = &FloatResult},
    {.api = "aclnnAtan", .f = UNARY(std::atan(a)), .result = &FloatResult},
    {.api = "aclnnSinh", .f = UNARY(std::sinh(a)), .result = &FloatResult},
    {.api = "aclnnCosh", .f = UNARY(std::cosh(a)), .result = &FloatResult},
    {.api = "aclnnAsinh", .f = UNARY(std::asinh(a)), .result = &FloatResult},
    {.api = "aclnnAcosh",
     .f = UNARY(std::acosh(a)),
     .lo = 1,
     .hi = 20,
     .absolute = 8,
     .result = &FloatResult},
    {.api = "aclnnAtanh", .f = UNARY(std::atanh(a)), .lo = -0.95, .hi = 0.95, .result = &FloatResult},
    {.api = "aclnnErf", .f = UNARY(std::erf(a)), .result = &FloatResult},
    {.api = "aclnnErfc",
     .f = UNARY(std::erfc(a)),
     .result = &FloatResult,
     .condition = [](const double* x, const double*) { return std::isinf(x[0]) ? 1 : 1 + 2 * x[0] * x[0]; }},
    {.api = "aclnnFloor", .f = UNARY(std::floor(a)), .lo = -90, .hi = 90, .ulps = 0},
    {.api = "aclnnCeil", .f = UNARY(std::ceil(a)), .lo = -90, .hi = 90, .ulps = 0},
    {.api = "aclnnRound", .f = UNARY(std::nearbyint(a)), .lo = -90, .hi = 90, .ulps = 0},
    {.api = "aclnnRoundDecimals",
     .f = UNARY(std::nearbyint(a)),
     .lo = -90,
     .hi = 90,
     .scalars = {0},
     .ulps = 0},
    {.api = "aclnnTrunc", .f = UNARY(std::trunc(a)), .lo = -90, .hi = 90, .ulps = 0},
    {.api = "aclnnFrac", .f = UNARY(a - std::trunc(a)), .lo = -90, .hi = 90, .ulps = 0},
    {.api = "aclnnSinc",
     .f = UNARY(a == 0 ? 1 : std::sin(M_PI * a) / (M_PI * a)),
     .absolute = 8,
     .result = &FloatResult},
    {.api = "aclnnIsFinite", .f = UNARY(std::isfinite(a)), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnIsInf", .f = UNARY(std::isinf(a)), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnIsPosInf", .f = UNARY(a == kInf), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnIsNegInf", .f = UNARY(a == -kInf), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnSignbit", .f = UNARY(!std::isnan(a) && std::signbit(a)), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnLogicalNot", .f = UNARY(a == 0), .ulps = 0, .result = &BoolResult},
    {.api = "aclnnBitwiseNot",
     .f = [](const double* x, const double*) { return -x[0] - 1; },
     .lo = -90,
     .hi = 90,
     .ulps = 0,
     .bools = false},
    {.api = "aclnnNanToNum",
     .f =
         [](const double* x, const double* s) {
           return std::isnan(x[0]) ? s[0] : x[0] == kInf ? s[1] : x[0] == -kInf ? s[2] : x[0];
         },
     .scalars = {7, 9, -9},
     .ulps = 0},
    {.api = "aclnnClamp",
     .f = [](const double* x, const double* s) { return Min(Max(x[0], s[0]), s[1]); },
     .scalars = {1, 2},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnHardtanh",
     .f = [](const double* x, const double* s) { return Min(Max(x[0], s[0]), s[1]); },
     .scalars = {1, 2},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnClampMin", .f = SCALAR(Max(a, b)), .scalars = {1}, .ulps = 0, .scalar_operand = true},
    {.api = "aclnnClampMax", .f = SCALAR(Min(a, b)), .scalars = {2}, .ulps = 0, .scalar_operand = true},
};

DType DivisionResult(DType t) { return IsFloat(t) ? t : DType::kF32; }

const ApiCase kScalarForms[] = {
    {.api = "aclnnAdds",
     .f = [](const double* x, const double* s) { return x[0] + s[0] * s[1]; },
     .scalars = {3, 2},
     .absolute = 16,
     .scalar_operand = true},
    {.api = "aclnnSubs",
     .f = [](const double* x, const double* s) { return x[0] - s[0] * s[1]; },
     .lo = 6,
     .hi = 30,
     .scalars = {3, 2},
     .absolute = 32,
     .scalar_operand = true},
    {.api = "aclnnRsubs",
     .f = [](const double* x, const double* s) { return s[0] - s[1] * x[0]; },
     .lo = 0,
     .scalars = {16, 2},
     .absolute = 32,
     .scalar_operand = true},
    {.api = "aclnnMuls", .f = SCALAR(a * b), .scalars = {3}, .scalar_operand = true},
    {.api = "aclnnDivs", .f = SCALAR(a / b), .scalars = {4}, .result = &DivisionResult},
    {.api = "aclnnDivMods",
     .f = [](const double* x, const double* s) { return std::floor(x[0] / s[0]); },
     .lo = -40,
     .hi = 40,
     .scalars = {4, 2},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnDivMods",
     .f = [](const double* x, const double* s) { return std::trunc(x[0] / s[0]); },
     .lo = -40,
     .hi = 40,
     .scalars = {4, 1},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnFloorDivides",
     .f = SCALAR(std::floor(a / b)),
     .lo = -40,
     .hi = 40,
     .scalars = {4},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnRemainderTensorScalar",
     .f = SCALAR(FloorMod(a, b)),
     .lo = -40,
     .hi = 40,
     .scalars = {4},
     .ulps = 0,
     .special = false,
     .scalar_operand = true,
     .bools = false},
    {.api = "aclnnFmodScalar",
     .f = SCALAR(std::fmod(a, b)),
     .lo = -40,
     .hi = 40,
     .scalars = {4},
     .ulps = 0,
     .scalar_operand = true,
     .bools = false},
    {.api = "aclnnPowTensorScalar",
     .f = SCALAR(std::pow(a, b)),
     .lo = 0.5,
     .scalars = {3},
     .scalar_operand = true},
    {.api = "aclnnPowScalarTensor",
     .f = [](const double* x, const double* s) { return std::pow(s[0], x[0]); },
     .lo = 0,
     .scalars = {2},
     .scalar_operand = true},
    {.api = "aclnnRemainderScalarTensor",
     .f = [](const double* x, const double* s) { return FloorMod(s[0], x[0]); },
     .lo = 1,
     .hi = 9,
     .scalars = {7},
     .ulps = 1,
     .special = false,
     .scalar_operand = true,
     .bools = false},
    {.api = "aclnnAddV3",
     .f = [](const double* x, const double* s) { return s[0] + s[1] * x[0]; },
     .scalars = {3, 2},
     .absolute = 32,
     .scalar_operand = true},
    {.api = "aclnnXLogYScalarSelf",
     .f = [](const double* x, const double* s) { return s[0] * std::log(x[0]); },
     .lo = 0.5,
     .scalars = {2},
     .absolute = 4,
     .result = &FloatResult},
    {.api = "aclnnBitwiseAndScalar",
     .f =
         [](const double* x, const double* s) {
           return static_cast<double>(static_cast<int64_t>(x[0]) & static_cast<int64_t>(s[0]));
         },
     .lo = -90,
     .hi = 90,
     .scalars = {6},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnBitwiseOrScalar",
     .f =
         [](const double* x, const double* s) {
           return static_cast<double>(static_cast<int64_t>(x[0]) | static_cast<int64_t>(s[0]));
         },
     .lo = -90,
     .hi = 90,
     .scalars = {6},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnBitwiseXorScalar",
     .f =
         [](const double* x, const double* s) {
           return static_cast<double>(static_cast<int64_t>(x[0]) ^ static_cast<int64_t>(s[0]));
         },
     .lo = -90,
     .hi = 90,
     .scalars = {6},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnLeftShifts",
     .f = [](const double* x,
             const double* s) { return std::ldexp(std::trunc(x[0]), static_cast<int>(s[0])); },
     .lo = 0,
     .hi = 9,
     .scalars = {2},
     .ulps = 0,
     .scalar_operand = true},
    {.api = "aclnnEqScalar", .f = SCALAR(a == b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnNeScalar", .f = SCALAR(a != b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnLtScalar", .f = SCALAR(a < b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnLeScalar", .f = SCALAR(a <= b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnGtScalar", .f = SCALAR(a > b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnGeScalar", .f = SCALAR(a >= b), .scalars = {2}, .ulps = 0, .result = &BoolResult},
    {.api = "aclnnLerps",
     .f = [](const double* x, const double* s) { return x[0] + s[0] * (x[1] - x[0]); },
     .scalars = {0.25},
     .absolute = 32,
     .special = false},
    {.api = "aclnnXLogYScalarOther",
     .f = SCALAR(a == 0 ? 0 : a * std::log(b)),
     .scalars = {2},
     .result = &FloatResult},
};

int64_t Bits(double x) { return static_cast<int64_t>(x); }

const ApiCase kBinary[] = {
    {.api = "aclnnAdd",
     .f = [](const double* x, const double* s) { return x[0] + s[0] * x[1]; },
     .scalars = {2},
     .absolute = 16,
     .broadcast = true},
    {.api = "aclnnSub",
     .f = [](const double* x, const double* s) { return x[0] - s[0] * x[1]; },
     .scalars = {2},
     .absolute = 16,
     .broadcast = true},
    {.api = "aclnnRsub",
     .f = [](const double* x, const double* s) { return x[1] - s[0] * x[0]; },
     .scalars = {2},
     .absolute = 16,
     .broadcast = true},
    {.api = "aclnnMul", .f = BINARY(a * b), .broadcast = true},
    {.api = "aclnnDiv", .f = BINARY(a / b), .lo = 0.6, .hi = 9, .broadcast = true, .result = &DivisionResult},
    {.api = "aclnnDivMod",
     .f = BINARY(std::trunc(a / b)),
     .lo = 1,
     .hi = 90,
     .scalars = {1},
     .ulps = 1,
     .broadcast = true,
     .special = false},
    {.api = "aclnnFloorDivide",
     .f = BINARY(std::floor(a / b)),
     .lo = 1,
     .hi = 90,
     .ulps = 1,
     .broadcast = true,
     .special = false},
    {.api = "aclnnRemainderTensorTensor",
     .f = BINARY(FloorMod(a, b)),
     .lo = 1,
     .hi = 90,
     .ulps = 1,
     .broadcast = true,
     .special = false,
     .bools = false},
    {.api = "aclnnFmodTensor",
     .f = BINARY(std::fmod(a, b)),
     .lo = 1,
     .hi = 90,
     .ulps = 1,
     .broadcast = true,
     .special = false,
     .bools = false},
    {.api = "aclnnPowTensorTensor",
     .f = BINARY(std::pow(a, b)),
     .lo = 0.5,
     .hi = 3,
     .ulps = 16,
     .broadcast = true},
    {.api = "aclnnMaximum", .f = BINARY(Max(a, b)), .ulps = 0, .broadcast = true},
    {.api = "aclnnMinimum", .f = BINARY(Min(a, b)), .ulps = 0, .broadcast = true},
    {.api = "aclnnEqTensor",
     .f = BINARY(a == b),
     .lo = -2,
     .hi = 2,
     .ulps = 0,
     .broadcast = true,
     .result = &BoolResult},
    {.api = "aclnnNeTensor",
     .f = BINARY(a != b),
     .lo = -2,
     .hi = 2,
     .ulps = 0,
     .broadcast = true,
     .result = &BoolResult},
    {.api = "aclnnLtTensor", .f = BINARY(a < b), .ulps = 0, .broadcast = true, .result = &BoolResult},
    {.api = "aclnnLeTensor", .f = BINARY(a <= b), .ulps = 0, .broadcast = true, .result = &BoolResult},
    {.api = "aclnnGtTensor", .f = BINARY(a > b), .ulps = 0, .broadcast = true, .result = &BoolResult},
    {.api = "aclnnGeTensor", .f = BINARY(a >= b), .ulps = 0, .broadcast = true, .result = &BoolResult},
    {.api = "aclnnLogicalAnd",
     .f = BINARY(a != 0 && b != 0),
     .lo = -1,
     .hi = 1,
     .ulps = 0,
     .broadcast = true,
     .result = &BoolResult},
    {.api = "aclnnLogicalOr",
     .f = BINARY(a != 0 || b != 0),
     .lo = -1,
     .hi = 1,
     .ulps = 0,
     .broadcast = true,
     .result = &BoolResult},
    {.api = "aclnnLogicalXor",
     .f = BINARY((a != 0) != (b != 0)),
     .lo = -1,
     .hi = 1,
     .ulps = 0,
     .broadcast = true,
     .result = &BoolResult},
    {.api = "aclnnBitwiseAndTensor",
     .f = BINARY(static_cast<double>(Bits(a) & Bits(b))),
     .lo = -90,
     .hi = 90,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnAtan2", .f = BINARY(std::atan2(a, b)), .broadcast = true, .result = &FloatResult},
    {.api = "aclnnMaskedScale",
     .f = [](const double* x, const double* s) { return x[0] * x[1] * s[0]; },
     .scalars = {2.5},
     .special = false},
    {.api = "aclnnLeftShift",
     .f = BINARY(static_cast<double>(Bits(a) << Bits(b))),
     .lo = 0,
     .hi = 6,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnRightShift",
     .f = BINARY(static_cast<double>(Bits(a) >> Bits(b))),
     .lo = 0,
     .hi = 6,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnBitwiseAndTensorOut",
     .f = BINARY(static_cast<double>(Bits(a) & Bits(b))),
     .lo = -90,
     .hi = 90,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnBitwiseOrTensor",
     .f = BINARY(static_cast<double>(Bits(a) | Bits(b))),
     .lo = -90,
     .hi = 90,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnBitwiseXorTensor",
     .f = BINARY(static_cast<double>(Bits(a) ^ Bits(b))),
     .lo = -90,
     .hi = 90,
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnIsClose",
     .f = [](const double* x, const double* s) -> double {
       return std::fabs(x[0] - x[1]) <= s[1] + s[0] * std::fabs(x[1]);
     },
     .scalars = {0.25, 0.5, 0},
     .ulps = 0,
     .broadcast = true,
     .special = false,
     .result = &BoolResult},
    {.api = "aclnnLogAddExp",
     .f = BINARY(a == b ? a + std::log(2) : Max(a, b) + std::log1p(std::exp(-std::fabs(a - b)))),
     .absolute = 8,
     .broadcast = true},
    {.api = "aclnnLogAddExp2",
     .f = BINARY(a == b ? a + 1 : Max(a, b) + std::log2(1 + std::exp2(-std::fabs(a - b)))),
     .absolute = 8,
     .broadcast = true},
    {.api = "aclnnXLogYTensor",
     .f = BINARY(a == 0 ? 0 : a * std::log(b)),
     .lo = 0.25,
     .absolute = 8,
     .broadcast = true,
     .special = false,
     .result = &FloatResult},
    {.api = "aclnnXlog1py",
     .f = BINARY(a == 0 ? 0 : a * std::log1p(b)),
     .lo = 0.25,
     .broadcast = true,
     .special = false,
     .result = &FloatResult},
    {.api = "aclnnSWhere",
     .f = [](const double* x, const double*) { return x[0] != 0 ? x[1] : x[2]; },
     .ulps = 0,
     .special = false},
    {.api = "aclnnAddcmul",
     .f = [](const double* x, const double* s) { return x[0] + s[0] * x[1] * x[2]; },
     .scalars = {2},
     .absolute = 64,
     .broadcast = true,
     .special = false},
    {.api = "aclnnAddcdiv",
     .f = [](const double* x, const double* s) { return x[0] + s[0] * x[1] / x[2]; },
     .lo = 0.5,
     .scalars = {2},
     .absolute = 64,
     .broadcast = true,
     .special = false,
     .result = &FloatResult},
    {.api = "aclnnLerp",
     .f = [](const double* x, const double*) { return x[0] + x[2] * (x[1] - x[0]); },
     .absolute = 64,
     .broadcast = true,
     .special = false},
    {.api = "aclnnClampTensor",
     .f = [](const double* x, const double*) { return Min(Max(x[0], x[1]), x[2]); },
     .ulps = 0,
     .broadcast = true},
    {.api = "aclnnClampMinTensor", .f = BINARY(Max(a, b)), .ulps = 0, .broadcast = true},
    {.api = "aclnnClampMaxTensor", .f = BINARY(Min(a, b)), .ulps = 0, .broadcast = true},
};

class MathApiTest : public ApiTest {};

// The scalar is not rounded to the dtype of halves, unless it is compared with them.
TEST_F(MathApiTest, ScalarsMeetHalves) {
  ApiTensor x(DType::kBF16, {2}), y(DType::kBF16, {2}), equal(DType::kBool, {2});
  x.Set({100, 1});
  ApiScalar factor(1.003f);
  ASSERT_EQ(CALL(aclnnMuls, x, factor, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{100.5, 1}));
  ASSERT_EQ(CALL(aclnnEqScalar, x, factor, equal), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(equal.Get(), (std::vector<double>{0, 1}));
}

TEST_F(MathApiTest, Lists) {
  Rng rng;
  for (DType t : {DType::kF32, DType::kF16, DType::kS32, DType::kS64}) {
    ApiTensor y(t, {3, 4}, &rng, true);
    // The list owns its members: plain tensors, which ApiTensor would destroy again.
    GuardedTensor a(t, {3, 4}, &rng, true), b(t, {4}), c(t, {3, 1});
    std::vector<aclTensor*> members;
    for (GuardedTensor* g : {&a, &b, &c}) {
      g->FillRandom(rng, -40, 40);
      const TensorView& v = g->view();
      members.push_back(aclCreateTensor(v.dims.data(), v.rank(), static_cast<aclDataType>(Info(t).acl),
                                        v.strides.data(), 0, ACL_FORMAT_ND, v.dims.data(), v.rank(), v.data));
    }
    aclTensorList* list = aclCreateTensorList(members.data(), members.size());
    const auto av = a.Get(), bv = b.Get(), cv = c.Get();
    std::vector<double> sum, most, least;
    for (size_t i = 0; i < 12; ++i) {
      sum.push_back(av[i] + bv[i % 4] + cv[i / 4]);
      most.push_back(Max(Max(av[i], bv[i % 4]), cv[i / 4]));
      least.push_back(Min(Min(av[i], bv[i % 4]), cv[i / 4]));
    }
    EXPECT_EQ(CALL(aclnnMaxN, list, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), most);
    EXPECT_EQ(CALL(aclnnMinN, list, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), least);
    EXPECT_EQ(CALL(aclnnAddN, list, y), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(testing::Compare(y.Get(), sum, 120 * (testing::Epsilon(t) + 0x1p-22), 0), "") << Name(t);
    aclDestroyTensorList(list);
  }
}

TEST_F(MathApiTest, Unary) {
  Rng rng;
  for (const ApiCase& k : kUnary) TestApi(k, rng, stream_);
}

TEST_F(MathApiTest, TensorAndScalar) {
  Rng rng;
  for (const ApiCase& k : kScalarForms) TestApi(k, rng, stream_);
}

TEST_F(MathApiTest, TensorAndTensor) {
  Rng rng;
  for (const ApiCase& k : kBinary) TestApi(k, rng, stream_);
}

}  // namespace
}  // namespace opsnn::capi
