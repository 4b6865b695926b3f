// Micro-kernels of the weight gradient.
#ifndef OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_TILE_H_
#define OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_TILE_H_

#include <cstdint>

#include "isa/tier.h"

namespace opsnn::conv {

// An output row and the input row that it meets under a tap, in floats from TapArgs::x and dy.
struct RowPair {
  int64_t x = 0, dy = 0;
};

// One tap, one input block, one or two output blocks, some rows.
struct TapArgs {
  const float* x = nullptr;   // column of the first pixel, in row 0
  const float* dy = nullptr;  // likewise
  const RowPair* rows = nullptr;
  int64_t num_rows = 0;
  int64_t pixels = 0;                // per row
  int64_t x_step = 0;                // floats between the input pixels of neighbours
  const int64_t* offsets = nullptr;  // ColumnsTap: by channel, floats from x; else channels lie together
  int64_t dy_block = 0;              // floats between output blocks
  int channels = 0;                  // of the input block
  int blocks = 1;                    // output blocks: 1 or 2
  float* sums = nullptr;             // [channel][blocks][kC0]: the products are added to them
  int64_t sums_stride = 0;           // floats between channels
};
using TapFn = void (*)(const TapArgs&);

TapFn DenseTap(isa::Tier tier);      // sums[c][o] += sum over pixels of x[c] * dy[o]
TapFn ColumnsTap(isa::Tier tier);    // the same with channels that lie anywhere
TapFn DepthwiseTap(isa::Tier tier);  // sums[0][l] += sum over pixels of x[l] * dy[l]

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_TILE_H_
