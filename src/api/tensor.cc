#include "opsnn/tensor.h"

#include "base/buffer.h"
#include "tensor/element.h"
#include "tensor/shape.h"

namespace opsnn {

Result<Tensor> Tensor::Make(DType dtype, std::vector<int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return InvalidArgument("Tensor: %zu dims, at most %d are allowed", dims.size(), kMaxRank);
  }
  if (static_cast<size_t>(dtype) >= kNumDTypes) {
    return InvalidArgument("Tensor: dtype is %d; allowed: 0 to %d, the values of DType",
                           static_cast<int>(dtype), static_cast<int>(kNumDTypes) - 1);
  }
  const Dims d(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    return InvalidArgument("Tensor: dims[%zu] is %lld; allowed: 0 or more", i,
                           static_cast<long long>(dims[i]));
  }
  const std::optional<int64_t> count = CheckedNumElements(d);
  if (!count || *count > INT64_MAX / 8) {
    return InvalidArgument("Tensor: dims %s hold more elements than 64 bits can count", ToString(d).c_str());
  }
  const size_t bytes = static_cast<size_t>(*count) * SizeOf(dtype);
  auto buffer = std::make_shared<AlignedBuffer>(bytes);
  if (!*buffer)
    return Errorf(Code::kRuntime, "Tensor: cannot allocate %zu bytes for dims %s", bytes,
                  ToString(d).c_str());
  Tensor t;
  t.dtype_ = dtype;
  t.dims_ = std::move(dims);
  t.data_ = std::shared_ptr<void>(buffer, buffer->data());
  return t;
}

Tensor Tensor::Share(DType dtype, std::vector<int64_t> dims, std::shared_ptr<void> data) {
  Tensor t;
  t.dtype_ = dtype;
  t.dims_ = std::move(dims);
  t.data_ = std::move(data);
  return t;
}

int64_t Tensor::size() const { return NumElements(Dims(dims_)); }

std::vector<double> Tensor::ToDoubles() const {
  if (!valid() || size() < 0) return {};  // shared dims are the caller's
  std::vector<double> v(static_cast<size_t>(size()));
  const char* p = static_cast<const char*>(raw());
  for (size_t i = 0; i < v.size(); ++i) v[i] = ReadElement(p + i * SizeOf(dtype_), dtype_);
  return v;
}

}  // namespace opsnn
