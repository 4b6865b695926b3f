#include "kernels/conv/columns.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/pack.h"

namespace opsnn::conv {
namespace {

// The columns as an image: a channel is an input channel at a kernel position, in the order of the weights.
ConvShape ProductShape(const ConvShape& s) {
  ConvShape q;
  q.n = s.n, q.c = s.c * s.taps(), q.oc = s.oc;
  q.h = q.oh = s.od * s.oh, q.w = q.ow = s.ow;
  q.y_blocked = s.y_blocked;
  return q;
}

// line[ox] = what output pixel (oz, oy, ox) meets at position `tap` of the kernel; 0 outside the input. `x`
// is the channel's plane, whose pixels are `step` floats apart.
void CopyLine(const ConvShape& s, const float* x, int64_t step, int64_t tap, int64_t row, float* line) {
  const int64_t kz = tap / (s.kh * s.kw), ky = tap / s.kw % s.kh, kx = tap % s.kw;
  const int64_t iz = row / s.oh * s.sd - s.pf + kz * s.dd, iy = row % s.oh * s.sh - s.pt + ky * s.dh;
  std::fill_n(line, s.ow, 0.0f);
  if (iz < 0 || iz >= s.d || iy < 0 || iy >= s.h) return;
  const int64_t shift = kx * s.dw - s.pl, begin = shift < 0 ? CeilDiv(-shift, s.sw) : 0,
                end = s.w > shift ? std::min(s.ow, CeilDiv(s.w - shift, s.sw)) : 0;
  const float* from = x + ((iz * s.h + iy) * s.w + shift) * step;
  if (step * s.sw == 1) {
    if (begin < end) std::copy(from + begin, from + end, line + begin);
    return;
  }
  for (int64_t ox = begin; ox < end; ++ox) line[ox] = from[ox * s.sw * step];
}

void MakeColumns(const ConvShape& s, const float* x, float* columns) {
  const int64_t channels = s.c * s.taps(), blocks = CeilDiv(channels, kC0), rows = s.od * s.oh,
                in_blocks = CeilDiv(s.c, kC0), plane = s.plane();
  ParallelFor(s.n * blocks, [&](int64_t i, int) {
    thread_local std::vector<float> lines;
    lines.resize(static_cast<size_t>(kC0 * s.ow));
    const int64_t n = i / blocks, first = i % blocks * kC0;
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, channels - first));
    for (int64_t row = 0; row < rows; ++row) {
      for (int l = 0; l < lanes; ++l) {
        const int64_t c = (first + l) / s.taps(), tap = (first + l) % s.taps();
        const float* const from =
            s.x_blocked ? x + (n * in_blocks + c / kC0) * plane * kC0 + c % kC0 : x + (n * s.c + c) * plane;
        CopyLine(s, from, s.x_blocked ? kC0 : 1, tap, row, lines.data() + l * s.ow);
      }
      ToBlocked(lines.data(), s.ow, lanes, s.ow, columns + (i * rows + row) * s.ow * kC0);
    }
  });
}

int64_t BlockedFloats(int64_t n, int64_t channels, int64_t plane) {
  return n * RoundUp(channels, int64_t{kC0}) * plane;
}

}  // namespace

const char* ColumnsRefusal(const ConvShape& s) {
  if (s.transposed) return "transposed: the product comes first";
  if (s.groups != 1) return "groups";
  return s.x_dtype == DType::kF32 ? nullptr : "input of a half type";
}

int64_t ColumnFloats(const ConvShape& s) { return BlockedFloats(s.n, s.c * s.taps(), s.out_plane()); }

void LayOutColumns(ConvPlan* p) {
  constexpr size_t kAlign = 128;
  const auto product = std::make_shared<ConvPlan>(PlanConv(ProductShape(p->shape)));
  p->packed_floats = product->packed_floats;
  ConvShape plain = p->shape;
  plain.im2col = false, plain.winograd = 0;
  const auto direct = std::make_shared<ConvPlan>(PlanConv(plain));
  if (direct->finite_offset >= 0) {               // some output meets padding
    if (direct->y_offset != product->y_offset) {  // tails know one place of y: the blocked x moves behind it
      const int64_t y_end = product->y_offset + BlockedFloats(plain.n, plain.oc, plain.out_plane());
      direct->x_offset = RoundUp(y_end, static_cast<int64_t>(kAlign / sizeof(float)));
      direct->y_offset = product->y_offset;
      const int64_t end = direct->x_offset + BlockedFloats(plain.n, plain.c, plain.plane());
      direct->workspace_bytes = static_cast<size_t>(end) * sizeof(float);
    }
    p->finite_offset = std::max(p->packed_floats, direct->packed_floats);
    p->packed_floats = p->finite_offset + 1;
    p->direct = direct;
  }
  p->y_offset = product->y_offset;
  const size_t own = RoundUp(product->workspace_bytes, kAlign);
  p->x_offset = static_cast<int64_t>(own / sizeof(float));
  p->workspace_bytes = own + static_cast<size_t>(ColumnFloats(p->shape)) * sizeof(float);
  if (p->direct) p->workspace_bytes = std::max(p->workspace_bytes, direct->workspace_bytes);
  p->product = product;
}

void RunColumns(const ConvPlan& plan, const ConvArgs& given) {
  const ConvArgs args = WithPackedWeights(plan, given);
  if (!FiniteWeights(plan, args.weights)) return RunConv(*plan.direct, args);
  float* const columns = static_cast<float*>(args.workspace) + plan.x_offset;
  MakeColumns(plan.shape, args.x, columns);
  ConvArgs product = args;
  product.x = columns;
  RunConv(*plan.product, product);
}

}  // namespace opsnn::conv
