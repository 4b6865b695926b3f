#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/scatter_reduce.h"
#include "kernels/gather/slice_offset.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kTaskElements = 8 << 10;

class Scatter {
 public:
  Scatter(const ScatterElementsParams& p, std::optional<ScatterReduction> reduction)
      : p_(p),
        reduction_(reduction),
        reduce_(reduction ? FindReduce(p.dtype) : nullptr),
        elem_(static_cast<int64_t>(SizeOf(p.dtype))),
        size_(p.dst_dims[p.axis]),
        strides_(ContiguousStrides(p.dst_dims)) {
    for (int i = 0; i < p.axis; ++i) outer_ *= p.index_dims[i];
    for (int i = p.axis + 1; i < p.index_dims.rank(); ++i) inner_ *= p.index_dims[i];
    along_ = p.index_dims[p.axis];
  }

  // Lines along the axis are independent. Where there are few, threads share them by places on the axis: each
  // looks at all indices and writes those of its part.
  void Run() const {
    const int64_t lines = outer_ * inner_;
    const int64_t parts = lines * along_ < 2 * kTaskElements || lines >= 4 * ThreadsAvailable()
                              ? 1
                              : std::min<int64_t>(ThreadsAvailable(), size_);
    const int64_t block = std::min(inner_, std::max<int64_t>(1, kTaskElements / along_));
    const int64_t blocks = (inner_ + block - 1) / block;
    ParallelFor(outer_ * blocks * parts, [&](int64_t task, int) {
      const int64_t part = task % parts, b = task / parts % blocks, o = task / parts / blocks;
      Block(o, b * block, std::min(inner_, (b + 1) * block), size_ * part / parts,
            size_ * (part + 1) / parts);
    });
  }

 private:
  // Element of dst below the axis' start that line (o, i) belongs to.
  int64_t LineStart(int64_t o, int64_t i) const {
    int64_t at = 0;
    for (int d = p_.axis - 1; d >= 0; --d) {
      at += o % p_.index_dims[d] * strides_[d];
      o /= p_.index_dims[d];
    }
    for (int d = p_.index_dims.rank() - 1; d > p_.axis; --d) {
      at += i % p_.index_dims[d] * strides_[d];
      i /= p_.index_dims[d];
    }
    return at;
  }

  // Lines [begin, end) of part o, updates that go to places [low, high) of the axis.
  void Block(int64_t o, int64_t begin, int64_t end, int64_t low, int64_t high) const {
    std::vector<int64_t> starts;
    for (int64_t i = begin; i < end; ++i) starts.push_back(LineStart(o, i));
    for (int64_t j = 0; j < along_; ++j) {
      const int64_t row = (o * along_ + j) * inner_;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t to = FromEnd(p_.indices[row + i], size_);
        if (to >= low && to < high)
          Put(row + i, starts[static_cast<size_t>(i - begin)] + to * strides_[p_.axis]);
      }
    }
    if (!p_.mean) return;
    for (int64_t to = low; to < high; ++to) {
      for (const int64_t start : starts) {
        const int64_t at = start + to * strides_[p_.axis], count = p_.counts[at] + (p_.include_self ? 1 : 0);
        if (p_.counts[at] > 0 && count > 1)
          FindMean(p_.dtype)(static_cast<char*>(p_.dst) + at * elem_, count);
      }
    }
  }

  void Put(int64_t from, int64_t at) const {
    const char* update = static_cast<const char*>(p_.updates) + from * elem_;
    char* dst = static_cast<char*>(p_.dst) + at * elem_;
    const bool first = p_.counts != nullptr && p_.counts[at]++ == 0 && !p_.include_self;
    if (reduce_ != nullptr && !first) {
      reduce_(*reduction_, update, dst, elem_);
    } else {
      std::memcpy(dst, update, static_cast<size_t>(elem_));
    }
  }

  const ScatterElementsParams& p_;
  const std::optional<ScatterReduction> reduction_;
  const ReduceFn reduce_;
  const int64_t elem_, size_;
  const Dims strides_;
  int64_t outer_ = 1, inner_ = 1, along_ = 1;
};

}  // namespace

Status ScatterElements(const ScatterElementsParams& p, std::optional<ScatterReduction> reduction) {
  OPSNN_RETURN_IF_ERROR(CheckIndices(p.indices, p.dst_dims[p.axis]));
  if (NumElements(p.index_dims) > 0) Scatter(p, reduction).Run();
  return OkStatus();
}

}  // namespace opsnn::kernels
