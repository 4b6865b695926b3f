// aclnnQuantConvolution against loops in double.
#include <cmath>
#include <cstring>

#include "aclnnop/aclnn_quant_convolution.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class QuantConvolution : public ApiTest {
 protected:
  Rng rng_;
};

TEST_F(QuantConvolution, AgainstLoops) {
  for (int round = 0; round < 24; ++round) {
    const int axes = 2 + round % 2;
    const int64_t groups = rng_.Int(1, 2), n = rng_.Int(1, 2), c = groups * rng_.Int(1, 5),
                  m = groups * rng_.Int(1, 6);
    int64_t in[3] = {1, 1, 1}, k[3] = {1, 1, 1}, s[3] = {1, 1, 1}, p[3] = {0, 0, 0}, d[3] = {1, 1, 1}, out[3];
    Dims x_dims = {n, c}, w_dims = {m, c / groups}, y_dims = {n, m};
    std::vector<int64_t> strides, pads, dilations;
    for (int i = 0; i < 3; ++i) {
      if (i >= 3 - axes) {
        k[i] = rng_.Int(1, 3), d[i] = rng_.Int(1, 2), p[i] = rng_.Int(0, 2), s[i] = rng_.Int(1, 2);
        in[i] = rng_.Int((k[i] - 1) * d[i] + 1, 9);
        x_dims.push_back(in[i]), w_dims.push_back(k[i]);
        strides.push_back(s[i]), pads.push_back(p[i]), dilations.push_back(d[i]);
      }
      out[i] = (in[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) / s[i] + 1;
      if (i >= 3 - axes) y_dims.push_back(out[i]);
    }
    const DType t = kFloats[round % 3];
    const bool with_bias = round % 4 != 0, packed = round % 5 == 0;
    ApiTensor x(DType::kS8, x_dims, &rng_, round % 3 == 1), w(DType::kS8, w_dims, &rng_, round % 3 == 2),
        scale(packed ? DType::kS64 : DType::kF32, {m}), y(t, y_dims, &rng_, round % 4 == 1);
    RandomTensor bias(round % 2 ? DType::kF32 : t, {m}, rng_);
    x.memory().FillRandom(rng_, -128, 127), w.memory().FillRandom(rng_, -128, 127);
    std::vector<double> scales, words;
    for (int64_t i = 0; i < m; ++i) {
      const auto f = static_cast<float>(std::exp2(static_cast<double>(-rng_.Int(6, 12))));
      uint32_t word;
      std::memcpy(&word, &f, sizeof(word));
      scales.push_back(f), words.push_back(word);
    }
    scale.Set(packed ? words : scales);
    ApiInts stride(strides), pad(pads), dilation(dilations);
    ASSERT_EQ(CALL(aclnnQuantConvolution, x, w, OrNull(with_bias, bias), scale, nullptr, stride, pad,
                   dilation, false, nullptr, groups, 0, round % 2 ? "rint" : nullptr, y),
              0)
        << aclGetRecentErrMsg();
    const auto xs = x.Get(), ws = w.Get();
    std::vector<double> want, tolerance;
    const int64_t plane = out[0] * out[1] * out[2], depth = c / groups;
    for (int64_t i = 0; i < n * m * plane; ++i) {
      const int64_t o = i / plane % m, image = i / plane / m, group = o / (m / groups);
      const int64_t at[3] = {i / (out[1] * out[2]) % out[0], i / out[2] % out[1], i % out[2]};
      double sum = 0;
      for (int64_t q = 0; q < depth * k[0] * k[1] * k[2]; ++q) {
        const int64_t tap[3] = {q / (k[1] * k[2]) % k[0], q / k[2] % k[1], q % k[2]},
                      channel = q / (k[0] * k[1] * k[2]);
        int64_t from = (image * c + group * depth + channel);
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
          const int64_t v = at[a] * s[a] - p[a] + tap[a] * d[a];
          inside = inside && v >= 0 && v < in[a];
          from = from * in[a] + v;
        }
        if (inside)
          sum += xs[static_cast<size_t>(from)] * ws[static_cast<size_t>(o * depth * k[0] * k[1] * k[2] + q)];
      }
      want.push_back(sum * scales[static_cast<size_t>(o)] + (with_bias ? bias[o] : 0));
      tolerance.push_back(std::abs(want.back()) * testing::Epsilon(t) + 0x1p-20 * (1 + std::abs(sum)));
    }
    EXPECT_EQ(Compare(y.Get(), want, tolerance), "") << Name(t) << axes;
    ExpectGuards({&x, &w, &scale, &bias, &y});
  }
}

TEST_F(QuantConvolution, Refusals) {
  ApiTensor x(DType::kS8, {1, 2, 4, 4}), w(DType::kS8, {3, 2, 3, 3}), scale(DType::kF32, {3}),
      two(DType::kF32, {2}), y(DType::kF16, {1, 3, 2, 2}), wrong(DType::kF16, {1, 3, 4, 4}),
      large(DType::kS8, {3, 2, 7, 7});
  ApiInts one({1, 1}), none({0, 0});
  const auto call = [&](aclTensor* weight, aclTensor* scales, aclTensor* out, bool transposed, int offset) {
    return CALL(aclnnQuantConvolution, x, weight, nullptr, scales, nullptr, one, none, one, transposed,
                nullptr, 1, offset, nullptr, out);
  };
  EXPECT_EQ(call(w, scale, y, false, 0), 0) << aclGetRecentErrMsg();
  ExpectRefused(call(w, scale, y, true, 0), 161002, {"transposed is true"});
  ExpectRefused(call(w, scale, y, false, 3), 561003, {"offsetx is 3"});
  ExpectRefused(call(w, two, y, false, 0), 161002, {"scale has shape [2]", "[3]"});
  ExpectRefused(call(w, scale, wrong, false, 0), 161002, {"output has shape [1,3,4,4]", "[1,3,2,2]"});
  ExpectRefused(call(large, scale, y, false, 0), 161002, {"weight is of shape [3,2,7,7]", "[1,2,4,4]"});
}

}  // namespace
}  // namespace opsnn::capi
