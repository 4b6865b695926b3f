// When Winograd pays, its matrices, and packing.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/candidates.h"
#include "kernels/conv/winograd.h"

namespace opsnn::conv {
namespace {

// A polynomial by ascending powers, times (x - root).
std::vector<double> TimesRoot(const std::vector<double>& p, double root) {
  std::vector<double> r(p.size() + 1, 0.0);
  for (size_t i = 0; i < p.size(); ++i) {
    r[i + 1] += p[i];
    r[i] -= root * p[i];
  }
  return r;
}

// U = G g G' of one kernel in double, to be rounded once. N is known so that the loops unroll.
template <int N, int R>
void TransformWeights(const double* t, const float* g, double* u) {
  double half[N][R];
  for (int i = 0; i < N; ++i)
    for (int c = 0; c < R; ++c) {
      half[i][c] = t[i * R] * g[c];
      for (int k = 1; k < R; ++k) half[i][c] += t[i * R + k] * g[k * R + c];
    }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = half[i][0] * t[j * R];
      for (int k = 1; k < R; ++k) sum += half[i][k] * t[j * R + k];
      u[i * N + j] = sum;
    }
}

void TransformWeights(const WinogradMatrices& t, const float* g, double* u) {
  if (t.r == 5) return TransformWeights<6, 5>(t.weights, g, u);
  t.m == 2 ? TransformWeights<4, 3>(t.weights, g, u) : TransformWeights<6, 3>(t.weights, g, u);
}

int64_t Taps(const ConvShape& s) { return s.kh * s.kw; }
int64_t Points(const ConvShape& s, int m) {
  const int64_t n = WinogradTileSide(s, m);
  return n * n;
}

// Cycles per vector of kC0 lanes and point that a transform takes, stores into L2 included. Measured.
constexpr double kInputCycles = 4, kOutputCycles = 3;
// Shares of the multiply-add peak: long sums of the direct form, the short ones of the points.
constexpr double kDirectShare = 0.93, kPointShare = 0.85;
// Transformed weights that do not stay in L2 arrive at so many bytes a cycle.
constexpr double kResidentBytes = 1 << 20, kStreamBytes = 4.5;
// The direct form is kept unless the gain is at least this: its error is smaller.
constexpr double kLeastGain = 0.12;

double LanesOf(isa::Tier tier) { return tier == isa::Tier::kAvx512 ? 16 : tier == isa::Tier::kAvx2 ? 8 : 4; }

double DirectCycles(const ConvShape& s, double rate) {
  return static_cast<double>(s.n * s.oh * s.ow) * static_cast<double>(s.c * CeilDiv(s.oc, kC0) * kC0) *
         static_cast<double>(Taps(s)) / (rate * kDirectShare);
}

double WinogradCycles(const ConvShape& s, int m, double rate) {
  const double points = static_cast<double>(Points(s, m));
  const double tiles = static_cast<double>(s.n * CeilDiv(s.oh, m) * CeilDiv(s.ow, m));
  const double blocks_in = static_cast<double>(CeilDiv(s.c, kC0)),
               blocks_out = static_cast<double>(CeilDiv(s.oc, kC0));
  const double products = points * tiles * static_cast<double>(s.c) * blocks_out * kC0 / (rate * kPointShare);
  const double transforms =
      tiles * points * (blocks_in * kInputCycles + blocks_out * kOutputCycles) * (2 * kC0 / rate);
  const double bytes = points * static_cast<double>(s.c) * blocks_out * kC0 * sizeof(float);
  const double points_bytes = tiles * points * (blocks_in + blocks_out) * kC0 * sizeof(float);
  const double passes =
      std::ceil(points_bytes / static_cast<double>(WinogradChunkBytes(static_cast<int64_t>(bytes))));
  return std::max(products, bytes > kResidentBytes ? passes * bytes / kStreamBytes : 0.0) + transforms;
}

}  // namespace

const char* WinogradRefusal(const ConvShape& s) {
  if (s.transposed || s.kh != s.kw || (s.kh != 3 && s.kh != 5)) return "not a 3x3 or 5x5 kernel";
  if (s.kh == 5 && s.winograd == 4) return "a 5x5 kernel has tiles of 2x2";
  if (s.sh != 1 || s.sw != 1) return "stride above 1";
  if (s.dh != 1 || s.dw != 1) return "dilation above 1";
  if (s.groups != 1) return "groups";
  if (!s.flat()) return "more than one slice";
  return nullptr;
}

double PredictedCycles(const ConvShape& s, int m) {
  constexpr double kFmaPerCycle = 2;
  const double rate = kFmaPerCycle * LanesOf(isa::ActiveTier());
  return m == 0 ? DirectCycles(s, rate) : WinogradCycles(s, m, rate);
}

int ChooseWinograd(const ConvShape& s) {
  if (WinogradRefusal(s) || s.n == 0 || s.c == 0 || s.oc == 0 || s.oh == 0 || s.ow == 0) return 0;
  const double direct = PredictedCycles(s, 0), two = PredictedCycles(s, 2),
               four = s.kh == 3 ? PredictedCycles(s, 4) : direct;
  if (std::min(two, four) > direct * (1 - kLeastGain)) return 0;
  return two < four ? 2 : 4;
}

WinogradMatrices MatricesOf(int m, int r) {
  WinogradMatrices t;
  t.m = m, t.r = r, t.n = m + r - 1;
  const std::vector<double> points =
      t.n == 4 ? std::vector<double>{0, 1, -1} : std::vector<double>{0, 0.75, -0.75, 1.5, -1.5};
  const int finite = t.n - 1;
  std::vector<double> all{1.0};
  for (double p : points) all = TimesRoot(all, p);
  for (int i = 0; i < finite; ++i) {
    std::vector<double> poly{1.0};
    double norm = 1;
    for (int j = 0; j < finite; ++j) {
      if (j == i) continue;
      poly = TimesRoot(poly, points[static_cast<size_t>(j)]);
      norm *= points[static_cast<size_t>(i)] - points[static_cast<size_t>(j)];
    }
    for (size_t k = 0; k < poly.size(); ++k) t.in[i * t.n + static_cast<int>(k)] = poly[k];
    double power = 1;
    for (int k = 0; k < std::max(m, r); ++k, power *= points[static_cast<size_t>(i)]) {
      if (k < m) t.out[k * t.n + i] = power;
      if (k < r) t.weights[i * r + k] = power / norm;
    }
  }
  for (size_t k = 0; k < all.size(); ++k) t.in[finite * t.n + static_cast<int>(k)] = all[k];
  t.weights[finite * r + r - 1] = 1;
  t.out[(m - 1) * t.n + finite] = 1;
  return t;
}

double WinogradGrowth(int m, int r, int64_t channels) {
  const WinogradMatrices t = MatricesOf(m, r);
  double worst = 0;  // of one dimension: the largest |A'| (|G| e_k) (|B'| 1)
  for (int i = 0; i < m; ++i)
    for (int k = 0; k < r; ++k) {
      double sum = 0;
      for (int p = 0; p < t.n; ++p) {
        double row = 0;
        for (int j = 0; j < t.n; ++j) row += std::abs(t.in[p * t.n + j]);
        sum += std::abs(t.out[i * t.n + p] * t.weights[p * r + k]) * row;
      }
      worst = std::max(worst, sum);
    }
  // Six roundings on the way through the transforms of two dimensions and of the weights, and the sum.
  constexpr double kTransformRoundings = 6;
  return worst * worst * (2 * std::sqrt(static_cast<double>(channels)) + 4 + kTransformRoundings);
}

void LayOutWinograd(ConvPlan* plan) {
  const int64_t points = Points(plan->shape, plan->shape.winograd);
  for (int64_t p = 0; p < points; ++p)
    for (OcGroup& g : plan->oc_groups) {
      g.weight_offset.push_back(plan->packed_floats);
      plan->packed_floats += plan->shape.c * g.blocks * kC0;
    }
  plan->packed_floats += CeilDiv(plan->shape.oc, kC0) * kC0 * plan->shape.c * Taps(plan->shape);
}

int64_t WinogradMagnitudeFloats(const ConvShape& s) {
  const int64_t tiles = s.n * CeilDiv(s.oh, s.winograd) * CeilDiv(s.ow, s.winograd);
  return s.n * s.h * s.w + CeilDiv(tiles, static_cast<int64_t>(sizeof(float)));
}

void PackWinograd(const ConvPlan& plan, const float* w, float* packed) {
  const ConvShape& s = plan.shape;
  const WinogradMatrices t = MatricesOf(s.winograd, static_cast<int>(s.kh));
  const int64_t taps = Taps(s);
  const int points = t.n * t.n;
  const int64_t blocks = CeilDiv(s.oc, kC0);
  float* const plain = packed + plan.packed_floats - blocks * kC0 * s.c * taps;
  ParallelFor(static_cast<int64_t>(plan.oc_groups.size()), [&](int64_t i, int) {
    const OcGroup& g = plan.oc_groups[static_cast<size_t>(i)];
    const int64_t lanes = g.blocks * kC0;
    double u[36];
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t o = g.block * kC0 + l;
      for (int64_t c = 0; c < s.c; ++c) {
        const float* from = w + (o * s.c + c) * taps;
        const bool real = o < s.oc;
        if (real) TransformWeights(t, from, u);
        for (int p = 0; p < points; ++p)
          packed[g.weight_offset[static_cast<size_t>(p)] + c * lanes + l] =
              real ? static_cast<float>(u[p]) : 0.0f;
        float* to = plain + (o / kC0 * s.c + c) * taps * kC0 + o % kC0;
        for (int64_t tap = 0; tap < taps; ++tap) to[tap * kC0] = real ? from[tap] : 0.0f;
      }
    }
  });
}

}  // namespace opsnn::conv
