// Conversions between storage layouts, fused with a change of dtype: NCHW (or ND), NHWC and NC1HWC0.
#ifndef OPSNN_KERNELS_TRANSPOSE_LAYOUT_CONVERT_H_
#define OPSNN_KERNELS_TRANSPOSE_LAYOUT_CONVERT_H_

#include "tensor/layout.h"

namespace opsnn::kernels {

struct LayoutConvertParams {
  const void* src = nullptr;
  DType src_dtype = DType::kF32;
  Layout src_layout;
  void* dst = nullptr;
  DType dst_dtype = DType::kF32;
  Layout dst_layout;
  Dims dims;  // logical: (N, C, H, W); tensors of other ranks are stored as ND whatever their layout says
};

// Every element of the logical tensor is converted as a Cast would. Channels that exist only because blocks
// are whole are written 0 and never read into a result. Both sides contiguous in their layout; no overlap.
void ConvertLayout(const LayoutConvertParams& p);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_TRANSPOSE_LAYOUT_CONVERT_H_
