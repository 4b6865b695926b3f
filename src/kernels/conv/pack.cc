// Packing of weights into the order in which tiles walk them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/segments.h"
#include "kernels/conv/winograd.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {
namespace {

void PackDepthwise(const ConvShape& s, const float* w, float* packed) {  // [block][tap][lane]
  const int64_t taps = s.taps();
  for (int64_t b = 0; b * kC0 < s.oc; ++b)
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t l = 0; l < kC0; ++l) {
        const int64_t o = b * kC0 + l;
        *packed++ = o < s.oc ? w[o * taps + t] : 0.0f;
      }
}

// Any variant, element by element.
void PackGroup(const ConvPlan& plan, const OcGroup& g, size_t ph, const float* w, float* dst) {
  const ConvShape& s = plan.shape;
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, taps = s.taps();
  // Element (o, c, ky, kx), o global and c within the group, for either weight order.
  const int64_t o_stride = s.transposed ? taps : cg * taps, c_stride = s.transposed ? og * taps : taps;
  // Transposed weights hold og output channels per row and all input channels.
  const int64_t o_base = s.transposed ? g.group * og : 0, c_base = s.transposed ? 0 : g.c_begin;
  const Phase& phase = plan.phases[ph];
  ForEachSegment(plan, g, phase, [&](int64_t c, int tap, int len) {
    for (int i = 0; i < len; ++i) {
      const Tap& t = phase.taps[static_cast<size_t>(tap)];
      const float* src = w + (c + i - c_base) * c_stride + (t.kz * s.kh + t.ky) * s.kw + t.kx;
      for (int64_t l = 0; l < g.blocks * kC0; ++l) {
        const int64_t o = g.block * kC0 + l;
        const bool mine = o >= g.group * og && o < (g.group + 1) * og;
        *dst++ = mine ? src[(o - o_base) * o_stride] : 0.0f;
      }
    }
  });
}

// rows[i][tap][lane]: the weights of channels c, c + 1, ... (`len` of them) towards the lanes of a group.
// Those of one output channel, or transposed of one input channel, lie together and are transposed at once.
void GatherRows(const ConvShape& s, const OcGroup& g, int64_t c, int64_t len, const float* w, float* rows) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, taps = s.taps(), lanes = g.blocks * kC0,
                o_begin = g.block * kC0, real = std::min(lanes, (g.group + 1) * og - o_begin);
  if (!s.transposed) {
    kernels::Transpose2D({sizeof(float), real, len * taps, w + (o_begin * cg + c - g.c_begin) * taps,
                          cg * taps * kFloat, rows, lanes * kFloat});
    return;
  }
  const float* from = w + (c * og + o_begin - g.group * og) * taps;
  for (int64_t i = 0; i < len; ++i, from += og * taps, rows += taps * lanes) {
    if (taps == 1) {
      std::memcpy(rows, from, static_cast<size_t>(real * kFloat));
    } else {
      kernels::Transpose2D({sizeof(float), real, taps, from, taps * kFloat, rows, lanes * kFloat});
    }
  }
}

// Groups of whole blocks, a block of channels at a time: its rows of lanes are put in place in every phase.
// Several times faster than PackGroup; eager calls pack on every run.
void PackRows(const ConvPlan& plan, const OcGroup& g, const float* w, float* packed) {
  const ConvShape& s = plan.shape;
  const int64_t taps = s.taps(), lanes = g.blocks * kC0, channels = g.c_end - g.c_begin;
  thread_local std::vector<float> rows;
  rows.assign(static_cast<size_t>(kC0 * taps * lanes), 0.0f);
  for (int64_t c = 0; c < channels; c += kC0) {
    const int64_t len = std::min<int64_t>(kC0, channels - c);
    GatherRows(s, g, g.c_begin + c, len, w, rows.data());
    for (size_t ph = 0; ph < plan.phases.size(); ++ph) {
      const Phase& phase = plan.phases[ph];
      const int64_t in_slice = TapsInSlice(phase);
      for (int64_t j = 0; j < static_cast<int64_t>(phase.taps.size()); ++j) {
        const Tap& t = phase.taps[static_cast<size_t>(j)];
        const int64_t tap = (t.kz * s.kh + t.ky) * s.kw + t.kx;
        float* to = packed + g.weight_offset[ph] +
                    ((j / in_slice * channels + c) * in_slice + j % in_slice * len) * lanes;
        for (int64_t i = 0; i < len; ++i, to += lanes)
          std::memcpy(to, rows.data() + (i * taps + tap) * lanes, static_cast<size_t>(lanes) * sizeof(float));
      }
    }
  }
}

}  // namespace

void PackWeights(const ConvPlan& plan, const float* w, float* packed) {
  if (plan.variant == Variant::kDepthwise) return PackDepthwise(plan.shape, w, packed);
  if (plan.variant == Variant::kWinograd) return PackWinograd(plan, w, packed);
  const bool whole = plan.variant == Variant::kDirect || plan.variant == Variant::kPointwise ||
                     plan.variant == Variant::kTransposed;
  ParallelFor(static_cast<int64_t>(plan.oc_groups.size()), [&](int64_t i, int) {
    const OcGroup& g = plan.oc_groups[static_cast<size_t>(i)];
    if (whole) return PackRows(plan, g, w, packed);
    for (size_t ph = 0; ph < plan.phases.size(); ++ph)
      PackGroup(plan, g, ph, w, packed + g.weight_offset[ph]);
  });
}

}  // namespace opsnn::conv
