// ImageKernel: brings images into the form that kernels/pool takes, f32 or any type, contiguous or blocked.
#ifndef OPSNN_OPS_POOLING_IMAGE_KERNEL_H_
#define OPSNN_OPS_POOLING_IMAGE_KERNEL_H_

#include "op/operator.h"

namespace opsnn::ops {

// One input, one output. Views with gaps, and dtypes other than `compute`, go through the workspace.
class ImageKernel : public op::Kernel {
 public:
  Status Run(const op::RunArgs& args) const final;
  size_t workspace_bytes() const final { return workspace_bytes_; }

 protected:
  // compute: the dtype that Compute reads and writes; scratch_bytes: what else it needs.
  Status Bind(const char* name, const op::PlanContext& c, DType compute, size_t scratch_bytes = 0);
  virtual Status Compute(const void* x, void* y, void* scratch) const = 0;
  bool x_blocked() const { return x_blocked_; }
  bool y_blocked() const { return y_blocked_; }
  std::string CopyNote() const;

 private:
  TensorView x_, y_, x_copy_, y_copy_;
  bool x_blocked_ = false, y_blocked_ = false, copy_x_ = false, copy_y_ = false;
  size_t y_offset_ = 0, scratch_offset_ = 0, workspace_bytes_ = 0;
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_IMAGE_KERNEL_H_
