// Depthwise convolution on blocked images: one vector of channels per pixel, lanes independent.
#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "kernels/conv/act_pass.h"
#include "kernels/conv/finish.h"
#include "vector/streaming.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/epilogue-inl.h"

#ifndef OPSNN_KERNELS_CONV_DEPTHWISE_ROW_
#define OPSNN_KERNELS_CONV_DEPTHWISE_ROW_
namespace opsnn::conv {
// One output row of one channel block. Kernel slices that lie outside a volume are left out by the caller.
struct DepthwiseRow {
  const float* x = nullptr;         // row 0 of the block's input plane, under kernel slice 0
  const float* weights = nullptr;   // [kz][ky][kx][kC0]
  const float* bias = nullptr;      // [kC0] or null
  float* y = nullptr;               // the output row
  const float* residual = nullptr;  // row of y's layout or null
  int64_t iy = 0;                   // input row under kernel row 0; may be negative
  int64_t h = 0, w = 0, ow = 0, pl = 0;
  int kd = 1, kh = 0, kw = 0, sw = 1, dh = 1, dw = 1;
  int64_t slice_step = 0;  // floats between the input slices of neighbouring kernel slices
  const Post* post = nullptr;
  bool stream = false;         // written past the caches, where a vector fills a line
  bool ahead = false;          // ask for the input row behind the window: it comes from memory
  bool finite_weights = true;  // else products with padding are left out
};
}  // namespace opsnn::conv
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

alignas(64) constexpr float kZeroPixel[kC0] = {};

// Stores `count` of P accumulators for pixels ox, ox + 1, ...
template <int P>
HWY_INLINE void StorePixels(const DepthwiseRow& r, int64_t ox, int64_t count, int lane, V (&acc)[1][P]) {
  const D d;
  if (r.residual) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      if (p < count) acc[0][p] = hn::Add(acc[0][p], hn::LoadU(d, r.residual + (ox + p) * kC0 + lane));
    }
  }
  ApplyInRegisters<1, P>(d, *r.post, acc);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    if (p >= count) continue;
    float* const at = r.y + (ox + p) * kC0 + lane;
    if (kLanes == kC0 && r.stream) {
      hn::Stream(acc[0][p], d, at);
    } else {
      hn::StoreU(acc[0][p], d, at);
    }
  }
}

// P output pixels from ox on, kernel KW wide with stride S: each input vector is loaded once per kernel row
// and serves all pixels under it. kEdge: input columns may lie outside the image (read as zeros) and fewer
// than P pixels may exist.
template <int KW, int S, int P, bool kEdge, bool kVolume>
HWY_INLINE void RowTile(const DepthwiseRow& r, int64_t ox, int ky_begin, int ky_end, int lane) {
  const D d;
  V acc[1][P];
  const V b = r.bias ? hn::LoadU(d, r.bias + lane) : hn::Zero(d);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) acc[0][p] = b;
  const int64_t ix = ox * S - r.pl;
  // Images keep the loop that has no slices: it is up to 8 % faster.
  for (int kz = 0; kz < (kVolume ? r.kd : 1); ++kz) {
    const float* const x = kVolume ? r.x + kz * r.slice_step : r.x;
    const float* const weights = kVolume ? r.weights + kz * r.kh * KW * kC0 : r.weights;
    for (int ky = ky_begin; ky < ky_end; ++ky) {
      const float* row = x + ((r.iy + ky * r.dh) * r.w + ix) * kC0 + lane;
      V wv[KW];
#pragma GCC unroll 8
      for (int kx = 0; kx < KW; ++kx) wv[kx] = hn::LoadU(d, weights + (ky * KW + kx) * kC0 + lane);
#pragma GCC unroll 64
      for (int i = 0; i < (P - 1) * S + KW; ++i) {
        const float* at = row + i * kC0;
        if (kEdge) at = static_cast<uint64_t>(ix + i) < static_cast<uint64_t>(r.w) ? at : kZeroPixel;
        const V xv = hn::LoadU(d, at);
#pragma GCC unroll 8
        for (int kx = 0; kx < KW; ++kx) {
          if ((i - kx) % S == 0 && i >= kx && (i - kx) / S < P) {
            acc[0][(i - kx) / S] = hn::MulAdd(wv[kx], xv, acc[0][(i - kx) / S]);
          }
        }
      }
    }
  }
  if (r.ahead && lane == 0) {  // the rows that the next output row needs beyond these
    const float* next = r.x + ((r.iy + r.kh) * r.w + ox * S) * kC0;
    for (int row = 0; row < S; ++row, next += r.w * kC0)
#pragma GCC unroll 16
      for (int i = 0; i < P * S; ++i) __builtin_prefetch(next + i * kC0);
  }
  StorePixels<P>(r, ox, kEdge ? std::min<int64_t>(P, r.ow - ox) : P, lane, acc);
}

HWY_INLINE void KernelRows(const DepthwiseRow& r, int* begin, int* end) {
  *begin = 0, *end = r.kh;
  while (*begin < *end && r.iy + *begin * r.dh < 0) ++*begin;
  while (*end > *begin && r.iy + (*end - 1) * r.dh >= r.h) --*end;
}

template <int KW, int S, bool kVolume = false>
void Row(const DepthwiseRow& r) {
  // Accumulators, KW weights and one input: 8 + 5 + 1 fits even 16 registers.
  constexpr int P = 8;
  int ky_begin, ky_end;
  KernelRows(r, &ky_begin, &ky_end);
  for (int lane = 0; lane < kC0; lane += kLanes) {
    for (int64_t ox = 0; ox < r.ow; ox += P) {
      const int64_t ix = ox * S - r.pl;
      const bool inside = ix >= 0 && ix + (P - 1) * S + KW <= r.w && ox + P <= r.ow;
      if (inside) {
        RowTile<KW, S, P, false, kVolume>(r, ox, ky_begin, ky_end, lane);
      } else {
        RowTile<KW, S, P, true, kVolume>(r, ox, ky_begin, ky_end, lane);
      }
    }
  }
}

// Any kernel, stride and dilation: one load per product. kSkips: none with padding.
template <bool kSkips>
void AnyRow(const DepthwiseRow& r) {
  constexpr int P = 4;
  const D d;
  int ky_begin, ky_end;
  KernelRows(r, &ky_begin, &ky_end);
  for (int lane = 0; lane < kC0; lane += kLanes) {
    const V b = r.bias ? hn::LoadU(d, r.bias + lane) : hn::Zero(d);
    for (int64_t ox = 0; ox < r.ow; ox += P) {
      V acc[1][P] = {{b, b, b, b}};
      const float* x = r.x + lane;
      const float* weights = r.weights + lane;
      for (int kz = 0; kz < r.kd; ++kz, x += r.slice_step, weights += r.kh * r.kw * kC0)
        for (int ky = ky_begin; ky < ky_end; ++ky) {
          const float* row = x + (r.iy + ky * r.dh) * r.w * kC0;
          for (int kx = 0; kx < r.kw; ++kx) {
            const V wv = hn::LoadU(d, weights + (ky * r.kw + kx) * kC0);
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) {
              const int64_t ix = (ox + p) * r.sw - r.pl + kx * r.dw;
              const bool in = static_cast<uint64_t>(ix) < static_cast<uint64_t>(r.w);
              if (kSkips && !in) continue;
              acc[0][p] = hn::MulAdd(wv, hn::LoadU(d, in ? row + ix * kC0 : kZeroPixel), acc[0][p]);
            }
          }
        }
      StorePixels<P>(r, ox, std::min<int64_t>(P, r.ow - ox), lane, acc);
    }
  }
}

void DepthwiseRowTier(const DepthwiseRow& r) {
  const bool volume = r.kd != 1;
  if (!r.finite_weights) return AnyRow<true>(r);
  if (r.dw == 1 && r.kw == 3 && r.sw == 1) return volume ? Row<3, 1, true>(r) : Row<3, 1>(r);
  if (r.dw == 1 && r.kw == 3 && r.sw == 2) return volume ? Row<3, 2, true>(r) : Row<3, 2>(r);
  if (r.dw == 1 && r.kw == 5 && r.sw == 1 && !volume) return Row<5, 1>(r);
  if (r.dw == 1 && r.kw == 5 && r.sw == 2 && !volume) return Row<5, 2>(r);
  AnyRow<false>(r);
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {

OPSNN_TIER_TABLE(DepthwiseRowTier);

namespace {

int64_t BlockedBytes(int64_t images, int64_t channels, int64_t plane) {
  return images * RoundUp(channels, int64_t{kC0}) * plane * static_cast<int64_t>(sizeof(float));
}

// Points `r` at the input slices that output slice oz sees, and at their weights.
void EnterSlice(const ConvShape& s, int64_t oz, const float* planes, const float* weights, DepthwiseRow* r) {
  const int64_t iz = oz * s.sd - s.pf;
  int64_t begin = 0, end = s.kd;
  while (begin < end && iz + begin * s.dd < 0) ++begin;
  while (end > begin && iz + (end - 1) * s.dd >= s.d) --end;
  r->kd = static_cast<int>(end - begin);
  r->x = planes + (begin < end ? (iz + begin * s.dd) * s.h * s.w * kC0 : 0);
  r->weights = weights + begin * s.kh * s.kw * kC0;
}

// More than the usual share of the last-level cache: as much is read beside it, and whatever comes next reads
// the result. On 144 channels of 56x56 and the pointwise layer behind them streaming gains 15 to 18 % in all
// at 58 MB, nothing certain at 29 MB, and loses up to 15 % at 14 MB, although the depthwise layer alone gains
// 10 % there (all with 64 MiB or more); with 32 MiB that layer gains 25 % at 14 MB.
bool WritesPastCaches(const ConvPlan& plan, const ConvArgs& args, const float* y) {
  constexpr uintptr_t kLine = 64;
  return plan.shape.y_blocked && !args.epilogue.program && !args.moments &&
         IsRegisterAct(args.epilogue.act) && reinterpret_cast<uintptr_t>(y) % kLine == 0 &&
         BlockedBytes(plan.shape.n, plan.shape.oc, plan.shape.out_plane()) >=
             3 * (vector::StreamingThreshold() / 2);
}

// Operands that together take half of the last-level cache come from memory.
bool ReadsFromMemory(const ConvShape& s) {
  return BlockedBytes(s.n, s.c, s.plane()) + BlockedBytes(s.n, s.oc, s.out_plane()) >=
         2 * vector::StreamingThreshold();
}

}  // namespace

void DepthwiseRows(const ConvShape& s, const DepthwiseBlock& block, int64_t begin, int64_t end) {
  const auto row_fn = OPSNN_TIER_CALL(DepthwiseRowTier);
  DepthwiseRow r;
  r.bias = block.bias;
  r.h = s.h, r.w = s.w, r.ow = s.ow, r.pl = s.pl;
  r.kh = static_cast<int>(s.kh), r.kw = static_cast<int>(s.kw);
  r.sw = static_cast<int>(s.sw), r.dh = static_cast<int>(s.dh), r.dw = static_cast<int>(s.dw);
  r.slice_step = s.dd * s.h * s.w * kC0;
  r.post = block.post;
  r.stream = block.stream, r.ahead = block.ahead;
  r.finite_weights = block.finite_weights;
  int64_t oz = begin / s.oh, oy = begin - oz * s.oh;
  EnterSlice(s, oz, block.x, block.weights, &r);
  for (int64_t row = begin; row < end; ++row, ++oy) {
    if (oy == s.oh) oy = 0, EnterSlice(s, ++oz, block.x, block.weights, &r);
    const int64_t at = (row - begin) * s.ow * kC0;
    r.y = block.y + at;
    r.residual = block.residual ? block.residual + at : nullptr;
    r.iy = oy * s.sh - s.pt;
    row_fn(r);
    if (!IsRegisterAct(block.post->act)) PostPass(*block.post, r.y, s.ow * kC0);
  }
  if (block.stream) vector::FlushStreams();
}

void RunDepthwise(const ConvPlan& plan, const ConvArgs& args) {
  const ConvShape& s = plan.shape;
  const Operands ops = PrepareOperands(plan, args);
  const Post post = args.post();
  const bool stream = WritesPastCaches(plan, args, ops.y), finite = FiniteWeights(plan, args.weights),
             ahead = ReadsFromMemory(s);
  const int64_t blocks = (s.c + kC0 - 1) / kC0, in_plane = s.plane() * kC0, out_plane = s.out_plane() * kC0;
  const int64_t row_bytes = (s.w * s.sh + s.ow) * kC0 * static_cast<int64_t>(sizeof(float));
  const int64_t rows = s.od * s.oh, per_task = RowsPerTask(rows, row_bytes, ThreadsAvailable()),
                chunks = EvenChunks(rows, per_task, 1);
  // Layers before and behind share out images and rows, unless their weights are more than both (as in
  // DirectRun::SharesGroups): with six times as many channels on this side as on the other, as networks have.
  constexpr int64_t kTimes = 6;
  const bool by_rows = s.c <= (kTimes + 1) * s.n * s.out_plane();
  ParallelOwned(s.n * blocks * chunks, [&](int64_t i) {
    const int64_t n = i / (blocks * chunks), in_image = i % (blocks * chunks);
    const int64_t b = by_rows ? in_image % blocks : in_image / chunks,
                  chunk = by_rows ? in_image / blocks : in_image % chunks;
    const int64_t image_block = n * blocks + b, begin = rows * chunk / chunks,
                  end = rows * (chunk + 1) / chunks;
    const int64_t at = image_block * out_plane + begin * s.ow * kC0;
    DepthwiseBlock block;
    block.x = ops.x + image_block * in_plane;
    block.weights = args.weights + b * s.taps() * kC0;
    block.bias = ops.bias ? ops.bias + b * kC0 : nullptr;
    block.y = ops.y + at;
    block.residual = args.residual ? args.residual + at : nullptr;
    block.post = &post;
    block.stream = stream, block.ahead = ahead;
    block.finite_weights = finite;
    DepthwiseRows(s, block, begin, end);
    FinishRows(plan, args, ops.y, n, b, b + 1, begin, end);
  });
}

}  // namespace opsnn::conv
#endif
