// The order in which a tile walks input channels and kernel taps: what packing and running must agree on.
#ifndef OPSNN_KERNELS_CONV_SEGMENTS_H_
#define OPSNN_KERNELS_CONV_SEGMENTS_H_

#include <algorithm>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Taps that share their slice of the kernel: all of an image's.
inline int TapsInSlice(const Phase& phase) {
  int n = 0;
  for (const Tap& t : phase.taps) n += t.dz == phase.taps[0].dz;
  return n;
}

// Slices of the kernel come one after the other, so that those outside a volume can be left out.
//
// Calls fn(c, tap, len) for each segment of `g` in `phase`: `len` values starting at input channel c under
// tap index `tap`; one value in the first layer, where channels are planes.
template <typename Fn>
void ForEachSegment(const ConvPlan& plan, const OcGroup& g, const Phase& phase, Fn&& fn) {
  const int num_taps = static_cast<int>(phase.taps.size());
  if (plan.variant == Variant::kFirstLayer) {
    for (int64_t c = 0; c < plan.shape.c; ++c)
      for (int tap = 0; tap < num_taps; ++tap) fn(c, tap, 1);
    return;
  }
  const int in_slice = TapsInSlice(phase);
  for (int first = 0; first < num_taps; first += in_slice) {
    for (int64_t c = g.c_begin; c < g.c_end;) {
      const int64_t end = std::min((c / kC0 + 1) * kC0, g.c_end);
      for (int tap = first; tap < first + in_slice; ++tap) fn(c, tap, static_cast<int>(end - c));
      c = end;
    }
  }
}

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_SEGMENTS_H_
