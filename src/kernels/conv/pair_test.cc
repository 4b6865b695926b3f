#include "kernels/conv/pair.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

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
  RegAct act = RegAct::kNone, last = RegAct::kNone;
  bool bias = true, residual = false, affine = false, special = false;
};

int64_t Lanes(int64_t channels, bool blocked) { return blocked ? RoundUp(channels, int64_t{kC0}) : channels; }

std::string Show(const Case& k) {
  const ConvShape& a = k.first;
  return StrFormat("n%d c%d %dx%d k%dx%d s%dx%d d%d -> %d %dx%d x%d y%d act %d %d residual %d", int(a.n),
                   int(a.c), int(a.h), int(a.w), int(a.kh), int(a.kw), int(a.sh), int(a.sw), int(a.dw),
                   int(k.second.oc), int(a.oh), int(a.ow), a.x_blocked, k.second.y_blocked, int(k.act),
                   int(k.last), k.residual);
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
  a.x_blocked = rng.Chance(0.7);
  ConvShape& b = k.second;
  b.n = a.n, b.c = a.oc, b.oc = rng.Int(1, 70), b.h = b.oh = a.oh, b.w = b.ow = a.ow;
  b.y_blocked = rng.Chance(0.7);
  const RegAct acts[] = {RegAct::kNone, RegAct::kRelu, RegAct::kClip, RegAct::kHardSwish, RegAct::kSigmoid};
  k.act = acts[rng.Int(0, 4)], k.last = acts[rng.Int(0, 4)];
  k.bias = rng.Chance(0.7), k.residual = b.y_blocked && rng.Chance(0.4), k.affine = rng.Chance(0.2);
  k.special = rng.Chance(0.15);
  return k;
}

struct Values {
  std::vector<float> x, w, w2, b, b2, residual;
  Values(const Case& k, Rng& rng) {
    const ConvShape &s = k.first, &t = k.second;
    const auto fill = [&rng](std::vector<float>* v, int64_t count) {
      v->resize(static_cast<size_t>(count));
      for (float& f : *v) f = static_cast<float>(rng.Real(-1, 1));
    };
    fill(&x, s.n * Lanes(s.c, s.x_blocked) * s.plane()), fill(&w, s.c * s.taps()), fill(&w2, t.oc * t.c);
    fill(&b, s.c), fill(&b2, t.oc), fill(&residual, t.n * Lanes(t.oc, t.y_blocked) * t.plane());
    if (k.special) w[static_cast<size_t>(rng.Int(0, int64_t(w.size()) - 1))] = INFINITY;
  }
};

void SetPost(RegAct act, ConvArgs* a) {
  a->epilogue.act = act;
  a->epilogue.act_imm[0] = act == RegAct::kHardSwish ? 1.0f / 6 : -0.5f;
  a->epilogue.act_imm[1] = 0.5f;
}

struct Args {
  std::vector<float> packed, packed2;
  ConvArgs first, second;
  Args(const Case& k, const Values& v, const ConvPlan& a, const ConvPlan& b, bool plain) {
    packed.assign(static_cast<size_t>(a.packed_floats), 0),
        packed2.assign(static_cast<size_t>(b.packed_floats), 0);
    first.x = v.x.data();
    if (k.bias) first.epilogue.bias = v.b.data(), second.epilogue.bias = v.b2.data();
    SetPost(k.act, &first), SetPost(k.last, &second);
    if (k.residual) second.residual = v.residual.data();
    if (k.affine) second.affine = true, second.scale = -0.75f, second.shift = 0.5f;
    if (plain) {
      first.plain_weights = v.w.data(), first.packing = packed.data();
      second.plain_weights = v.w2.data(), second.packing = packed2.data();
      return;
    }
    PackWeights(a, v.w.data(), packed.data()), PackWeights(b, v.w2.data(), packed2.data());
    first.weights = packed.data(), second.weights = packed2.data();
  }
};

// The two one after the other.
std::vector<float> Apart(const Case& k, const Values& v) {
  ConvShape a = k.first, b = k.second;
  a.y_blocked = b.x_blocked = true;
  const ConvPlan first = PlanConv(a), second = PlanConv(b);
  Args args(k, v, first, second, false);
  AlignedBuffer ws(first.workspace_bytes + 64), ws2(second.workspace_bytes + 64);
  std::vector<float> between(static_cast<size_t>(a.n * Lanes(a.oc, true) * a.out_plane())),
      y(v.residual.size() + 2 * kGuard, kMark);
  args.first.y = between.data(), args.first.workspace = ws.data();
  RunConv(first, args.first);
  args.second.x = between.data(), args.second.y = y.data() + kGuard, args.second.workspace = ws2.data();
  RunConv(second, args.second);
  return y;
}

std::vector<float> Together(const Case& k, const Values& v, bool plain) {
  const PairPlan plan = PlanPair(k.first, k.second);
  Args args(k, v, plan.first, plan.second, plain);
  AlignedBuffer ws(plan.workspace_bytes + 64);
  std::memset(ws.data(), 0xff, ws.bytes());
  std::vector<float> y(v.residual.size() + 2 * kGuard, kMark);
  args.second.y = y.data() + kGuard;
  RunPair(plan, {args.first, args.second, ws.data()});
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

// From the definition, in double. Every activation has a slope of at most 1.5.
void Reference(const Case& k, const Values& v, std::vector<double>* want, std::vector<double>* tolerance) {
  const ConvShape &a = k.first, &b = k.second;
  const auto at = [](bool blocked, int64_t channels, int64_t plane, int64_t n, int64_t c, int64_t p) {
    const int64_t block = (n * Lanes(channels, true) + c / kC0 * kC0) * plane + p * kC0 + c % kC0;
    return static_cast<size_t>(blocked ? block : (n * channels + c) * plane + p);
  };
  constexpr double kSlope = 1.5;
  std::vector<double> between(static_cast<size_t>(a.c)), error(between.size());
  for (int64_t n = 0; n < a.n; ++n)
    for (int64_t p = 0; p < a.out_plane(); ++p) {
      for (int64_t c = 0; c < a.c; ++c) {
        double sum = k.bias ? v.b[static_cast<size_t>(c)] : 0, all = std::fabs(sum);
        for (int64_t t = 0; t < a.taps(); ++t) {
          const int64_t y = p / a.ow * a.sh - a.pt + t / a.kw * a.dh,
                        x = p % a.ow * a.sw - a.pl + t % a.kw * a.dw;
          if (y < 0 || y >= a.h || x < 0 || x >= a.w) continue;
          const double term = double{v.w[static_cast<size_t>(c * a.taps() + t)]} *
                              v.x[at(a.x_blocked, a.c, a.plane(), n, c, y * a.w + x)];
          sum += term, all += std::fabs(term);
        }
        const auto i = static_cast<size_t>(c);
        between[i] = Act(k.act, sum);
        error[i] = kSlope * testing::ContractionTolerance(all, sum, a.taps() + 1, DType::kF32, DType::kF32) +
                   8 * testing::Epsilon(DType::kF32) * (1 + std::fabs(sum));
      }
      for (int64_t o = 0; o < b.oc; ++o) {
        double sum = k.bias ? v.b2[static_cast<size_t>(o)] : 0, all = std::fabs(sum), carried = 0;
        for (int64_t c = 0; c < a.c; ++c) {
          const double w = v.w2[static_cast<size_t>(o * a.c + c)], term = w * between[static_cast<size_t>(c)];
          sum += term, all += std::fabs(term), carried += std::fabs(w) * error[static_cast<size_t>(c)];
        }
        const size_t out = at(b.y_blocked, b.oc, b.out_plane(), n, o, p);
        if (k.residual) sum += v.residual[out], all += std::fabs(v.residual[out]);
        double y = Act(k.last, sum),
               bound = kSlope * (carried +
                                 testing::ContractionTolerance(all, sum, a.c + 2, DType::kF32, DType::kF32)) +
                       8 * testing::Epsilon(DType::kF32) * (1 + std::fabs(sum));
        if (k.affine) y = y * -0.75 + 0.5, bound += 2 * testing::Epsilon(DType::kF32) * (std::fabs(y) + 1);
        (*want)[out] = y, (*tolerance)[out] = bound;
      }
    }
}

void Check(const Case& k, Rng& rng) {
  SCOPED_TRACE(Show(k));
  ASSERT_EQ(PairRefusal(k.first, k.second), nullptr);
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
  Case k;
  ConvShape &a = k.first, &b = k.second;
  a.n = 2, a.c = a.oc = a.groups = 96, a.h = a.w = a.oh = a.ow = 47, a.kh = a.kw = 3, a.pt = a.pl = 1;
  b.n = 2, b.c = 96, b.oc = 56, b.h = b.oh = b.w = b.ow = 47;
  k.act = RegAct::kClip, k.residual = true;
  const int64_t rows = PairStripRows(a, 1, PairLimits{}.strip_bytes);
  ASSERT_LT(rows, a.oh);
  EXPECT_NE(a.oh % rows, 0);
  EXPECT_LT(PairStripRows(a, 1, 64 << 10), rows);
  EXPECT_EQ(PairStripRows(a, 1, 8 << 20), a.oh);
  const auto between = static_cast<size_t>(a.n * a.oc * a.out_plane()) * sizeof(float);
  EXPECT_LT(PlanPair(a, b).workspace_bytes, between / 100) << "room for padded biases alone";
  Check(k, rng);
}

TEST_P(ConvPair, RefusesWithReason) {
  Rng rng;
  const Case k = RandomCase(rng);
  ConvShape other = k.first;
  other.groups = 1;
  EXPECT_STREQ(PairRefusal(other, k.second), "the first is not depthwise");
  other = k.second, other.kh = 3, other.pt = 1;
  EXPECT_STREQ(PairRefusal(k.first, other), "the second is not pointwise");
  Case wide = k;
  wide.first.c = wide.first.oc = wide.first.groups = wide.second.c = 960, wide.second.oc = 320;
  const char* const reason = PairRefusal(wide.first, wide.second);
  ASSERT_NE(reason, nullptr);
  EXPECT_NE(std::string(reason).find("do not stay in L2"), std::string::npos) << reason;
  EXPECT_EQ(PairRefusal(wide.first, wide.second, {.weight_bytes = 2 << 20}), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ConvPair,
                         ::testing::Values(isa::Tier::kSse4, isa::Tier::kAvx2, isa::Tier::kAvx512),
                         [](const auto& info) { return std::string(isa::Name(info.param)); });

}  // namespace
}  // namespace opsnn::conv
