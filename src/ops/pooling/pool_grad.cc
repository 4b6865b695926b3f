#include "ops/pooling/pool_grad.h"

#include "kernels/pool/pool_grad.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

using ll = long long;

struct Image {
  Dims dims;
  int axes = 0;
  int64_t planes = 1, pixels = 1;
  int first() const { return dims.rank() - axes; }
};

// dX as the attributes say it, and that dY has its leading dims.
Result<Image> ImageOf(const char* op, const op::Attrs* attrs, const Dims& dy) {
  const std::vector<int64_t> shape = op::AttrsOf(attrs).Ints("shape");
  const int64_t axes = op::AttrsOf(attrs).Int("axes", 2);
  if (axes < 1 || axes > 3)
    return InvalidArgument("%s: attribute axes is %lld; allowed: 1 to 3", op, ll{axes});
  Image image;
  image.axes = static_cast<int>(axes);
  const bool fits =
      shape.size() <= kMaxRank && static_cast<int>(shape.size()) == dy.rank() && dy.rank() >= axes;
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const bool lead = static_cast<int>(i) < dy.rank() - image.axes;
    if (shape[i] < 0 || (lead && shape[i] != dy[static_cast<int>(i)])) break;
    (lead ? image.planes : image.pixels) *= shape[i];
    image.dims.push_back(shape[i]);
  }
  if (fits && image.dims.rank() == dy.rank()) return image;
  return InvalidArgument(
      "%s: attribute shape is %s for dY of shape %s; allowed: its leading dims, then %lld more", op,
      ToString(shape).c_str(), opsnn::ToString(dy).c_str(), ll{axes});
}

constexpr const char* kMax = "MaxPoolGrad";
constexpr const char* kAverage = "AveragePoolGrad";

Status InferMax(op::InferContext& c) {
  const Dims &dy = c.inputs[0]->dims, &positions = c.inputs[1]->dims;
  if (!(dy == positions)) {
    return InvalidArgument("%s: input positions has shape %s; allowed: %s, the shape of dY", kMax,
                           opsnn::ToString(positions).c_str(), opsnn::ToString(dy).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(const Image image, ImageOf(kMax, c.attrs, dy));
  return SetOutput(c, Desc(c.inputs[0]->dtype, image.dims));
}

Result<op::KernelPtr> PlanMax(const op::PlanContext& c) {
  const op::TensorDesc& dy = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const Image image, ImageOf(kMax, c.attrs, dy.dims));
  pool::MaxPoolGrad plan;
  plan.planes = image.planes, plan.pixels = image.pixels, plan.windows = 1;
  for (int i = image.first(); i < dy.dims.rank(); ++i) plan.windows *= dy.dims[i];
  plan.type = dy.dtype, plan.wide_positions = c.inputs[1]->dtype == DType::kS64;
  const auto run = [plan](const op::RunArgs& args) {
    pool::MaxPoolGrad p = plan;
    p.dy = args.inputs[0], p.positions = args.inputs[1], p.dx = args.outputs[0];
    return pool::RunMaxPoolGrad(p).WithContext("MaxPoolGrad: positions");
  };
  return Staged(c, MakeKernel("planes: values added at their positions", run));
}

// The windows of all axes out of the lists.
Result<std::array<pool::WindowAxis, 3>> WindowsOf(const op::Attrs* attrs, const Dims& dy,
                                                  const Image& image) {
  const op::Attrs& a = op::AttrsOf(attrs);
  const std::vector<int64_t> begin = a.Ints("begin"), end = a.Ints("end");
  const std::vector<double> divisor = a.Floats("divisor");
  size_t want = 0, at = 0;
  for (int i = image.first(); i < dy.rank(); ++i) want += static_cast<size_t>(dy[i]);
  if (begin.size() != want || end.size() != want || divisor.size() != want) {
    return InvalidArgument(
        "%s: attributes begin, end and divisor have %zu, %zu and %zu values; allowed: %zu, one per window of "
        "each "
        "axis of dY",
        kAverage, begin.size(), end.size(), divisor.size(), want);
  }
  std::array<pool::WindowAxis, 3> axes;
  for (int i = image.first(); i < dy.rank(); ++i) {
    pool::WindowAxis axis{image.dims[i], {}, {}, {}};
    for (int64_t o = 0; o < dy[i]; ++o, ++at) {
      const bool ordered = o == 0 || (begin[at] >= begin[at - 1] && end[at] >= end[at - 1]);
      if (begin[at] < 0 || end[at] > axis.size || !ordered) {
        return InvalidArgument(
            "%s: window %lld of axis %d is %lld to %lld; allowed: inside 0 to %lld, and no end "
            "before that of the window before it",
            kAverage, ll{o}, i, ll{begin[at]}, ll{end[at]}, ll{axis.size});
      }
      axis.begin.push_back(begin[at]), axis.end.push_back(end[at]);
      axis.weight.push_back(static_cast<float>(1 / divisor[at]));
    }
    axes[static_cast<size_t>(3 - (dy.rank() - i))] = std::move(axis);
  }
  return axes;
}

Status InferAverage(op::InferContext& c) {
  const Dims& dy = c.inputs[0]->dims;
  OPSNN_ASSIGN_OR_RETURN(const Image image, ImageOf(kAverage, c.attrs, dy));
  OPSNN_RETURN_IF_ERROR(WindowsOf(c.attrs, dy, image).status());
  return SetOutput(c, Desc(c.inputs[0]->dtype, image.dims));
}

Result<op::KernelPtr> PlanAverage(const op::PlanContext& c) {
  const op::TensorDesc& dy = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const Image image, ImageOf(kAverage, c.attrs, dy.dims));
  OPSNN_ASSIGN_OR_RETURN(auto windows, WindowsOf(c.attrs, dy.dims, image));
  const auto grad = std::make_shared<const pool::AveragePoolGrad>(std::move(windows));
  const auto run = [grad, planes = image.planes, type = dy.dtype](const op::RunArgs& args) {
    return grad->Run(planes, type, args.inputs[0], args.outputs[0]);
  };
  return Staged(c, MakeKernel("rows: sums of the windows that cover them", run));
}

}  // namespace

void DefineMaxPoolGrad(op::OpDef& def) { def.infer = InferMax, def.plan = PlanMax; }
void DefineAveragePoolGrad(op::OpDef& def) { def.infer = InferAverage, def.plan = PlanAverage; }

}  // namespace opsnn::ops
