#include "ops/data/channel_moves.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "kernels/transpose/runs.h"

namespace opsnn::ops {
namespace {

// Pixels per step: with 64-byte blocks, 8 KiB of each block that is touched; the half dozen blocks that share
// pieces at a time then fit L1.
constexpr int64_t kStepPixels = 128;
constexpr int64_t kTaskBytes = 128 << 10;

}  // namespace

class ChannelMoves::Kernel : public op::Kernel {
 public:
  explicit Kernel(ChannelMoves m) : m_(std::move(m)) {}

  Status Run(const op::RunArgs& args) const override {
    const int64_t steps = (m_.pixels_ + kStepPixels - 1) / kStepPixels;
    int64_t pixel_bytes = 0;
    for (const Piece& p : m_.pieces_) pixel_bytes += p.bytes;
    const int64_t group = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, pixel_bytes * kStepPixels));
    const int64_t total = m_.images_ * steps;
    const auto task = [&](int64_t t, int) {
      for (int64_t s = t * group; s < std::min(total, (t + 1) * group); ++s) Step(args, s / steps, s % steps);
    };
    ParallelFor((total + group - 1) / group, task);
    return OkStatus();
  }
  std::string variant() const override { return "blocked"; }

 private:
  void Step(const op::RunArgs& args, int64_t image, int64_t step) const {
    const int64_t first = step * kStepPixels, count = std::min(kStepPixels, m_.pixels_ - first);
    const int64_t stride = m_.block_bytes_, skip = first * stride;
    for (const Piece& p : m_.pieces_) {
      const char* from =
          static_cast<const char*>(args.inputs[p.from]) + image * p.from_image + p.from_at + skip;
      char* to = static_cast<char*>(args.outputs[p.to]) + image * p.to_image + p.to_at + skip;
      const bool whole = p.bytes == stride;  // then the pixels of a block are one run
      kernels::CopyRuns({from, stride, to, stride, whole ? 1 : count, whole ? count * stride : p.bytes});
    }
  }

  ChannelMoves m_;
};

ChannelMoves::ChannelMoves(const op::TensorDesc& like)
    : images_(like.dims[0]),
      pixels_(like.dims[2] * like.dims[3]),
      block_bytes_(like.layout.c0 * static_cast<int64_t>(SizeOf(like.dtype))),
      elem_bytes_(static_cast<int64_t>(SizeOf(like.dtype))),
      c0_(like.layout.c0) {}

void ChannelMoves::Add(int from, const op::TensorDesc& from_desc, int64_t from_channel, int to,
                       const op::TensorDesc& to_desc, int64_t to_channel, int64_t count) {
  const auto image = [this](const op::TensorDesc& d) {
    return (d.dims[1] + c0_ - 1) / c0_ * pixels_ * block_bytes_;
  };
  const auto at = [this](int64_t channel) {
    return channel / c0_ * pixels_ * block_bytes_ + channel % c0_ * elem_bytes_;
  };
  for (int64_t done = 0; done < count;) {
    const int64_t a = from_channel + done, b = to_channel + done;
    const int64_t lanes = std::min({c0_ - a % c0_, c0_ - b % c0_, count - done});
    pieces_.push_back({from, to, image(from_desc), image(to_desc), at(a), at(b), lanes * elem_bytes_});
    done += lanes;
  }
}

op::KernelPtr ChannelMoves::MakeKernel() && {
  // By destination, so that the pieces of one block follow each other.
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.to, a.to_at) < std::pair(b.to, b.to_at);
  });
  return std::make_shared<Kernel>(std::move(*this));
}

}  // namespace opsnn::ops
