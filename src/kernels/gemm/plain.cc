#include "kernels/gemm/plain.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/plain_tile.h"

namespace opsnn::gemm {
namespace {

// Bytes of a group of B's panels, and of the rows of A that meet it: both stay in L2.
constexpr int64_t kGroupBytes = 512 * 1024;
// A block of C is at most so high; a task has so many rows at least, or packing B for it shows.
constexpr int64_t kBlockRows = 256, kLeastRows = 64;
constexpr int64_t kTasksPerThread = 4;

struct Job {
  const PlainParams* p = nullptr;
  bool is_f64 = false;
  int64_t size = 4;  // of an element
  MicroTile tile;
  int64_t block_rows = 0;
};

char* At(const void* data, int64_t elements, int64_t size) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * size;
}

char* ByteScratch(Scratch use, int64_t bytes) {
  return reinterpret_cast<char*>(ThreadScratch(use, CeilDiv(bytes, sizeof(float))));
}

// to[i * to_stride + j] = from[i * row_stride + j * col_stride]
template <typename T>
void CopyRows(const void* from, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols, void* to,
              int64_t to_stride) {
  const T* src = static_cast<const T*>(from);
  T* dst = static_cast<T*>(to);
  for (int64_t i = 0; i < rows; ++i, src += row_stride, dst += to_stride) {
    if (col_stride == 1) {
      memcpy(dst, src, static_cast<size_t>(cols) * sizeof(T));
    } else {
      for (int64_t j = 0; j < cols; ++j) dst[j] = src[j * col_stride];
    }
  }
}

// The panels of B one behind the other; what lies beyond the columns of the last is zero.
void PackPanels(const Job& job, const CBlock& r, char* to) {
  const PlainParams& p = *job.p;
  const int64_t nr = job.tile.nr, at = r.batch * p.b.batch_stride + r.col * p.b.col_stride;
  for (int64_t j = 0; j < r.cols; j += nr) {
    const int64_t cols = std::min(nr, r.cols - j);
    const char* from = At(p.b.data, at + j * p.b.col_stride, job.size);
    char* panel = to + j * p.k * job.size;
    if (cols < nr) memset(panel, 0, static_cast<size_t>(nr * p.k * job.size));
    const auto copy = job.is_f64 ? &CopyRows<double> : &CopyRows<int32_t>;
    copy(from, p.b.row_stride, p.b.col_stride, p.k, cols, panel, nr);
  }
}

// Rows of A with unit stride along k: where they lie, unless that stride puts them into a few sets of L1.
// False when there is no memory.
bool SetRows(const Job& job, int64_t batch, int64_t row, int64_t rows, PlainTile& t) {
  constexpr int64_t kHalfWay = 2048, kLine = 64;
  const PlainParams& p = *job.p;
  const char* from = At(p.a.data, batch * p.a.batch_stride + row * p.a.row_stride, job.size);
  t.a = from, t.lda = p.a.row_stride;
  if (p.a.col_stride == 1 && (rows == 1 || p.a.row_stride * job.size % kHalfWay != 0)) return true;
  t.lda = (CeilDiv(p.k * job.size, kLine) | 1) * kLine / job.size;
  char* to = ByteScratch(Scratch::kA, rows * t.lda * job.size);
  if (!to) return false;
  const auto copy = job.is_f64 ? &CopyRows<double> : &CopyRows<int32_t>;
  copy(from, p.a.row_stride, p.a.col_stride, rows, p.k, to, t.lda);
  t.a = to;
  return true;
}

void RunBlock(const Job& job, const CBlock& r, const char* panels, PlainTile t) {
  const PlainParams& p = *job.p;
  const int64_t nr = job.tile.nr;
  const char* a = static_cast<const char*>(t.a);
  char* c = static_cast<char*>(t.c);
  const RowPanels tiles(r.rows, job.tile.mr);
  t.k = p.k, t.ldb = nr;
  for (int64_t j = 0; j < r.cols; j += nr) {
    t.b = panels + j * p.k * job.size;
    t.cols = std::min(nr, r.cols - j);
    for (int64_t i = 0; i < tiles.count; ++i) {
      t.a = At(a, tiles.Start(i) * t.lda, job.size);
      t.c = At(c, tiles.Start(i) * t.ldc + j, job.size);
      RunPlainTile(job.is_f64, tiles.Height(i), t);
    }
  }
  if (p.program) {
    RunProgramByRows(*p.program, p.args, {c, p.a.dtype, t.ldc, 1}, r);
  }
}

void RunRegion(const Job& job, CBlock r) {
  const PlainParams& p = *job.p;
  const int64_t width = RoundUp(r.cols, job.tile.nr), end = r.row + r.rows;
  char* panels = ByteScratch(Scratch::kB, width * p.k * job.size);
  if (!panels) return;
  PackPanels(job, r, panels);
  for (; r.row < end; r.row += job.block_rows) {
    r.rows = std::min(job.block_rows, end - r.row);
    PlainTile t;
    t.c = p.c ? At(p.c, r.batch * p.c_batch_stride + r.row * p.c_row_stride + r.col, job.size)
              : ByteScratch(Scratch::kC, r.rows * width * job.size);
    t.ldc = p.c ? p.c_row_stride : width;
    if (!t.c || !SetRows(job, r.batch, r.row, r.rows, t)) return;
    RunBlock(job, r, panels, t);
  }
}

}  // namespace

void RunPlain(const PlainParams& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  assert(p.c || p.program);
  Job job;
  job.p = &p;
  job.is_f64 = p.a.dtype == DType::kF64;
  job.size = static_cast<int64_t>(SizeOf(p.a.dtype));
  job.tile = PlainTileFor(job.is_f64);
  const int64_t nr = job.tile.nr, mr = job.tile.mr, bytes = std::max<int64_t>(1, p.k) * job.size;
  job.block_rows = std::clamp(kGroupBytes / bytes / mr * mr, mr, RoundUp(kBlockRows, mr));
  const int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1) * p.batch;
  const int64_t panels = CeilDiv(p.n, nr);
  const int threads = ThreadsFor(work, 4.0 / static_cast<double>(job.size));
  int64_t nn = CeilDiv(panels, std::max<int64_t>(1, kGroupBytes / (bytes * nr))), nm = 1;
  if (threads > 1) {
    const int64_t tasks = CeilDiv(kTasksPerThread * threads, p.batch);
    nm = std::clamp(CeilDiv(tasks, nn), nm, CeilDiv(p.m, std::min(job.block_rows, kLeastRows)));
    nn = std::clamp(CeilDiv(tasks, nm), nn, panels);
  }
  const int64_t tm = CeilDiv(p.m, nm), tn = CeilDiv(panels, nn) * nr;
  nm = CeilDiv(p.m, tm), nn = CeilDiv(p.n, tn);
  ForEach(nm * nn * p.batch, threads, [&](int64_t i) {
    const int64_t tile = i % (nm * nn), row = tile / nn * tm, col = tile % nn * tn;
    RunRegion(job, {i / (nm * nn), row, std::min(tm, p.m - row), col, std::min(tn, p.n - col)});
  });
}

}  // namespace opsnn::gemm
