#include "kernels/reduce/plane_norm_grad.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/reduce/norm_grad_tier.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

// Planes are cut into pieces that are summed up on their own: work for the threads where channels are few.
constexpr int64_t kPiece = 64 << 10;
// dy and x of a channel that is read twice: half of the private L2 of most cores in use.
constexpr int64_t kCachedBytes = 1 << 20;

struct Sums {
  double g = 0, gn = 0;
};

class Run {
 public:
  Run(const PlaneNormGrad& p, void* scratch)
      : p_(p), pieces_(CeilDiv(p.pixels, kPiece)), sums_(static_cast<Sums*>(scratch)) {
    const int64_t bytes = p.n * p.c * p.pixels * Size();
    stream_ = p.dx && p.dx != p.dy && p.dx != p.x && bytes >= vector::StreamingThreshold();
  }

  void All() {
    const int64_t tasks = p_.n * pieces_;
    if (p_.c > 1 && 2 * p_.n * p_.pixels * Size() <= kCachedBytes) {
      ParallelFor(p_.c, [&](int64_t c, int) {
        for (int64_t t = 0; t < tasks; ++t) SumPiece(c, t);
        Finish(c);
        for (int64_t t = 0; p_.dx && t < tasks; ++t) WritePiece(c, t);
        Store(c);
        if (stream_) vector::FlushStreams();
      });
      return;
    }
    ParallelFor(tasks * p_.c, [&](int64_t i, int) { SumPiece(i % p_.c, i / p_.c); });
    for (int64_t c = 0; c < p_.c; ++c) Finish(c);
    if (p_.dx) {
      ParallelFor(tasks * p_.c, [&](int64_t i, int) {
        WritePiece(i % p_.c, i / p_.c);
        if (stream_) vector::FlushStreams();
      });
    }
    for (int64_t c = 0; c < p_.c; ++c) Store(c);
  }

 private:
  int64_t Size() const { return static_cast<int64_t>(SizeOf(p_.type)); }
  Sums& At(int64_t channel, int64_t task) {
    return sums_[channel * std::max<int64_t>(1, p_.n * pieces_) + task];
  }

  // Piece `task % pieces_` of image `task / pieces_`.
  NormGradRun PieceOf(int64_t channel, int64_t task) const {
    const int64_t first = task % pieces_ * kPiece;
    const int64_t at = ((task / pieces_ * p_.c + channel) * p_.pixels + first) * Size();
    NormGradRun r;
    r.type = p_.type, r.n = static_cast<size_t>(std::min(kPiece, p_.pixels - first));
    r.mean = p_.mean[channel], r.rstd = p_.rstd[channel];
    r.dy = static_cast<const char*>(p_.dy) + at, r.x = static_cast<const char*>(p_.x) + at;
    r.next_dy = static_cast<const char*>(r.dy), r.next_x = static_cast<const char*>(r.x);
    if (p_.dx) r.dx = static_cast<char*>(p_.dx) + at;
    return r;
  }
  void SumPiece(int64_t channel, int64_t task) {
    NormGradRun r = PieceOf(channel, task);
    SumNormGrad(r);
    At(channel, task) = {r.sum_g, r.sum_gn};
  }
  // The channel's sums, in the place of its first piece from then on.
  void Finish(int64_t channel) {
    Sums total;
    for (int64_t t = 0; t < p_.n * pieces_; ++t) total.g += At(channel, t).g, total.gn += At(channel, t).gn;
    At(channel, 0) = total;
  }
  // Behind all reads: gamma and the statistics may lie in the same memory.
  void Store(int64_t channel) {
    const Sums& total = At(channel, 0);
    if (p_.dgamma) p_.dgamma[channel] = static_cast<float>(total.gn);
    if (p_.dbeta) p_.dbeta[channel] = static_cast<float>(total.g);
  }
  void WritePiece(int64_t channel, int64_t task) {
    NormGradRun r = PieceOf(channel, task);
    r.scale = p_.gamma ? p_.gamma[channel] : 1;
    if (p_.training) {
      const Sums& total = At(channel, 0);
      const double each = static_cast<double>(r.scale) / static_cast<double>(p_.n * p_.pixels);
      r.mean_g = static_cast<float>(total.g * each), r.mean_gn = static_cast<float>(total.gn * each);
    }
    r.centre = p_.training;
    r.stream = stream_;
    WriteNormGrad(r);
  }

  const PlaneNormGrad& p_;
  int64_t pieces_;
  Sums* sums_;
  bool stream_ = false;
};

}  // namespace

size_t PlaneNormGradScratch(int64_t n, int64_t c, int64_t pixels) {
  return static_cast<size_t>(std::max<int64_t>(1, n * CeilDiv(pixels, kPiece)) * c) * sizeof(Sums);
}

void RunPlaneNormGrad(const PlaneNormGrad& p, void* scratch) { Run(p, scratch).All(); }

}  // namespace opsnn::kernels
