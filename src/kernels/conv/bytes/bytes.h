// Convolutions of bytes on blocked images (NC1HWC0, C0 = 32): sums of u8 or s8 pixels times s8 weights,
// exact in s32, and back to bytes while they are in registers:
//
//   x = f32(sum) * scale[m] + bias[m];  y = saturate(round(fma(x, high, x * low)) + zero), within [lo, hi]
//
// The pixels of a row are the rows of a product and the channels its depth, four of which lie side by side in
// a block: nothing is packed but the weights, and a tile of outputs is written as whole pixels. Images with
// padding are copied with it first. Needs AVX512-VNNI.
#ifndef OPSNN_KERNELS_CONV_BYTES_BYTES_H_
#define OPSNN_KERNELS_CONV_BYTES_BYTES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"

namespace opsnn::conv {

inline constexpr int64_t kByteC0 = 32;
// An image of up to this many channels may come as NCHW; its padded copy has blocks of four channels.
inline constexpr int64_t kFewByteChannels = 4;

struct ByteConvShape {
  int64_t n = 1, c = 1, h = 1, w = 1, m = 1, oh = 1, ow = 1;
  int64_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0;
  bool depthwise = false;  // each output channel reads the channel of its own number
  bool x_blocked = true;   // else NCHW
  DType x_dtype = DType::kU8, y_dtype = DType::kU8;
  int32_t x_zero = 0;  // what padding holds

  int64_t depth() const { return (depthwise ? 1 : c) * kh * kw; }
};
// Null where RunByteConv does it on this CPU, else why not.
const char* ByteConvRefusal(const ByteConvShape& s);

// s8 weights, m x c x kh x kw (depthwise: m x 1 x kh x kw), in the order of the kernels, which depends on c,
// m, the kernel, its dilation and x_blocked alone. Null where there is no memory.
std::shared_ptr<const AlignedBuffer> PackByteWeights(const ByteConvShape& s, const int8_t* w);

// Values of the output channels in the order of the kernels (KernelOrder). They must be finite, and what is
// rounded below 2^30 for all sums that can be.
struct ByteRescale {
  std::vector<int32_t> terms;  // -x_zero * the sum of the channel's weights (ByteTerms)
  std::vector<float> scale, bias;
  float high = 1, low = 0;  // of 1 / the step of y (vector/bytes/quotient.h)
  int32_t zero = 0;
  int32_t lo = 0, hi = 255;  // within the type of y
};
std::vector<int32_t> ByteTerms(const ByteConvShape& s, const int8_t* w);
// One value for each output channel, padded to whole blocks with zeros.
std::vector<float> KernelOrder(const ByteConvShape& s, const std::vector<float>& values);

// Bytes of workspace for the copy of the image; 0 where there is none.
size_t ByteConvWorkspace(const ByteConvShape& s);
void RunByteConv(const ByteConvShape& s, const uint8_t* w, const ByteRescale& r, const uint8_t* x,
                 void* workspace, uint8_t* y);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_BYTES_BYTES_H_
