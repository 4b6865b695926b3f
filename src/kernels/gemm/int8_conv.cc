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

// Lines are copied in vectors, so that buffers are longer than what is in them.
constexpr int64_t kSlack = 64;

// n bytes, `step` apart; up to kSlack more are read and written. Every other byte is the low half of a word.
void Gather(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  if (step == 1) {
    constexpr int64_t kVector = 16;
    for (int64_t i = 0; i < n; i += kVector) std::memcpy(to + i, from + i, kVector);
  } else if (step == 2) {
    for (int64_t i = 0; i < n; ++i) {
      uint16_t two;
      std::memcpy(&two, from + 2 * i, sizeof(two));
      to[i] = static_cast<uint8_t>(two);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}

// The image with its padding, as large as the windows reach.
ByteWindows Padded(const ByteWindows& w) {
  ByteWindows p = w;
  for (int a = 0; a < 3; ++a) {
    p.in[a] = (w.out[a] - 1) * w.stride[a] + (w.kernel[a] - 1) * w.dilation[a] + 1;
    p.pad[a] = 0;
  }
  p.in_stride[1] = 1, p.in_stride[0] = p.in[1], p.in_stride[2] = p.in[0] * p.in[1];
  p.channel_stride = p.in[2] * p.in_stride[2];
  return p;
}

// One channel of it.
void PadChannel(const ByteWindows& w, const uint8_t* plane, const ByteWindows& p, uint8_t* to) {
  const int64_t lo = std::clamp<int64_t>(w.pad[1], 0, p.in[1]),
                hi = std::clamp(w.in[1] + w.pad[1], lo, p.in[1]);
  for (int64_t z = 0; z < p.in[2]; ++z)
    for (int64_t y = 0; y < p.in[0]; ++y, to += p.in[1]) {
      const int64_t iz = z - w.pad[2], iy = y - w.pad[0];
      if (iz < 0 || iz >= w.in[2] || iy < 0 || iy >= w.in[0] || hi == lo) {
        std::memset(to, w.fill, static_cast<size_t>(p.in[1]));
        continue;
      }
      const uint8_t* from =
          plane + iz * w.in_stride[2] + iy * w.in_stride[0] + (lo - w.pad[1]) * w.in_stride[1];
      std::memset(to, w.fill, static_cast<size_t>(lo));
      if (w.in_stride[1] == 1) {
        std::memcpy(to + lo, from, static_cast<size_t>(hi - lo));
      } else {
        for (int64_t x = lo; x < hi; ++x) to[x] = from[(x - lo) * w.in_stride[1]];
      }
      std::memset(to + hi, w.fill, static_cast<size_t>(p.in[1] - hi));
    }
}

// Row r of the columns, r being position k of the window in a channel's plane, for pixels [first, first +
// count).
void WriteRow(const ByteWindows& w, const uint8_t* plane, const int64_t (&k)[3], int64_t first, int64_t count,
              uint8_t* to) {
  int64_t line = first / w.out[1], from = first % w.out[1], oy = line % w.out[0], oz = line / w.out[0];
  plane +=
      k[2] * w.dilation[2] * w.in_stride[2] + k[0] * w.dilation[0] * w.in_stride[0] + k[1] * w.dilation[1];
  for (int64_t left = count; left > 0;) {
    const int64_t n = std::min(w.out[1] - from, left);
    Gather(plane + oz * w.stride[2] * w.in_stride[2] + oy * w.stride[0] * w.in_stride[0] + from * w.stride[1],
           w.stride[1], to, n);
    to += n, left -= n, from = 0;
    if (++oy == w.out[0]) oy = 0, ++oz;
  }
}

// to[r * ld + p], p < count: what position r of the window (channel, depth, row, column) of the padded image
// meets at output pixel first + p.
void WriteColumns(const ByteWindows& w, int64_t first, int64_t count, uint8_t* to, int64_t ld) {
  int64_t k[3];
  for (int64_t c = 0; c < w.channels; ++c)
    for (k[2] = 0; k[2] < w.kernel[2]; ++k[2])
      for (k[0] = 0; k[0] < w.kernel[0]; ++k[0])
        for (k[1] = 0; k[1] < w.kernel[1]; ++k[1], to += ld)
          WriteRow(w, w.x + c * w.channel_stride, k, first, count, to);
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

// `padded_image`: all channels of all images, one behind the other; without data where the image is read.
void RunTask(const Int8ConvParams& p, const ByteWindows& padded_image, const Task& t) {
  const bool reads = padded_image.x == nullptr;
  ByteWindows w = reads ? p.windows : padded_image;
  w.x += t.image * (reads ? p.image_stride : p.groups * w.channels * w.channel_stride) +
         t.group * w.channels * w.channel_stride;
  const int64_t depth = w.depth(), padded = RoundUp(depth, kInt8Group), row = t.group * p.m + t.row;
  Int8Params g;
  g.m = t.rows, g.n = t.cols, g.k = depth;
  g.a = {p.w + row * padded, p.w_dtype, padded, 1, 0};
  if (reads) {
    g.b = {w.x + t.col, p.x_dtype, w.channel_stride, 1, 0};
  } else {
    const int64_t ld = RoundUp(t.cols, kInt8Cols);
    auto* columns = reinterpret_cast<uint8_t*>(ThreadScratch(Scratch::kColumns, (padded * ld + kSlack) / 4));
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

void RunInt8Conv(const Int8ConvParams& p) {
  const int64_t pixels = p.windows.pixels();
  if (p.images == 0 || p.groups == 0 || p.m == 0 || pixels == 0) return;
  const int64_t work = p.images * p.groups * p.m * pixels * std::max<int64_t>(1, p.windows.depth());
  const int64_t threads = work < kParallelWork ? 1 : ThreadsAvailable();
  const Cut cut(p, threads);
  const int64_t blocks = cut.col_tasks * cut.row_tasks;
  ByteWindows padded;
  if (!ReadsImage(p.windows)) {
    padded = Padded(p.windows);
    const int64_t channels = p.groups * padded.channels;
    auto* memory = reinterpret_cast<uint8_t*>(
        ThreadScratch(Scratch::kPadded, (p.images * channels * padded.channel_stride + 2 * kSlack) / 4));
    if (!memory) return;
    padded.x = memory;
    ForEach(p.images * channels, work, [&](int64_t i) {
      const uint8_t* plane =
          p.windows.x + i / channels * p.image_stride + i % channels * p.windows.channel_stride;
      PadChannel(p.windows, plane, padded, memory + i * padded.channel_stride);
    });
  }
  const auto run = [&](int64_t i, int) {
    const int64_t outer = i / blocks, row = i % cut.row_tasks * cut.rows,
                  col = i / cut.row_tasks % cut.col_tasks * cut.cols;
    RunTask(p, padded,
            {outer / p.groups, outer % p.groups, row, std::min(cut.rows, p.m - row), col,
             std::min(cut.cols, pixels - col)});
  };
  const int64_t tasks = p.images * p.groups * blocks;
  if (threads > 1) return ParallelFor(tasks, run);
  const ScopedThreadLimit one(1);
  for (int64_t i = 0; i < tasks; ++i) run(i, 0);
}

}  // namespace opsnn::gemm
