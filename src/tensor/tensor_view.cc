#include "tensor/tensor_view.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
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
  // Integers, since views without data are measured too and a null pointer may not be moved.
  const auto base = reinterpret_cast<intptr_t>(v.data);
  const auto at = [base](int64_t offset) { return reinterpret_cast<const char*>(base + offset); };
  int64_t lo = 0, hi = 0;
  if (std::find(v.dims.begin(), v.dims.end(), 0) != v.dims.end()) return {at(0), at(0)};
  for (int i = 0; i < v.rank(); ++i) {
    const int64_t reach = (v.dims[i] - 1) * v.strides[i];
    (reach < 0 ? lo : hi) += reach;
  }
  const int64_t size = static_cast<int64_t>(SizeOf(v.dtype));
  return {at(lo * size), at((hi + 1) * size)};
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

namespace {

// A view as strides that go up: the lowest address, and (stride, size) in elements of every dim that moves,
// by stride.
struct Steps {
  const char* begin;
  int64_t element;  // bytes
  std::vector<std::pair<int64_t, int64_t>> dims;
};

Steps StepsOf(const TensorView& v) {
  Steps s{TouchedBytes(v).begin, static_cast<int64_t>(SizeOf(v.dtype)), {}};
  for (int i = 0; i < v.rank(); ++i) {
    if (v.dims[i] > 1 && v.strides[i] != 0) s.dims.emplace_back(std::abs(v.strides[i]), v.dims[i]);
  }
  std::sort(s.dims.begin(), s.dims.end());
  return s;
}

// Byte offset of every element from `begin`.
std::vector<int64_t> Offsets(const Steps& s) {
  std::vector<int64_t> offsets{0};
  for (const auto& [stride, size] : s.dims) {
    const size_t inner = offsets.size();
    for (int64_t i = 1; i < size; ++i) {
      for (size_t k = 0; k < inner; ++k) offsets.push_back(offsets[k] + i * stride * s.element);
    }
  }
  return offsets;
}

// Bytes from the first to the last element that the dims with strides below `limit` bytes reach; `period`
// becomes the greatest common divisor of itself and the other strides.
int64_t Hull(const Steps& s, int64_t limit, int64_t* period) {
  int64_t hull = s.element;
  for (const auto& [stride, size] : s.dims) {
    const int64_t bytes = stride * s.element;
    if (bytes < limit) {
      hull += bytes * (size - 1);
    } else {
      *period = std::gcd(*period, bytes);
    }
  }
  return hull;
}

// Do the views, whose ranges meet, keep apart element by element? Taken as rows: with the dims of small
// strides as the row and all others going in multiples of a period, rows that are apart within the period
// are apart everywhere. Every split into small and large is tried; what is left is counted when small, and
// taken to meet when large.
bool KeepApart(const TensorView& a, const TensorView& b) {
  const Steps x = StepsOf(a), y = StepsOf(b);
  const int64_t distance = y.begin - x.begin;
  for (const Steps* s : {&x, &y}) {
    for (const auto& dim : s->dims) {
      int64_t period = 0;
      const int64_t limit = dim.first * s->element;
      const int64_t row_x = Hull(x, limit, &period), row_y = Hull(y, limit, &period);
      const int64_t at = (distance % period + period) % period;
      if (at >= row_x && at + row_y <= period) return true;
    }
  }
  constexpr int64_t kExactLimit = 1 << 12;
  if (a.size() > kExactLimit || b.size() > kExactLimit) return false;
  std::vector<int64_t> mine = Offsets(x), others = Offsets(y);
  std::sort(mine.begin(), mine.end());
  std::sort(others.begin(), others.end());
  for (size_t i = 0, j = 0; i < mine.size() && j < others.size();) {
    const int64_t other = others[j] + distance;
    if (mine[i] + x.element <= other) {
      ++i;
    } else if (other + y.element <= mine[i]) {
      ++j;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

Overlap CheckOverlap(const TensorView& a, const TensorView& b) {
  const ByteRange ra = TouchedBytes(a), rb = TouchedBytes(b);
  if (ra.begin == ra.end || rb.begin == rb.end || ra.end <= rb.begin || rb.end <= ra.begin) {
    return Overlap::kNone;
  }
  bool same = a.data == b.data && a.dtype == b.dtype && a.dims == b.dims;
  for (int i = 0; same && i < a.rank(); ++i) same = a.dims[i] == 1 || a.strides[i] == b.strides[i];
  if (same) return Overlap::kSame;
  // A common first element is the usual case, and needs no search.
  if (ra.begin == rb.begin) return Overlap::kPartial;
  return KeepApart(a, b) ? Overlap::kNone : Overlap::kPartial;
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
