// The windows of a convolution of bytes as columns of a product, written as panels of B (int8_internal.h).
//
// They are read from a copy of the image with its padding that is cut by the strides: the positions that are
// s apart lie side by side, one plane for each remainder that a window meets. So neighbouring output pixels
// read neighbouring bytes whatever the strides, and a few lines of a small image lie within one vector.
#ifndef OPSNN_KERNELS_GEMM_INT8_WINDOWS_H_
#define OPSNN_KERNELS_GEMM_INT8_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "kernels/gemm/int8_conv.h"
#include "kernels/gemm/int8_internal.h"

namespace opsnn::gemm {

class CutImage {
 public:
  explicit CutImage(const ByteWindows& w);

  int64_t channel_bytes() const { return channel_bytes_; }
  // Output pixel (z, y, x) meets tap t at ((z * size(0) + y) * size(1) + x) + taps()[t] of its channel.
  int64_t size(int axis) const { return axis_[axis].size; }
  const std::vector<int64_t>& taps() const { return taps_; }
  // Readable bytes that must follow the last channel.
  static constexpr int64_t kSlack = 128;

  // Copies one channel of the image, whose window, size and padding are those of the constructor.
  void CopyChannel(const ByteWindows& w, const uint8_t* plane, uint8_t* to) const;

  // Panel of columns [first, first + count), count <= kInt8Cols, rows [k0, k0 + depth) of windows over the
  // channels at `image`; rows from w.depth() on hold w.fill. dst as in PackInt8Rows, which flips too.
  struct Panel {
    const uint8_t* image = nullptr;
    int64_t first = 0, count = 0, k0 = 0, depth = 0;
    uint8_t flip = 0;
  };
  void Pack(const ByteWindows& w, const Panel& p, uint8_t* dst) const;

 private:
  struct Axis {
    int64_t size = 1;                   // positions of a plane
    std::vector<int64_t> remainder;     // of the planes
    std::vector<int64_t> plane_of, at;  // of each tap of the kernel: its plane and position there
  };
  struct Inside {
    int64_t lo = 0, hi = 0;       // positions
    int64_t first = 0, step = 1;  // in bytes: of position lo, and to the next
  };
  Inside InsideOf(const ByteWindows& w, int axis, int64_t remainder) const;
  void CopySlice(const Inside& rows, const Inside& cols, const uint8_t* from, uint8_t fill,
                 uint8_t* to) const;
  int64_t PlaneBytes() const { return axis_[0].size * axis_[1].size * axis_[2].size; }
  void PackRows(const Panel& p, int64_t groups, const int32_t* columns, uint8_t* dst) const;
  void PackLast(const ByteWindows& w, const Panel& p, int64_t k, const int32_t* columns, uint8_t* dst) const;

  Axis axis_[3];  // rows, columns, depth
  int64_t channel_bytes_ = 0;
  std::vector<int64_t> taps_;  // where the window's positions lie within a channel
};

// `groups` groups of four rows: row r lies at image + its channel + its tap, and its element j `columns[j]`
// further. Needs AVX512-VBMI and that elements 0 to 15 and 16 to 31 each lie within 64 bytes.
struct WindowRows {
  const uint8_t* image = nullptr;  // of the first row's channel
  const int64_t* taps = nullptr;
  int64_t num_taps = 0, tap = 0, channel_bytes = 0;  // tap: of the first row
  const uint8_t* Next() {
    const uint8_t* row = image + taps[tap];
    if (++tap == num_taps) tap = 0, image += channel_bytes;
    return row;
  }
};
using PackWindowsFn = void (*)(WindowRows rows, int64_t groups, const int32_t* columns, uint8_t flip,
                               uint8_t* dst);
PackWindowsFn PackWindowsVbmi();  // null where the CPU or the cap rules it out

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_WINDOWS_H_
