// Picking and placing rows, slices and elements by index tensors. Bytes are moved, never interpreted.
//
// Indices are s32 or s64, a negative one counts from the end. Every function first checks all indices and
// writes nothing when one is out of range; its status says "index -9 at position 3 is outside [-5, 4]".
#ifndef OPSNN_KERNELS_GATHER_GATHER_H_
#define OPSNN_KERNELS_GATHER_GATHER_H_

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "base/status.h"
#include "tensor/shape.h"

namespace opsnn::kernels {

struct IndexArray {
  const void* data = nullptr;
  bool is_s64 = true;
  int64_t count = 0;
  bool from_end = true;  // false: a negative one is out of range, as where an index is a label
  int64_t operator[](int64_t i) const {
    return is_s64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Are all indices in [-size, size - 1], or [0, size - 1] unless from_end?
Status CheckIndices(const IndexArray& indices, int64_t size);

// dst[o, j, :] = src[o, indices[j], :] with src (outer, axis_size, inner_bytes), dst (outer, count,
// inner_bytes).
struct GatherParams {
  int64_t outer = 1, axis_size = 1, inner_bytes = 4;
  IndexArray indices;
  const void* src = nullptr;
  void* dst = nullptr;
};
Status Gather(const GatherParams& p);

// dst[i_0, ..., i_k, ...] = src[i_0, ..., indices[i], ...] with the index in place of i_axis; indices and dst
// have dims index_dims, which nowhere but along the axis exceed src_dims.
struct GatherElementsParams {
  int elem_bytes = 4, axis = 0;
  Dims src_dims, index_dims;
  IndexArray indices;
  const void* src = nullptr;
  void* dst = nullptr;
};
Status GatherElements(const GatherElementsParams& p);

enum class ScatterReduction : uint8_t { kAdd, kMul, kMax, kMin, kDiv };

// dst[i_0, ..., indices[i], ...] = updates[i] with the index in place of i_axis, merged where a reduction is
// given; in order along every line of the axis, so that of equal indices the last one stays.
struct ScatterElementsParams {
  DType dtype = DType::kF32;
  int axis = 0;
  // Without what dst holds, the first update of an element takes its place. A mean is a sum over its count;
  // of integers it is rounded down. Either needs `counts`: zeros, one per element of dst.
  bool include_self = true, mean = false;
  int32_t* counts = nullptr;
  Dims dst_dims, index_dims;
  IndexArray indices;
  const void* updates = nullptr;
  void* dst = nullptr;
};
Status ScatterElements(const ScatterElementsParams& p, std::optional<ScatterReduction> reduction);

// Slices named by index tuples: for batch b and tuple j, the slice at src[b, t_0, ..., t_{k-1}] where t is
// indices[b, j, :]. `bounds` are the k dims that the tuple indexes; a slice is what lies below them.
struct SliceIndexParams {
  int64_t batches = 1, tuples = 0, slice_bytes = 4;
  Dims bounds;
  IndexArray indices;  // (batches, tuples, k)
};
// Are all tuples within bounds?
Status CheckTuples(const SliceIndexParams& p);
// dst (batches, tuples, slice).
Status GatherNd(const SliceIndexParams& p, const void* src, void* dst);
// Writes updates (batches, tuples, slice) into dst, in order: where a tuple repeats, the last one stays. Like
// ScatterNdReduce it gives each thread a part of dst to write, so that the order holds for any count of them.
Status ScatterNd(const SliceIndexParams& p, const void* updates, void* dst);

// dst = dst op updates, update after update; halves compute in f32 and round each time, integers wrap, NaN
// wins max and min; integers divide towards 0, by 0 they give 0. Not for bool.
Status ScatterNdReduce(const SliceIndexParams& p, DType dtype, ScatterReduction reduction,
                       const void* updates, void* dst);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_GATHER_H_
