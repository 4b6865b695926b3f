// Runtime functions, objects and handles of the C API.
#include <cmath>
#include <cstring>
#include <thread>

#include "capi/api_tester.h"
#include "capi/listing.h"

namespace opsnn::capi {
namespace {

constexpr int kNull = 161001, kInvalid = 161002;

TEST_F(ApiTest, InitMayBeRepeated) {
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_EQ(aclnnInit(nullptr), 0);
  EXPECT_EQ(aclnnFinalize(), 0);
  ExpectRefused(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE, {"aclInit", "/no/such/file.json"});
}

TEST_F(ApiTest, DevicesAndContexts) {
  int32_t device = -1;
  EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
  EXPECT_EQ(device, 0);
  uint32_t count = 0;
  EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
  EXPECT_GE(count, 1u);
  ExpectRefused(aclrtSetDevice(static_cast<int32_t>(count)), ACL_ERROR_RT_INVALID_DEVICEID,
                {"aclrtSetDevice", "deviceId is", "allowed: 0 to"});
  aclrtContext context = nullptr, current = nullptr;
  EXPECT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
  EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
  EXPECT_EQ(current, context);
  EXPECT_EQ(aclrtSetCurrentContext(context), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
  ExpectRefused(aclrtDestroyContext(context), ACL_ERROR_RT_CONTEXT_NULL,
                {"aclrtDestroyContext", "destroyed already"});
  ExpectRefused(aclrtSetCurrentContext(context), ACL_ERROR_RT_CONTEXT_NULL, {"aclrtSetCurrentContext"});
  EXPECT_NE(aclrtGetSocName(), nullptr);
}

TEST_F(ApiTest, MemoryRoundTrip) {
  void* d = nullptr;
  ASSERT_EQ(aclrtMalloc(&d, 100, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(d) % 128, 0u);
  std::vector<char> in(100), out(100);
  for (int i = 0; i < 100; ++i) in[i] = static_cast<char>(i);
  EXPECT_EQ(aclrtMemcpy(d, 100, in.data(), 100, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpy(out.data(), 100, d, 100, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  EXPECT_EQ(in, out);
  EXPECT_EQ(aclrtMemsetAsync(d, 100, 7, 50, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpyAsync(out.data(), 100, d, 100, ACL_MEMCPY_DEVICE_TO_HOST, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(out[49], 7);
  EXPECT_EQ(out[50], 50);

  ExpectRefused(aclrtMemcpy(d, 10, in.data(), 11, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM,
                {"aclrtMemcpy", "count is 11", "destMax", "10"});
  ExpectRefused(aclrtMemcpy(d, 4000, in.data(), 4000, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM,
                {"dst has 100 bytes left", "4000"});
  ExpectRefused(aclrtMemcpy(nullptr, 10, in.data(), 10, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM,
                {"dst is null"});
  ExpectRefused(aclrtMemcpy(d, 10, in.data(), 10, static_cast<aclrtMemcpyKind>(99)), ACL_ERROR_INVALID_PARAM,
                {"kind is 99", "allowed: 0 to 7"});
  ExpectRefused(aclrtMemset(d, 10, 0, 11), ACL_ERROR_INVALID_PARAM, {"aclrtMemset", "11", "10"});
  EXPECT_EQ(aclrtFree(d), ACL_SUCCESS);
  ExpectRefused(aclrtFree(d), ACL_ERROR_INVALID_PARAM, {"aclrtFree", "not the start of a live allocation"});
  ExpectRefused(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM, {"aclrtFree", "null"});
  ExpectRefused(aclrtMalloc(&d, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, {"aclrtMalloc", "0"});
  ExpectRefused(aclrtMalloc(&d, size_t{1} << 60, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION,
                {"aclrtMalloc", "1152921504606846976", "limit"});
  EXPECT_EQ(d, nullptr);
}

TEST_F(ApiTest, Memcpy2d) {
  char src[6] = {1, 2, 3, 4, 5, 6}, dst[8] = {};
  EXPECT_EQ(aclrtMemcpy2d(dst, 4, src, 3, 2, 2, ACL_MEMCPY_HOST_TO_HOST), ACL_SUCCESS);
  const char want[8] = {1, 2, 0, 0, 4, 5, 0, 0};
  EXPECT_EQ(std::memcmp(dst, want, 8), 0);
  // (2^63 + 1) * 2 + 2 is 4 in 64 bits.
  const size_t half = size_t{1} << 63;
  ExpectRefused(aclrtMemcpy2d(dst, half + 1, src, 3, 2, 3, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM,
                {"aclrtMemcpy2d", "height is 3", "9223372036854775809"});
  ExpectRefused(aclrtMemcpy2d(dst, 3, src, half, 2, 3, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM,
                {"aclrtMemcpy2d", "height is 3"});
  ExpectRefused(aclrtMemsetD32(dst, SIZE_MAX, 0, half), ACL_ERROR_INVALID_PARAM, {"aclrtMemsetD32"});
  ExpectRefused(aclrtMemcpy2d(dst, 1, src, 3, 2, 2, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM,
                {"width is 2", "dpitch (1)"});
}

TEST_F(ApiTest, StreamsAndEvents) {
  aclrtStream other = nullptr;
  aclrtEvent start = nullptr, end = nullptr;
  ASSERT_EQ(aclrtCreateStream(&other), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateEvent(&start), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateEvent(&end), ACL_SUCCESS);
  int value = 0;
  struct Work {
    int* value;
    int set;
  };
  Work first{&value, 1}, second{&value, 2};
  auto set = [](void* p) { *static_cast<Work*>(p)->value = static_cast<Work*>(p)->set; };
  EXPECT_EQ(aclrtRecordEvent(start, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtLaunchHostFunc(stream_, set, &first), ACL_SUCCESS);
  EXPECT_EQ(aclrtRecordEvent(end, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtStreamWaitEvent(other, end), ACL_SUCCESS);
  EXPECT_EQ(aclrtLaunchHostFunc(other, set, &second), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(other), ACL_SUCCESS);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(aclrtSynchronizeEvent(end), ACL_SUCCESS);
  float ms = -1;
  EXPECT_EQ(aclrtEventElapsedTime(&ms, start, end), ACL_SUCCESS);
  EXPECT_GE(ms, 0);
  aclrtEventRecordedStatus status;
  EXPECT_EQ(aclrtQueryEventStatus(end, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT_EQ(aclrtDestroyEvent(start), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(end), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(other), ACL_SUCCESS);
  ExpectRefused(aclrtDestroyEvent(end), ACL_ERROR_RT_INVALID_HANDLE,
                {"aclrtDestroyEvent", "destroyed already"});
  ExpectRefused(aclrtDestroyStream(other), ACL_ERROR_RT_INVALID_HANDLE, {"aclrtDestroyStream"});
  ExpectRefused(aclrtSynchronizeStream(other), ACL_ERROR_RT_INVALID_HANDLE, {"aclrtSynchronizeStream"});
  ExpectRefused(aclrtRecordEvent(nullptr, stream_), ACL_ERROR_INVALID_PARAM,
                {"aclrtRecordEvent", "event is null"});
}

TEST_F(ApiTest, TensorDescribesItself) {
  const int64_t dims[] = {2, 3}, strides[] = {1, 2}, storage[] = {3, 2};
  aclTensor* t = aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 5, ACL_FORMAT_NCHW, storage, 2, nullptr);
  ASSERT_NE(t, nullptr);
  int64_t* got = nullptr;
  uint64_t n = 0;
  EXPECT_EQ(aclGetViewShape(t, &got, &n), 0);
  EXPECT_EQ(std::vector<int64_t>(got, got + n), (std::vector<int64_t>{2, 3}));
  delete[] got;
  EXPECT_EQ(aclGetViewStrides(t, &got, &n), 0);
  EXPECT_EQ(std::vector<int64_t>(got, got + n), (std::vector<int64_t>{1, 2}));
  delete[] got;
  EXPECT_EQ(aclGetStorageShape(t, &got, &n), 0);
  EXPECT_EQ(std::vector<int64_t>(got, got + n), (std::vector<int64_t>{3, 2}));
  delete[] got;
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(t, &offset), 0);
  EXPECT_EQ(offset, 5);
  aclFormat format;
  EXPECT_EQ(aclGetFormat(t, &format), 0);
  EXPECT_EQ(format, ACL_FORMAT_NCHW);
  aclDataType type;
  EXPECT_EQ(aclGetDataType(t, &type), 0);
  EXPECT_EQ(type, ACL_FLOAT16);
  int x = 0;
  EXPECT_EQ(aclSetRawTensorAddr(t, &x), 0);
  void* address = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(t, &address), 0);
  EXPECT_EQ(address, &x);
  EXPECT_EQ(aclInitTensor(t, dims, 1, ACL_INT32, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr), 0);
  EXPECT_EQ(aclGetViewStrides(t, &got, &n), 0);
  EXPECT_EQ(n, 1u);
  EXPECT_EQ(got[0], 1);
  delete[] got;
  EXPECT_EQ(aclDestroyTensor(t), 0);
  ExpectRefused(aclDestroyTensor(t), kInvalid, {"aclDestroyTensor", "destroyed already"});
  ExpectRefused(aclGetDataType(t, &type), kInvalid, {"aclGetDataType", "destroyed already"});
  EXPECT_EQ(aclDestroyTensor(nullptr), 0);
}

TEST_F(ApiTest, BadTensorsAreNull) {
  const int64_t dims[] = {2, -3};
  EXPECT_EQ(aclCreateTensor(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr), nullptr);
  ExpectRefused(0, 0, {"aclCreateTensor", "viewDims is null"});
  EXPECT_EQ(aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr), nullptr);
  ExpectRefused(0, 0, {"viewDims[1] is -3"});
  EXPECT_EQ(aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, -1, ACL_FORMAT_ND, dims, 1, nullptr), nullptr);
  ExpectRefused(0, 0, {"offset is -1"});
  EXPECT_EQ(aclCreateScalar(nullptr, ACL_FLOAT), nullptr);
  EXPECT_EQ(aclCreateIntArray(nullptr, 3), nullptr);
}

TEST_F(ApiTest, ListsOwnTheirMembers) {
  const int64_t dims[] = {2};
  aclTensor* a = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
  aclTensor* b = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
  const aclTensor* members[] = {a, b};
  aclTensorList* list = aclCreateTensorList(members, 2);
  uint64_t n = 0;
  EXPECT_EQ(aclGetTensorListSize(list, &n), 0);
  EXPECT_EQ(n, 2u);
  EXPECT_EQ(aclDestroyTensorList(list), 0);
  ExpectRefused(aclDestroyTensor(a), kInvalid, {"destroyed already"});
  ExpectRefused(aclDestroyTensorList(list), kInvalid, {"aclTensorList", "destroyed already"});
  // A handle of another kind is named.
  float v = 1;
  aclScalar* scalar = aclCreateScalar(&v, ACL_FLOAT);
  ExpectRefused(aclDestroyTensor(reinterpret_cast<aclTensor*>(scalar)), kInvalid,
                {"not a live aclTensor", "aclScalar"});
  EXPECT_EQ(aclDestroyScalar(scalar), 0);
  ExpectRefused(aclGetTensorListSize(nullptr, &n), kNull, {"null"});
  const bool flags[] = {true, false, true};
  aclBoolArray* bools = aclCreateBoolArray(flags, 3);
  EXPECT_EQ(aclGetBoolArraySize(bools, &n), 0);
  EXPECT_EQ(n, 3u);
  EXPECT_EQ(aclDestroyBoolArray(bools), 0);
}

TEST_F(ApiTest, MessagesComeNewestFirstAndOnce) {
  aclGetRecentErrMsg();
  EXPECT_NE(aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST), 0);  // an error that nobody asks about
  EXPECT_NE(aclrtSetDevice(-7), 0);
  const char* text = aclGetRecentErrMsg();
  ASSERT_NE(text, nullptr);
  const std::string messages = text;
  EXPECT_EQ(messages.rfind("aclrtSetDevice", 0), 0u) << messages;
  EXPECT_NE(messages.find("\naclrtMalloc"), std::string::npos) << messages;
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(ApiTest, MemoryOfAKindThatDoesNotExist) {
  size_t free = 7, total = 7;
  for (int kind : {-1, 18, 1 << 30}) {
    ExpectRefused(aclrtGetMemInfo(static_cast<aclrtMemAttr>(kind), &free, &total), ACL_ERROR_INVALID_PARAM,
                  {"aclrtGetMemInfo", "attr is " + std::to_string(kind), "allowed"});
  }
  EXPECT_EQ(free, 7u);
  EXPECT_EQ(aclrtGetMemInfo(ACL_MEM_P2P_HUGE1G, &free, &total), 0);
  EXPECT_GT(total, 7u);
}

TEST_F(ApiTest, HalfConversionsSaturate) {
  EXPECT_EQ(aclFloatToFloat16(1.0f), 0x3C00);
  EXPECT_EQ(aclFloatToFloat16(INFINITY), 0x7BFF);
  EXPECT_EQ(aclFloatToFloat16(-1e30f), 0xFBFF);
  EXPECT_EQ(aclFloat16ToFloat(0x3C00), 1.0f);
  EXPECT_EQ(aclFloat16ToFloat(0x7C00), 65536.0f);
  EXPECT_EQ(aclFloat16ToFloat(0xFC00), -65536.0f);
  EXPECT_EQ(aclFloat16ToFloat(0x7E00), 98304.0f);
  EXPECT_EQ(aclDataTypeSize(ACL_BF16), 2u);
  EXPECT_EQ(aclDataTypeSize(ACL_COMPLEX128), 16u);
}

TEST_F(ApiTest, DeclaredFunctionsAnswer) {
  ExpectRefused(aclrtGetDeviceUtilizationRate(0, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                {"aclrtGetDeviceUtilizationRate", "not supported"});
}

TEST(ListingTest, CoversThePublishedFunctions) {
  int implemented = 0;
  for (const ApiRow& row : ApiRows()) {
    EXPECT_TRUE(row.implemented || *row.op == 0) << row.api;  // helpers need no operator
    implemented += row.implemented;
  }
  EXPECT_GT(ApiRows().size(), 1100u);
  EXPECT_GE(implemented, 10);
}

}  // namespace
}  // namespace opsnn::capi
