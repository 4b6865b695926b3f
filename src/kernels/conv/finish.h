// What both drivers (direct and depthwise) share: chunks of output rows and what happens to them when done.
#ifndef OPSNN_KERNELS_CONV_FINISH_H_
#define OPSNN_KERNELS_CONV_FINISH_H_

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Operands as the tiles see them: blocked, inside the workspace where the caller's are not.
struct Operands {
  const float* x = nullptr;
  float* y = nullptr;
  const float* bias = nullptr;  // padded to whole blocks, or null
};
Operands PrepareOperands(const ConvPlan& plan, const ConvArgs& args);

// Output rows [row_begin, row_end) of image n, counted through its slices, blocks [block_begin, block_end),
// are complete: runs the epilogue's program on them, then converts them where y is NCHW.
void FinishRows(const ConvPlan& plan, const ConvArgs& args, const float* y, int64_t n, int64_t block_begin,
                int64_t block_end, int64_t row_begin, int64_t row_end);

// A chunk of rows is what should stay in the private L2 cache: half of the smallest in use (1 MiB) beside
// weights that stay there too, half of the machine's own beside weights that pass by once per chunk.
inline constexpr int64_t kChunkBytes = 512 << 10;
int64_t ChunkBytesBesideStream();

// Rows per task: chunks of `chunk_bytes`, and a few tasks per thread. `row_bytes` is what one row of work
// reads and writes.
int64_t RowsPerTask(int64_t total_rows, int64_t row_bytes, int threads, int64_t chunk_bytes = kChunkBytes);
// Chunks of rows of at most that many, all about equal and as many for each thread: chunk c holds the rows
// [total * c / chunks, total * (c + 1) / chunks).
int64_t EvenChunks(int64_t total_rows, int64_t rows_per_task, int threads);
inline constexpr int64_t kTasksPerThread = 4;  // enough to even out threads that start late

// Of the output as it is, whatever falls outside the input.
double MultiplyAdds(const ConvShape& s);
// Below so many (a dozen microseconds), what another core would take over costs less than to hand it over and
// to fetch its half of the result later.
inline constexpr double kAloneMultiplyAdds = 0.75e6;

// Memory of this thread that lives until the next call; at least `bytes`.
void* ThreadScratch(size_t bytes);

// One block of channels of one image: what rows of a depthwise convolution read and write.
struct DepthwiseBlock {
  const float* x = nullptr;         // the block's input planes
  const float* weights = nullptr;   // its packed weights
  const float* bias = nullptr;      // [kC0] or null
  float* y = nullptr;               // where the first of the rows goes
  const float* residual = nullptr;  // likewise, or null
  const Post* post = nullptr;
  bool stream = false;         // written past the caches
  bool ahead = false;          // input rows come from memory: ask for them early
  bool finite_weights = true;  // else products with padding are left out
};
// Output rows [begin, end), counted through the slices of the image.
void DepthwiseRows(const ConvShape& s, const DepthwiseBlock& block, int64_t begin, int64_t end);

void RunDirect(const ConvPlan& plan, const ConvArgs& args);
void RunDepthwise(const ConvPlan& plan, const ConvArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_FINISH_H_
