#include "kernels/gemm/int8_conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gemm/int8_internal.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

// Columns of a task: a quarter of a private cache of 1 MiB, which also holds them in panels, the sums and the
// weights that pass; not so few that the weights are read more often than is worth it, not so many that rows
// of A would be copied (int8.cc reads them in place up to 512 columns).
constexpr int64_t kColumnBytes = 256 * 1024, kLeastColumns = 2 * kInt8Cols, kMostColumns = 512;
// Below this many multiply-adds a call runs on the calling thread; fewer rows of C than this per task are not
// worth writing its columns once more.
constexpr int64_t kParallelWork = 1 << 22, kLeastRows = 4 * kInt8Rows;

constexpr size_t kMostArgs = 31;  // of a program (epilogue.cc)

// n bytes, `step` apart. Every other byte is the low half of a word.
void Gather(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n));
    return;
  }
  int64_t i = 0;
  if (step == 2) {
    for (; i + 1 < n; ++i) {
      uint16_t two;
      std::memcpy(&two, from + 2 * i, sizeof(two));
      to[i] = static_cast<uint8_t>(two);
    }
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

// Outputs [begin, end) of a line whose window position lies within the image; the others are padding.
struct Inside {
  int64_t begin, end;
  Inside(const ByteWindows& w, int axis, int64_t at) {
    const int64_t shift = at * w.dilation[axis] - w.pad[axis], s = w.stride[axis];
    begin = shift >= 0 ? 0 : CeilDiv(-shift, s);
    end = w.in[axis] <= shift ? 0 : CeilDiv(w.in[axis] - shift, s);
    end = std::min(end, w.out[axis]);
    begin = std::min(begin, end);
  }
};

// One row of the columns.
void WriteRow(const ByteWindows& w, const uint8_t* plane, const int64_t (&k)[3], int64_t first, int64_t count,
              uint8_t* to) {
  const Inside x(w, 1, k[1]);
  for (int64_t p = first, end = first + count; p < end;) {
    const int64_t line = p / w.out[1], from = p % w.out[1], n = std::min(w.out[1] - from, end - p);
    const int64_t oy = line % w.out[0], oz = line / w.out[0];
    const int64_t iy = oy * w.stride[0] - w.pad[0] + k[0] * w.dilation[0],
                  iz = oz * w.stride[2] - w.pad[2] + k[2] * w.dilation[2];
    const bool in_image = iy >= 0 && iy < w.in[0] && iz >= 0 && iz < w.in[2];
    const int64_t lo = in_image ? std::clamp(x.begin, from, from + n) : from + n,
                  hi = in_image ? std::clamp(x.end, lo, from + n) : lo;
    std::memset(to, w.fill, static_cast<size_t>(lo - from));
    if (hi > lo) {
      const int64_t ix = lo * w.stride[1] - w.pad[1] + k[1] * w.dilation[1];
      Gather(plane + iz * w.in_stride[2] + iy * w.in_stride[0] + ix * w.in_stride[1],
             w.stride[1] * w.in_stride[1], to + (lo - from), hi - lo);
    }
    std::memset(to + (hi - from), w.fill, static_cast<size_t>(from + n - hi));
    to += n, p += n;
  }
}

// A pointwise convolution: the columns are the image.
bool ReadsImage(const ByteWindows& w) {
  for (int a = 0; a < 3; ++a)
    if (w.kernel[a] != 1 || w.stride[a] != 1 || w.pad[a] != 0 || w.in[a] != w.out[a]) return false;
  const int64_t line = w.out[1], plane = w.out[0] * line;
  return (w.in[1] == 1 || w.in_stride[1] == 1) && (w.in[0] == 1 || w.in_stride[0] == line) &&
         (w.in[2] == 1 || w.in_stride[2] == plane);
}

struct Cut {
  int64_t cols = 0, col_tasks = 0, rows = 0, row_tasks = 0;
  Cut(const Int8ConvParams& p, int64_t threads) {
    const int64_t pixels = p.windows.pixels(), depth = std::max<int64_t>(1, p.windows.depth());
    const int64_t most =
        std::clamp(kColumnBytes / depth / kInt8Cols * kInt8Cols, kLeastColumns, kMostColumns);
    col_tasks = CeilDiv(pixels, most);
    const int64_t outer = p.images * p.groups;
    if (threads > 1)
      col_tasks = std::max(col_tasks, std::min(CeilDiv(2 * threads, outer), pixels / kLeastColumns));
    cols = RoundUp(CeilDiv(pixels, std::max<int64_t>(1, col_tasks)), kInt8Cols);
    col_tasks = CeilDiv(pixels, cols);
    const int64_t wanted = threads > 1 ? CeilDiv(2 * threads, outer * col_tasks) : 1;
    row_tasks = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, p.m / kLeastRows));
    rows = CeilDiv(p.m, row_tasks);
    row_tasks = CeilDiv(p.m, rows);
  }
};

// The block of one task: rows [row, row + rows) of a group, pixels [col, col + cols).
struct Task {
  int64_t image, group, row, rows, col, cols;
};

// `x` moved to a block.
vector::EpilogueArg Moved(vector::EpilogueArg x, int64_t image, int64_t row, int64_t col) {
  x.data = x.At(image, 0, row, col).data;
  return x;
}

void RunTask(const Int8ConvParams& p, const Task& t) {
  ByteWindows w = p.windows;
  w.x += t.image * p.image_stride + t.group * w.channels * w.channel_stride;
  const int64_t depth = w.depth(), padded = RoundUp(depth, kInt8Group), row = t.group * p.m + t.row;
  Int8Params g;
  g.m = t.rows, g.n = t.cols, g.k = depth;
  g.a = {p.w + row * padded, p.w_dtype, padded, 1, 0};
  if (ReadsImage(w)) {
    g.b = {w.x + t.col, p.x_dtype, w.channel_stride, 1, 0};
  } else {
    const int64_t ld = RoundUp(t.cols, kInt8Cols);
    auto* columns = reinterpret_cast<uint8_t*>(ThreadScratch(Scratch::kColumns, padded * ld / 4));
    if (!columns) return;
    WriteColumns(w, t.col, t.cols, columns, ld);
    // Rows up to a whole group cancel, as they hold the zero point.
    for (int64_t r = depth; r < padded; ++r) std::memset(columns + r * ld, w.fill, static_cast<size_t>(ld));
    g.k = padded;
    g.b = {columns, p.x_dtype, ld, 1, 0};
  }
  g.a_zero = p.w_zero;
  if (p.w_zero.data) g.a_zero.data += row * p.w_zero.stride;
  g.b_zero = {&p.x_zero, 0};
  std::array<vector::EpilogueArg, kMostArgs> args;
  Requantise q;
  if (p.program) {
    for (size_t i = 0; i < p.args.size(); ++i) args[i] = Moved(p.args[i], t.image, row, t.col);
    g.program = p.program;
    g.args = {args.data(), p.args.size()};
  } else if (p.requantise) {
    q = *p.requantise;
    q.factor += row * q.factor_row_stride + t.col * q.factor_col_stride;
    if (q.bias) q.bias += row * q.bias_row_stride + t.col * q.bias_col_stride;
    q.y = static_cast<uint8_t*>(q.y) + t.image * q.y_batch_stride + row * q.y_row_stride + t.col;
    g.requantise = &q;
  } else {
    g.c = p.c + t.image * p.c_batch_stride + row * p.c_row_stride + t.col;
    g.c_row_stride = p.c_row_stride;
  }
  RunInt8(g);
}

}  // namespace

void WriteColumns(const ByteWindows& w, int64_t first, int64_t count, uint8_t* to, int64_t ld) {
  int64_t k[3];
  for (int64_t c = 0; c < w.channels; ++c)
    for (k[2] = 0; k[2] < w.kernel[2]; ++k[2])
      for (k[0] = 0; k[0] < w.kernel[0]; ++k[0])
        for (k[1] = 0; k[1] < w.kernel[1]; ++k[1], to += ld)
          WriteRow(w, w.x + c * w.channel_stride, k, first, count, to);
}

void RunInt8Conv(const Int8ConvParams& p) {
  const int64_t pixels = p.windows.pixels();
  if (p.images == 0 || p.groups == 0 || p.m == 0 || pixels == 0) return;
  const int64_t work = p.images * p.groups * p.m * pixels * std::max<int64_t>(1, p.windows.depth());
  const int64_t threads = work < kParallelWork ? 1 : ThreadsAvailable();
  const Cut cut(p, threads);
  const int64_t blocks = cut.col_tasks * cut.row_tasks;
  const auto run = [&](int64_t i, int) {
    const int64_t outer = i / blocks, row = i % cut.row_tasks * cut.rows,
                  col = i / cut.row_tasks % cut.col_tasks * cut.cols;
    RunTask(p, {outer / p.groups, outer % p.groups, row, std::min(cut.rows, p.m - row), col,
                std::min(cut.cols, pixels - col)});
  };
  const int64_t tasks = p.images * p.groups * blocks;
  if (threads > 1) return ParallelFor(tasks, run);
  const ScopedThreadLimit one(1);
  for (int64_t i = 0; i < tasks; ++i) run(i, 0);
}

}  // namespace opsnn::gemm
