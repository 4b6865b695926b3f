// Images cut into blocks of channels for the weight gradient, a chunk of rows at a time.
#ifndef OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_BLOCKS_H_
#define OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_BLOCKS_H_

#include <cstdint>

#include "kernels/conv/grad/weight_grad.h"

namespace opsnn::conv {

// Rows [begin, end) of output, counted through all slices of all images, and those of the input, counted
// likewise, that they meet: some rows of one slice, or whole images.
struct GradChunk {
  int64_t begin = 0, end = 0;
  int64_t x_begin = 0, x_end = 0;
};
// The chunk of at most `rows` rows that begins at row `begin`.
GradChunk ChunkAt(const ConvShape& s, int64_t begin, int64_t rows);

// Floats between the blocks of a chunk.
inline int64_t XBlockFloats(const WeightGradPlan& p) { return p.chunk_x_rows * p.shape.w * kC0; }
inline int64_t DyBlockFloats(const WeightGradPlan& p) { return p.chunk_rows * p.shape.ow * kC0; }

// blocked_x[group][block][row - x_begin][column][lane], dy likewise; lanes that stand for no channel hold 0.
// Rows of the input that no kernel position meets are left out.
void BlockChunk(const WeightGradPlan& plan, const GradChunk& chunk, const float* x, const float* dy,
                float* blocked_x, float* blocked_dy);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_BLOCKS_H_
