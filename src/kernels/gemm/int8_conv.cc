#include "kernels/gemm/int8_conv.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "kernels/gemm/int8_internal.h"
#include "kernels/gemm/int8_windows.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

// Columns of a task: a quarter of a private cache of 1 MiB, which also holds them in panels, the sums and the
// weights that pass; not so few that the weights are read more often than is worth it, not so many that rows
// of A would be copied (int8.cc reads them in place up to 512 columns).
constexpr int64_t kColumnBytes = 256 * 1024, kLeastColumns = 2 * kInt8Cols, kMostColumns = 512;
// Fewer rows of C than this per task are not worth writing its columns once more.
constexpr int64_t kLeastRows = 4 * kInt8Rows;

constexpr size_t kMostArgs = 31;  // of a program (epilogue.cc)

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

// `cut`: all channels of all images, one behind the other; null where the image is read.
void RunTask(const Int8ConvParams& p, const CutImage& layout, const uint8_t* cut, const Task& t) {
  const ByteWindows& w = p.windows;
  const int64_t depth = w.depth(), padded = RoundUp(depth, kInt8Group), row = t.group * p.m + t.row;
  Int8Params g;
  g.m = t.rows, g.n = t.cols, g.k = cut ? padded : depth;
  g.a = {p.w + row * padded, p.w_dtype, padded, 1, 0};
  const uint8_t* image =
      cut ? cut + (t.image * p.groups + t.group) * w.channels * layout.channel_bytes() : nullptr;
  const auto pack = [&](int64_t col, int64_t cols, int64_t k0, int64_t k, uint8_t flip, uint8_t* dst) {
    layout.Pack(w, {image, t.col + col, cols, k0, k, flip}, dst);
  };
  const FunctionRef<PackPanelFn> pack_b(pack);
  if (cut) {
    // Rows up to a whole group cancel, as they hold the zero point.
    g.b = {nullptr, p.x_dtype, 0, 0, 0};
    g.pack_b = &pack_b;
  } else {
    g.b = {w.x + t.image * p.image_stride + t.group * w.channels * w.channel_stride + t.col, p.x_dtype,
           w.channel_stride, 1, 0};
  }
  g.a_zero = p.w_zero;
  if (p.w_zero.data) g.a_zero.data += row * p.w_zero.stride;
  g.b_zero = {&p.x_zero, 0};
  std::array<vector::EpilogueArg, kMostArgs> args;
  Requantise q;
  if (p.program) {
    for (size_t i = 0; i < p.args.size(); ++i) args[i] = Moved(p.args[i], t.image, row, t.col);
    g.program = p.program;
    g.chain = p.chain;
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
  if (p.windows.channels == 1 && p.groups > 1) return RunInt8Depthwise(p);
  const int64_t work = p.images * p.groups * p.m * pixels * std::max<int64_t>(1, p.windows.depth());
  const int threads = Int8ThreadsFor(work);
  const Cut cut(p, threads);
  const int64_t blocks = cut.col_tasks * cut.row_tasks;
  const CutImage layout(p.windows);
  uint8_t* copy = nullptr;
  if (!ReadsImage(p.windows)) {
    const int64_t channels = p.groups * p.windows.channels, bytes = layout.channel_bytes();
    copy = reinterpret_cast<uint8_t*>(
        ThreadScratch(Scratch::kPadded, (p.images * channels * bytes + CutImage::kSlack) / 4));
    if (!copy) return;
    ForEach(p.images * channels, threads, [&](int64_t i) {
      const uint8_t* plane =
          p.windows.x + i / channels * p.image_stride + i % channels * p.windows.channel_stride;
      layout.CopyChannel(p.windows, plane, copy + i * bytes);
    });
  }
  const auto run = [&](int64_t i, int) {
    const int64_t outer = i / blocks, row = i % cut.row_tasks * cut.rows,
                  col = i / cut.row_tasks % cut.col_tasks * cut.cols;
    RunTask(p, layout, copy,
            {outer / p.groups, outer % p.groups, row, std::min(cut.rows, p.m - row), col,
             std::min(cut.cols, pixels - col)});
  };
  const int64_t tasks = p.images * p.groups * blocks;
  if (threads > 1) return ParallelFor(tasks, run);
  const ScopedThreadLimit one(1);
  for (int64_t i = 0; i < tasks; ++i) run(i, 0);
}

}  // namespace opsnn::gemm
