// The driver of convolutions of bytes: the padded copy, packing, cutting the work up.
#include "kernels/conv/bytes/bytes.h"

#include <algorithm>
#include <cstring>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/pool_awake.h"
#include "isa/tier.h"
#include "kernels/conv/bytes/tile.h"
#include "kernels/conv/finish.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kLanes = 16, kPanelGroup = kByteC0 * kByteGroup;
// What a call takes one core, in cycles: a vector multiplies 64 bytes a cycle, sums become bytes at two a
// cycle, and a depthwise vector of 64 takes twenty for each four taps and for what follows.
constexpr double kProductsPerCycle = 64, kStoresPerCycle = 2, kGroupCycles = 20.0 / 64;
double CyclesOf(const ByteConvShape& s) {
  const double results = static_cast<double>(s.n * s.oh * s.ow * s.m);
  if (s.depthwise) return results * kGroupCycles * static_cast<double>(1 + CeilDiv(s.kh * s.kw, kByteGroup));
  return results * (static_cast<double>(s.depth()) / kProductsPerCycle + 1 / kStoresPerCycle);
}
// The image that a task reads for all of its weights: a quarter of a private cache of 1 MiB, beside weights
// and results that pass.
constexpr int64_t kTaskBytes = 256 * 1024;
// The padded rows that a depthwise task works on: L2 holds them beside what it writes.
constexpr int64_t kStripBytes = 64 * 1024;
// Bytes of a padded copy that are worth another core.
constexpr int64_t kCopyBytes = 32 * 1024;

// Where pixels lie in what the kernels read: the image, or its padded copy.
struct Geometry {
  int64_t c0 = kByteC0, blocks = 1;
  int64_t hp = 1, wp = 1;  // rows and pixels of a row that windows meet
  bool copy = false;
  bool flat = false;             // pointwise: an image is one line
  int64_t pitch = 0, plane = 0;  // bytes of a row and of a block of channels
  std::vector<ByteStep> steps;   // of a window, all of its channels
  int64_t groups = 0;            // of four channels, in all steps

  explicit Geometry(const ByteConvShape& s) {
    c0 = s.x_blocked ? kByteC0 : kFewByteChannels;
    blocks = CeilDiv(s.c, c0);
    hp = (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1, wp = (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1;
    copy = !s.x_blocked || s.pt > 0 || s.pl > 0 || hp > s.h || wp > s.w;
    flat = !copy && s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.oh == s.h && s.ow == s.w;
    pitch = (copy ? wp : s.w) * c0, plane = (copy ? hp : s.h) * pitch;
    if (!s.depthwise) MakeSteps(s);
  }
  // Taps whose channels follow each other without a gap are one step.
  void MakeSteps(const ByteConvShape& s) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t each = CeilDiv(std::min(c0, s.c - b * c0), kByteGroup);
      const bool whole = each * kByteGroup == c0 && s.dw == 1;
      for (int64_t ky = 0; ky < s.kh; ++ky)
        for (int64_t kx = 0; kx < (whole ? 1 : s.kw); ++kx)
          steps.push_back({b * plane + ky * s.dh * pitch + kx * s.dw * c0, whole ? s.kw * each : each});
    }
    for (const ByteStep& t : steps) groups += t.groups;
  }
};

bool Flips(const ByteConvShape& s) { return s.x_dtype == DType::kS8; }

// Pixels of `c` planes with four channels each.
void InterleaveRow(const ByteConvShape& s, const uint8_t* x, int64_t row, int64_t count, uint8_t* to) {
  const int64_t plane = s.h * s.w;
  const uint8_t* at = x + row * s.w;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < kFewByteChannels; ++c) to[4 * i + c] = c < s.c ? at[c * plane + i] : uint8_t{0};
  }
}
void InterleaveThree(const uint8_t* a, const uint8_t* b, const uint8_t* c, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t four = a[i] | static_cast<uint32_t>(b[i]) << 8 | static_cast<uint32_t>(c[i]) << 16;
    std::memcpy(to + 4 * i, &four, sizeof(four));
  }
}

// Rows [begin, end) of the padded copy of a block; row 0 of `to` is `begin`.
void CopyRows(const ByteConvShape& s, const Geometry& g, const uint8_t* x, int64_t begin, int64_t end,
              uint8_t* to) {
  const int fill = static_cast<uint8_t>(s.x_zero);
  const int64_t count = std::min(s.w, g.wp - s.pl), right = g.wp - s.pl - count;
  for (int64_t y = begin; y < end; ++y, to += g.pitch) {
    const int64_t row = y - s.pt;
    if (row < 0 || row >= s.h || count <= 0) {
      std::memset(to, fill, static_cast<size_t>(g.pitch));
      continue;
    }
    uint8_t* at = to + s.pl * g.c0;
    std::memset(to, fill, static_cast<size_t>(s.pl * g.c0));
    if (s.x_blocked) {
      std::memcpy(at, x + row * s.w * g.c0, static_cast<size_t>(count * g.c0));
    } else if (s.c == 3) {
      const uint8_t* from = x + row * s.w;
      InterleaveThree(from, from + s.h * s.w, from + 2 * s.h * s.w, count, at);
    } else {
      InterleaveRow(s, x, row, count, at);
    }
    std::memset(at + count * g.c0, fill, static_cast<size_t>(std::max<int64_t>(0, right) * g.c0));
  }
}

// Bytes of an image as it comes, and from one block of channels to the next.
int64_t BlockBytes(const ByteConvShape& s) { return s.h * s.w * (s.x_blocked ? kByteC0 : s.c); }
int64_t ImageBytes(const ByteConvShape& s, const Geometry& g) { return g.blocks * BlockBytes(s); }

ByteStores StoresOf(const ByteConvShape& s, const ByteRescale& r) {
  const int shift = s.y_dtype == DType::kS8 ? 128 : 0;
  return {r.high,
          r.low,
          r.zero + shift,
          static_cast<uint8_t>(r.lo + shift),
          static_cast<uint8_t>(r.hi + shift),
          static_cast<uint8_t>(shift)};
}

class ByteRun {
 public:
  ByteRun(const ByteConvShape& s, const uint8_t* w, const ByteRescale& r, uint8_t* y)
      : s_(s), g_(s), w_(w), r_(r), stores_(StoresOf(s, r)), y_(y), pixels_(s.oh * s.ow) {
    threads_ = ThreadsWorth(CyclesOf(s));
  }

  void Dense(const uint8_t* x, uint8_t* workspace) {
    int64_t image = ImageBytes(s_, g_);
    if (g_.copy) {
      Copy(x, workspace);
      x = workspace, image = g_.blocks * g_.plane;
    }
    const int64_t units = g_.flat ? CeilDiv(pixels_, kByteRows) : s_.oh, panels = CeilDiv(s_.m, kByteC0);
    const Cut cut = CutUp(units, panels);
    const int64_t rows = CeilDiv(units, cut.units), columns = CeilDiv(panels, cut.panels);
    const ByteTileFn tile = ByteTileVnni(Flips(s_));
    For(s_.n * rows * columns, [&](int64_t i) {
      const int64_t n = i / (rows * columns), u = i / columns % rows * cut.units,
                    p = i % columns * cut.panels;
      Block(tile, x + n * image, n, {u, std::min(units, u + cut.units)},
            {p, std::min(panels, p + cut.panels)});
    });
  }

  void Depthwise(const uint8_t* x) {
    const int64_t reach = (s_.kh - 1) * s_.dh + 1, blocks = g_.blocks;
    const int64_t fit = (kStripBytes / g_.pitch - reach) / s_.sh + 1;
    const int64_t most = std::max<int64_t>(fit, std::min<int64_t>(s_.oh, 4)), strips = CeilDiv(s_.oh, most);
    std::vector<int64_t> taps;
    for (int64_t ky = 0; ky < s_.kh; ++ky)
      for (int64_t kx = 0; kx < s_.kw; ++kx) taps.push_back(ky * s_.dh * g_.pitch + kx * s_.dw * kByteC0);
    while (taps.size() % kByteGroup != 0) taps.push_back(taps.back());
    const ByteLineFn line = ByteLineVnni(Flips(s_));
    For(s_.n * blocks * strips, [&](int64_t i) {
      const int64_t strip = i % strips, block = i / strips;  // of all images
      Strip(line, taps, x + block * BlockBytes(s_), block, s_.oh * strip / strips,
            s_.oh * (strip + 1) / strips);
    });
  }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  struct Cut {
    int64_t units = 1, panels = 1;  // of a task
  };

  template <typename F>
  void For(int64_t tasks, const F& run) const {
    if (threads_ > 1) return ParallelFor(tasks, [&](int64_t i, int) { run(i); });
    for (int64_t i = 0; i < tasks; ++i) run(i);
  }

  void Copy(const uint8_t* x, uint8_t* to) const {
    const int64_t block = BlockBytes(s_), rows = g_.hp, step = std::max<int64_t>(1, kCopyBytes / g_.pitch),
                  chunks = CeilDiv(rows, step);
    For(s_.n * g_.blocks * chunks, [&](int64_t i) {
      const int64_t b = i / chunks, begin = i % chunks * step;
      CopyRows(s_, g_, x + b * block, begin, std::min(rows, begin + step),
               to + b * g_.plane + begin * g_.pitch);
    });
  }

  // Lines are cut so that what they read stays in L2 while all weights pass. Where more threads want work,
  // the larger operand is cut: what is not cut is read by each of them.
  Cut CutUp(int64_t units, int64_t panels) const {
    const int64_t image = g_.blocks * g_.plane, weights = panels * g_.groups * kPanelGroup;
    Cut c{std::max<int64_t>(1, std::min(units, units * kTaskBytes / std::max(kTaskBytes, image))), panels};
    if (threads_ == 1) return c;
    const int64_t wanted = CeilDiv(threads_ * kTasksPerThread, s_.n);
    if (weights > image) {
      c.panels = CeilDiv(panels, wanted);
      if (g_.flat || s_.ow > kWideByteRows) return c;
      c.panels = RoundUp(c.panels, 2);
    } else {
      c.units = std::min(c.units, CeilDiv(units, wanted));
    }
    return c;
  }

  void Block(ByteTileFn run, const uint8_t* x, int64_t n, Range units, Range panels) const {
    const bool wide = !g_.flat && s_.ow <= kWideByteRows;
    for (int64_t p = panels.begin; p < panels.end;) {
      const int64_t left = s_.m - p * kByteC0;
      ByteTile t;
      t.vectors = left <= kLanes ? 1 : wide && p + 2 <= panels.end ? 4 : 2;
      t.steps = g_.steps.data(), t.num_steps = static_cast<int64_t>(g_.steps.size());
      t.w_panel = g_.groups * kPanelGroup;
      t.w = w_ + p * t.w_panel;
      t.terms = r_.terms.data() + p * kByteC0;
      t.scale = r_.scale.data() + p * kByteC0, t.bias = r_.bias.data() + p * kByteC0;
      t.stores = stores_;
      t.x_row = s_.sw * g_.c0;
      t.y_block = pixels_ * kByteC0;
      uint8_t* y = y_ + (n * CeilDiv(s_.m, kByteC0) + p) * t.y_block;
      for (int64_t u = units.begin; u < units.end; ++u) Unit(run, &t, x, u, y);
      p += t.vectors == 4 ? 2 : 1;
    }
  }

  // A few pixels of a flat image, or a line.
  void Unit(ByteTileFn run, ByteTile* t, const uint8_t* x, int64_t u, uint8_t* y) const {
    if (g_.flat) {
      const int64_t first = u * kByteRows;
      t->rows = static_cast<int>(std::min<int64_t>(kByteRows, pixels_ - first));
      t->x = x + first * kByteC0, t->y = y + first * kByteC0;
      return run(*t);
    }
    const uint8_t* line = x + u * s_.sh * g_.pitch;
    y += u * s_.ow * kByteC0;
    const int64_t tiles = CeilDiv(s_.ow, t->vectors == 4 ? kWideByteRows : kByteRows);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t begin = s_.ow * i / tiles, end = s_.ow * (i + 1) / tiles;
      t->rows = static_cast<int>(end - begin);
      t->x = line + begin * t->x_row, t->y = y + begin * kByteC0;
      run(*t);
    }
  }

  // Output rows [begin, end) of a block of channels.
  void Strip(ByteLineFn run, const std::vector<int64_t>& taps, const uint8_t* x, int64_t block, int64_t begin,
             int64_t end) const {
    const int64_t first = begin * s_.sh;
    const uint8_t* from = x + first * g_.pitch;
    if (g_.copy) {
      const int64_t last = (end - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1;
      auto* copy = static_cast<uint8_t*>(ThreadScratch(static_cast<size_t>((last - first) * g_.pitch)));
      if (!copy) return;
      CopyRows(s_, g_, x, first, last, copy);
      from = copy;
    }
    const int64_t b = block % g_.blocks;
    ByteLine t;
    t.x_step = s_.sw * kByteC0;
    t.taps = taps.data(), t.groups = static_cast<int64_t>(taps.size()) / kByteGroup, t.pixels = s_.ow;
    t.w = reinterpret_cast<const int8_t*>(w_) + b * t.groups * kPanelGroup * 2;
    t.terms = r_.terms.data() + b * 2 * kByteC0;
    t.scale = r_.scale.data() + b * 2 * kByteC0, t.bias = r_.bias.data() + b * 2 * kByteC0;
    t.stores = stores_;
    for (int64_t y = begin; y < end; ++y) {
      t.x = from + (y - begin) * s_.sh * g_.pitch;
      t.y = y_ + (block * pixels_ + y * s_.ow) * kByteC0;
      run(t);
    }
  }

  const ByteConvShape& s_;
  const Geometry g_;
  const uint8_t* w_;
  const ByteRescale& r_;
  const ByteStores stores_;
  uint8_t* y_;
  int64_t pixels_, threads_ = 1;
};

std::shared_ptr<const AlignedBuffer> PackDepthwise(const ByteConvShape& s, const int8_t* w) {
  const int64_t taps = s.kh * s.kw, groups = CeilDiv(taps, kByteGroup), blocks = CeilDiv(s.c, kByteC0);
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(blocks * groups * 2 * kPanelGroup));
  if (!*packed) return nullptr;
  int8_t* to = packed->as<int8_t>();
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t g = 0; g < groups; ++g)
      for (int v = 0; v < 4; ++v)
        for (int lane = 0; lane < kLanes; ++lane)
          for (int64_t u = 0; u < kByteGroup; ++u) {
            const int64_t c = b * kByteC0 + ByteLaneChannel(v, lane), tap = g * kByteGroup + u;
            *to++ = c < s.c && tap < taps ? w[c * taps + tap] : int8_t{0};
          }
  return packed;
}

std::shared_ptr<const AlignedBuffer> PackDense(const ByteConvShape& s, const int8_t* w) {
  const Geometry g(s);
  const int64_t panels = CeilDiv(s.m, kByteC0), taps = s.kh * s.kw;
  auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(panels * g.groups * kPanelGroup));
  if (!*packed) return nullptr;
  int8_t* to = packed->as<int8_t>();
  const auto group = [&](int64_t p, int64_t tap, int64_t channel, int64_t end) {
    for (int64_t j = 0; j < kByteC0; ++j)
      for (int64_t u = 0; u < kByteGroup; ++u) {
        const int64_t m = p * kByteC0 + j, c = channel + u;
        *to++ = m < s.m && c < end ? w[(m * s.c + c) * taps + tap] : int8_t{0};
      }
  };
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t b = 0; b < g.blocks; ++b) {
      const int64_t begin = b * g.c0, end = std::min(s.c, begin + g.c0);
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = begin; c < end; c += kByteGroup) group(p, tap, c, end);
    }
  return packed;
}

template <typename T>
std::vector<T> Ordered(const ByteConvShape& s, const std::vector<T>& values) {
  const int64_t blocks = CeilDiv(s.m, kByteC0), each = s.depthwise ? 2 * kByteC0 : kByteC0;
  std::vector<T> ordered(static_cast<size_t>(blocks * each));
  for (int64_t i = 0; i < blocks * each; ++i) {
    const int64_t lane = i % each, base = i / each * kByteC0;
    const int64_t m = base + (s.depthwise ? ByteLaneChannel(static_cast<int>(lane / kLanes),
                                                            static_cast<int>(lane % kLanes))
                                          : lane);
    if (m < s.m) ordered[static_cast<size_t>(i)] = values[static_cast<size_t>(m)];
  }
  return ordered;
}

}  // namespace

const char* ByteConvRefusal(const ByteConvShape& s) {
  if (!isa::HasVnni() || !ByteTileVnni(false)) return "this CPU has no dot products of bytes";
  if (!s.x_blocked && (s.depthwise || s.c > kFewByteChannels))
    return "its image is not in blocks of channels";
  if (s.depthwise && s.m != s.c) return "its channels have several results each";
  return nullptr;
}

std::vector<float> KernelOrder(const ByteConvShape& s, const std::vector<float>& values) {
  return Ordered(s, values);
}

std::shared_ptr<const AlignedBuffer> PackByteWeights(const ByteConvShape& s, const int8_t* w) {
  return s.depthwise ? PackDepthwise(s, w) : PackDense(s, w);
}

std::vector<int32_t> ByteTerms(const ByteConvShape& s, const int8_t* w) {
  const int64_t depth = s.depth();
  const int32_t zero = s.x_zero + (Flips(s) ? 128 : 0);
  std::vector<int32_t> terms;
  for (int64_t m = 0; m < s.m; ++m) {
    int32_t sum = 0;
    for (int64_t k = 0; k < depth; ++k) sum += w[m * depth + k];
    terms.push_back(-zero * sum);
  }
  return Ordered(s, terms);
}

size_t ByteConvWorkspace(const ByteConvShape& s) {
  const Geometry g(s);
  return g.copy && !s.depthwise ? static_cast<size_t>(s.n * g.blocks * g.plane) : 0;
}

void RunByteConv(const ByteConvShape& s, const uint8_t* w, const ByteRescale& r, const uint8_t* x,
                 void* workspace, uint8_t* y) {
  if (s.n == 0 || s.m == 0 || s.oh * s.ow == 0) return;
  ByteRun run(s, w, r, y);
  s.depthwise ? run.Depthwise(x) : run.Dense(x, static_cast<uint8_t*>(workspace));
}

}  // namespace opsnn::conv
