// Convolutions of bytes whose groups have one channel each: no product, but sums of shifted lines.
// Neighbouring lines of the cut image (int8_windows.h) are one long line, of which what lies between two
// outputs is dropped.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_depthwise.cc"
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/int8_windows.h"
#include "kernels/gemm/internal.h"

#ifndef OPSNN_KERNELS_GEMM_INT8_DEPTHWISE_LINE_
#define OPSNN_KERNELS_GEMM_INT8_DEPTHWISE_LINE_
namespace opsnn::gemm {
// sums[i] = start + sum over taps of x[tap + i] * weight, for i < n and up to kLineSlack more.
inline constexpr int64_t kLineSlack = 64;
struct Line {
  const uint8_t* x = nullptr;
  bool x_signed = false;
  const int64_t* taps = nullptr;      // two for each pair of weights
  const uint32_t* weights = nullptr;  // pairs of 16 bits, the first in the low half
  int64_t pairs = 0, n = 0;
  int32_t start = 0;
  int32_t* sums = nullptr;
};
}  // namespace opsnn::gemm
#endif

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
static_assert(HWY_ARCH_X86, "sums of pairs are taken from neighbouring lanes");

template <bool kSigned>
HWY_INLINE hn::Vec<D16> Load(const uint8_t* p) {
  if constexpr (kSigned)
    return hn::PromoteTo(D16(), hn::LoadU(hn::Rebind<int8_t, D16>(), reinterpret_cast<const int8_t*>(p)));
  return hn::PromoteTo(D16(), hn::LoadU(hn::Rebind<uint8_t, D16>(), p));
}

template <bool kSigned>
void Sum(const Line& t) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D16())), kBlock = 4;  // s32 of 16 bytes
  const D16 d16;
  const D32 d32;
  hn::Vec<D32> none = hn::Zero(d32);
  for (int64_t i = 0; i < t.n; i += kLanes) {
    auto lo = hn::Set(d32, t.start), hi = lo;
    for (int64_t pair = 0; pair < t.pairs; ++pair) {
      const auto a = Load<kSigned>(t.x + t.taps[2 * pair] + i),
                 b = Load<kSigned>(t.x + t.taps[2 * pair + 1] + i);
      const auto w = hn::BitCast(d16, hn::Set(hn::RebindToUnsigned<D32>(), t.weights[pair]));
      lo = hn::ReorderWidenMulAccumulate(d32, hn::InterleaveLower(d16, a, b), w, lo, none);
      hi = hn::ReorderWidenMulAccumulate(d32, hn::InterleaveUpper(d16, a, b), w, hi, none);
    }
    // Interleaving goes by blocks of 16 bytes: of each, the lower half is in `lo`.
    HWY_ALIGN int32_t halves[2][kLanes / 2];
    hn::Store(lo, d32, halves[0]);
    hn::Store(hi, d32, halves[1]);
    for (int64_t j = 0; j < kLanes / 2; j += kBlock) {
      std::memcpy(t.sums + i + 2 * j, halves[0] + j, kBlock * sizeof(int32_t));
      std::memcpy(t.sums + i + 2 * j + kBlock, halves[1] + j, kBlock * sizeof(int32_t));
    }
  }
}

void SumLineKernel(const Line& t) { t.x_signed ? Sum<true>(t) : Sum<false>(t); }

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
namespace {
OPSNN_TIER_TABLE(SumLineKernel);

// Sums of so many positions are made at a time: they stay in L1 with the lines that they are made of.
constexpr int64_t kPositions = 4096;

// `count` lines of n values that begin `pitch` apart, side by side; kLineSlack more may be written.
void CloseGaps(const int32_t* from, int64_t pitch, int64_t count, int64_t n, int32_t* to) {
  constexpr int64_t kValues = 4;  // moved at a time: lines are short
  for (int64_t i = 0; i < count; ++i, from += pitch, to += n)
    for (int64_t j = 0; j < n; j += kValues) std::memcpy(to + j, from + j, kValues * sizeof(int32_t));
}

class DepthwiseRun {
 public:
  explicit DepthwiseRun(const Int8ConvParams& p) : p_(p), w_(p.windows), layout_(w_) {
    const auto taps = static_cast<int64_t>(layout_.taps().size());
    for (int64_t i = 0; i < taps; ++i) taps_.push_back(layout_.taps()[static_cast<size_t>(i)]);
    if (taps % 2 != 0) taps_.push_back(taps_.back());  // with a weight of 0
    if (p.chain) chain_ = BoundInt8Chain(*p.chain, p.args, p.images, p.groups * p.m, w_.pixels());
    pitch_ = layout_.size(1);
    lines_ = std::clamp<int64_t>(kPositions / pitch_, 1, w_.out[0]);
  }

  // The output channels of one group.
  void Channel(int64_t image, int64_t group) const {
    auto* cut = reinterpret_cast<uint8_t*>(
        ThreadScratch(Scratch::kColumns, (layout_.channel_bytes() + CutImage::kSlack) / 4 + 1));
    const int64_t sums = lines_ * pitch_ + kLineSlack;
    auto* memory = reinterpret_cast<int32_t*>(ThreadScratch(Scratch::kSpan, 2 * sums + Pairs()));
    if (!cut || !memory) return;
    layout_.CopyChannel(w_, w_.x + image * p_.image_stride + group * w_.channel_stride, cut);
    for (int64_t j = 0; j < p_.m; ++j) {
      const int64_t row = group * p_.m + j;
      Line line;
      line.x_signed = p_.x_dtype == DType::kS8;
      line.taps = taps_.data(), line.pairs = Pairs();
      line.sums = memory;
      auto* weights = reinterpret_cast<uint32_t*>(memory + 2 * sums);
      line.start = Weights(row, weights);
      line.weights = weights;
      for (int64_t z = 0; z < w_.out[2]; ++z)
        for (int64_t y = 0; y < w_.out[0]; y += lines_)
          Lines(image, row, cut, z, y, std::min(lines_, w_.out[0] - y), line, memory + sums);
    }
  }

 private:
  int64_t Pairs() const { return static_cast<int64_t>(taps_.size()) / 2; }

  // The weights of an output channel without their zero point; returns what the zero point of x makes.
  int32_t Weights(int64_t row, uint32_t* pairs) const {
    const auto taps = static_cast<int64_t>(layout_.taps().size());
    const uint8_t* from = p_.w + row * RoundUp(taps, kInt8Group);
    int32_t sum = 0;
    for (int64_t pair = 0; pair < Pairs(); ++pair) {
      pairs[pair] = 0;
      for (int64_t u = 0; u < 2 && 2 * pair + u < taps; ++u) {
        const uint8_t x = from[2 * pair + u];
        const int32_t weight = (p_.w_dtype == DType::kS8 ? static_cast<int8_t>(x) : x) - p_.w_zero.At(row);
        sum += weight;
        pairs[pair] |= (static_cast<uint32_t>(weight) & 0xFFFF) << (16 * u);
      }
    }
    return static_cast<int32_t>(0 - static_cast<uint32_t>(p_.x_zero) * static_cast<uint32_t>(sum));
  }

  void Lines(int64_t image, int64_t row, const uint8_t* cut, int64_t z, int64_t y, int64_t count, Line line,
             int32_t* compact) const {
    line.x = cut + (z * layout_.size(0) + y) * pitch_;
    line.n = (count - 1) * pitch_ + w_.out[1];
    OPSNN_TIER_CALL(SumLineKernel)(line);
    const int32_t* c = line.sums;
    if (pitch_ != w_.out[1]) {
      CloseGaps(c, pitch_, count, w_.out[1], compact);
      c = compact;
    }
    const int64_t cols = count * w_.out[1], col = (z * w_.out[0] + y) * w_.out[1];
    if (p_.chain) return chain_.Run({c, cols, image, row, 1, col, cols});
    if (p_.requantise) return RequantiseBlock(*p_.requantise, c, cols, image, row, 1, col, cols);
    if (p_.program)
      return RunProgramByRows(*p_.program, p_.args, {const_cast<int32_t*>(c), DType::kS32, cols, 1},
                              {image, row, 1, col, cols});
    std::memcpy(p_.c + image * p_.c_batch_stride + row * p_.c_row_stride + col, c,
                static_cast<size_t>(cols) * sizeof(int32_t));
  }

  const Int8ConvParams& p_;
  const ByteWindows& w_;
  const CutImage layout_;
  std::vector<int64_t> taps_;  // an even number
  BoundInt8Chain chain_;       // where p has one
  int64_t pitch_ = 0, lines_ = 0;
};

}  // namespace

void RunInt8Depthwise(const Int8ConvParams& p) {
  const DepthwiseRun run(p);
  ForEach(p.images * p.groups, ThreadsFor(p.images * p.groups * p.m * p.windows.pixels() * p.windows.depth()),
          [&](int64_t i) { run.Channel(i / p.groups, i % p.groups); });
}

}  // namespace opsnn::gemm
#endif
