// Functions of the program that are told of streams, devices, aborts and the library.
#include <thread>

#include "base/knobs.h"
#include "capi/api_tester.h"

namespace opsnn::capi {
namespace {

class ObserverTest : public ApiTest {};

struct Heard {
  std::vector<std::pair<aclrtStream, int>> streams;
  std::vector<std::pair<int, int>> devices, aborts;
  std::vector<std::string> configs;
  int finalized = 0;
};

TEST_F(ObserverTest, StreamsAndDevices) {
  Heard heard;
  const auto on_stream = [](aclrtStream stream, aclrtStreamState state, void* args) {
    static_cast<Heard*>(args)->streams.emplace_back(stream, state);
  };
  const auto on_device = [](int32_t device, aclrtDeviceState state, void* args) {
    static_cast<Heard*>(args)->devices.emplace_back(device, state);
  };
  ASSERT_EQ(aclrtRegStreamStateCallback("test", on_stream, &heard), 0);
  ASSERT_EQ(aclrtRegDeviceStateCallback("test", on_device, &heard), 0);
  ExpectRefused(aclrtRegStreamStateCallback("test", on_stream, &heard), ACL_ERROR_INVALID_PARAM,
                {"\"test\"", "already"});
  ExpectRefused(aclrtRegStreamStateCallback("", on_stream, &heard), ACL_ERROR_INVALID_PARAM, {"regName"});
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), 0);
  ASSERT_EQ(aclrtDestroyStream(stream), 0);
  ASSERT_EQ(heard.streams.size(), 2u);
  EXPECT_EQ(heard.streams[0], std::pair(stream, int{ACL_RT_STREAM_STATE_CREATE_POST}));
  EXPECT_EQ(heard.streams[1], std::pair(stream, int{ACL_RT_STREAM_STATE_DESTROY_PRE}));
  ASSERT_EQ(aclrtSetDevice(0), 0);
  ASSERT_EQ(aclrtResetDevice(0), 0);
  EXPECT_EQ(heard.devices, (std::vector<std::pair<int, int>>{{0, ACL_RT_DEVICE_STATE_SET_PRE},
                                                             {0, ACL_RT_DEVICE_STATE_SET_POST},
                                                             {0, ACL_RT_DEVICE_STATE_RESET_PRE},
                                                             {0, ACL_RT_DEVICE_STATE_RESET_POST}}));
  EXPECT_EQ(aclrtRegStreamStateCallback("test", nullptr, nullptr), 0);
  EXPECT_EQ(aclrtRegDeviceStateCallback("test", nullptr, nullptr), 0);
  ExpectRefused(aclrtRegDeviceStateCallback("test", nullptr, nullptr), ACL_ERROR_INVALID_PARAM,
                {"not registered"});
}

TEST_F(ObserverTest, AbortsDropWhatIsQueued) {
  Heard heard;
  const auto on_abort = [](int32_t device, aclrtDeviceTaskAbortStage stage, uint32_t, void* args) {
    static_cast<Heard*>(args)->aborts.emplace_back(device, stage);
    return int32_t{0};
  };
  ASSERT_EQ(aclrtSetDeviceTaskAbortCallback("test", on_abort, &heard), 0);
  aclrtNotify notify = nullptr;
  ASSERT_EQ(aclrtCreateNotify(&notify, 0), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify, stream_, 0), 0);
  EXPECT_EQ(aclrtDeviceTaskAbort(0, 1000), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(heard.aborts, (std::vector<std::pair<int, int>>{{0, ACL_RT_DEVICE_TASK_ABORT_PRE},
                                                            {0, ACL_RT_DEVICE_TASK_ABORT_POST}}));
  ExpectRefused(aclrtDeviceTaskAbort(-1, 0), ACL_ERROR_RT_INVALID_DEVICEID, {"deviceId is -1"});
  EXPECT_EQ(aclrtSetDeviceTaskAbortCallback("test", nullptr, nullptr), 0);
  EXPECT_EQ(aclrtDestroyNotify(notify), 0);
}

TEST_F(ObserverTest, TheLibrary) {
  Heard heard;
  const aclInitCallbackFunc on_init = [](const char* config, size_t length, void* data) {
    static_cast<Heard*>(data)->configs.emplace_back(config, length);
    return aclError{0};
  };
  const aclFinalizeCallbackFunc on_finalize = [](void* data) {
    ++static_cast<Heard*>(data)->finalized;
    return aclError{0};
  };
  // The library is initialised: at once.
  ASSERT_EQ(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, &heard), 0);
  EXPECT_EQ(heard.configs.size(), 1u);
  ASSERT_EQ(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, &heard), 0);
  ASSERT_EQ(aclFinalize(), 0);
  EXPECT_EQ(heard.finalized, 1);
  const std::string path = ::testing::TempDir() + "opsnn_observers.json";
  std::FILE* f = std::fopen(path.c_str(), "w");
  std::fputs("{\"a\": 1}", f);
  std::fclose(f);
  ASSERT_EQ(aclInit(path.c_str()), 0);
  ASSERT_EQ(heard.configs.size(), 2u);
  EXPECT_EQ(heard.configs[1], "{\"a\": 1}");
  EXPECT_EQ(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init), 0);
  EXPECT_EQ(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize), 0);
  ExpectRefused(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize), ACL_ERROR_INVALID_PARAM,
                {"not registered"});
  ExpectRefused(aclInitCallbackRegister(static_cast<aclRegisterCallbackType>(9), on_init, &heard),
                ACL_ERROR_INVALID_PARAM, {"type is 9"});
  std::remove(path.c_str());
}

// What the program's functions throw, of any type, ends where they were called from.
TEST_F(ObserverTest, ExceptionsEndAtTheCall) {
  const auto throws = [](void*) { throw 5; };  // no std::exception
  EXPECT_EQ(aclrtLaunchHostFunc(stream_, throws, nullptr), 0);
  int after = 0;
  EXPECT_EQ(aclrtLaunchHostFunc(
                stream_, [](void* p) { *static_cast<int*>(p) = 1; }, &after),
            0);
  EXPECT_NE(aclrtSynchronizeStream(stream_), 0);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("host function threw an exception"), std::string::npos);
  EXPECT_EQ(after, 1);

  const auto self = static_cast<uint64_t>(pthread_self());
  ASSERT_EQ(aclrtSubscribeReport(self, stream_), 0);
  ASSERT_EQ(aclrtLaunchCallback(throws, nullptr, ACL_CALLBACK_NO_BLOCK, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  ExpectRefused(aclrtProcessReport(100), ACL_ERROR_RT_INTERNAL_ERROR, {"callback threw"});
  EXPECT_EQ(aclrtUnSubscribeReport(self, stream_), 0);

  const auto observer = [](aclrtStream, aclrtStreamState, void*) { throw std::string("no"); };
  ASSERT_EQ(aclrtRegStreamStateCallback("throws", observer, nullptr), 0);
  aclrtStream stream = nullptr;
  EXPECT_EQ(aclrtCreateStream(&stream), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  ASSERT_EQ(aclrtRegStreamStateCallback("throws", nullptr, nullptr), 0);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("callback threw"), std::string::npos);

  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  ASSERT_EQ(aclmdlRIDestroyRegisterCallback(model, throws, nullptr), 0);
  ExpectRefused(aclmdlRIDestroy(model), ACL_ERROR_RT_INTERNAL_ERROR, {"callback threw"});
}

// A host function that waits for its own stream, by the stream or with all others, is told so.
TEST_F(ObserverTest, HostFunctionsCannotWaitForThemselves) {
  int codes[2] = {};
  const auto waits = [](void* p) {
    auto* c = static_cast<int*>(p);
    c[0] = aclrtSynchronizeDevice();
    c[1] = aclrtSynchronizeDeviceWithTimeout(50);
  };
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, waits, codes), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(codes[0], ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  EXPECT_EQ(codes[1], ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclGetRecentErrMsg();
}

TEST_F(ObserverTest, ProfileMustBeKnown) {
  ASSERT_TRUE(SetKnob("profile", "nosuch").ok());
  ExpectRefused(aclInit(nullptr), ACL_ERROR_INVALID_PARAM, {"aclInit", "nosuch", "OPSNN_PROFILE"});
  ASSERT_TRUE(SetKnob("profile", "host").ok());
}

TEST_F(ObserverTest, ConfigMustBeAFile) {
  ExpectRefused(aclInit("/"), ACL_ERROR_INVALID_FILE, {"aclInit", "\"/\""});
  ExpectRefused(aclInit("/no/such/file"), ACL_ERROR_INVALID_FILE, {"aclInit"});
}

// A failed task is told by whatever waits for it; nothing is lost when nobody does.
TEST_F(ObserverTest, FailuresOfTasksAreTold) {
  const auto throws = [](void*) { throw 5; };
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, throws, nullptr), 0);
  EXPECT_NE(aclrtSynchronizeDevice(), 0);
  EXPECT_NE(std::string(aclGetRecentErrMsg()).find("host function"), std::string::npos);
  EXPECT_EQ(aclrtSynchronizeDevice(), 0);         // told once
  EXPECT_NE(aclrtSynchronizeStream(stream_), 0);  // whoever owns the stream learns it too
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  aclGetRecentErrMsg();

  aclrtEvent before = nullptr, after = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&before), 0);
  ASSERT_EQ(aclrtCreateEvent(&after), 0);
  ASSERT_EQ(aclrtRecordEvent(before, stream_), 0);
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, throws, nullptr), 0);
  ASSERT_EQ(aclrtRecordEvent(after, stream_), 0);
  EXPECT_NE(aclrtSynchronizeEvent(after), 0);
  EXPECT_EQ(aclrtSynchronizeEvent(before), 0);
  EXPECT_NE(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(aclrtSynchronizeEvent(after), 0);  // the stream has told
  EXPECT_EQ(aclrtDestroyEvent(before), 0);
  EXPECT_EQ(aclrtDestroyEvent(after), 0);

  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), 0);
  aclGetRecentErrMsg();
  ASSERT_EQ(aclrtLaunchHostFunc(stream, throws, nullptr), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  const char* said = aclGetRecentErrMsg();
  ASSERT_NE(said, nullptr);
  EXPECT_NE(std::string(said).find("host function"), std::string::npos);
}

}  // namespace
}  // namespace opsnn::capi
