#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "GridSample";

enum class Mode : uint8_t { kLinear, kNearest, kCubic };
enum class Padding : uint8_t { kZeros, kBorder, kReflection };

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &grid = *c.inputs[1];
  if (!x.known_rank || !grid.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 4, 5));
  const int spatial = x.dims.rank() - 2;
  const bool differs = grid.dims.rank() == x.dims.rank() && grid.dims[0] != x.dims[0] &&
                       grid.dims[0] != kUnknownDim && x.dims[0] != kUnknownDim;
  if (grid.dims.rank() != x.dims.rank() || differs ||
      (grid.dims.back() != spatial && grid.dims.back() != kUnknownDim)) {
    return InvalidArgument("%s: grid has shape %s for X %s; allowed: [N, ..., %d] of the same rank and N",
                           kOp, opsnn::ToString(grid.dims).c_str(), opsnn::ToString(x.dims).c_str(), spatial);
  }
  if (spatial == 3 && op::AttrsOf(c.attrs).String("mode", "linear") == "cubic") {
    return InvalidArgument("%s: attribute mode is cubic for X %s; allowed: linear or nearest in 3-D", kOp,
                           opsnn::ToString(x.dims).c_str());
  }
  Dims dims = {x.dims[0], x.dims[1]};
  for (int i = 1; i <= spatial; ++i) dims.push_back(grid.dims[i]);
  return SetOutput(c, Desc(x.dtype, dims));
}

// Positions and weights along one axis for one output pixel; a negative position is one that gives 0.
struct Taps {
  int64_t at[4];
  double weight[4];
  int count;
};

struct Axis {
  int64_t size;
  bool align;
  Mode mode;
  Padding padding;

  // From [-1, 1] to pixels: the outermost pixels' centres, or the borders, are at -1 and 1.
  double Pixel(double g) const {
    const auto n = static_cast<double>(size);
    return align ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  }
  // Reflects at the borders until the position is inside.
  double Reflect(double x) const {
    const double lo = align ? 0 : -0.5,
                 span = align ? static_cast<double>(size - 1) : static_cast<double>(size);
    if (!(span > 0)) return 0;
    double d = std::fmod(std::fabs(x - lo), 2 * span);
    if (d > span) d = 2 * span - d;
    return d + lo;
  }
  int64_t Position(int64_t i) const {
    if (i >= 0 && i < size) return i;
    if (padding == Padding::kZeros) return -1;
    if (padding == Padding::kBorder) return std::clamp<int64_t>(i, 0, size - 1);
    return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(Reflect(static_cast<double>(i)))), 0,
                               size - 1);
  }

  Taps At(double g) const {
    constexpr double kFar = 1e9;  // beyond every image; keeps the conversion to integers defined
    double x = Pixel(g);
    x = std::isnan(x) ? -kFar : std::clamp(x, -kFar, kFar);
    if (padding == Padding::kBorder)
      x = mode == Mode::kCubic ? x : std::clamp(x, 0.0, static_cast<double>(size - 1));
    if (padding == Padding::kReflection && mode != Mode::kCubic) x = Reflect(x);
    Taps t{};
    if (mode == Mode::kNearest) {
      t.count = 1;
      t.at[0] = Position(static_cast<int64_t>(std::nearbyint(x)));
      t.weight[0] = 1;
      return t;
    }
    const double below = std::floor(x), f = x - below;
    const auto first = static_cast<int64_t>(below);
    if (mode == Mode::kLinear) {
      t.count = 2;
      for (int i = 0; i < 2; ++i) t.at[i] = Position(first + i);
      t.weight[0] = 1 - f;
      t.weight[1] = f;
      return t;
    }
    constexpr double a = -0.75;  // of Keys' cubic convolution
    const auto inner = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto outer = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    t.count = 4;
    for (int i = 0; i < 4; ++i) t.at[i] = Position(first - 1 + i);
    t.weight[0] = outer(1 + f), t.weight[1] = inner(f), t.weight[2] = inner(1 - f),
    t.weight[3] = outer(2 - f);
    return t;
  }
};

// Where the pixels of one output position come from: the same for every channel.
struct PixelTap {
  int64_t offset;
  double weight;
};

template <typename T>
class GridSampleKernel : public op::Kernel {
 public:
  explicit GridSampleKernel(const op::PlanContext& c) {
    const op::TensorDesc &x = *c.inputs[0], &grid = *c.inputs[1];
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    const std::string mode = attrs.String("mode", "linear"), padding = attrs.String("padding_mode", "zeros");
    const Mode m = mode == "cubic" ? Mode::kCubic : mode == "nearest" ? Mode::kNearest : Mode::kLinear;
    const Padding p = padding == "border"       ? Padding::kBorder
                      : padding == "reflection" ? Padding::kReflection
                                                : Padding::kZeros;
    for (int i = 2; i < x.dims.rank(); ++i)
      axes_.push_back({x.dims[i], attrs.Int("align_corners", 0) != 0, m, p});
    x_ = TensorView::Contiguous(nullptr, x.dtype, x.dims);
    grid_ = TensorView::Contiguous(nullptr, grid.dtype, grid.dims);
    y_ = TensorView::Contiguous(nullptr, x.dtype, c.outputs[0].dims);
    pixels_ = 1;
    for (int i = 2; i < y_.rank(); ++i) pixels_ *= y_.dims[i];
  }

  Status Run(const op::RunArgs& args) const override {
    if (y_.size() == 0) return OkStatus();
    // Everything in the compute type: x, the grid, the result.
    T* x = static_cast<T*>(args.workspace);
    T* grid = x + x_.size();
    T* y = grid + grid_.size();
    Convert(x_, args.inputs[0], x);
    Convert(grid_, args.inputs[1], grid);
    const int64_t channels = y_.dims[1], plane = x_.dims[1] > 0 ? x_.size() / (x_.dims[0] * x_.dims[1]) : 0;
    constexpr int64_t kGroup = 256;
    const int64_t groups = (pixels_ + kGroup - 1) / kGroup;
    ParallelFor(y_.dims[0] * groups, [&](int64_t task, int) {
      const int64_t n = task / groups, begin = task % groups * kGroup,
                    end = std::min(begin + kGroup, pixels_);
      PixelTap taps[64];
      for (int64_t p = begin; p < end; ++p) {
        const int count = TapsOf(grid + (n * pixels_ + p) * static_cast<int64_t>(axes_.size()), taps);
        for (int64_t c = 0; c < channels; ++c) {
          const T* from = x + (n * channels + c) * plane;
          T sum = 0;
          for (int t = 0; t < count; ++t) sum += static_cast<T>(taps[t].weight) * from[taps[t].offset];
          y[(n * channels + c) * pixels_ + p] = sum;
        }
      }
    });
    TensorView to = y_;
    to.data = args.outputs[0];
    vector::CopyConvert(TensorView::Contiguous(y, DTypeOf<T>::value, y_.dims), to);
    return OkStatus();
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(x_.size() + grid_.size() + y_.size()) * sizeof(T);
  }
  std::string variant() const override { return "taps per pixel"; }

 private:
  static void Convert(TensorView from, void* data, T* to) {
    from.data = data;
    vector::CopyConvert(from, TensorView::Contiguous(to, DTypeOf<T>::value, from.dims));
  }

  // The grid names the last axis first.
  int TapsOf(const T* g, PixelTap* out) const {
    out[0] = {0, 1};
    int count = 1;
    const size_t spatial = axes_.size();
    for (size_t i = 0; i < spatial; ++i) {
      const Taps t = axes_[i].At(static_cast<double>(g[spatial - 1 - i]));
      PixelTap next[64];
      int n = 0;
      for (int a = 0; a < count; ++a) {
        for (int b = 0; b < t.count; ++b) {
          if (t.at[b] < 0) continue;
          next[n++] = {out[a].offset * axes_[i].size + t.at[b], out[a].weight * t.weight[b]};
        }
      }
      std::copy(next, next + n, out);
      count = n;
    }
    return count;
  }

  std::vector<Axis> axes_;
  TensorView x_, grid_, y_;
  int64_t pixels_ = 1;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(GridSample) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) -> Result<op::KernelPtr> {
    if (c.inputs[0]->dtype == DType::kF64) return Staged(c, std::make_shared<GridSampleKernel<double>>(c));
    return Staged(c, std::make_shared<GridSampleKernel<float>>(c));
  };
}
