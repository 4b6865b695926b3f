// Resizing as GB/s written and as a share of a memory copy of the result, in turns in one run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/resize/resize.h"

namespace opsnn::kernels {
namespace {

using Clock = std::chrono::steady_clock;

AxisTaps Taps(Interpolation interpolation, int64_t in, int64_t factor) {
  AxisRule r;
  r.interpolation = interpolation;
  r.in = in;
  r.out = in * factor;
  r.scale = static_cast<float>(factor);
  if (interpolation == Interpolation::kNearest) {
    r.coordinates = CoordinateMode::kAsymmetric;
    r.nearest = NearestMode::kFloor;
  }
  return MakeAxisTaps(r);
}

void BM_Resize(benchmark::State& state, Interpolation interpolation, int64_t planes, int64_t size,
               int64_t lanes, int64_t factor) {
  SetNumThreads(1);
  const AxisTaps taps = Taps(interpolation, size, factor);
  const size_t in_bytes = static_cast<size_t>(planes * size * size * lanes) * 4,
               out_bytes = in_bytes * factor * factor;
  AlignedBuffer src(in_bytes), dst(out_bytes), other(out_bytes);
  std::memset(src.data(), 0, in_bytes);
  std::memset(other.data(), 0, out_bytes);
  const ResizeParams p = {DType::kF32, planes, lanes, &taps, &taps, 0, src.data(), dst.data()};
  std::vector<double> ours, copy;
  for (auto _ : state) {
    const auto a = Clock::now();
    std::memcpy(dst.data(), other.data(), out_bytes);
    const auto b = Clock::now();
    interpolation == Interpolation::kNearest ? ResizeNearest(p) : ResizeWeighted(p);
    const auto c = Clock::now();
    copy.push_back(std::chrono::duration<double>(b - a).count());
    ours.push_back(std::chrono::duration<double>(c - b).count());
    state.SetIterationTime(ours.back());
  }
  SetNumThreads(0);
  std::nth_element(ours.begin(), ours.begin() + ours.size() / 2, ours.end());
  std::nth_element(copy.begin(), copy.begin() + copy.size() / 2, copy.end());
  state.counters["written_GB/s"] = 1e-9 * static_cast<double>(out_bytes) / ours[ours.size() / 2];
  state.counters["of_copy"] = copy[copy.size() / 2] / ours[ours.size() / 2];
}

// The feature pyramid of a text detector at 640 x 640, and a plain image.
BENCHMARK_CAPTURE(BM_Resize, nearest_x2_blocked_40, Interpolation::kNearest, 6, 40, 16, 2)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, nearest_x2_nchw_40, Interpolation::kNearest, 96, 40, 1, 2)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, nearest_x8_blocked_20, Interpolation::kNearest, 2, 20, 16, 8)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, linear_x2_blocked_40, Interpolation::kLinear, 6, 40, 16, 2)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, linear_x2_nchw_40, Interpolation::kLinear, 96, 40, 1, 2)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, linear_x2_image_512, Interpolation::kLinear, 3, 512, 1, 2)->UseManualTime();
BENCHMARK_CAPTURE(BM_Resize, cubic_x2_nchw_40, Interpolation::kCubic, 96, 40, 1, 2)->UseManualTime();

}  // namespace
}  // namespace opsnn::kernels
