// TensorView: a typed, strided window on memory owned by somebody else.
//
// `dims` are the logical sizes; element (i0, i1, ...) lives at data + (sum i_k * strides_k) elements (`data`
// already includes any offset). Strides are in elements, never negative for views made by users, 0 where a
// dimension is broadcast. For blocked layouts the logical and the stored shape differ: see layout.h.
#ifndef OPSNN_TENSOR_TENSOR_VIEW_H_
#define OPSNN_TENSOR_TENSOR_VIEW_H_

#include <cstdint>

#include "base/dtype.h"
#include "tensor/shape.h"

namespace opsnn {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Dims dims;
  Dims strides;

  static TensorView Contiguous(void* data, DType dtype, const Dims& dims) {
    return {data, dtype, dims, ContiguousStrides(dims)};
  }
  int rank() const { return dims.rank(); }
  int64_t size() const { return NumElements(dims); }
  size_t bytes() const { return static_cast<size_t>(size()) * SizeOf(dtype); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  bool IsContiguous() const;  // row-major without gaps; dims of size 1 and empty tensors do not matter
};

// First and one-past-last byte that the view can touch; {data, data} when empty.
struct ByteRange {
  const char* begin;
  const char* end;
};
ByteRange TouchedBytes(const TensorView& v);

// The view read under `dims` by numpy broadcasting (stride 0 where it repeats). dims must be compatible.
TensorView BroadcastTo(const TensorView& v, const Dims& dims);

// How two views lie to each other in memory.
enum class Overlap { kNone, kSame, kPartial };  // kSame: identical address, dtype, dims and strides
Overlap CheckOverlap(const TensorView& a, const TensorView& b);
// True if two different indices of v name the same element (e.g. stride 0 over a dim > 1): not writable.
bool HasInternalOverlap(const TensorView& v);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_TENSOR_VIEW_H_
