// The order in which a tile walks input channels and kernel taps: what packing and running must agree on.
#ifndef OPSNN_KERNELS_CONV_SEGMENTS_H_
#define OPSNN_KERNELS_CONV_SEGMENTS_H_

#include <algorithm>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Calls fn(c, tap, len) for each segment of `g` in `phase`: `len` values starting at input channel c under
// tap index `tap` (blocked input), or at kernel column 0 of channel c under the row of tap `tap` (first
// layer).
template <typename Fn>
void ForEachSegment(const ConvPlan& plan, const OcGroup& g, const Phase& phase, Fn&& fn) {
  const int num_taps = static_cast<int>(phase.taps.size());
  if (plan.variant == Variant::kFirstLayer) {
    const int kw = static_cast<int>(plan.shape.kw);
    for (int64_t c = 0; c < plan.shape.c; ++c)
      for (int tap = 0; tap < num_taps; tap += kw) fn(c, tap, kw);
    return;
  }
  for (int64_t c = g.c_begin; c < g.c_end;) {
    const int64_t end = std::min((c / kC0 + 1) * kC0, g.c_end);
    for (int tap = 0; tap < num_taps; ++tap) fn(c, tap, static_cast<int>(end - c));
    c = end;
  }
}

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_SEGMENTS_H_
