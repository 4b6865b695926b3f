#include "kernels/conv/finish.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "isa/caches.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/columns.h"
#include "kernels/conv/moments.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/winograd.h"
#include "vector/scratch_failures.h"

namespace opsnn::conv {

double MultiplyAdds(const ConvShape& s) {
  const double taps =
      static_cast<double>(s.taps()) / static_cast<double>(s.transposed ? s.sd * s.sh * s.sw : 1);
  return static_cast<double>(s.n * s.oc * s.out_plane()) * static_cast<double>(s.c / s.groups) * taps;
}

Operands PrepareOperands(const ConvPlan& plan, const ConvArgs& args) {
  const ConvShape& s = plan.shape;
  float* ws = static_cast<float*>(args.workspace);
  Operands o{args.x, args.y, nullptr};
  if (args.epilogue.bias) {
    std::memcpy(ws, args.epilogue.bias, static_cast<size_t>(s.oc) * sizeof(float));
    std::fill(ws + s.oc, ws + CeilDiv(s.oc, kC0) * kC0, 0.0f);
    o.bias = ws;
  }
  if (!s.x_blocked && plan.variant != Variant::kFirstLayer) {
    const void* const x = s.x_dtype == DType::kF32 ? args.x : args.half_x;
    ImagesToBlocked(s.x_dtype, x, s.n, s.c, s.plane(), ws + plan.x_offset);
    o.x = ws + plan.x_offset;
  }
  if (!s.y_blocked) o.y = ws + plan.y_offset;
  return o;
}

void FinishRows(const ConvPlan& plan, const ConvArgs& args, const float* y, int64_t n, int64_t block_begin,
                int64_t block_end, int64_t row_begin, int64_t row_end) {
  const ConvShape& s = plan.shape;
  const vector::Epilogue& e = args.epilogue;
  const bool convert = !s.y_blocked && args.y;
  if ((!e.program && !convert && !args.moments) || row_end <= row_begin) return;
  const int64_t blocks = CeilDiv(s.oc, kC0), plane = s.out_plane();
  const int64_t first = row_begin * s.ow, pixels = (row_end - row_begin) * s.ow;
  std::array<vector::BlockArg, 16> few;  // most programs; longer chains take theirs from the heap
  std::vector<vector::BlockArg> many;
  vector::BlockArg* block_args = few.data();
  if (1 + e.args.size() > few.size()) {
    many.resize(1 + e.args.size());
    block_args = many.data();
  }
  for (int64_t b = block_begin; b < block_end; ++b) {
    const float* block = y + ((n * blocks + b) * plane + first) * kC0;
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, s.oc - b * kC0));
    if (args.moments)
      RowMoments(plan, block, row_end - row_begin, MomentsOf(plan, args.moments, n, b, row_begin));
    if (e.program) {
      block_args[0] = {const_cast<float*>(block), DType::kF32, kC0, 1};
      for (size_t i = 0; i < e.args.size(); ++i) block_args[1 + i] = e.args[i].At(n, b, first, 0);
      vector::RunBlock(*e.program, pixels, lanes, block_args);
    }
    if (convert) FromBlocked(block, lanes, pixels, args.y + (n * s.oc + b * kC0) * plane + first, plane);
  }
}

int64_t ChunkBytesBesideStream() { return std::max(kChunkBytes, isa::HostCaches().l2 / 2); }

int64_t RowsPerTask(int64_t total_rows, int64_t row_bytes, int threads, int64_t chunk_bytes) {
  int64_t rows = std::max<int64_t>(1, chunk_bytes / std::max<int64_t>(1, row_bytes));
  if (threads > 1) rows = std::min(rows, CeilDiv(total_rows, threads * kTasksPerThread));
  return std::max<int64_t>(1, std::min(rows, total_rows));
}

int64_t EvenChunks(int64_t total_rows, int64_t rows_per_task, int threads) {
  const int64_t chunks = CeilDiv(total_rows, rows_per_task);
  return threads > 1 ? std::min(RoundUp(chunks, threads), total_rows) : chunks;
}

void* ThreadScratch(size_t bytes) {
  thread_local AlignedBuffer buffer;
  if (buffer.bytes() < bytes) {
    buffer = AlignedBuffer(bytes);
    if (!buffer) vector::NoteScratchFailure();
  }
  return buffer.data();
}

void RunConv(const ConvPlan& plan, const ConvArgs& args) {
  const ConvShape& s = plan.shape;
  if (s.n == 0 || s.oc == 0 || s.od == 0 || s.oh == 0 || s.ow == 0) return;
  std::optional<ScopedThreadLimit> alone;
  if (MultiplyAdds(s) < kAloneMultiplyAdds) alone.emplace(1);
  if (plan.variant == Variant::kIm2col) return RunColumns(plan, args);
  if (plan.variant == Variant::kDepthwise) {
    RunDepthwise(plan, WithPackedWeights(plan, args));
  } else if (plan.variant == Variant::kWinograd) {
    RunWinograd(plan, WithPackedWeights(plan, args));
  } else {
    RunDirect(plan, args);
  }
}

}  // namespace opsnn::conv
