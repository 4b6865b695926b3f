#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/buffer_stats.h"
#include "base/caught.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/status.h"
#include "base/toml_file.h"

namespace opsnn {
namespace {

Status Fails() { return InvalidArgument("dim %d of %s", 3, "x"); }
Result<int> Number(bool good) {
  if (good) return 7;
  return Fails();
}
Status UsesMacros(bool good, int* out) {
  OPSNN_ASSIGN_OR_RETURN(*out, Number(good));
  OPSNN_RETURN_IF_ERROR(OkStatus());
  return OkStatus();
}

TEST(Status, CodesMessagesAndMacros) {
  EXPECT_TRUE(OkStatus().ok());
  EXPECT_EQ(OkStatus().message(), "");
  EXPECT_EQ(Fails().code(), Code::kInvalid);
  EXPECT_EQ(Fails().WithContext("Relu").message(), "Relu: dim 3 of x");
  EXPECT_EQ(Fails().WithContext("Relu").code(), Code::kInvalid);
  int out = 0;
  EXPECT_TRUE(UsesMacros(true, &out).ok());
  EXPECT_EQ(out, 7);
  EXPECT_EQ(UsesMacros(false, &out).message(), "dim 3 of x");
  EXPECT_EQ(sizeof(void*) * 2, sizeof(Status)) << "a good Status is one empty pointer";
}

TEST(DType, TableIsConsistent) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(Name(t)), t);
    EXPECT_EQ(DTypeFromAcl(Info(t).acl), t);
    EXPECT_EQ(DTypeFromOnnx(Info(t).onnx), t);
  }
  EXPECT_EQ(DTypeFromName("bfloat16"), DType::kBF16);
  EXPECT_EQ(DTypeFromName("float8"), std::nullopt);
  EXPECT_EQ(DTypeFromAcl(-1), std::nullopt);
  EXPECT_EQ(DTypeFromOnnx(0), std::nullopt);
}

TEST(Buffer, AlignmentMovesAndImpossibleSizes) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{5} << 20}) {
    AlignedBuffer b(bytes);
    ASSERT_TRUE(b);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % kAlignment, 0u);
    if (bytes) std::memset(b.data(), 1, bytes);
    AlignedBuffer moved = std::move(b);
    EXPECT_FALSE(b);  // NOLINT: a moved-from buffer is empty
    EXPECT_EQ(moved.bytes(), bytes);
  }
  EXPECT_FALSE(AlignedBuffer(SIZE_MAX));
  EXPECT_FALSE(AlignedBuffer(SIZE_MAX / 2));
}

// Freed blocks are used again, never for two owners at once.
TEST(Buffer, BlocksHaveOneOwner) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([t, &wrong] {
      std::vector<AlignedBuffer> held(4);
      for (uint32_t i = 0, r = static_cast<uint32_t>(t); i < 300; ++i) {
        r = r * 1664525u + 1013904223u;
        const size_t bytes = (64u << 10) + (r >> 8) % (3u << 20);
        AlignedBuffer& b = held[i % held.size()];
        b = AlignedBuffer(bytes);
        wrong += reinterpret_cast<uintptr_t>(b.data()) % kAlignment != 0;
        for (size_t at : {size_t{0}, bytes - 1}) b.as<char>()[at] = static_cast<char>('a' + t);
        for (const AlignedBuffer& other : held)
          if (other)
            wrong += other.as<char>()[0] != 'a' + t || other.as<char>()[other.bytes() - 1] != 'a' + t;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Sizes that never come back leave a few blocks behind, not one each.
TEST(Buffer, IdleBlocksDoNotGrowWithTheNumberOfSizes) {
  constexpr size_t kStep = 1 << 20, kSizes = 40, kMayWait = 10;
  size_t last = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    last = kStep + i * i * (kStep / 64);
    (void)AlignedBuffer(last);
  }
  EXPECT_LE(IdleBufferBytes(), static_cast<int64_t>(kMayWait * last));
  const int64_t before = ThreadBufferBytes();
  AlignedBuffer held(1000), other(500);
  EXPECT_EQ(ThreadBufferBytes() - before, 1500);
  held = AlignedBuffer();
  EXPECT_EQ(ThreadBufferBytes() - before, 500);
}

TEST(Caught, SaysNothingOfTheException) {
  const auto thrown = [](auto what) { return NoThrow([&]() -> Status { throw what; }); };
  EXPECT_EQ(thrown(std::bad_alloc()).code(), Code::kRuntime);
  EXPECT_EQ(thrown(std::length_error("vector::_M_default_append")).message(), "there is not enough memory.");
  const Status other = thrown(std::runtime_error("secret"));
  EXPECT_EQ(other.code(), Code::kInternal);
  EXPECT_EQ(other.message().find("secret"), std::string::npos);
  EXPECT_TRUE(NoThrow([] { return OkStatus(); }).ok());
  EXPECT_EQ(*NoThrow([]() -> Result<int> { return 7; }), 7);
}

TEST(Toml, FlattensValues) {
  auto r = ParseToml("b = 2\na = 'x'\n[t]\nlist = [1, 2]\nf = 0.5\nok = false\n", "f.toml");
  ASSERT_TRUE(r.ok()) << r.status().message();
  std::string text;
  for (const TomlEntry& e : *r) text += e.key + "=" + e.value + ";";
  EXPECT_EQ(text, "a=x;b=2;t.f=0.5;t.list=1,2;t.ok=false;");
  EXPECT_NE(ParseToml("a = \n", "f.toml").status().message().find("f.toml: line 1"), std::string::npos);
}

TEST(Log, LevelsFilter) {
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));  // the default shows warnings and above
  ::testing::internal::CaptureStderr();
  OPSNN_LOG(kWarn, "value %d", 42);
  OPSNN_LOG(kDebug, "hidden");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "opsnn warning: value 42\n");
}

}  // namespace
}  // namespace opsnn
