#include "ops/pooling/max_mask.h"

namespace opsnn::ops {

Result<MaskWindows> MaskWindowsOf(const char* op, const op::Attrs& attrs,
                                  const std::vector<int64_t>& pooled) {
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape"), strides = attrs.Ints("strides"),
                             pads = attrs.Ints("pads"), image = attrs.Ints("image");
  if (kernel.size() != 2 || strides.size() != 2 || pads.size() < 2 || image.size() != 2 ||
      pooled.size() != 2) {
    return InvalidArgument("%s: kernel_shape, strides, pads, image and the pooled size describe no 2-D pool",
                           op);
  }
  MaskWindows w;
  for (size_t i = 0; i < 2; ++i) {
    w.kernel[i] = kernel[i], w.stride[i] = strides[i], w.pad[i] = pads[i];
    w.image[i] = image[i], w.pooled[i] = pooled[i];
  }
  return w;
}

}  // namespace opsnn::ops
