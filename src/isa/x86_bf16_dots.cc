#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "isa/bf16_dots.h"
#include "isa/tier.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace opsnn::isa {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

// More chains than latency times units; vectors of g++'s own type stay in registers.
using V = float __attribute__((vector_size(64)));
constexpr int kChains = 12, kSteps = 400, kSamples = 12;

std::atomic<float> g_sink;

template <bool kPairs>
OPSNN_BF16 double Seconds() {
  V acc[kChains];
  const V start = V{} + g_sink.load(std::memory_order_relaxed);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = start + static_cast<float>(i);
  const V x = start + 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      acc[i] = kPairs ? (V)_mm512_dpbf16_ps((__m512)acc[i], (__m512bh)x, (__m512bh)x)
                      : (V)_mm512_fmadd_ps((__m512)x, (__m512)x, (__m512)acc[i]);
      // Each sum is used: nothing is merged, moved or left out.
      asm volatile("" : "+v"(acc[i]));
    }
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count();
}

// The least of several samples in turns: what is slower was disturbed, or came before the wide units woke.
bool Measure() {
  double pairs = 1e9, plain = 1e9;
  for (int i = 0; i < kSamples; ++i) {
    pairs = std::min(pairs, Seconds<true>());
    plain = std::min(plain, Seconds<false>());
  }
  constexpr double kLimit = 1.4;  // twice the work in less than this many times the time
  return pairs < kLimit * plain;
}

}  // namespace

bool Bf16DotsPay() {
  if (!HasBf16()) return false;
  static const bool pay = Measure();
  return pay;
}

}  // namespace opsnn::isa

#else
namespace opsnn::isa {
bool Bf16DotsPay() { return false; }
}  // namespace opsnn::isa
#endif
