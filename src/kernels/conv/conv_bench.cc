// Convolution f32 on blocked images: GFLOP/s, and the share of the FMA peak measured in the same process.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/winograd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_bench.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `steps` rounds of 12 independent multiply-adds: enough chains to cover the latency, few enough for 16
// registers.
float FmaRounds(int64_t steps) {
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 1.0f), y = hn::Set(d, 0.5f);
  hn::Vec<decltype(d)> acc[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], y, x);
  }
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) acc[0] = hn::Add(acc[0], acc[i]);
  return hn::GetLane(acc[0]) + static_cast<float>(hn::Lanes(d) * kChains * 2);
}
int64_t FlopsPerRound() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())) * 12 * 2; }

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
namespace {

OPSNN_TIER_TABLE(FmaRounds);
OPSNN_TIER_TABLE(FlopsPerRound);

// One thread is timed by its own processor time, which other work on the machine does not enter.
double Now(int threads) {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double FmaPeak() {
  constexpr int64_t kSteps = 100000;
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double t0 = Now(1);
    benchmark::DoNotOptimize(OPSNN_TIER_CALL(FmaRounds)(kSteps));
    best = std::max(best, static_cast<double>(kSteps * OPSNN_TIER_CALL(FlopsPerRound)()) / (Now(1) - t0));
  }
  return best;
}

void Fill(std::vector<float>& v, int a, int b) {
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<float>(static_cast<int>(i * a % b) - b / 2) / static_cast<float>(b);
}

// Checks some outputs of image 0 against their definition (plain convolutions only).
bool Verify(const ConvShape& s, const float* x, const std::vector<float>& w, const float* y) {
  if (s.transposed) return true;
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups;
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t o = i * 7919 % s.oc, oy = i * 31 % s.oh, ox = i * 17 % s.ow;
    double sum = 0, magnitude = 0;
    for (int64_t c = 0; c < cg; ++c)
      for (int64_t ky = 0; ky < s.kh; ++ky)
        for (int64_t kx = 0; kx < s.kw; ++kx) {
          const int64_t iy = oy * s.sh - s.pt + ky, ix = ox * s.sw - s.pl + kx, ic = o / og * cg + c;
          if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
          const float v = s.x_blocked ? x[((ic / kC0 * s.h + iy) * s.w + ix) * kC0 + ic % kC0]
                                      : x[(ic * s.h + iy) * s.w + ix];
          const double term = double{w[static_cast<size_t>(((o * cg + c) * s.kh + ky) * s.kw + kx)]} * v;
          sum += term, magnitude += std::fabs(term);
        }
    const double got = y[((o / kC0 * s.oh + oy) * s.ow + ox) * kC0 + o % kC0];
    const double growth = s.winograd ? WinogradGrowth(s.winograd, static_cast<int>(s.kh), cg)
                                     : 2 * std::sqrt(static_cast<double>(cg * s.kh * s.kw)) + 4;
    const double bound = growth * 0x1p-24 * magnitude;
    if (!(std::fabs(got - std::max(sum, 0.0)) <= bound)) return false;
  }
  return true;
}

struct Layer {
  const char* name;
  int64_t n, c, h, w, oc, kh, kw, sh, sw, p, groups;
  bool transposed, x_blocked;
};

// ResNet-50, MobileNet and PP-OCR layers.
constexpr Layer kLayers[] = {
    {"7x7s2 3->64 @224", 1, 3, 224, 224, 64, 7, 7, 2, 2, 3, 1, false, false},
    {"3x3s2 3->16 @640", 1, 3, 640, 640, 16, 3, 3, 2, 2, 1, 1, false, false},
    {"3x3 64->64 @56", 1, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, false, true},
    {"3x3 128->128 @28", 1, 128, 28, 28, 128, 3, 3, 1, 1, 1, 1, false, true},
    {"3x3 256->256 @14", 1, 256, 14, 14, 256, 3, 3, 1, 1, 1, 1, false, true},
    {"3x3 512->512 @7", 1, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1, false, true},
    {"3x3 96->24 @160", 1, 96, 160, 160, 24, 3, 3, 1, 1, 1, 1, false, true},
    {"3x3s2 128->128 @56", 1, 128, 56, 56, 128, 3, 3, 2, 2, 1, 1, false, true},
    {"1x1 64->256 @56", 1, 64, 56, 56, 256, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 256->64 @56", 1, 256, 56, 56, 64, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1s2 256->512 @56", 1, 256, 56, 56, 512, 1, 1, 2, 2, 0, 1, false, true},
    {"1x1s2 512->1024 @28", 1, 512, 28, 28, 1024, 1, 1, 2, 2, 0, 1, false, true},
    {"1x1s2 1024->2048 @14", 1, 1024, 14, 14, 2048, 1, 1, 2, 2, 0, 1, false, true},
    {"3x3s2 512->512 @14", 1, 512, 14, 14, 512, 3, 3, 2, 2, 1, 1, false, true},
    {"1x1 1024->256 @14", 1, 1024, 14, 14, 256, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 512->2048 @7", 1, 512, 7, 7, 2048, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 16->32 @320", 1, 16, 320, 320, 32, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 48->48 @160", 1, 48, 160, 160, 48, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 240->240 @12x80", 1, 240, 12, 80, 240, 1, 1, 1, 1, 0, 1, false, true},
    {"1x1 480->120 @1", 1, 480, 1, 1, 120, 1, 1, 1, 1, 0, 1, false, true},
    {"dw3x3 144 @56", 1, 144, 56, 56, 144, 3, 3, 1, 1, 1, 144, false, true},
    {"dw3x3s2 144 @56", 1, 144, 56, 56, 144, 3, 3, 2, 2, 1, 144, false, true},
    {"dw3x3 16 @320", 1, 16, 320, 320, 16, 3, 3, 1, 1, 1, 16, false, true},
    {"dw5x5 240 @14", 1, 240, 14, 14, 240, 5, 5, 1, 1, 2, 240, false, true},
    {"dw5x5 192 @40", 1, 192, 40, 40, 192, 5, 5, 1, 1, 2, 192, false, true},
    {"dw5x5 480 @6x80", 1, 480, 6, 80, 480, 5, 5, 1, 1, 2, 480, false, true},
    {"dw5x5s2x1 480 @6x80", 1, 480, 6, 80, 480, 5, 5, 2, 1, 2, 480, false, true},
    {"t2x2s2 128->64 @32", 1, 128, 32, 32, 64, 2, 2, 2, 2, 0, 1, true, true},
    {"t4x4s2 128->64 @32", 1, 128, 32, 32, 64, 4, 4, 2, 2, 1, 1, true, true},
    {"t2x2s2 24->24 @160", 1, 24, 160, 160, 24, 2, 2, 2, 2, 0, 1, true, true},
    {"t2x2s2 24->1 @320", 1, 24, 320, 320, 1, 2, 2, 2, 2, 0, 1, true, true},
};

ConvShape ShapeOf(const Layer& l) {
  ConvShape s;
  s.n = l.n, s.c = l.c, s.h = l.h, s.w = l.w, s.oc = l.oc, s.kh = l.kh, s.kw = l.kw, s.sh = l.sh, s.sw = l.sw;
  s.pt = s.pl = l.p, s.groups = l.groups, s.transposed = l.transposed, s.x_blocked = l.x_blocked;
  s.oh = l.transposed ? (l.h - 1) * l.sh + l.kh - 2 * l.p : (l.h + 2 * l.p - l.kh) / l.sh + 1;
  s.ow = l.transposed ? (l.w - 1) * l.sw + l.kw - 2 * l.p : (l.w + 2 * l.p - l.kw) / l.sw + 1;
  return s;
}

// In a model the weights of a layer come from beyond L2, for the other layers ran since: `cold` takes turns
// among copies that no cache near the cores holds. im2col reads NCHW images, as suits it best.
void BM_Conv(benchmark::State& state, const Layer& layer, int threads, bool cold, int winograd, bool im2col) {
  SetNumThreads(threads);
  ConvShape s = ShapeOf(layer);
  s.winograd = winograd;
  s.im2col = im2col;
  s.x_blocked &= !im2col;
  const ConvPlan plan = PlanConv(s);
  const auto blocked = [](int64_t c) { return (c + kC0 - 1) / kC0 * kC0; };
  std::vector<float> xv(static_cast<size_t>(s.n * blocked(s.c) * s.h * s.w)),
      w(static_cast<size_t>(s.c / s.groups * s.oc * s.kh * s.kw));
  Fill(xv, 37, 101);
  Fill(w, 53, 97);
  AlignedBuffer x(xv.size() * 4), workspace(plan.workspace_bytes);
  constexpr int64_t kColdBytes = 96 << 20;  // the weights of ResNet-50
  std::vector<AlignedBuffer> packed;
  for (int64_t b = 0; b < (cold ? kColdBytes : 1); b += plan.packed_floats * 4) {
    packed.emplace_back(static_cast<size_t>(plan.packed_floats) * 4);
    PackWeights(plan, w.data(), packed.back().as<float>());
  }
  AlignedBuffer y(static_cast<size_t>(s.n * blocked(s.oc) * s.oh * s.ow) * 4);
  std::copy(xv.begin(), xv.end(), x.as<float>());
  ConvArgs a;
  a.x = x.as<float>(), a.y = y.as<float>(), a.weights = packed[0].as<float>(), a.workspace = workspace.data();
  a.epilogue.act = RegAct::kRelu;
  RunConv(plan, a);
  if (!Verify(s, a.x, w, a.y)) return state.SkipWithError("wrong result");
  std::vector<double> times;
  size_t turn = 0;
  for (auto _ : state) {
    a.weights = packed[turn++ % packed.size()].as<float>();
    const double t0 = Now(threads);
    RunConv(plan, a);
    times.push_back(Now(threads) - t0);
    state.SetIterationTime(times.back());
  }
  const double t = *std::min_element(times.begin(), times.end());
  const double macs = static_cast<double>(s.n * s.oc * (s.c / s.groups) * s.kh * s.kw) *
                      static_cast<double>(s.transposed ? s.h * s.w : s.oh * s.ow);
  static const double peak = FmaPeak();
  state.SetLabel(plan.Describe());
  state.counters["us"] = t * 1e6;
  state.counters["workspace MiB"] = static_cast<double>(plan.workspace_bytes) / (1 << 20);
  state.counters["GFLOP/s"] = 2 * macs / t * 1e-9;
  state.counters["%peak"] = 100 * 2 * macs / t / (peak * threads);
  state.counters["GB/s"] = static_cast<double>(x.bytes() + y.bytes() + packed[0].bytes()) / t * 1e-9;
}

[[maybe_unused]] const bool registered = [] {
  for (const Layer& l : kLayers) {
    for (int variant = 0; variant < 12; ++variant) {
      const int threads = 1 + variant % 2, winograd = variant / 4 * 2;
      const bool cold = variant / 2 % 2 != 0;
      if (winograd != 0 && WinogradRefusal(ShapeOf(l))) continue;
      std::string name = l.name;
      if (winograd != 0) name += "/winograd" + std::to_string(winograd);
      if (winograd != 0 && ChooseWinograd(ShapeOf(l)) == winograd) name += "*";
      name += (cold ? "/cold" : "") + ("/threads:" + std::to_string(threads));
      benchmark::RegisterBenchmark(name.c_str(),
                                   [&l, threads, cold, winograd](benchmark::State& s) {
                                     BM_Conv(s, l, threads, cold, winograd, false);
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05);
    }
    if (l.transposed || l.groups != 1 || l.kh == 1) continue;
    for (const int threads : {1, 2}) {
      const std::string name = std::string(l.name) + "/im2col/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(
          name.c_str(), [&l, threads](benchmark::State& s) { BM_Conv(s, l, threads, false, 0, true); })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05);
    }
  }
  return true;
}();

}  // namespace
}  // namespace opsnn::conv
#endif
