// Every kind of finding, and none where the program is right.
#include "runtime/check.h"

#include <algorithm>

#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_relu.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

class Checker : public ApiTest {
 protected:
  static constexpr size_t kBytes = 256;
  void SetUp() override {
    ApiTest::SetUp();
    ASSERT_EQ(aclrtCreateStream(&other_), 0);
    for (void** p : {&x_, &y_}) ASSERT_EQ(aclrtMalloc(p, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    const int64_t dims[] = {kBytes / 4};
    for (int i = 0; i < 2; ++i) {
      tensors_[i] = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, i ? y_ : x_);
    }
    runtime::TakeFindings();
    runtime::check_modes = runtime::kCheckMemory | runtime::kCheckSync;
  }
  void TearDown() override {
    runtime::check_modes = 0;
    aclrtSynchronizeDevice();
    runtime::NoteAllDone();
    for (aclTensor* t : tensors_) aclDestroyTensor(t);
    for (void* p : {x_, y_}) aclrtFree(p);
    EXPECT_EQ(aclrtDestroyStream(other_), 0);
    ApiTest::TearDown();
  }
  void Relu(aclTensor* from, aclTensor* to, aclrtStream stream) {
    ASSERT_EQ(aclnnReluGetWorkspaceSize(from, to, &workspace_size_, &executor_), 0);
    ASSERT_EQ(aclnnRelu(nullptr, 0, executor_, stream), 0);
  }
  // One finding that holds every part, or none for an empty list.
  void Expect(const std::vector<std::string>& parts) {
    const auto found = runtime::TakeFindings();
    ASSERT_EQ(found.size(), parts.empty() ? 0u : 1u) << (found.empty() ? "" : found[0]);
    for (const std::string& p : parts)
      EXPECT_NE(found[0].find(p), std::string::npos) << p << " in " << found[0];
  }

  aclrtStream other_ = nullptr;
  void *x_ = nullptr, *y_ = nullptr;
  aclTensor* tensors_[2] = {};
  char host_[kBytes] = {};
};

TEST_F(Checker, HostMemoryWhereDeviceMemoryBelongs) {
  const int64_t dims[] = {kBytes / 4};
  aclTensor* wrong = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, host_);
  Relu(wrong, tensors_[1], stream_);
  Expect({"check: memory: aclnnRelu: self at ", "(256 bytes)", "did not allocate"});
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  aclDestroyTensor(wrong);
  void* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(&pinned, kBytes), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, pinned, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({"aclrtMemcpy: src at ", "pinned host memory"});
  EXPECT_EQ(aclrtMemcpy(x_, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  Expect({});
  EXPECT_EQ(aclrtFreeHost(pinned), 0);
}

TEST_F(Checker, ResultsReadWithoutSynchronizing) {
  Relu(tensors_[0], tensors_[1], stream_);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({"check: sync: aclrtMemcpy reads src at", "aclnnRelu", "writes out at", "synchronize"});
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, x_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);  // two readers
  Expect({});
  EXPECT_EQ(aclrtMemcpy(x_, kBytes, host_, kBytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  Expect({"aclrtMemcpy writes dst", "aclnnRelu", "reads self"});
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
}

TEST_F(Checker, TwoStreamsOnOneBuffer) {
  Relu(tensors_[0], tensors_[1], stream_);
  Relu(tensors_[1], tensors_[0], other_);
  const auto found = runtime::TakeFindings();
  ASSERT_EQ(found.size(), 2u);  // it reads what is written and writes what is read
  EXPECT_NE(found[0].find("aclnnRelu on stream"), std::string::npos) << found[0];
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  aclrtEvent event = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&event), 0);
  Relu(tensors_[0], tensors_[1], stream_);
  ASSERT_EQ(aclrtRecordEvent(event, stream_), 0);
  ASSERT_EQ(aclrtStreamWaitEvent(other_, event), 0);
  Relu(tensors_[1], tensors_[0], other_);
  ASSERT_EQ(aclrtRecordEvent(event, other_), 0);
  ASSERT_EQ(aclrtSynchronizeEvent(event), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, x_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
  ASSERT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Checker, MemoryFreedBeforeItsWorkIsDone) {
  void* z = nullptr;
  ASSERT_EQ(aclrtMalloc(&z, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  ASSERT_EQ(aclrtMemsetAsync(z, kBytes, 0, kBytes, stream_), 0);
  ASSERT_EQ(aclrtFree(z), 0);
  Expect({"aclrtFree", "aclrtMemsetAsync", "synchronize"});
}

TEST_F(Checker, WhatIsRecordedTouchesNothingYet) {
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  ASSERT_EQ(aclrtMemsetAsync(x_, kBytes, 0, kBytes, stream_), 0);
  ASSERT_EQ(aclrtMemcpyAsync(y_, kBytes, x_, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_), 0);
  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
  // A model that has run has waited for what its stream held.
  Relu(tensors_[0], tensors_[1], nullptr);
  ASSERT_EQ(aclmdlRIExecute(model, -1), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
}

TEST_F(Checker, ReplaysTouchWhatWasRecorded) {
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  Relu(tensors_[0], tensors_[1], stream_);
  aclmdlRI model = nullptr, outer = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(model, stream_), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({"check: sync: aclrtMemcpy reads src at", "aclnnRelu", "writes out at", "synchronize"});
  ASSERT_EQ(aclmdlRIExecuteAsync(model, other_), 0);
  Expect({"aclnnRelu on stream", "writes out", "nothing puts before it"});
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  // A model that runs a model touches what that touches.
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(model, stream_), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &outer), 0);
  Expect({});
  ASSERT_EQ(aclmdlRIExecuteAsync(outer, stream_), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({"aclrtMemcpy reads src at", "writes out at"});
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  EXPECT_EQ(aclrtMemcpy(host_, kBytes, y_, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
  EXPECT_EQ(aclmdlRIDestroy(outer), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
}

TEST_F(Checker, CopiesOfRowsNameTheirSides) {
  EXPECT_EQ(aclrtMemcpy2d(host_, 64, x_, 128, 64, 2, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  Expect({});
  EXPECT_EQ(aclrtMemcpy2d(x_, 64, host_, 128, 64, 2, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
  Expect({"check: memory: aclrtMemcpy2d: src at ", "(192 bytes)"});
}

TEST_F(Checker, LeaksSayWhereTheyWereMade) {
  runtime::check_modes = runtime::kCheckLeak;
  runtime::TakeFindings();
  void *kept = nullptr, *freed = nullptr;
  ASSERT_EQ(aclrtMalloc(&kept, 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  ASSERT_EQ(aclrtMalloc(&freed, 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  ASSERT_EQ(aclrtFree(freed), 0);
  ASSERT_EQ(aclnnReluGetWorkspaceSize(tensors_[0], tensors_[1], &workspace_size_, &executor_), 0);
  runtime::ReportLeaks();
  auto found = runtime::TakeFindings();
  ASSERT_EQ(found.size(), 2u);
  std::sort(found.begin(), found.end());
  EXPECT_NE(found[0].find("check: leak: aclOpExecutor"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find("phase two was never called"), std::string::npos) << found[0];
  EXPECT_NE(found[1].find("device memory"), std::string::npos) << found[1];
  EXPECT_NE(found[1].find("of 4096 bytes"), std::string::npos) << found[1];
  EXPECT_NE(found[1].find("made in"), std::string::npos) << found[1];
  EXPECT_EQ(aclrtFree(kept), 0);
  ASSERT_EQ(aclnnRelu(nullptr, 0, executor_, stream_), 0);
}

TEST_F(Checker, EveryKindOfObjectLeaks) {
  runtime::check_modes = runtime::kCheckLeak;
  runtime::TakeFindings();
  const int64_t dims[] = {2};
  float value = 1;
  bool flag = true;
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  aclrtNotify notify = nullptr;
  aclmdlRI model = nullptr;
  aclTensor* tensor = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, x_);
  aclScalar* scalar = aclCreateScalar(&value, ACL_FLOAT);
  aclIntArray* ints = aclCreateIntArray(dims, 1);
  aclFloatArray* floats = aclCreateFloatArray(&value, 1);
  aclBoolArray* bools = aclCreateBoolArray(&flag, 1);
  aclDataBuffer* buffer = aclCreateDataBuffer(x_, 8);
  ASSERT_EQ(aclrtCreateStream(&stream), 0);
  ASSERT_EQ(aclrtCreateEvent(&event), 0);
  ASSERT_EQ(aclrtCreateNotify(&notify, 0), 0);
  ASSERT_EQ(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), 0);
  ASSERT_EQ(aclmdlRICaptureEnd(stream, &model), 0);
  runtime::ReportLeaks();
  const auto found = runtime::TakeFindings();
  const char* const kinds[] = {"aclTensor",     "aclScalar",   "aclIntArray", "aclFloatArray", "aclBoolArray",
                               "aclDataBuffer", "aclrtStream", "aclrtEvent",  "aclrtNotify",   "aclmdlRI"};
  EXPECT_EQ(found.size(), std::size(kinds));
  for (const char* kind : kinds) {
    const std::string start = std::string("check: leak: ") + kind + " 0x";
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const std::string& f) {
      return f.rfind(start, 0) == 0 && f.find("made in") != std::string::npos;
    })) << kind;
  }
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
  EXPECT_EQ(aclrtDestroyNotify(notify), 0);
  EXPECT_EQ(aclrtDestroyEvent(event), 0);
  EXPECT_EQ(aclrtDestroyStream(stream), 0);
  aclDestroyDataBuffer(buffer);
  aclDestroyBoolArray(bools);
  aclDestroyFloatArray(floats);
  aclDestroyIntArray(ints);
  aclDestroyScalar(scalar);
  aclDestroyTensor(tensor);
}

// A call that keeps something in its workspace.
TEST_F(Checker, AWorkspaceSharedByStreams) {
  const int64_t image[] = {1, 2, 4, 4}, filter[] = {2, 2, 1, 1}, pair[] = {1, 1, 0, 0};
  aclTensor* x = aclCreateTensor(image, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, image, 4, x_);
  aclTensor* w = aclCreateTensor(filter, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, filter, 4,
                                 static_cast<char*>(x_) + 128);
  aclTensor* y[] = {aclCreateTensor(image, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, image, 4, y_),
                    aclCreateTensor(image, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, image, 4,
                                    static_cast<char*>(y_) + 128)};
  aclIntArray *ones = aclCreateIntArray(pair, 2), *zeros = aclCreateIntArray(pair + 2, 2);
  void* workspace = nullptr;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(aclnnConvolutionGetWorkspaceSize(x, w, nullptr, ones, zeros, ones, false, zeros, 1, y[i], 0,
                                               &workspace_size_, &executor_),
              0);
    ASSERT_GT(workspace_size_, 0u);
    if (!workspace) {
      ASSERT_EQ(aclrtMalloc(&workspace, workspace_size_, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    }
    ASSERT_EQ(aclnnConvolution(workspace, workspace_size_, executor_, i ? other_ : stream_), 0);
  }
  Expect({"aclnnConvolution on stream", "writes workspace at"});
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  EXPECT_EQ(aclrtFree(workspace), 0);
  for (aclTensor* t : {x, w, y[0], y[1]}) aclDestroyTensor(t);
  aclDestroyIntArray(ones);
  aclDestroyIntArray(zeros);
}

}  // namespace
}  // namespace opsnn::capi
