// Deformable convolution against its definition; what it refuses.
#include <algorithm>
#include <cmath>
#include <memory>

#include "aclnnop/aclnn_convolution_backward.h"
#include "aclnnop/aclnn_deformable_conv2d.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

struct Case {
  int64_t groups = 1, shared = 1;  // shared: channels / deformableGroups
  int64_t top = 0, bottom = 0, left = 0, right = 0, sh = 1, sw = 1, dh = 1, dw = 1;
  Dims x, w, y;

  int64_t taps() const { return w[2] * w[3]; }
  int64_t deform_groups() const { return x[1] / shared; }
  Dims Offset() const { return {x[0], 3 * deform_groups() * taps(), y[2], y[3]}; }
  Dims Columns() const { return {x[0], x[1], y[2] * w[2], y[3] * w[3]}; }
};

Case RandomCase(Rng& rng) {
  Case k;
  const int64_t groups[] = {1, 1, 2, 3}, shared[] = {6, 6, 3, 2, 1};
  k.groups = groups[rng.Int(0, 3)], k.shared = shared[rng.Int(0, 4)];
  k.sh = rng.Int(1, 2), k.sw = rng.Int(1, 3), k.dh = rng.Int(1, 2), k.dw = rng.Int(1, 2);
  k.top = rng.Int(0, 2), k.bottom = rng.Int(0, 2), k.left = rng.Int(0, 2), k.right = rng.Int(0, 2);
  k.w = {k.groups * rng.Int(1, 4), 6 / k.groups, rng.Int(1, 3), rng.Int(1, 3)};
  k.x = {rng.Int(1, 2), 6, rng.Int(5, 8), rng.Int(5, 9)};
  k.y = {k.x[0], k.w[0], (k.x[2] + k.top + k.bottom - (k.w[2] - 1) * k.dh - 1) / k.sh + 1,
         (k.x[3] + k.left + k.right - (k.w[3] - 1) * k.dw - 1) / k.sw + 1};
  return k;
}

// Random halves of whole numbers from -range to range.
class Halves : public ApiTensor {
 public:
  Halves(DType t, const Dims& dims, Rng& rng, bool strided = false, int64_t range = 4)
      : ApiTensor(t, dims, &rng, strided) {
    values_ =
        Make(dims, [&](const Index&) { return static_cast<double>(rng.Int(-2 * range, 2 * range)) / 2; });
    Set(values_);
  }
  double operator()(const Index& at) const { return values_[static_cast<size_t>(Linear(dims(), at))]; }

 private:
  std::vector<double> values_;
};

// What is found for kernel position (i, j) of output pixel (oy, ox).
double Found(const Case& k, const Halves& x, const Halves& offset, int64_t n, int64_t c, int64_t oy,
             int64_t ox, int64_t i, int64_t j) {
  const int64_t all = k.deform_groups() * k.taps(), place = c / k.shared * k.taps() + i * k.w[3] + j;
  const double right = offset({n, place, oy, ox}), down = offset({n, all + place, oy, ox}),
               factor = offset({n, 2 * all + place, oy, ox});
  const double row = static_cast<double>(oy * k.sh - k.top + i * k.dh) + down,
               column = static_cast<double>(ox * k.sw - k.left + j * k.dw) + right;
  double value = 0;
  for (int64_t r = 0; r < k.x[2]; ++r)
    for (int64_t s = 0; s < k.x[3]; ++s) {
      const double share = std::max(0.0, 1 - std::abs(row - static_cast<double>(r))) *
                           std::max(0.0, 1 - std::abs(column - static_cast<double>(s)));
      if (share > 0) value += share * x({n, c, r, s});
    }
  return value * factor;
}

class DeformableConv : public ApiTest {
 protected:
  int Run(const Case& k, const ApiTensor& x, const ApiTensor& w, const ApiTensor& offset, aclTensor* bias,
          const ApiTensor& y, aclTensor* columns, bool modulated = true) {
    ApiInts kernel({k.w[2], k.w[3]}), stride({1, 1, k.sh, k.sw}), dilation({1, 1, k.dh, k.dw}),
        padding({k.top, k.bottom, k.left, k.right});
    return CALL(aclnnDeformableConv2d, x, w, offset, bias, kernel, stride, padding, dilation, k.groups,
                k.deform_groups(), modulated, y, columns);
  }
  Rng rng_;
};

// Every sum is exact in f32: the results differ by their own rounding alone.
TEST_F(DeformableConv, Definition) {
  for (int round = 0; round < 60; ++round) {
    const DType t = kFloats[round % 3];
    const Case k = RandomCase(rng_);
    Halves x(t, k.x, rng_, round % 3 == 1), w(t, k.w, rng_, round % 4 == 1),
        offset(t, k.Offset(), rng_, round % 5 == 1, 2), bias(t, {k.w[0]}, rng_, round % 2);
    ApiTensor y(t, k.y, &rng_, round % 3 == 2), columns(t, k.Columns(), &rng_, round % 4 == 2);
    const bool has_bias = rng_.Chance(0.7), has_columns = rng_.Chance(0.7);
    ASSERT_EQ(Run(k, x, w, offset, OrNull(has_bias, bias), y, OrNull(has_columns, columns)), 0)
        << aclGetRecentErrMsg();
    const std::vector<double> sampled = Make(k.Columns(), [&](const Index& at) {
      return Found(k, x, offset, at[0], at[1], at[2] / k.w[2], at[3] / k.w[3], at[2] % k.w[2],
                   at[3] % k.w[3]);
    });
    const std::vector<double> want = Make(k.y, [&](const Index& at) {
      double sum = has_bias ? bias({at[1]}) : 0;
      const int64_t per_group = k.w[1], first = at[1] / (k.w[0] / k.groups) * per_group;
      for (int64_t c = 0; c < per_group; ++c)
        for (int64_t i = 0; i < k.w[2]; ++i)
          for (int64_t j = 0; j < k.w[3]; ++j)
            sum += w({at[1], c, i, j}) *
                   sampled[static_cast<size_t>(
                       Linear(k.Columns(), {at[0], first + c, at[2] * k.w[2] + i, at[3] * k.w[3] + j}))];
      return sum;
    });
    const auto rounding = [t](const std::vector<double>& v) {
      std::vector<double> tolerance;
      for (double e : v) tolerance.push_back(std::abs(e) * testing::Epsilon(t));
      return tolerance;
    };
    EXPECT_EQ(Compare(y.Get(), want, rounding(want)), "") << Name(t);
    if (has_columns) {
      EXPECT_EQ(Compare(columns.Get(), sampled, rounding(sampled)), "") << Name(t);
    }
    ExpectGuards({&x, &w, &offset, &bias, &y, &columns});
  }
}

// Halves give what the same values give in f32, rounded once; and wrong shapes are refused.
TEST_F(DeformableConv, BackwardOfHalvesAndRefusals) {
  Case k;
  k.groups = 2, k.shared = 3, k.top = k.left = 1, k.sw = 2;
  k.x = {2, 6, 6, 7}, k.w = {4, 3, 3, 2}, k.y = {2, 4, 5, 4};
  const Dims inputs[] = {k.x, k.y, k.Columns(), k.w, k.Offset()}, outputs[] = {k.x, k.w, k.Offset(), {4}};
  const auto run = [&](DType t, const std::vector<std::vector<double>>& values, const Dims& grad_bias,
                       std::vector<std::vector<double>>* results) {
    std::vector<std::unique_ptr<ApiTensor>> in, out;
    for (size_t i = 0; i < values.size(); ++i) {
      in.push_back(std::make_unique<ApiTensor>(t, inputs[i], &rng_));
      in.back()->Set(values[i]);
    }
    for (size_t i = 0; i < 4; ++i)
      out.push_back(std::make_unique<ApiTensor>(t, i == 3 ? grad_bias : outputs[i], &rng_, i % 2 == 1));
    ApiInts kernel({k.w[2], k.w[3]}), stride({1, 1, k.sh, k.sw}), dilation({1, 1, k.dh, k.dw}),
        padding({k.top, k.bottom, k.left, k.right});
    const int code =
        CALL(aclnnDeformableConv2dBackward, *in[0], *in[1], *in[2], *in[3], *in[4], kernel, stride, padding,
             dilation, k.groups, k.deform_groups(), true, *out[0], *out[1], *out[2], *out[3]);
    for (const auto& o : out) results->push_back(o->Get());
    return code;
  };
  std::vector<std::vector<double>> values;
  for (const Dims& d : inputs)
    values.push_back(Make(d, [&](const Index&) { return static_cast<double>(rng_.Int(-8, 8)) / 4; }));
  std::vector<std::vector<double>> want, none;
  ASSERT_EQ(run(DType::kF32, values, {4}, &want), 0) << aclGetRecentErrMsg();
  for (const DType t : {DType::kF16, DType::kBF16}) {
    std::vector<std::vector<double>> got;
    ASSERT_EQ(run(t, values, {4}, &got), 0) << aclGetRecentErrMsg();
    for (size_t i = 0; i < got.size(); ++i) {
      std::vector<double> tolerance;
      for (double v : want[i]) tolerance.push_back(std::abs(v) * testing::Epsilon(t));
      EXPECT_EQ(Compare(got[i], want[i], tolerance), "") << Name(t) << " " << i;
    }
  }
  ExpectRefused(run(DType::kF32, values, {5}, &none), 161002, {"gradBias", "[5]", "[4]"});
  k.groups = 4;
  ExpectRefused(run(DType::kF32, values, {4}, &none), 161002,
                {"groups", "4", "divisor of the 6 channels of input"});
}

TEST_F(DeformableConv, Refusals) {
  Case good;
  good.shared = 3;
  good.x = {1, 6, 5, 5}, good.w = {4, 6, 3, 3}, good.y = {1, 4, 3, 3};
  const auto run = [this](const Case& k, const Dims& offset, const Dims& bias, bool modulated = true,
                          DType w_dtype = DType::kF32, aclFormat bias_format = ACL_FORMAT_ND) {
    Halves x(DType::kF32, k.x, rng_), w(w_dtype, k.w, rng_), o(DType::kF32, offset, rng_);
    ApiTensor b(DType::kF32, bias, &rng_, false, bias_format), y(DType::kF32, k.y, &rng_);
    return Run(k, x, w, o, b, y, nullptr, modulated);
  };
  ASSERT_EQ(run(good, good.Offset(), {4}), 0) << aclGetRecentErrMsg();
  constexpr int kInvalid = 161002, kNull = 161001;
  ExpectRefused(run(good, good.Offset(), {5}), kInvalid, {"biasOptional", "[5]", "[4]"});
  ExpectRefused(run(good, {1, 36, 3, 3}, {4}), kInvalid, {"offset", "[1,36,3,3]", "[1,54,3,3]"});
  ExpectRefused(run(good, good.Offset(), {4}, false), kInvalid, {"modulated", "true"});
  ExpectRefused(run(good, good.Offset(), {4}, true, DType::kF16), kInvalid, {"weight", "f16", "f32"});
  ExpectRefused(run(good, good.Offset(), {4}, true, DType::kF32, ACL_FORMAT_NCHW), kInvalid,
                {"biasOptional", "ND"});
  Case k = good;
  k.y[3] = 4;
  ExpectRefused(run(k, good.Offset(), {4}), kInvalid, {"out", "[1,4,3,4]", "[1,4,3,3]"});
  k = good, k.groups = 4;
  ExpectRefused(run(k, k.Offset(), {4}), kInvalid, {"groups", "4", "divisor of the 6 channels"});
  k = good, k.sh = 0;
  ExpectRefused(run(k, k.Offset(), {4}), kInvalid, {"stride", "[1,1,0,1]"});
  k = good, k.dw = 0;
  ExpectRefused(run(k, k.Offset(), {4}), kInvalid, {"dilation", "[1,1,1,0]"});
  k = good, k.left = -1;
  ExpectRefused(run(k, k.Offset(), {4}), kInvalid, {"padding", "-1"});
  k = good, k.x[1] = 0, k.shared = 1;
  ExpectRefused(run(k, {1, 27, 3, 3}, {4}), kInvalid, {"deformableGroups"});
  k = good, k.x = {1, 1, 70, 70}, k.w = {1, 1, 64, 64}, k.shared = 1, k.y = {1, 1, 7, 7};
  ExpectRefused(run(k, k.Offset(), {1}), kInvalid, {"kernelSize", "2048"});

  Halves x(DType::kF32, good.x, rng_), w(DType::kF32, good.w, rng_);
  ApiTensor y(DType::kF32, good.y, &rng_);
  ApiInts three({3, 3}), ones({1, 1, 1, 1}), zeros({0, 0, 0, 0});
  ExpectRefused(
      CALL(aclnnDeformableConv2d, x, w, nullptr, nullptr, three, ones, zeros, ones, 1, 2, true, y, nullptr),
      kNull, {"offset"});
}

}  // namespace
}  // namespace opsnn::capi
