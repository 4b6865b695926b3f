// Tensor: dtype, dims and a shared block of memory, row-major. Copies share the block.
#ifndef OPSNN_TENSOR_H_
#define OPSNN_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "opsnn/dtype.h"
#include "opsnn/export.h"
#include "opsnn/status.h"

namespace opsnn {

class OPSNN_API Tensor {
 public:
  Tensor() = default;
  // A tensor of these dims, its memory 128-byte aligned and not set to anything. Errors: a negative dim, more
  // than 8 dims, a size that overflows, memory that cannot be had.
  static Result<Tensor> Make(DType dtype, std::vector<int64_t> dims);
  // A tensor on memory that somebody else made, contiguous and row-major; `data` keeps it alive.
  static Tensor Share(DType dtype, std::vector<int64_t> dims, std::shared_ptr<void> data);
  // A tensor that holds a copy of `values`, converted to T's dtype; the count must match the dims.
  template <typename T>
  static Result<Tensor> From(std::vector<int64_t> dims, const std::vector<T>& values) {
    Result<Tensor> t = Make(DTypeOf<T>::value, std::move(dims));
    if (!t.ok()) return t;
    if (t->size() != static_cast<int64_t>(values.size())) {
      return Status(Code::kInvalid, "Tensor::From: " + std::to_string(values.size()) + " values for " +
                                        std::to_string(t->size()) + " elements");
    }
    for (size_t i = 0; i < values.size(); ++i) t->template data<T>()[i] = values[i];
    return t;
  }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t size() const;  // number of elements; 1 for rank 0
  size_t bytes() const { return static_cast<size_t>(size()) * SizeOf(dtype_); }
  void* raw() const { return data_.get(); }
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_.get());
  }
  bool valid() const { return data_ != nullptr; }
  std::vector<double> ToDoubles() const;  // empty where there is no memory

 private:
  DType dtype_ = DType::kF32;
  std::vector<int64_t> dims_;
  std::shared_ptr<void> data_;
};

// NumPy .npy files, versions 1 to 3, little-endian, C order (Fortran order is transposed on reading). bf16
// has no NumPy type and is written as f32. Errors name the file and what is wrong with it.
OPSNN_API Result<Tensor> LoadNpy(const std::string& path);
OPSNN_API Status SaveNpy(const std::string& path, const Tensor& tensor);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_H_
