#include "graph/ir/reordered.h"

#include <algorithm>
#include <memory>

namespace opsnn::graph {

Perm Inverse(const Perm& perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

Dims Permuted(const Dims& dims, const Perm& perm) {
  Dims out;
  for (const int64_t axis : perm) out.push_back(dims[static_cast<int>(axis)]);
  return out;
}

ConstTensor PermutedTensor(const HostTensor& t, const Dims& dims, const Perm& perm) {
  const Dims out_dims = Permuted(dims, perm), strides = Permuted(ContiguousStrides(dims), perm);
  auto out = std::make_shared<HostTensor>(t.dtype(), out_dims);
  if (!out->ok()) return nullptr;
  const size_t size = SizeOf(t.dtype());
  Dims at = Dims::Filled(dims.rank(), 0);
  char* to = out->as<char>();
  for (int64_t i = t.size(); i > 0; --i, to += size) {
    int64_t offset = 0;
    for (int k = 0; k < at.rank(); ++k) offset += at[k] * strides[k];
    std::copy_n(t.as<char>() + static_cast<size_t>(offset) * size, size, to);
    for (int k = at.rank() - 1; k >= 0 && ++at[k] == out_dims[k]; --k) at[k] = 0;
  }
  return out;
}

}  // namespace opsnn::graph
