// The first call on a shape against warm ones: constant weights are packed beforehand, everything else
// (blocking, path, cut, scratch memory) happens in the call.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/peers/case.h"
#include "bench/peers/turns.h"
#include "device/profile.h"
#include "isa/tier.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/peak.h"
#include "plan/gemm_blocking.h"

namespace opsnn::peers {
namespace {

struct Product {
  int64_t m, n, k;
};
constexpr Product kProducts[] = {{256, 256, 256}, {512, 512, 512}, {128, 3072, 768}, {1024, 1024, 1024}};
constexpr int kShapes = 25, kWarmRuns = 5;

gemm::Blocking Plan(int64_t m, int64_t n, int64_t k) {
  const device::DeviceProfile& host = device::HostProfileUnmeasured();
  const gemm::MicroTile tile = gemm::TileFor(isa::ActiveTier());
  const plan::GemmBlocking g =
      plan::PlanGemmBlocking({m, n, k, 1, sizeof(float), true}, {tile.mr, tile.nr, gemm::StepCycles()}, host);
  gemm::Blocking b;
  b.mc = g.mc, b.kc = g.kc;
  b.direct_floats = static_cast<int64_t>(host.l1_bytes()) / 8 * 7 / static_cast<int64_t>(sizeof(float));
  return b;
}

// Rows are taken off one by one, so that every first call has a shape of its own.
void Measure(const Product& s, int threads) {
  const auto floats = [](int64_t n) {
    AlignedBuffer b(static_cast<size_t>(n) * sizeof(float));
    std::fill_n(b.as<float>(), n, 0.5f);
    return b;
  };
  const AlignedBuffer a = floats(s.m * s.k), w = floats(s.k * s.n), y = floats(s.m * s.n);
  gemm::Params p;
  p.n = s.n, p.k = s.k;
  p.a = {a.data(), DType::kF32, s.k, 1, 0};
  p.b = {w.data(), DType::kF32, s.n, 1, 0};
  p.c = y.as<float>(), p.c_row_stride = s.n;
  p.epilogue.act = vector::RegAct::kRelu;
  const std::shared_ptr<const gemm::PackedB> packed = gemm::PackB(p.b, s.k, s.n, 1, Plan(s.m, s.n, s.k));
  p.packed_b = packed.get();
  std::vector<double> ratios, firsts, plans;
  for (int i = 0; i < kShapes; ++i) {
    p.m = s.m - i;
    const double t0 = Now();
    p.blocking = Plan(p.m, p.n, p.k);
    plans.push_back(Now() - t0);
    gemm::Run(p);
    firsts.push_back(Now() - t0);
    std::vector<double> warm;
    for (int r = 0; r < kWarmRuns; ++r) {
      const double t1 = Now();
      gemm::Run(p);
      warm.push_back(Now() - t1);
    }
    ratios.push_back(firsts.back() / Median(warm));
  }
  std::printf(
      "f32 %lldx%lldx%lld first call %dT  process's first %8.1f us (%.2f of warm)  new shape %8.1f us "
      "(%.2f, worst %.2f)  blocking %.2f us\n",
      static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k), threads,
      firsts[0] * 1e6, ratios[0], Median(firsts) * 1e6, Median(ratios),
      *std::max_element(ratios.begin() + 1, ratios.end()), Median(plans) * 1e6);
}

}  // namespace

void MeasureFirstCalls(int threads) {
  SetNumThreads(threads);
  for (const Product& s : kProducts) Measure(s, threads);
}

}  // namespace opsnn::peers
