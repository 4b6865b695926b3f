#include "kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/buffer.h"
#include "base/parallel.h"
#include "testing/testing.h"
#include "vector/streaming.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// An f32 image in either layout with guard values around it; padding lanes start as NaN.
struct Image {
  Image(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w, bool blocked)
      : n(n), c(c), d(d), h(h), w(w), blocked(blocked) {
    const int64_t lanes = blocked ? CeilDiv(c, kC0) * kC0 : c;
    data.assign(static_cast<size_t>(n * lanes * d * h * w) + 2 * kGuard, kNan);
    for (int i = 0; i < kGuard; ++i) data[i] = data[data.size() - 1 - i] = kGuardValue;
  }
  float* ptr() { return data.data() + kGuard; }
  float& At(int64_t in, int64_t ic, int64_t z, int64_t y, int64_t x) {
    const int64_t at = (z * h + y) * w + x, size = d * h * w;
    if (!blocked) return ptr()[(in * c + ic) * size + at];
    return ptr()[((in * CeilDiv(c, kC0) + ic / kC0) * size + at) * kC0 + ic % kC0];
  }
  void Fill(Rng& rng) {
    ForEach([&](float& v, int64_t) { v = static_cast<float>(rng.Real(-1, 1)); });
  }
  template <typename Fn>
  void ForEach(Fn&& fn) {  // in NCHW order
    int64_t i = 0;
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < c; ++b)
        for (int64_t z = 0; z < d; ++z)
          for (int64_t y = 0; y < h; ++y)
            for (int64_t x = 0; x < w; ++x) fn(At(a, b, z, y, x), i++);
  }
  std::vector<double> Get() {
    std::vector<double> out;
    ForEach([&](float& v, int64_t) { out.push_back(v); });
    return out;
  }
  bool GuardsIntact() const {
    for (int i = 0; i < kGuard; ++i)
      if (data[i] != kGuardValue || data[data.size() - 1 - i] != kGuardValue) return false;
    return true;
  }
  static constexpr int kGuard = 64;
  static constexpr float kGuardValue = 12345.0f;
  int64_t n, c, d, h, w;
  bool blocked;
  std::vector<float> data;
};

// Sums and sums of magnitudes in double, straight from the definition (scatter form for transposed).
void Reference(const ConvShape& s, Image& x, const std::vector<float>& w, std::vector<double>* sum,
               std::vector<double>* abs_sum) {
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, taps = s.taps();
  sum->assign(static_cast<size_t>(s.n * s.oc * s.out_plane()), 0.0);
  abs_sum->assign(sum->size(), 0.0);
  const auto in = [](int64_t at, int64_t size) { return at >= 0 && at < size; };
  const auto add = [&](int64_t n, int64_t o, int64_t oz, int64_t oy, int64_t ox, double product) {
    const size_t at = static_cast<size_t>((((n * s.oc + o) * s.od + oz) * s.oh + oy) * s.ow + ox);
    (*sum)[at] += product;
    (*abs_sum)[at] += std::fabs(product);
  };
  const int64_t slices = s.transposed ? s.d : s.od, rows = s.transposed ? s.h : s.oh,
                cols = s.transposed ? s.w : s.ow;
  // One weight: the channels and kernel position of which are given.
  const auto weight = [&](int64_t n, int64_t c, int64_t o, int64_t kz, int64_t ky, int64_t kx, double wv) {
    for (int64_t h = 0; h < slices; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
          const int64_t fz = h * s.sd - s.pf + kz * s.dd, fy = i * s.sh - s.pt + ky * s.dh,
                        fx = j * s.sw - s.pl + kx * s.dw;
          if (s.transposed) {
            if (in(fz, s.od) && in(fy, s.oh) && in(fx, s.ow)) add(n, o, fz, fy, fx, wv * x.At(n, c, h, i, j));
          } else if (in(fz, s.d) && in(fy, s.h) && in(fx, s.w)) {
            add(n, o, h, i, j, wv * x.At(n, c, fz, fy, fx));
          }
        }
  };
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t g = 0; g < s.groups; ++g)
      for (int64_t o = 0; o < og; ++o)
        for (int64_t c = 0; c < cg; ++c)
          for (int64_t tap = 0; tap < taps; ++tap) {
            const double wv = s.transposed ? w[((g * cg + c) * og + o) * taps + tap]
                                           : w[((g * og + o) * cg + c) * taps + tap];
            weight(n, g * cg + c, g * og + o, tap / (s.kh * s.kw), tap / s.kw % s.kh, tap % s.kw, wv);
          }
}

double ActRef(RegAct act, double v, const float* imm) {
  switch (act) {
    case RegAct::kRelu:
      return std::max(v, 0.0);
    case RegAct::kClip:
      return std::min<double>(std::max<double>(v, imm[0]), imm[1]);
    case RegAct::kHardSwish:
      return v * std::min(1.0, std::max(0.0, imm[0] * v + imm[1]));
    case RegAct::kSigmoid:
      return 1 / (1 + std::exp(-v));
    default:
      return v;
  }
}

struct Options {
  bool bias = false, residual = false, in_place = false, affine = false;
  RegAct act = RegAct::kNone;
  bool special = false;  // infinities and NaN among the weights, an infinity in the input
};

std::string Show(const ConvShape& s) {
  return StrFormat("n%d c%d %dx%dx%d -> %d %dx%dx%d k%dx%dx%d s%dx%dx%d d%dx%dx%d p%d,%d,%d g%d %s x%d y%d",
                   int(s.n), int(s.c), int(s.d), int(s.h), int(s.w), int(s.oc), int(s.od), int(s.oh),
                   int(s.ow), int(s.kd), int(s.kh), int(s.kw), int(s.sd), int(s.sh), int(s.sw), int(s.dd),
                   int(s.dh), int(s.dw), int(s.pf), int(s.pt), int(s.pl), int(s.groups),
                   s.transposed ? "transposed" : "", s.x_blocked, s.y_blocked);
}

// Runs on 1 and 2 threads, which must agree bit by bit, and against the reference.
void CheckConv(const ConvShape& s, const Options& o, Rng& rng) {
  const ConvPlan plan = PlanConv(s);
  SCOPED_TRACE(Show(s) + " [" + plan.Describe() + "] " + (o.bias ? "bias " : "") +
               (o.residual ? "residual " : "") + "act " + std::to_string(int(o.act)));
  Image x(s.n, s.c, s.d, s.h, s.w, s.x_blocked), residual(s.n, s.oc, s.od, s.oh, s.ow, s.y_blocked);
  x.Fill(rng);
  residual.Fill(rng);
  std::vector<float> w(static_cast<size_t>(s.oc * s.c / s.groups * s.taps())),
      bias(static_cast<size_t>(s.oc));
  for (float& v : w) v = static_cast<float>(rng.Real(-1, 1));
  for (float& v : bias) v = static_cast<float>(rng.Real(-1, 1));
  if (o.special) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const float specials[] = {kInf, -kInf, kInf, kNan};
    const auto some = [&rng](size_t count) { return static_cast<size_t>(rng.Int(0, int64_t(count) - 1)); };
    for (int i = 0; i < 3; ++i) w[some(w.size())] = specials[some(4)];
    if (rng.Chance(0.5))
      x.At(rng.Int(0, s.n - 1), rng.Int(0, s.c - 1), rng.Int(0, s.d - 1), rng.Int(0, s.h - 1),
           rng.Int(0, s.w - 1)) = -kInf;
  }
  std::vector<float> packed(static_cast<size_t>(plan.packed_floats) + 16, Image::kGuardValue);
  PackWeights(plan, w.data(), packed.data());
  EXPECT_EQ(packed[static_cast<size_t>(plan.packed_floats)], Image::kGuardValue);

  std::vector<double> first;
  Image y(s.n, s.oc, s.od, s.oh, s.ow, s.y_blocked);
  for (int threads = 1; threads <= 2; ++threads) {
    SetNumThreads(threads);
    y = Image(s.n, s.oc, s.od, s.oh, s.ow, s.y_blocked);
    if (o.residual && o.in_place) y.data = residual.data;
    std::vector<char> workspace(plan.workspace_bytes + 64);
    ConvArgs a;
    a.x = x.ptr();
    a.weights = packed.data();
    a.y = y.ptr();
    a.residual = o.residual ? (o.in_place ? y.ptr() : residual.ptr()) : nullptr;
    a.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
    a.epilogue.bias = o.bias ? bias.data() : nullptr;
    a.epilogue.act = o.act;
    a.epilogue.act_imm[0] = o.act == RegAct::kHardSwish ? 1.0f / 6 : -0.5f;
    a.epilogue.act_imm[1] = 0.5f;
    if (o.affine) a.affine = true, a.scale = -0.75f, a.shift = 0.5f;
    RunConv(plan, a);
    EXPECT_TRUE(y.GuardsIntact());
    if (threads == 1) first = y.Get();
    std::vector<double> again = y.Get();
    ASSERT_TRUE(again.empty() || std::memcmp(again.data(), first.data(), again.size() * sizeof(double)) == 0);
    if (o.residual && o.in_place) continue;
    a.weights = nullptr, a.plain_weights = w.data(), a.packing = packed.data();  // packed during the run
    RunConv(plan, a);
    again = y.Get();
    ASSERT_TRUE(again.empty() || std::memcmp(again.data(), first.data(), again.size() * sizeof(double)) == 0);
  }
  SetNumThreads(0);
  const std::vector<double> got = y.Get();

  std::vector<double> want, magnitude;
  Reference(s, x, w, &want, &magnitude);
  const float imm[2] = {o.act == RegAct::kHardSwish ? 1.0f / 6 : -0.5f, 0.5f};
  const std::vector<double> res = residual.Get();
  const int64_t k = s.c / s.groups * s.taps();
  std::vector<double> tolerance(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(s.out_plane()) % static_cast<size_t>(s.oc);
    double m = magnitude[i];
    if (o.bias) want[i] += bias[channel], m += std::fabs(bias[channel]);
    if (o.residual) want[i] += res[i], m += std::fabs(res[i]);
    // HardSwish has slope up to 1.5 and rounds three more times.
    const double slope = o.act == RegAct::kHardSwish ? 1.5 : 1.0;
    tolerance[i] = slope * testing::ContractionTolerance(m, want[i], k + 2, DType::kF32, DType::kF32) +
                   8 * testing::Epsilon(DType::kF32) * std::fabs(want[i]);
    if (o.act == RegAct::kSigmoid) tolerance[i] += 8 * testing::Epsilon(DType::kF32);
    want[i] = ActRef(o.act, want[i], imm);
    if (o.affine)
      want[i] = want[i] * -0.75 + 0.5,
      tolerance[i] += 2 * testing::Epsilon(DType::kF32) * (std::fabs(want[i]) + 1);
  }
  EXPECT_EQ(testing::Compare(got, want, tolerance), "");
}

// Fills in output sizes from random padding at the ends; inputs grow to hold the kernel.
void FinishShape(ConvShape* s, Rng& rng) {
  struct Axis {
    int64_t *in, *out, kernel, stride, dilation, pad;
  };
  for (const Axis& a :
       {Axis{&s->d, &s->od, s->kd, s->sd, s->dd, s->pf}, Axis{&s->h, &s->oh, s->kh, s->sh, s->dh, s->pt},
        Axis{&s->w, &s->ow, s->kw, s->sw, s->dw, s->pl}}) {
    const int64_t extent = (a.kernel - 1) * a.dilation + 1;
    if (s->transposed) {
      *a.out = (*a.in - 1) * a.stride + extent - a.pad - rng.Int(0, a.pad) + rng.Int(0, a.stride - 1);
      *a.out = std::max<int64_t>(*a.out, 1);
    } else {
      *a.in = std::max(*a.in, extent - a.pad);
      *a.out = (*a.in + a.pad + rng.Int(0, a.pad) - extent) / a.stride + 1;
    }
  }
}

ConvShape RandomShape(Rng& rng) {
  ConvShape s;
  s.n = rng.Int(1, 3);
  const int64_t groups[] = {1, 1, 1, 2, 3, 8};
  s.groups = groups[rng.Int(0, 5)];
  const bool depthwise = rng.Chance(0.2), volume = rng.Chance(0.4);
  s.c = s.groups * (rng.Chance(0.3) ? 16 * rng.Int(1, 2) : rng.Int(1, volume ? 20 : 40));
  s.oc = s.groups * (rng.Chance(0.3) ? 16 * rng.Int(1, 4) : rng.Int(1, volume ? 20 : 70));
  if (depthwise) s.groups = s.oc = s.c;
  s.h = rng.Int(1, volume ? 8 : 20), s.w = rng.Int(1, volume ? 20 : 40);
  s.kh = rng.Int(1, volume ? 3 : 5), s.kw = rng.Chance(0.6) ? s.kh : rng.Int(1, volume ? 4 : 7);
  s.sh = rng.Int(1, 3), s.sw = rng.Chance(0.6) ? s.sh : rng.Int(1, 4);
  const bool dilated = rng.Chance(0.3);
  if (dilated) s.dh = rng.Int(1, 3), s.dw = rng.Int(1, 3);
  if (volume) {
    s.d = rng.Int(1, 6), s.kd = rng.Int(1, 3), s.sd = rng.Int(1, 3), s.pf = rng.Int(0, s.kd - 1);
    if (dilated) s.dd = rng.Int(1, 2);
  }
  s.pt = rng.Int(0, s.kh - 1), s.pl = rng.Int(0, s.kw - 1);
  s.transposed = !depthwise && rng.Chance(0.25);
  s.x_blocked = rng.Chance(0.7);
  s.y_blocked = rng.Chance(0.7);
  s.im2col = rng.Chance(0.1);
  FinishShape(&s, rng);
  return s;
}

class ConvTest : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(ConvTest, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(1500)) {
    const ConvShape s = RandomShape(rng);
    Options o;
    o.bias = rng.Chance(0.5);
    o.residual = s.y_blocked && rng.Chance(0.4);
    o.in_place = rng.Chance(0.5);
    o.affine = rng.Chance(0.3);
    const RegAct acts[] = {RegAct::kNone, RegAct::kRelu, RegAct::kClip, RegAct::kHardSwish, RegAct::kSigmoid};
    o.act = acts[rng.Int(0, 4)];
    CheckConv(s, o, rng);
    if (HasFatalFailure()) return;
  }
}

// Weights that are not finite meet pixels, never padding: the class of every output is that of the
// definition.
TEST_P(ConvTest, SpecialWeights) {
  Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    const ConvShape s = RandomShape(rng);
    Options o;
    o.special = true;
    o.bias = rng.Chance(0.5);
    o.residual = s.y_blocked && rng.Chance(0.3);
    o.affine = rng.Chance(0.2);
    const RegAct acts[] = {RegAct::kNone, RegAct::kRelu, RegAct::kHardSwish};
    o.act = acts[rng.Int(0, 2)];
    CheckConv(s, o, rng);
    if (HasFatalFailure() || HasFailure()) return;
  }
}

// Each variant at sizes that reach full tiles, tails, odd block counts and borders.
TEST_P(ConvTest, KnownShapes) {
  struct Row {
    int64_t n, c, h, w, oc, k, s, p, groups;
    bool transposed, x_blocked;
    Variant variant;
  };
  const Row rows[] = {
      {1, 3, 33, 35, 24, 7, 2, 3, 1, false, false, Variant::kFirstLayer},
      {2, 1, 9, 9, 5, 3, 1, 1, 1, false, false, Variant::kFirstLayer},
      {2, 64, 7, 7, 96, 1, 1, 0, 1, false, true, Variant::kPointwise},
      {1, 40, 1, 1, 130, 1, 1, 0, 1, false, true, Variant::kPointwise},
      {1, 960, 3, 4, 640, 1, 1, 0, 1, false, true,
       Variant::kPointwise},  // shared weights, one tile of pixels
      {1, 650, 2, 2, 530, 3, 1, 1, 1, false, true, Variant::kDirect},
      {3, 48, 7, 7, 80, 3, 1, 1, 1, false, true, Variant::kDirect},
      {1, 32, 14, 14, 64, 3, 2, 1, 1, false, true, Variant::kDirect},
      {1, 64, 9, 11, 96, 3, 1, 1, 2, false, true, Variant::kDirect},
      {2, 37, 15, 30, 37, 3, 1, 1, 37, false, true, Variant::kDepthwise},
      {1, 48, 13, 21, 48, 5, 2, 2, 48, false, true, Variant::kDepthwise},
      {1, 24, 12, 10, 24, 2, 2, 0, 1, true, true, Variant::kTransposed},
      {1, 32, 9, 7, 16, 4, 2, 1, 1, true, true, Variant::kTransposed},
      {1, 256, 5, 5, 256, 1, 3, 0, 1, true, true, Variant::kTransposed},  // threads share out the weights
      // Weights beyond L2, some of them packed in passing.
      {1, 96, 5, 5, 528, 3, 1, 1, 1, true, true, Variant::kTransposed},
      {1, 100, 5, 5, 528, 3, 1, 1, 1, false, true, Variant::kDirect},
      {1, 24, 8, 9, 72, 3, 1, 1, 24, false, true, Variant::kGrouped},
      {1, 30, 8, 9, 42, 3, 2, 1, 3, true, true, Variant::kGrouped},
  };
  Rng rng;
  for (const Row& r : rows) {
    ConvShape s;
    s.n = r.n, s.c = r.c, s.h = r.h, s.w = r.w, s.oc = r.oc, s.kh = s.kw = r.k, s.sh = s.sw = r.s;
    s.pt = s.pl = r.p, s.groups = r.groups, s.transposed = r.transposed, s.x_blocked = r.x_blocked;
    if (r.transposed) {
      s.oh = (s.h - 1) * r.s + r.k - 2 * r.p, s.ow = (s.w - 1) * r.s + r.k - 2 * r.p;
    } else {
      s.oh = (s.h + 2 * r.p - r.k) / r.s + 1, s.ow = (s.w + 2 * r.p - r.k) / r.s + 1;
    }
    EXPECT_EQ(Name(PlanConv(s).variant), Name(r.variant)) << Show(s);
    CheckConv(s, {true, true, false, false, RegAct::kRelu}, rng);
    CheckConv(s, {true, false, false, false, RegAct::kNone, true}, rng);
  }
}

// A result so large that it is written past the caches is the one of its images alone.
TEST_P(ConvTest, StreamedDepthwise) {
  ConvShape one;
  one.c = one.oc = one.groups = 16, one.h = one.w = one.oh = one.ow = 125, one.kh = one.kw = 3;
  one.pt = one.pl = 1;
  ConvShape all = one;
  const int64_t image = kC0 * one.plane(), bytes = image * static_cast<int64_t>(sizeof(float));
  all.n = 2 * vector::StreamingThreshold() / bytes + 1;
  AlignedBuffer x(static_cast<size_t>(all.n * bytes)), y(x.bytes()), want(static_cast<size_t>(bytes));
  ASSERT_TRUE(x && y && want);
  Rng rng;
  const ConvPlan plan = PlanConv(all), single = PlanConv(one);
  ASSERT_EQ(plan.packed_floats, single.packed_floats);
  std::vector<float> w(16 * 9), packed(static_cast<size_t>(plan.packed_floats)), workspace(64);
  for (float& v : w) v = static_cast<float>(rng.Real(-1, 1));
  for (int64_t i = 0; i < all.n * image; ++i) x.as<float>()[i] = static_cast<float>(i % 8191);
  PackWeights(plan, w.data(), packed.data());
  ConvArgs a;
  a.x = x.as<float>(), a.y = y.as<float>(), a.weights = packed.data(), a.workspace = workspace.data();
  a.epilogue.act = RegAct::kRelu;
  RunConv(plan, a);
  a.y = want.as<float>();
  for (int64_t n = 0; n < all.n; ++n) {
    a.x = x.as<float>() + n * image;
    RunConv(single, a);
    ASSERT_EQ(std::memcmp(want.data(), y.as<float>() + n * image, want.bytes()), 0) << n;
  }
}

// NaN and Inf stay in the pixels and groups that read them.
TEST_P(ConvTest, SpecialValuesStayLocal) {
  for (const int64_t groups : {1, 2, 3, 48}) {
    ConvShape s;
    s.c = s.oc = 48, s.h = s.w = s.oh = s.ow = 9, s.kh = s.kw = 3, s.pt = s.pl = 1, s.groups = groups;
    const ConvPlan plan = PlanConv(s);
    Image x(1, 48, 1, 9, 9, true), y(1, 48, 1, 9, 9, true);
    x.ForEach([](float& v, int64_t) { v = 1; });
    x.At(0, 5, 0, 4, 4) = kNan;
    std::vector<float> w(static_cast<size_t>(48 * 48 / groups * 9), 1.0f),
        packed(static_cast<size_t>(plan.packed_floats));
    PackWeights(plan, w.data(), packed.data());
    std::vector<float> workspace(plan.workspace_bytes / sizeof(float));
    ConvArgs a;
    a.x = x.ptr(), a.y = y.ptr(), a.weights = packed.data(), a.workspace = workspace.data();
    RunConv(plan, a);
    for (int64_t c = 0; c < 48; ++c)
      for (int64_t i = 0; i < 9; ++i)
        for (int64_t j = 0; j < 9; ++j) {
          const bool touched =
              c / (48 / groups) == 5 / (48 / groups) && std::abs(i - 4) <= 1 && std::abs(j - 4) <= 1;
          EXPECT_EQ(std::isnan(y.At(0, c, 0, i, j)), touched) << groups << " " << c << " " << i << " " << j;
        }
  }
}

TEST_P(ConvTest, EmptyBatch) {
  ConvShape s;
  s.n = 0, s.c = 16, s.oc = 16;
  const ConvPlan plan = PlanConv(s);
  std::vector<float> w(256), packed(static_cast<size_t>(plan.packed_floats)),
      workspace(plan.workspace_bytes / 4);
  PackWeights(plan, w.data(), packed.data());
  ConvArgs a;
  a.weights = packed.data(), a.workspace = workspace.data();
  RunConv(plan, a);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ConvTest,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
