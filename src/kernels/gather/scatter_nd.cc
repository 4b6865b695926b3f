#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gather/scatter_reduce.h"
#include "kernels/gather/slice_offset.h"

namespace opsnn::kernels {
namespace {

// Below this many bytes of updates one thread is done before another has looked through the indices.
constexpr int64_t kSharedBytes = 256 << 10;

// Calls write(tuple, offset) for every tuple. Each thread looks at all of them, in order, and writes what
// falls into its part of dst.
template <typename Write>
void ForEachTuple(const SliceIndexParams& p, Write write) {
  const int64_t tuples = p.batches * p.tuples;
  int64_t slices = p.batches;
  for (int64_t bound : p.bounds) slices *= bound;
  const int64_t parts = tuples * p.slice_bytes < kSharedBytes
                            ? 1
                            : std::min<int64_t>(ThreadsAvailable(), std::max<int64_t>(slices, 1));
  ParallelFor(parts, [&](int64_t part, int) {
    const int64_t begin = slices * part / parts * p.slice_bytes,
                  end = slices * (part + 1) / parts * p.slice_bytes;
    for (int64_t t = 0; t < tuples; ++t) {
      const int64_t offset = SliceOffset(p, t);
      if (offset >= begin && offset < end) write(t, offset);
    }
  });
}

}  // namespace

Status ScatterNd(const SliceIndexParams& p, const void* updates, void* dst) {
  OPSNN_RETURN_IF_ERROR(CheckTuples(p));
  if (p.slice_bytes == 0) return OkStatus();
  ForEachTuple(p, [&](int64_t t, int64_t offset) {
    std::memcpy(static_cast<char*>(dst) + offset, static_cast<const char*>(updates) + t * p.slice_bytes,
                static_cast<size_t>(p.slice_bytes));
  });
  return OkStatus();
}

Status ScatterNdReduce(const SliceIndexParams& p, DType dtype, ScatterReduction reduction,
                       const void* updates, void* dst) {
  OPSNN_RETURN_IF_ERROR(CheckTuples(p));
  if (p.slice_bytes == 0) return OkStatus();
  const ReduceFn reduce = FindReduce(dtype);
  ForEachTuple(p, [&](int64_t t, int64_t offset) {
    reduce(reduction, static_cast<const char*>(updates) + t * p.slice_bytes, static_cast<char*>(dst) + offset,
           p.slice_bytes);
  });
  return OkStatus();
}

}  // namespace opsnn::kernels
