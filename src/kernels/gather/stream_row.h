// Rows that are moved past the caches, for results that none of them would hold.
#ifndef OPSNN_KERNELS_GATHER_STREAM_ROW_H_
#define OPSNN_KERNELS_GATHER_STREAM_ROW_H_

#include <cstdint>

namespace opsnn::kernels {

inline constexpr int64_t kLeastStreamedRow = 256;  // bytes: shorter rows are mostly heads and tails

// Copies `bytes` from src to dst and fetches as many from `ahead` meanwhile. Stores are visible to other
// threads after vector::FlushStreams only.
void StreamRow(const char* src, char* dst, int64_t bytes, const char* ahead);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_STREAM_ROW_H_
