// y = relu(x w + bias) in three calls and in one; docs/tutorial.md goes through it.
//   g++ matmul_bias_act.cc -I P/include -L P/lib64 -lascendcl -lnnopbase -lopapi
#include <cmath>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_fused_matmul.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_relu.h"
#include "common.h"

namespace {

constexpr int64_t kM = 48, kK = 64, kN = 80;

// Multiples of 1/8: sums are exact whatever their order.
std::vector<float> Values(int64_t count, int64_t period) {
  std::vector<float> v(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    v[static_cast<size_t>(i)] = static_cast<float>(i * 37 % period - period / 2) / 8;
  return v;
}

std::vector<float> Expected(const std::vector<float>& x, const std::vector<float>& w,
                            const std::vector<float>& bias) {
  std::vector<float> y(kM * kN);
  for (int64_t i = 0; i < kM * kN; ++i) {
    double sum = bias[static_cast<size_t>(i % kN)];
    for (int64_t k = 0; k < kK; ++k)
      sum += double{x[static_cast<size_t>(i / kN * kK + k)]} * w[static_cast<size_t>(k * kN + i % kN)];
    y[static_cast<size_t>(i)] = static_cast<float>(sum > 0 ? sum : 0);
  }
  return y;
}

}  // namespace

int main() {
  const Device device;
  int wrong = 0;
  {
    DeviceTensor x({kM, kK}), w({kK, kN}), bias({kN}), product({kM, kN}), sum({kM, kN}), y({kM, kN});
    const std::vector<float> x_values = Values(kM * kK, 23), w_values = Values(kK * kN, 19),
                             b_values = Values(kN, 9);
    x.Upload(x_values), w.Upload(w_values), bias.Upload(b_values);
    const std::vector<float> want = Expected(x_values, w_values, b_values);
    const int8_t keep_dtype = 0;

    // Three calls: the product and the sum go through memory.
    float one = 1;
    aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
    RUN(aclnnMm, x.tensor, w.tensor, product.tensor, keep_dtype);
    RUN(aclnnAdd, product.tensor, bias.tensor, alpha, sum.tensor);
    RUN(aclnnRelu, sum.tensor, y.tensor);
    Check(aclDestroyScalar(alpha), "aclDestroyScalar");
    wrong += y.Download() != want;

    // One call: bias and activation act on the product while it is on chip.
    y.Upload(std::vector<float>(kM * kN, -1));
    RUN(aclnnFusedMatmul, x.tensor, w.tensor, bias.tensor, nullptr, "relu", keep_dtype, y.tensor);
    wrong += y.Download() != want;
    std::printf("matmul_bias_act: %lld x %lld values, three calls and one, %d wrong\n",
                static_cast<long long>(kM), static_cast<long long>(kN), wrong);
  }
  return wrong == 0 ? 0 : 1;
}
