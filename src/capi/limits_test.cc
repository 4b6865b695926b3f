// Time limits, limits of resources, attributes of streams, what a device says of itself.
#include <thread>

#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

class LimitTest : public ApiTest {};

TEST_F(LimitTest, TimesOfOperators) {
  uint64_t interval = 0, actual = 0;
  uint32_t ms = 0;
  ASSERT_EQ(aclrtGetOpTimeOutInterval(&interval), 0);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(1, &actual), 0);
  EXPECT_EQ(actual, interval);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(interval + 1, &actual), 0);
  EXPECT_EQ(actual, 2 * interval);
  EXPECT_EQ(aclrtGetOpExecuteTimeout(&ms), 0);
  EXPECT_EQ(ms, 2 * interval / 1000);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(0, &actual), 0);
  EXPECT_EQ(actual, 254 * interval);
  EXPECT_EQ(aclrtSetOpExecuteTimeOut(100000), 0);
  EXPECT_EQ(aclrtGetOpExecuteTimeout(&ms), 0);
  EXPECT_EQ(ms, 254 * interval / 1000);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutWithMs(1), 0);
  EXPECT_EQ(aclrtGetOpExecuteTimeout(&ms), 0);
  EXPECT_EQ(ms, interval / 1000);
  EXPECT_EQ(aclrtSetOpExecuteTimeOut(0), 0);
}

void Sleep(void* ms) { std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(ms))); }

TEST_F(LimitTest, WaitsForEventsEndInTime) {
  aclrtStream other = nullptr;
  aclrtEvent event = nullptr;
  ASSERT_EQ(aclrtCreateStream(&other), 0);
  ASSERT_EQ(aclrtCreateEvent(&event), 0);
  int longer = 1500;
  std::thread busy;
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, &Sleep, &longer), 0);
  ASSERT_EQ(aclrtRecordEvent(event, stream_), 0);
  ASSERT_EQ(aclrtSetOpWaitTimeout(1), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(other, event), 0);
  ASSERT_EQ(aclrtSetOpWaitTimeout(0), 0);
  busy = std::thread([this] { EXPECT_EQ(aclrtSynchronizeStream(stream_), 0); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that this thread waits and does not help
  ExpectRefused(aclrtSynchronizeStream(other), 361001, {"stream wait event", "1000 ms"});
  busy.join();
  ASSERT_EQ(aclrtStreamWaitEventWithTimeout(other, event, 5), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other), 0);
  ExpectRefused(aclrtStreamWaitEventWithTimeout(other, event, -1), ACL_ERROR_INVALID_PARAM,
                {"timeout is -1"});
  ExpectRefused(aclrtStreamWaitEventWithFlag(other, event, 0, 2), ACL_ERROR_INVALID_PARAM, {"flag is 2"});
  ExpectRefused(aclrtStreamWaitEventWithFlag(other, event, 0, ACL_EVENT_WAIT_EXTERNAL),
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT, {"aclrtStreamWaitEventWithFlag", "not supported"});
  EXPECT_EQ(aclrtDestroyEvent(event), 0);
  EXPECT_EQ(aclrtDestroyStream(other), 0);
}

TEST_F(LimitTest, StacksAndPrinting) {
  size_t value = 0;
  EXPECT_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value), 0);
  EXPECT_EQ(value, 32768u);
  EXPECT_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 40000), 0);
  EXPECT_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value), 0);
  EXPECT_EQ(value, 49152u);
  EXPECT_EQ(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, 1), 0);
  EXPECT_EQ(aclrtDeviceGetLimit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE, &value), 0);
  EXPECT_EQ(value, 32768u);
  ExpectRefused(aclrtDeviceSetLimit(ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE, 1000),
                ACL_ERROR_INVALID_PARAM, {"value is 1000", "1024 to 67108864"});
  ExpectRefused(aclrtDeviceGetLimit(static_cast<aclrtDeviceLimit>(5), &value), ACL_ERROR_INVALID_PARAM,
                {"limit is 5"});
}

TEST_F(LimitTest, CoresOfDevicesStreamsAndThreads) {
  uint32_t all = 0, value = 0;
  ASSERT_EQ(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &all), 0);
  ASSERT_GE(all, 1u);
  int64_t cores = 0;
  EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &cores), 0);
  EXPECT_EQ(cores, all);
  EXPECT_EQ(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 1), 0);
  EXPECT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value), 0);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(aclrtSetStreamResLimit(stream_, ACL_RT_DEV_RES_CUBE_CORE, all), 0);
  EXPECT_EQ(aclrtGetStreamResLimit(stream_, ACL_RT_DEV_RES_CUBE_CORE, &value), 0);
  EXPECT_EQ(value, all);
  EXPECT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value), 0);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(aclrtUseStreamResInCurrentThread(stream_), 0);
  EXPECT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value), 0);
  EXPECT_EQ(value, all);
  EXPECT_EQ(aclrtUnuseStreamResInCurrentThread(stream_), 0);
  EXPECT_EQ(aclrtResetDeviceResLimit(0), 0);
  EXPECT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value), 0);
  EXPECT_EQ(value, all);
  EXPECT_EQ(aclrtResetStreamResLimit(stream_), 0);
  ExpectRefused(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, all + 1), ACL_ERROR_INVALID_PARAM,
                {"the cores of the device"});
  ExpectRefused(aclrtSetDeviceResLimit(99, ACL_RT_DEV_RES_CUBE_CORE, 1), ACL_ERROR_RT_INVALID_DEVICEID,
                {"deviceId is 99"});
  ExpectRefused(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_ID, &cores), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                {"attr is 405"});
}

TEST_F(LimitTest, WhatTheDeviceIs) {
  int64_t value = 0;
  int32_t flag = 7;
  for (aclDeviceInfo i :
       {ACL_DEVICE_INFO_AI_CORE_NUM, ACL_DEVICE_INFO_VECTOR_CORE_NUM, ACL_DEVICE_INFO_L2_SIZE}) {
    EXPECT_EQ(aclGetDeviceCapability(0, i, &value), 0);
    EXPECT_GT(value, 0);
  }
  EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_WARP_SIZE, &value), 0);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &flag), 0);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &flag), 0);
  EXPECT_EQ(flag, 0);
  const aclCannAttr* list = nullptr;
  size_t num = 0;
  EXPECT_EQ(aclGetCannAttributeList(&list, &num), 0);
  EXPECT_EQ(num, 2u);
  EXPECT_EQ(aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &flag), 0);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN), 0);
  ExpectRefused(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                {"saturate"});
}

TEST_F(LimitTest, StreamsStopOnFailure) {
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), 0);
  EXPECT_EQ(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), 0);
  ExpectRefused(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_INVALID_PARAM,
                {"final"});
  aclrtStreamAttrValue value{};
  EXPECT_EQ(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value), 0);
  EXPECT_EQ(value.failureMode, 1u);
  void* memory = nullptr;
  ASSERT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  ASSERT_EQ(aclrtMemset(memory, 64, 0, 64), 0);
  // A descriptor that nobody wrote fails; what is queued behind it, and later, does not run.
  ASSERT_EQ(aclrtMemcpyAsyncWithDesc(memory, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream), 0);
  ASSERT_EQ(aclrtMemsetAsync(memory, 64, 1, 64, stream), 0);
  for (int i = 0; i < 2; ++i) {
    ExpectRefused(aclrtSynchronizeStream(stream), 161002, {"aclrtMemcpyAsyncWithDesc"});
    ASSERT_EQ(aclrtMemsetAsync(memory, 64, 1, 64, stream), 0);
  }
  EXPECT_EQ(*static_cast<char*>(memory), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  EXPECT_EQ(aclrtFree(memory), 0);
}

TEST_F(LimitTest, AttributesOfStreams) {
  aclrtStreamAttrValue value{};
  value.userCustomTag = 17;
  EXPECT_EQ(aclrtSetStreamAttribute(stream_, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value), 0);
  value.userCustomTag = 0;
  EXPECT_EQ(aclrtGetStreamAttribute(stream_, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value), 0);
  EXPECT_EQ(value.userCustomTag, 17u);
  value.streamPriority = 3;
  EXPECT_EQ(aclrtSetStreamAttribute(stream_, ACL_STREAM_ATTR_PRIORITY, &value), 0);
  uint32_t priority = 0, flag = 7;
  EXPECT_EQ(aclrtStreamGetPriority(stream_, &priority), 0);
  EXPECT_EQ(priority, 3u);
  value.streamPriority = 8;
  ExpectRefused(aclrtSetStreamAttribute(stream_, ACL_STREAM_ATTR_PRIORITY, &value), ACL_ERROR_INVALID_PARAM,
                {"priority is 8"});
  EXPECT_EQ(aclrtSetStreamOverflowSwitch(stream_, 0), 0);
  EXPECT_EQ(aclrtGetStreamOverflowSwitch(stream_, &flag), 0);
  EXPECT_EQ(flag, 0u);
  ExpectRefused(aclrtSetStreamOverflowSwitch(stream_, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, {"not detected"});
  uint32_t before = 0, after = 0;
  EXPECT_EQ(aclrtGetStreamAvailableNum(&before), 0);

  aclrtStreamConfigHandle* config = aclrtCreateStreamConfigHandle();
  ASSERT_NE(config, nullptr);
  priority = 5;
  EXPECT_EQ(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority), 0);
  ExpectRefused(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_FLAG, &priority, sizeof priority),
                ACL_ERROR_INVALID_PARAM, {"valueSize is 4", "8"});
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStreamV2(&stream, config), 0);
  EXPECT_EQ(aclrtStreamGetPriority(stream, &priority), 0);
  EXPECT_EQ(priority, 5u);
  EXPECT_EQ(aclrtGetStreamAvailableNum(&after), 0);
  EXPECT_EQ(after + 1, before);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  EXPECT_EQ(aclrtDestroyStreamConfigHandle(config), 0);
  ExpectRefused(aclrtCreateStreamV2(&stream, config), ACL_ERROR_INVALID_PARAM, {"destroyed"});
}

}  // namespace
}  // namespace opsnn::capi
