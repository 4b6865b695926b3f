#include "kernels/transpose/tile.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "isa/caches.h"
#include "kernels/transpose/blocks_trial.h"
#include "vector/streaming.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose/tile.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
HWY_BEFORE_NAMESPACE();
namespace opsnn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// The vector is used as a row of 16-byte blocks. A K x K transpose (K = elements in a block) runs in all
// blocks at once; block b works on rows b * K .. b * K + K - 1, so that a result vector is one contiguous
// piece of a destination row and no shuffle crosses a block.
template <class T>
constexpr int kK = 16 / sizeof(T);
constexpr int kMaxBlocks = HWY_MAX_BYTES / 16;
// A panel of rows fills a cache line of the destination: lines are written whole, in one go.
constexpr int64_t kLine = 64;

template <class T, int kBlocks>
using Tag = hn::FixedTag<T, kK<T> * kBlocks>;

// One block from each of the rows src, src + K rows, src + 2 K rows ...
template <class T, int kBlocks>
HWY_INLINE hn::VFromD<Tag<T, kBlocks>> LoadBlocks(const uint8_t* src, int64_t block_stride) {
  const Tag<T, kBlocks> d;
  if constexpr (kBlocks == 1) {
    return hn::LoadU(d, reinterpret_cast<const T*>(src));
  } else {
    const auto lo = LoadBlocks<T, kBlocks / 2>(src, block_stride);
    const auto hi = LoadBlocks<T, kBlocks / 2>(src + kBlocks / 2 * block_stride, block_stride);
    return hn::Combine(d, hi, lo);
  }
}

// (K * kBlocks) rows x K columns.
template <class T, int kBlocks, bool kStream>
HWY_INLINE void TransposeTile(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride) {
  constexpr int K = kK<T>;
  const Tag<T, kBlocks> d;
  using V = hn::VFromD<Tag<T, kBlocks>>;
  V v[K];
#pragma GCC unroll 16
  for (int i = 0; i < K; ++i) v[i] = LoadBlocks<T, kBlocks>(src + i * src_stride, K * src_stride);
    // log2(K) perfect shuffles of the K vectors transpose them.
#pragma GCC unroll 4
  for (int step = 1; step < K; step *= 2) {
    V w[K];
#pragma GCC unroll 8
    for (int i = 0; i < K / 2; ++i) {
      w[2 * i] = hn::InterleaveLower(d, v[i], v[i + K / 2]);
      w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + K / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < K; ++i) v[i] = w[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < K; ++i) {
    T* to = reinterpret_cast<T*>(dst + i * dst_stride);
    if constexpr (kStream) {
      hn::Stream(v[i], d, to);
    } else {
      hn::StoreU(v[i], d, to);
    }
  }
}

// kBands * K * kBlocks rows, columns [begin, end), at least K: the last tile is moved back over columns
// already done. The lines that a later panel writes lie `ahead` bytes further on in the destination's rows;
// they are asked for here, because no prefetcher follows so many rows, and a store has to wait for its line.
// 0 asks for none.
template <class T, int kBlocks, int kBands, bool kStream>
HWY_NOINLINE void Panel(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                        int64_t begin, int64_t end, int64_t ahead) {
  constexpr int K = kK<T>;
  constexpr int64_t kRows = K * kBlocks, kSize = sizeof(T);
  for (int64_t c = begin; c < end; c += K) {
    c = c + K > end ? end - K : c;
    if (ahead != 0) {
      for (int i = 0; i < K; ++i) __builtin_prefetch(dst + (c + i) * dst_stride + ahead, 1, 3);
    }
#pragma GCC unroll 4
    for (int b = 0; b < kBands; ++b) {
      TransposeTile<T, kBlocks, kStream>(src + b * kRows * src_stride + c * kSize, src_stride,
                                         dst + b * kRows * kSize + c * dst_stride, dst_stride);
    }
  }
}

// The same where the rows' lines fall into few sets of L1 (strides of large powers of two) and would throw
// each other out between the steps of a line: every line is first copied, once, to a dense buffer.
template <class T, int kBlocks, int kBands>
HWY_NOINLINE void StagedPanel(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                              int64_t begin, int64_t end, int64_t ahead) {
  constexpr int64_t kSize = sizeof(T), kRows = kK<T> * kBlocks * kBands, kColumns = kLine / kSize;
  const hn::CappedTag<uint8_t, kLine> d;
  alignas(kLine) uint8_t lines[kRows * kLine];
  int64_t c = begin;
  for (; c + kColumns <= end; c += kColumns) {
    for (int64_t r = 0; r < kRows; ++r) {
      const uint8_t* row = src + r * src_stride + c * kSize;
      for (int64_t at = 0; at < kLine; at += static_cast<int64_t>(hn::Lanes(d))) {
        hn::Store(hn::LoadU(d, row + at), d, lines + r * kLine + at);
      }
    }
    Panel<T, kBlocks, kBands, false>(lines, kLine, dst + c * dst_stride, dst_stride, 0, kColumns, ahead);
  }
  if (c < end) {
    Panel<T, kBlocks, kBands, false>(src, src_stride, dst, dst_stride, std::min(c, end - kK<T>), end, 0);
  }
}

// Results that are written past the caches: a block of two lines of each of `panels` panels' rows at a time.
// Memory moves lines in pairs: both lines of a pair of the source are read together, and with two panels both
// of a pair of the destination are written together (a transpose that writes single lines reaches two thirds
// of a copy, with pairs nine tenths). No prefetcher follows so many rows, so the next block is asked for
// here; and each line is copied once to a dense buffer, as the lines of a block may share sets of L1.
constexpr int64_t kPair = 2;
template <class T>
HWY_NOINLINE void StreamBlocks(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                               int64_t panels, int64_t cols) {
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize, kRows = kK<T> * kMaxBlocks;
  const hn::CappedTag<uint8_t, kLine> d;
  alignas(kLine) uint8_t lines[kPair * kPair * kPanel * kLine];
  const int64_t rows = panels * kPanel;
  int64_t c = 0;
  for (; c + kPanel <= cols; c += kPair * kPanel) {
    const int64_t wide = std::min(kPair, (cols - c) / kPanel);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t w = 0; w < wide; ++w) {
        const uint8_t* from = src + r * src_stride + c * kSize + w * kLine;
        uint8_t* to = lines + (w * rows + r) * kLine;
        __builtin_prefetch(from + kPair * kLine);
        for (int64_t at = 0; at < kLine; at += static_cast<int64_t>(hn::Lanes(d))) {
          hn::Store(hn::LoadU(d, from + at), d, to + at);
        }
      }
    }
    for (int64_t k = 0; k < wide * kPanel; k += kK<T>) {
      const uint8_t* from = lines + k / kPanel * rows * kLine + k % kPanel * kSize;
      for (int64_t r = 0; r < rows; r += kRows) {
        TransposeTile<T, kMaxBlocks, true>(from + r * kLine, kLine, dst + r * kSize + (c + k) * dst_stride,
                                           dst_stride);
      }
    }
  }
  const int64_t done = cols / kPanel * kPanel;
  if (done == cols) return;
  for (int64_t r = 0; r < rows; r += kRows) {
    Panel<T, kMaxBlocks, 1, true>(src + r * src_stride, src_stride, dst + r * kSize, dst_stride,
                                  std::min(done, cols - kK<T>), cols, 0);
  }
}

// The same by blocks of kTallRows rows, so that longer pieces of the destination's rows are written, whose
// successors are asked for one by one while a block is turned: a burst of requests, and lines that L1 has no
// room for, cost some cores half of the bandwidth. `after` is where the rows behind these begin.
constexpr int64_t kTallRows = 128;
template <class T>
HWY_NOINLINE void StreamTallBlocks(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                                   int64_t rows, int64_t cols, int64_t lines_wide, const uint8_t* after) {
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize, kRows = kK<T> * kMaxBlocks;
  constexpr int64_t kLinesPerTile = HWY_MAX(kK<T> * kMaxBlocks / 4, 1);
  const hn::CappedTag<uint8_t, kLine> d;
  alignas(kLine) uint8_t lines[kPair * kTallRows * kLine];
  for (int64_t c = 0; c + kPanel <= cols; c += lines_wide * kPanel) {
    const int64_t wide = std::min(lines_wide, (cols - c) / kPanel);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t w = 0; w < wide; ++w) {
        const uint8_t* from = src + r * src_stride + c * kSize + w * kLine;
        uint8_t* to = lines + (w * rows + r) * kLine;
        for (int64_t at = 0; at < kLine; at += static_cast<int64_t>(hn::Lanes(d))) {
          hn::Store(hn::LoadU(d, from + at), d, to + at);
        }
      }
    }
    const bool last = c + (lines_wide + 1) * kPanel > cols;
    const uint8_t* const next = last ? after : src + (c + lines_wide * kPanel) * kSize;
    int64_t row = 0, line = 0;  // of the next block
    for (int64_t k = 0; k < wide * kPanel; k += kK<T>) {
      const uint8_t* from = lines + k / kPanel * rows * kLine + k % kPanel * kSize;
      for (int64_t r = 0; r < rows; r += kRows) {
        for (int64_t i = 0; i < kLinesPerTile && row < rows; ++i) {
          __builtin_prefetch(next + row * src_stride + line * kLine, 0, 2);
          if (++line == lines_wide) line = 0, ++row;
        }
        TransposeTile<T, kMaxBlocks, true>(from + r * kLine, kLine, dst + r * kSize + (c + k) * dst_stride,
                                           dst_stride);
      }
    }
  }
  const int64_t done = cols / kPanel * kPanel;
  if (done == cols) return;
  for (int64_t r = 0; r < rows; r += kRows) {
    Panel<T, kMaxBlocks, 1, true>(src + r * src_stride, src_stride, dst + r * kSize, dst_stride,
                                  std::min(done, cols - kK<T>), cols, 0);
  }
}

// The same where the rows follow each other without gaps: panels as they come, so that memory is read from
// one end to the other and its prefetchers help; asked for are lines so far ahead that they are in L2 in
// time. Stores past the caches do not mind how far apart they are (a bare loop of them in this order is as
// fast as one along a row), reads do.
template <class T>
HWY_NOINLINE void StreamStrips(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
                               int64_t rows, int64_t cols) {
  constexpr int K = kK<T>, kBands = kLine / 16 / kMaxBlocks;
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize, kRows = K * kMaxBlocks, kLeastAhead = 16 << 10;
  constexpr int64_t kLines = kPanel * 16 / kLine;  // of the source, for each step of K columns
  const int64_t ahead = HWY_MAX(kPanel * src_stride, kLeastAhead);
  for (int64_t r = 0; r < rows; r += kPanel) {
    const uint8_t* from = src + r * src_stride;
    const uint8_t* next = from + ahead;
    for (int64_t c = 0; c < cols; c += K, next += kLines * kLine) {
      for (int64_t i = 0; i < kLines; ++i) __builtin_prefetch(next + i * kLine, 0, 2);
      c = c + K > cols ? cols - K : c;
#pragma GCC unroll 4
      for (int b = 0; b < kBands; ++b) {
        TransposeTile<T, kMaxBlocks, true>(from + b * kRows * src_stride + c * kSize, src_stride,
                                           dst + (r + b * kRows) * kSize + c * dst_stride, dst_stride);
      }
    }
  }
}

// Do the lines of a panel's rows crowd into few sets? L1 repeats its sets every 4 KiB on every CPU with 64
// sets (pages limit them to that) and has at least 8 ways, some of which the destination needs.
bool SharesSets(int64_t src_stride, int64_t panel_rows) {
  constexpr int64_t kPeriod = 4096, kWays = 6;
  const int64_t step = std::gcd(std::abs(src_stride), kPeriod);
  return panel_rows * step > kWays * kPeriod;
}

// Is a strip of a panel's rows one piece of memory, with the next one small enough for a corner of L2?
template <class T>
bool FitsStrips(const Transpose2DParams& p) {
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize;
  return p.src_stride == p.cols * kSize && 8 * kPanel * p.src_stride <= isa::HostCaches().l2 &&
         !SharesSets(p.src_stride, kPanel);
}

// How many rows make a block of which the next one is fetched into L2: no more than a part of L2's ways hold
// where the rows' lines fall into few of its sets. A block has as many lines, in longer pieces of fewer rows.
int64_t RowsOfTallBlocks(int64_t src_stride, int64_t panel) {
  constexpr int64_t kWays = 8, kOurs = 4;  // as few as any L2 has; of those
  const int64_t period = isa::HostCaches().l2 / kWays;
  const int64_t step = std::gcd(std::abs(src_stride), period);
  if (period <= 0 || step == 0) return kTallRows;
  int64_t rows = kTallRows;
  while (rows / 2 >= panel && rows * step > kOurs * period) rows /= 2;
  return rows;
}

// Rows [0, rows), whole panels, of a result that is written past the caches.
template <class T>
void StreamRows(const Transpose2DParams& p, int64_t full_rows) {
  using Blocks = Transpose2DParams::Blocks;
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize;
  const uint8_t* src = static_cast<const uint8_t*>(p.src);
  uint8_t* dst = static_cast<uint8_t*>(p.dst);
  const bool strips = FitsStrips<T>(p);
  const int64_t tall = strips ? kTallRows : RowsOfTallBlocks(p.src_stride, kPanel);
  for (int64_t r = 0; r < full_rows; r += tall) {
    const int64_t rows = std::min(tall, full_rows - r);
    const uint8_t* const from = src + r * p.src_stride;
    uint8_t* const to = dst + r * kSize;
    const BlocksTrial trial(p.blocks, strips, rows * p.cols * kSize);
    if (trial.blocks() == Blocks::kStrips && strips) {
      StreamStrips<T>(from, p.src_stride, to, p.dst_stride, rows, p.cols);
      continue;
    }
    if (trial.blocks() == Blocks::kTall) {
      StreamTallBlocks<T>(from, p.src_stride, to, p.dst_stride, rows, p.cols, kPair * kTallRows / tall,
                          r + rows < full_rows ? from + rows * p.src_stride
                          : p.next != nullptr  ? static_cast<const uint8_t*>(p.next)
                                               : from);
      continue;
    }
    for (int64_t i = 0; i < rows; i += kPair * kPanel) {
      StreamBlocks<T>(from + i * p.src_stride, p.src_stride, to + i * kSize, p.dst_stride,
                      std::min(kPair, (rows - i) / kPanel), p.cols);
    }
  }
}

// Fewer than K rows or columns. The longer dimension runs innermost.
template <class T>
void Narrow(const Transpose2DParams& p) {
  const uint8_t* src = static_cast<const uint8_t*>(p.src);
  uint8_t* dst = static_cast<uint8_t*>(p.dst);
  constexpr int64_t kSize = sizeof(T);
  if (p.rows < p.cols) {
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t c = 0; c < p.cols; ++c) {
        std::memcpy(dst + c * p.dst_stride + r * kSize, src + r * p.src_stride + c * kSize, kSize);
      }
    }
  } else {
    for (int64_t c = 0; c < p.cols; ++c) {
      for (int64_t r = 0; r < p.rows; ++r) {
        std::memcpy(dst + c * p.dst_stride + r * kSize, src + r * p.src_stride + c * kSize, kSize);
      }
    }
  }
}

// Two to four dense columns or rows (images of few channels): the interleaved loads and stores of the
// vectors.
template <bool kStream, class D, class V>
HWY_INLINE void PutRow(V v, D d, hn::TFromD<D>* to) {
  if constexpr (kStream) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

template <class T, int kN, bool kStream>
void Deinterleave(const Transpose2DParams& p) {  // rows x kN, rows dense
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const T* src = static_cast<const T*>(p.src);
  T* to[4] = {};
  for (int i = 0; i < kN; ++i) to[i] = reinterpret_cast<T*>(static_cast<uint8_t*>(p.dst) + i * p.dst_stride);
  int64_t r = 0;
  for (; r + lanes <= p.rows; r += lanes) {
    hn::VFromD<decltype(d)> a, b, c, e;
    if constexpr (kN == 2) hn::LoadInterleaved2(d, src + kN * r, a, b);
    if constexpr (kN == 3) hn::LoadInterleaved3(d, src + kN * r, a, b, c);
    if constexpr (kN == 4) hn::LoadInterleaved4(d, src + kN * r, a, b, c, e);
    PutRow<kStream>(a, d, to[0] + r);
    PutRow<kStream>(b, d, to[1] + r);
    if constexpr (kN > 2) PutRow<kStream>(c, d, to[2] + r);
    if constexpr (kN > 3) PutRow<kStream>(e, d, to[3] + r);
  }
  for (; r < p.rows; ++r) {
    for (int i = 0; i < kN; ++i) to[i][r] = src[kN * r + i];
  }
}

template <class T, int kN, bool kStream>
void Interleave(const Transpose2DParams& p) {  // kN x cols, the result's rows dense
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const T* from[4] = {};
  for (int i = 0; i < kN; ++i) {
    from[i] = reinterpret_cast<const T*>(static_cast<const uint8_t*>(p.src) + i * p.src_stride);
  }
  T* const dst = static_cast<T*>(p.dst);
  HWY_ALIGN T group[kN * hn::MaxLanes(d)];
  int64_t c = 0;
  for (; c + lanes <= p.cols; c += lanes) {
    T* const to = kStream ? group : dst + kN * c;
    const auto v0 = hn::LoadU(d, from[0] + c), v1 = hn::LoadU(d, from[1] + c);
    if constexpr (kN == 2) hn::StoreInterleaved2(v0, v1, d, to);
    if constexpr (kN == 3) hn::StoreInterleaved3(v0, v1, hn::LoadU(d, from[2] + c), d, to);
    if constexpr (kN == 4) {
      hn::StoreInterleaved4(v0, v1, hn::LoadU(d, from[2] + c), hn::LoadU(d, from[3] + c), d, to);
    }
    if constexpr (kStream) {
      for (int i = 0; i < kN; ++i) hn::Stream(hn::Load(d, group + i * lanes), d, dst + kN * c + i * lanes);
    }
  }
  for (; c < p.cols; ++c) {
    for (int i = 0; i < kN; ++i) dst[kN * c + i] = from[i][c];
  }
}

// True if a few dense columns or rows were done here. Typed loads need naturally aligned elements.
template <class T>
bool Interleaved(const Transpose2DParams& p) {
  constexpr int64_t kSize = sizeof(T);
  const int64_t dst = reinterpret_cast<intptr_t>(p.dst);
  if ((reinterpret_cast<intptr_t>(p.src) | dst | p.src_stride | p.dst_stride) % kSize != 0) return false;
  const auto run = [&](bool lines, auto past_caches, auto plain) {
    if (!p.stream || !lines) return plain(p), true;
    past_caches(p);
    if (p.flush) vector::FlushStreams();
    return true;
  };
  if (p.src_stride == p.cols * kSize) {
    const bool lines = dst % kLine == 0 && p.dst_stride % kLine == 0;
    if (p.cols == 2) return run(lines, &Deinterleave<T, 2, true>, &Deinterleave<T, 2, false>);
    if (p.cols == 3) return run(lines, &Deinterleave<T, 3, true>, &Deinterleave<T, 3, false>);
    if (p.cols == 4) return run(lines, &Deinterleave<T, 4, true>, &Deinterleave<T, 4, false>);
  }
  if (p.dst_stride == p.rows * kSize) {
    const bool lines = dst % kLine == 0;
    if (p.rows == 2) return run(lines, &Interleave<T, 2, true>, &Interleave<T, 2, false>);
    if (p.rows == 3) return run(lines, &Interleave<T, 3, true>, &Interleave<T, 3, false>);
    if (p.rows == 4) return run(lines, &Interleave<T, 4, true>, &Interleave<T, 4, false>);
  }
  return false;
}

// Rows that do not fill a panel: bands of falling width, the last one moved back over rows already done.
template <class T, int kBlocks>
void TailRows(const Transpose2DParams& p, int64_t r) {
  constexpr int64_t kRows = kK<T> * kBlocks, kSize = sizeof(T);
  const uint8_t* src = static_cast<const uint8_t*>(p.src);
  uint8_t* dst = static_cast<uint8_t*>(p.dst);
  for (; p.rows - r >= kRows; r += kRows) {
    Panel<T, kBlocks, 1, false>(src + r * p.src_stride, p.src_stride, dst + r * kSize, p.dst_stride, 0,
                                p.cols, 0);
  }
  if constexpr (kBlocks > 1) {
    TailRows<T, kBlocks / 2>(p, r);
  } else if (r < p.rows) {
    r = p.rows - kRows;
    Panel<T, 1, 1, false>(src + r * p.src_stride, p.src_stride, dst + r * kSize, p.dst_stride, 0, p.cols, 0);
  }
}

template <class T>
void TransposeT(const Transpose2DParams& p) {
  constexpr int64_t kSize = sizeof(T), kPanel = kLine / kSize;
  constexpr int kBands = kLine / 16 / kMaxBlocks;
  if (p.rows <= 0 || p.cols <= 0) return;
  if (kSize <= 4 && (p.rows <= 4 || p.cols <= 4) && Interleaved<T>(p)) return;
  if (p.rows < kK<T> || p.cols < kK<T>) return Narrow<T>(p);
  const uint8_t* src = static_cast<const uint8_t*>(p.src);
  uint8_t* dst = static_cast<uint8_t*>(p.dst);
  const bool aligned = (reinterpret_cast<intptr_t>(dst) | p.dst_stride) % kLine == 0;
  const int64_t full_rows = p.rows / kPanel * kPanel;
  if (p.stream && aligned) {
    StreamRows<T>(p, full_rows);
    if (full_rows < p.rows) TailRows<T, kMaxBlocks>(p, full_rows);
    // Streaming stores are weakly ordered: nobody may see the result before they have left the core.
    if (p.flush) vector::FlushStreams();
    return;
  }
  const int64_t skew = reinterpret_cast<intptr_t>(dst) % kLine;
  if (p.stream && p.dst_stride % kLine == 0 && skew % kSize == 0 && p.rows > 2 * kPanel) {
    // Every row of the result begins between lines, at the same place: the rest of these lines first.
    Transpose2DParams head = p, rest = p;
    head.rows = (kLine - skew) / kSize, head.stream = false;
    rest.rows -= head.rows;
    rest.src = src + head.rows * p.src_stride, rest.dst = dst + head.rows * kSize;
    if (p.next) rest.next = static_cast<const uint8_t*>(p.next) + head.rows * p.src_stride;
    TransposeT<T>(head);
    return TransposeT<T>(rest);
  }
  const auto panel = SharesSets(p.src_stride, kPanel) ? &StagedPanel<T, kMaxBlocks, kBands>
                                                      : &Panel<T, kMaxBlocks, kBands, false>;
  // The columns are taken in pieces. Long destination rows: a few source lines wide, so that the lines of a
  // piece are written soon after they were asked for. Short ones: wide enough that what is written together,
  // all panels of a piece, lies together; then the prefetchers follow by themselves. Small results: in one.
  constexpr int64_t kShortRow = 1024, kPieceBytes = 32 << 10, kPieceLines = 4, kSmall = 256 << 10;
  int64_t piece = p.cols, ahead = 0;
  if (p.rows * kSize <= kShortRow) {
    piece = std::max<int64_t>(kPieceBytes / (p.rows * kSize) / kPanel, 1) * kPanel;
  } else if (p.rows * p.cols * kSize >= kSmall) {
    piece = kPieceLines * kPanel;
    ahead = 2 * kLine;
  }
  for (int64_t c = 0; c < p.cols; c += piece) {
    const int64_t end = std::min(c + piece, p.cols), begin = std::min(c, end - kK<T>);
    for (int64_t r = 0; r < full_rows; r += kPanel) {
      panel(src + r * p.src_stride, p.src_stride, dst + r * kSize, p.dst_stride, begin, end, ahead);
    }
  }
  if (full_rows < p.rows) TailRows<T, kMaxBlocks>(p, full_rows);
}

}  // namespace

void Transpose2DKernel(const Transpose2DParams& p) {
  switch (p.elem_bytes) {
    case 1:
      return TransposeT<uint8_t>(p);
    case 2:
      return TransposeT<uint16_t>(p);
    case 4:
      return TransposeT<uint32_t>(p);
    default:
      return TransposeT<uint64_t>(p);
  }
}

}  // namespace opsnn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
namespace opsnn::kernels {
OPSNN_TIER_TABLE(Transpose2DKernel);
void Transpose2D(const Transpose2DParams& p) { OPSNN_TIER_CALL(Transpose2DKernel)(p); }
}  // namespace opsnn::kernels
#endif
