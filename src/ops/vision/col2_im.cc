#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Col2Im";
using ll = long long;

struct Geometry {
  std::vector<int64_t> image, block, stride, dilation, pad, positions;  // per spatial axis
  int64_t blocks = 1, taps = 1;
};

Result<Geometry> Read(op::InputDescs inputs, const op::Attrs& attrs) {
  Geometry g;
  OPSNN_ASSIGN_OR_RETURN(g.image, RequireInts(kOp, "image_shape", inputs, 1));
  OPSNN_ASSIGN_OR_RETURN(g.block, RequireInts(kOp, "block_shape", inputs, 2));
  const size_t n = g.image.size();
  g.stride = attrs.Ints("strides");
  g.dilation = attrs.Ints("dilations");
  g.pad = attrs.Ints("pads");
  if (g.stride.empty()) g.stride.assign(n, 1);
  if (g.dilation.empty()) g.dilation.assign(n, 1);
  if (g.pad.empty()) g.pad.assign(2 * n, 0);
  if (n == 0 || n > static_cast<size_t>(kMaxRank - 2) || g.block.size() != n || g.stride.size() != n ||
      g.dilation.size() != n || g.pad.size() != 2 * n) {
    return InvalidArgument(
        "%s: image_shape, block_shape, strides, dilations and pads have %zu, %zu, %zu, %zu and %zu values; "
        "allowed: 1 to %d, the same number, pads twice that",
        kOp, n, g.block.size(), g.stride.size(), g.dilation.size(), g.pad.size(), kMaxRank - 2);
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  int64_t pixels = 1;
  for (size_t i = 0; i < n; ++i) {
    bool fits = true;
    for (const int64_t v : {g.image[i], g.block[i], g.stride[i], g.dilation[i]})
      fits = fits && v >= 1 && v <= kMost;
    for (const int64_t v : {g.pad[i], g.pad[n + i]}) fits = fits && v >= 0 && v <= kMost;
    // Only what is within 2^30 can be multiplied without a check.
    const int64_t reach = fits ? (g.block[i] - 1) * g.dilation[i] + 1 : 0;
    const int64_t span = fits ? g.image[i] + g.pad[i] + g.pad[n + i] - reach : -1;
    if (span < 0) {
      return InvalidArgument(
          "%s: axis %zu: image %lld, block %lld, stride %lld, dilation %lld, pads %lld and %lld; "
          "allowed: sizes from 1 to 2^30, pads from 0 to 2^30, and a block that fits the padded image",
          kOp, i, ll{g.image[i]}, ll{g.block[i]}, ll{g.stride[i]}, ll{g.dilation[i]}, ll{g.pad[i]},
          ll{g.pad[n + i]});
    }
    g.positions.push_back(span / g.stride[i] + 1);
    if (__builtin_mul_overflow(g.blocks, g.positions.back(), &g.blocks) ||
        __builtin_mul_overflow(g.taps, g.block[i], &g.taps) ||
        __builtin_mul_overflow(pixels, g.image[i], &pixels)) {
      return InvalidArgument(
          "%s: image_shape is %s and block_shape %s; allowed: as many pixels, elements of a block and blocks "
          "as an "
          "int64 counts",
          kOp, ToString(g.image).c_str(), ToString(g.block).c_str());
    }
  }
  return g;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank || !ConstantInts(c.inputs, 1) || !ConstantInts(c.inputs, 2)) {
    return SetOutput(c, UnknownRank(x.dtype));
  }
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 3, 3));
  OPSNN_ASSIGN_OR_RETURN(const Geometry g, Read(c.inputs, op::AttrsOf(c.attrs)));
  const bool wrong = (x.dims[1] != kUnknownDim && x.dims[1] % g.taps != 0) ||
                     (x.dims[2] != kUnknownDim && x.dims[2] != g.blocks);
  if (wrong) {
    return InvalidArgument("%s: input has shape %s; allowed: [N, C * %lld, %lld]", kOp,
                           opsnn::ToString(x.dims).c_str(), ll{g.taps}, ll{g.blocks});
  }
  Dims dims = {x.dims[0], x.dims[1] == kUnknownDim ? kUnknownDim : x.dims[1] / g.taps};
  for (const int64_t d : g.image) dims.push_back(d);
  return SetOutput(c, Desc(x.dtype, dims));
}

// Every channel on its own: all taps added to its image, in order, in the compute type.
template <typename T>
class Col2ImKernel : public op::Kernel {
 public:
  Col2ImKernel(const op::PlanContext& c, Geometry g) : g_(std::move(g)) {
    x_ = TensorView::Contiguous(nullptr, c.inputs[0]->dtype, c.inputs[0]->dims);
    y_ = TensorView::Contiguous(nullptr, c.inputs[0]->dtype, c.outputs[0].dims);
  }
  Status Run(const op::RunArgs& args) const override {
    if (y_.size() == 0) return OkStatus();
    T* x = static_cast<T*>(args.workspace);
    T* y = x + x_.size();
    TensorView from = x_, to = y_;
    from.data = args.inputs[0];
    to.data = args.outputs[0];
    vector::CopyConvert(from, TensorView::Contiguous(x, DTypeOf<T>::value, x_.dims));
    const int64_t planes = y_.dims[0] * y_.dims[1], area = y_.size() / planes;
    ParallelFor(planes, [&](int64_t p, int) { Plane(x + p * g_.taps * g_.blocks, y + p * area, area); });
    vector::CopyConvert(TensorView::Contiguous(y, DTypeOf<T>::value, y_.dims), to);
    return OkStatus();
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(x_.size() + y_.size()) * sizeof(T); }
  std::string variant() const override { return "added tap by tap"; }

 private:
  void Plane(const T* x, T* y, int64_t area) const {
    std::fill(y, y + area, T{0});
    const int n = static_cast<int>(g_.image.size());
    for (int64_t tap = 0; tap < g_.taps; ++tap) {
      for (int64_t block = 0; block < g_.blocks; ++block) {
        int64_t t = tap, b = block, at = 0, step = 1;
        bool inside = true;
        for (int i = n - 1; i >= 0; --i) {
          const auto k = static_cast<size_t>(i);
          const int64_t p = b % g_.positions[k] * g_.stride[k] - g_.pad[k] + t % g_.block[k] * g_.dilation[k];
          b /= g_.positions[k];
          t /= g_.block[k];
          inside = inside && p >= 0 && p < g_.image[k];
          at += p * step;
          step *= g_.image[k];
        }
        if (inside) y[at] += x[tap * g_.blocks + block];
      }
    }
  }
  Geometry g_;
  TensorView x_, y_;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Col2Im) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    OPSNN_ASSIGN_OR_RETURN(Geometry g, Read(c.inputs, op::AttrsOf(c.attrs)));
    if (c.inputs[0]->dtype == DType::kF64)
      return Staged(c, std::make_shared<Col2ImKernel<double>>(c, std::move(g)));
    return Staged(c, std::make_shared<Col2ImKernel<float>>(c, std::move(g)));
  };
}
