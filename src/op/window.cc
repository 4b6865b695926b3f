#include "op/window.h"

#include <algorithm>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace opsnn::op {
namespace {

using ll = long long;

// Far beyond any image; window arithmetic in 64 bits and tap offsets in 32 bits cannot overflow.
constexpr int64_t kMaxSize = int64_t{1} << 30;

// The attributes of a window as they stand, found in one pass over all: a new size of a model reads them many
// hundred times.
struct Given {
  std::span<const int64_t> strides, dilations, pads;
  std::string_view auto_pad = "NOTSET";
  bool ceil_mode = false;

  explicit Given(const Attrs& attrs) {
    for (const auto& [name, value] : attrs.all()) {
      const auto* ints = std::get_if<std::vector<int64_t>>(&value);
      if (ints && name == "strides") strides = *ints;
      if (ints && name == "dilations") dilations = *ints;
      if (ints && name == "pads") pads = *ints;
      if (const auto* text = std::get_if<std::string>(&value); text && name == "auto_pad") auto_pad = *text;
      if (const auto* i = std::get_if<int64_t>(&value); i && name == "ceil_mode") ceil_mode = *i != 0;
    }
  }
};

// Fills out[3] from a list attribute of one value per spatial dim; absent leaves the default.
Status ReadList(const char* op, const char* name, std::span<const int64_t> v, const Window& w, int64_t least,
                int64_t* out) {
  const int spatial = w.spatial;
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

Status ReadPads(const char* op, std::span<const int64_t> v, Window* w) {
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

// Pads beside auto_pad: zeros, which writers fill in, or what auto_pad makes of them.
Status CheckBeside(const char* op, const Window& given, const Window& made, int axis) {
  const int64_t begin = given.pad_begin[axis], end = given.pad_end[axis];
  if ((begin == 0 && end == 0) || (begin == made.pad_begin[axis] && end == made.pad_end[axis]))
    return OkStatus();
  return InvalidArgument(
      "%s: attribute pads asks for %lld and %lld along spatial dimension %d beside auto_pad, which makes "
      "%lld "
      "and %lld; allowed: one of the two attributes",
      op, ll{begin}, ll{end}, made.DimOf(axis), ll{made.pad_begin[axis]}, ll{made.pad_end[axis]});
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

std::span<const int64_t> IntsOf(const Attrs& attrs, std::string_view name) {
  const auto it = attrs.all().find(name);
  const auto* v = it == attrs.all().end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  return v ? std::span<const int64_t>(*v) : std::span<const int64_t>();
}

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
  const Given given(attrs);
  OPSNN_RETURN_IF_ERROR(ReadList(op, "strides", given.strides, w, 1, w.stride));
  OPSNN_RETURN_IF_ERROR(ReadList(op, "dilations", given.dilations, w, 1, w.dilation));
  const std::string_view auto_pad = given.auto_pad;
  if (auto_pad == "SAME_UPPER") {
    w.auto_pad = AutoPad::kSameUpper;
  } else if (auto_pad == "SAME_LOWER") {
    w.auto_pad = AutoPad::kSameLower;
  } else if (auto_pad == "VALID") {
    w.auto_pad = AutoPad::kValid;
  } else if (auto_pad == "NOTSET" || auto_pad.empty()) {
    OPSNN_RETURN_IF_ERROR(ReadPads(op, given.pads, &w));
  } else {
    return InvalidArgument("%s: attribute auto_pad is \"%s\"; allowed: NOTSET, SAME_UPPER, SAME_LOWER, VALID",
                           op, std::string(auto_pad).c_str());
  }
  if (w.auto_pad != AutoPad::kNotSet && !given.pads.empty()) {
    OPSNN_RETURN_IF_ERROR(ReadPads(op, given.pads, &w));
    w.pads_beside = true;
    Window none;
    none.spatial = w.spatial;
    for (int axis = 0; w.auto_pad == AutoPad::kValid && axis < 3; ++axis)
      OPSNN_RETURN_IF_ERROR(CheckBeside(op, w, none, axis));
  }
  w.ceil_mode = given.ceil_mode;
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
    const Window given = *w;
    SplitSame(w, axis, std::max<int64_t>(0, (out - 1) * stride + extent - in));
    if (w->pads_beside) OPSNN_RETURN_IF_ERROR(CheckBeside(op, given, *w, axis));
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
  const Window given = *w;
  const int64_t total = full - wanted, cut = std::max<int64_t>(0, total);
  w->pad_begin[axis] = w->auto_pad == AutoPad::kSameUpper ? cut / 2 : cut - cut / 2;
  w->pad_end[axis] = total - w->pad_begin[axis];
  if (w->pads_beside) OPSNN_RETURN_IF_ERROR(CheckBeside(op, given, *w, axis));
  return wanted;
}

}  // namespace opsnn::op
