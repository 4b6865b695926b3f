#include "kernels/reduce/row_norm_grad.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/reduce/norm_grad_tier.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

int64_t BlocksOf(int64_t rows) { return CeilDiv(rows, kNormGradRows); }

// Rows of one block: sums down the columns go to `sums`, first dy * n, then dy.
void RunBlock(const RowNormGrad& p, int64_t block, bool stream, float* sums) {
  const int64_t begin = block * kNormGradRows, end = std::min(begin + kNormGradRows, p.rows);
  const int64_t row_bytes = p.cols * static_cast<int64_t>(SizeOf(p.type));
  const bool sums_wanted = p.dgamma || p.dbeta;
  if (sums_wanted) std::fill(sums, sums + 2 * p.cols, 0.0f);
  NormGradRun r;
  r.type = p.type, r.n = static_cast<size_t>(p.cols);
  r.gamma = p.gamma, r.stream = stream;
  if (sums_wanted) r.by_element_dyn = sums, r.by_element_dy = sums + p.cols;
  for (int64_t row = begin; row < end; ++row) {
    const char* const dy = static_cast<const char*>(p.dy) + row * row_bytes;
    const char* const x = static_cast<const char*>(p.x) + row * row_bytes;
    const int64_t ahead = row + 1 < p.rows ? row_bytes : 0;
    r.dy = dy, r.x = x, r.next_dy = dy + ahead, r.next_x = x + ahead;
    r.mean = p.mean ? p.mean[row] : 0, r.rstd = p.rstd[row];
    SumNormGrad(r);
    if (!p.dx) continue;
    const auto n = static_cast<double>(p.cols);
    r.mean_g = p.mean ? static_cast<float>(r.sum_g / n) : 0;
    r.mean_gn = static_cast<float>(r.sum_gn / n);
    r.dx = static_cast<char*>(p.dx) + row * row_bytes;
    WriteNormGrad(r);
  }
  if (stream) vector::FlushStreams();
}

// The blocks' sums in order, a strip of columns at a time.
void MergeBlocks(const float* sums, int64_t blocks, int64_t cols, float* to) {
  constexpr int64_t kStrip = 256;
  ParallelFor(CeilDiv(cols, kStrip), [&](int64_t strip, int) {
    const int64_t first = strip * kStrip, count = std::min(kStrip, cols - first);
    double total[kStrip] = {};
    for (int64_t b = 0; b < blocks; ++b) {
      const float* const from = sums + b * 2 * cols + first;
      for (int64_t i = 0; i < count; ++i) total[i] += from[i];
    }
    for (int64_t i = 0; i < count; ++i) to[first + i] = static_cast<float>(total[i]);
  });
}

}  // namespace

size_t RowNormGradScratch(int64_t rows, int64_t cols) {
  return static_cast<size_t>(BlocksOf(rows) * 2 * cols) * sizeof(float);
}

void RunRowNormGrad(const RowNormGrad& p, void* scratch) {
  float* const sums = static_cast<float*>(scratch);
  const int64_t blocks = BlocksOf(p.rows);
  const int64_t bytes = p.rows * p.cols * static_cast<int64_t>(SizeOf(p.type));
  const bool stream = p.dx && p.dx != p.dy && p.dx != p.x && bytes >= vector::StreamingThreshold();
  ParallelFor(blocks, [&](int64_t b, int) { RunBlock(p, b, stream, sums + b * 2 * p.cols); });
  if (p.dgamma) MergeBlocks(sums, blocks, p.cols, p.dgamma);
  if (p.dbeta) MergeBlocks(sums + p.cols, blocks, p.cols, p.dbeta);
}

}  // namespace opsnn::kernels
