// HostTensor: a contiguous tensor that owns its memory, shared and immutable once built: initialisers of a
// graph, values of shape arithmetic, test data.
#ifndef OPSNN_TENSOR_HOST_TENSOR_H_
#define OPSNN_TENSOR_HOST_TENSOR_H_

#include <cstring>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "tensor/tensor_view.h"

namespace opsnn {

class HostTensor {
 public:
  HostTensor() = default;
  // The caller checks that dims are known and small enough; data is not zeroed. Check ok() before writing.
  HostTensor(DType dtype, const Dims& dims)
      : dtype_(dtype), dims_(dims), buffer_(static_cast<size_t>(NumElements(dims)) * SizeOf(dtype)) {}
  template <typename T>
  static std::shared_ptr<const HostTensor> From(const Dims& dims, const std::vector<T>& values) {
    auto t = std::make_shared<HostTensor>(DTypeOf<T>::value, dims);
    for (size_t i = 0; i < values.size(); ++i) static_cast<T*>(t->data())[i] = values[i];
    return t;
  }
  bool ok() const { return buffer_.data() != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t size() const { return NumElements(dims_); }
  size_t bytes() const { return static_cast<size_t>(size()) * SizeOf(dtype_); }
  void* data() const { return buffer_.data(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(buffer_.data());
  }
  TensorView view() const { return TensorView::Contiguous(buffer_.data(), dtype_, dims_); }

 private:
  DType dtype_ = DType::kF32;
  Dims dims_;
  AlignedBuffer buffer_;
};
using ConstTensor = std::shared_ptr<const HostTensor>;

// Integers of a small s64/s32 tensor, as shape arithmetic needs them.
std::vector<int64_t> ToInts(const HostTensor& t);
// Any dtype to double (tests, folding, reference).
std::vector<double> ToDoubles(const HostTensor& t);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_HOST_TENSOR_H_
