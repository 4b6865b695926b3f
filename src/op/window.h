// Sliding windows: the attributes that convolutions and poolings share, read, checked and applied to sizes.
#ifndef OPSNN_OP_WINDOW_H_
#define OPSNN_OP_WINDOW_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "op/attrs.h"
#include "tensor/shape.h"

namespace opsnn::op {

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

// Axis 0 is rows, 1 columns, 2 depth; dims that an operator does not have are a window of 1.
struct Window {
  int spatial = 2;  // dims given by the user: (W), (H, W) or (D, H, W)
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad_begin[3] = {0, 0, 0};
  int64_t pad_end[3] = {0, 0, 0};
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
  bool pads_beside = false;  // SAME, and pads that must be what it stands for

  // Axis of the user's spatial dim i, and back.
  int AxisOf(int i) const { return spatial < 3 ? 2 - spatial + i : i == 0 ? 2 : i - 1; }
  int DimOf(int axis) const { return spatial < 3 ? axis - (2 - spatial) : axis == 2 ? 0 : axis + 1; }
  int64_t Extent(int axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

// The list of an attribute as it stands; empty where there is none of that name.
std::span<const int64_t> IntsOf(const Attrs& attrs, std::string_view name);

// Reads strides, dilations, pads, auto_pad, ceil_mode. `kernel` holds the spatial kernel sizes (rank 1 to 3,
// positive). Messages name `op` and the attribute.
Result<Window> ReadWindow(const char* op, const Attrs& attrs, const Dims& kernel);

// Resolves SAME and VALID padding for an input of `in` on `axis` and returns the output size. Fails
// when the window is larger than the padded input, or sizes overflow.
Result<int64_t> WindowOutput(const char* op, Window* w, int axis, int64_t in);

// The same for a transposed convolution: out = (in - 1) * stride + extent + output_padding - pads.
// `wanted` >= 0 is an explicit output size, from which the pads follow.
Result<int64_t> TransposedOutput(const char* op, Window* w, int axis, int64_t in, int64_t output_padding,
                                 int64_t wanted);

}  // namespace opsnn::op

#endif  // OPSNN_OP_WINDOW_H_
