// Between the driver of convolutions of bytes and its tier file.
#ifndef OPSNN_KERNELS_CONV_BYTES_TILE_H_
#define OPSNN_KERNELS_CONV_BYTES_TILE_H_

#include <cstdint>

namespace opsnn::conv {

// 28 accumulators: 14 pixels of 32 channels, or 7 of 64.
inline constexpr int kByteRows = 14, kWideByteRows = 7;
inline constexpr int64_t kByteGroup = 4;  // channels that one lane multiplies

// Sums back to bytes (bytes.h); signs as if y were u8, to which flip_y is applied.
struct ByteStores {
  float high = 1, low = 0;
  int32_t zero = 0;
  uint8_t lo = 0, hi = 255, flip_y = 0;
};

// Groups of four channels that follow each other in memory, from `offset` of a pixel's window on.
struct ByteStep {
  int64_t offset = 0, groups = 0;
};

struct ByteTile {
  int rows = 0;  // pixels
  const uint8_t* x = nullptr;
  int64_t x_row = 0;  // bytes from one pixel to the next
  const ByteStep* steps = nullptr;
  int64_t num_steps = 0;
  const uint8_t* w = nullptr;  // [group][32 channels][4]
  int64_t w_panel = 0;         // bytes to the next 32 channels
  int vectors = 2;             // of 16 channels: 1, 2 or, of two panels, 4
  const int32_t* terms = nullptr;
  const float *scale = nullptr, *bias = nullptr;
  ByteStores stores;
  uint8_t* y = nullptr;  // pixels are 32 bytes apart
  int64_t y_block = 0;   // bytes to the next 32 channels
};
using ByteTileFn = void (*)(const ByteTile&);
// Null where it is not compiled. `flip`: x is s8.
ByteTileFn ByteTileVnni(bool flip);

// 32 channels of a line of pixels, depthwise. Taps come in groups of four, the last ones with weights of 0.
// Weights, terms, scales and biases lie in the order in which bytes are interleaved (ByteLaneChannel).
struct ByteLine {
  const uint8_t* x = nullptr;
  int64_t x_step = 0;  // bytes from one output pixel to the next
  const int64_t* taps = nullptr;
  int64_t groups = 0, pixels = 0;
  const int8_t* w = nullptr;  // [group][4][64]
  const int32_t* terms = nullptr;
  const float *scale = nullptr, *bias = nullptr;  // [4][16], as terms
  ByteStores stores;
  uint8_t* y = nullptr;
};
using ByteLineFn = void (*)(const ByteLine&);
ByteLineFn ByteLineVnni(bool flip);
// The channel, of 32, of lane `lane` (0 to 15) of vector `vector` (0 to 3).
inline int ByteLaneChannel(int vector, int lane) { return lane / 4 % 2 * 16 + vector * 4 + lane % 4; }

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_BYTES_TILE_H_
