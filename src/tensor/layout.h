// Layouts: how a logical tensor is stored. The graph engine keeps, per tensor, logical dims (always in NCHW
// order for images) and a Layout; the stored shape follows from both. Formulas: docs/formats.md.
#ifndef OPSNN_TENSOR_LAYOUT_H_
#define OPSNN_TENSOR_LAYOUT_H_

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "tensor/tensor_view.h"

namespace opsnn {

enum class Format : uint8_t { kND, kNCHW, kNHWC, kNC1HWC0 };

struct Layout {
  Format format = Format::kND;
  int c0 = 0;  // channels per block for NC1HWC0; 0 otherwise. A field, never a constant.
  friend bool operator==(const Layout&, const Layout&) = default;
};

const char* Name(Format f);
// The host's block: 16 channels for f32, f16 and bf16, 32 for 8-bit types.
int HostC0(DType dtype);
inline Layout BlockedLayout(DType dtype) { return {Format::kNC1HWC0, HostC0(dtype)}; }

// Stored dims of a tensor with logical NCHW dims: NC1HWC0 gives (N, ceil(C/C0), H, W, C0); NHWC permutes.
Dims StoredDims(const Dims& logical, const Layout& layout);
int64_t StoredElements(const Dims& logical, const Layout& layout);
std::string ToString(const Layout& layout);  // "ND", "NC1HWC0:16"

}  // namespace opsnn

#endif  // OPSNN_TENSOR_LAYOUT_H_
