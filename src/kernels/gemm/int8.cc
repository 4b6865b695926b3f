// The driver of 8-bit products: cutting, packing, zero points, threads.
#include "kernels/gemm/int8.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gemm/int8_internal.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

// A block of A is 504 KiB, a panel of B 32 KiB: L2 and L1, as for f32. Sums are exact, so the depth is free.
constexpr int64_t kBlockRows = 36 * kInt8Rows, kDepth = 1024;
// Below this many multiply-adds a call runs on the calling thread; columns narrower than this per task would
// pack A more often than it is worth.
constexpr int64_t kParallelWork = 1 << 22, kMinTaskCols = 4 * kInt8Cols;

struct Job {
  const Int8Params* p = nullptr;
  Int8TileFn tile = nullptr;
  uint8_t a_flip = 0, b_flip = 0;  // 0x80 for what is not in the packed format's sign
};

// Bytes (i, k) at data + i * i_stride + k * k_stride; what is packed of them is flipped.
struct ByteSource {
  const uint8_t* data = nullptr;
  int64_t i_stride = 0, k_stride = 0;
  uint8_t flip = 0;
  uint8_t At(int64_t i, int64_t k) const {
    return static_cast<uint8_t>(data[i * i_stride + k * k_stride] ^ flip);
  }
};

ByteSource RowsOfA(const Job& job, int64_t batch, int64_t row, int64_t k) {
  const Operand& a = job.p->a;
  const auto* data = static_cast<const uint8_t*>(a.data);
  return {data + batch * a.batch_stride + row * a.row_stride + k * a.col_stride, a.row_stride, a.col_stride,
          job.a_flip};
}
ByteSource ColumnsOfB(const Job& job, int64_t batch, int64_t col, int64_t k) {
  const Operand& b = job.p->b;
  const auto* data = static_cast<const uint8_t*>(b.data);
  return {data + batch * b.batch_stride + col * b.col_stride + k * b.row_stride, b.col_stride, b.row_stride,
          job.b_flip};
}

// dst[group][i][4], `ld` wide; zero beyond width and depth, which adds nothing to products and sums.
void PackGroups(const ByteSource& s, int64_t width, int64_t depth, int64_t ld, uint8_t* dst) {
  const int64_t whole = depth / kInt8Group;
  const uint32_t flip = s.flip * 0x01010101u;
  int64_t first = 0;  // group that is not packed yet
  if (s.i_stride == 1 && width == kInt8Cols && ld == kInt8Cols) {
    PackInt8Rows(s.data, s.k_stride, whole, s.flip, dst);
    first = whole;
  } else if (s.k_stride == 1) {
    for (int64_t i = 0; i < width; ++i) {
      const uint8_t* row = s.data + i * s.i_stride;
      for (int64_t g = 0; g < whole; ++g) {
        uint32_t four;
        memcpy(&four, row + g * kInt8Group, sizeof(four));
        four ^= flip;
        memcpy(dst + (g * ld + i) * kInt8Group, &four, sizeof(four));
      }
    }
    for (int64_t g = 0; g < whole && width < ld; ++g) {
      memset(dst + (g * ld + width) * kInt8Group, 0, static_cast<size_t>((ld - width) * kInt8Group));
    }
    first = whole;
  }
  for (int64_t g = first; g < CeilDiv(depth, kInt8Group); ++g) {
    for (int64_t i = 0; i < ld; ++i) {
      for (int64_t u = 0; u < kInt8Group; ++u) {
        const int64_t k = g * kInt8Group + u;
        dst[(g * ld + i) * kInt8Group + u] = i < width && k < depth ? s.At(i, k) : uint8_t{0};
      }
    }
  }
}

// Sums of packed columns: a tile with a row of ones.
void ColumnSums(const Job& job, const uint8_t* ones, const int8_t* panel, int64_t groups, bool accumulate,
                int32_t* sums) {
  job.tile({1, kInt8Cols, groups, ones, panel, sums, kInt8Cols, accumulate});
}

uint32_t RowSum(const ByteSource& row, int64_t k) {
  uint32_t sum = 0;
  if (row.k_stride == 1) {
    for (int64_t i = 0; i < k; ++i) sum += static_cast<uint8_t>(row.data[i] ^ row.flip);
  } else {
    for (int64_t i = 0; i < k; ++i) sum += row.At(0, i);
  }
  return sum;
}

struct Block {
  int64_t batch = 0, row = 0, rows = 0, col = 0, cols = 0;
};

// The zero points of the packed values: sum (a - za)(b - zb) = sum ab - zb sum a - za sum b + k za zb.
void Correct(const Job& job, const Block& t, const uint32_t* row_sums, const uint32_t* column_sums) {
  const Int8Params& p = *job.p;
  const uint32_t a_shift = job.a_flip ? 128 : 0, b_shift = job.b_flip ? 128 : 0;
  for (int64_t i = 0; i < t.rows; ++i) {
    const uint32_t za = static_cast<uint32_t>(p.a_zero.At(t.row + i)) + a_shift;
    const uint32_t sum = row_sums[i] - static_cast<uint32_t>(p.k) * za;
    int32_t* c = p.c + t.batch * p.c_batch_stride + (t.row + i) * p.c_row_stride + t.col;
    for (int64_t j = 0; j < t.cols; ++j) {
      const uint32_t zb = static_cast<uint32_t>(p.b_zero.At(t.col + j)) - b_shift;
      c[j] = static_cast<int32_t>(static_cast<uint32_t>(c[j]) - zb * sum - za * column_sums[j]);
    }
  }
}

void RunBlock(const Job& job, const Block& t) {
  const Int8Params& p = *job.p;
  const RowPanels panels(t.rows, kInt8Rows);
  const int64_t width = RoundUp(t.cols, kInt8Cols);
  auto* a = reinterpret_cast<uint8_t*>(ThreadScratch(Scratch::kA, t.rows * kDepth / 4));
  auto* b = reinterpret_cast<uint8_t*>(ThreadScratch(Scratch::kB, (kInt8Cols * kDepth + kDepth) / 4));
  auto* column_sums = reinterpret_cast<int32_t*>(ThreadScratch(Scratch::kC, width + t.rows));
  if (!a || !b || !column_sums) return;
  uint8_t* ones = b + kInt8Cols * kDepth;
  memset(ones, 1, kDepth);
  auto* row_sums = reinterpret_cast<uint32_t*>(column_sums + width);
  for (int64_t i = 0; i < t.rows; ++i) row_sums[i] = RowSum(RowsOfA(job, t.batch, t.row + i, 0), p.k);
  int64_t k0 = 0;
  do {  // once even for k = 0: C is then zero
    const int64_t depth = std::min(kDepth, p.k - k0), groups = CeilDiv(depth, kInt8Group);
    for (int64_t i = 0; i < panels.count; ++i) {
      const int64_t row = panels.Start(i), height = panels.Height(i);
      PackGroups(RowsOfA(job, t.batch, t.row + row, k0), height, depth, height,
                 a + row * groups * kInt8Group);
    }
    for (int64_t j = 0; j < t.cols; j += kInt8Cols) {
      const int64_t cols = std::min(kInt8Cols, t.cols - j);
      PackGroups(ColumnsOfB(job, t.batch, t.col + j, k0), cols, depth, kInt8Cols, b);
      const auto* panel = reinterpret_cast<const int8_t*>(b);
      ColumnSums(job, ones, panel, groups, k0 > 0, column_sums + j);
      int32_t* c = p.c + t.batch * p.c_batch_stride + t.row * p.c_row_stride + t.col + j;
      for (int64_t i = 0; i < panels.count; ++i) {
        const int64_t row = panels.Start(i);
        job.tile({panels.Height(i), cols, groups, a + row * groups * kInt8Group, panel,
                  c + row * p.c_row_stride, p.c_row_stride, k0 > 0});
      }
    }
    k0 += depth;
  } while (k0 < p.k);
  Correct(job, t, row_sums, reinterpret_cast<const uint32_t*>(column_sums));
}

}  // namespace

void RunInt8(const Int8Params& p) {
  assert(SizeOf(p.a.dtype) == 1 && SizeOf(p.b.dtype) == 1);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  Job job;
  job.p = &p;
  job.tile = isa::HasVnni() ? Int8TileVnni() : Int8TileForTier();
  job.a_flip = p.a.dtype == DType::kS8 ? 0x80 : 0;
  job.b_flip = p.b.dtype == DType::kU8 ? 0x80 : 0;
  const int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1) * p.batch;
  const int64_t threads = work < kParallelWork ? 1 : ThreadsAvailable();
  const int64_t nm = CeilDiv(p.m, kBlockRows), most_n = std::max<int64_t>(1, p.n / kMinTaskCols);
  const int64_t nn = threads == 1 ? 1 : std::clamp<int64_t>(CeilDiv(2 * threads, nm * p.batch), 1, most_n);
  const int64_t tm = CeilDiv(p.m, nm), tn = RoundUp(CeilDiv(p.n, nn), kInt8Cols);
  const int64_t cuts = CeilDiv(p.n, tn);
  const auto run = [&](int64_t i, int) {
    const int64_t tile = i % (nm * cuts), row = tile / cuts * tm, col = tile % cuts * tn;
    RunBlock(job, {i / (nm * cuts), row, std::min(tm, p.m - row), col, std::min(tn, p.n - col)});
  };
  const int64_t tasks = nm * cuts * p.batch;
  if (threads == 1) {
    for (int64_t i = 0; i < tasks; ++i) run(i, 0);
  } else {
    ParallelFor(tasks, run);
  }
}

}  // namespace opsnn::gemm
