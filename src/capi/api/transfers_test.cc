// Copies in batches, by descriptor and with offsets; reductions; registered and shared memory.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/half.h"
#include "capi/api_tester.h"
#include "runtime/check.h"

namespace opsnn::capi {
namespace {

class TransferTest : public ApiTest {
 protected:
  static constexpr size_t kBytes = 256;
  void SetUp() override {
    ApiTest::SetUp();
    for (void** p : {&a_, &b_}) ASSERT_EQ(aclrtMalloc(p, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    std::memset(a_, 0, kBytes);
    std::iota(host_, host_ + kBytes, static_cast<char>(1));
  }
  void TearDown() override {
    for (void* p : {a_, b_}) EXPECT_EQ(aclrtFree(p), 0);
    ApiTest::TearDown();
  }
  static aclrtMemcpyBatchAttr Way(aclrtMemLocationType from, aclrtMemLocationType to) {
    aclrtMemcpyBatchAttr a{};
    a.srcLoc.type = from;
    a.dstLoc.type = to;
    return a;
  }
  void *a_ = nullptr, *b_ = nullptr;
  char host_[kBytes] = {}, back_[kBytes] = {};
};

TEST_F(TransferTest, Batches) {
  const auto up = Way(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE);
  const auto down = Way(ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_LOCATION_TYPE_HOST);
  aclrtMemcpyBatchAttr attributes[] = {up, up};
  void* dsts[] = {a_, static_cast<char*>(a_) + 100, static_cast<char*>(a_) + 200};
  void* srcs[] = {host_, host_ + 100, host_ + 200};
  size_t sizes[] = {100, 0, 56}, rooms[] = {100, 100, 56}, firsts[] = {0, 2}, fail = 7;
  EXPECT_EQ(aclrtMemcpyBatch(dsts, rooms, srcs, sizes, 3, attributes, firsts, 2, &fail), 0);
  EXPECT_EQ(fail, SIZE_MAX);
  EXPECT_EQ(std::memcmp(a_, host_, 100), 0);
  EXPECT_EQ(std::memcmp(dsts[2], host_ + 200, 56), 0);
  EXPECT_EQ(static_cast<char*>(a_)[100], 0);
  sizes[1] = 100;
  void* backs[] = {back_, back_ + 100, back_ + 200};
  attributes[0] = attributes[1] = down;
  EXPECT_EQ(aclrtMemcpyBatchV2(srcs, rooms, dsts, sizes, 3, attributes, firsts, 1), 0);
  EXPECT_EQ(aclrtMemcpyBatchAsync(backs, rooms, dsts, sizes, 3, attributes, firsts, 2, &fail, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(std::memcmp(back_, a_, kBytes), 0);
  EXPECT_EQ(aclrtMemcpyBatchAsyncV2(backs, rooms, dsts, sizes, 3, attributes, firsts, 2, stream_), 0);

  attributes[1] = up;
  ExpectRefused(aclrtMemcpyBatch(backs, rooms, dsts, sizes, 3, attributes, firsts, 2, &fail),
                ACL_ERROR_INVALID_PARAM, {"attrs[1]", "another direction"});
  EXPECT_EQ(fail, 2u);
  attributes[0] = Way(ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_HOST);
  ExpectRefused(aclrtMemcpyBatch(backs, rooms, dsts, sizes, 3, attributes, firsts, 2, &fail),
                ACL_ERROR_INVALID_PARAM, {"attrs[0]", "host to device"});
  attributes[0] = attributes[1] = down;
  sizes[1] = 101;
  ExpectRefused(aclrtMemcpyBatch(backs, rooms, dsts, sizes, 3, attributes, firsts, 2, &fail),
                ACL_ERROR_INVALID_PARAM, {"count is 101"});
  EXPECT_EQ(fail, 1u);
  firsts[1] = 3;
  ExpectRefused(aclrtMemcpyBatchV2(backs, rooms, dsts, sizes, 3, attributes, firsts, 2),
                ACL_ERROR_INVALID_PARAM, {"attrsIndexes"});
  ExpectRefused(aclrtMemcpyBatchV2(backs, rooms, dsts, sizes, 3, attributes, firsts, 4),
                ACL_ERROR_INVALID_PARAM, {"numAttrs 4"});
  ExpectRefused(aclrtMemcpyBatchV2(backs, rooms, nullptr, sizes, 3, attributes, firsts, 2),
                ACL_ERROR_INVALID_PARAM, {"null"});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
}

TEST_F(TransferTest, DescriptorsAndOffsets) {
  constexpr aclrtMemcpyKind kInner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
  size_t size = 0;
  void* descriptor = nullptr;
  ASSERT_EQ(aclrtGetMemcpyDescSize(kInner, &size), 0);
  ASSERT_EQ(aclrtMalloc(&descriptor, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  std::memcpy(a_, host_, kBytes);
  std::memset(descriptor, 0, size);
  ASSERT_EQ(aclrtMemcpyAsyncWithDesc(descriptor, kInner, stream_), 0);
  ExpectRefused(aclrtSynchronizeStream(stream_), 161002, {"not written by aclrtSetMemcpyDesc"});
  ASSERT_EQ(aclrtSetMemcpyDesc(descriptor, kInner, a_, b_, kBytes, nullptr), 0);
  ASSERT_EQ(aclrtMemcpyAsyncWithDesc(descriptor, kInner, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(std::memcmp(a_, b_, kBytes), 0);
  ExpectRefused(aclrtSetMemcpyDesc(descriptor, kInner, a_, b_, kBytes + 100, nullptr),
                ACL_ERROR_INVALID_PARAM, {"aclrtSetMemcpyDesc", "256"});
  ExpectRefused(aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &size), ACL_ERROR_INVALID_PARAM,
                {"kind is 1"});

  // The addresses are read when the copy runs.
  auto** to = static_cast<void**>(descriptor);
  const auto** from = const_cast<const void**>(to + 1);
  *to = nullptr, *from = nullptr;
  ASSERT_EQ(aclrtMemcpyAsyncWithOffset(to, 16, 4, from, 8, 100, kInner, stream_), 0);
  *to = b_, *from = a_;
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(std::memcmp(static_cast<char*>(b_) + 4, static_cast<char*>(a_) + 100, 8), 0);
  ExpectRefused(aclrtMemcpyAsyncWithOffset(to, 7, 0, from, 8, 0, kInner, stream_), ACL_ERROR_INVALID_PARAM,
                {"destMax", "7"});
  EXPECT_EQ(aclrtFree(descriptor), 0);
}

TEST_F(TransferTest, Reductions) {
  auto *x = static_cast<float*>(a_), *y = static_cast<float*>(b_);
  for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(i), y[i] = 4;
  ASSERT_EQ(aclrtReduceAsync(x, y, 32, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT, stream_, nullptr), 0);
  ASSERT_EQ(aclrtReduceAsync(x, y, 32, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream_, nullptr), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(x[i], static_cast<float>(std::max(i, 4) + 4));
  for (int swapped = 0; swapped < 2; ++swapped) {  // NaN on either side
    x[0] = swapped ? 1.0f : NAN, y[0] = swapped ? NAN : 1.0f;
    x[1] = -INFINITY, y[1] = INFINITY;
    ASSERT_EQ(aclrtReduceAsync(x, y, 8,
                               swapped ? ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX : ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN,
                               ACL_FLOAT, stream_, nullptr),
              0);
    ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
    EXPECT_TRUE(std::isnan(x[0]));
    EXPECT_EQ(x[1], swapped ? INFINITY : -INFINITY);
  }
  auto *p = static_cast<int8_t*>(a_), *q = static_cast<int8_t*>(b_);
  p[0] = 100, q[0] = 100, p[1] = -3, q[1] = 2;
  ASSERT_EQ(aclrtReduceAsync(p, q, 2, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream_, nullptr), 0);
  ASSERT_EQ(aclrtReduceAsync(p + 1, q + 1, 1, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, ACL_INT8, stream_, nullptr),
            0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(p[0], 127);
  EXPECT_EQ(p[1], -1);
  ExpectRefused(aclrtReduceAsync(x, y, 33, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream_, nullptr),
                ACL_ERROR_INVALID_PARAM, {"33 bytes", "elements of 4"});
  ExpectRefused(aclrtReduceAsync(x, y, 32, ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL, ACL_FLOAT, stream_, nullptr),
                ACL_ERROR_INVALID_PARAM, {"kind is 13"});
  ExpectRefused(aclrtReduceAsync(x, y, 32, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT64, stream_, nullptr),
                ACL_ERROR_INVALID_PARAM, {"type is"});
  EXPECT_EQ(aclrtCmoAsync(x, 32, ACL_RT_CMO_TYPE_PREFETCH, stream_), 0);
  ExpectRefused(aclrtCmoAsync(x, 32, ACL_RT_CMO_TYPE_FLUSH, stream_), ACL_ERROR_INVALID_PARAM,
                {"cmoType is 3"});
}

TEST_F(TransferTest, RegisteredMemory) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(std::aligned_alloc(kPage, 2 * kPage));
  void* device = nullptr;
  ASSERT_EQ(aclrtHostRegister(pages, kPage, ACL_HOST_REGISTER_MAPPED, &device), 0);
  EXPECT_EQ(device, pages);
  ExpectRefused(aclrtHostRegister(pages, 2 * kPage, ACL_HOST_REGISTER_MAPPED, &device),
                ACL_ERROR_INVALID_PARAM, {"registered already"});
  ExpectRefused(aclrtHostRegister(pages + 64, 64, ACL_HOST_REGISTER_MAPPED, &device), ACL_ERROR_INVALID_PARAM,
                {"multiples of 4096"});
  ExpectRefused(aclrtHostRegister(pages + kPage, 64, ACL_HOST_REGISTER_READONLY, &device),
                ACL_ERROR_INVALID_PARAM, {"type is 8"});
  ASSERT_EQ(aclrtHostRegisterV2(pages + kPage, kPage, ACL_HOST_REG_PINNED), 0);
  ExpectRefused(aclrtHostGetDevicePointer(pages + kPage, &device, 0), ACL_ERROR_INVALID_PARAM, {"mapped"});
  ASSERT_EQ(aclrtHostGetDevicePointer(pages, &device, 0), 0);
  EXPECT_EQ(device, pages);
  // To the checker it is device memory for as long as it is registered.
  runtime::TakeFindings();
  runtime::check_modes = runtime::kCheckMemory;
  EXPECT_EQ(aclrtMemcpy(pages, 64, host_, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  EXPECT_TRUE(runtime::TakeFindings().empty());
  EXPECT_EQ(aclrtHostUnregister(pages), 0);
  EXPECT_EQ(aclrtMemcpy(pages, 64, host_, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  EXPECT_EQ(runtime::TakeFindings().size(), 1u);
  runtime::check_modes = 0;
  EXPECT_EQ(aclrtHostUnregister(pages + kPage), 0);
  ExpectRefused(aclrtHostUnregister(pages), ACL_ERROR_INVALID_PARAM, {"not registered"});
  std::free(pages);
}

TEST_F(TransferTest, SharedInsideTheProcess) {
  char key[65];
  void* same = nullptr;
  ASSERT_EQ(aclrtIpcMemGetExportKey(a_, kBytes, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT), 0);
  ExpectRefused(aclrtIpcMemImportByKey(&same, key, 0), ACL_ERROR_INVALID_PARAM, {"aclrtIpcMemSetImportPid"});
  int32_t self = 0;
  ASSERT_EQ(aclrtDeviceGetBareTgid(&self), 0);
  EXPECT_EQ(self, getpid());
  ASSERT_EQ(aclrtIpcMemSetImportPid(key, &self, 1), 0);
  ASSERT_EQ(aclrtIpcMemImportByKey(&same, key, 0), 0);
  EXPECT_EQ(same, a_);
  EXPECT_EQ(aclrtIpcMemClose(key), 0);
  ExpectRefused(aclrtIpcMemImportByKey(&same, key, 0), ACL_ERROR_INVALID_PARAM, {"this process"});
  ExpectRefused(aclrtIpcMemGetExportKey(host_, 8, key, sizeof key, 0), ACL_ERROR_INVALID_PARAM,
                {"no device memory"});
  // Memory that was freed since is not handed out.
  void* gone = nullptr;
  ASSERT_EQ(aclrtMallocForTaskScheduler(&gone, 64, ACL_MEM_MALLOC_HUGE_FIRST, nullptr), 0);
  ASSERT_EQ(
      aclrtIpcMemGetExportKey(gone, 64, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION),
      0);
  ASSERT_EQ(aclrtIpcMemImportByKey(&same, key, 0), 0);
  ASSERT_EQ(aclrtFree(gone), 0);
  ExpectRefused(aclrtIpcMemImportByKey(&same, key, 0), ACL_ERROR_INVALID_PARAM, {"no live memory"});

  uint32_t result = 0;
  void* list[] = {a_, host_};
  EXPECT_EQ(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_DEV, &result, 0), 0);
  EXPECT_EQ(result, 1u);
  EXPECT_EQ(aclrtCheckMemType(list, 2, ACL_RT_MEM_TYPE_DEV, &result, 0), 0);
  EXPECT_EQ(result, 0u);
}

}  // namespace
}  // namespace opsnn::capi
