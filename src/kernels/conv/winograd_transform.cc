// Winograd transforms of one tile: 1-D transforms along columns, then along rows, lanes are channels.
#include <algorithm>

#include "kernels/conv/act_pass.h"
#include "kernels/conv/winograd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/winograd_transform.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/epilogue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// Points of n = 6 and the coefficients that follow from them; all exact in f32.
constexpr float kP = 0.75f, kQ = 1.5f;
constexpr float kP2 = kP * kP, kQ2 = kQ * kQ;

// B' d, the n polynomials of the points' products; see MatricesOf.
template <int N>
HWY_INLINE void InputPoints(const V (&d)[N], V (&v)[N]) {
  const D t;
  if constexpr (N == 4) {
    v[0] = hn::Sub(d[2], d[0]);
    v[1] = hn::Add(d[2], d[1]);
    v[2] = hn::Sub(d[2], d[1]);
    v[3] = hn::Sub(d[3], d[1]);
  } else {
    const V sum = hn::Set(t, kP2 + kQ2), product = hn::Set(t, kP2 * kQ2);
    const V p2 = hn::Set(t, kP2), q2 = hn::Set(t, kQ2);
    v[0] = hn::MulAdd(product, d[0], hn::NegMulAdd(sum, d[2], d[4]));
    const V even_p = hn::NegMulAdd(q2, d[2], d[4]), odd_p = hn::NegMulAdd(q2, d[1], d[3]);
    v[1] = hn::MulAdd(hn::Set(t, kP), odd_p, even_p);
    v[2] = hn::NegMulAdd(hn::Set(t, kP), odd_p, even_p);
    const V even_q = hn::NegMulAdd(p2, d[2], d[4]), odd_q = hn::NegMulAdd(p2, d[1], d[3]);
    v[3] = hn::MulAdd(hn::Set(t, kQ), odd_q, even_q);
    v[4] = hn::NegMulAdd(hn::Set(t, kQ), odd_q, even_q);
    v[5] = hn::MulAdd(product, d[1], hn::NegMulAdd(sum, d[3], d[5]));
  }
}

// A' v.
template <int M, int N>
HWY_INLINE void OutputPoints(const V (&v)[N], V (&y)[M]) {
  const D t;
  const V sum_p = hn::Add(v[1], v[2]), diff_p = hn::Sub(v[1], v[2]);
  if constexpr (N == 4) {
    y[0] = hn::Add(v[0], sum_p);
    y[1] = hn::Add(diff_p, v[3]);
  } else if constexpr (M == 2) {
    const V sum_q = hn::Add(v[3], v[4]), diff_q = hn::Sub(v[3], v[4]);
    y[0] = hn::Add(v[0], hn::Add(sum_p, sum_q));
    y[1] = hn::MulAdd(hn::Set(t, kP), diff_p, hn::MulAdd(hn::Set(t, kQ), diff_q, v[5]));
  } else {
    const V sum_q = hn::Add(v[3], v[4]), diff_q = hn::Sub(v[3], v[4]);
    y[0] = hn::Add(v[0], hn::Add(sum_p, sum_q));
    y[1] = hn::MulAdd(hn::Set(t, kP), diff_p, hn::Mul(hn::Set(t, kQ), diff_q));
    y[2] = hn::MulAdd(hn::Set(t, kP2), sum_p, hn::Mul(hn::Set(t, kQ2), sum_q));
    y[3] = hn::MulAdd(hn::Set(t, kP2 * kP), diff_p, hn::MulAdd(hn::Set(t, kQ2 * kQ), diff_q, v[5]));
  }
}

template <int N>
void Input(const WinogradInput& in) {
  const D t;
  const bool inside = in.top >= 0 && in.left >= 0 && in.top + N <= in.h && in.left + N <= in.w;
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V half[N][N];
    for (int c = 0; c < N; ++c) {
      V d[N];
      const int64_t x = in.left + c;
      const float* const column = in.x + (in.top * in.w + x) * kC0 + lane;
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) {
        const bool there = inside || (in.top + r >= 0 && in.top + r < in.h && x >= 0 && x < in.w);
        d[r] = there ? hn::LoadU(t, column + r * in.w * kC0) : hn::Zero(t);
      }
      V v[N];
      InputPoints<N>(d, v);
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) half[r][c] = v[r];
    }
    for (int r = 0; r < N; ++r) {
      V v[N];
      InputPoints<N>(half[r], v);
#pragma GCC unroll 6
      for (int c = 0; c < N; ++c) hn::StoreU(v[c], t, in.v + (r * N + c) * in.point_stride + lane);
    }
  }
}

// Bias, residual and activation on m x m sums, then the part of them that lies in the image is stored.
template <int M>
HWY_INLINE void Finish(const WinogradOutput& out, int lane, V (&acc)[1][M * M]) {
  const D t;
  const V bias = out.bias ? hn::LoadU(t, out.bias + lane) : hn::Zero(t);
#pragma GCC unroll 16
  for (int i = 0; i < M * M; ++i) acc[0][i] = hn::Add(acc[0][i], bias);
  if (out.residual) {
    for (int r = 0; r < out.rows; ++r)
      for (int c = 0; c < out.cols; ++c) {
        const float* at = out.residual + r * out.row_stride + int64_t{c} * kC0 + lane;
        acc[0][r * M + c] = hn::Add(acc[0][r * M + c], hn::LoadU(t, at));
      }
  }
  ApplyInRegisters<1, M * M>(t, *out.post, acc);
  for (int r = 0; r < out.rows; ++r)
    for (int c = 0; c < out.cols; ++c) {
      hn::StoreU(acc[0][r * M + c], t, out.y + r * out.row_stride + int64_t{c} * kC0 + lane);
    }
}

// Sums of the tile straight from the definition, kC0 floats per output.
template <int M, int R, bool kSkips>
HWY_NOINLINE void PlainSums(const WinogradPlain& in, float* sums) {
  constexpr int N = M + R - 1;
  const D t;
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V acc[M * M];
#pragma GCC unroll 16
    for (int i = 0; i < M * M; ++i) acc[i] = hn::Zero(t);
    const float* w = in.weights + lane;
    HWY_ALIGN float pixels[N * N][kC0];
    [[maybe_unused]] bool padding[N * N];
    for (int64_t first = 0; first < in.channels; first += kC0) {
      const float* const plane = in.x + first / kC0 * in.plane;
      for (int i = 0; i < N * N; ++i) {
        const int64_t y = in.top + i / N, x = in.left + i % N;
        const bool inside = y >= 0 && y < in.h && x >= 0 && x < in.w;
        for (int k = 0; k < kC0; ++k) pixels[i][k] = inside ? plane[(y * in.w + x) * kC0 + k] : 0.0f;
        padding[i] = !inside;
      }
      const int channels = static_cast<int>(std::min<int64_t>(kC0, in.channels - first));
      for (int c = 0; c < channels; ++c)
        for (int tap = 0; tap < R * R; ++tap, w += kC0) {
          const V weight = hn::LoadU(t, w);
          const int first_pixel = tap / R * N + tap % R;
          const float(*const at)[kC0] = pixels + first_pixel;
#pragma GCC unroll 16
          for (int i = 0; i < M * M; ++i)
            if (!kSkips || !padding[first_pixel + i / M * N + i % M])
              acc[i] = hn::MulAdd(weight, hn::Set(t, at[i / M * N + i % M][c]), acc[i]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < M * M; ++i) hn::Store(acc[i], t, sums + i * kC0 + lane);
  }
}

void Magnitudes(const float* x, int64_t plane, int64_t channels, int64_t pixels, float* out) {
  const D t;
  for (int64_t p = 0; p < pixels; ++p) {
    V most = hn::Zero(t);
    for (int64_t c = 0; c < channels; c += kLanes) {  // lanes behind the last channel hold anything
      V v = hn::Abs(hn::LoadU(t, x + c / kC0 * plane + p * kC0 + c % kC0));
      if (channels - c < kLanes) v = hn::IfThenElseZero(hn::FirstN(t, static_cast<size_t>(channels - c)), v);
      most = hn::Max(most, v);
    }
    out[p] = hn::GetLane(hn::MaxOfLanes(t, most));
  }
}

template <int M, int R>
void Output(const WinogradOutput& out) {
  constexpr int N = M + R - 1;
  const D t;
  V not_finite = hn::Zero(t);  // sticks at NaN
  HWY_ALIGN float sums[M * M * kC0];
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V half[M][N];
    for (int c = 0; c < N; ++c) {
      V v[N], y[M];
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) v[r] = hn::LoadU(t, out.v + (r * N + c) * out.point_stride + lane);
      OutputPoints<M, N>(v, y);
#pragma GCC unroll 4
      for (int r = 0; r < M; ++r) half[r][c] = y[r];
    }
    for (int r = 0; r < M; ++r) {
      V y[M];
      OutputPoints<M, N>(half[r], y);
#pragma GCC unroll 4
      for (int c = 0; c < M; ++c) {
        not_finite = hn::MulAdd(y[c], hn::Zero(t), not_finite);
        hn::Store(y[c], t, sums + (r * M + c) * kC0 + lane);
      }
    }
  }
  if (HWY_UNLIKELY(out.plain || !hn::AllTrue(t, hn::Eq(not_finite, hn::Zero(t))))) {
    PlainSums<M, R, false>(out.sums, sums);
    // Weights that are not finite must not meet padding.
    if (!std::all_of(sums, sums + M * M * kC0, [](float v) { return v - v == 0; }))
      PlainSums<M, R, true>(out.sums, sums);
  }
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V acc[1][M * M];
#pragma GCC unroll 16
    for (int i = 0; i < M * M; ++i) acc[0][i] = hn::Load(t, sums + i * kC0 + lane);
    Finish<M>(out, lane, acc);
  }
}

void InputOf4(const WinogradInput& in) { Input<4>(in); }
void InputOf6(const WinogradInput& in) { Input<6>(in); }
void Output2By3(const WinogradOutput& out) { Output<2, 3>(out); }
void Output4By3(const WinogradOutput& out) { Output<4, 3>(out); }
void Output2By5(const WinogradOutput& out) { Output<2, 5>(out); }

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(InputOf4);
OPSNN_TIER_TABLE(InputOf6);
OPSNN_TIER_TABLE(Output2By3);
OPSNN_TIER_TABLE(Output4By3);
OPSNN_TIER_TABLE(Output2By5);
OPSNN_TIER_TABLE(Magnitudes);
void PixelMagnitudes(const float* x, int64_t plane, int64_t channels, int64_t pixels, float* out) {
  OPSNN_TIER_CALL(Magnitudes)(x, plane, channels, pixels, out);
}
void TransformInput(int n, const WinogradInput& in) {
  n == 4 ? OPSNN_TIER_CALL(InputOf4)(in) : OPSNN_TIER_CALL(InputOf6)(in);
}
void TransformOutput(int m, int r, const WinogradOutput& out) {
  if (r == 5) return OPSNN_TIER_CALL(Output2By5)(out);
  m == 2 ? OPSNN_TIER_CALL(Output2By3)(out) : OPSNN_TIER_CALL(Output4By3)(out);
}
}  // namespace opsnn::conv
#endif
