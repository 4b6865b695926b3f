// Products and convolutions where the process may not grow: a call is right, or an error that says why.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_matmul.h"

// Sanitizers need memory of their own for every step, and die where they get none.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace opsnn::cases {
namespace {

constexpr int kRuntimeError = 361001;

// One heap for all threads, from before the first one: a heap of a thread's own lies in addresses that are
// reserved already, so that no limit would be felt where that thread did the work.
[[maybe_unused]] const int kOneHeap = mallopt(M_ARENA_MAX, 1);

// While it lives the process may allocate `slack` more bytes in large pieces: what the allocator has in stock
// is taken first.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t slack) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = Mapped();
    setrlimit(RLIMIT_AS, &now);
    // Freed blocks that wait for others of their size are given back when the system refuses one.
    void* none = nullptr;
    EXPECT_NE(aclrtMalloc(&none, size_t{1} << 30, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    now.rlim_cur = Mapped();
    setrlimit(RLIMIT_AS, &now);
    constexpr size_t kPiece = 1 << 15;
    while (auto* piece = static_cast<Piece*>(std::malloc(kPiece))) {
      piece->next = stock_;
      stock_ = piece;
    }
    now.rlim_cur += slack;
    setrlimit(RLIMIT_AS, &now);
  }
  ~MemoryLimit() {
    setrlimit(RLIMIT_AS, &before_);
    while (stock_) std::free(std::exchange(stock_, stock_->next));
  }
  MemoryLimit(const MemoryLimit&) = delete;

 private:
  struct Piece {
    Piece* next;
  };
  static rlim_t Mapped() {
    std::ifstream statm("/proc/self/statm");
    size_t pages = 0;
    statm >> pages;
    return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  }
  rlimit before_{};
  Piece* stock_ = nullptr;
};

struct Tensor {
  Tensor(std::vector<int64_t> dims, aclDataType type) : elements(1) {
    for (const int64_t d : dims) elements *= static_cast<size_t>(d);
    bytes = elements * aclDataTypeSize(type);
    EXPECT_EQ(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    handle = aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0, ACL_FORMAT_NCHW, dims.data(),
                             dims.size(), data);
    // Small integers as f32 and as f16 alike: what is summed is exact, in any order.
    for (size_t i = 0; i < elements; ++i) {
      const int v = static_cast<int>(i * 2654435761u >> 7) % 3;
      if (type == ACL_FLOAT) static_cast<float*>(data)[i] = static_cast<float>(v);
      if (type == ACL_FLOAT16) static_cast<aclFloat16*>(data)[i] = aclFloatToFloat16(static_cast<float>(v));
    }
  }
  ~Tensor() {
    aclDestroyTensor(handle);
    aclrtFree(data);
  }
  Tensor(const Tensor&) = delete;
  size_t elements, bytes = 0;
  void* data = nullptr;
  aclTensor* handle = nullptr;
};

class NoMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    aclInit(nullptr);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  }
  using Plan = std::function<int(uint64_t*, aclOpExecutor**)>;
  using Run = int (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

  int Call(const Plan& plan, Run run, void* workspace, uint64_t workspace_bytes) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    if (int code = plan(&bytes, &executor)) return code;
    if (int code = run(workspace, workspace_bytes, executor, stream_)) return code;
    return aclrtSynchronizeStream(stream_);
  }

  // Under limits that grow until they no longer matter.
  void Sweep(const Plan& plan, Run run, Tensor& out) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(plan(&bytes, &executor), 0);
    ASSERT_EQ(aclDestroyAclOpExecutor(executor), 0);
    void* workspace = nullptr;
    if (bytes) {
      ASSERT_EQ(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    }
    std::vector<std::string> results;
    int failures = 0;
    for (size_t slack = 0; slack <= size_t{1} << 30; slack = slack ? 4 * slack : 1 << 16) {
      int code = 0;
      {
        const MemoryLimit limit(slack);
        code = Call(plan, run, workspace, bytes);
      }
      if (!code) {
        results.emplace_back(static_cast<char*>(out.data), out.bytes);
        continue;
      }
      ++failures;
      EXPECT_EQ(code, kRuntimeError) << "with " << slack;
      const char* message = aclGetRecentErrMsg();
      ASSERT_NE(message, nullptr);
      EXPECT_NE(std::strstr(message, "memory"), nullptr) << message;
    }
    EXPECT_GT(failures, 0) << "no limit was felt";
    ASSERT_GT(results.size(), 0u);
    for (const std::string& r : results) EXPECT_EQ(r, results.back());
    if (workspace) aclrtFree(workspace);
  }

  aclrtStream stream_ = nullptr;
};

TEST_F(NoMemory, ProductOfFloats) {
  Tensor a({700, 1500}, ACL_FLOAT), b({1500, 1100}, ACL_FLOAT), c({700, 1100}, ACL_FLOAT);
  Sweep([&](uint64_t* w,
            aclOpExecutor** e) { return aclnnMatmulGetWorkspaceSize(a.handle, b.handle, c.handle, 0, w, e); },
        &aclnnMatmul, c);
}

TEST_F(NoMemory, ProductOfHalves) {
  Tensor a({600, 1700}, ACL_FLOAT16), b({1700, 1300}, ACL_FLOAT16), c({600, 1300}, ACL_FLOAT16);
  Sweep([&](uint64_t* w,
            aclOpExecutor** e) { return aclnnMatmulGetWorkspaceSize(a.handle, b.handle, c.handle, 0, w, e); },
        &aclnnMatmul, c);
}

TEST_F(NoMemory, Convolutions) {
  const int64_t two[] = {2, 2}, three[] = {3, 3}, one[] = {1, 1}, zero[] = {0, 0};
  aclIntArray *stride = aclCreateIntArray(two, 2), *pad = aclCreateIntArray(three, 2);
  aclIntArray *dilation = aclCreateIntArray(one, 2), *none = aclCreateIntArray(zero, 2);
  for (const int64_t channels : {3, 32}) {
    Tensor x({1, channels, 500, 400}, ACL_FLOAT), w({48, channels, 7, 7}, ACL_FLOAT),
        y({1, 48, 250, 200}, ACL_FLOAT);
    Sweep(
        [&](uint64_t* bytes, aclOpExecutor** e) {
          return aclnnConvolutionGetWorkspaceSize(x.handle, w.handle, nullptr, stride, pad, dilation, false,
                                                  none, 1, y.handle, 0, bytes, e);
        },
        &aclnnConvolution, y);
  }
  for (aclIntArray* a : {stride, pad, dilation, none}) aclDestroyIntArray(a);
}

}  // namespace
}  // namespace opsnn::cases

#endif
