// c = relu(a * b) through the two-phase API.
//   g++ matmul_relu.cc -I P/include -L P/lib64 -lascendcl -lnnopbase -lopapi
#include <cmath>

#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_relu.h"
#include "common.h"

int main() {
  constexpr int64_t kM = 16, kN = 24, kK = 32;
  Check(aclInit(nullptr), "aclInit");
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  aclrtStream stream = nullptr;
  Check(aclrtCreateStream(&stream), "aclrtCreateStream");
  int wrong = 0;
  {
    DeviceTensor a({kM, kK}), b({kK, kN}), product({kM, kN}), result({kM, kN});
    std::vector<float> a_values(kM * kK), b_values(kK * kN);
    for (size_t i = 0; i < a_values.size(); ++i) a_values[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < b_values.size(); ++i) b_values[i] = static_cast<float>(i % 5) - 2;
    a.Upload(a_values);
    b.Upload(b_values);

    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const int8_t keep_dtype = 0;
    Check(aclnnMatmulGetWorkspaceSize(a.tensor, b.tensor, product.tensor, keep_dtype, &size, &executor),
          "aclnnMatmulGetWorkspaceSize");
    Workspace matmul_workspace(size);
    Check(aclnnMatmul(matmul_workspace.address, size, executor, stream), "aclnnMatmul");
    Check(aclnnReluGetWorkspaceSize(product.tensor, result.tensor, &size, &executor),
          "aclnnReluGetWorkspaceSize");
    Workspace relu_workspace(size);
    Check(aclnnRelu(relu_workspace.address, size, executor, stream), "aclnnRelu");
    Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");

    // Small whole numbers: the result is exact.
    const std::vector<float> got = result.Download();
    for (int64_t i = 0; i < kM * kN; ++i) {
      float want = 0;
      for (int64_t k = 0; k < kK; ++k) want += a_values[i / kN * kK + k] * b_values[k * kN + i % kN];
      if (want < 0) want = 0;
      if (got[i] != want) ++wrong;
    }
    std::printf("matmul_relu: %lld x %lld values, first %g, %d wrong\n", static_cast<long long>(kM),
                static_cast<long long>(kN), got[0], wrong);
  }
  Check(aclrtDestroyStream(stream), "aclrtDestroyStream");
  Check(aclrtResetDevice(0), "aclrtResetDevice");
  Check(aclFinalize(), "aclFinalize");
  return wrong == 0 ? 0 : 1;
}
