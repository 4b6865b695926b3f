// AlignedBuffer: owned memory, 128-byte aligned, huge pages asked for from 2 MiB up. Moves, never copies.
#ifndef OPSNN_BASE_BUFFER_H_
#define OPSNN_BASE_BUFFER_H_

#include <cstddef>
#include <utility>

namespace opsnn {

inline constexpr size_t kAlignment = 128;

// Null when the memory cannot be had. Not zeroed.
void* AllocateAligned(size_t bytes);
void FreeAligned(void* p, size_t bytes);

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : data_(AllocateAligned(bytes)), bytes_(data_ ? bytes : 0) {}
  AlignedBuffer(AlignedBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~AlignedBuffer() { FreeAligned(data_, bytes_); }
  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace opsnn

#endif  // OPSNN_BASE_BUFFER_H_
