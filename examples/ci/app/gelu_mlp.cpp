// y = gelu(x * w + b), half a perceptron, through the two-phase API; checked against the host. Exit status 0
// if it is right.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_gelu.h"

#define CHECK(call)                                                                                   \
  do {                                                                                                \
    const int code = (call);                                                                          \
    if (code != ACL_SUCCESS) {                                                                        \
      const char *text = aclGetRecentErrMsg();                                                        \
      std::fprintf(stderr, "%s:%d: %s: %d\n%s\n", __FILE__, __LINE__, #call, code, text ? text : ""); \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (0)

static aclTensor *MakeTensor(const std::vector<float> &values, const std::vector<int64_t> &dims,
                             void **address) {
  const size_t bytes = values.size() * sizeof(float);
  CHECK(aclrtMalloc(address, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(*address, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims.data(),
                         dims.size(), *address);
}

int main() {
  const int64_t m = 64, k = 96, n = 128;
  std::vector<float> x(m * k), w(k * n), b(n), zero(m * n, 0.0f), y(m * n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) / 13 - 0.5f;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 11) / 11 - 0.5f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) / 7;

  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream;
  CHECK(aclrtCreateStream(&stream));

  void *memory[5];
  aclTensor *tx = MakeTensor(x, {m, k}, &memory[0]), *tw = MakeTensor(w, {k, n}, &memory[1]);
  aclTensor *tb = MakeTensor(b, {n}, &memory[2]), *th = MakeTensor(zero, {m, n}, &memory[3]);
  aclTensor *ty = MakeTensor(zero, {m, n}, &memory[4]);
  float one = 1.0f;
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);

  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  void *workspace[2] = {nullptr, nullptr};
  CHECK(aclnnAddmmGetWorkspaceSize(tb, tx, tw, alpha, alpha, th, 0, &size, &executor));
  if (size > 0) CHECK(aclrtMalloc(&workspace[0], size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnAddmm(workspace[0], size, executor, stream));
  CHECK(aclnnGeluGetWorkspaceSize(th, ty, &size, &executor));
  if (size > 0) CHECK(aclrtMalloc(&workspace[1], size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnGelu(workspace[1], size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(y.data(), y.size() * sizeof(float), memory[4], y.size() * sizeof(float),
                    ACL_MEMCPY_DEVICE_TO_HOST));

  double worst = 0;
  for (int64_t i = 0; i < m * n; ++i) {
    double h = b[i % n];
    for (int64_t j = 0; j < k; ++j) h += static_cast<double>(x[i / n * k + j]) * w[j * n + i % n];
    const double want = h / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (h + 0.044715 * h * h * h)));
    worst = std::fmax(worst, std::fabs(want - y[i]));
  }
  std::printf("gelu_mlp: %lld values, largest error %.1e\n", static_cast<long long>(m * n), worst);

  for (aclTensor *t : {tx, tw, tb, th, ty}) CHECK(aclDestroyTensor(t));
  CHECK(aclDestroyScalar(alpha));
  for (void *p : {memory[0], memory[1], memory[2], memory[3], memory[4], workspace[0], workspace[1]}) {
    if (p) CHECK(aclrtFree(p));
  }
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return worst < 1e-5 ? 0 : 1;
}
