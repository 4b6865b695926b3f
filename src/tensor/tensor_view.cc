#include "tensor/tensor_view.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace opsnn {

bool TensorView::IsContiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (dims[i] == 0) return true;
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

ByteRange TouchedBytes(const TensorView& v) {
  const char* base = static_cast<const char*>(v.data);
  int64_t lo = 0, hi = 0;
  for (int i = 0; i < v.rank(); ++i) {
    if (v.dims[i] == 0) return {base, base};
    const int64_t reach = (v.dims[i] - 1) * v.strides[i];
    (reach < 0 ? lo : hi) += reach;
  }
  const int64_t size = static_cast<int64_t>(SizeOf(v.dtype));
  return {base + lo * size, base + (hi + 1) * size};
}

TensorView BroadcastTo(const TensorView& v, const Dims& dims) {
  TensorView out{v.data, v.dtype, dims, Dims::Filled(dims.rank(), 0)};
  const int shift = dims.rank() - v.rank();
  assert(shift >= 0);
  for (int i = std::max(shift, 0); i < dims.rank(); ++i) {
    assert(v.dims[i - shift] == dims[i] || v.dims[i - shift] == 1);
    out.strides[i] = v.dims[i - shift] == 1 && dims[i] != 1 ? 0 : v.strides[i - shift];
  }
  return out;
}

Overlap CheckOverlap(const TensorView& a, const TensorView& b) {
  const ByteRange ra = TouchedBytes(a), rb = TouchedBytes(b);
  if (ra.begin == ra.end || rb.begin == rb.end || ra.end <= rb.begin || rb.end <= ra.begin) {
    return Overlap::kNone;
  }
  if (a.data != b.data || a.dtype != b.dtype || !(a.dims == b.dims)) return Overlap::kPartial;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return Overlap::kPartial;
  }
  return Overlap::kSame;
}

bool HasInternalOverlap(const TensorView& v) {
  // Sorted by stride, every dimension must step over all that the smaller ones reach. A view that fails this
  // may still be free of overlap (interleaved strides such as dims [2,3], strides [3,2]); those are counted
  // exactly when small and called overlapping when large, where nobody builds them on purpose.
  std::vector<std::pair<int64_t, int64_t>> by_stride;  // |stride|, size
  for (int i = 0; i < v.rank(); ++i) {
    if (v.dims[i] == 0) return false;
    if (v.dims[i] > 1) by_stride.emplace_back(std::abs(v.strides[i]), v.dims[i]);
  }
  std::sort(by_stride.begin(), by_stride.end());
  int64_t reach = 0;
  bool nested = true;
  for (const auto& [stride, size] : by_stride) {
    if (stride == 0) return true;
    nested = nested && stride > reach;
    reach += stride * (size - 1);
  }
  if (nested) return false;
  const int64_t total = v.size();
  constexpr int64_t kExactLimit = 1 << 16;
  if (total > kExactLimit) return true;
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(total));
  for (int64_t index = 0; index < total; ++index) {
    int64_t rest = index, offset = 0;
    for (const auto& [stride, size] : by_stride) {
      offset += rest % size * stride;
      rest /= size;
    }
    offsets.push_back(offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

}  // namespace opsnn
