#include "kernels/gather/gather.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gather/slice_offset.h"
#include "kernels/gather/stream_row.h"
#include "vector/streaming.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kTaskBytes = 64 << 10;  // rows arrive by random access: less than a plain copy pays for

template <typename T>
int64_t FirstOutside(const void* data, int64_t count, int64_t lowest, int64_t size) {
  const T* index = static_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < lowest || index[i] >= size) return i;
  }
  return -1;
}

Status Outside(const IndexArray& indices, int64_t at, int64_t size) {
  if (size == 0) {
    return InvalidArgument("index %lld at position %lld points into an empty dimension",
                           static_cast<long long>(indices[at]), static_cast<long long>(at));
  }
  return InvalidArgument("index %lld at position %lld is outside [%lld, %lld]",
                         static_cast<long long>(indices[at]), static_cast<long long>(at),
                         static_cast<long long>(indices.from_end ? -size : 0),
                         static_cast<long long>(size - 1));
}

// Rows [begin, end) of the result, counted over (outer, count).
template <typename Copy>
void GatherRows(const GatherParams& p, int64_t begin, int64_t end, Copy copy) {
  const char* src = static_cast<const char*>(p.src);
  char* dst = static_cast<char*>(p.dst) + begin * p.inner_bytes;
  int64_t o = begin / p.indices.count, j = begin % p.indices.count;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t row = o * p.axis_size + FromEnd(p.indices[j], p.axis_size);
    copy(dst, src + row * p.inner_bytes);
    dst += p.inner_bytes;
    if (++j == p.indices.count) j = 0, ++o;
  }
}

// The same past the caches: while a row is copied, the next one comes in.
void StreamRows(const GatherParams& p, int64_t begin, int64_t end) {
  const char* src = static_cast<const char*>(p.src);
  char* dst = static_cast<char*>(p.dst) + begin * p.inner_bytes;
  const auto row_of = [&](int64_t r) {
    const int64_t o = r / p.indices.count, j = r % p.indices.count;
    return src + (o * p.axis_size + FromEnd(p.indices[j], p.axis_size)) * p.inner_bytes;
  };
  const char* row = row_of(begin);
  for (int64_t r = begin; r < end; ++r, dst += p.inner_bytes) {
    const char* const next = r + 1 < end ? row_of(r + 1) : row;
    StreamRow(row, dst, p.inner_bytes, next);
    row = next;
  }
  vector::FlushStreams();
}

template <int kBytes>
struct CopyFixed {
  void operator()(char* dst, const char* src) const { std::memcpy(dst, src, kBytes); }
};

void GatherRange(const GatherParams& p, int64_t begin, int64_t end) {
  switch (p.inner_bytes) {
    case 1:
      return GatherRows(p, begin, end, CopyFixed<1>());
    case 2:
      return GatherRows(p, begin, end, CopyFixed<2>());
    case 4:
      return GatherRows(p, begin, end, CopyFixed<4>());
    case 8:
      return GatherRows(p, begin, end, CopyFixed<8>());
    case 16:
      return GatherRows(p, begin, end, CopyFixed<16>());
    default:
      return GatherRows(p, begin, end, [n = static_cast<size_t>(p.inner_bytes)](char* dst, const char* src) {
        std::memcpy(dst, src, n);
      });
  }
}

}  // namespace

Status CheckIndices(const IndexArray& indices, int64_t size) {
  const int64_t lowest = indices.from_end ? -size : 0;
  const int64_t at = indices.is_s64 ? FirstOutside<int64_t>(indices.data, indices.count, lowest, size)
                                    : FirstOutside<int32_t>(indices.data, indices.count, lowest, size);
  return at < 0 ? OkStatus() : Outside(indices, at, size);
}

Status Gather(const GatherParams& p) {
  OPSNN_RETURN_IF_ERROR(CheckIndices(p.indices, p.axis_size));
  const int64_t rows = p.outer * p.indices.count;
  if (rows == 0 || p.inner_bytes == 0) return OkStatus();
  if (rows * p.inner_bytes < 2 * kTaskBytes) {
    GatherRange(p, 0, rows);
    return OkStatus();
  }
  const int64_t group = std::max<int64_t>(1, kTaskBytes / p.inner_bytes);
  const bool stream =
      p.inner_bytes >= kLeastStreamedRow && rows * p.inner_bytes >= vector::StreamingThreshold();
  ParallelFor((rows + group - 1) / group, [&](int64_t t, int) {
    const int64_t begin = t * group, end = std::min(rows, (t + 1) * group);
    stream ? StreamRows(p, begin, end) : GatherRange(p, begin, end);
  });
  return OkStatus();
}

Status GatherElements(const GatherElementsParams& p) {
  const int64_t size = p.src_dims[p.axis];
  OPSNN_RETURN_IF_ERROR(CheckIndices(p.indices, size));
  const int64_t count = NumElements(p.index_dims);
  const Dims strides = ContiguousStrides(p.src_dims);
  const char* src = static_cast<const char*>(p.src);
  char* dst = static_cast<char*>(p.dst);
  const int last = p.index_dims.rank() - 1;
  const int64_t inner = p.index_dims.back();
  const int64_t rows = count == 0 ? 0 : count / inner;
  const auto run_row = [&](int64_t row) {
    int64_t base = 0, rest = row;  // source offset of the row's indices, the axis left out
    for (int i = last - 1; i >= 0; --i) {
      if (i != p.axis) base += rest % p.index_dims[i] * strides[i];
      rest /= p.index_dims[i];
    }
    const int64_t step = p.axis == last ? 0 : strides[last];
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t picked = FromEnd(p.indices[row * inner + j], size) * strides[p.axis];
      std::memcpy(dst + (row * inner + j) * p.elem_bytes, src + (base + j * step + picked) * p.elem_bytes,
                  static_cast<size_t>(p.elem_bytes));
    }
  };
  const int64_t group = std::max<int64_t>(1, kTaskBytes / (inner * 8 + 1));
  ParallelFor((rows + group - 1) / group, [&](int64_t t, int) {
    for (int64_t r = t * group; r < std::min(rows, (t + 1) * group); ++r) run_row(r);
  });
  return OkStatus();
}

Status CheckTuples(const SliceIndexParams& p) {
  const int k = p.bounds.rank();
  for (int64_t t = 0; t < p.indices.count; ++t) {
    const int64_t size = p.bounds[static_cast<int>(t % k)];
    if (p.indices[t] < -size || p.indices[t] >= size) return Outside(p.indices, t, size);
  }
  return OkStatus();
}

Status GatherNd(const SliceIndexParams& p, const void* src, void* dst) {
  OPSNN_RETURN_IF_ERROR(CheckTuples(p));
  const int64_t n = p.batches * p.tuples;
  if (n == 0 || p.slice_bytes == 0) return OkStatus();
  const int64_t group = std::max<int64_t>(1, kTaskBytes / p.slice_bytes);
  ParallelFor((n + group - 1) / group, [&](int64_t task, int) {
    for (int64_t t = task * group; t < std::min(n, (task + 1) * group); ++t) {
      std::memcpy(static_cast<char*>(dst) + t * p.slice_bytes,
                  static_cast<const char*>(src) + SliceOffset(p, t), static_cast<size_t>(p.slice_bytes));
    }
  });
  return OkStatus();
}

}  // namespace opsnn::kernels
