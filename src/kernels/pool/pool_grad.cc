#include "kernels/pool/pool_grad.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/buffer.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "vector/convert.h"

namespace opsnn::pool {
namespace {

// Memory of this thread that grows and stays; null when there is none.
float* RowMemory(int64_t floats) {
  thread_local AlignedBuffer buffer;
  const size_t bytes =
      static_cast<size_t>(std::max<int64_t>(1, floats)) * sizeof(float);  // null is no memory
  if (buffer.bytes() < bytes) buffer = AlignedBuffer(bytes);
  return buffer.as<float>();
}

// Does window o cover [o * n, (o + 1) * n), whichever o? Then this is n, else 0.
int64_t EvenWidth(const WindowAxis& axis) {
  const int64_t n = axis.windows() > 0 ? axis.end[0] - axis.begin[0] : 0;
  for (int64_t o = 0; o < axis.windows(); ++o) {
    const auto at = static_cast<size_t>(o);
    if (axis.begin[at] != o * n || axis.end[at] != (o + 1) * n) return 0;
  }
  return n;
}

// Each value kWidth times. A sum that begins with 0, as that of any windows: -0 becomes 0.
template <int kWidth>
void Spread(const float* values, const float* weights, int64_t n, float* to) {
  for (int64_t o = 0; o < n; ++o) {
    const float v = 0.0F + values[o] * weights[o];
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; ++i) to[o * kWidth + i] = v;
  }
}

template <typename Index>
int64_t FirstOutside(const Index* positions, int64_t n, int64_t pixels) {
  Index low = 0, high = 0;  // a loop without exits is one of vectors
  for (int64_t i = 0; i < n; ++i) low = std::min(low, positions[i]), high = std::max(high, positions[i]);
  if (n == 0 || (low >= 0 && high < pixels)) return -1;
  for (int64_t i = 0; i < n; ++i)
    if (positions[i] < 0 || positions[i] >= pixels) return i;
  return -1;
}

template <typename Index>
void AddAt(const float* dy, const Index* positions, int64_t n, float* dx) {
  for (int64_t i = 0; i < n; ++i) dx[positions[i]] += dy[i];
}

// One plane; dy and dx in the type of the call.
template <typename Index>
bool ScatterPlane(const MaxPoolGrad& p, int64_t plane) {
  const auto size = static_cast<int64_t>(SizeOf(p.type));
  const char* const dy = static_cast<const char*>(p.dy) + plane * p.windows * size;
  char* const dx = static_cast<char*>(p.dx) + plane * p.pixels * size;
  const Index* const at = static_cast<const Index*>(p.positions) + plane * p.windows;
  const auto pixels = static_cast<size_t>(p.pixels) * sizeof(float);
  if (p.type == DType::kF32) {
    std::memset(dx, 0, pixels);
    AddAt(reinterpret_cast<const float*>(dy), at, p.windows, reinterpret_cast<float*>(dx));
    return true;
  }
  float* const sums = RowMemory(p.pixels + p.windows);
  if (!sums) return false;
  std::memset(sums, 0, pixels);
  vector::LoadConvert(p.type, dy, 1, ComputeType::kF32, sums + p.pixels, p.windows);
  AddAt(sums + p.pixels, at, p.windows, sums);
  vector::StoreConvert(ComputeType::kF32, sums, p.type, dx, 1, p.pixels);
  return true;
}

template <typename Index>
Status Scatter(const MaxPoolGrad& p) {
  const Index* const positions = static_cast<const Index*>(p.positions);
  if (const int64_t at = FirstOutside(positions, p.planes * p.windows, p.pixels); at >= 0) {
    return InvalidArgument("position %lld at %lld; allowed: 0 to %lld", static_cast<long long>(positions[at]),
                           static_cast<long long>(at), static_cast<long long>(p.pixels - 1));
  }
  std::atomic<bool> failed{false};
  ParallelOwned(p.planes, [&](int64_t plane) {
    if (!ScatterPlane<Index>(p, plane)) failed = true;
  });
  if (!failed) return OkStatus();
  return Errorf(Code::kRuntime, "max pool gradient: no memory for a plane of the image.");
}

}  // namespace

Status RunMaxPoolGrad(const MaxPoolGrad& p) {
  return p.wide_positions ? Scatter<int64_t>(p) : Scatter<int32_t>(p);
}

// What the rows of one plane need: dy and dx of it, a row of sums over windows and one of the result, f32.
struct AveragePoolGrad::Plane {
  DType type;
  const char* dy;
  char* dx;
  float *loaded, *sums, *row;
};

AveragePoolGrad::AveragePoolGrad(std::array<WindowAxis, 3> axes) : axes_(std::move(axes)) {
  even_ = EvenWidth(axes_[2]);
  for (size_t a = 0; a < 2; ++a) {
    const WindowAxis& axis = axes_[a];
    const auto size = static_cast<size_t>(axis.size);
    first_[a].assign(size, axis.windows()), last_[a].assign(size, 0);
    for (int64_t o = 0; o < axis.windows(); ++o) {
      for (int64_t i = axis.begin[static_cast<size_t>(o)]; i < axis.end[static_cast<size_t>(o)]; ++i) {
        auto &first = first_[a][static_cast<size_t>(i)], &last = last_[a][static_cast<size_t>(i)];
        first = std::min(first, o), last = std::max(last, o + 1);
      }
    }
  }
}

void AveragePoolGrad::RunRow(const Plane& plane, int64_t depth, int64_t row) const {
  const WindowAxis &deep = axes_[0], &tall = axes_[1], &wide = axes_[2];
  const int64_t windows = wide.windows(), size = static_cast<int64_t>(SizeOf(plane.type));
  std::fill(plane.sums, plane.sums + windows, 0.0F);
  const auto d = static_cast<size_t>(depth), y = static_cast<size_t>(row);
  for (int64_t od = first_[0][d]; od < last_[0][d]; ++od) {
    for (int64_t oy = first_[1][y]; oy < last_[1][y]; ++oy) {
      const float weight = deep.weight[static_cast<size_t>(od)] * tall.weight[static_cast<size_t>(oy)];
      const char* from = plane.dy + (od * tall.windows() + oy) * windows * size;
      const float* values = reinterpret_cast<const float*>(from);
      if (plane.type != DType::kF32) {
        vector::LoadConvert(plane.type, from, 1, ComputeType::kF32, plane.loaded, windows);
        values = plane.loaded;
      }
      for (int64_t o = 0; o < windows; ++o) plane.sums[o] += values[o] * weight;
    }
  }
  char* const to = plane.dx + (depth * tall.size + row) * wide.size * size;
  float* const out = plane.type == DType::kF32 ? reinterpret_cast<float*>(to) : plane.row;
  const bool even = even_ == 2 || even_ == 3;
  const int64_t covered = even ? even_ * windows : 0;
  if (even) {
    (even_ == 2 ? Spread<2> : Spread<3>)(plane.sums, wide.weight.data(), windows, out);
  }
  std::fill(out + covered, out + wide.size, 0.0F);
  for (int64_t o = 0; !even && o < windows; ++o) {
    const auto at = static_cast<size_t>(o);
    const float v = plane.sums[o] * wide.weight[at];
    for (int64_t i = wide.begin[at]; i < wide.end[at]; ++i) out[i] += v;
  }
  if (plane.type != DType::kF32)
    vector::StoreConvert(ComputeType::kF32, plane.row, plane.type, to, 1, wide.size);
}

Status AveragePoolGrad::Run(int64_t planes, DType type, const void* dy, void* dx) const {
  const int64_t windows = axes_[2].windows(), width = axes_[2].size,
                size = static_cast<int64_t>(SizeOf(type));
  const int64_t plane_windows = axes_[0].windows() * axes_[1].windows() * windows;
  const int64_t rows = axes_[0].size * axes_[1].size;
  std::atomic<bool> failed{false};
  ParallelOwned(planes * rows, [&](int64_t task) {
    float* const memory = RowMemory(2 * windows + width);
    if (!memory) {
      failed = true;
      return;
    }
    const int64_t plane = task / rows, row = task % rows;
    const Plane p{type,
                  static_cast<const char*>(dy) + plane * plane_windows * size,
                  static_cast<char*>(dx) + plane * rows * width * size,
                  memory,
                  memory + windows,
                  memory + 2 * windows};
    RunRow(p, row / axes_[1].size, row % axes_[1].size);
  });
  if (!failed) return OkStatus();
  return Errorf(Code::kRuntime, "average pool gradient: no memory for a row of the image.");
}

}  // namespace opsnn::pool
