#include "kernels/gather/sort_keys.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "base/half.h"
#include "base/parallel.h"
#include "kernels/gather/compact.h"

namespace opsnn::kernels {
namespace {

constexpr int64_t kSortChunk = 32 << 10;  // 512 KiB of items: a core's L2 cache holds them

uint64_t KeyOf(double v) {
  if (v != v) return kNanKey;
  const uint64_t bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

template <typename T>
void Keys(const void* x, int64_t begin, int64_t end, uint64_t* keys) {
  const T* v = static_cast<const T*>(x);
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (std::is_integral_v<T>) {
      // The sign bit turned over: negative numbers come first.
      keys[i] = static_cast<uint64_t>(static_cast<int64_t>(v[i])) ^ uint64_t { 1 } << 63;
    } else if constexpr (std::is_floating_point_v<T>) {
      keys[i] = KeyOf(v[i]);
    } else {
      keys[i] = KeyOf(ToFloat(v[i]));
    }
  }
}

void KeysOf(const void* x, DType t, int64_t begin, int64_t end, uint64_t* keys) {
  switch (t) {
    case DType::kF32:
      return Keys<float>(x, begin, end, keys);
    case DType::kF64:
      return Keys<double>(x, begin, end, keys);
    case DType::kF16:
      return Keys<F16>(x, begin, end, keys);
    case DType::kBF16:
      return Keys<BF16>(x, begin, end, keys);
    case DType::kS8:
      return Keys<int8_t>(x, begin, end, keys);
    case DType::kS16:
      return Keys<int16_t>(x, begin, end, keys);
    case DType::kS32:
      return Keys<int32_t>(x, begin, end, keys);
    case DType::kS64:
      return Keys<int64_t>(x, begin, end, keys);
    default:
      return Keys<uint8_t>(x, begin, end, keys);
  }
}

// The order of slices: by their keys from the front, equal ones by position.
void SortSlices(const UniqueParams& p, KeyedPosition* items, KeyedPosition* scratch) {
  ParallelFor(CompactChunks(p.n), [&](int64_t c, int) {
    for (int64_t i = c * kCompactChunk; i < std::min(p.n, (c + 1) * kCompactChunk); ++i)
      items[i] = {p.length > 0 ? p.keys[i * p.length] : 0, i};
  });
  SortKeyed(items, p.n, scratch);
  if (p.length <= 1) return;
  // Runs with equal first keys are sorted by the whole.
  for (int64_t begin = 0; begin < p.n;) {
    int64_t end = begin + 1;
    while (end < p.n && items[end].key == items[begin].key) ++end;
    std::sort(items + begin, items + end, [&p](const KeyedPosition& a, const KeyedPosition& b) {
      const uint64_t *x = p.keys + a.position * p.length, *y = p.keys + b.position * p.length;
      for (int64_t i = 0; i < p.length; ++i)
        if (x[i] != y[i]) return x[i] < y[i];
      return a.position < b.position;
    });
    begin = end;
  }
}

}  // namespace

void SortKeys(const void* x, DType t, int64_t n, uint64_t* keys) {
  ParallelFor(CompactChunks(n), [&](int64_t c, int) {
    KeysOf(x, t, c * kCompactChunk, std::min(n, (c + 1) * kCompactChunk), keys);
  });
}

void SortKeyed(KeyedPosition* items, int64_t n, KeyedPosition* scratch) {
  const int64_t chunks = (n + kSortChunk - 1) / kSortChunk;
  ParallelFor(chunks, [&](int64_t c, int) {
    std::sort(items + c * kSortChunk, items + std::min(n, (c + 1) * kSortChunk));
  });
  KeyedPosition *from = items, *to = scratch;
  for (int64_t width = kSortChunk; width < n; width *= 2, std::swap(from, to)) {
    ParallelFor((n + 2 * width - 1) / (2 * width), [&](int64_t m, int) {
      const int64_t begin = m * 2 * width, mid = std::min(n, begin + width),
                    end = std::min(n, begin + 2 * width);
      std::merge(from + begin, from + mid, from + mid, from + end, to + begin);
    });
  }
  if (from != items) std::copy(from, from + n, items);
}

int64_t UniqueScratch(int64_t n) { return 4 * n + CompactChunks(n) + n; }

int64_t FindUnique(const UniqueParams& p, int64_t* scratch) {
  auto* items = reinterpret_cast<KeyedPosition*>(scratch);
  int64_t *chunk_counts = scratch + 4 * p.n, *starts = chunk_counts + CompactChunks(p.n);
  if (!p.consecutive) SortSlices(p, items, items + p.n);
  const auto slice = [&](int64_t i) { return p.consecutive ? i : items[i].position; };
  const auto is_first = [&](int64_t i) {
    if (i == 0) return true;
    const uint64_t *a = p.keys + slice(i - 1) * p.length, *b = p.keys + slice(i) * p.length;
    return !std::equal(a, a + p.length, b);
  };
  const int64_t groups = Compact(p.n, p.room, chunk_counts, is_first, [&](int64_t i, int64_t g) {
    starts[g] = i;
    p.first[g] = slice(i);
  });
  if (groups > p.room) return groups;
  constexpr int64_t kTask = 4096;
  ParallelFor((groups + kTask - 1) / kTask, [&](int64_t t, int) {
    for (int64_t g = t * kTask; g < std::min(groups, (t + 1) * kTask); ++g) {
      const int64_t end = g + 1 < groups ? starts[g + 1] : p.n;
      if (p.counts != nullptr) p.counts[g] = end - starts[g];
      if (p.inverse == nullptr) continue;
      for (int64_t i = starts[g]; i < end; ++i) p.inverse[slice(i)] = g;
    }
  });
  return groups;
}

}  // namespace opsnn::kernels
