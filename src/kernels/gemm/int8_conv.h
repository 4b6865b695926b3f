// Convolutions of 8-bit integers as products, exact in s32: the weights are A, and B's column p holds the
// window of output pixel p. Panels of columns are written out of a padded copy of the image (int8_windows.h)
// by the tasks that multiply them; a pointwise convolution reads the image itself.
#ifndef OPSNN_KERNELS_GEMM_INT8_CONV_H_
#define OPSNN_KERNELS_GEMM_INT8_CONV_H_

#include "kernels/gemm/int8.h"

namespace opsnn::gemm {

// Axis 0 is rows, 1 columns, 2 depth; strides in elements.
struct ByteWindows {
  const uint8_t* x = nullptr;
  int64_t channels = 1, channel_stride = 0;  // of a group
  int64_t in[3] = {1, 1, 1}, in_stride[3] = {0, 0, 0}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  uint8_t fill = 0;  // what lies outside of the image

  int64_t depth() const { return channels * kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return out[0] * out[1] * out[2]; }
};

struct Int8ConvParams {
  int64_t images = 1, groups = 1, m = 0;  // m: output channels of a group
  DType x_dtype = DType::kU8, w_dtype = DType::kS8;
  ByteWindows windows;  // of image 0 and group 0; fill is the zero point of x
  int64_t image_stride = 0;
  const uint8_t* w = nullptr;  // groups * m rows of RoundUp(depth, 4) bytes, 0 beyond depth
  ZeroPoints w_zero;           // one value, or one per row
  int32_t x_zero = 0;
  // As in Int8Params, the batch being the image, a row of C an output channel and a column a pixel.
  int32_t* c = nullptr;
  int64_t c_row_stride = 0, c_batch_stride = 0;
  const vector::CompiledProgram* program = nullptr;
  std::span<const vector::EpilogueArg> args;
  const Int8Chain* chain = nullptr;
  const Requantise* requantise = nullptr;
};
void RunInt8Conv(const Int8ConvParams& p);
// The same where each group has one channel: RunInt8Conv calls it.
void RunInt8Depthwise(const Int8ConvParams& p);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_CONV_H_
