// Pools with positions, adaptive pools, unpooling and gradients of pools, against loops over windows.
#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_adaptive_avg_pool2d.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_adaptive_avg_pool3d.h"
#include "aclnnop/aclnn_adaptive_max_pool2d.h"
#include "aclnnop/aclnn_adaptive_max_pool3d.h"
#include "aclnnop/aclnn_avgpool2d.h"
#include "aclnnop/aclnn_avgpool2d_backward.h"
#include "aclnnop/aclnn_avgpool3d.h"
#include "aclnnop/aclnn_avgpool3d_backward.h"
#include "aclnnop/aclnn_max_pool2d_with_indices.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "aclnnop/aclnn_max_pool3d_with_argmax.h"
#include "aclnnop/aclnn_max_unpool2d.h"
#include "aclnnop/aclnn_max_unpool2d_backward.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

// A pool over the last three dims; two-dimensional ones have a depth of 1.
struct Pool {
  int64_t k[3] = {1, 1, 1}, s[3] = {1, 1, 1}, p[3] = {0, 0, 0}, in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  bool ceil = false;
  void Sizes() {
    for (int i = 0; i < 3; ++i) {
      out[i] = (in[i] + 2 * p[i] - k[i] + (ceil ? s[i] - 1 : 0)) / s[i] + 1;
      if (ceil && (out[i] - 1) * s[i] >= in[i] + p[i]) --out[i];
    }
  }
  // f(plane element, weight) for the elements of window o; weight is 1 / the divisor.
  template <typename F>
  void Visit(int64_t o, bool include, int64_t divisor, F f) const {
    const int64_t at[3] = {o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
    int64_t lo[3], hi[3], whole = 1, inside = 1;
    for (int i = 0; i < 3; ++i) {
      lo[i] = at[i] * s[i] - p[i];
      hi[i] = std::min(lo[i] + k[i], in[i] + p[i]);
      whole *= hi[i] - lo[i];
      lo[i] = std::max<int64_t>(lo[i], 0), hi[i] = std::min(hi[i], in[i]);
      inside *= hi[i] - lo[i];
    }
    const auto count = static_cast<double>(divisor ? divisor : include ? whole : inside);
    for (int64_t z = lo[0]; z < hi[0]; ++z) {
      for (int64_t y = lo[1]; y < hi[1]; ++y) {
        for (int64_t x = lo[2]; x < hi[2]; ++x) f((z * in[1] + y) * in[2] + x, 1 / count);
      }
    }
  }
  int64_t In() const { return in[0] * in[1] * in[2]; }
  int64_t Out() const { return out[0] * out[1] * out[2]; }
};

class Pools : public ApiTest {
 protected:
  Rng rng_;
  Pool RandomPool(int axes) {
    Pool p;
    p.ceil = rng_.Chance(0.5);
    for (int i = 3 - axes; i < 3; ++i) {
      p.in[i] = rng_.Int(4, 8), p.k[i] = rng_.Int(1, 4), p.s[i] = rng_.Int(1, 3),
      p.p[i] = rng_.Int(0, p.k[i] / 2);
    }
    p.Sizes();
    return p;
  }
  static Dims Image(int64_t n, int64_t c, const int64_t* size, int axes) {
    Dims d = {n, c};
    for (int i = 3 - axes; i < 3; ++i) d.push_back(size[i]);
    return d;
  }
  static std::vector<int64_t> Last(const int64_t* v, int axes) { return {v + 3 - axes, v + 3}; }
};

std::vector<double> SumTolerances(const std::vector<double>& want, DType t) {
  std::vector<double> tolerance;
  for (double v : want) tolerance.push_back(std::abs(v) * testing::Epsilon(t) + 0x1p-16);
  return tolerance;
}

TEST_F(Pools, AveragesAndTheirGradients) {
  for (int round = 0; round < 40; ++round) {
    const DType t = kFloats[round % 3];
    const int axes = 2 + round % 2;
    const Pool p = RandomPool(axes);
    const bool include = round % 4 < 2;
    const int64_t divisor = round % 5 == 0 ? 3 : 0, n = 2, c = rng_.Int(1, 2);
    RandomTensor x(t, Image(n, c, p.in, axes), rng_, round % 3 == 1),
        g(t, Image(n, c, p.out, axes), rng_, round % 4 == 1);
    ApiTensor y(t, g.dims(), &rng_, round % 3 == 2), dx(t, x.dims(), &rng_, round % 4 == 2);
    ApiInts k(Last(p.k, axes)), s(Last(p.s, axes)), pads(Last(p.p, axes));
    std::vector<double> want(static_cast<size_t>(n * c * p.Out())), back(static_cast<size_t>(n * c * p.In()));
    for (int64_t i = 0; i < n * c * p.Out(); ++i) {
      const int64_t plane = i / p.Out();
      p.Visit(i % p.Out(), include, divisor, [&](int64_t at, double weight) {
        want[static_cast<size_t>(i)] += x[plane * p.In() + at] * weight;
        back[static_cast<size_t>(plane * p.In() + at)] += g[i] * weight;
      });
    }
    if (axes == 3) {
      ASSERT_EQ(CALL(aclnnAvgPool3d, x, k, s, pads, p.ceil, include, divisor, y), 0) << aclGetRecentErrMsg();
      EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, t)), "") << Name(t);
      ASSERT_EQ(CALL(aclnnAvgPool3dBackward, g, x, k, s, pads, p.ceil, include, divisor, dx), 0)
          << aclGetRecentErrMsg();
    } else {
      ASSERT_EQ(CALL(aclnnAvgPool2dBackward, g, x, k, s, pads, p.ceil, include, divisor, 0, dx), 0)
          << aclGetRecentErrMsg();
    }
    EXPECT_EQ(Compare(dx.Get(), back, SumTolerances(back, t)), "") << Name(t) << axes;
    ExpectGuards({&x, &g, &y, &dx});
  }
}

// Rounding up, the only window may reach out of the image; gradients take what the forward makes.
TEST_F(Pools, OneWindowLargerThanTheImage) {
  ApiTensor x(DType::kF32, {2, 1, 2, 1}), y(DType::kF32, {2, 1, 1, 1}), dx(DType::kF32, {2, 1, 2, 1});
  x.Set({1, 3, 5, 9});
  ApiInts k({3, 1}), s({2, 3}), none({0, 0});
  ASSERT_EQ(CALL(aclnnAvgPool2d, x, k, s, none, true, true, 0, 0, y), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(y.Get(), (std::vector<double>{2, 7}));
  y.Set({4, 8});
  ASSERT_EQ(CALL(aclnnAvgPool2dBackward, y, x, k, s, none, true, true, 0, 0, dx), 0) << aclGetRecentErrMsg();
  EXPECT_EQ(dx.Get(), (std::vector<double>{2, 2, 4, 4}));
}

TEST_F(Pools, Adaptive) {
  for (int round = 0; round < 30; ++round) {
    const DType t = kFloats[round % 3];
    const int axes = 2 + round % 2;
    int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    for (int i = 3 - axes; i < 3; ++i) in[i] = rng_.Int(1, 7), out[i] = rng_.Int(1, 9);
    const int64_t n = 2, c = rng_.Int(1, 2), in_size = in[0] * in[1] * in[2],
                  out_size = out[0] * out[1] * out[2];
    RandomTensor x(t, Image(n, c, in, axes), rng_, round % 3 == 1), g(t, Image(n, c, out, axes), rng_);
    ApiTensor y(t, g.dims(), &rng_, round % 3 == 2), most(t, g.dims(), &rng_, round % 2),
        at(DType::kS64, g.dims()), dx(t, x.dims(), &rng_, round % 4 == 1);
    ApiInts size(Last(out, axes));
    if (axes == 2) {
      ASSERT_EQ(CALL(aclnnAdaptiveAvgPool2d, x, size, y), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnAdaptiveMaxPool2d, x, size, most, at), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnAdaptiveAvgPool2dBackward, g, x, dx), 0) << aclGetRecentErrMsg();
    } else {
      ASSERT_EQ(CALL(aclnnAdaptiveAvgPool3d, x, size, y), 0) << aclGetRecentErrMsg();
      ASSERT_EQ(CALL(aclnnAdaptiveMaxPool3d, x, size, most, at), 0) << aclGetRecentErrMsg();
    }
    std::vector<double> want, largest, back(static_cast<size_t>(n * c * in_size));
    std::vector<double> first;
    for (int64_t i = 0; i < n * c * out_size; ++i) {
      const int64_t plane = i / out_size, o = i % out_size;
      const int64_t pos[3] = {o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
      int64_t lo[3], hi[3], count = 1;
      for (int a = 0; a < 3; ++a) {
        lo[a] = pos[a] * in[a] / out[a], hi[a] = ((pos[a] + 1) * in[a] + out[a] - 1) / out[a];
        count *= hi[a] - lo[a];
      }
      double sum = 0, best = -1e30, where = 0;
      for (int64_t z = lo[0]; z < hi[0]; ++z) {
        for (int64_t r = lo[1]; r < hi[1]; ++r) {
          for (int64_t q = lo[2]; q < hi[2]; ++q) {
            const int64_t e = (z * in[1] + r) * in[2] + q;
            const double v = x[plane * in_size + e];
            sum += v;
            back[static_cast<size_t>(plane * in_size + e)] += g[i] / static_cast<double>(count);
            if (v > best) best = v, where = static_cast<double>(e);
          }
        }
      }
      want.push_back(sum / static_cast<double>(count));
      largest.push_back(best), first.push_back(where);
    }
    EXPECT_EQ(Compare(y.Get(), want, SumTolerances(want, t)), "") << Name(t);
    EXPECT_EQ(most.Get(), largest);
    EXPECT_EQ(at.Get(), first);
    if (axes == 2) {
      EXPECT_EQ(Compare(dx.Get(), back, SumTolerances(back, t)), "") << Name(t);
    }
    ExpectGuards({&x, &g, &y, &most, &dx});
  }
}

TEST_F(Pools, PositionsBackAndUnpool) {
  for (int round = 0; round < 30; ++round) {
    const DType t = kFloats[round % 3];
    const int axes = 2 + round % 2;
    const Pool p = RandomPool(axes);
    const int64_t n = 2, c = rng_.Int(1, 2);
    RandomTensor x(t, Image(n, c, p.in, axes), rng_, round % 3 == 1), g(t, Image(n, c, p.out, axes), rng_);
    ApiTensor y(t, g.dims(), &rng_, round % 3 == 2), at(axes == 2 ? DType::kS64 : DType::kS32, g.dims()),
        dx(t, x.dims(), &rng_, round % 2);
    ApiInts k(Last(p.k, axes)), s(Last(p.s, axes)), pads(Last(p.p, axes)), one({1});
    ASSERT_EQ(axes == 2 ? CALL(aclnnMaxPool2dWithIndices, x, k, s, pads, one, p.ceil, y, at)
                        : CALL(aclnnMaxPool3dWithArgmax, x, k, s, pads, one, p.ceil, y, at),
              0)
        << aclGetRecentErrMsg();
    std::vector<double> want, where, back(static_cast<size_t>(n * c * p.In())), last(back.size());
    for (int64_t i = 0; i < n * c * p.Out(); ++i) {
      const int64_t plane = i / p.Out();
      double best = -1e30;
      int64_t from = 0;
      p.Visit(i % p.Out(), true, 1, [&](int64_t e, double) {
        if (x[plane * p.In() + e] > best) best = x[plane * p.In() + e], from = e;
      });
      want.push_back(best), where.push_back(static_cast<double>(from));
      back[static_cast<size_t>(plane * p.In() + from)] += g[i];
      last[static_cast<size_t>(plane * p.In() + from)] = best;
    }
    EXPECT_EQ(y.Get(), want);
    EXPECT_EQ(at.Get(), where);
    if (axes == 3) continue;
    ASSERT_EQ(CALL(aclnnMaxPool2dWithIndicesBackward, g, x, at, k, s, pads, one, p.ceil, dx), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(dx.Get(), back, SumTolerances(back, t)), "") << Name(t);
    // The same by masks.
    const int64_t row = ((p.Out() + 15) / 16 + 1) * 32;
    ApiTensor mask(DType::kS8, {n, c, p.k[1] * p.k[2], row}), dx2(t, x.dims(), &rng_, round % 3 == 1);
    ASSERT_EQ(CALL(aclnnMaxPool2dWithMask, x, k, s, pads, one, p.ceil, y, mask), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(y.Get(), want);
    double bits = 0;
    for (double v : mask.Get()) bits += __builtin_popcount(static_cast<uint8_t>(static_cast<int8_t>(v)));
    EXPECT_EQ(bits, static_cast<double>(n * c * p.Out()));
    ASSERT_EQ(CALL(aclnnMaxPool2dWithMaskBackward, g, x, mask, k, s, pads, one, p.ceil, dx2), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(dx2.Get(), back, SumTolerances(back, t)), "") << Name(t);
    mask.Set(std::vector<double>(mask.Get().size(), 0));
    const auto before = dx2.Get();
    EXPECT_NE(CALL(aclnnMaxPool2dWithMaskBackward, g, x, mask, k, s, pads, one, p.ceil, dx2), 0);
    EXPECT_EQ(dx2.Get(), before);
    ExpectGuards({&mask, &dx2});
    if (t == DType::kBF16) continue;  // not a type of unpooling
    ApiInts size(Last(p.in, axes));
    ASSERT_EQ(CALL(aclnnMaxUnpool2d, y, at, size, dx), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(dx.Get(), last);
    ApiTensor small(t, g.dims(), &rng_, round % 4 == 1);
    ASSERT_EQ(CALL(aclnnMaxUnpool2dBackward, x, y, at, size, small), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(small.Get(), want);
    ExpectGuards({&x, &y, &at, &dx, &small});
  }
  RandomTensor x(DType::kF32, {1, 1, 4, 4}, rng_);
  ApiTensor y(DType::kF32, {1, 1, 2, 2}), at(DType::kS64, {1, 1, 2, 2});
  ApiInts two({2}), none({}), one({1}), zero({0}), five({5, 5});
  ExpectRefused(CALL(aclnnMaxPool2dWithIndices, x, none, two, zero, one, false, y, at), 161002,
                {"kernelSize has 0"});
  ExpectRefused(CALL(aclnnMaxPool2dWithIndices, x, two, two, two, one, false, y, at), 161002,
                {"padding", "at most 1"});
  ExpectRefused(CALL(aclnnMaxUnpool2d, y, at, five, x), 161002, {"outputSize", "[1,1,4,4]"});
  ApiInts below({-1, 3});
  ExpectRefused(CALL(aclnnAdaptiveAvgPool2d, x, below, y), 161002,
                {"outputSize[0] is -1", "allowed: 0 or more"});
  ExpectRefused(CALL(aclnnAdaptiveMaxPool2d, x, below, y, at), 161002, {"outputSize[0] is -1"});
}

}  // namespace
}  // namespace opsnn::capi
