#include "tensor/layout.h"

namespace opsnn {

const char* Name(Format f) {
  static constexpr const char* kNames[] = {"ND", "NCHW", "NHWC", "NC1HWC0"};
  return kNames[static_cast<int>(f)];
}

// One cache line of f32 or of 8-bit values at half width; halves compute in f32, so they share its block.
int HostC0(DType dtype) { return SizeOf(dtype) == 1 ? 32 : 16; }

Dims StoredDims(const Dims& logical, const Layout& layout) {
  if (logical.rank() != 4) return logical;  // images only: other ranks are stored as they are
  if (layout.format == Format::kNHWC) return {logical[0], logical[2], logical[3], logical[1]};
  if (layout.format != Format::kNC1HWC0) return logical;
  assert(layout.c0 > 0);
  const int64_t c = logical[1];
  const int64_t c1 = c == kUnknownDim ? kUnknownDim : (c + layout.c0 - 1) / layout.c0;
  return {logical[0], c1, logical[2], logical[3], layout.c0};
}

int64_t StoredElements(const Dims& logical, const Layout& layout) {
  return NumElements(StoredDims(logical, layout));
}

std::string ToString(const Layout& layout) {
  std::string s = Name(layout.format);
  if (layout.format == Format::kNC1HWC0) s += ":" + std::to_string(layout.c0);
  return s;
}

}  // namespace opsnn
