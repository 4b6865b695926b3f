// Gradients of convolutions against their definitions in double, the definitions against finite differences;
// the depthwise and the (time, batch, channel) form; refusals.
#include <cmath>

#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_convolution_backward.h"
#include "capi/aclnn_tester.h"

namespace opsnn::capi {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

struct Case {
  Dims x, w;
  Ints stride, padding, dilation, extra;  // padding: one value per dim, or both sides of each dim in turn
  int64_t groups = 1;
  bool transposed = false;

  int spatial() const { return x.rank() - 2; }
  int64_t Pad(int i, int side) const {
    const auto k = static_cast<size_t>(i);
    return static_cast<int>(padding.size()) == spatial() ? padding[k]
                                                         : padding[2 * k + static_cast<size_t>(side)];
  }
  Dims Result() const {
    Dims y{x[0], transposed ? w[1] * groups : w[0]};
    for (int i = 0; i < spatial(); ++i) {
      const auto k = static_cast<size_t>(i);
      const int64_t extent = (w[2 + i] - 1) * dilation[k] + 1, pad = Pad(i, 0) + Pad(i, 1);
      y.push_back(transposed ? (x[2 + i] - 1) * stride[k] + extent + extra[k] - pad
                             : (x[2 + i] + pad - extent) / stride[k] + 1);
    }
    return y;
  }
  // Calls f(position in y, in x, in w) for every product of which y is the sum.
  template <typename F>
  void ForEachProduct(F&& f) const {
    const Dims y = Result();
    const int64_t cg = x[1] / groups, og = y[1] / groups;
    for (int64_t wi = 0; wi < NumElements(w); ++wi) {
      const Index k = At(w, wi);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t o = transposed ? g * og + k[1] : k[0], c = transposed ? k[0] : g * cg + k[1];
        if ((transposed ? c / cg : o / og) != g) continue;
        // Over the positions of the smaller image, which meets the other at i * stride - pad + k * dilation.
        const Dims &from = transposed ? x : y, &to = transposed ? y : x;
        Dims grid{from[0]};
        for (int i = 0; i < spatial(); ++i) grid.push_back(from[2 + i]);
        for (int64_t p = 0; p < NumElements(grid); ++p) {
          const Index at = At(grid, p);
          Index far = {at[0], transposed ? o : c}, near = {at[0], transposed ? c : o};
          bool inside = true;
          for (int i = 0; i < spatial(); ++i) {
            const auto s = static_cast<size_t>(i);
            far.push_back(at[s + 1] * stride[s] - Pad(i, 0) + k[s + 2] * dilation[s]);
            near.push_back(at[s + 1]);
            inside = inside && far.back() >= 0 && far.back() < to[2 + i];
          }
          if (!inside) continue;
          const int64_t a = Linear(from, near), b = Linear(to, far);
          f(transposed ? b : a, transposed ? a : b, wi);
        }
      }
    }
  }
};

struct Gradient {
  Doubles value, magnitude;
  explicit Gradient(int64_t n) : value(static_cast<size_t>(n)), magnitude(static_cast<size_t>(n)) {}
  void Add(int64_t at, double v) {
    value[static_cast<size_t>(at)] += v;
    magnitude[static_cast<size_t>(at)] += std::abs(v);
  }
  // `terms`: at most so many in a sum.
  Doubles Tolerance(int64_t terms, DType t) const {
    Doubles tolerance;
    for (size_t i = 0; i < value.size(); ++i)
      tolerance.push_back(testing::ContractionTolerance(magnitude[i], value[i], terms, DType::kF32, t));
    return tolerance;
  }
};

const Case kCases[] = {
    {{2, 3, 8, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {{1, 6, 9, 8}, {4, 3, 3, 2}, {2, 1}, {1, 0}, {1, 2}, {0, 0}, 2},
    {{2, 5, 6, 6}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 5},
    {{1, 3, 6, 8}, {4, 3, 3, 3}, {2, 2}, {0, 1, 1, 2}, {1, 1}, {0, 0}},
    {{2, 4, 5, 6}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1, true},
    {{1, 4, 5, 5}, {4, 2, 2, 2}, {3, 2}, {0, 0}, {1, 1}, {2, 0}, 2, true},
    {{2, 3, 11}, {4, 3, 3}, {2}, {1}, {1}, {0}},
    {{2, 17, 4}, {17, 3, 3}, {2}, {1}, {1}, {1}, 1, true},
    {{1, 3, 5, 6, 4}, {4, 3, 2, 3, 3}, {2, 1, 1}, {1, 1, 0}, {1, 1, 1}, {0, 0, 0}},
    {{1, 4, 2, 3, 3}, {4, 2, 2, 3, 2}, {2, 1, 2}, {0, 1, 0}, {1, 1, 1}, {1, 0, 1}, 2, true},
    {{0, 3, 8, 9}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
};

class ConvGradients : public ApiTest {
 protected:
  static aclBoolArray* Mask(bool a, bool b, bool c) {
    const bool mask[] = {a, b, c};
    return aclCreateBoolArray(mask, 3);
  }
  Rng rng_;
};

// The gradients below sum dy * w and dy * x over the products of y. That these are the products of the
// derivative: L = sum of dy * y moves by them when one x or w moves.
TEST_F(ConvGradients, ReferenceIsADerivative) {
  for (const Case& c : kCases) {
    const auto random = [this](const Dims& d) {
      return Make(d, [this](const Index&) { return rng_.Real(-1, 1); });
    };
    Doubles x = random(c.x), w = random(c.w);
    const Doubles dy = random(c.Result());
    const auto loss = [&] {
      double sum = 0;
      c.ForEachProduct([&](int64_t y, int64_t xi, int64_t wi) {
        sum += dy[static_cast<size_t>(y)] * x[static_cast<size_t>(xi)] * w[static_cast<size_t>(wi)];
      });
      return sum;
    };
    Gradient dx(NumElements(c.x)), dw(NumElements(c.w));
    c.ForEachProduct([&](int64_t y, int64_t xi, int64_t wi) {
      dx.Add(xi, dy[static_cast<size_t>(y)] * w[static_cast<size_t>(wi)]);
      dw.Add(wi, dy[static_cast<size_t>(y)] * x[static_cast<size_t>(xi)]);
    });
    constexpr double kStep = 1e-4, kError = 1e-7;
    const auto check = [&](Doubles& v, const Gradient& g) {
      for (int i = 0; i < 8 && !v.empty(); ++i) {
        double& one = v[static_cast<size_t>(rng_.Int(0, static_cast<int64_t>(v.size()) - 1))];
        const double old = one;
        one = old + kStep;
        const double up = loss();
        one = old - kStep;
        const double down = loss();
        one = old;
        EXPECT_NEAR((up - down) / (2 * kStep), g.value[static_cast<size_t>(&one - v.data())], kError);
      }
    };
    check(x, dx), check(w, dw);
  }
}

TEST_F(ConvGradients, AllOfThem) {
  for (const Case& c : kCases) {
    for (DType t : kFloats) {
      const bool strided = rng_.Chance(0.5);
      const Dims yd = c.Result();
      RandomTensor x(t, c.x, rng_, strided, 2), w(t, c.w, rng_, strided, 2), dy(t, yd, rng_, strided, 2);
      ApiTensor dx(t, c.x, &rng_, strided), dw(t, c.w, &rng_, strided), db(t, {yd[1]});
      Gradient gx(NumElements(c.x)), gw(NumElements(c.w)), gb(yd[1]);
      c.ForEachProduct([&](int64_t y, int64_t xi, int64_t wi) {
        gx.Add(xi, dy[y] * w[wi]);
        gw.Add(wi, dy[y] * x[xi]);
      });
      for (int64_t i = 0; i < NumElements(yd); ++i) gb.Add(At(yd, i)[1], dy[i]);
      ApiInts bias({yd[1]}), stride(c.stride), padding(c.padding), dilation(c.dilation), extra(c.extra);
      ASSERT_EQ(CALL(aclnnConvolutionBackward, dy, x, w, bias, stride, padding, dilation, c.transposed, extra,
                     static_cast<int>(c.groups), Mask(true, true, true), int8_t{0}, dx, dw, db),
                0)
          << aclGetRecentErrMsg();
      const int64_t taps = NumElements(c.w) / std::max<int64_t>(1, c.w[0]), pixels = NumElements(yd);
      EXPECT_EQ(Compare(dx.Get(), gx.value, gx.Tolerance(taps * yd[1] + 1, t)), "")
          << ToString(c.x) << Name(t);
      EXPECT_EQ(Compare(dw.Get(), gw.value, gw.Tolerance(pixels + 1, t)), "") << ToString(c.x) << Name(t);
      EXPECT_EQ(Compare(db.Get(), gb.value, gb.Tolerance(pixels + 1, t)), "") << ToString(c.x) << Name(t);
      ExpectGuards({&dx, &dw, &db});
    }
  }
}

TEST_F(ConvGradients, ForwardOfVolumesAndHalves) {
  for (const Case& c : kCases) {
    for (DType t : kFloats) {
      const Dims yd = c.Result();
      RandomTensor x(t, c.x, rng_, false, 2), w(t, c.w, rng_, false, 2), b(t, {yd[1]}, rng_, false, 2);
      ApiTensor y(t, yd);
      Gradient sum(NumElements(yd));
      c.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) { sum.Add(yi, x[xi] * w[wi]); });
      for (int64_t i = 0; i < NumElements(yd); ++i) sum.Add(i, b[At(yd, i)[1]]);
      ApiInts stride(c.stride), padding(c.padding), dilation(c.dilation), extra(c.extra);
      ASSERT_EQ(CALL(aclnnConvolution, x, w, b, stride, padding, dilation, c.transposed, extra, c.groups, y,
                     int8_t{0}),
                0)
          << aclGetRecentErrMsg();
      EXPECT_EQ(Compare(y.Get(), sum.value, sum.Tolerance(NumElements(c.w) + 1, t)), "")
          << ToString(c.x) << Name(t);
      ExpectGuards({&y});
    }
  }
}

TEST_F(ConvGradients, Depthwise) {
  for (DType t : kFloats) {
    const Case c{{2, 5, 8, 7}, {10, 1, 3, 2}, {1, 2}, {1, 0}, {2, 1}, {0, 0}, 5};
    const Dims yd = c.Result();
    RandomTensor x(t, c.x, rng_, true, 2), w(t, c.w, rng_, false, 2), b(t, {10}, rng_, false, 2);
    ApiTensor y(t, yd, &rng_, true);
    Gradient sum(NumElements(yd));
    c.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) { sum.Add(yi, x[xi] * w[wi]); });
    for (int64_t i = 0; i < NumElements(yd); ++i) sum.Add(i, b[At(yd, i)[1]]);
    ApiInts kernel({3, 2}), stride(c.stride), padding(c.padding), dilation(c.dilation), wrong({2, 3});
    ASSERT_EQ(CALL(aclnnConvDepthwise2d, x, w, kernel, b, stride, padding, dilation, y, int8_t{0}), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), sum.value, sum.Tolerance(7, t)), "");
    ExpectRefused(CALL(aclnnConvDepthwise2d, x, w, wrong, b, stride, padding, dilation, y, int8_t{0}), 161002,
                  {"kernelSize is [2,3]", "[10,1,3,2]"});
    RandomTensor wide(t, {10, 2, 3, 2}, rng_);
    ExpectRefused(CALL(aclnnConvDepthwise2d, x, wide, kernel, b, stride, padding, dilation, y, int8_t{0}),
                  161002, {"weight is of shape [10,2,3,2]"});
  }
}

TEST_F(ConvGradients, TimeBatchChannel) {
  for (DType t : kFloats) {
    const int64_t kTime = 7, kBatch = 2, kIn = 3, kOut = 4, kKernel = 3, kPad = 1, kLong = 7;
    const Dims xd{kTime, kBatch, kIn}, wd{kKernel, kIn, kOut}, yd{kLong, kBatch, kOut};
    RandomTensor x(t, xd, rng_, true, 2), w(t, wd, rng_, false, 2), b(t, {kOut}, rng_, false, 2),
        dy(t, yd, rng_, true, 2);
    ApiTensor y(t, yd), dx(t, xd), dw(t, wd), db(t, {kOut});
    Gradient sum(NumElements(yd)), gx(NumElements(xd)), gw(NumElements(wd)), gb(kOut);
    for (int64_t i = 0; i < NumElements(yd); ++i) {
      const Index at = At(yd, i);
      sum.Add(i, b[at[2]]), gb.Add(at[2], dy[i]);
      for (int64_t j = 0; j < kKernel * kIn; ++j) {
        const int64_t k = j / kIn, c = j % kIn, time = at[0] - kPad + k;
        if (time < 0 || time >= kTime) continue;
        const int64_t xi = Linear(xd, {time, at[1], c}), wi = Linear(wd, {k, c, at[2]});
        sum.Add(i, x[xi] * w[wi]), gx.Add(xi, dy[i] * w[wi]), gw.Add(wi, dy[i] * x[xi]);
      }
    }
    ASSERT_EQ(CALL(aclnnConvTbc, x, w, b, kPad, y, int8_t{0}), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(y.Get(), sum.value, sum.Tolerance(kKernel * kIn + 1, t)), "");
    ASSERT_EQ(CALL(aclnnConvTbcBackward, dy, x, w, b, kPad, int8_t{0}, dx, dw, db), 0)
        << aclGetRecentErrMsg();
    EXPECT_EQ(Compare(dx.Get(), gx.value, gx.Tolerance(kKernel * kOut, t)), "");
    EXPECT_EQ(Compare(dw.Get(), gw.value, gw.Tolerance(kBatch * kLong, t)), "");
    EXPECT_EQ(Compare(db.Get(), gb.value, gb.Tolerance(kBatch * kLong, t)), "");
    ExpectGuards({&y, &dx, &dw, &db});
    ExpectRefused(CALL(aclnnConvTbc, x, w, b, int64_t{256}, y, int8_t{0}), 161002,
                  {"pad is 256", "0 to 255"});
    ExpectRefused(CALL(aclnnConvTbc, x, w, nullptr, kPad, y, int8_t{0}), 161001, {"bias is null"});
    ExpectRefused(CALL(aclnnConvTbc, x, x, b, kPad, y, int8_t{0}), 161002, {"weight is of shape [7,2,3]"});
    ExpectRefused(CALL(aclnnConvTbcBackward, dx, x, w, b, kPad, int8_t{0}, dx, dw, db), 161002,
                  {"self has shape [7,2,3]", "[7,2,4]"});
  }
}

TEST_F(ConvGradients, Refusals) {
  RandomTensor x(DType::kF32, {1, 3, 6, 6}, rng_), w(DType::kF32, {4, 3, 3, 3}, rng_),
      dy(DType::kF32, {1, 4, 4, 4}, rng_), small(DType::kF32, {1, 4, 3, 3}, rng_);
  ApiTensor dx(DType::kF32, {1, 3, 6, 6}), dw(DType::kF32, {4, 3, 3, 3}), db(DType::kF32, {4}),
      wrong(DType::kF32, {4, 3, 3, 2});
  ApiInts one({1, 1}), zero({0, 0}), bias({4}), five({5}), two({2, 2});
  const auto call = [&](const aclTensor* y, const aclIntArray* sizes, const aclIntArray* extra, int groups,
                        aclBoolArray* mask, aclTensor* input, aclTensor* weight) {
    return CALL(aclnnConvolutionBackward, y, x, w, sizes, one, zero, one, false, extra, groups, mask,
                int8_t{0}, input, weight, db);
  };
  ExpectRefused(call(small, bias, zero, 1, Mask(true, true, true), dx, dw), 161002,
                {"gradOutput has shape [1,4,3,3]", "[1,4,4,4]"});
  ExpectRefused(call(dy, five, zero, 1, Mask(true, true, true), dx, dw), 161002, {"biasSizes is [5]", "[4]"});
  ExpectRefused(call(dy, nullptr, zero, 1, Mask(true, true, true), dx, dw), 161001, {"biasSizes is null"});
  ExpectRefused(call(dy, bias, one, 1, Mask(true, true, true), dx, dw), 161002,
                {"outputPadding is [1,1]", "zeros"});
  ExpectRefused(call(dy, bias, zero, 3, Mask(true, true, true), dx, dw), 161002, {"groups is 3"});
  ExpectRefused(call(dy, bias, zero, 1, Mask(true, true, true), nullptr, dw), 161001, {"gradInput is null"});
  ExpectRefused(call(dy, bias, zero, 1, Mask(false, true, true), nullptr, wrong), 161002,
                {"gradWeight has shape [4,3,3,2]", "[4,3,3,3]"});
  ExpectRefused(call(dy, bias, zero, 1, Mask(false, false, false), dx, dw), 161002, {"outputMask"});
  EXPECT_EQ(call(dy, nullptr, zero, 1, Mask(false, true, false), nullptr, dw), 0) << aclGetRecentErrMsg();
}

}  // namespace
}  // namespace opsnn::capi
