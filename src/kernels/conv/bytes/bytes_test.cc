#include "kernels/conv/bytes/bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::FuzzFor;
using testing::Rng;

constexpr size_t kGuard = 64;
constexpr uint8_t kMark = 0xA7;

struct Case {
  ByteConvShape s;
  std::vector<int8_t> w;
  std::vector<float> scale, bias;
  std::vector<uint8_t> x;  // logical NCHW
  ByteRescale rescale;
};

std::string Show(const ByteConvShape& s) {
  return StrFormat(
      "n%d c%d %dx%d k%dx%d s%dx%d d%dx%d p%dx%d -> %d %dx%d depthwise %d blocked %d %s to %s zero %d",
      int(s.n), int(s.c), int(s.h), int(s.w), int(s.kh), int(s.kw), int(s.sh), int(s.sw), int(s.dh),
      int(s.dw), int(s.pt), int(s.pl), int(s.m), int(s.oh), int(s.ow), s.depthwise, s.x_blocked,
      Name(s.x_dtype), Name(s.y_dtype), s.x_zero);
}

int Value(DType t, uint8_t x) { return t == DType::kS8 ? static_cast<int8_t>(x) : x; }

ByteConvShape RandomShape(Rng& rng) {
  ByteConvShape s;
  s.n = rng.Int(1, 2);
  s.depthwise = rng.Chance(0.4);
  s.x_blocked = s.depthwise || rng.Chance(0.7);
  s.c = s.x_blocked ? rng.Int(1, 100) : rng.Int(1, 4);
  s.m = s.depthwise ? s.c : rng.Int(1, 110);
  s.h = rng.Int(1, 18), s.w = rng.Int(1, 33);
  s.kh = rng.Chance(0.4) ? 1 : rng.Int(1, 5), s.kw = rng.Chance(0.8) ? s.kh : rng.Int(1, 5);
  s.sh = rng.Int(1, 2), s.sw = rng.Chance(0.8) ? s.sh : rng.Int(1, 3);
  if (rng.Chance(0.2)) s.dh = rng.Int(1, 2), s.dw = rng.Int(1, 3);
  const auto out = [&rng](int64_t* in, int64_t* pad, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t extent = (kernel - 1) * dilation + 1;
    *pad = rng.Chance(0.4) ? 0 : rng.Int(0, kernel - 1);
    *in = std::max(*in, extent - *pad);
    return (*in + *pad + rng.Int(0, *pad) - extent) / stride + 1;
  };
  s.oh = out(&s.h, &s.pt, s.kh, s.sh, s.dh), s.ow = out(&s.w, &s.pl, s.kw, s.sw, s.dw);
  s.x_dtype = rng.Chance(0.6) ? DType::kU8 : DType::kS8,
  s.y_dtype = rng.Chance(0.6) ? DType::kU8 : DType::kS8;
  s.x_zero = static_cast<int32_t>(rng.Int(0, 255)) - (s.x_dtype == DType::kS8 ? 128 : 0);
  return s;
}

Case RandomCase(Rng& rng) {
  Case k{RandomShape(rng), {}, {}, {}, {}, {}};
  const ByteConvShape& s = k.s;
  for (int64_t i = 0; i < s.m * s.depth(); ++i) k.w.push_back(static_cast<int8_t>(rng.Int(-128, 127)));
  for (int64_t i = 0; i < s.m; ++i) {
    k.scale.push_back(static_cast<float>(rng.Real(0.0005, 0.002)));
    k.bias.push_back(static_cast<float>(rng.Real(-5, 5)));
  }
  for (int64_t i = 0; i < s.n * s.c * s.h * s.w; ++i) k.x.push_back(static_cast<uint8_t>(rng.Int(0, 255)));
  k.rescale.terms = ByteTerms(s, k.w.data());
  k.rescale.scale = KernelOrder(s, k.scale), k.rescale.bias = KernelOrder(s, k.bias);
  k.rescale.high = 3.0f, k.rescale.low = 1e-7f;
  const int least = s.y_dtype == DType::kS8 ? -128 : 0;
  k.rescale.zero = static_cast<int32_t>(least + rng.Int(0, 255));
  k.rescale.lo = least, k.rescale.hi = least + 255;
  if (rng.Chance(0.3))
    k.rescale.lo = static_cast<int32_t>(least + rng.Int(0, 200)), k.rescale.hi = k.rescale.lo + 50;
  return k;
}

int Expected(const Case& k, int64_t n, int64_t m, int64_t y, int64_t x) {
  const ByteConvShape& s = k.s;
  int64_t sum = 0;
  const int64_t channels = s.depthwise ? 1 : s.c;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t ky = 0; ky < s.kh; ++ky)
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        const int64_t iy = y * s.sh - s.pt + ky * s.dh, ix = x * s.sw - s.pl + kx * s.dw;
        if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
        const int64_t from = s.depthwise ? m : c;
        const int v = Value(s.x_dtype, k.x[static_cast<size_t>(((n * s.c + from) * s.h + iy) * s.w + ix)]);
        sum += (v - s.x_zero) * int{k.w[static_cast<size_t>(((m * channels + c) * s.kh + ky) * s.kw + kx)]};
      }
  const float real =
      static_cast<float>(sum) * k.scale[static_cast<size_t>(m)] + k.bias[static_cast<size_t>(m)];
  const float q = std::nearbyint(std::fma(real, k.rescale.high, real * k.rescale.low));
  return std::clamp(static_cast<int>(q) + k.rescale.zero, k.rescale.lo, k.rescale.hi);
}

// NC1HWC0 with padding lanes that must not matter.
std::vector<uint8_t> Stored(const ByteConvShape& s, const std::vector<uint8_t>& x, Rng& rng) {
  if (!s.x_blocked) return x;
  const int64_t blocks = CeilDiv(s.c, kByteC0), pixels = s.h * s.w;
  std::vector<uint8_t> to(static_cast<size_t>(s.n * blocks * pixels * kByteC0));
  for (uint8_t& v : to) v = static_cast<uint8_t>(rng.Int(0, 255));
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t c = 0; c < s.c; ++c)
      for (int64_t p = 0; p < pixels; ++p)
        to[static_cast<size_t>(((n * blocks + c / kByteC0) * pixels + p) * kByteC0 + c % kByteC0)] =
            x[static_cast<size_t>((n * s.c + c) * pixels + p)];
  return to;
}

void Check(const Case& k, Rng& rng) {
  const ByteConvShape& s = k.s;
  const std::vector<uint8_t> x = Stored(s, k.x, rng);
  const auto w = PackByteWeights(s, k.w.data());
  ASSERT_TRUE(w);
  const int64_t blocks = CeilDiv(s.m, kByteC0), pixels = s.oh * s.ow;
  std::vector<uint8_t> y(static_cast<size_t>(s.n * blocks * pixels * kByteC0) + kGuard, kMark);
  AlignedBuffer workspace(ByteConvWorkspace(s) + 1);
  RunByteConv(s, w->as<uint8_t>(), k.rescale, x.data(), workspace.data(), y.data());
  EXPECT_TRUE(std::all_of(y.end() - kGuard, y.end(), [](uint8_t b) { return b == kMark; })) << Show(s);
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t m = 0; m < s.m; ++m)
      for (int64_t p = 0; p < pixels; ++p) {
        const uint8_t got =
            y[static_cast<size_t>(((n * blocks + m / kByteC0) * pixels + p) * kByteC0 + m % kByteC0)];
        ASSERT_EQ(Value(s.y_dtype, got), Expected(k, n, m, p / s.ow, p % s.ow))
            << Show(s) << " at " << n << " " << m << " " << p;
      }
}

TEST(ByteConv, AgreesWithItsDefinition) {
  if (ByteConvRefusal({})) return;
  Rng rng;
  for (auto _ : FuzzFor(1500)) {
    (void)_;
    Check(RandomCase(rng), rng);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Enough work for several threads: cut by lines, by channels, and both.
TEST(ByteConv, LargeOnesByThreads) {
  if (ByteConvRefusal({})) return;
  Rng rng;
  ByteConvShape list[4];
  list[0] = {1, 64, 30, 30, 64, 30, 30, 3, 3, 1, 1, 1, 1, 1, 1};
  list[1] = {1, 300, 7, 7, 200, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1};
  list[2] = {2, 130, 20, 20, 90, 20, 20};
  list[3] = {1, 96, 90, 120, 96, 45, 60, 3, 3, 2, 2, 1, 1, 1, 1, true};
  for (const ByteConvShape& s : list) {
    Case k = RandomCase(rng);
    const DType x = k.s.x_dtype, y = k.s.y_dtype;
    const int32_t zero = k.s.x_zero;
    k.s = s, k.s.x_dtype = x, k.s.y_dtype = y, k.s.x_zero = zero;
    k.w.resize(static_cast<size_t>(s.m * s.depth())), k.x.resize(static_cast<size_t>(s.n * s.c * s.h * s.w));
    for (int8_t& v : k.w) v = static_cast<int8_t>(rng.Int(-128, 127));
    for (uint8_t& v : k.x) v = static_cast<uint8_t>(rng.Int(0, 255));
    k.scale.assign(static_cast<size_t>(s.m), 0.001f), k.bias.assign(static_cast<size_t>(s.m), 0.5f);
    k.rescale.terms = ByteTerms(k.s, k.w.data());
    k.rescale.scale = KernelOrder(k.s, k.scale), k.rescale.bias = KernelOrder(k.s, k.bias);
    Check(k, rng);
    const ScopedThreadLimit one(1);
    Check(k, rng);
  }
}

}  // namespace
}  // namespace opsnn::conv
