// The C++ API from an installed prefix.
#include <opsnn/system.h>
#include <opsnn/tensor.h>

#include <cstdio>

int main() {
  auto t = opsnn::Tensor::From<float>({2, 2}, {1, 2, 3, 4});
  if (!t.ok() || t->size() != 4) return 1;
  auto bad = opsnn::Tensor::From<float>({2, 3}, {1, 2, 3, 4});
  if (bad.ok() || bad.status().message().empty()) return 1;
  std::printf("tensors: fine, opsnn %s\n", opsnn::GetSystemInfo().version.c_str());
  return 0;
}
