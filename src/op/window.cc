#include "op/window.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace opsnn::op {
namespace {

using ll = long long;

// Far beyond any image; window arithmetic in 64 bits and tap offsets in 32 bits cannot overflow.
constexpr int64_t kMaxSize = int64_t{1} << 30;

// Fills out[3] from a list attribute of one value per spatial dim; absent leaves the default.
Status ReadList(const char* op, const char* name, const Attrs& attrs, const Window& w, int64_t least,
                int64_t* out) {
  const int spatial = w.spatial;
  const std::vector<int64_t> v = attrs.Ints(name);
  if (v.empty()) return OkStatus();
  if (static_cast<int>(v.size()) != spatial) {
    return InvalidArgument("%s: attribute %s has %zu values; allowed: %d, one per spatial dimension", op,
                           name, v.size(), spatial);
  }
  for (int i = 0; i < spatial; ++i) {
    const int64_t value = v[static_cast<size_t>(i)];
    if (value < least || value > kMaxSize) {
      return InvalidArgument("%s: attribute %s[%d] is %lld; allowed: %lld to 2^30", op, name, i, ll{value},
                             ll{least});
    }
    out[w.AxisOf(i)] = value;
  }
  return OkStatus();
}

Status ReadPads(const char* op, const Attrs& attrs, Window* w) {
  const std::vector<int64_t> v = attrs.Ints("pads");
  if (v.empty()) return OkStatus();
  if (static_cast<int>(v.size()) != 2 * w->spatial) {
    return InvalidArgument("%s: attribute pads has %zu values; allowed: %d, all begins, then all ends", op,
                           v.size(), 2 * w->spatial);
  }
  for (int i = 0; i < 2 * w->spatial; ++i) {
    const int64_t value = v[static_cast<size_t>(i)];
    if (value < 0 || value > kMaxSize) {
      return InvalidArgument("%s: attribute pads[%d] is %lld; allowed: 0 to 2^30", op, i, ll{value});
    }
    int64_t* side = i < w->spatial ? w->pad_begin : w->pad_end;
    side[w->AxisOf(i % w->spatial)] = value;
  }
  return OkStatus();
}

void SplitSame(Window* w, int axis, int64_t total) {
  const int64_t small = total / 2, large = total - small;
  w->pad_begin[axis] = w->auto_pad == AutoPad::kSameUpper ? small : large;
  w->pad_end[axis] = w->auto_pad == AutoPad::kSameUpper ? large : small;
}

bool IsSame(const Window& w) {
  return w.auto_pad == AutoPad::kSameUpper || w.auto_pad == AutoPad::kSameLower;
}

}  // namespace

Result<Window> ReadWindow(const char* op, const Attrs& attrs, const Dims& kernel) {
  Window w;
  w.spatial = kernel.rank();
  for (int i = 0; i < w.spatial; ++i) {
    if (kernel[i] < 1 || kernel[i] > kMaxSize) {
      return InvalidArgument("%s: the kernel has size %s; allowed: sizes from 1 to 2^30", op,
                             ToString(kernel).c_str());
    }
    w.kernel[w.AxisOf(i)] = kernel[i];
  }
  OPSNN_RETURN_IF_ERROR(ReadList(op, "strides", attrs, w, 1, w.stride));
  OPSNN_RETURN_IF_ERROR(ReadList(op, "dilations", attrs, w, 1, w.dilation));
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") {
    w.auto_pad = AutoPad::kSameUpper;
  } else if (auto_pad == "SAME_LOWER") {
    w.auto_pad = AutoPad::kSameLower;
  } else if (auto_pad == "VALID") {
    w.auto_pad = AutoPad::kValid;
  } else if (auto_pad == "NOTSET" || auto_pad.empty()) {
    OPSNN_RETURN_IF_ERROR(ReadPads(op, attrs, &w));
  } else {
    return InvalidArgument("%s: attribute auto_pad is \"%s\"; allowed: NOTSET, SAME_UPPER, SAME_LOWER, VALID",
                           op, auto_pad.c_str());
  }
  w.ceil_mode = attrs.Int("ceil_mode", 0) != 0;
  for (int axis = 0; axis < 3; ++axis) {
    if (w.kernel[axis] > 1 && w.dilation[axis] > kMaxSize / w.kernel[axis]) {
      return InvalidArgument(
          "%s: kernel size %lld with dilation %lld is too large; allowed: a product up to 2^30", op,
          ll{w.kernel[axis]}, ll{w.dilation[axis]});
    }
  }
  return w;
}

Result<int64_t> WindowOutput(const char* op, Window* w, int axis, int64_t in) {
  const int64_t stride = w->stride[axis], extent = w->Extent(axis);
  if (IsSame(*w)) {
    const int64_t out = (in + stride - 1) / stride;
    SplitSame(w, axis, std::max<int64_t>(0, (out - 1) * stride + extent - in));
    return out;
  }
  const int64_t padded = in + w->pad_begin[axis] + w->pad_end[axis];
  if (padded < extent) {
    return InvalidArgument(
        "%s: the kernel covers %lld positions of spatial dimension %d (dilation included), the padded input "
        "has %lld; "
        "allowed: a kernel not larger than the padded input",
        op, ll{extent}, w->DimOf(axis), ll{padded});
  }
  if (!w->ceil_mode) return (padded - extent) / stride + 1;
  const int64_t out = (padded - extent + stride - 1) / stride + 1;
  // A window that would start in the padding behind the input is dropped.
  return (out - 1) * stride >= in + w->pad_begin[axis] ? out - 1 : out;
}

Result<int64_t> TransposedOutput(const char* op, Window* w, int axis, int64_t in, int64_t output_padding,
                                 int64_t wanted) {
  const int64_t stride = w->stride[axis];
  if (in > kMaxSize / stride) {
    return InvalidArgument("%s: input size %lld with stride %lld is too large; allowed: a product up to 2^30",
                           op, ll{in}, ll{stride});
  }
  const int64_t full = in > 0 ? (in - 1) * stride + w->Extent(axis) + output_padding : 0;
  if (wanted < 0 && IsSame(*w)) wanted = in * stride;
  if (wanted < 0) {
    const int64_t out = full - w->pad_begin[axis] - w->pad_end[axis];
    if (out < 0 || (out == 0 && in > 0)) {
      return InvalidArgument(
          "%s: pads %lld and %lld leave nothing of %lld output positions; allowed: smaller pads", op,
          ll{w->pad_begin[axis]}, ll{w->pad_end[axis]}, ll{full});
    }
    return out;
  }
  // An explicit size (or SAME): the padding is what is left over. A size beyond all products adds positions
  // behind them (a negative end), never before.
  const int64_t total = full - wanted, cut = std::max<int64_t>(0, total);
  w->pad_begin[axis] = w->auto_pad == AutoPad::kSameUpper ? cut / 2 : cut - cut / 2;
  w->pad_end[axis] = total - w->pad_begin[axis];
  return wanted;
}

}  // namespace opsnn::op
