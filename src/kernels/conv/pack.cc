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
  const bool first = plan.variant == Variant::kFirstLayer;
  ForEachSegment(plan, g, phase, [&](int64_t c, int tap, int len) {
    for (int i = 0; i < len; ++i) {
      const Tap& t = phase.taps[first ? tap + i : tap];
      const float* src = w + ((first ? c : c + i) - c_base) * c_stride + (t.kz * s.kh + t.ky) * s.kw + t.kx;
      for (int64_t l = 0; l < g.blocks * kC0; ++l) {
        const int64_t o = g.block * kC0 + l;
        const bool mine = o >= g.group * og && o < (g.group + 1) * og;
        *dst++ = mine ? src[(o - o_base) * o_stride] : 0.0f;
      }
    }
  });
}

// Plain convolutions: the weights of one output channel are contiguous over (c, ky, kx), so a block of
// channels is transposed at once and its rows of lanes put in place. Several times faster than PackGroup;
// eager calls pack on every run.
void PackPlainGroup(const ConvPlan& plan, const OcGroup& g, const float* w, float* dst) {
  const ConvShape& s = plan.shape;
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, taps = s.taps(), in_slice = s.kh * s.kw;
  const int64_t lanes = g.blocks * kC0, o_begin = g.block * kC0;
  const int64_t real = std::min(lanes, (g.group + 1) * og - o_begin);
  thread_local std::vector<float> rows;  // [c][tap][lane]
  rows.assign(static_cast<size_t>(kC0 * taps * lanes), 0.0f);
  for (int64_t c = g.c_begin; c < g.c_end; c += kC0) {
    const int64_t len = std::min<int64_t>(kC0, g.c_end - c);
    kernels::Transpose2D({sizeof(float), real, len * taps, w + (o_begin * cg + c - g.c_begin) * taps,
                          cg * taps * static_cast<int64_t>(sizeof(float)), rows.data(),
                          lanes * static_cast<int64_t>(sizeof(float))});
    for (int64_t kz = 0; kz < s.kd; ++kz) {
      float* to = dst + (kz * (g.c_end - g.c_begin) + c - g.c_begin) * in_slice * lanes;
      for (int64_t t = kz * in_slice; t < (kz + 1) * in_slice; ++t)
        for (int64_t i = 0; i < len; ++i, to += lanes) {
          std::memcpy(to, rows.data() + (i * taps + t) * lanes, static_cast<size_t>(lanes) * sizeof(float));
        }
    }
  }
}

}  // namespace

void PackWeights(const ConvPlan& plan, const float* w, float* packed) {
  if (plan.variant == Variant::kDepthwise) return PackDepthwise(plan.shape, w, packed);
  if (plan.variant == Variant::kWinograd) return PackWinograd(plan, w, packed);
  const bool plain = plan.variant == Variant::kDirect || plan.variant == Variant::kPointwise;
  ParallelFor(static_cast<int64_t>(plan.oc_groups.size()), [&](int64_t i, int) {
    const OcGroup& g = plan.oc_groups[static_cast<size_t>(i)];
    if (plain) return PackPlainGroup(plan, g, w, packed + g.weight_offset[0]);
    for (size_t ph = 0; ph < plan.phases.size(); ++ph)
      PackGroup(plan, g, ph, w, packed + g.weight_offset[ph]);
  });
}

}  // namespace opsnn::conv
