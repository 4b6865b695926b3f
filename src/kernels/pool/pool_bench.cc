// Pooling: time, speed, and how many lanes of its vector operations a form uses.
//
// The forms are those of lanes.h. lanes_% is the share of lanes that hold an element of some window, on this
// machine and, lanes128_%, with 128 lanes (half types on an NPU, where one window of 2x2 uses 3 %).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/pool/lanes.h"
#include "kernels/pool/pool.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/pool_bench.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
constexpr int64_t kMostElements = 64;  // of a window

int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

void Naive(const PoolShape& s, const float* x, float* y) {
  const D d;
  const int64_t lanes = Lanes(), vectors = CeilDiv(s.kh * s.kw, lanes);
  const bool max = s.kind == Kind::kMax;
  HWY_ALIGN float window[kMostElements];
  for (int64_t i = 0; i < s.n * s.c * s.oh * s.ow; ++i) {
    const int64_t ox = i % s.ow, oy = i / s.ow % s.oh;
    const float* const plane = x + i / s.ow / s.oh * s.h * s.w;
    std::fill_n(window, vectors * lanes, max ? -std::numeric_limits<float>::infinity() : 0.0f);
    int64_t count = 0;
    for (int64_t iy = std::max<int64_t>(0, oy * s.sh - s.pt); iy < std::min(s.h, oy * s.sh - s.pt + s.kh);
         ++iy)
      for (int64_t ix = std::max<int64_t>(0, ox * s.sw - s.pl); ix < std::min(s.w, ox * s.sw - s.pl + s.kw);
           ++ix)
        window[count++] = plane[iy * s.w + ix];
    auto all = hn::Load(d, window);
    for (int64_t v = 1; v < vectors; ++v) {
      const auto more = hn::Load(d, window + v * lanes);
      all = max ? hn::Max(all, more) : hn::Add(all, more);
    }
    y[i] = max ? hn::GetLane(hn::MaxOfLanes(d, all))
               : hn::GetLane(hn::SumOfLanes(d, all)) / static_cast<float>(count);
  }
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {
namespace {

OPSNN_TIER_TABLE(Lanes);
OPSNN_TIER_TABLE(Naive);

constexpr int64_t kC0 = 16;

// The forms agree, up to the order of sums.
bool Agrees(const PoolShape& s, const float* x, const float* y) {
  AlignedBuffer want(static_cast<size_t>(s.n * s.c * s.oh * s.ow) * sizeof(float));
  OPSNN_TIER_CALL(Naive)(s, x, want.as<float>());
  constexpr float kTolerance = 1e-6f;
  for (int64_t i = 0; i < s.n * s.c * s.oh * s.ow; ++i)
    if (!(std::fabs(y[i] - want.as<float>()[i]) <= kTolerance)) return false;
  return true;
}

void BM_Pool(benchmark::State& state, PoolShape s, Form form) {
  SetNumThreads(1);
  s.x_blocked = s.y_blocked = form == Form::kBlocked;
  const int64_t in = s.n * RoundUp(s.c, kC0) * s.h * s.w, out = s.n * RoundUp(s.c, kC0) * s.oh * s.ow;
  AlignedBuffer x(static_cast<size_t>(in) * sizeof(float)), y(static_cast<size_t>(out) * sizeof(float));
  constexpr int64_t kStep = 37, kValues = 101;
  for (int64_t i = 0; i < in; ++i)
    x.as<float>()[i] = static_cast<float>(i * kStep % kValues) / static_cast<float>(kValues);
  for (auto _ : state) {
    if (form == Form::kNaive) {
      OPSNN_TIER_CALL(Naive)(s, x.as<float>(), y.as<float>());
    } else if (!RunPool(s, x.as<float>(), y.as<float>()).ok()) {
      return state.SkipWithError("no memory");
    }
  }
  if (form == Form::kPlanes && !Agrees(s, x.as<float>(), y.as<float>()))
    return state.SkipWithError("wrong result");
  constexpr int64_t kLanesOfNpu = 128;
  state.counters["lanes_%"] = 100 * LanesUsed(form, s, OPSNN_TIER_CALL(Lanes)());
  state.counters["lanes128_%"] = 100 * LanesUsed(form, s, kLanesOfNpu);
  state.counters["GB"] = benchmark::Counter(1e-9 * static_cast<double>((in + out) * int64_t{sizeof(float)}),
                                            benchmark::Counter::kIsIterationInvariantRate);
  SetNumThreads(0);
}

[[maybe_unused]] const bool registered = [] {
  struct Layer {
    const char* name;
    Kind kind;
    int64_t c, size, k, s, p;
  };
  for (const Layer& l : {Layer{"max 2x2 s2 64 @224", Kind::kMax, 64, 224, 2, 2, 0},
                         {"max 3x3 s2 64 @112", Kind::kMax, 64, 112, 3, 2, 1},
                         {"max 3x3 s1 128 @28", Kind::kMax, 128, 28, 3, 1, 1},
                         {"average 2x2 s2 64 @224", Kind::kAverage, 64, 224, 2, 2, 0},
                         {"average 3x3 s1 128 @28", Kind::kAverage, 128, 28, 3, 1, 1}}) {
    PoolShape s;
    s.kind = l.kind, s.c = l.c, s.h = s.w = l.size, s.kh = s.kw = l.k, s.sh = s.sw = l.s;
    s.pt = s.pl = s.pb = s.pr = l.p;
    s.oh = s.ow = (l.size + 2 * l.p - l.k) / l.s + 1;
    for (const Form form : {Form::kNaive, Form::kPlanes, Form::kBlocked}) {
      const std::string name = std::string(l.name) + "/" + Name(form);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [s, form](benchmark::State& state) { BM_Pool(state, s, form); })
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05);
    }
  }
  return true;
}();

}  // namespace
}  // namespace opsnn::pool
#endif
