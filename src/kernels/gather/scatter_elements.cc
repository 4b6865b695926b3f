#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gather/scatter_reduce.h"
#include "kernels/gather/slice_offset.h"

namespace opsnn::kernels {

// Dims before the axis name independent parts of dst: they are the tasks.
Status ScatterElements(const ScatterElementsParams& p, std::optional<ScatterReduction> reduction) {
  const int64_t size = p.dst_dims[p.axis], count = NumElements(p.index_dims);
  OPSNN_RETURN_IF_ERROR(CheckIndices(p.indices, size));
  if (count == 0) return OkStatus();
  const auto elem = static_cast<int64_t>(SizeOf(p.dtype));
  const ReduceFn reduce = reduction ? FindReduce(p.dtype) : nullptr;
  const Dims strides = ContiguousStrides(p.dst_dims);
  const int rank = p.index_dims.rank();
  int64_t outer = 1;
  for (int i = 0; i < p.axis; ++i) outer *= p.index_dims[i];
  const int64_t inner = count / outer;
  const auto part = [&](int64_t o) {
    int64_t base = 0, rest = o;
    for (int i = p.axis - 1; i >= 0; --i) {
      base += rest % p.index_dims[i] * strides[i];
      rest /= p.index_dims[i];
    }
    Dims at = Dims::Filled(rank, 0);  // position below the outer dims
    for (int64_t j = 0; j < inner; ++j) {
      int64_t to = base + FromEnd(p.indices[o * inner + j], size) * strides[p.axis];
      for (int i = p.axis + 1; i < rank; ++i) to += at[i] * strides[i];
      const char* from = static_cast<const char*>(p.updates) + (o * inner + j) * elem;
      char* dst = static_cast<char*>(p.dst) + to * elem;
      if (reduce != nullptr) {
        reduce(*reduction, from, dst, elem);
      } else {
        std::memcpy(dst, from, static_cast<size_t>(elem));
      }
      for (int i = rank - 1; i > p.axis && ++at[i] == p.index_dims[i]; --i) at[i] = 0;
    }
  };
  constexpr int64_t kTaskElements = 8 << 10;
  const int64_t group = std::max<int64_t>(1, kTaskElements / inner);
  ParallelFor((outer + group - 1) / group, [&](int64_t t, int) {
    for (int64_t o = t * group; o < std::min(outer, (t + 1) * group); ++o) part(o);
  });
  return OkStatus();
}

}  // namespace opsnn::kernels
