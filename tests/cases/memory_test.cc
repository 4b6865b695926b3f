// Case aclnn_api-07: nothing stays behind after a call. One library kept the workspace of every call.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_softmax.h"

namespace opsnn::cases {
namespace {

constexpr int64_t kMaxRows = 64, kMaxCols = 96;

// Resident bytes of the process.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

// One call of aclnnSoftmax in the usual style; every object is made and released.
void CallOnce(float* data, int64_t rows, int64_t cols, aclrtStream stream) {
  const int64_t dims[] = {rows, cols}, strides[] = {cols, 1};
  aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, data);
  aclTensor* y =
      aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, data + kMaxRows * kMaxCols);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(aclnnSoftmaxGetWorkspaceSize(x, 1, y, &size, &executor), ACL_SUCCESS);
  void* workspace = nullptr;
  if (size) {
    ASSERT_EQ(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  ASSERT_EQ(aclnnSoftmax(workspace, size, executor, stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  if (workspace) aclrtFree(workspace);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
}

TEST(MemoryOfCalls, StaysFlat) {
  aclInit(nullptr);
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, 2 * kMaxRows * kMaxCols * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST),
            ACL_SUCCESS);
  std::memset(block, 0, 2 * kMaxRows * kMaxCols * sizeof(float));
  // Every shape once and more, so that plans are made and caches are as full as they get.
  auto call = [&](int i) {
    CallOnce(static_cast<float*>(block), 1 + i % kMaxRows, i % 3 ? 77 : 1 + i % kMaxCols, stream);
  };
  for (int i = 0; i < 2000; ++i) call(i);
  const int64_t before = ResidentBytes();
  for (int i = 0; i < 10000; ++i) call(i);
  const int64_t growth = ResidentBytes() - before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these keep freed memory for a while
  EXPECT_LT(growth, 1 << 20);
#else
  std::printf("resident memory grew by %lld bytes\n", static_cast<long long>(growth));
#endif
  EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
}

}  // namespace
}  // namespace opsnn::cases
