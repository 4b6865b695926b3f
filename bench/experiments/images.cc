// Images: lanes of a pool, conversions of layout and type.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "bench/experiments/experiment.h"
#include "device/profile.h"
#include "kernels/pool/lanes.h"
#include "testing/testing.h"

namespace opsnn::experiments {
namespace {

// A window per vector: gathered into one, then combined.
void NaivePool(const pool::PoolShape& s, int64_t lanes, const float* x, float* y) {
  std::vector<float> window(static_cast<size_t>(RoundUp(s.kh * s.kw, lanes)));
  for (int64_t i = 0; i < s.c * s.oh * s.ow; ++i) {
    const int64_t ox = i % s.ow, oy = i / s.ow % s.oh;
    const float* const plane = x + i / s.ow / s.oh * s.h * s.w;
    std::fill(window.begin(), window.end(), -std::numeric_limits<float>::infinity());
    size_t count = 0;
    for (int64_t iy = std::max<int64_t>(0, oy * s.sh - s.pt); iy < std::min(s.h, oy * s.sh - s.pt + s.kh);
         ++iy)
      for (int64_t ix = std::max<int64_t>(0, ox * s.sw - s.pl); ix < std::min(s.w, ox * s.sw - s.pl + s.kw);
           ++ix)
        window[count++] = plane[iy * s.w + ix];
    y[i] = *std::max_element(window.begin(), window.end());
  }
}

pool::PoolShape MaxPool(int64_t channels, int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  pool::PoolShape s;
  s.c = channels, s.h = s.w = size, s.kh = s.kw = kernel, s.sh = s.sw = stride;
  s.pt = s.pl = s.pb = s.pr = pad;
  s.oh = s.ow = (size + 2 * pad - kernel) / stride + 1;
  return s;
}

void RunPoolLanes() {
  const double vector_bytes = device::HostProfileUnmeasured().vector_bytes();
  const int64_t here = std::max<int64_t>(1, static_cast<int64_t>(vector_bytes) / 4);
  constexpr int64_t kNpu = 128;  // half types
  std::printf("| pool | form | lanes used of %lld, %% | of 128, %% | ms |\n|---|---|---|---|---|\n",
              static_cast<long long>(here));
  opsnn::testing::Rng rng;
  for (const auto& [name, shape] :
       {std::pair<const char*, pool::PoolShape>{"2x2 s2, 64 @224", MaxPool(64, 224, 2, 2, 0)},
        {"3x3 s2, 64 @112", MaxPool(64, 112, 3, 2, 1)},
        {"3x3 s1, 128 @28", MaxPool(128, 28, 3, 1, 1)}}) {
    std::vector<float> x(static_cast<size_t>(shape.c * shape.h * shape.w)),
        y(static_cast<size_t>(shape.c * shape.oh * shape.ow));
    for (float& v : x) v = static_cast<float>(rng.Real(-1, 1));
    pool::PoolShape planes = shape, blocked = shape;
    planes.x_blocked = planes.y_blocked = false;
    bool ran = true;
    const auto t = InTurns({[&] { NaivePool(planes, here, x.data(), y.data()); },
                            [&] { ran &= pool::RunPool(planes, x.data(), y.data()).ok(); },
                            [&] { ran &= pool::RunPool(blocked, x.data(), y.data()).ok(); }},
                           1);
    if (!ran) std::printf("| %s | no memory | | | |\n", name);
    for (const pool::Form form : {pool::Form::kNaive, pool::Form::kPlanes, pool::Form::kBlocked})
      std::printf("| %s | %s | %.1f | %.1f | %s |\n", name, pool::Name(form),
                  100 * pool::LanesUsed(form, shape, here), 100 * pool::LanesUsed(form, shape, kNpu),
                  Ms(t[static_cast<size_t>(form)]).c_str());
  }
}

// Steps between the channels-last and the channels-first order, and between types.
void RunConversions() {
  constexpr int64_t kF16 = 10, kF32 = 1;
  const std::vector<int64_t> first{0, 3, 1, 2}, last{0, 2, 3, 1};
  const Dims image{8, 224, 224, 16};
  struct Chain {
    const char* name;
    DType from;
    std::vector<const char*> steps;
  };
  const Chain chains[] = {
      {"NHWC to NCHW, f32 to f16", DType::kF32, {"first", "half"}},
      {"f16 to f32, NHWC to NCHW", DType::kF16, {"float", "first"}},
      {"NHWC to NCHW to NHWC to NCHW", DType::kF32, {"first", "last", "first"}},
      {"NHWC to NCHW to NHWC to NCHW, f32 to f16", DType::kF32, {"first", "last", "first", "half"}}};
  std::printf(
      "| conversions | apart | merged | moved apart, MiB | merged | ratio | apart, ms | merged "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const Chain& c : chains) {
    graph::GraphMaker m;
    graph::ValueId x = m.In("x", image, c.from);
    for (const std::string step : c.steps) {
      x = step == "first"  ? m.Op("Transpose", {x}, {{"perm", first}})
          : step == "last" ? m.Op("Transpose", {x}, {{"perm", last}})
          : step == "half" ? m.Op("Cast", {x}, {{"to", kF16}})
                           : m.Op("Cast", {x}, {{"to", kF32}});
    }
    m.Out(x);
    Pair pair(m);
    const auto t = pair.Seconds(1);
    std::printf("| %s | %d | %d | %s | %s | %.2f | %s | %s |\n", c.name, pair.split.Calls(),
                pair.fused.Calls(), Mib(pair.split.BytesMoved()).c_str(),
                Mib(pair.fused.BytesMoved()).c_str(),
                static_cast<double>(pair.fused.BytesMoved()) / static_cast<double>(pair.split.BytesMoved()),
                Ms(t[0]).c_str(), Ms(t[1]).c_str());
  }
}

}  // namespace

std::vector<Experiment> ImageExperiments() {
  return {
      {"pool_lanes", "One window per vector wastes nearly all of it; many windows per vector waste little.",
       RunPoolLanes},
      {"conversions", "Several conversions of layout and type in one pass: what lies between is not written.",
       RunConversions},
  };
}

}  // namespace opsnn::experiments
