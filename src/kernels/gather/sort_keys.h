// Values as unsigned numbers of the same order, so that one sort serves every dtype.
#ifndef OPSNN_KERNELS_GATHER_SORT_KEYS_H_
#define OPSNN_KERNELS_GATHER_SORT_KEYS_H_

#include <cstdint>

#include "base/dtype.h"

namespace opsnn::kernels {

// keys[i] for element i: equal exactly for equal values, where -0 is 0 and NaN equals NaN; ordered as the
// values are, NaN last.
void SortKeys(const void* x, DType t, int64_t n, uint64_t* keys);
inline constexpr uint64_t kNanKey = ~uint64_t{0};  // of floats

struct KeyedPosition {
  uint64_t key;
  int64_t position;
  bool operator<(const KeyedPosition& o) const { return key != o.key ? key < o.key : position < o.position; }
};

// Sorts by key, equal keys by position; `scratch` holds n as well.
void SortKeyed(KeyedPosition* items, int64_t n, KeyedPosition* scratch);

// What there is once among n slices of `length` keys each.
struct UniqueParams {
  int64_t n = 0, length = 1;
  const uint64_t* keys = nullptr;  // (n, length)
  bool consecutive = false;        // equal neighbours only, in their order; else all, sorted
  int64_t room = 0;                // for groups
  // Results; null where they are not wanted, but for first.
  int64_t* first = nullptr;    // by group: its first slice
  int64_t* inverse = nullptr;  // by slice: its group
  int64_t* counts = nullptr;   // by group: its slices
};
// Words of 8 bytes that FindUnique needs.
int64_t UniqueScratch(int64_t n);
// How many groups there are; nothing is written where they are more than `room`.
int64_t FindUnique(const UniqueParams& p, int64_t* scratch);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_SORT_KEYS_H_
