// Images in either layout for operator tests: blocked ones carry NaN in their padding lanes.
#ifndef OPSNN_OP_IMAGE_TESTER_H_
#define OPSNN_OP_IMAGE_TESTER_H_

#include <cmath>
#include <vector>

#include "tensor/layout.h"
#include "testing/testing.h"

namespace opsnn::op {

// Position of logical (n, c, pixel) in a stored image; pixels = H * W.
inline size_t StoredIndex(const Dims& logical, const Layout& layout, int64_t n, int64_t c, int64_t pixel) {
  const int64_t channels = logical[1];
  int64_t pixels = 1;
  for (int i = 2; i < logical.rank(); ++i) pixels *= logical[i];
  if (layout.format != Format::kNC1HWC0) return static_cast<size_t>((n * channels + c) * pixels + pixel);
  const int64_t blocks = (channels + layout.c0 - 1) / layout.c0;
  return static_cast<size_t>(((n * blocks + c / layout.c0) * pixels + pixel) * layout.c0 + c % layout.c0);
}

// Logical values (row-major NCHW) to stored order, and back.
inline std::vector<double> ToStored(const Dims& logical, const Layout& layout, const std::vector<double>& v) {
  std::vector<double> out(static_cast<size_t>(StoredElements(logical, layout)), std::nan(""));
  size_t i = 0;
  const int64_t pixels = v.empty() ? 0 : static_cast<int64_t>(v.size()) / (logical[0] * logical[1]);
  for (int64_t n = 0; n < logical[0]; ++n)
    for (int64_t c = 0; c < logical[1]; ++c)
      for (int64_t p = 0; p < pixels; ++p) out[StoredIndex(logical, layout, n, c, p)] = v[i++];
  return out;
}
inline std::vector<double> FromStored(const Dims& logical, const Layout& layout,
                                      const std::vector<double>& stored) {
  std::vector<double> out;
  const int64_t pixels = NumElements(logical) ? NumElements(logical) / (logical[0] * logical[1]) : 0;
  for (int64_t n = 0; n < logical[0]; ++n)
    for (int64_t c = 0; c < logical[1]; ++c)
      for (int64_t p = 0; p < pixels; ++p) out.push_back(stored[StoredIndex(logical, layout, n, c, p)]);
  return out;
}

// A random image stored in `layout`, with its logical values.
struct TestImage {
  TestImage(testing::Rng& rng, DType dtype, const Dims& dims, const Layout& layout)
      : logical(dtype, dims), stored(dtype, StoredDims(dims, layout), &rng), layout(layout) {
    logical.FillRandom(rng);
    stored.Set(ToStored(dims, layout, logical.Get()));
  }
  testing::GuardedTensor logical, stored;
  Layout layout;
};

}  // namespace opsnn::op

#endif  // OPSNN_OP_IMAGE_TESTER_H_
