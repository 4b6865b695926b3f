#include "kernels/transpose/layout_convert.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/parallel.h"
#include "kernels/transpose/runs.h"
#include "kernels/transpose/strided_copy.h"
#include "kernels/transpose/tile.h"
#include "vector/run.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

// Pixels handled at a time: a piece of one channel block in the wider of the two dtypes stays in L1
// (32 channels x 128 pixels x 8 bytes = 32 KiB at most).
constexpr int64_t kPixels = 128;
constexpr int kMaxC0 = 32;
constexpr int64_t kTaskBytes = 128 << 10;

// One side of a conversion as strides in elements: of images, of channel blocks, of channels inside a block
// and of pixels. A plain layout is a blocked one whose blocks lie c0 * channel apart.
struct Side {
  char* data;
  DType dtype;
  int c0;  // 0: plain, any block size
  int64_t image, block, channel, pixel;
  int64_t size() const { return static_cast<int64_t>(SizeOf(dtype)); }
  char* At(int64_t n, int64_t c, int64_t pixel_index) const {
    const int64_t in_block = c0 ? c / c0 * block + c % c0 * channel : c * channel;
    return data + (n * image + in_block + pixel_index * pixel) * size();
  }
};

Side MakeSide(const void* data, DType dtype, const Layout& layout, int64_t channels, int64_t pixels) {
  Side s = {static_cast<char*>(const_cast<void*>(data)), dtype, 0, channels * pixels, 0, pixels, 1};
  if (layout.format == Format::kNHWC) {
    s.channel = 1;
    s.pixel = channels;
  } else if (layout.format == Format::kNC1HWC0) {
    s.c0 = layout.c0;
    s.image = (channels + s.c0 - 1) / s.c0 * s.c0 * pixels;
    s.block = s.c0 * pixels;
    s.channel = 1;
    s.pixel = s.c0;
  }
  return s;
}

// The program that only copies: loads and stores convert. One per compute type, which is that of the source,
// so that a value is rounded once.
const vector::CompiledProgram& CopyProgram(DType from) {
  constexpr int kTypes = 4;
  using Table = std::array<std::shared_ptr<const vector::CompiledProgram>, kTypes>;
  static const Table* const table = [] {
    auto* t = new Table;
    for (int i = 0; i < kTypes; ++i) {
      ProgramBuilder b;
      b.Output(b.Unary(StageOp::kCopy, b.Input(static_cast<ComputeType>(i))));
      (*t)[i] = vector::Compile(std::move(b).Build()).value();
    }
    return t;
  }();
  return *(*table)[static_cast<int>(ComputeTypeOf(from))];
}

// `channels` channels from c on (inside one block of each side) of `pixels` pixels from p on.
class PieceCopier {
 public:
  PieceCopier(const Side& src, const Side& dst, bool stream)
      : src_(src), dst_(dst), stream_(stream), convert_(src.dtype != dst.dtype) {
    if (convert_) program_ = &CopyProgram(src.dtype);
  }

  void Copy(int64_t n, int64_t c, int64_t channels, int64_t p, int64_t pixels) const {
    char* from = src_.At(n, c, p);
    char* to = dst_.At(n, c, p);
    const int64_t es = src_.size(), ed = dst_.size();
    if (src_.channel == 1 && dst_.channel == 1) {  // channels innermost on both sides
      if (convert_) {
        Convert(from, src_.pixel, to, dst_.pixel, pixels, channels);
      } else {
        CopyRuns({from, src_.pixel * es, to, dst_.pixel * ed, pixels, channels * es});
      }
    } else if (src_.channel == 1) {
      FromChannelsLast(from, to, channels, pixels);
    } else {
      ToChannelsLast(from, to, channels, pixels);
    }
  }

 private:
  void Convert(char* from, int64_t from_row, char* to, int64_t to_row, int64_t rows, int64_t cols) const {
    const vector::BlockArg args[] = {{from, src_.dtype, from_row, 1}, {to, dst_.dtype, to_row, 1}};
    vector::RunBlock(*program_, rows, cols, args);
  }

  // Channels that a piece holds, and as many whole vectors of pixels as then fit it.
  static int64_t PieceChannels(int64_t channels) { return std::min<int64_t>(kMaxC0, channels); }
  static int64_t PiecePixels(int64_t channels) { return kMaxC0 / PieceChannels(channels) * kPixels; }

  // (pixels, channels) -> (channels, pixels); the dtype changes first, into a piece that stays in L1.
  void FromChannelsLast(char* from, char* to, int64_t channels, int64_t pixels) const {
    const int64_t ed = dst_.size();
    if (!convert_) {
      return Transpose2D(
          {static_cast<int>(ed), pixels, channels, from, src_.pixel * ed, to, dst_.channel * ed, stream_});
    }
    alignas(64) char piece[kPixels * kMaxC0 * 8];
    const int64_t step = PiecePixels(channels);
    for (int64_t p = 0; p < pixels; p += step) {
      const int64_t m = std::min(step, pixels - p);
      for (int64_t c = 0; c < channels; c += kMaxC0) {
        const int64_t k = PieceChannels(channels - c);
        char* const at = from + (p * src_.pixel + c) * src_.size();
        if (src_.pixel == k) {  // one run: rows of few channels would cost a call each
          Convert(at, m * k, piece, m * k, 1, m * k);
        } else {
          Convert(at, src_.pixel, piece, k, m, k);
        }
        Transpose2D({static_cast<int>(ed), m, k, piece, k * ed, to + (c * dst_.channel + p) * ed,
                     dst_.channel * ed, false});
      }
    }
  }

  // (channels, pixels) -> (pixels, channels).
  void ToChannelsLast(char* from, char* to, int64_t channels, int64_t pixels) const {
    const int64_t ed = dst_.size();
    if (!convert_) {
      return Transpose2D(
          {static_cast<int>(ed), channels, pixels, from, src_.channel * ed, to, dst_.pixel * ed, stream_});
    }
    alignas(64) char piece[kPixels * kMaxC0 * 8];
    const int64_t step = PiecePixels(channels);
    for (int64_t p = 0; p < pixels; p += step) {
      const int64_t m = std::min(step, pixels - p);
      for (int64_t c = 0; c < channels; c += kMaxC0) {
        const int64_t k = PieceChannels(channels - c);
        Convert(from + (c * src_.channel + p) * src_.size(), src_.channel, piece, step, k, m);
        Transpose2D({static_cast<int>(ed), k, m, piece, step * ed, to + (p * dst_.pixel + c) * ed,
                     dst_.pixel * ed, false});
      }
    }
  }

  Side src_, dst_;
  bool stream_, convert_;
  const vector::CompiledProgram* program_ = nullptr;
};

void ZeroPadding(const Side& dst, int64_t n, int64_t channels, int64_t p, int64_t pixels) {
  const int64_t valid = channels % dst.c0, e = dst.size();
  if (valid == 0) return;
  char* to = dst.At(n, channels, p);
  for (int64_t i = 0; i < pixels; ++i) std::memset(to + i * dst.c0 * e, 0, (dst.c0 - valid) * e);
}

// Between plain layouts: a permutation, or a conversion in the order of memory.
void ConvertPlain(const LayoutConvertParams& p) {
  const auto strides = [&](const Layout& layout) {
    if (p.dims.rank() != 4 || layout.format != Format::kNHWC) return ContiguousStrides(p.dims);
    const int64_t c = p.dims[1], h = p.dims[2], w = p.dims[3];
    return Dims{h * w * c, 1, w * c, c};
  };
  const Dims from = strides(p.src_layout), to = strides(p.dst_layout);
  if (p.src_dtype == p.dst_dtype) {
    CopyPlan(static_cast<int>(SizeOf(p.src_dtype)), p.dims, from, to).Run(p.src, p.dst);
  } else {
    vector::CopyConvert({const_cast<void*>(p.src), p.src_dtype, p.dims, from},
                        {p.dst, p.dst_dtype, p.dims, to});
  }
}

}  // namespace

void ConvertLayout(const LayoutConvertParams& p) {
  const bool image = p.dims.rank() == 4;
  const bool from_blocks = image && p.src_layout.format == Format::kNC1HWC0;
  const bool to_blocks = image && p.dst_layout.format == Format::kNC1HWC0;
  const bool reorders =
      image && (p.src_layout.format == Format::kNHWC) != (p.dst_layout.format == Format::kNHWC);
  // Between NHWC and NCHW a change of dtype takes pieces of all channels; without one it is a permutation.
  if (!from_blocks && !to_blocks && !(reorders && p.src_dtype != p.dst_dtype)) return ConvertPlain(p);
  assert(p.src_layout.c0 <= kMaxC0 && p.dst_layout.c0 <= kMaxC0);
  const int64_t images = p.dims[0], channels = p.dims[1], pixels = p.dims[2] * p.dims[3];
  if (images * channels * pixels == 0) return;

  const Side src = MakeSide(p.src, p.src_dtype, p.src_layout, channels, pixels);
  const Side dst = MakeSide(p.dst, p.dst_dtype, p.dst_layout, channels, pixels);
  // Pieces end where a block of either side ends, so the step is the common divisor of two block sizes.
  int64_t step = from_blocks && to_blocks   ? std::gcd(src.c0, dst.c0)
                 : from_blocks || to_blocks ? std::max(src.c0, dst.c0)
                                            : channels;
  const int64_t bytes_per_channel = src.size() + dst.size();
  const int64_t total = images * ((channels + step - 1) / step * step) * pixels * bytes_per_channel;
  const int64_t threads = total < 2 * kTaskBytes ? 1 : ThreadsAvailable();
  // Channels-last on both sides: a piece of all channels of some pixels is read and written while it is in
  // L1.
  const bool pixelwise = src.channel == 1 && dst.channel == 1;
  int64_t share = pixels;
  if (pixelwise) {
    share = kPixels;
  } else if (threads > 1 && pixels * step * bytes_per_channel > 2 * kTaskBytes) {
    share = std::max(kPixels, (kTaskBytes / (step * bytes_per_channel) + kPixels - 1) / kPixels * kPixels);
  }
  const int64_t shares = (pixels + share - 1) / share;
  // Where few pixels leave threads idle, their channels are shared as well.
  const bool few = threads > 1 && images * shares < 4 * threads;
  const int64_t task_channels =
      std::max<int64_t>(kTaskBytes / (std::min(share, pixels) * bytes_per_channel) / kMaxC0, 1) * kMaxC0;
  if (few && step == channels) step = std::min(step, task_channels);
  const int64_t steps = (channels + step - 1) / step;
  const PieceCopier copier(src, dst, total / 2 >= vector::StreamingThreshold());
  const auto piece = [&](int64_t n, int64_t c, int64_t at) {
    const int64_t count = std::min(share, pixels - at);
    copier.Copy(n, c, std::min(step, channels - c), at, count);
    if (to_blocks && c + step >= channels) ZeroPadding(dst, n, channels, at, count);
  };
  const int64_t steps_per_task = !pixelwise ? 1
                                 : few      ? std::clamp<int64_t>(task_channels / step, 1, steps)
                                            : steps;
  const int64_t groups = (steps + steps_per_task - 1) / steps_per_task;
  const auto task = [&](int64_t t, int) {
    const int64_t at = t % shares * share, n = t / shares / groups,
                  first = t / shares % groups * steps_per_task;
    for (int64_t k = first; k < std::min(first + steps_per_task, steps); ++k) piece(n, k * step, at);
  };
  const int64_t tasks = images * groups * shares;
  if (threads == 1) {
    for (int64_t t = 0; t < tasks; ++t) task(t, 0);
  } else {
    ParallelFor(tasks, task);
  }
}

}  // namespace opsnn::kernels
