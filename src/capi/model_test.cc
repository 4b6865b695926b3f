// Capturing streams and replaying what they recorded.
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_relu.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Models : public ApiTest {
 protected:
  // Both phases without a synchronisation.
  void Relu(aclTensor* x, aclTensor* y, aclrtStream stream) {
    ASSERT_EQ(aclnnReluGetWorkspaceSize(x, y, &workspace_size_, &executor_), 0);
    ASSERT_EQ(workspace_size_, 0u);
    ASSERT_EQ(aclnnRelu(nullptr, 0, executor_, stream), 0);
  }
  void Add(aclTensor* a, aclTensor* b, aclTensor* y, aclrtStream stream) {
    ApiScalar one(1.0f);
    ASSERT_EQ(aclnnAddGetWorkspaceSize(a, b, one, y, &workspace_size_, &executor_), 0);
    ASSERT_EQ(workspace_size_, 0u);
    ASSERT_EQ(aclnnAdd(nullptr, 0, executor_, stream), 0);
  }
  Rng rng_;
};

TEST_F(Models, ReplayReadsTheDataOfItsTime) {
  RandomTensor x(DType::kF32, {64}, rng_), b(DType::kF32, {64}, rng_);
  ApiTensor y(DType::kF32, {64});
  y.Set(std::vector<double>(64, 7));
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  EXPECT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), ACL_ERROR_RT_STREAM_CAPTURED);
  aclmdlRICaptureStatus status;
  EXPECT_EQ(aclmdlRICaptureGetInfo(stream_, &status, nullptr), 0);
  EXPECT_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  Relu(x, y, stream_);
  Add(y, b, y, stream_);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_STREAM_CAPTURED);
  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(y.Get(), std::vector<double>(64, 7));  // recorded, not run
  for (int round = 0; round < 3; ++round) {
    std::vector<double> values, want;
    for (int i = 0; i < 64; ++i) {
      values.push_back(i % 2 ? round + i : -i);
      want.push_back(static_cast<float>(std::max(values.back(), 0.0) + b[i]));
    }
    x.Set(values);
    ASSERT_EQ(round == 2 ? aclmdlRIExecute(model, -1) : aclmdlRIExecuteAsync(model, stream_), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
    EXPECT_EQ(y.Get(), want);
  }
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclmdlRIExecuteAsync(model, stream_), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclmdlRICaptureEnd(stream_, &model), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
}

TEST_F(Models, StreamsJoinByEvents) {
  RandomTensor x(DType::kF32, {64}, rng_), b(DType::kF32, {64}, rng_);
  ApiTensor y(DType::kF32, {64}), z(DType::kF32, {64});
  aclrtStream other = nullptr;
  aclrtEvent fork = nullptr, join = nullptr;
  ASSERT_EQ(aclrtCreateStream(&other), 0);
  ASSERT_EQ(aclrtCreateEvent(&fork), 0);
  ASSERT_EQ(aclrtCreateEvent(&join), 0);
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
  Relu(x, y, stream_);
  ASSERT_EQ(aclrtRecordEvent(fork, stream_), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(other, fork), 0);
  Add(y, b, z, other);
  ASSERT_EQ(aclrtRecordEvent(join, other), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(stream_, join), 0);
  Add(z, b, z, stream_);
  aclmdlRI model = nullptr;
  EXPECT_EQ(aclmdlRICaptureEnd(other, &model), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(model, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  std::vector<double> want;
  for (int i = 0; i < 64; ++i) {
    const auto once = static_cast<float>(std::max(x[i], 0.0) + b[i]);
    want.push_back(static_cast<float>(once + b[i]));
  }
  EXPECT_EQ(z.Get(), want);
  Relu(x, y, other);  // runs again
  EXPECT_EQ(aclrtSynchronizeStream(other), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
  EXPECT_EQ(aclrtDestroyEvent(fork), 0);
  EXPECT_EQ(aclrtDestroyEvent(join), 0);
  EXPECT_EQ(aclrtDestroyStream(other), 0);
}

TEST_F(Models, RunsNothingWhileTheDefaultStreamCaptures) {
  RandomTensor x(DType::kF32, {8}, rng_);
  ApiTensor y(DType::kF32, {8});
  aclmdlRI model = nullptr, outer = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  Relu(x, y, nullptr);
  ASSERT_EQ(aclmdlRICaptureEnd(nullptr, &model), 0);
  ASSERT_EQ(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  ExpectRefused(aclmdlRIExecute(model, -1), ACL_ERROR_RT_STREAM_CAPTURED, {"aclmdlRIExecute", "captures"});
  ASSERT_EQ(aclmdlRICaptureEnd(nullptr, &outer), 0);
  EXPECT_EQ(aclmdlRIExecute(model, -1), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
  EXPECT_EQ(aclmdlRIDestroy(outer), 0);
}

TEST_F(Models, NamesAndCallbacks) {
  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  EXPECT_EQ(aclmdlRISetName(model, "step"), 0);
  char name[5];
  EXPECT_EQ(aclmdlRIGetName(model, 4, name), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclmdlRIGetName(model, 5, name), 0);
  EXPECT_STREQ(name, "step");
  int calls = 0;
  auto count = [](void* p) { ++*static_cast<int*>(p); };
  EXPECT_EQ(aclmdlRIDestroyRegisterCallback(model, count, &calls), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(aclmdlRICaptureBegin(stream_, static_cast<aclmdlRICaptureMode>(3)), ACL_ERROR_INVALID_PARAM);
}

}  // namespace
}  // namespace opsnn::capi
