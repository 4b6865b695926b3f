// Which form of streamed blocks a transpose takes.
#ifndef OPSNN_KERNELS_TRANSPOSE_BLOCKS_TRIAL_H_
#define OPSNN_KERNELS_TRANSPOSE_BLOCKS_TRIAL_H_

#include <cstdint>

#include "kernels/transpose/tile.h"

namespace opsnn::kernels {

// While it lives, `bytes` are moved by blocks(). Which form is faster depends on how many lines a core can
// wait for and where they are kept meanwhile, which nothing tells: the first strips of a process that are
// long enough for the clock take both in turns, the later ones what took less time. Where
// `strips` are possible, these and tall blocks are the two.
class BlocksTrial {
 public:
  BlocksTrial(Transpose2DParams::Blocks asked, bool strips, int64_t bytes);
  ~BlocksTrial();
  BlocksTrial(const BlocksTrial&) = delete;
  Transpose2DParams::Blocks blocks() const { return blocks_; }

 private:
  Transpose2DParams::Blocks blocks_;
  const bool strips_;
  int64_t bytes_, begin_ = 0;  // ns; 0: nothing is measured
};

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_TRANSPOSE_BLOCKS_TRIAL_H_
