#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "runtime/callbacks.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/last_error.h"
#include "runtime/memory.h"

namespace opsnn::runtime {
namespace {

using std::chrono::milliseconds;

Task MakeTask(std::function<void()> body) {
  Task t;
  t.name = "test";
  t.payload = std::make_shared<std::function<void()>>(std::move(body));
  t.run = [](const void* p) {
    (*static_cast<const std::function<void()>*>(p))();
    return OkStatus();
  };
  return t;
}

bool WaitFor(const std::function<bool()>& condition, int ms = 5000) {
  const auto deadline = Clock::now() + milliseconds(ms);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(Memory, AlignedRoundedAndRegistered) {
  for (size_t bytes : {1u, 31u, 32u, 33u, 4096u, 3u << 20}) {
    auto p = Allocate(bytes, MemoryKind::kDevice, 0);
    ASSERT_TRUE(p.ok()) << p.status().message();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*p) % kAlignment, 0u);
    // The size rounded up to 32 and 32 spare bytes may be written.
    std::memset(*p, 1, (bytes + 31) / 32 * 32 + 32);
    auto block = FindBlock(static_cast<char*>(*p) + bytes - 1);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->bytes, bytes);
    EXPECT_FALSE(FindBlock(static_cast<char*>(*p) + bytes));
    EXPECT_TRUE(Free(*p, MemoryKind::kDevice).ok());
    EXPECT_FALSE(FindBlock(*p));
  }
}

TEST(Memory, MistakesHaveMessages) {
  EXPECT_EQ(Allocate(0, MemoryKind::kDevice, 0).status().code(), Code::kInvalid);
  Status s = Allocate(size_t{1} << 60, MemoryKind::kDevice, 0).status();
  EXPECT_EQ(s.code(), Code::kRuntime);
  EXPECT_NE(s.message().find("1152921504606846976"), std::string::npos) << s.message();
  int local = 0;
  EXPECT_EQ(Free(&local, MemoryKind::kDevice).code(), Code::kInvalid);
  auto p = Allocate(64, MemoryKind::kHost, 0);
  EXPECT_EQ(Free(*p, MemoryKind::kDevice).code(), Code::kInvalid);
  EXPECT_TRUE(Free(*p, MemoryKind::kHost).ok());
  EXPECT_EQ(Free(*p, MemoryKind::kHost).code(), Code::kInvalid);
}

TEST(Handles, StaleAndForeignHandlesAreRecognised) {
  HandleTable<int, HandleKind::kTensor> table;
  void* a = table.Insert(std::make_shared<int>(1));
  EXPECT_EQ(*table.Find(a), 1);
  EXPECT_EQ(*table.Remove(a), 1);
  EXPECT_FALSE(table.Find(a));
  EXPECT_FALSE(table.Remove(a));
  void* b = table.Insert(std::make_shared<int>(2));  // takes the freed slot
  EXPECT_NE(a, b);
  EXPECT_FALSE(table.Find(a));
  HandleTable<int, HandleKind::kScalar> other;
  void* c = other.Insert(std::make_shared<int>(3));
  EXPECT_FALSE(table.Find(c));
  EXPECT_EQ(KindOf(c), HandleKind::kScalar);
  EXPECT_FALSE(table.Find(&table));
  EXPECT_FALSE(table.Find(nullptr));
}

TEST(StreamTest, RunsInOrderOnTheSynchronisingThread) {
  auto s = Stream::Create(0);
  std::vector<int> order;
  std::atomic<int> elsewhere{0};
  const auto self = std::this_thread::get_id();
  for (int i = 0; i < 1000; ++i) {
    s->Push(MakeTask([&, i] {
      order.push_back(i);
      if (std::this_thread::get_id() != self) ++elsewhere;
    }));
  }
  EXPECT_EQ(s->Drain(), Stream::Wait::kDone);
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  s->Stop();
}

TEST(StreamTest, WorkerTakesOverWhenNobodySynchronises) {
  auto s = Stream::Create(0);
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) s->Push(MakeTask([&] { ++ran; }));
  EXPECT_TRUE(WaitFor([&] { return ran == 10; }));
  s->Push(MakeTask([&] { ++ran; }));
  s->Nudge();
  EXPECT_TRUE(WaitFor([&] { return ran == 11; }));
  s->Stop();
}

TEST(StreamTest, TimeoutAndSelfWait) {
  auto s = Stream::Create(0);
  std::atomic<bool> started{false}, go{false};
  s->Push(MakeTask([&] {
    started = true;
    WaitFor([&] { return go.load(); });
  }));
  Stream::Wait inside = Stream::Wait::kDone;
  s->Push(MakeTask([&] { inside = s->Drain(); }));
  ASSERT_TRUE(WaitFor([&] { return started.load(); }));  // on the worker
  EXPECT_EQ(s->Drain(Clock::now() + milliseconds(20)), Stream::Wait::kTimeout);
  go = true;
  EXPECT_EQ(s->Drain(), Stream::Wait::kDone);
  EXPECT_EQ(inside, Stream::Wait::kFromInside);
  s->Stop();
}

TEST(StreamTest, KeepsTheFirstError) {
  auto s = Stream::Create(0);
  Task t;
  t.run = [](const void*) { return InvalidArgument("first"); };
  s->Push(t);
  t.run = [](const void*) { return InvalidArgument("second"); };
  s->Push(t);
  s->Drain();
  EXPECT_EQ(s->TakeError().message(), "first");
  EXPECT_TRUE(s->TakeError().ok());
  s->Stop();
}

TEST(EventTest, OrdersStreams) {
  for (int round = 0; round < 200; ++round) {
    auto a = Stream::Create(0), b = Stream::Create(0);
    int value = 0;
    int seen = -1;
    a->Push(MakeTask([&] { value = 1; }));
    Event e(0);
    e.Record(a);
    int later = 0;  // work behind the mark does not hold b up
    a->Push(MakeTask([&] { later = 1; }));
    e.QueueWait(b);
    b->Push(MakeTask([&] { seen = value; }));
    EXPECT_EQ(b->Drain(), Stream::Wait::kDone);  // runs a's part itself
    EXPECT_EQ(seen, 1);
    a->Drain();
    a->Stop();
    b->Stop();
  }
}

TEST(EventTest, TimesAndReset) {
  auto s = Stream::Create(0);
  Event start(0), end(0), never(0);
  start.Record(s);
  s->Push(MakeTask([] { std::this_thread::sleep_for(milliseconds(5)); }));
  end.Record(s);
  EXPECT_EQ(end.Newest()->Await(std::nullopt), Stream::Wait::kDone);
  EXPECT_GE(end.Newest()->nanoseconds - start.Newest()->nanoseconds, 5'000'000);
  EXPECT_EQ(never.Newest(), nullptr);
  end.QueueReset(s);
  s->Drain();
  EXPECT_EQ(end.Newest(), nullptr);
  s->Stop();
}

TEST(EventTest, FourThreadsHammerStreamsAndEvents) {
  auto a = Stream::Create(0), b = Stream::Create(0);
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto& mine = t % 2 ? a : b;
      auto& other = t % 2 ? b : a;
      for (int i = 0; i < 500; ++i) {
        Event e(0);
        mine->Push(MakeTask([&] { ++ran; }));
        e.Record(mine);
        e.QueueWait(other);
        other->Push(MakeTask([&] { ++ran; }));
        if (i % 7 == 0) mine->Drain();
        if (i % 11 == 0) e.Newest()->Await(std::nullopt);
      }
      mine->Drain();
      other->Drain();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(ran, 4 * 500 * 2);
  a->Stop();
  b->Stop();
}

TEST(CaptureTest, OneOfTwoThreadsEndsIt) {
  auto s = Stream::Create(0);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(Capture::Begin(s).ok());
    s->Push(MakeTask([] {}));
    std::atomic<int> ended{0}, ready{0};
    std::atomic<size_t> tasks{0};
    auto end = [&] {
      for (++ready; ready < 2;) std::this_thread::yield();
      if (auto r = Capture::End(s); r.ok()) ++ended, tasks += r->size();
    };
    std::thread other(end);
    end();
    other.join();
    ASSERT_EQ(ended, 1);
    ASSERT_EQ(tasks, 1u);
    ASSERT_FALSE(s->capture());
  }
  s->Stop();
}

TEST(CaptureTest, StreamsThatJoinWhileItEndsAreFree) {
  auto first = Stream::Create(0), second = Stream::Create(0);
  for (int round = 0; round < 100; ++round) {
    auto capture = Capture::Begin(first);
    ASSERT_TRUE(capture.ok());
    std::atomic<int> ready{0};
    std::thread other([&] {
      for (++ready; ready < 2;) std::this_thread::yield();
      (*capture)->Join(second);
    });
    for (++ready; ready < 2;) std::this_thread::yield();
    ASSERT_TRUE(Capture::End(first).ok());
    other.join();
    ASSERT_FALSE(second->capture());
    EXPECT_FALSE((*capture)->Join(second));
    Task late = MakeTask([] {});
    EXPECT_FALSE((*capture)->Add(late));
  }
  first->Stop();
  second->Stop();
}

TEST(CaptureTest, EndsWithItsStream) {
  ASSERT_TRUE(SetDevice(0).ok());
  for (const bool joined_first : {false, true}) {
    auto a = CreateStream(0, 0), b = CreateStream(0, 0);
    ASSERT_TRUE(a.ok() && b.ok());
    std::weak_ptr<Stream> first = *ResolveStream(*a), second = *ResolveStream(*b);
    std::weak_ptr<Capture> capture = *Capture::Begin(first.lock());
    Event e(0);
    e.Record(first.lock());
    e.QueueWait(second.lock());
    ASSERT_EQ(second.lock()->capture(), capture.lock());
    ASSERT_TRUE(DestroyStream(joined_first ? *b : *a, false).ok());
    if (!joined_first) {
      EXPECT_FALSE(second.lock()->capture());
    }
    ASSERT_TRUE(DestroyStream(joined_first ? *a : *b, false).ok());
    e.Record(Stream::Create(0));  // the event lets go of its mark
    EXPECT_TRUE(capture.expired() && first.expired() && second.expired());
  }
  EXPECT_TRUE(ResetDevice(0, false).ok());
}

TEST(CallbackTest, RunOnTheSubscribedThread) {
  auto s = Stream::Create(0);
  std::atomic<uint64_t> subscriber{0};
  std::atomic<int> processed{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    subscriber = pthread_self();
    WaitFor([&] { return IsSubscribed(s); });
    while (!stop) {
      if (ProcessReport(Clock::now() + milliseconds(20)) == Report::kRan) ++processed;
    }
  });
  ASSERT_TRUE(WaitFor([&] { return subscriber != 0; }));
  ASSERT_TRUE(Subscribe(subscriber, s).ok());
  EXPECT_FALSE(Subscribe(subscriber, s).ok());
  static std::atomic<uint64_t> ran_on{0};
  ASSERT_TRUE(QueueReport(
                  s, [](void*) { ran_on = pthread_self(); }, nullptr, true)
                  .ok());
  s->Drain();
  EXPECT_EQ(ran_on, subscriber);
  EXPECT_TRUE(WaitFor([&] { return processed == 1; }));
  EXPECT_TRUE(Unsubscribe(subscriber, s).ok());
  EXPECT_FALSE(Unsubscribe(subscriber, s).ok());
  stop = true;
  thread.join();
  EXPECT_EQ(ProcessReport(Clock::now()), Report::kNotSubscribed);
  s->Stop();
}

TEST(DeviceTest, CountsAndContexts) {
  EXPECT_FALSE(SetDevice(DeviceCount()).ok());
  EXPECT_FALSE(SetDevice(-1).ok());
  ASSERT_TRUE(SetDevice(0).ok());
  ASSERT_TRUE(SetDevice(0).ok());
  void* first = CurrentContextHandle();
  EXPECT_TRUE(first);
  auto own = CreateContext(0);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(CurrentContextHandle(), *own);
  EXPECT_TRUE(DestroyContext(*own).ok());
  EXPECT_EQ(DestroyContext(*own).code(), Code::kInvalid);
  EXPECT_EQ(DestroyContext(first).code(), Code::kInvalid);  // the default one belongs to the device
  auto stream = CreateStream(0, 0);
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(DestroyStream(*stream, false).ok());
  EXPECT_EQ(DestroyStream(*stream, false).code(), Code::kInvalid);
  EXPECT_FALSE(ResolveStream(*stream).ok());
  EXPECT_TRUE(ResetDevice(0, false).ok());
  EXPECT_TRUE(IsActive(0));
  EXPECT_TRUE(ResetDevice(0, false).ok());
  EXPECT_FALSE(IsActive(0));
  EXPECT_FALSE(CreateStream(0, 0).ok());
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow threads started after a fork
TEST(ForkTest, ChildStartsAnew) {
  auto s = Stream::Create(0);
  std::atomic<int> ran{0};
  s->Push(MakeTask([&] { ++ran; }));
  s->Drain();  // a worker exists now
  const pid_t child = fork();
  if (child == 0) {
    s->Push(MakeTask([&] { ++ran; }));
    const bool worker = WaitFor([&] { return ran == 2; }, 3000);  // needs a worker of the child's own
    s->Push(MakeTask([&] { ++ran; }));
    _exit(worker && s->Drain() == Stream::Wait::kDone && ran == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  s->Stop();
}
#endif

TEST(LastError, PerThreadAndForgotten) {
  TakeErrorMessages();
  EXPECT_EQ(TakeErrorMessages(), nullptr);
  AddErrorMessage("one");
  AddErrorMessage("two");
  std::thread([] { EXPECT_EQ(TakeErrorMessages(), nullptr); }).join();
  EXPECT_STREQ(TakeErrorMessages(), "two\none");
  EXPECT_EQ(TakeErrorMessages(), nullptr);
}

}  // namespace
}  // namespace opsnn::runtime
