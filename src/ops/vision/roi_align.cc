#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>

#include "base/parallel.h"
#include "op/dims.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"
#include "vector/run.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "RoiAlign";
using ll = long long;

// Of a cell along an axis. A box of a whole image has this many; a wilder one is not sampled more finely.
constexpr int64_t kMostSamples = 1 << 12;

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &rois = *c.inputs[1], &batch = *c.inputs[2];
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const int64_t h = attrs.Int("output_height", 1), w = attrs.Int("output_width", 1);
  const int64_t ratio = attrs.Int("sampling_ratio", 0);
  if (h < 1 || w < 1 || ratio < 0 || ratio > kMostSamples) {
    return InvalidArgument(
        "%s: attributes output_height, output_width and sampling_ratio are %lld, %lld and %lld; allowed: "
        "from 1, from 1 and 0 to %lld",
        kOp, ll{h}, ll{w}, ll{ratio}, ll{kMostSamples});
  }
  if (!x.known_rank || !rois.known_rank || !batch.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 4, 4));
  if (rois.dims.rank() != 2 || op::Differ(rois.dims[1], 4) || batch.dims.rank() != 1 ||
      op::Differ(batch.dims[0], rois.dims[0])) {
    return InvalidArgument("%s: rois has shape %s and batch_indices %s; allowed: [n, 4] and [n]", kOp,
                           opsnn::ToString(rois.dims).c_str(), opsnn::ToString(batch.dims).c_str());
  }
  return SetOutput(c, Desc(x.dtype, {rois.dims[0], x.dims[1], h, w}));
}

// One sample along an axis: two neighbouring pixels and their weights. No weight where it is outside.
struct Sample {
  int64_t low = 0, high = 0;
  double low_weight = 0, high_weight = 0;
};
Sample At(double x, int64_t size) {
  if (size == 0 || !(x >= -1 && x <= static_cast<double>(size))) return {};
  const double inside = std::max(x, 0.0);
  const auto low = static_cast<int64_t>(inside);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  return {low, low + 1, 1 - (inside - static_cast<double>(low)), inside - static_cast<double>(low)};
}

// The samples of every output cell along one axis: cells x count of them.
struct AxisSamples {
  int64_t count = 1;
  std::unique_ptr<Sample[]> samples;  // null when there is no memory for them
};
AxisSamples Along(double begin, double length, int64_t cells, int64_t ratio, int64_t size) {
  const double cell = length / static_cast<double>(cells);
  AxisSamples a;
  if (ratio > 0) {
    a.count = ratio;
  } else {  // none in a box of NaN
    a.count = cell > 0 ? static_cast<int64_t>(std::min(std::ceil(cell), double{kMostSamples})) : 0;
  }
  a.samples.reset(new (std::nothrow) Sample[static_cast<size_t>(cells * a.count)]);
  if (!a.samples) return a;
  for (int64_t i = 0; i < cells * a.count; ++i) {
    const double in_cell = (static_cast<double>(i % a.count) + 0.5) / static_cast<double>(a.count);
    a.samples[static_cast<size_t>(i)] = At(begin + (static_cast<double>(i / a.count) + in_cell) * cell, size);
  }
  return a;
}

class RoiAlignKernel : public op::Kernel {
 public:
  explicit RoiAlignKernel(const op::PlanContext& c) {
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    const op::TensorDesc& x = *c.inputs[0];
    x_ = TensorView::Contiguous(nullptr, x.dtype, x.dims);
    rois_dtype_ = c.inputs[1]->dtype;
    out_ = c.outputs[0].dims;
    max_ = attrs.String("mode", "avg") == "max";
    half_ = attrs.String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
    scale_ = attrs.Float("spatial_scale", 1);
    ratio_ = attrs.Int("sampling_ratio", 0);
  }

  Status Run(const op::RunArgs& args) const override {
    const int64_t rois = out_[0];
    const auto* batch = static_cast<const int64_t*>(args.inputs[2]);
    for (int64_t r = 0; r < rois; ++r) {
      if (batch[r] >= 0 && batch[r] < x_.dims[0]) continue;
      return InvalidArgument("%s: batch_indices[%lld] is %lld; allowed: 0 to %lld", kOp, ll{r}, ll{batch[r]},
                             ll{x_.dims[0] - 1});
    }
    if (NumElements(out_) == 0) return OkStatus();
    TensorView x = x_;
    x.data = args.inputs[0];
    auto* copy = static_cast<double*>(args.workspace);
    vector::CopyConvert(x, TensorView::Contiguous(copy, DType::kF64, x_.dims));
    std::atomic<bool> failed{false};
    ParallelFor(rois, [&](int64_t r, int) {
      if (!Roi(copy, batch[r], r, args)) failed.store(true, std::memory_order_relaxed);
    });
    return failed ? Errorf(Code::kRuntime, "%s: no memory for the samples of a box.", kOp) : OkStatus();
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(x_.size()) * sizeof(double); }
  std::string variant() const override { return max_ ? "maximum of samples" : "mean of samples"; }

 private:
  // False where there is no memory.
  bool Roi(const double* x, int64_t image, int64_t r, const op::RunArgs& args) const {
    double box[4];
    for (int i = 0; i < 4; ++i) {
      const char* at =
          static_cast<const char*>(args.inputs[1]) + (r * 4 + i) * static_cast<int64_t>(SizeOf(rois_dtype_));
      box[i] = ReadElement(at, rois_dtype_) * scale_ - (half_ ? 0.5 : 0);
    }
    double width = box[2] - box[0], height = box[3] - box[1];
    if (!half_) {  // boxes of nothing count as one pixel
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const int64_t h = x_.dims[2], w = x_.dims[3], channels = out_[1];
    const AxisSamples rows = Along(box[1], height, out_[2], ratio_, h);
    const AxisSamples columns = Along(box[0], width, out_[3], ratio_, w);
    if (!rows.samples || !columns.samples) return false;
    const int64_t elem = static_cast<int64_t>(SizeOf(x_.dtype));
    for (int64_t c = 0; c < channels; ++c) {
      const double* plane = x + (image * channels + c) * h * w;
      for (int64_t i = 0; i < out_[2]; ++i) {
        for (int64_t j = 0; j < out_[3]; ++j) {
          const int64_t at = ((r * channels + c) * out_[2] + i) * out_[3] + j;
          WriteElement(static_cast<char*>(args.outputs[0]) + at * elem, x_.dtype,
                       Cell(plane, &rows.samples[static_cast<size_t>(i * rows.count)], rows.count,
                            &columns.samples[static_cast<size_t>(j * columns.count)], columns.count));
        }
      }
    }
    return true;
  }

  double Cell(const double* plane, const Sample* rows, int64_t nr, const Sample* columns, int64_t nc) const {
    const int64_t w = x_.dims[3];
    // A pixel without weight is none of the sample's, so that its NaN or Inf does not count; nor need it be.
    const auto part = [plane](double weight, int64_t at) { return weight == 0 ? 0 : weight * plane[at]; };
    double sum = 0, most = -INFINITY;
    for (int64_t a = 0; a < nr; ++a) {
      for (int64_t b = 0; b < nc; ++b) {
        const Sample &y = rows[a], &x = columns[b];
        const double parts[4] = {part(y.low_weight * x.low_weight, y.low * w + x.low),
                                 part(y.low_weight * x.high_weight, y.low * w + x.high),
                                 part(y.high_weight * x.low_weight, y.high * w + x.low),
                                 part(y.high_weight * x.high_weight, y.high * w + x.high)};
        for (const double p : parts) {
          sum += p;
          most = p > most || p != p ? p : most;  // NaN stays: no comparison with it is true
        }
      }
    }
    if (max_) return nr * nc > 0 ? most : 0;
    return nr * nc > 0 ? sum / static_cast<double>(nr * nc) : 0;
  }

  TensorView x_;
  DType rois_dtype_ = DType::kF32;
  Dims out_;
  bool max_ = false, half_ = true;
  double scale_ = 1;
  int64_t ratio_ = 0;
};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(RoiAlign) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) {
    return Result<op::KernelPtr>(Staged(c, std::make_shared<RoiAlignKernel>(c)));
  };
}
