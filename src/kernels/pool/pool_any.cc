// Pooling of the types that f32 cannot hold exactly, and what only needs plain loops: the depth of 3-D images
// and the positions of maxima.
#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernels/pool/inside.h"
#include "kernels/pool/pool.h"

namespace opsnn::pool {
namespace {

template <typename T>
constexpr T kLowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();

// NaN stays: no comparison with it is true.
template <typename T>
T MaxOf(T best, T v) {
  return v > best || v != v ? v : best;
}

template <typename T, Kind kKind>
void Plane(const PoolShape& s, const T* x, T* y) {
  for (int64_t oy = 0; oy < s.oh; ++oy) {
    T* row = y + oy * s.ow;
    std::fill(row, row + s.ow, kKind == Kind::kMax ? kLowest<T> : T{0});
    const int64_t top = oy * s.sh - s.pt;
    const Range rows = Inside(top, s.kh, s.dh, 0, s.h);
    for (int64_t ky = rows.begin; ky < rows.end; ++ky) {
      const T* line = x + (top + ky * s.dh) * s.w;
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        // Output columns whose input column first + ox * stride lies inside.
        const int64_t first = kx * s.dw - s.pl;
        const Range columns = Inside(first, s.ow, s.sw, 0, s.w);
        for (int64_t ox = columns.begin; ox < columns.end; ++ox) {
          const T v = line[ox * s.sw + first];
          row[ox] = kKind == Kind::kMax ? MaxOf(row[ox], v) : row[ox] + v;
        }
      }
    }
    if (kKind == Kind::kMax || s.sum) continue;
    const int64_t pt = s.include_pad ? s.pt : 0, pl = s.include_pad ? s.pl : 0;
    const Range counted = Inside(top, s.kh, s.dh, -pt, s.h + (s.include_pad ? s.pb : 0));
    for (int64_t ox = 0; ox < s.ow; ++ox) {
      const Range c = Inside(ox * s.sw - s.pl, s.kw, s.dw, -pl, s.w + (s.include_pad ? s.pr : 0));
      const int64_t count = (counted.end - counted.begin) * (c.end - c.begin);
      if (count > 0) row[ox] /= static_cast<T>(count);
    }
  }
}

template <typename T, Kind kKind>
void Run(const PoolShape& s, const void* x, void* y) {
  ParallelFor(s.n * s.c, [&](int64_t i, int) {
    Plane<T, kKind>(s, static_cast<const T*>(x) + i * s.h * s.w, static_cast<T*>(y) + i * s.oh * s.ow);
  });
}

template <typename T>
void Depth(const DepthShape& s, const int64_t* counts, const void* x, void* y) {
  ParallelFor(s.planes * s.od, [&](int64_t i, int) {
    const int64_t o = i % s.od, first = o * s.stride - s.pad;
    const Range r = Inside(first, s.k, s.dilation, 0, s.d);
    const T* plane = static_cast<const T*>(x) + i / s.od * s.d * s.inner;
    T* to = static_cast<T*>(y) + i * s.inner;
    std::fill(to, to + s.inner, counts == nullptr ? kLowest<T> : T{0});
    for (int64_t k = r.begin; k < r.end; ++k) {
      const T* from = plane + (first + k * s.dilation) * s.inner;
      if (counts == nullptr) {
        for (int64_t j = 0; j < s.inner; ++j) to[j] = MaxOf(to[j], from[j]);
      } else {
        for (int64_t j = 0; j < s.inner; ++j) to[j] += from[j];
      }
    }
    if (counts == nullptr || counts[o] == 0) return;
    for (int64_t j = 0; j < s.inner; ++j) to[j] /= static_cast<T>(counts[o]);
  });
}

// One plane: the maximum of every window and where it lies in the plane.
template <typename T>
void PlaneIndices(const MaxIndexShape& s, const T* x, int64_t base, T* y, int64_t* positions) {
  const auto inside = [&s](int axis, int64_t o) {
    return Inside(o * s.stride[axis] - s.pad[axis], s.kernel[axis], s.dilation[axis], 0, s.in[axis]);
  };
  const auto at = [&s](int axis, int64_t o, int64_t k) {
    return o * s.stride[axis] - s.pad[axis] + k * s.dilation[axis];
  };
  int64_t o = 0;
  for (int64_t od = 0; od < s.out[0]; ++od) {
    const Range rd = inside(0, od);
    for (int64_t oh = 0; oh < s.out[1]; ++oh) {
      const Range rh = inside(1, oh);
      for (int64_t ow = 0; ow < s.out[2]; ++ow, ++o) {
        const Range rw = inside(2, ow);
        T best = kLowest<T>;
        int64_t where = -1;
        for (int64_t kd = rd.begin; kd < rd.end; ++kd) {
          for (int64_t kh = rh.begin; kh < rh.end; ++kh) {
            for (int64_t kw = rw.begin; kw < rw.end; ++kw) {
              const int64_t d = at(0, od, kd), h = at(1, oh, kh), w = at(2, ow, kw);
              const T v = x[(d * s.in[1] + h) * s.in[2] + w];
              if (where >= 0 && !(v > best || (v != v && best == best))) continue;
              best = v;
              where = s.column_major ? (w * s.in[1] + h) * s.in[0] + d : (d * s.in[1] + h) * s.in[2] + w;
            }
          }
        }
        y[o] = best;
        positions[o] = where < 0 ? where : base + where;
      }
    }
  }
}

// Calls fn(T{}) for the type that `dtype` is computed in.
template <typename Fn>
void WithType(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kF64:
      return fn(double{});
    case DType::kS8:
      return fn(int8_t{});
    case DType::kU8:
      return fn(uint8_t{});
    case DType::kS16:
      return fn(int16_t{});
    case DType::kS32:
      return fn(int32_t{});
    case DType::kS64:
      return fn(int64_t{});
    default:
      return fn(float{});
  }
}

}  // namespace

void RunPoolAny(const PoolShape& shape, DType dtype, const void* x, void* y) {
  if (shape.kind == Kind::kAverage) return Run<double, Kind::kAverage>(shape, x, y);
  WithType(dtype, [&](auto t) { Run<decltype(t), Kind::kMax>(shape, x, y); });
}

void RunDepthPool(const DepthShape& shape, DType dtype, const int64_t* counts, const void* x, void* y) {
  WithType(dtype, [&](auto t) { Depth<decltype(t)>(shape, counts, x, y); });
}

void RunMaxPoolIndices(const MaxIndexShape& s, DType dtype, const void* x, void* y, int64_t* positions) {
  const int64_t in = s.in[0] * s.in[1] * s.in[2], out = s.out[0] * s.out[1] * s.out[2];
  WithType(dtype, [&](auto t) {
    using T = decltype(t);
    ParallelFor(s.planes, [&](int64_t i, int) {
      PlaneIndices(s, static_cast<const T*>(x) + i * in, i * in, static_cast<T*>(y) + i * out,
                   positions + i * out);
    });
  });
}

}  // namespace opsnn::pool
