#include "kernels/resize/resize.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "vector/convert.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Resize";
constexpr size_t kRoi = 1, kScales = 2, kSizes = 3;

// What becomes of each dim. Sizes are kUnknownDim and scales 0 where nothing is known yet.
struct Target {
  Dims dims;
  std::array<float, kMaxRank> scale = {};
  std::vector<int> axes;  // axes that scales, sizes and roi talk about, in order
};

bool Present(op::InputDescs inputs, size_t i) {
  const op::TensorDesc* x = InputOrNull(inputs, i);
  return x != nullptr && !(x->known_rank && x->dims.rank() == 1 && x->dims[0] == 0);
}

Status CheckCount(const char* argument, size_t got, size_t want) {
  if (got == want) return OkStatus();
  return InvalidArgument("%s: %s has %zu values; allowed: %zu, one per axis", kOp, argument, got, want);
}

Status FromScales(op::InputDescs inputs, const Dims& x, Target* t) {
  const std::vector<double> scales = ToDoubles(*inputs[kScales]->constant);
  OPSNN_RETURN_IF_ERROR(CheckCount("scales", scales.size(), t->axes.size()));
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto s = static_cast<float>(scales[i]);
    if (!(s > 0) || !std::isfinite(s)) {
      return InvalidArgument("%s: scales[%zu] is %g; allowed: above 0", kOp, i, scales[i]);
    }
    const int axis = t->axes[i];
    t->scale[axis] = s;
    if (x[axis] == kUnknownDim) continue;
    const double size = std::floor(static_cast<double>(static_cast<float>(x[axis]) * s));
    if (size > 1e9)
      return InvalidArgument("%s: scales[%zu] is %g; the result would have %g along axis %d", kOp, i,
                             scales[i], size, axis);
    t->dims[axis] = static_cast<int64_t>(size);
  }
  return OkStatus();
}

Status FromSizes(op::InputDescs inputs, const op::Attrs& attrs, const Dims& x, Target* t) {
  const std::vector<int64_t> sizes = ToInts(*inputs[kSizes]->constant);
  OPSNN_RETURN_IF_ERROR(CheckCount("sizes", sizes.size(), t->axes.size()));
  const std::string policy = attrs.String("keep_aspect_ratio_policy", "stretch");
  float common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = t->axes[i];
    if (sizes[i] < 0 || sizes[i] > INT32_MAX) {
      return InvalidArgument("%s: sizes is %s; allowed: 0 to %d", kOp, ToString(sizes).c_str(), INT32_MAX);
    }
    t->dims[axis] = sizes[i];
    if (x[axis] == kUnknownDim || x[axis] == 0) continue;
    const float s = t->scale[axis] = static_cast<float>(sizes[i]) / static_cast<float>(x[axis]);
    common = policy == "not_larger" ? std::min(common, s) : std::max(common, s);
  }
  if (policy == "stretch") return OkStatus();
  for (const int axis : t->axes) {
    if (x[axis] == kUnknownDim) {
      t->dims[axis] = kUnknownDim;
      continue;
    }
    t->scale[axis] = common;
    t->dims[axis] = static_cast<int64_t>(std::floor(common * static_cast<float>(x[axis]) + 0.5f));
  }
  return OkStatus();
}

Result<Target> FindTarget(op::InputDescs inputs, const op::Attrs& attrs, const Dims& x) {
  Target t = {x, {}, {}};
  t.scale.fill(1);
  if (attrs.Has("axes")) {
    OPSNN_ASSIGN_OR_RETURN(t.axes, NormalizeAxes(kOp, "attribute axes", attrs.Ints("axes"), x.rank()));
  } else {
    for (int i = 0; i < x.rank(); ++i) t.axes.push_back(i);
  }
  const bool scales = Present(inputs, kScales), sizes = Present(inputs, kSizes);
  if (scales == sizes) {
    return InvalidArgument("%s: %s of scales and sizes given; allowed: exactly one", kOp,
                           scales ? "both" : "none");
  }
  const size_t source = scales ? kScales : kSizes;
  if (inputs[source]->constant == nullptr) {
    for (const int axis : t.axes) t.dims[axis] = kUnknownDim, t.scale[axis] = 0;
    return t;
  }
  OPSNN_RETURN_IF_ERROR(scales ? FromScales(inputs, x, &t) : FromSizes(inputs, attrs, x, &t));
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] != 0 || t.dims[i] <= 0) continue;
    return InvalidArgument("%s: X has shape %s; an empty axis cannot grow to %lld", kOp,
                           opsnn::ToString(x).c_str(), static_cast<long long>(t.dims[i]));
  }
  return t;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const Target t, FindTarget(c.inputs, op::AttrsOf(c.attrs), x.dims));
  return SetOutput(c, Desc(x.dtype, t.dims));
}

// Position of `value` in a list whose order is that of the enum.
template <typename Enum, size_t N>
Enum Named(const std::string& value, const char* const (&names)[N]) {
  return static_cast<Enum>(std::find(names, names + N, value) - names);
}

kernels::AxisRule BaseRule(const op::Attrs& a) {
  static constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
  static constexpr const char* kCoordinates[] = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
      "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  static constexpr const char* kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  kernels::AxisRule r;
  r.interpolation = Named<kernels::Interpolation>(a.String("mode", "nearest"), kModes);
  r.coordinates =
      Named<kernels::CoordinateMode>(a.String("coordinate_transformation_mode", "half_pixel"), kCoordinates);
  r.nearest = Named<kernels::NearestMode>(a.String("nearest_mode", "round_prefer_floor"), kNearest);
  r.cubic_a = static_cast<float>(a.Float("cubic_coeff_a", -0.75));
  r.exclude_outside = a.Int("exclude_outside", 0) != 0;
  return r;
}

kernels::AxisTaps Untouched(int64_t size) {
  kernels::AxisRule r;
  r.in = r.out = size;
  return kernels::MakeAxisTaps(r);
}

// One sweep over the data: at most two neighbouring axes change.
struct Pass {
  int64_t planes = 1, lanes = 1;
  kernels::AxisTaps rows, columns;
  int64_t out_elements() const { return planes * rows.out * columns.out * lanes; }
};

class ResizeKernel : public op::Kernel {
 public:
  ResizeKernel(std::vector<Pass> passes, DType dtype, bool nearest, double extrapolation, int64_t in_elements)
      : passes_(std::move(passes)),
        dtype_(dtype),
        nearest_(nearest),
        extrapolation_(extrapolation),
        in_elements_(in_elements) {
    // Between weighted passes values stay in f32 (f64 for f64), so that they are rounded once.
    between_ = nearest || dtype == DType::kF64 ? dtype : DType::kF32;
    if (passes_.size() < 2) return;
    int64_t most = in_elements;
    for (const Pass& p : passes_) most = std::max(most, p.out_elements());
    buffer_bytes_ = (static_cast<size_t>(most) * SizeOf(between_) + kAlignment - 1) / kAlignment * kAlignment;
  }

  size_t workspace_bytes() const override { return 2 * buffer_bytes_; }
  std::string variant() const override {
    return std::string(nearest_ ? "nearest" : "weighted") + (passes_.size() > 1 ? ", axis by axis" : "");
  }

  Status Run(const op::RunArgs& args) const override {
    if (passes_.size() == 1) return RunPass(passes_[0], dtype_, args.inputs[0], args.outputs[0]);
    char* buffers[2] = {static_cast<char*>(args.workspace),
                        static_cast<char*>(args.workspace) + buffer_bytes_};
    const void* from = args.inputs[0];
    const bool converts = between_ != dtype_;
    if (converts) {
      vector::LoadConvert(dtype_, from, 1, ComputeType::kF32, buffers[1], in_elements_);
      from = buffers[1];
    }
    for (size_t i = 0; i < passes_.size(); ++i) {
      void* to = i + 1 == passes_.size() && !converts ? args.outputs[0] : buffers[i % 2];
      OPSNN_RETURN_IF_ERROR(RunPass(passes_[i], between_, from, to));
      from = to;
    }
    if (converts) {
      vector::StoreConvert(ComputeType::kF32, from, dtype_, args.outputs[0], 1,
                           passes_.back().out_elements());
    }
    return OkStatus();
  }

 private:
  Status RunPass(const Pass& pass, DType dtype, const void* src, void* dst) const {
    const kernels::ResizeParams p = {dtype,         pass.planes,    pass.lanes, &pass.rows,
                                     &pass.columns, extrapolation_, src,        dst};
    nearest_ ? kernels::ResizeNearest(p) : kernels::ResizeWeighted(p);
    return OkStatus();
  }

  std::vector<Pass> passes_;
  DType dtype_, between_;
  bool nearest_;
  double extrapolation_;
  int64_t in_elements_;
  size_t buffer_bytes_ = 0;
};

// A pass over stored dims `d`, whose axis `row` changes by `taps[row]`, and `row + 1` too if `pair`.
Pass MakePass(const Dims& d, int row, bool pair, const std::vector<kernels::AxisTaps>& taps) {
  Pass p;
  for (int i = 0; i < row; ++i) p.planes *= d[i];
  const int next = row + 1;
  p.rows = taps[static_cast<size_t>(row)];
  if (next < d.rank()) {
    p.columns = pair ? taps[static_cast<size_t>(next)] : Untouched(1);
    for (int i = pair ? next + 1 : next; i < d.rank(); ++i) p.lanes *= d[i];
  } else {  // the last axis alone: it is the row itself
    p.columns = std::move(p.rows);
    p.rows = Untouched(1);
  }
  return p;
}

std::vector<Pass> MakePasses(Dims stored, const std::vector<kernels::AxisTaps>& taps) {
  std::vector<int> changed;
  for (size_t i = 0; i < taps.size(); ++i) {
    if (!taps[i].identity) changed.push_back(static_cast<int>(i));
  }
  if (changed.empty()) return {MakePass(stored, stored.rank() - 1, false, taps)};
  if (changed.size() == 2 && changed[1] == changed[0] + 1) return {MakePass(stored, changed[0], true, taps)};
  std::vector<Pass> passes;
  for (const int axis : changed) {
    passes.push_back(MakePass(stored, axis, false, taps));
    stored[axis] = taps[static_cast<size_t>(axis)].out;
  }
  return passes;
}

Result<std::vector<double>> FindRoi(const op::PlanContext& c, size_t axes) {
  const op::TensorDesc* roi = InputOrNull(c.inputs, kRoi);
  if (roi == nullptr || roi->constant == nullptr) {
    return InvalidArgument(
        "%s: roi is missing or depends on the data; tf_crop_and_resize needs it before running", kOp);
  }
  std::vector<double> values = ToDoubles(*roi->constant);
  if (values.size() == 2 * axes) return values;
  return InvalidArgument("%s: roi has %zu values; allowed: %zu, two per axis", kOp, values.size(), 2 * axes);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(const Target t, FindTarget(c.inputs, attrs, x.dims));
  if (!IsKnown(t.dims))
    return InvalidArgument("%s: scales or sizes depends on the data; they must be known before running", kOp);
  OPSNN_RETURN_IF_ERROR(CheckSameBlocks(kOp, x, y));
  kernels::AxisRule rule = BaseRule(attrs);
  const bool crop = rule.coordinates == kernels::CoordinateMode::kTfCropAndResize;
  std::vector<double> roi;
  if (crop) {
    OPSNN_ASSIGN_OR_RETURN(roi, FindRoi(c, t.axes.size()));
  }
  std::vector<kernels::AxisTaps> taps;
  for (int i = 0; i < x.dims.rank(); ++i) taps.push_back(Untouched(x.dims[i]));
  for (size_t k = 0; k < t.axes.size(); ++k) {
    const int axis = t.axes[k];
    rule.in = x.dims[axis];
    rule.out = t.dims[axis];
    rule.scale = t.scale[axis];
    if (crop) {
      rule.roi_start = static_cast<float>(roi[k]);
      rule.roi_end = static_cast<float>(roi[k + t.axes.size()]);
      if (rule.in == rule.out && rule.roi_start == 0 && rule.roi_end == 1) continue;
    }
    taps[static_cast<size_t>(axis)] = kernels::MakeAxisTaps(rule);
  }
  if (IsBlocked(x)) {
    if (!taps[0].identity || !taps[1].identity) {
      return Errorf(Code::kInternal,
                    "%s: the image is stored in channel blocks; only height and width can change", kOp);
    }
    taps[1] = Untouched((x.dims[1] + x.layout.c0 - 1) / x.layout.c0);
    taps.push_back(Untouched(x.layout.c0));
  }
  const TensorView from = x.View(nullptr);
  const bool nearest = rule.interpolation == kernels::Interpolation::kNearest;
  return Staged(c, std::make_shared<ResizeKernel>(MakePasses(from.dims, taps), x.dtype, nearest,
                                                  attrs.Float("extrapolation_value", 0), from.size()));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Resize) {
  def.infer = Infer;
  def.plan = Plan;
}
