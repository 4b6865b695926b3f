#include "base/work_range.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace opsnn {

void ParallelOwned(int64_t n, FunctionRef<void(int64_t)> fn) {
  const int threads = static_cast<int>(std::min<int64_t>(ThreadsAvailable(), n));
  if (threads <= 1) {
    for (int64_t i = 0; i < n; ++i) fn(i);
    return;
  }
  assert(n < int64_t{1} << 32);
  constexpr int kFew = 8;
  WorkRange few[kFew];  // an allocation would take as long as handing over does
  std::vector<WorkRange> many(threads > kFew ? static_cast<size_t>(threads) : 0);
  WorkRange* const ranges = threads > kFew ? many.data() : few;
  for (int64_t t = 0; t < threads; ++t) ranges[t].Set(n * t / threads, n * (t + 1) / threads);
  ParallelParts(threads, [&](int64_t part) {
    int64_t i;
    while (ranges[part].TakeFirst(&i)) fn(i);
    for (int t = 1; t < threads; ++t)
      while (ranges[(part + t) % threads].TakeLast(&i)) fn(i);
  });
}

}  // namespace opsnn
