// Keeping some of n positions, in order: what NonZero, MaskedSelect and Unique share. Counted in chunks, then
// written in chunks, so that threads share the work and the result does not depend on them.
#ifndef OPSNN_KERNELS_GATHER_COMPACT_H_
#define OPSNN_KERNELS_GATHER_COMPACT_H_

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/parallel.h"

namespace opsnn::kernels {

constexpr int64_t kCompactChunk = 16 << 10;
inline int64_t CompactChunks(int64_t n) { return (n + kCompactChunk - 1) / kCompactChunk; }

// Calls emit(i, k) for every i in [0, n) with keep(i), k counting them in order, and returns how many there
// are; emits nothing where that is more than `room`. `counts` holds CompactChunks(n) values.
template <typename Keep, typename Emit>
int64_t Compact(int64_t n, int64_t room, int64_t* counts, Keep keep, Emit emit) {
  const int64_t chunks = CompactChunks(n);
  ParallelFor(chunks, [&](int64_t c, int) {
    int64_t count = 0;
    for (int64_t i = c * kCompactChunk; i < std::min(n, (c + 1) * kCompactChunk); ++i) count += keep(i);
    counts[c] = count;
  });
  int64_t total = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t here = counts[c];
    counts[c] = total;
    total += here;
  }
  if (total > room) return total;
  ParallelFor(chunks, [&](int64_t c, int) {
    int64_t k = counts[c];
    for (int64_t i = c * kCompactChunk; i < std::min(n, (c + 1) * kCompactChunk); ++i) {
      if (keep(i)) emit(i, k++);
    }
  });
  return total;
}

// Calls fn(is_zero) with a function object that tells whether element i at `x` is 0; NaN is not, -0 is.
template <typename Fn>
void WithZeroTest(const void* x, DType t, Fn fn) {
  auto test = [&]<typename Word>(Word) {
    const Word magnitude =
        IsFloat(t) ? static_cast<Word>(static_cast<Word>(~Word{0}) >> 1) : static_cast<Word>(~Word{0});
    fn([w = static_cast<const Word*>(x), magnitude](int64_t i) { return (w[i] & magnitude) == 0; });
  };
  switch (SizeOf(t)) {
    case 1:
      return test(uint8_t{});
    case 2:
      return test(uint16_t{});
    case 4:
      return test(uint32_t{});
    default:
      return test(uint64_t{});
  }
}

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_COMPACT_H_
