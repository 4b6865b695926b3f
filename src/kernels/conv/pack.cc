// Packing of weights into the order in which tiles walk them.
#include "kernels/conv/pack.h"

#include <algorithm>
#include <atomic>
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

// What was just packed is looked at while the first cache holds it.
void Look(const float* packed, int64_t count, bool* finite) {
  if (finite && *finite) *finite = AllFinite(packed, count);
}

// Any variant, element by element.
void PackGroup(const ConvPlan& plan, const OcGroup& g, size_t ph, const float* w, float* const packed,
               bool* finite) {
  float* dst = packed;
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
  Look(packed, dst - packed, finite);
}

// What GatherRows and PackTransposed know of a group.
struct GroupOf {
  const OcGroup& g;
  int64_t taps, lanes, real;  // real: lanes with an output channel
  int64_t cg, og;
  GroupOf(const ConvShape& s, const OcGroup& g)
      : g(g),
        taps(s.taps()),
        lanes(g.blocks * kC0),
        real(std::min(lanes, (g.group + 1) * (s.oc / s.groups) - g.block * kC0)),
        cg(s.c / s.groups),
        og(s.oc / s.groups) {}
  // Of transposed weights: input channel c towards the group.
  const float* Channel(const float* w, int64_t c) const {
    return w + (c * og + g.block * kC0 - g.group * og) * taps;
  }
};

// dst[tap * tap_stride + lane] = the weight of transposed channel `from` towards `lane`. The next channel's
// are asked for: they lie apart, where no hardware prefetcher looks.
void PutChannel(const GroupOf& of, const float* from, float* dst, int64_t tap_stride) {
  constexpr int64_t kFloat = sizeof(float), kLineFloats = 64 / kFloat, kChannelsAhead = 4;
  const float* const ahead = from + kChannelsAhead * of.og * of.taps;
  for (int64_t i = 0; i < of.real * of.taps; i += kLineFloats) __builtin_prefetch(ahead + i);
  if (of.taps == 1) {
    std::copy(from, from + of.real, dst);
  } else {
    kernels::Transpose2D({sizeof(float), of.real, of.taps, from, of.taps * kFloat, dst, tap_stride * kFloat});
  }
}

// rows[i][tap][lane]: the weights of channels c, c + 1, ... (`len` of them) towards the lanes of a group.
// Those of one output channel, or transposed of one input channel, lie together and are transposed at once.
void GatherRows(const ConvShape& s, const GroupOf& of, int64_t c, int64_t len, const float* w, float* rows) {
  constexpr int64_t kFloat = sizeof(float);
  if (s.transposed) {
    for (int64_t i = 0; i < len; ++i)
      PutChannel(of, of.Channel(w, c + i), rows + i * of.taps * of.lanes, of.lanes);
    return;
  }
  const OcGroup& g = of.g;
  kernels::Transpose2D({sizeof(float), of.real, len * of.taps,
                        w + (g.block * kC0 * of.cg + c - g.c_begin) * of.taps, of.cg * of.taps * kFloat, rows,
                        of.lanes * kFloat});
}

// Do the packed taps of a phase follow each other as in the kernel? So with stride 1.
bool TapsInOrder(const ConvPlan& plan) {
  const ConvShape& s = plan.shape;
  if (plan.phases.size() != 1 || !s.flat()) return false;
  int64_t at = 0;
  for (const Tap& t : plan.phases[0].taps)
    if (t.ky * s.kw + t.kx != at++) return false;
  return at == s.taps();
}

// Groups of whole blocks, a block of channels at a time: its rows of lanes are put in place in every phase.
// Several times faster than PackGroup; eager calls pack on every run.
void PackRows(const ConvPlan& plan, const OcGroup& g, const float* w, float* packed, bool* finite) {
  const ConvShape& s = plan.shape;
  const GroupOf of(s, g);
  const int64_t taps = of.taps, lanes = of.lanes, channels = g.c_end - g.c_begin;
  if (of.real == lanes && TapsInOrder(plan) && (s.transposed || taps == 1)) {  // in place at once
    for (int64_t c = 0; c < channels; c += kC0) {
      const int64_t len = std::min<int64_t>(kC0, channels - c);
      float* const block = packed + c * taps * lanes;
      if (s.transposed) {
        for (int64_t i = 0; i < len; ++i)
          PutChannel(of, of.Channel(w, g.c_begin + c + i), block + i * lanes, len * lanes);
      } else {
        GatherRows(s, of, g.c_begin + c, len, w, block);
      }
      Look(block, len * taps * lanes, finite);
    }
    return;
  }
  thread_local std::vector<float> rows;
  rows.assign(static_cast<size_t>(kC0 * taps * lanes), 0.0f);
  for (int64_t c = 0; c < channels; c += kC0) {
    const int64_t len = std::min<int64_t>(kC0, channels - c);
    GatherRows(s, of, g.c_begin + c, len, w, rows.data());
    Look(rows.data(), len * taps * lanes, finite);
    for (size_t ph = 0; ph < plan.phases.size(); ++ph) {
      const Phase& phase = plan.phases[ph];
      const int64_t in_slice = TapsInSlice(phase);
      for (int64_t j = 0; j < static_cast<int64_t>(phase.taps.size()); ++j) {
        const Tap& t = phase.taps[static_cast<size_t>(j)];
        const int64_t tap = (t.kz * s.kh + t.ky) * s.kw + t.kx;
        float* to = packed + g.weight_offset[ph] - g.weight_offset[0] +
                    ((j / in_slice * channels + c) * in_slice + j % in_slice * len) * lanes;
        const float* from = rows.data() + tap * lanes;
        for (int64_t i = 0; i < len; ++i, to += lanes, from += taps * lanes)
          for (int64_t l = 0; l < lanes; l += kC0) std::memcpy(to + l, from + l, kC0 * sizeof(float));
      }
    }
  }
}

}  // namespace

void PackOcGroup(const ConvPlan& plan, const OcGroup& g, const float* w, float* packed, bool* finite) {
  const bool whole = plan.variant == Variant::kDirect || plan.variant == Variant::kPointwise ||
                     plan.variant == Variant::kTransposed;
  if (whole) return PackRows(plan, g, w, packed, finite);
  for (size_t ph = 0; ph < plan.phases.size(); ++ph)
    PackGroup(plan, g, ph, w, packed + g.weight_offset[ph] - g.weight_offset[0], finite);
}

void PackWeights(const ConvPlan& plan, const float* w, float* packed) {
  if (plan.product) {
    const int64_t count = plan.shape.oc * plan.shape.c * plan.shape.taps();
    const bool finite = !plan.direct || AllFinite(w, count);
    PackWeights(finite ? *plan.product : *plan.direct, w, packed);
    if (plan.direct) packed[plan.finite_offset] = finite ? 1.0f : 0.0f;
    return;
  }
  if (plan.variant == Variant::kWinograd) return PackWinograd(plan, w, packed);
  if (plan.variant == Variant::kDepthwise) {
    PackDepthwise(plan.shape, w, packed);
    if (plan.finite_offset >= 0)
      packed[plan.finite_offset] = AllFinite(packed, plan.finite_offset) ? 1.0f : 0.0f;
    return;
  }
  std::atomic<bool> finite{true};
  ParallelFor(static_cast<int64_t>(plan.oc_groups.size()), [&](int64_t i, int) {
    const OcGroup& g = plan.oc_groups[static_cast<size_t>(i)];
    bool all = true;
    PackOcGroup(plan, g, w, packed + g.weight_offset[0], plan.finite_offset >= 0 ? &all : nullptr);
    if (!all) finite.store(false, std::memory_order_relaxed);
  });
  if (plan.finite_offset >= 0) packed[plan.finite_offset] = finite.load() ? 1.0f : 0.0f;
}

ConvArgs WithPackedWeights(const ConvPlan& plan, ConvArgs args) {
  if (!args.plain_weights) return args;
  PackWeights(plan, args.plain_weights, args.packing);
  args.plain_weights = nullptr, args.weights = args.packing;
  return args;
}

}  // namespace opsnn::conv
