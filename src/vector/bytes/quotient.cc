#include "vector/bytes/quotient.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace opsnn::vector {
namespace {
float Moved(float x, int ulps) { return std::bit_cast<float>(std::bit_cast<int32_t>(x) + ulps); }
}  // namespace

// Both ways of rounding the quotient grow with x, in steps at which they reach the next integer: they are the
// same for every x if they are beside each of these steps. They grow: from one x to the next, x * high grows
// by 2^-24 of itself at least, while x * low, itself 2^-24 of that, changes by 2^-47 of it.
Quotient FindQuotient(float step, float lo, float hi) {
  constexpr float kLeast = 0x1p-60f, kMost = 0x1p60f;  // far from where products are subnormal or infinite
  constexpr int kUlps = 4;
  Quotient q;
  if (!(step >= kLeast && step <= kMost)) return q;
  q.high = 1 / step;
  q.low = static_cast<float>(1 / static_cast<double>(step) - static_cast<double>(q.high));
  const auto fast = [&](float x) { return std::nearbyint(std::fma(x, q.high, x * q.low)); };
  const auto slow = [&](float x) { return std::nearbyint(x / step); };
  for (float n = lo; n <= hi + 1; ++n) {  // lo - 1 to lo, ..., hi to hi + 1
    const float at = step * (n - 0.5f);
    for (int i = -kUlps; i <= kUlps; ++i) {
      if (fast(Moved(at, i)) != slow(Moved(at, i))) return q;
    }
    const float a = slow(Moved(at, -kUlps)), b = slow(Moved(at, kUlps));
    if (std::min(a, b) != n - 1 || std::max(a, b) != n) return q;  // the step lies elsewhere
  }
  q.exact = true;
  return q;
}

}  // namespace opsnn::vector
