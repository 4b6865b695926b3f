#include "ops/pooling/pool_window.h"

#include <string>
#include <vector>

namespace opsnn::ops {
namespace {

using ll = long long;

// The attributes of spatial axes [begin, end) of `spatial` as a call of its own.
op::Attrs AxesOf(const op::Attrs& attrs, int spatial, int begin, int end) {
  op::Attrs part = attrs;
  const auto pick = [&](const char* name, int lists) {
    const std::vector<int64_t> all = attrs.Ints(name);
    if (static_cast<int>(all.size()) != lists * spatial) return;  // ReadWindow says what is wrong
    std::vector<int64_t> v;
    for (int l = 0; l < lists; ++l) {
      v.insert(v.end(), all.begin() + l * spatial + begin, all.begin() + l * spatial + end);
    }
    part.Set(name, v);
  };
  for (const char* name : {"kernel_shape", "strides", "dilations"}) pick(name, 1);
  pick("pads", 2);
  return part;
}

// The output size along axis k of w, for spatial dimension `dim` of size `in`.
Result<int64_t> OutputSize(const char* name, op::Window* w, int k, int dim, int64_t in) {
  if (w->pad_begin[k] >= w->Extent(k) || w->pad_end[k] >= w->Extent(k)) {
    return InvalidArgument(
        "%s: pads %lld and %lld of spatial dimension %d; allowed: less than %lld, the size of the window",
        name, ll{w->pad_begin[k]}, ll{w->pad_end[k]}, dim, ll{w->Extent(k)});
  }
  if (in < 0) return kUnknownDim;
  // A window that is wider than the padded input by less than a stride is one window of what there is: so
  // the size follows in ceil mode, and ONNX Runtime, which rounds toward zero, makes it otherwise too.
  const int64_t missing = w->Extent(k) - (in + w->pad_begin[k] + w->pad_end[k]);
  const bool same = w->auto_pad == op::AutoPad::kSameUpper || w->auto_pad == op::AutoPad::kSameLower;
  if (!same && in > 0 && missing > 0 && missing < w->stride[k]) return 1;
  return op::WindowOutput(name, w, k, in);
}

}  // namespace

Result<PoolWindow> ResolvePool(const char* name, const Dims& x, const op::Attrs& attrs) {
  if (x.rank() < 3 || x.rank() > 5) {
    return InvalidArgument(
        "%s: X has shape %s; allowed: rank 3 (N, C, L), 4 (N, C, H, W) or 5 (N, C, D, H, W)", name,
        ToString(x).c_str());
  }
  const int spatial = x.rank() - 2;
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  if (static_cast<int>(kernel.size()) != spatial) {
    return InvalidArgument(
        "%s: attribute kernel_shape has %zu values; allowed: %d, one per spatial dimension", name,
        kernel.size(), spatial);
  }
  PoolWindow p;
  p.out = Dims{x[0], x[1]};
  const int planar = spatial == 3 ? 1 : 0;  // first axis of the plane
  if (spatial == 3) {
    OPSNN_ASSIGN_OR_RETURN(p.depth, op::ReadWindow(name, AxesOf(attrs, 3, 0, 1), Dims{kernel[0]}));
    OPSNN_ASSIGN_OR_RETURN(const int64_t out, OutputSize(name, &p.depth, 1, 0, x[2]));
    p.out.push_back(out);
  }
  const op::Attrs plane = spatial == 3 ? AxesOf(attrs, 3, 1, 3) : attrs;
  OPSNN_ASSIGN_OR_RETURN(p.plane,
                         op::ReadWindow(name, plane, Dims(std::span<const int64_t>(kernel).subspan(planar))));
  for (int i = planar; i < spatial; ++i) {
    OPSNN_ASSIGN_OR_RETURN(const int64_t out, OutputSize(name, &p.plane, 2 - (spatial - i), i, x[2 + i]));
    p.out.push_back(out);
  }
  return p;
}

}  // namespace opsnn::ops
