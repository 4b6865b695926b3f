#include "kernels/conv/pair.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/buffer.h"
#include "base/int_math.h"
#include "base/parallel.h"
#include "testing/testing.h"

namespace opsnn::conv {
namespace {

using testing::Rng;

constexpr size_t kGuard = 64;
constexpr float kMark = 4711;

struct Case {
  ConvShape first, second;
  std::optional<ConvShape> expand;
  RegAct act = RegAct::kNone, last = RegAct::kNone, foremost = RegAct::kNone;
  bool bias = true, residual = false, affine = false, special = false;
  PairLimits limits;

  PairShape shape() const { return {first, second, expand ? &*expand : nullptr}; }
  const ConvShape& foremost_shape() const { return expand ? *expand : first; }
};

int64_t Lanes(int64_t channels, bool blocked) { return blocked ? RoundUp(channels, int64_t{kC0}) : channels; }

std::string Show(const Case& k) {
  const ConvShape& a = k.first;
  return StrFormat("n%d %d -> c%d %dx%d k%dx%d s%dx%d d%d -> %d %dx%d x%d y%d act %d %d residual %d",
                   int(a.n), k.expand ? int(k.expand->c) : 0, int(a.c), int(a.h), int(a.w), int(a.kh),
                   int(a.kw), int(a.sh), int(a.sw), int(a.dw), int(k.second.oc), int(a.oh), int(a.ow),
                   k.foremost_shape().x_blocked, k.second.y_blocked, int(k.act), int(k.last), k.residual);
}

Case RandomCase(Rng& rng) {
  Case k;
  ConvShape& a = k.first;
  a.n = rng.Int(1, 3), a.c = rng.Int(2, 70);
  a.h = rng.Int(1, 20), a.w = rng.Int(1, 40);
  a.kh = rng.Int(1, 5), a.kw = rng.Chance(0.7) ? a.kh : rng.Int(1, 5);
  a.sh = rng.Int(1, 2), a.sw = rng.Chance(0.8) ? a.sh : rng.Int(1, 3);
  if (rng.Chance(0.2)) a.dh = a.dw = 2;
  a.pt = rng.Int(0, a.kh - 1), a.pl = rng.Int(0, a.kw - 1);
  const auto out = [&rng](int64_t* in, int64_t pad, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t extent = (kernel - 1) * dilation + 1;
    *in = std::max(*in, extent - pad);
    return (*in + pad + rng.Int(0, pad) - extent) / stride + 1;
  };
  a.oh = out(&a.h, a.pt, a.kh, a.sh, a.dh), a.ow = out(&a.w, a.pl, a.kw, a.sw, a.dw);
  a.groups = a.oc = a.c;
  if (rng.Chance(0.5)) {
    ConvShape& e = k.expand.emplace();
    e.n = a.n, e.c = rng.Int(5, 40), e.oc = a.c, e.h = e.oh = a.h, e.w = e.ow = a.w;
    e.x_blocked = rng.Chance(0.7);
  } else {
    a.x_blocked = rng.Chance(0.7);
  }
  ConvShape& b = k.second;
  b.n = a.n, b.c = a.oc, b.oc = rng.Int(1, 70), b.h = b.oh = a.oh, b.w = b.ow = a.ow;
  b.y_blocked = rng.Chance(0.7);
  const RegAct acts[] = {RegAct::kNone, RegAct::kRelu, RegAct::kClip, RegAct::kHardSwish, RegAct::kSigmoid};
  k.act = acts[rng.Int(0, 4)], k.last = acts[rng.Int(0, 4)], k.foremost = acts[rng.Int(0, 4)];
  k.bias = rng.Chance(0.7), k.residual = b.y_blocked && rng.Chance(0.4), k.affine = rng.Chance(0.2);
  k.special = rng.Chance(0.15);
  return k;
}

struct Values {
  std::vector<float> x, w0, w, w2, b0, b, b2, residual;
  Values(const Case& k, Rng& rng) {
    const ConvShape &e = k.foremost_shape(), &s = k.first, &t = k.second;
    const auto fill = [&rng](std::vector<float>* v, int64_t count) {
      v->resize(static_cast<size_t>(count));
      for (float& f : *v) f = static_cast<float>(rng.Real(-1, 1));
    };
    fill(&x, e.n * Lanes(e.c, e.x_blocked) * e.plane()), fill(&w, s.c * s.taps()), fill(&w2, t.oc * t.c);
    if (k.expand) fill(&w0, e.oc * e.c), fill(&b0, e.oc);
    fill(&b, s.c), fill(&b2, t.oc), fill(&residual, t.n * Lanes(t.oc, t.y_blocked) * t.plane());
    if (k.special) w[static_cast<size_t>(rng.Int(0, int64_t(w.size()) - 1))] = INFINITY;
  }
};

void SetPost(RegAct act, ConvArgs* a) {
  a->epilogue.act = act;
  a->epilogue.act_imm[0] = act == RegAct::kHardSwish ? 1.0f / 6 : -0.5f;
  a->epilogue.act_imm[1] = 0.5f;
}

// Arguments of one convolution.
struct Part {
  std::vector<float> packed;
  ConvArgs args;
  Part(const ConvPlan& plan, const std::vector<float>& w, const float* bias, RegAct act, bool plain) {
    packed.assign(static_cast<size_t>(plan.packed_floats), 0);
    args.epilogue.bias = bias;
    SetPost(act, &args);
    if (plain) {
      args.plain_weights = w.data(), args.packing = packed.data();
    } else {
      PackWeights(plan, w.data(), packed.data());
      args.weights = packed.data();
    }
  }
};

Part SecondPart(const Case& k, const Values& v, const ConvPlan& plan, bool plain) {
  Part p(plan, v.w2, k.bias ? v.b2.data() : nullptr, k.last, plain);
  if (k.residual) p.args.residual = v.residual.data();
  if (k.affine) p.args.affine = true, p.args.scale = -0.75f, p.args.shift = 0.5f;
  return p;
}

Part MakePart(const Case& k, const ConvPlan& plan, const std::vector<float>& w,
              const std::vector<float>& bias, RegAct act, bool plain) {
  return Part(plan, w, k.bias ? bias.data() : nullptr, act, plain);
}

std::vector<float> RunAlone(const ConvPlan& plan, ConvArgs args, const float* x, size_t floats) {
  AlignedBuffer ws(plan.workspace_bytes + 64);
  std::vector<float> y(floats + 2 * kGuard, kMark);
  args.x = x, args.y = y.data() + kGuard, args.workspace = ws.data();
  RunConv(plan, args);
  return y;
}

// One after the other.
std::vector<float> Apart(const Case& k, const Values& v) {
  ConvShape a = k.first, b = k.second;
  a.y_blocked = b.x_blocked = true;
  std::vector<float> expanded;
  const float* x = v.x.data();
  if (k.expand) {
    ConvShape e = *k.expand;
    e.y_blocked = a.x_blocked = true;
    const ConvPlan plan = PlanConv(e);
    const Part part = MakePart(k, plan, v.w0, v.b0, k.foremost, false);
    expanded = RunAlone(plan, part.args, x, static_cast<size_t>(e.n * Lanes(e.oc, true) * e.out_plane()));
    x = expanded.data() + kGuard;
  }
  const ConvPlan first = PlanConv(a), second = PlanConv(b);
  const Part one = MakePart(k, first, v.w, v.b, k.act, false), other = SecondPart(k, v, second, false);
  const std::vector<float> between =
      RunAlone(first, one.args, x, static_cast<size_t>(a.n * Lanes(a.oc, true) * a.out_plane()));
  return RunAlone(second, other.args, between.data() + kGuard, v.residual.size());
}

// x ends where memory does, so that reading behind it is found by the address sanitizer.
std::vector<float> Together(const Case& k, const Values& v, bool plain) {
  const PairPlan plan = PlanPair(k.shape(), k.limits);
  const Part one = MakePart(k, plan.first, v.w, v.b, k.act, plain),
             other = SecondPart(k, v, plan.second, plain);
  PairArgs args{one.args, other.args, {}, nullptr};
  std::optional<Part> foremost;
  if (k.expand) {
    foremost.emplace(MakePart(k, *plan.expand, v.w0, v.b0, k.foremost, plain));
    args.expand = foremost->args;
  }
  (k.expand ? args.expand : args.first).x = v.x.data();
  AlignedBuffer ws(plan.workspace_bytes + 64);
  std::memset(ws.data(), 0xff, ws.bytes());
  std::vector<float> y(v.residual.size() + 2 * kGuard, kMark);
  args.second.y = y.data() + kGuard;
  args.workspace = ws.data();
  RunPair(plan, args);
  for (size_t i = 0; i < kGuard; ++i) EXPECT_TRUE(y[i] == kMark && y[y.size() - 1 - i] == kMark);
  return y;
}

double Act(RegAct act, double v) {
  switch (act) {
    case RegAct::kRelu:
      return std::max(v, 0.0);
    case RegAct::kClip:
      return std::min(std::max(v, -0.5), 0.5);
    case RegAct::kHardSwish:
      return v * std::min(1.0, std::max(0.0, double{1.0f / 6} * v + 0.5));
    case RegAct::kSigmoid:
      return 1 / (1 + std::exp(-v));
    default:
      return v;
  }
}

// Where element (n, c, p) of an image lies.
size_t At(bool blocked, int64_t channels, int64_t plane, int64_t n, int64_t c, int64_t p) {
  const int64_t block = (n * Lanes(channels, true) + c / kC0 * kC0) * plane + p * kC0 + c % kC0;
  return static_cast<size_t>(blocked ? block : (n * channels + c) * plane + p);
}

// A sum and its bound. Every activation has a slope of at most 1.5.
struct Sum {
  double value = 0, all = 0, carried = 0;
  int64_t terms = 0;
  void Add(double w, double x, double x_error) {
    value += w * x, all += std::fabs(w * x), carried += std::fabs(w) * x_error;
    ++terms;
  }
  double Bound() const {
    constexpr double kSlope = 1.5;
    return kSlope *
               (carried + testing::ContractionTolerance(all, value, terms + 1, DType::kF32, DType::kF32)) +
           8 * testing::Epsilon(DType::kF32) * (1 + std::fabs(value));
  }
};

struct Image {
  std::vector<double> value, error;  // [n][c][pixel]
  explicit Image(int64_t size) : value(static_cast<size_t>(size)), error(static_cast<size_t>(size)) {}
};

// What the depthwise convolution reads.
Image Foremost(const Case& k, const Values& v) {
  const ConvShape& e = k.foremost_shape();
  const int64_t channels = k.first.c, plane = e.plane();
  Image image(e.n * channels * plane);
  for (int64_t i = 0; i < e.n * channels * plane; ++i) {
    const int64_t n = i / plane / channels, c = i / plane % channels, p = i % plane;
    const auto x = [&](int64_t from) { return double{v.x[At(e.x_blocked, e.c, plane, n, from, p)]}; };
    const auto at = static_cast<size_t>(i);
    if (!k.expand) {
      image.value[at] = x(c);
      continue;
    }
    Sum sum;
    if (k.bias) sum.Add(1, v.b0[static_cast<size_t>(c)], 0);
    for (int64_t from = 0; from < e.c; ++from) sum.Add(v.w0[static_cast<size_t>(c * e.c + from)], x(from), 0);
    image.value[at] = Act(k.foremost, sum.value), image.error[at] = sum.Bound();
  }
  return image;
}

// From the definition, in double.
void Reference(const Case& k, const Values& v, std::vector<double>* want, std::vector<double>* tolerance) {
  const ConvShape &a = k.first, &b = k.second;
  const Image x = Foremost(k, v);
  Image between(a.c);
  for (int64_t n = 0; n < a.n; ++n)
    for (int64_t p = 0; p < a.out_plane(); ++p) {
      for (int64_t c = 0; c < a.c; ++c) {
        Sum sum;
        if (k.bias) sum.Add(1, v.b[static_cast<size_t>(c)], 0);
        for (int64_t t = 0; t < a.taps(); ++t) {
          const int64_t row = p / a.ow * a.sh - a.pt + t / a.kw * a.dh,
                        col = p % a.ow * a.sw - a.pl + t % a.kw * a.dw;
          if (row < 0 || row >= a.h || col < 0 || col >= a.w) continue;
          const auto at = static_cast<size_t>((n * a.c + c) * a.plane() + row * a.w + col);
          sum.Add(v.w[static_cast<size_t>(c * a.taps() + t)], x.value[at], x.error[at]);
        }
        between.value[static_cast<size_t>(c)] = Act(k.act, sum.value);
        between.error[static_cast<size_t>(c)] = sum.Bound();
      }
      for (int64_t o = 0; o < b.oc; ++o) {
        Sum sum;
        if (k.bias) sum.Add(1, v.b2[static_cast<size_t>(o)], 0);
        for (int64_t c = 0; c < a.c; ++c)
          sum.Add(v.w2[static_cast<size_t>(o * a.c + c)], between.value[static_cast<size_t>(c)],
                  between.error[static_cast<size_t>(c)]);
        const size_t out = At(b.y_blocked, b.oc, b.out_plane(), n, o, p);
        if (k.residual) sum.Add(1, v.residual[out], 0);
        double y = Act(k.last, sum.value), bound = sum.Bound();
        if (k.affine) y = y * -0.75 + 0.5, bound += 2 * testing::Epsilon(DType::kF32) * (std::fabs(y) + 1);
        (*want)[out] = y, (*tolerance)[out] = bound;
      }
    }
}

void Check(const Case& k, Rng& rng) {
  SCOPED_TRACE(Show(k));
  ASSERT_EQ(PairRefusal(k.shape(), k.limits), nullptr);
  const Values v(k, rng);
  const std::vector<float> apart = Apart(k, v);
  std::vector<double> got, want(v.residual.size(), NAN), tolerance(want.size());
  if (!k.special) Reference(k, v, &want, &tolerance);
  for (int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    const std::vector<float> y = Together(k, v, threads == 2);
    SetNumThreads(0);
    got.assign(y.begin() + kGuard, y.end() - kGuard);
    // Padding lanes are not told.
    const ConvShape& b = k.second;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto block = static_cast<int64_t>(i) / (b.out_plane() * kC0) % (Lanes(b.oc, true) / kC0);
      if (b.y_blocked && block * kC0 + static_cast<int64_t>(i % kC0) >= b.oc) {
        got[i] = want[i] = 0;
      } else {
        ASSERT_EQ(std::memcmp(&y[kGuard + i], &apart[kGuard + i], sizeof(float)), 0) << i << " " << threads;
      }
    }
  }
  if (!k.special) {
    EXPECT_EQ(testing::Compare(got, want, tolerance), "");
  }
}

class ConvPair : public ::testing::TestWithParam<isa::Tier> {
 protected:
  void SetUp() override { isa::SetMaxTier(GetParam()); }
  void TearDown() override { isa::SetMaxTier(isa::BestTier()); }
};

TEST_P(ConvPair, HasTheBitsOfItsParts) {
  Rng rng;
  for (auto _ : testing::FuzzFor(500)) {
    Check(RandomCase(rng), rng);
    if (HasFatalFailure() || HasFailure()) return;
  }
}

// Several strips, whose last is shorter.
TEST_P(ConvPair, Strips) {
  Rng rng;
  for (const bool expanded : {false, true}) {
    Case k;
    ConvShape &a = k.first, &b = k.second;
    a.n = 2, a.c = a.oc = a.groups = 96, a.h = a.w = a.oh = a.ow = 47, a.kh = a.kw = 3, a.pt = a.pl = 1;
    b.n = 2, b.c = 96, b.oc = 56, b.h = b.oh = b.w = b.ow = 47;
    k.act = RegAct::kClip, k.residual = true;
    if (expanded) {
      ConvShape& e = k.expand.emplace();
      e.n = 2, e.c = 24, e.oc = 96, e.h = e.w = e.oh = e.ow = 47;
    }
    const int64_t rows = CutPair(a, expanded, 1, {}).rows;
    ASSERT_LT(rows, a.oh);
    EXPECT_NE(a.oh % rows, 0);
    EXPECT_LT(CutPair(a, expanded, 1, {.strip_bytes = 64 << 10}).rows, rows);
    EXPECT_EQ(CutPair(a, expanded, 1, {.strip_bytes = 8 << 20, .expanded_bytes = 8 << 20}).rows, a.oh);
    EXPECT_EQ(CutPair(a, true, 1, {}).pieces, 1) << "its rows go on through the whole image";
    const auto between = static_cast<size_t>(a.n * a.oc * a.out_plane()) * sizeof(float);
    EXPECT_LT(PlanPair(k.shape()).workspace_bytes, between / 100) << "room for padded biases alone";
    Check(k, rng);
  }
}

// Strips of few rows, where most of what an expansion makes goes on to the next strip, or is skipped.
TEST_P(ConvPair, ExpandedRowsGoOn) {
  Rng rng;
  for (auto _ : testing::FuzzFor(300)) {
    Case k = RandomCase(rng);
    if (!k.expand) continue;
    const int64_t row = Lanes(k.first.c, true) * int64_t{sizeof(float)};
    k.limits.strip_bytes = rng.Int(1, 3) * row * k.first.ow;
    k.limits.expanded_bytes = row * k.first.w * (RowsUnder(k.first, 1) + rng.Int(0, 3));
    Check(k, rng);
    if (HasFatalFailure() || HasFailure()) return;
  }
}

TEST_P(ConvPair, RefusesWithReason) {
  Rng rng;
  Case k = RandomCase(rng);
  k.expand.reset();
  ConvShape other = k.first;
  other.groups = 1;
  EXPECT_STREQ(PairRefusal({other, k.second}), "the first is not depthwise");
  other = k.second, other.kh = 3, other.pt = 1;
  EXPECT_STREQ(PairRefusal({k.first, other}), "the second is not pointwise");
  Case wide = k;
  wide.first.c = wide.first.oc = wide.first.groups = wide.second.c = 960, wide.second.oc = 320;
  const char* const reason = PairRefusal(wide.shape());
  ASSERT_NE(reason, nullptr);
  EXPECT_NE(std::string(reason).find("do not stay in L2"), std::string::npos) << reason;
  EXPECT_EQ(PairRefusal(wide.shape(), {.weight_bytes = 2 << 20}), nullptr);

  ConvShape& e = wide.expand.emplace();
  e.n = wide.first.n, e.c = 160, e.oc = 960, e.h = e.oh = wide.first.h, e.w = e.ow = wide.first.w;
  const PairLimits room{.expanded_bytes = 64 << 20, .weight_bytes = 2 << 20};
  EXPECT_EQ(PairRefusal(wide.shape(), room), nullptr);
  EXPECT_NE(PairRefusal(wide.shape(), {.expanded_bytes = 64 << 20, .weight_bytes = 3 << 19}), nullptr)
      << "the weights of both products count";
  EXPECT_STREQ(PairRefusal(wide.shape(), {.expanded_bytes = 1, .weight_bytes = 2 << 20}),
               "rows of the expansion that do not stay in L2");
  e.kh = 3, e.pt = 1;
  EXPECT_STREQ(PairRefusal(wide.shape(), room), "the expansion is not pointwise");
  e.kh = 1, e.pt = 0, e.c = 3;
  EXPECT_STREQ(PairRefusal(wide.shape(), room), "an expansion of few channels");
}

INSTANTIATE_TEST_SUITE_P(Tiers, ConvPair,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
