// What the C API tests share: tensors of the API over guarded memory, and calls through both phases.
#ifndef OPSNN_CAPI_API_TESTER_H_
#define OPSNN_CAPI_API_TESTER_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "testing/testing.h"

namespace opsnn::capi {

using testing::GuardedTensor;
using testing::Rng;

// A device with a stream for the length of a test.
class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    aclInit(nullptr);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    aclGetRecentErrMsg();
  }
  void TearDown() override {
    EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  }

  // Phase one has been called: its code, workspace size and executor. Runs phase two and synchronises.
  template <typename Run>
  int Finish(int code, Run run) {
    if (code) {
      EXPECT_EQ(executor_, nullptr);
      return code;
    }
    EXPECT_NE(executor_, nullptr);
    void* workspace = nullptr;
    if (workspace_size_) {
      EXPECT_EQ(aclrtMalloc(&workspace, workspace_size_, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    }
    code = run(workspace, workspace_size_, executor_, stream_);
    if (!code) code = aclrtSynchronizeStream(stream_);
    if (workspace) {
      EXPECT_EQ(aclrtFree(workspace), ACL_SUCCESS);
    }
    return code;
  }

  aclrtStream stream_ = nullptr;
  uint64_t workspace_size_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

// CALL(aclnnRelu, x, y): both phases; the code of the first that fails.
#define CALL(api, ...) \
  this->Finish(api##GetWorkspaceSize(__VA_ARGS__, &this->workspace_size_, &this->executor_), api)

// Expects a refused call: the code, and a message that holds every one of the given parts.
inline void ExpectRefused(int got, int want, const std::vector<std::string>& parts) {
  const char* message = aclGetRecentErrMsg();
  const std::string text = message ? message : "(no message)";
  EXPECT_EQ(got, want) << text;
  for (const std::string& p : parts)
    EXPECT_NE(text.find(p), std::string::npos) << "no \"" << p << "\" in: " << text;
}

// A tensor of the API on a guarded tensor of the tests.
class ApiTensor {
 public:
  ApiTensor(DType dtype, const Dims& dims, Rng* rng = nullptr, bool strided = false,
            aclFormat format = ACL_FORMAT_ND)
      : memory_(dtype, dims, rng, strided) {
    const TensorView& v = memory_.view();
    Create(v.dims, v.strides, format);
  }
  ~ApiTensor() { aclDestroyTensor(handle_); }
  ApiTensor(const ApiTensor&) = delete;

  operator aclTensor*() const { return handle_; }  // NOLINT: passes as the argument it stands for
  GuardedTensor& memory() { return memory_; }
  const Dims& dims() const { return memory_.view().dims; }
  DType dtype() const { return memory_.view().dtype; }
  std::vector<double> Get() const { return memory_.Get(); }
  void Set(const std::vector<double>& v) { memory_.Set(v); }

 private:
  void Create(const Dims& dims, const Dims& strides, aclFormat format) {
    // An offset that the address takes back: the API adds it again.
    const int64_t offset = dims.rank() % 3;
    char* base = static_cast<char*>(memory_.view().data) - offset * static_cast<int64_t>(SizeOf(dtype()));
    handle_ = aclCreateTensor(dims.data(), dims.rank(), static_cast<aclDataType>(Info(dtype()).acl),
                              strides.data(), offset, format, dims.data(), dims.rank(), base);
    EXPECT_NE(handle_, nullptr);
  }
  GuardedTensor memory_;
  aclTensor* handle_ = nullptr;
};

inline aclTensor* OrNull(bool given, const ApiTensor& t) {
  return given ? static_cast<aclTensor*>(t) : nullptr;
}

class ApiInts {
 public:
  ApiInts(std::vector<int64_t> v) : handle_(aclCreateIntArray(v.data(), v.size())) {}  // NOLINT
  ~ApiInts() { aclDestroyIntArray(handle_); }
  ApiInts(const ApiInts&) = delete;
  operator const aclIntArray*() const { return handle_; }  // NOLINT

 private:
  aclIntArray* handle_;
};

class ApiScalar {
 public:
  explicit ApiScalar(float v) : handle_(aclCreateScalar(&v, ACL_FLOAT)) {}
  ApiScalar(void* v, aclDataType type) : handle_(aclCreateScalar(v, type)) {}
  ~ApiScalar() { aclDestroyScalar(handle_); }
  ApiScalar(const ApiScalar&) = delete;
  operator const aclScalar*() const { return handle_; }  // NOLINT

 private:
  aclScalar* handle_;
};

// Rounding of `t` at value v, plus what f32 arithmetic of a few operations may lose: what a pointwise result
// may differ by from double arithmetic on the same inputs.
inline std::vector<double> PointwiseTolerance(const std::vector<double>& want, DType t, double f32_ulps = 8) {
  std::vector<double> tolerance;
  const bool f64 = t == DType::kF64;
  for (double v : want) {
    const double magnitude = std::isfinite(v) ? std::abs(v) : 0;
    const double smallest = t == DType::kF16 ? 0x1p-25 : 0x1p-126;  // half a subnormal step
    tolerance.push_back(magnitude * (testing::Epsilon(t) + f32_ulps * (f64 ? 0x1p-53 : 0x1p-24)) + smallest);
  }
  return tolerance;
}

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_TESTER_H_
