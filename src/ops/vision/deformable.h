// What DeformableAttention and its gradient share: the geometry, and one sampled point.
#ifndef OPSNN_OPS_VISION_DEFORMABLE_H_
#define OPSNN_OPS_VISION_DEFORMABLE_H_

#include <cmath>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {

struct Deformable {
  int64_t batch = 0, keys = 0, heads = 0, channels = 0, queries = 0, levels = 0, points = 0;

  static Result<Deformable> Of(const char* op, op::InputDescs in) {
    const Dims &value = in[0]->dims, &location = in[3]->dims;
    OPSNN_RETURN_IF_ERROR(CheckRank(op, "value", value, 4, 4));
    OPSNN_RETURN_IF_ERROR(CheckRank(op, "location", location, 6, 6));
    Deformable d = {value[0], value[1], value[2], value[3], location[1], location[3], location[4]};
    const Dims want[] = {{d.levels, 2},
                         {d.levels},
                         {d.batch, d.queries, d.heads, d.levels, d.points, 2},
                         {d.batch, d.queries, d.heads, d.levels, d.points},
                         {d.batch, d.queries, d.heads * d.channels}};
    constexpr const char* kNames[] = {"shapes", "starts", "location", "weight", "grad"};
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i]->dims == want[i - 1]) continue;
      return InvalidArgument("%s: %s has shape %s; allowed: %s", op, kNames[i - 1],
                             opsnn::ToString(in[i]->dims).c_str(), opsnn::ToString(want[i - 1]).c_str());
    }
    return d;
  }

  // Do all levels lie within the keys?
  Status CheckLevels(const char* op, const int64_t* shapes, const int64_t* starts) const {
    for (int64_t l = 0; l < levels; ++l) {
      const int64_t h = shapes[2 * l], w = shapes[2 * l + 1];
      int64_t size;
      const bool fits = h >= 0 && w >= 0 && starts[l] >= 0 && starts[l] <= keys &&
                        !__builtin_mul_overflow(h, w, &size) && size <= keys - starts[l];
      if (fits) continue;
      return InvalidArgument(
          "%s: shapes: level %lld has %lld x %lld pixels from key %lld on; allowed: %lld keys", op,
          static_cast<long long>(l), static_cast<long long>(h), static_cast<long long>(w),
          static_cast<long long>(starts[l]), static_cast<long long>(keys));
    }
    return OkStatus();
  }
};

// The four pixels around a location: offsets of their keys, or -1 outside, and how much of each.
template <typename T>
struct Corners {
  int64_t key[4];      // (y0, x0), (y0, x1), (y1, x0), (y1, x1)
  T share[4];          // by pixel
  T by_x[4], by_y[4];  // derivatives of the shares by the location

  Corners(T u, T v, int64_t height, int64_t width, int64_t start) {
    const T h = static_cast<T>(height), w = static_cast<T>(width), x = u * w - T(0.5), y = v * h - T(0.5);
    const bool inside = x > -1 && y > -1 && x < w && y < h;
    const T left = inside ? std::floor(x) : 0, top = inside ? std::floor(y) : 0, ax = x - left, ay = y - top;
    for (int i = 0; i < 4; ++i) {
      const int64_t row = static_cast<int64_t>(top) + i / 2, column = static_cast<int64_t>(left) + i % 2;
      const bool there = inside && row >= 0 && column >= 0 && row < height && column < width;
      key[i] = there ? start + row * width + column : -1;
      const T sx = i % 2 == 0 ? 1 - ax : ax, sy = i / 2 == 0 ? 1 - ay : ay;
      share[i] = sx * sy;
      by_x[i] = (i % 2 == 0 ? -w : w) * sy;
      by_y[i] = (i / 2 == 0 ? -h : h) * sx;
    }
  }
};

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_VISION_DEFORMABLE_H_
