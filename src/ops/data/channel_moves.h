// Channels of blocked images moved to other places among the blocks: what Concat, Split and Slice along the
// channels come to. Runs of channels that share a block on both sides form a piece.
#ifndef OPSNN_OPS_DATA_CHANNEL_MOVES_H_
#define OPSNN_OPS_DATA_CHANNEL_MOVES_H_

#include <memory>
#include <vector>

#include "op/operator.h"

namespace opsnn::ops {

class ChannelMoves {
 public:
  // Images as in `like`: the same count, height, width, dtype and block on every side.
  explicit ChannelMoves(const op::TensorDesc& like);
  // `count` channels of input `from`, starting at from_channel, go to output `to`, from to_channel on. Both
  // have as many channels as their descs say.
  void Add(int from, const op::TensorDesc& from_desc, int64_t from_channel, int to,
           const op::TensorDesc& to_desc, int64_t to_channel, int64_t count);
  // The kernel walks over the pixels once and does all pieces for a few of them, so that blocks which several
  // pieces read or write are in L1 for all but the first.
  op::KernelPtr MakeKernel() &&;

 private:
  struct Piece {
    int from, to;
    int64_t from_image, to_image;  // bytes from one image to the next
    int64_t from_at, to_at;        // bytes to the first lane of pixel 0
    int64_t bytes;                 // per pixel
  };
  class Kernel;

  int64_t images_, pixels_, block_bytes_, elem_bytes_;
  int c0_;
  std::vector<Piece> pieces_;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_DATA_CHANNEL_MOVES_H_
