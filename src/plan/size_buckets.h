// Preset sizes: a few sizes that stand for all others, so that few plans and tiles serve every shape.
#ifndef OPSNN_PLAN_SIZE_BUCKETS_H_
#define OPSNN_PLAN_SIZE_BUCKETS_H_

#include <algorithm>
#include <cstdint>
#include <span>

namespace opsnn::plan {

// Where nobody says which.
inline constexpr int64_t kPresetSizes[] = {256, 512, 1024, 2048};

// The smallest bucket that holds `size`; beyond the last one the next multiple of it. `buckets` is ascending
// and not empty; size 0 has a bucket of its own.
inline int64_t BucketOf(std::span<const int64_t> buckets, int64_t size) {
  if (size <= 0) return size;
  const auto it = std::lower_bound(buckets.begin(), buckets.end(), size);
  if (it != buckets.end()) return *it;
  const int64_t last = buckets.back();
  return (size + last - 1) / last * last;
}

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_SIZE_BUCKETS_H_
