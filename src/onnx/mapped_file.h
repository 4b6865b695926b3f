// A file mapped for reading.
#ifndef OPSNN_ONNX_MAPPED_FILE_H_
#define OPSNN_ONNX_MAPPED_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace opsnn::onnx {

class MappedFile {
 public:
  // An error names the path and what the system said.
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  MappedFile& operator=(MappedFile&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~MappedFile();
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_MAPPED_FILE_H_
