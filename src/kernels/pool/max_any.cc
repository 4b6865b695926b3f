// Max pooling of the types that f32 cannot hold exactly, straight from the definition over NCHW planes.
#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernels/pool/pool.h"

namespace opsnn::pool {
namespace {

template <typename T>
void Plane(const PoolShape& s, const T* x, T* y) {
  constexpr T kLowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                             : std::numeric_limits<T>::lowest();
  for (int64_t oy = 0; oy < s.oh; ++oy) {
    T* row = y + oy * s.ow;
    std::fill(row, row + s.ow, kLowest);
    for (int64_t ky = 0; ky < s.kh; ++ky) {
      const int64_t iy = oy * s.sh - s.pt + ky * s.dh;
      if (iy < 0 || iy >= s.h) continue;
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        const int64_t first = kx * s.dw - s.pl;  // input column under output column 0
        for (int64_t ox = 0; ox < s.ow; ++ox) {
          const int64_t ix = ox * s.sw + first;
          if (ix < 0 || ix >= s.w) continue;
          const T v = x[iy * s.w + ix];
          row[ox] = v > row[ox] || v != v ? v : row[ox];  // NaN stays: no comparison with it is true
        }
      }
    }
  }
}

template <typename T>
void Run(const PoolShape& s, const void* x, void* y) {
  ParallelFor(s.n * s.c, [&](int64_t i, int) {
    Plane(s, static_cast<const T*>(x) + i * s.h * s.w, static_cast<T*>(y) + i * s.oh * s.ow);
  });
}

}  // namespace

void RunMaxPoolAny(const PoolShape& shape, DType dtype, const void* x, void* y) {
  switch (dtype) {
    case DType::kF64:
      return Run<double>(shape, x, y);
    case DType::kS8:
      return Run<int8_t>(shape, x, y);
    case DType::kU8:
      return Run<uint8_t>(shape, x, y);
    case DType::kS16:
      return Run<int16_t>(shape, x, y);
    case DType::kS32:
      return Run<int32_t>(shape, x, y);
    case DType::kS64:
      return Run<int64_t>(shape, x, y);
    default:
      return Run<float>(shape, x, y);
  }
}

}  // namespace opsnn::pool
