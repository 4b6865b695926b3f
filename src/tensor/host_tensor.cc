#include "tensor/host_tensor.h"

#include "tensor/element.h"

namespace opsnn {

std::vector<int64_t> ToInts(const HostTensor& t) {
  std::vector<int64_t> out(static_cast<size_t>(t.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    // s64 apart: a double holds only 53 bits.
    out[i] = t.dtype() == DType::kS64
                 ? t.as<int64_t>()[i]
                 : static_cast<int64_t>(ReadElement(t.as<char>() + i * SizeOf(t.dtype()), t.dtype()));
  }
  return out;
}

std::vector<double> ToDoubles(const HostTensor& t) {
  std::vector<double> out(static_cast<size_t>(t.size()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = ReadElement(t.as<char>() + i * SizeOf(t.dtype()), t.dtype());
  return out;
}

}  // namespace opsnn
