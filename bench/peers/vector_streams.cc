// What memory allows: streams of reads and writes, and the pages they run over.
#include <emmintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "bench/peers/vector_case.h"

namespace opsnn::peers {
namespace {

constexpr size_t kHuge = 2 << 20;
constexpr int64_t kLine = 64;
std::atomic<int64_t> sink;

// One task: lines that are copied, then lines that are only read or only written.
struct Part {
  const char* from;
  char* to;
  int64_t read, written;
  bool past_caches;

  template <bool kRead, bool kWrite>
  void Lines(int64_t begin, int64_t end, int64_t streams) const {
    constexpr int64_t kAhead = 1024;
    __m128i sum = _mm_setzero_si128();
    const int64_t each = (end - begin) / streams / kLine * kLine;
    for (int64_t i = 0; i < each; i += kLine) {
      for (int64_t s = 0; s < streams; ++s) {
        const int64_t at = begin + s * each + i;
        for (int k = 0; k < 4; ++k) {
          __m128i v = sum;
          if constexpr (kRead) v = _mm_load_si128(reinterpret_cast<const __m128i*>(from + at) + k);
          if constexpr (kRead) {
            if (k == 0) _mm_prefetch(from + at + kAhead, _MM_HINT_T0);
          }
          if constexpr (kWrite) {
            auto* const p = reinterpret_cast<__m128i*>(to + at) + k;
            past_caches ? _mm_stream_si128(p, v) : _mm_store_si128(p, v);
          } else {
            sum = _mm_or_si128(sum, v);
          }
        }
      }
    }
    sink.fetch_or(_mm_cvtsi128_si64(sum), std::memory_order_relaxed);
  }
  void Run(int64_t streams) const {
    const int64_t both = std::min(read, written) / kLine * kLine;
    Lines<true, true>(0, both, streams);
    if (read > both) Lines<true, false>(both, read, streams);
    if (written > both) Lines<false, true>(both, written, streams);
    if (past_caches) _mm_sfence();
  }
};

}  // namespace

void RunStream(const Stream& s, int threads) {
#pragma omp parallel for num_threads(threads)
  for (int t = 0; t < threads; ++t) {
    const auto share = [&](int64_t bytes) { return bytes / threads / kLine * kLine; };
    const Part part{static_cast<const char*>(s.from) + t * share(s.read),
                    static_cast<char*>(s.to) + t * share(s.written), share(s.read), share(s.written),
                    s.past_caches};
    part.Run(s.many ? 8 : 1);
  }
}

Pages::Pages(size_t bytes, bool huge) : mapped_bytes_(bytes + 2 * kHuge) {
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    return;
  }
  madvise(mapped_, mapped_bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const auto address = reinterpret_cast<uintptr_t>(mapped_);
  data_ = static_cast<char*>(mapped_) + (kHuge - address % kHuge) % kHuge;
  std::memset(data_, 0, bytes);
}

Pages::~Pages() {
  if (mapped_) munmap(mapped_, mapped_bytes_);
}

}  // namespace opsnn::peers
