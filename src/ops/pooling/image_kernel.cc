#include "ops/pooling/image_kernel.h"

#include "base/int_math.h"
#include "vector/run.h"

namespace opsnn::ops {

Status ImageKernel::Bind(const char* name, const op::PlanContext& c, DType compute, size_t scratch_bytes) {
  constexpr int kBlock = 16;  // what kernels/pool implements
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  for (const op::TensorDesc* d : {&x, &y}) {
    const bool blocked = d->layout.format == Format::kNC1HWC0;
    const bool good = blocked ? d->dtype == DType::kF32 && d->layout.c0 == kBlock && d->dims.rank() == 4
                              : d->layout.format != Format::kNHWC;
    if (!good) {
      return Errorf(Code::kNotImplemented,
                    "%s: layout %s of %s tensor %s; implemented: ND, and NC1HWC0:16 in f32 for rank 4", name,
                    ToString(d->layout).c_str(), Name(d->dtype), ToString(d->dims).c_str());
    }
  }
  x_blocked_ = x.layout.format == Format::kNC1HWC0;
  y_blocked_ = y.layout.format == Format::kNC1HWC0;
  x_ = x.View(nullptr);
  y_ = y.View(nullptr);
  x_copy_ = TensorView::Contiguous(nullptr, compute, x_.dims);
  y_copy_ = TensorView::Contiguous(nullptr, compute, y_.dims);
  copy_x_ = x_.dtype != compute || !x_.IsContiguous();
  copy_y_ = y_.dtype != compute || !y_.IsContiguous();
  if (copy_x_) y_offset_ = RoundUp(x_copy_.bytes(), kAlignment);
  scratch_offset_ = y_offset_ + (copy_y_ ? RoundUp(y_copy_.bytes(), kAlignment) : 0);
  workspace_bytes_ = scratch_offset_ + scratch_bytes;
  return OkStatus();
}

Status ImageKernel::Run(const op::RunArgs& args) const {
  if (y_.size() == 0) return OkStatus();
  TensorView x = x_, y = y_;
  x.data = args.inputs[0];
  y.data = args.outputs[0];
  TensorView x_copy = x_copy_, y_copy = y_copy_;
  x_copy.data = args.workspace;
  y_copy.data = static_cast<char*>(args.workspace) + y_offset_;
  if (copy_x_) vector::CopyConvert(x, x_copy);
  OPSNN_RETURN_IF_ERROR(Compute(copy_x_ ? x_copy.data : x.data, copy_y_ ? y_copy.data : y.data,
                                static_cast<char*>(args.workspace) + scratch_offset_));
  if (copy_y_) vector::CopyConvert(y_copy, y);
  return OkStatus();
}

std::string ImageKernel::CopyNote() const {
  if (copy_x_ && copy_y_) return ", input and output copied";
  return copy_x_ ? ", input copied" : copy_y_ ? ", output copied" : "";
}

}  // namespace opsnn::ops
