// Choosing a variant and laying out phases, output groups, packed weights and workspace.
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/int_math.h"
#include "kernels/conv/candidates.h"
#include "kernels/conv/columns.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/segments.h"
#include "kernels/conv/tile.h"
#include "kernels/conv/winograd.h"

namespace opsnn::conv {
namespace {

constexpr int kFewChannels = 4;  // up to here an NCHW image is read as it is: blocks would be 3/4 padding

// Does every output row read the input row of its own number alone?
bool RowsAlone(const ConvShape& s) { return s.kh == 1 && s.sh == 1 && s.pt == 0 && s.oh == s.h; }

// Kernels that look at one row of one slice see (D, H) as more rows.
ConvShape FoldDepth(ConvShape s) {
  if (!RowsAlone(s) || s.kd != 1 || s.sd != 1 || s.pf != 0 || s.od != s.d) return s;
  s.h = s.oh = s.d * s.h;
  s.d = s.od = 1;
  return s;
}

const char* FirstLayerRefusal(const ConvShape& s) {
  if (s.x_blocked) return "input is blocked";
  if (!s.flat()) return "three dimensions";
  if (s.x_dtype != DType::kF32) return "input of a half type";
  if (s.c > kFewChannels) return "more than 4 channels";
  if (s.dw != 1 || s.kw > kC0) return "kernel rows are dilated or wider than 16";
  return nullptr;
}

bool GroupsShareBlocks(const ConvShape& s) {
  return s.groups > 1 && ((s.c / s.groups) % kC0 != 0 || (s.oc / s.groups) % kC0 != 0);
}

// The first variant without a reason against it.
Variant Choose(ConvPlan* p) {
  const ConvShape& s = p->shape;
  if (s.im2col) {
    const char* refusal = Refusal(s, Variant::kIm2col);
    if (!refusal) return Variant::kIm2col;
    p->refused = std::string("im2col: ") + refusal;
  }
  for (const Variant v : VariantsFor(s)) {
    if (v == Variant::kWinograd && s.winograd == 0) continue;
    const char* refusal = Refusal(s, v);
    if (!refusal) return v;
    if (!p->refused.empty()) p->refused += "; ";
    p->refused += std::string(Name(v)) + ": " + refusal;
  }
  return Variant::kGrouped;
}

void MakePlainPhase(ConvPlan* p) {
  const ConvShape& s = p->shape;
  Phase phase{0, 0, 0, s.od, s.oh, s.ow, {}};
  phase.taps.reserve(static_cast<size_t>(s.taps()));
  for (int kz = 0; kz < s.kd; ++kz) {
    for (int ky = 0; ky < s.kh; ++ky) {
      for (int kx = 0; kx < s.kw; ++kx) {
        phase.taps.push_back({static_cast<int32_t>(kz * s.dd - s.pf), static_cast<int32_t>(ky * s.dh - s.pt),
                              static_cast<int32_t>(kx * s.dw - s.pl), kz, ky, kx});
      }
    }
  }
  p->phases.push_back(std::move(phase));
  p->in_step_d = s.sd;
  p->in_step_h = s.sh;
  p->in_step_w = s.sw;
}

// Kernel positions along one dimension that meet outputs p, p + stride, ... of a transposed convolution, as
// (offset from input i, position). Output o = p + i*stride takes input j where o + pad = j*stride +
// k*dilation: so those with p + pad - k*dilation divisible by the stride, at offset (p + pad - k*dilation) /
// stride from i.
std::vector<std::pair<int32_t, int32_t>> Meets(int64_t p, int64_t kernel, int64_t stride, int64_t dilation,
                                               int64_t pad) {
  std::vector<std::pair<int32_t, int32_t>> list;
  for (int32_t k = 0; k < kernel; ++k) {
    const int64_t at = p + pad - k * dilation;
    if (at % stride == 0) list.emplace_back(static_cast<int32_t>(at / stride), k);
  }
  return list;
}

void MakeTransposedPhases(ConvPlan* p) {
  const ConvShape& s = p->shape;
  p->out_step_d = s.sd;
  p->out_step_h = s.sh;
  p->out_step_w = s.sw;
  for (int64_t pz = 0; pz < std::min(s.sd, s.od); ++pz) {
    const auto zs = Meets(pz, s.kd, s.sd, s.dd, s.pf);
    for (int64_t py = 0; py < std::min(s.sh, s.oh); ++py) {
      const auto ys = Meets(py, s.kh, s.sh, s.dh, s.pt);
      for (int64_t px = 0; px < std::min(s.sw, s.ow); ++px) {
        Phase phase{pz, py, px, CeilDiv(s.od - pz, s.sd), CeilDiv(s.oh - py, s.sh), CeilDiv(s.ow - px, s.sw),
                    {}};
        for (const auto& [dz, kz] : zs)
          for (const auto& [dy, ky] : ys)
            for (const auto& [dx, kx] : Meets(px, s.kw, s.sw, s.dw, s.pl))
              phase.taps.push_back({dz, dy, dx, kz, ky, kx});
        p->phases.push_back(std::move(phase));
      }
    }
  }
}

// Splits `count` blocks into register groups. Two blocks x 14 pixels (or one x 6 with 16 registers) is the
// best shape; an odd count ends in a group of three rather than one, which would be bound by its broadcasts.
void AppendGroups(ConvPlan* p, int64_t first, int64_t count, int64_t group, int64_t c_begin, int64_t c_end) {
  const ConvShape& s = p->shape;
  const int most = MaxBlocks(p->tier);
  const bool few_pixels = s.n * p->phases[0].slices * p->phases[0].rows * p->phases[0].cols <= 6;
  while (count > 0) {
    int64_t b = 1;
    if (few_pixels) {
      b = std::min<int64_t>(count, most);
    } else if (most >= 3) {
      b = count == 3 ? 3 : std::min<int64_t>(count, 2);
    }
    OcGroup g;
    g.block = first;
    g.blocks = static_cast<int>(b);
    g.group = group;
    g.c_begin = c_begin;
    g.c_end = c_end;
    p->oc_groups.push_back(g);
    first += b;
    count -= b;
  }
}

void MakeOcGroups(ConvPlan* p) {
  const ConvShape& s = p->shape;
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups;
  if (p->variant != Variant::kGrouped) {
    p->oc_groups.reserve(static_cast<size_t>(s.groups * CeilDiv(og, kC0)));
    for (int64_t g = 0; g < s.groups; ++g) {
      AppendGroups(p, g * og / kC0, CeilDiv(og, kC0), g, g * cg, (g + 1) * cg);
    }
    return;
  }
  for (int64_t g = 0; g < s.groups; ++g) {  // one entry per (group, block it touches)
    for (int64_t b = g * og / kC0; b * kC0 < (g + 1) * og; ++b) {
      OcGroup e;
      e.block = b;
      e.group = g;
      e.c_begin = g * cg;
      e.c_end = (g + 1) * cg;
      e.lane_begin = static_cast<int>(std::max<int64_t>(0, g * og - b * kC0));
      e.lane_end = static_cast<int>(std::min<int64_t>(kC0, (g + 1) * og - b * kC0));
      p->oc_groups.push_back(e);
    }
  }
}

// Does some kernel position of some output lie outside the input?
bool MeetsPadding(const ConvPlan& p) {
  const ConvShape& s = p.shape;
  const auto outside = [](int64_t count, int64_t step, int64_t shift, int64_t size) {
    return count > 0 && (shift < 0 || (count - 1) * step + shift >= size);
  };
  for (const Phase& phase : p.phases)
    for (const Tap& t : phase.taps)
      if (outside(phase.slices, p.in_step_d, t.dz, s.d) || outside(phase.rows, p.in_step_h, t.dy, s.h) ||
          outside(phase.cols, p.in_step_w, t.dx, s.w))
        return true;
  return false;
}

void LayOutWeights(ConvPlan* p) {
  for (OcGroup& g : p->oc_groups) {
    g.weight_offset.reserve(p->phases.size());
    for (const Phase& phase : p->phases) {
      g.weight_offset.push_back(p->packed_floats);
      ForEachSegment(*p, g, phase,
                     [&](int64_t, int, int len) { p->packed_floats += int64_t{len} * g.blocks * kC0; });
    }
  }
}

}  // namespace

ConvShape AsKernelsSee(const ConvShape& s) { return FoldDepth(s); }

std::span<const Variant> VariantsFor(const ConvShape& s) {
  static constexpr Variant kOfTransposed[] = {Variant::kPointwise, Variant::kTransposed, Variant::kGrouped},
                           kOfGroups[] = {Variant::kDepthwise, Variant::kDirect, Variant::kGrouped},
                           kOfOne[] = {Variant::kDepthwise, Variant::kFirstLayer, Variant::kWinograd,
                                       Variant::kPointwise, Variant::kDirect};
  if (s.transposed) return kOfTransposed;
  if (s.groups > 1) return kOfGroups;
  return kOfOne;
}

const char* Refusal(const ConvShape& s, Variant v) {
  switch (v) {
    case Variant::kDepthwise:
      if (s.groups == 1) return "one group";
      if (s.c != s.groups) return "groups of several channels";
      return s.oc == s.groups ? nullptr : "channel multiplier above 1";
    case Variant::kFirstLayer:
      return FirstLayerRefusal(s);
    case Variant::kWinograd:
      return s.flat() ? WinogradRefusal(s) : "three dimensions";
    case Variant::kPointwise: {
      if (s.groups != 1) return "groups";
      const bool pointwise = s.flat() && RowsAlone(s) && s.kw == 1 && s.sw == 1 && s.pl == 0 && s.ow == s.w;
      return pointwise ? nullptr : "kernel, stride or padding";
    }
    case Variant::kDirect:
    case Variant::kTransposed:
      return GroupsShareBlocks(s) ? "groups share channel blocks" : nullptr;
    case Variant::kGrouped:
      return nullptr;
    case Variant::kIm2col:
      return ColumnsRefusal(s);
  }
  return nullptr;
}

const char* Name(Variant v) {
  static constexpr const char* kNames[] = {"depthwise", "first layer", "winograd", "pointwise",
                                           "direct",    "transposed",  "grouped",  "im2col"};
  return kNames[static_cast<int>(v)];
}

std::string ConvPlan::Describe() const {
  const ConvShape& s = shape;
  const auto sizes = [&s](int64_t depth, int64_t rows, int64_t columns) {
    const std::string image = StrFormat("%dx%d", static_cast<int>(rows), static_cast<int>(columns));
    return s.flat() ? image : StrFormat("%dx", static_cast<int>(depth)) + image;
  };
  std::string d = std::string(Name(variant)) + " " + sizes(s.kd, s.kh, s.kw) + " s" + sizes(s.sd, s.sh, s.sw);
  if (variant == Variant::kWinograd) d += StrFormat(", tiles of %dx%d outputs", s.winograd, s.winograd);
  if (s.dd != 1 || s.dh != 1 || s.dw != 1) d += " d" + sizes(s.dd, s.dh, s.dw);
  if (s.groups != 1) d += StrFormat(" g%lld", static_cast<long long>(s.groups));
  if (!oc_groups.empty()) {
    const TileKernel& k = FindTile(tier, oc_groups[0].blocks, kMaxPixels);
    d += StrFormat(", tile %dx%d", k.blocks, k.pixels);
  }
  d += std::string(", ") + isa::Name(tier);
  if (!s.x_blocked && variant != Variant::kFirstLayer && !product) d += ", input converted";
  if (!s.y_blocked) d += ", output converted";
  return d;
}

ConvPlan PlanConv(const ConvShape& given) {
  ConvPlan p;
  p.shape = FoldDepth(given);
  const ConvShape& shape = p.shape;
  p.tier = isa::ActiveTier();
  p.variant = Choose(&p);
  if (p.variant == Variant::kIm2col) {
    LayOutColumns(&p);
    return p;
  }
  if (shape.transposed) {
    MakeTransposedPhases(&p);
  } else {
    MakePlainPhase(&p);
  }
  const int64_t out_blocks = CeilDiv(shape.oc, kC0);
  if (p.variant == Variant::kDepthwise) {
    p.packed_floats = shape.taps() * out_blocks * kC0;
  } else if (!p.phases.empty()) {
    MakeOcGroups(&p);
    if (p.variant == Variant::kWinograd) {
      LayOutWinograd(&p);
    } else {
      LayOutWeights(&p);
    }
  }
  if (p.variant != Variant::kWinograd && p.variant != Variant::kPointwise && MeetsPadding(p))
    p.finite_offset = p.packed_floats++;
  // Workspace: bias padded to whole blocks, then blocked copies of the operands that are not blocked.
  int64_t floats = out_blocks * kC0;
  const auto reserve = [&](int64_t n) {
    constexpr int64_t kAlignFloats = 32;
    const int64_t at = CeilDiv(floats, kAlignFloats) * kAlignFloats;
    floats = at + n;
    return at;
  };
  if (!shape.x_blocked && p.variant != Variant::kFirstLayer) {
    p.x_offset = reserve(shape.n * CeilDiv(shape.c, kC0) * kC0 * shape.plane());
  }
  if (!shape.y_blocked) p.y_offset = reserve(shape.n * out_blocks * kC0 * shape.out_plane());
  if (p.variant == Variant::kWinograd) p.magnitudes_offset = reserve(WinogradMagnitudeFloats(shape));
  p.workspace_bytes = static_cast<size_t>(floats) * sizeof(float);
  return p;
}

std::string PackKey(const ConvPlan& plan) {
  if (plan.product)
    return "im2col " + PackKey(*plan.product) + (plan.direct ? " or " + PackKey(*plan.direct) : "");
  const ConvShape& s = plan.shape;
  using ll = long long;
  // Every plan of every input size asks for its weights: printf would take a tenth of planning a layer.
  std::string key = "conv ";
  ((key += Name(plan.variant)) += ' ') += isa::Name(plan.tier);
  (key += " g") += std::to_string(s.groups);
  if (plan.variant == Variant::kWinograd) (key += " m") += std::to_string(s.winograd);
  if (!plan.oc_groups.empty()) (key += " b") += std::to_string(plan.oc_groups[0].blocks);
  if (plan.finite_offset >= 0) key += " padded";
  if (s.transposed) {  // which taps belong to which phase
    key +=
        StrFormat(" s%lldx%lldx%lld d%lldx%lldx%lld p%lld,%lld,%lld phases %zu", ll{s.sd}, ll{s.sh}, ll{s.sw},
                  ll{s.dd}, ll{s.dh}, ll{s.dw}, ll{s.pf}, ll{s.pt}, ll{s.pl}, plan.phases.size());
  }
  return key;
}

}  // namespace opsnn::conv
