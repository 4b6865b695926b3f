// How many lanes of its vectors a form of pooling uses.
#ifndef OPSNN_KERNELS_POOL_LANES_H_
#define OPSNN_KERNELS_POOL_LANES_H_

#include <cstdint>

#include "base/int_math.h"
#include "kernels/pool/pool.h"

namespace opsnn::pool {

enum class Form : uint8_t {
  kNaive,    // a window per vector: its elements are gathered, then combined across the lanes
  kPlanes,   // NCHW: neighbouring windows per vector, read in whole rows
  kBlocked,  // NC1HWC0: channels per vector
};
constexpr const char* Name(Form f) {
  constexpr const char* kNames[] = {"naive", "planes", "blocked"};
  return kNames[static_cast<int>(f)];
}

// The share of `lanes` that hold an element of some window.
inline double LanesUsed(Form form, const PoolShape& s, int64_t lanes) {
  const int64_t things = form == Form::kNaive ? s.kh * s.kw : form == Form::kPlanes ? s.ow : s.c;
  return static_cast<double>(things) / static_cast<double>(RoundUp(things, lanes));
}

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_LANES_H_
