// Notifies, and waits for values in memory.
#include <unistd.h>

#include <cstring>
#include <thread>

#include "capi/api_tester.h"
#include "runtime/check.h"

namespace opsnn::capi {
namespace {

class NotifyTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    ASSERT_EQ(aclrtCreateStream(&other_), 0);
    ASSERT_EQ(aclrtCreateNotify(&notify_, ACL_NOTIFY_DEFAULT), 0);
    ASSERT_EQ(aclrtMalloc(&memory_, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    std::memset(memory_, 0, 64);
  }
  void TearDown() override {
    EXPECT_EQ(aclrtDestroyNotify(notify_), 0);
    EXPECT_EQ(aclrtDestroyStreamForce(other_), 0);
    EXPECT_EQ(aclrtFree(memory_), 0);
    ApiTest::TearDown();
  }
  bool Done(aclrtStream s) {
    aclrtStreamStatus status{};
    EXPECT_EQ(aclrtStreamQuery(s, &status), 0);
    return status == ACL_STREAM_STATUS_COMPLETE;
  }
  // Behind the wait: stays as it is until that ends.
  void QueueMark(aclrtStream s) { ASSERT_EQ(aclrtMemsetAsync(memory_, 64, 1, 1, s), 0); }
  char mark() const { return *static_cast<volatile char*>(memory_); }

  aclrtStream other_ = nullptr;
  aclrtNotify notify_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(NotifyTest, AWaitComesBeforeItsRecord) {
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  QueueMark(other_);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(mark(), 0);
  // Memory is freed and others are waited for while a stream is blocked.
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(block), 0);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  EXPECT_EQ(mark(), 1);
  // The wait has taken it.
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
}

TEST_F(NotifyTest, OneRecordEndsOneWait) {
  aclrtStream third = nullptr;
  ASSERT_EQ(aclrtCreateStream(&third), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, third, 0), 0);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  while (!Done(other_) && !Done(third)) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(Done(other_), Done(third));
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeDevice(), 0);
  EXPECT_EQ(aclrtDestroyStream(third), 0);
}

TEST_F(NotifyTest, ABlockedStreamCanBeGivenUp) {
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  // A third stream waits for what the blocked one would do.
  aclrtEvent event = nullptr;
  aclrtStream third = nullptr;
  ASSERT_EQ(aclrtCreateEvent(&event), 0);
  ASSERT_EQ(aclrtCreateStream(&third), 0);
  ASSERT_EQ(aclrtRecordEvent(event, other_), 0);
  ASSERT_EQ(aclrtStreamWaitEventWithTimeout(third, event, 0), 0);
  QueueMark(third);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(third, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(block), 0);
  EXPECT_EQ(aclrtDestroyStreamForce(third), 0);
  EXPECT_EQ(mark(), 0);
  EXPECT_EQ(aclrtStreamAbort(other_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  EXPECT_EQ(aclrtSynchronizeEvent(event), 0);
  EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(NotifyTest, TimeoutsAreFailuresOfTheStream) {
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 1), 0);
  QueueMark(other_);
  ExpectRefused(aclrtSynchronizeStream(other_), 361001, {"aclrtWaitAndResetNotify", "1000 ms"});
  EXPECT_EQ(mark(), 1);  // what comes behind runs all the same
}

TEST_F(NotifyTest, ResetAndSharing) {
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  ASSERT_EQ(aclrtNotifyBatchReset(&notify_, 1), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);

  char key[65];
  aclrtNotify same = nullptr;
  ExpectRefused(aclrtNotifyGetExportKey(notify_, key, 64, 0), ACL_ERROR_INVALID_PARAM, {"len is 64", "65"});
  int32_t self = getpid();
  ExpectRefused(aclrtNotifySetImportPid(notify_, &self, 1), ACL_ERROR_INVALID_PARAM,
                {"aclrtNotifyGetExportKey"});
  ASSERT_EQ(aclrtNotifyGetExportKey(notify_, key, 65, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT), 0);
  ExpectRefused(aclrtNotifyImportByKey(&same, key, 0), ACL_ERROR_INVALID_PARAM, {"aclrtNotifySetImportPid"});
  ASSERT_EQ(aclrtNotifySetImportPid(notify_, &self, 1), 0);
  ASSERT_EQ(aclrtNotifyImportByKey(&same, key, 0), 0);
  ExpectRefused(aclrtNotifyImportByKey(&same, "none", 0), ACL_ERROR_INVALID_PARAM, {"this process"});
  ASSERT_EQ(aclrtNotifyImportByKey(&same, key, 0), 0);
  uint32_t id = 0, same_id = 1;
  EXPECT_EQ(aclrtGetNotifyId(notify_, &id), 0);
  EXPECT_EQ(aclrtGetNotifyId(same, &same_id), 0);
  EXPECT_EQ(id, same_id);
  ASSERT_EQ(aclrtRecordNotify(same, stream_), 0);
  EXPECT_EQ(aclrtDestroyNotify(same), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  ExpectRefused(aclrtRecordNotify(same, stream_), ACL_ERROR_RT_INVALID_HANDLE, {"aclrtRecordNotify", "live"});
  ExpectRefused(aclrtRecordNotify(nullptr, stream_), ACL_ERROR_INVALID_PARAM, {"notify is null"});
}

TEST_F(NotifyTest, CountersCount) {
  aclrtCntNotify counter = nullptr;
  ASSERT_EQ(aclrtCntNotifyCreate(&counter, 0), 0);
  aclrtCntNotifyRecordInfo add{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 2};
  aclrtCntNotifyWaitInfo four{ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 4, 0, 1, {}};
  ASSERT_EQ(aclrtCntNotifyWaitWithTimeout(counter, other_, &four), 0);
  ASSERT_EQ(aclrtCntNotifyRecord(counter, stream_, &add), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtCntNotifyRecord(counter, stream_, &add), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  // It was cleared: a wait for less than 1 passes, then bits.
  aclrtCntNotifyWaitInfo zero{ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 1, 0, 0, {}};
  ASSERT_EQ(aclrtCntNotifyWaitWithTimeout(counter, other_, &zero), 0);
  aclrtCntNotifyRecordInfo bits{ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, 6};
  aclrtCntNotifyWaitInfo both{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 6, 0, 0, {}};
  ASSERT_EQ(aclrtCntNotifyWaitWithTimeout(counter, other_, &both), 0);
  ASSERT_EQ(aclrtCntNotifyRecord(counter, stream_, &bits), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  ASSERT_EQ(aclrtCntNotifyReset(counter, other_), 0);
  aclrtCntNotifyWaitInfo equal{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0, 0, 0, {}};
  ASSERT_EQ(aclrtCntNotifyWaitWithTimeout(counter, other_, &equal), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  add.mode = static_cast<aclrtCntNotifyRecordMode>(3);
  ExpectRefused(aclrtCntNotifyRecord(counter, stream_, &add), ACL_ERROR_INVALID_PARAM, {"mode is 3"});
  EXPECT_EQ(aclrtCntNotifyDestroy(counter), 0);
  ExpectRefused(aclrtCntNotifyDestroy(counter), ACL_ERROR_RT_INVALID_HANDLE, {"destroyed"});
}

TEST_F(NotifyTest, ValuesInMemory) {
  auto* value = static_cast<uint64_t*>(memory_) + 1;
  struct Row {
    uint32_t flag;
    uint64_t value, closed, open;
  };
  for (const Row& r :
       {Row{ACL_STREAM_WAIT_VALUE_GEQ, 5, 4, 5}, Row{ACL_STREAM_WAIT_VALUE_EQ, 7, 8, 7},
        Row{ACL_STREAM_WAIT_VALUE_AND, 6, 9, 4}, Row{ACL_STREAM_WAIT_VALUE_NOR, 1, ~1ull, 0}}) {
    ASSERT_EQ(aclrtValueWrite(value, r.closed, 0, stream_), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
    EXPECT_EQ(*value, r.closed);
    ASSERT_EQ(aclrtValueWait(value, r.value, r.flag, other_), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) << r.flag;
    ASSERT_EQ(aclrtValueWrite(value, r.open, 0, stream_), 0);
    EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  }
  ExpectRefused(aclrtValueWait(value, 0, 4, stream_), ACL_ERROR_INVALID_PARAM, {"flag is 4"});
  ExpectRefused(aclrtValueWrite(static_cast<char*>(memory_) + 4, 0, 0, stream_), ACL_ERROR_INVALID_PARAM,
                {"multiples of 8"});
}

TEST_F(NotifyTest, ModelsRecordAndWait) {
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, stream_, 0), 0);
  QueueMark(stream_);
  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(model, stream_), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), 0);
  EXPECT_EQ(mark(), 0);
  ASSERT_EQ(aclrtRecordNotify(notify_, other_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(mark(), 1);
  // A replay that waits ends when its stream is told to give up. The worker runs it: nobody else waits.
  ASSERT_EQ(aclmdlRIExecuteAsync(model, other_), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  void* block = nullptr;
  ASSERT_EQ(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(block), 0);  // does not wait for it
  EXPECT_EQ(aclrtStreamAbort(other_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  // Timeouts hold for replays as well.
  ASSERT_EQ(aclmdlRIExecuteAsync(model, other_), 0);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtStreamAbort(other_), 0);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
}

// What a model waited for in vain is not used: the rest of that run does nothing.
TEST_F(NotifyTest, ARunThatWaitsTooLongStops) {
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, stream_, 1), 0);
  QueueMark(stream_);
  aclmdlRI model = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &model), 0);
  ASSERT_EQ(aclmdlRIExecuteAsync(model, other_), 0);
  ExpectRefused(aclrtSynchronizeStream(other_), 361001, {"aclrtWaitAndResetNotify", "1000 ms"});
  EXPECT_EQ(mark(), 0);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);  // the next run is a run of its own
  ASSERT_EQ(aclmdlRIExecuteAsync(model, other_), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other_), 0);
  EXPECT_EQ(mark(), 1);
  EXPECT_EQ(aclmdlRIDestroy(model), 0);
}

// A stream that has failed already and then is told to stop on failures does nothing of what is queued.
TEST_F(NotifyTest, StoppingOnAFailureThatWas) {
  void* unwritten = nullptr;
  ASSERT_EQ(aclrtMalloc(&unwritten, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  std::memset(unwritten, 0, 64);
  ASSERT_EQ(aclrtMemcpyAsyncWithDesc(unwritten, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, other_), 0);  // fails
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  QueueMark(other_);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  ASSERT_EQ(aclrtSetStreamFailureMode(other_, ACL_STOP_ON_FAILURE), 0);
  QueueMark(other_);
  EXPECT_NE(aclrtSynchronizeStream(other_), 0);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(mark(), 0);
  EXPECT_EQ(aclrtFree(unwritten), 0);
}

TEST_F(NotifyTest, TheCheckerKnowsTheOrder) {
  runtime::TakeFindings();
  runtime::check_modes = runtime::kCheckSync;
  QueueMark(stream_);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  QueueMark(other_);
  EXPECT_TRUE(runtime::TakeFindings().empty());
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  // The wait is queued first: nothing is said of what follows it.
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  QueueMark(other_);
  QueueMark(stream_);
  ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
  EXPECT_TRUE(runtime::TakeFindings().empty());
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  // Nor of what follows a wait in a model.
  ASSERT_EQ(aclmdlRICaptureBegin(other_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), 0);
  ASSERT_EQ(aclrtWaitAndResetNotify(notify_, other_, 0), 0);
  QueueMark(other_);
  aclmdlRI waits = nullptr;
  ASSERT_EQ(aclmdlRICaptureEnd(other_, &waits), 0);
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(aclmdlRIExecuteAsync(waits, other_), 0);
    QueueMark(stream_);
    ASSERT_EQ(aclrtRecordNotify(notify_, stream_), 0);
    EXPECT_TRUE(runtime::TakeFindings().empty());
    ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  }
  EXPECT_EQ(aclmdlRIDestroy(waits), 0);
  QueueMark(stream_);
  QueueMark(other_);
  EXPECT_EQ(runtime::TakeFindings().size(), 1u);
  ASSERT_EQ(aclrtSynchronizeDevice(), 0);
  runtime::check_modes = 0;
}

}  // namespace
}  // namespace opsnn::capi
