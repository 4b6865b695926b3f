#include "tensor/shape.h"

#include <algorithm>

#include "tensor/limits.h"

namespace opsnn {

void Dims::insert(int at, int64_t v) {
  assert(at >= 0 && at <= rank_ && rank_ < kMaxRank);
  for (int i = rank_; i > at; --i) d_[i] = d_[i - 1];
  d_[at] = v;
  ++rank_;
}

void Dims::erase(int at) {
  assert(at >= 0 && at < rank_);
  --rank_;
  for (int i = at; i < rank_; ++i) d_[i] = d_[i + 1];
}

int64_t NumElements(const Dims& dims) {
  int64_t n = 1;
  if (IsKnown(dims) && std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  bool unknown = false;
  for (int64_t d : dims) {
    if (d == kUnknownDim) {
      unknown = true;
    } else {
      n *= d;
    }
  }
  return unknown ? kUnknownDim : n;
}

std::optional<int64_t> CheckedNumElements(const Dims& dims) {
  int64_t n = 1;
  bool empty = false;
  // The other sizes of an empty tensor must fit as well: its strides are products of them.
  for (int64_t d : dims) {
    if (d == 0) empty = true;
    if (d != 0 && __builtin_mul_overflow(n, d, &n)) return std::nullopt;
  }
  return empty ? 0 : n;
}

bool WithinLimits(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d > kMaxDim) return false;
    if (d > 0 && (__builtin_mul_overflow(n, d, &n) || n > kMaxElements)) return false;
  }
  return true;
}

bool IsKnown(const Dims& dims) { return std::find(dims.begin(), dims.end(), kUnknownDim) == dims.end(); }

Dims ContiguousStrides(const Dims& dims) {
  Dims strides = Dims::Filled(dims.rank(), 1);
  for (int i = dims.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
  return strides;
}

std::string ToString(const Dims& dims) {
  std::string s = "[";
  for (int i = 0; i < dims.rank(); ++i) {
    if (i) s += ",";
    s += dims[i] == kUnknownDim ? "?" : std::to_string(dims[i]);
  }
  return s + "]";
}

Result<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims out = Dims::Filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da == db || db == 1) {
      out[i] = da;
    } else if (da == 1) {
      out[i] = db;
    } else if (da == kUnknownDim || db == kUnknownDim) {
      out[i] = da == kUnknownDim ? db : da;
    } else {
      return InvalidArgument("shapes %s and %s do not broadcast: sizes %lld and %lld meet at dimension %d",
                             ToString(a).c_str(), ToString(b).c_str(), static_cast<long long>(da),
                             static_cast<long long>(db), i);
    }
  }
  return out;
}

Result<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) {
      return InvalidArgument("axis %lld is out of range: the tensor has rank 0",
                             static_cast<long long>(axis));
    }
    return InvalidArgument("axis %lld is out of range for rank %d; allowed: %d to %d",
                           static_cast<long long>(axis), rank, -rank, rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace opsnn
