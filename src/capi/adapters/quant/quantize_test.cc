// Quantisation and its inverse against formulas in double, rounded as the page says.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_ascend_anti_quant.h"
#include "aclnnop/aclnn_ascend_quant.h"
#include "aclnnop/aclnn_ascend_quant_v3.h"
#include "aclnnop/aclnn_dynamic_quant.h"
#include "aclnnop/aclnn_dynamic_quant_v2.h"
#include "aclnnop/aclnn_dynamic_quant_v3.h"
#include "aclnnop/aclnn_fake_quant_per_channel_affine_cachemask.h"
#include "aclnnop/aclnn_fake_quant_per_tensor_affine_cachemask.h"
#include "aclnnop/aclnn_group_quant.h"
#include "aclnnop/aclnn_quantize.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Quantised : public ApiTest {
 protected:
  Rng rng_;
};

double Saturated(double v, double low, double high) { return std::min(high, std::max(low, v)); }

// The results are integers: one may differ by a step where the value lies that near to a border.
void ExpectSteps(const std::vector<double>& got, const std::vector<double>& exact, double (*round)(double),
                 double low, double high, const char* what) {
  ASSERT_EQ(got.size(), exact.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double slack = 8 * 0x1p-24 * (1 + std::abs(exact[i]));  // of some operations in f32
    const double a = Saturated(round(exact[i] - slack), low, high),
                 b = Saturated(round(exact[i] + slack), low, high);
    ASSERT_TRUE(got[i] == a || got[i] == b) << what << " " << i << ": " << got[i] << " for " << exact[i];
  }
}

TEST_F(Quantised, ByGivenScales) {
  static constexpr struct {
    const char* name;
    double (*f)(double);
  } kModes[] = {{"round", std::nearbyint}, {"ceil", std::ceil}, {"trunc", std::trunc}, {"floor", std::floor}};
  for (int round = 0; round < 60; ++round) {
    const DType t = kFloats[round % 3];
    const auto& mode = kModes[round % 4];
    const Dims dims = rng_.Shape(2, 4, 900);
    const bool third = round % 2, one = round % 5 == 0, square = round % 3 == 0, shift = round % 7 < 4;
    const int axis = third && round % 4 == 1 ? dims.rank() - 2 : dims.rank() - 1;
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    ApiTensor scale(t, {one ? 1 : dims[axis]}), offset(t, {one ? 1 : dims[axis]}),
        y(DType::kS8, dims, &rng_, round % 4 == 2);
    scale.memory().FillRandom(rng_, 1, 60), offset.memory().FillRandom(rng_, -20, 20);
    ASSERT_EQ(third ? CALL(aclnnAscendQuantV3, x, scale, OrNull(shift, offset), square, mode.name, 2, axis, y)
                    : CALL(aclnnAscendQuant, x, scale, OrNull(shift, offset), square, mode.name, 2, y),
              0)
        << aclGetRecentErrMsg();
    const auto s = scale.Get(), o = offset.Get();
    const auto exact = Make(dims, [&](const Index& at) {
      const auto c = static_cast<size_t>(one ? 0 : at[static_cast<size_t>(axis)]);
      return x(at) * s[c] * (square ? s[c] : 1) + (shift ? o[c] : 0);
    });
    ExpectSteps(y.Get(), exact, mode.f, -128, 127, mode.name);
    ExpectGuards({&x, &scale, &offset, &y});
  }
  ApiTensor x(DType::kF32, {2, 8}), scale(DType::kF32, {8}), three(DType::kF32, {3}), y(DType::kS8, {2, 8}),
      half(DType::kF16, {8});
  x.Set({std::nan(""), 1e30, -1e30, 0.5, 1.5, 2.5, -0.5, -1.5, 0, 0, 0, 0, 0, 0, 0, 0});
  scale.Set(std::vector<double>(8, 1));
  ASSERT_EQ(CALL(aclnnAscendQuant, x, scale, nullptr, false, "round", 2, y), 0) << aclGetRecentErrMsg();
  const auto got = y.Get();
  EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 8),
            (std::vector<double>{0, 127, -128, 0, 2, 2, 0, -2}));
  ExpectRefused(CALL(aclnnAscendQuant, x, three, nullptr, false, "round", 2, y), 161002,
                {"scale has shape [3]", "[8]"});
  ExpectRefused(CALL(aclnnAscendQuant, x, scale, half, false, "round", 2, y), 161002,
                {"offset has dtype f16"});
  ExpectRefused(CALL(aclnnAscendQuant, x, scale, nullptr, false, "up", 2, y), 161002,
                {"roundMode is \"up\""});
  ExpectRefused(CALL(aclnnAscendQuant, x, scale, nullptr, false, "round", 5, y), 161002, {"dstType is 5"});
  ExpectRefused(CALL(aclnnAscendQuant, x, scale, nullptr, false, "round", 29, y), 561003, {"dstType is 29"});
}

TEST_F(Quantised, Back) {
  for (int round = 0; round < 24; ++round) {
    const Dims dims = rng_.Shape(1, 4, 900);
    const bool one = round % 3 == 0, square = round % 2, shift = round % 4 < 2, wide = round % 5 == 0;
    const DType t = wide ? DType::kF16 : DType::kBF16, of = round % 3 == 1 ? DType::kBF16 : DType::kF32;
    ApiTensor x(DType::kS8, dims, &rng_, round % 2), scale(of, {one ? 1 : dims.back()}),
        offset(of, {one ? 1 : dims.back()}), y(t, dims, &rng_, round % 3 == 2);
    x.memory().FillRandom(rng_, -128, 127);
    scale.memory().FillRandom(rng_, 0.125, 2), offset.memory().FillRandom(rng_, -20, 20);
    ASSERT_EQ(CALL(aclnnAscendAntiQuant, x, scale, OrNull(shift, offset), wide ? 1 : 27, square, y), 0)
        << aclGetRecentErrMsg();
    const auto v = x.Get(), s = scale.Get(), o = offset.Get();
    std::vector<double> want, tolerance;
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t c = one ? 0 : i % static_cast<size_t>(dims.back());
      want.push_back((v[i] + (shift ? o[c] : 0)) * s[c] * (square ? s[c] : 1));
      tolerance.push_back(std::abs(want.back()) * testing::Epsilon(t) + 0x1p-16);
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "");
    ExpectGuards({&x, &scale, &y});
  }
}

TEST_F(Quantised, ByDivision) {
  for (int round = 0; round < 30; ++round) {
    const Dims dims = rng_.Shape(1, 4, 900);
    const int axis = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const bool one = round % 3 == 0, shift = round % 4 < 2;
    constexpr DType kOut[] = {DType::kS8, DType::kU8, DType::kS32};
    constexpr aclDataType kCode[] = {ACL_INT8, ACL_UINT8, ACL_INT32};
    constexpr double kLow[] = {-128, 0, -2147483648.0}, kHigh[] = {127, 255, 2147483647.0};
    const int k = static_cast<int>(rng_.Int(0, 2));
    RandomTensor x(kFloats[round % 2], dims, rng_, round % 2);
    ApiTensor scale(DType::kF32, {one ? 1 : dims[axis]}), zero(DType::kS32, {one ? 1 : dims[axis]}),
        y(kOut[k], dims, &rng_, round % 5 == 1);
    scale.memory().FillRandom(rng_, 0.015625, 0.25), zero.memory().FillRandom(rng_, -9, 130);
    ASSERT_EQ(
        CALL(aclnnQuantize, x, scale, OrNull(shift, zero), kCode[k], axis - (round % 2 ? dims.rank() : 0), y),
        0)
        << aclGetRecentErrMsg();
    const auto s = scale.Get(), z = zero.Get();
    const auto exact = Make(dims, [&](const Index& at) {
      const auto c = static_cast<size_t>(one ? 0 : at[static_cast<size_t>(axis)]);
      return x(at) / s[c] + (shift ? z[c] : 0);
    });
    ExpectSteps(y.Get(), exact, std::nearbyint, kLow[k], kHigh[k], "quantize");
    ExpectGuards({&x, &scale, &zero, &y});
  }
}

TEST_F(Quantised, Fakes) {
  for (int round = 0; round < 30; ++round) {
    const DType t = round % 2 ? DType::kF16 : DType::kF32;
    const Dims dims = rng_.Shape(1, 4, 900);
    const int axis = static_cast<int>(rng_.Int(0, dims.rank() - 1));
    const bool one = round % 3 == 0, off = one && round % 2;
    RandomTensor x(t, dims, rng_, round % 2);
    // Powers of two, so that the quotients are exact.
    ApiTensor scale(DType::kF32, {one ? 1 : dims[axis]}), zero(DType::kS32, {one ? 1 : dims[axis]}),
        y(t, dims, &rng_, round % 5 == 1), mask(DType::kBool, dims, &rng_, round % 5 == 2);
    std::vector<double> steps;
    for (int64_t i = 0; i < NumElements(scale.dims()); ++i)
      steps.push_back(std::exp2(static_cast<double>(-rng_.Int(2, 6))));
    scale.Set(steps), zero.memory().FillRandom(rng_, -3, 3);
    ASSERT_EQ(
        one ? CALL(aclnnFakeQuantPerTensorAffineCachemask, x, scale, zero, off ? 0.5f : 1.0f, -8, 7, y, mask)
            : CALL(aclnnFakeQuantPerChannelAffineCachemask, x, scale, zero, axis, -8, 7, y, mask),
        0)
        << aclGetRecentErrMsg();
    const auto z = zero.Get();
    std::vector<double> inside;
    const auto want = Make(dims, [&](const Index& at) {
      const auto c = static_cast<size_t>(one ? 0 : at[static_cast<size_t>(axis)]);
      const double q = std::nearbyint(x(at) / steps[c]) + z[c];
      inside.push_back(off || (q >= -8 && q <= 7));
      return off ? x(at) : (Saturated(q, -8, 7) - z[c]) * steps[c];
    });
    EXPECT_EQ(y.Get(), want) << Name(t) << one;
    EXPECT_EQ(mask.Get(), inside);
    ExpectGuards({&x, &y, &mask});
  }
  ApiTensor x(DType::kF32, {2}), one(DType::kF32, {1}), zero(DType::kS32, {1}), y(DType::kF32, {2}),
      mask(DType::kBool, {2});
  ExpectRefused(CALL(aclnnFakeQuantPerTensorAffineCachemask, x, one, zero, 1.0f, 8, 7, y, mask), 161002,
                {"quantMin is 8", "at most quantMax, 7"});
  ExpectRefused(CALL(aclnnFakeQuantPerChannelAffineCachemask, x, one, zero, 0, 0, 7, y, mask), 161002,
                {"scale has shape [1]", "[2]"});
}

TEST_F(Quantised, RowsByTheirOwnSteps) {
  for (int round = 0; round < 40; ++round) {
    const DType t = round % 2 ? DType::kF16 : DType::kBF16;
    const Dims dims = rng_.Shape(2, 4, 1500);
    const bool shifted = round % 4 >= 2, smooth = round % 3 == 0;
    Dims rows = dims;
    rows.resize(rows.rank() - 1);
    const int64_t n = dims.back();
    RandomTensor x(t, dims, rng_, round % 3 == 1);
    ApiTensor by(t, {n}), y(DType::kS8, dims, &rng_, round % 5 == 2),
        step(DType::kF32, rows, &rng_, round % 5 == 3), offset(DType::kF32, rows);
    by.memory().FillRandom(rng_, 0.5, 2);
    int code = 0;
    if (shifted) {
      code = round % 8 == 2 ? CALL(aclnnDynamicQuantV2, x, OrNull(smooth, by), nullptr, 2, y, step, offset)
                            : CALL(aclnnDynamicQuantV3, x, OrNull(smooth, by), nullptr, 2, false, "pertoken",
                                   y, step, offset);
    } else {
      code = CALL(aclnnDynamicQuant, x, OrNull(smooth, by), y, step);
    }
    ASSERT_EQ(code, 0) << aclGetRecentErrMsg();
    const auto factors = by.Get();
    std::vector<double> exact, steps, offsets, near;
    for (int64_t r = 0; r < NumElements(rows); ++r) {
      double high = -1e30, low = 1e30, most = 0;
      const auto value = [&](int64_t i) {
        return x[r * n + i] * (smooth ? factors[static_cast<size_t>(i)] : 1);
      };
      for (int64_t i = 0; i < n; ++i)
        high = std::max(high, value(i)), low = std::min(low, value(i)),
        most = std::max(most, std::abs(value(i)));
      const double s = shifted ? (high - low) / 255 : most / 127, o = shifted ? 127 - high / s : 0;
      steps.push_back(s), offsets.push_back(o);
      near.push_back(std::abs(s) * 4 * 0x1p-23);
      for (int64_t i = 0; i < n; ++i) exact.push_back(s == 0 ? 0 : value(i) / s + o);
    }
    EXPECT_EQ(Compare(step.Get(), steps, near), "");
    const auto got = y.Get();
    for (size_t i = 0; i < exact.size(); ++i) {
      if (steps[i / static_cast<size_t>(n)] == 0) continue;  // a row of one value has no step
      ASSERT_LE(std::abs(got[i] - Saturated(exact[i], -128, 127)), 0.5 + 255 * 8 * 0x1p-23) << i;
    }
    ExpectGuards({&x, &by, &y, &step, &offset});
  }
  ApiTensor x(DType::kF16, {2, 3}), y(DType::kS8, {2, 3}), step(DType::kF32, {2}), wrong(DType::kF32, {3}),
      one(DType::kF32, {1});
  x.Set({0, 0, 0, 1, 2, -4});
  ASSERT_EQ(CALL(aclnnDynamicQuant, x, nullptr, y, step), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{0, 0, 0, 32, 64, -127}));
  ExpectRefused(CALL(aclnnDynamicQuant, x, nullptr, y, wrong), 161002, {"scaleOut has shape [3]", "[2]"});
  ExpectRefused(CALL(aclnnDynamicQuantV3, x, nullptr, nullptr, 2, true, "perhead", y, step, nullptr), 161002,
                {"quantMode is \"perhead\""});
  // A symmetric step has no offset to write.
  ApiTensor offset(DType::kF32, {2});
  ExpectRefused(CALL(aclnnDynamicQuantV3, x, nullptr, nullptr, 2, true, "pertoken", y, step, offset), 161002,
                {"offsetOut is given", "isSymmetrical is true"});
  ExpectRefused(CALL(aclnnDynamicQuantV3, x, nullptr, nullptr, 2, false, "pertoken", y, step, nullptr),
                161002, {"offsetOut is null", "isSymmetrical is false"});
  ASSERT_EQ(CALL(aclnnDynamicQuantV3, x, nullptr, nullptr, 2, true, "pertensor", y, one, nullptr), 0)
      << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{0, 0, 0, 32, 64, -127}));
}

// Rows by the scales of their groups, some of which have no rows.
TEST_F(Quantised, Groups) {
  for (int round = 0; round < 24; ++round) {
    const int64_t rows = rng_.Int(1, 30), n = rng_.Int(1, 40), groups = rng_.Int(1, 5);
    const DType t = round % 2 ? DType::kF16 : DType::kBF16;
    RandomTensor x(t, {rows, n}, rng_, round % 3 == 1);
    ApiTensor table(t, {groups, n}, &rng_, round % 4 == 1), ends(DType::kS32, {groups}), offset(t, {1}),
        y(DType::kS8, {rows, n}, &rng_, round % 5 == 1), step(DType::kF32, {rows});
    table.memory().FillRandom(rng_, 0.5, 8), offset.Set({3});
    std::vector<double> last;
    for (int64_t g = 0, at = 0; g < groups; ++g) {
      at = g + 1 == groups ? rows : rng_.Int(at, rows);
      last.push_back(static_cast<double>(at));
    }
    ends.Set(last);
    const auto factors = table.Get();
    const auto group = [&](int64_t r) {
      size_t g = 0;
      while (last[g] <= static_cast<double>(r)) ++g;
      return static_cast<int64_t>(g);
    };
    const auto value = [&](int64_t r, int64_t i) {
      return x[r * n + i] * factors[static_cast<size_t>(group(r) * n + i)];
    };
    const bool shift = round % 3 == 0;
    ASSERT_EQ(CALL(aclnnGroupQuant, x, table, ends, OrNull(shift, offset), 2, y), 0) << aclGetRecentErrMsg();
    ExpectSteps(y.Get(), Make({rows, n}, [&](const Index& i) { return value(i[0], i[1]) + (shift ? 3 : 0); }),
                std::nearbyint, -128, 127, "groups");
    ASSERT_EQ(CALL(aclnnDynamicQuantV2, x, table, ends, 2, y, step, nullptr), 0) << aclGetRecentErrMsg();
    std::vector<double> steps, near;
    for (int64_t r = 0; r < rows; ++r) {
      double most = 0;
      for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(value(r, i)));
      steps.push_back(most / 127), near.push_back(most * 0x1p-23);
    }
    EXPECT_EQ(Compare(step.Get(), steps, near), "");
    ExpectGuards({&x, &table, &y, &step});
  }
  ApiTensor x(DType::kF32, {2, 3}), table(DType::kF32, {2, 4}), ends(DType::kS32, {2}), y(DType::kS8, {2, 3});
  ExpectRefused(CALL(aclnnGroupQuant, x, table, ends, nullptr, 2, y), 161002,
                {"scale has shape [2,4]", "[2,3]"});
}

}  // namespace
}  // namespace opsnn::capi
