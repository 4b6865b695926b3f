// What a small call costs: looking up handles, checks, the plan cache, the stream.
#include <benchmark/benchmark.h>

#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_relu.h"
#include "opsnn/ops_nn.h"

namespace {

struct Device {
  Device() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
  }
  aclrtStream stream = nullptr;
};

Device& TheDevice() {
  static Device device;
  return device;
}

aclTensor* MakeTensor(std::vector<int64_t> dims, std::vector<float>& data) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  data.assign(static_cast<size_t>(n), 1.0f);
  return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims.data(),
                         dims.size(), data.data());
}

void BM_CreateAndDestroyTensor(benchmark::State& state) {
  const int64_t dims[] = {16, 16};
  for (auto _ : state) {
    aclTensor* t = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    aclDestroyTensor(t);
  }
}
BENCHMARK(BM_CreateAndDestroyTensor);

// Both phases and the synchronisation, by number of elements.
void BM_Relu(benchmark::State& state) {
  Device& device = TheDevice();
  std::vector<float> xd, yd;
  aclTensor *x = MakeTensor({state.range(0)}, xd), *y = MakeTensor({state.range(0)}, yd);
  for (auto _ : state) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (aclnnReluGetWorkspaceSize(x, y, &size, &executor) ||
        aclnnRelu(nullptr, size, executor, device.stream) || aclrtSynchronizeStream(device.stream)) {
      state.SkipWithError(aclGetRecentErrMsg());
      break;
    }
  }
  aclDestroyTensor(x);
  aclDestroyTensor(y);
}
BENCHMARK(BM_Relu)->Arg(1)->Arg(256)->Arg(4096);

// What a call costs beside its arithmetic: both phases of 1,000 calls on 64 elements and one synchronisation.
void BM_ReluBatch(benchmark::State& state) {
  constexpr int kCalls = 1000;
  Device& device = TheDevice();
  const int64_t dims[] = {64};
  void *xd = nullptr, *yd = nullptr;
  aclrtMalloc(&xd, 256, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMalloc(&yd, 256, ACL_MEM_MALLOC_HUGE_FIRST);
  aclTensor* x = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, xd);
  aclTensor* y = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, yd);
  for (auto _ : state) {
    for (int i = 0; i < kCalls; ++i) {
      uint64_t size = 0;
      aclOpExecutor* executor = nullptr;
      if (aclnnReluGetWorkspaceSize(x, y, &size, &executor) ||
          aclnnRelu(nullptr, size, executor, device.stream)) {
        state.SkipWithError(aclGetRecentErrMsg());
        break;
      }
    }
    aclrtSynchronizeStream(device.stream);
  }
  state.SetItemsProcessed(state.iterations() * kCalls);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
  aclrtFree(xd);
  aclrtFree(yd);
}
BENCHMARK(BM_ReluBatch)->Unit(benchmark::kMicrosecond);

void BM_ReluPhaseOne(benchmark::State& state) {
  std::vector<float> xd, yd;
  aclTensor *x = MakeTensor({256}, xd), *y = MakeTensor({256}, yd);
  for (auto _ : state) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    aclnnReluGetWorkspaceSize(x, y, &size, &executor);
    aclDestroyAclOpExecutor(executor);
  }
  aclDestroyTensor(x);
  aclDestroyTensor(y);
}
BENCHMARK(BM_ReluPhaseOne);

void BM_SmallMatmul(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  std::vector<float> a(n * n, 1), b(n * n, 1), c(n * n);
  for (auto _ : state) asccl_matmul(a.data(), b.data(), c.data(), n, n, n);
}
BENCHMARK(BM_SmallMatmul)->Arg(4)->Arg(32);

}  // namespace
