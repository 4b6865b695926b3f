// Copies between strided tensors of one element size: transposes of any permutation, gathers and scatters
// with constant strides, broadcasts, reversals. Bytes are moved, never interpreted.
#ifndef OPSNN_KERNELS_TRANSPOSE_STRIDED_COPY_H_
#define OPSNN_KERNELS_TRANSPOSE_STRIDED_COPY_H_

#include <cstdint>

#include "tensor/tensor_view.h"

namespace opsnn::kernels {

// A copy that was analysed once and runs with any pointers: dst[sum i_k * dst_strides_k] =
// src[sum i_k * src_strides_k] over all indices of dims. Strides are in elements; source strides may be 0 or
// negative, destination strides must reach every element once. Source and destination do not overlap.
//
// The dims are first reduced to as few axes as describe the same copy; then one of three ways is chosen:
//   runs  both sides have a contiguous innermost piece: memory copies;
//   tile  the two sides are contiguous along different axes: blocked 2-D transposes;
//   walk  neither: element by element, in the order of the destination.
class CopyPlan {
 public:
  CopyPlan() = default;  // copies nothing
  CopyPlan(int elem_bytes, const Dims& dims, const Dims& src_strides, const Dims& dst_strides);

  void Run(const void* src, void* dst) const;  // threads through ParallelFor
  const char* variant() const;                 // "empty", "runs", "tile" or "walk"

 private:
  enum class Kind : uint8_t { kEmpty, kRuns, kTile };
  struct Axis {
    int64_t n, src, dst;  // strides in bytes
  };
  void Canonicalise(int elem_bytes, const Dims& dims, const Dims& src_strides, const Dims& dst_strides);
  // Units [begin, end) of the outer axes; a unit is the inner axis of runs or one 2-D transpose, of which
  // only the share [lo, hi) (along its split axis) is copied.
  void RunUnits(const char* src, char* dst, int64_t begin, int64_t end) const;
  void RunColumnShares(const char* src, char* dst, int64_t threads) const;
  void RunUnit(const char* src, char* dst, int64_t lo, int64_t hi, const char* next = nullptr) const;
  void TakeInSourceOrder();

  Kind kind_ = Kind::kEmpty;
  int num_outer_ = 0;
  Axis outer_[kMaxRank] = {};
  int64_t run_ = 0;         // contiguous bytes on both sides: 1, 2, 4 or 8 for tiles
  Axis inner_ = {1, 0, 0};  // runs: the loop around a run; tile: the rows (contiguous in dst)
  Axis cols_ = {1, 0, 0};   // tile: the columns (contiguous in src)
  int64_t outer_count_ = 1;
  bool stream_ = false;  // written past the caches
  bool lines_ = false;   // runs: streamed where dst lies on whole lines
};

// out[i_0, ...] = in with axes permuted: dim k of the result is dim perm[k] of the source; both contiguous.
CopyPlan TransposePlan(int elem_bytes, const Dims& dims, const Dims& perm);

// One-off forms. CopyView: same dtype size and dims.
void Transpose(int elem_bytes, const Dims& dims, const Dims& perm, const void* src, void* dst);
void CopyView(const TensorView& from, const TensorView& to);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_TRANSPOSE_STRIDED_COPY_H_
