// What the examples need: failing loudly, and tensors on the device.
#ifndef OPSNN_EXAMPLES_ACLNN_COMMON_H_
#define OPSNN_EXAMPLES_ACLNN_COMMON_H_

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

inline void Check(int code, const char* what) {
  if (code == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s failed with %d: %s\n", what, code, message ? message : "");
  std::exit(1);
}

// A contiguous f32 tensor with its own device memory.
struct DeviceTensor {
  std::vector<int64_t> shape;
  size_t count = 1;
  void* address = nullptr;
  aclTensor* tensor = nullptr;

  explicit DeviceTensor(std::vector<int64_t> dims) : shape(std::move(dims)) {
    for (int64_t d : shape) count *= static_cast<size_t>(d);
    Check(aclrtMalloc(&address, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                             shape.size(), address);
    Check(tensor ? 0 : 1, "aclCreateTensor");
  }
  DeviceTensor(const DeviceTensor&) = delete;
  ~DeviceTensor() {
    aclDestroyTensor(tensor);
    aclrtFree(address);
  }

  void Upload(const std::vector<float>& values) {
    const size_t bytes = count * sizeof(float);
    Check(aclrtMemcpy(address, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
  }
  std::vector<float> Download() const {
    std::vector<float> values(count);
    const size_t bytes = count * sizeof(float);
    Check(aclrtMemcpy(values.data(), bytes, address, bytes, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
    return values;
  }
};

inline aclrtStream g_stream = nullptr;  // of the Device that lives

// The runtime with device 0 and a stream, for as long as the object lives; matmul_relu.cc spells it out.
struct Device {
  Device() {
    Check(aclInit(nullptr), "aclInit");
    Check(aclrtSetDevice(0), "aclrtSetDevice");
    Check(aclrtCreateStream(&g_stream), "aclrtCreateStream");
  }
  Device(const Device&) = delete;
  ~Device() {
    Check(aclrtDestroyStream(g_stream), "aclrtDestroyStream");
    Check(aclrtResetDevice(0), "aclrtResetDevice");
    Check(aclFinalize(), "aclFinalize");
  }
};

// Device memory for phase two; size 0 needs none.
struct Workspace {
  void* address = nullptr;
  explicit Workspace(uint64_t size) {
    if (size) Check(aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  }
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    if (address) aclrtFree(address);
  }
};

// Both phases of a call, and the wait that lets the workspace go: RUN(aclnnRelu, x, y).
template <typename Plan, typename Launch, typename... Args>
void Call(const char* name, Plan plan, Launch launch, Args... args) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  Check(plan(args..., &size, &executor), name);
  Workspace workspace(size);
  Check(launch(workspace.address, size, executor, g_stream), name);
  Check(aclrtSynchronizeStream(g_stream), name);
}
#define RUN(api, ...) Call(#api, api##GetWorkspaceSize, api, __VA_ARGS__)

#endif  // OPSNN_EXAMPLES_ACLNN_COMMON_H_
