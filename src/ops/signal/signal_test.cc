// ReverseSequence, EyeLike, the window functions and Det.
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

TEST(ReverseSequence, BothOrders) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const bool batch_first = rng.Chance(0.5);
    const int64_t batch = rng.Int(0, 5), time = rng.Int(0, 9), inner = rng.Int(1, 4);
    const Dims dims = batch_first ? Dims{batch, time, inner} : Dims{time, batch, inner};
    GuardedTensor x(rng.Chance(0.5) ? DType::kF32 : DType::kS8, dims, &rng, rng.Chance(0.4)),
        lengths(DType::kS64, {batch});
    x.FillRandom(rng, 0, 100);
    std::vector<double> l(static_cast<size_t>(batch));
    for (double& e : l) e = static_cast<double>(rng.Int(0, time));
    lengths.Set(l);
    OpTester t("ReverseSequence");
    t.In(x).In(lengths).Attr("batch_axis", int64_t{!batch_first}).Attr("time_axis", int64_t{batch_first});
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get();
    std::vector<double> want(v.size());
    const auto at = [&](int64_t b, int64_t s, int64_t i) {
      return static_cast<size_t>((batch_first ? b * time + s : s * batch + b) * inner + i);
    };
    for (int64_t b = 0; b < batch; ++b) {
      const auto n = static_cast<int64_t>(l[static_cast<size_t>(b)]);
      for (int64_t s = 0; s < time; ++s)
        for (int64_t i = 0; i < inner; ++i) want[at(b, s, i)] = v[at(b, s < n ? n - 1 - s : s, i)];
    }
    ASSERT_EQ(t.Out().Get(), want);
  }
  GuardedTensor x(DType::kF32, {2, 1}), lengths(DType::kS64, {1});
  lengths.Set({3});
  OpTester t("ReverseSequence");
  t.In(x).In(lengths);
  EXPECT_EQ(t.Run().message(), "ReverseSequence: sequence_lens[0] is 3; allowed: 0 to 2");
}

TEST(EyeLike, DiagonalsAndTypes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const Dims dims = {rng.Int(0, 7), rng.Int(0, 7)};
    const int64_t k = rng.Chance(0.1) ? INT64_MAX : rng.Chance(0.1) ? INT64_MIN : rng.Int(-9, 9);
    const DType to = static_cast<DType>(rng.Int(0, kNumDTypes - 1));
    GuardedTensor x(DType::kF32, dims);
    OpTester t("EyeLike");
    t.In(x).Attr("k", k).Attr("dtype", int64_t{Info(to).onnx});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_EQ(t.OutDesc().dtype, to);
    std::vector<double> want;
    for (int64_t i = 0; i < dims[0]; ++i)
      for (int64_t j = 0; j < dims[1]; ++j) want.push_back(j - i == k);
    ASSERT_EQ(t.Out().Get(), want) << ToString(dims) << " " << k;
  }
}

TEST(Windows, MatchTheFormulas) {
  struct Window {
    const char* op;
    double a0, a1, a2;
  };
  for (const Window& w : {Window{"HannWindow", 0.5, 0.5, 0}, Window{"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
                          Window{"BlackmanWindow", 0.42, 0.5, 0.08}}) {
    for (const int64_t n : {0, 1, 2, 7, 64}) {
      for (const int64_t periodic : {0, 1}) {
        for (const DType type : {DType::kF32, DType::kF64, DType::kF16}) {
          OpTester t(w.op);
          t.In(HostTensor::From<int64_t>({}, {n})).Attr("periodic", periodic);
          t.Attr("output_datatype", int64_t{Info(type).onnx});
          ASSERT_TRUE(t.Run().ok()) << t.status().message();
          std::vector<double> want;
          const double size = static_cast<double>(periodic || n == 1 ? n : n - 1);
          for (int64_t i = 0; i < n; ++i) {
            const double x = 2 * M_PI * static_cast<double>(i) / size;
            want.push_back(w.a0 - w.a1 * std::cos(x) + w.a2 * std::cos(2 * x));
          }
          EXPECT_EQ("", testing::Compare(t.Out().Get(), want, 2e-15, testing::Epsilon(type))) << w.op << n;
        }
      }
    }
  }
}

// Expansion along the first row: no elimination.
double Minors(const std::vector<double>& a, int64_t n) {
  if (n == 0) return 1;
  double det = 0;
  for (int64_t j = 0; j < n; ++j) {
    std::vector<double> rest;
    for (int64_t r = 1; r < n; ++r)
      for (int64_t c = 0; c < n; ++c)
        if (c != j) rest.push_back(a[static_cast<size_t>(r * n + c)]);
    det += (j % 2 ? -1 : 1) * a[static_cast<size_t>(j)] * Minors(rest, n - 1);
  }
  return det;
}

TEST(Det, MatchesMinors) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const int64_t n = rng.Int(0, 5), batch = rng.Int(1, 4);
    const DType type = rng.Chance(0.5) ? DType::kF32 : DType::kF64;
    GuardedTensor x(type, {batch, n, n}, &rng, rng.Chance(0.4));
    x.FillRandom(rng);
    OpTester t("Det");
    t.In(x);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get();
    std::vector<double> want;
    for (int64_t b = 0; b < batch; ++b)
      want.push_back(Minors({v.begin() + b * n * n, v.begin() + (b + 1) * n * n}, n));
    // Terms are products of five values below 2: at most 120 of them, each within a few roundings in f64.
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, 120 * 32 * 64 * testing::Epsilon(DType::kF64),
                                   testing::Epsilon(type)));
  }
}

TEST(CenterCropPad, TheMiddleStays) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const Dims dims = rng.Shape(1, 3, 400, true);
    GuardedTensor x(rng.Chance(0.5) ? DType::kF32 : DType::kS16, dims, &rng, rng.Chance(0.4));
    x.FillRandom(rng, 1, 90);
    Dims out = dims;
    std::vector<int64_t> axes, shape;
    for (int i = 0; i < dims.rank(); ++i) {
      if (rng.Chance(0.4)) continue;
      out[i] = rng.Int(0, 9);
      axes.push_back(rng.Chance(0.3) ? i - dims.rank() : i);
      shape.push_back(out[i]);
    }
    OpTester t("CenterCropPad");
    t.In(x).In(HostTensor::From<int64_t>({static_cast<int64_t>(shape.size())}, shape)).Attr("axes", axes);
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get();
    std::vector<double> want(static_cast<size_t>(NumElements(out)));
    for (size_t i = 0; i < want.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), at = 0, step = 1;
      bool inside = true;
      for (int d = dims.rank() - 1; d >= 0; --d) {
        const int64_t from = dims[d] >= out[d] ? rest % out[d] + (dims[d] - out[d]) / 2
                                               : rest % out[d] - (out[d] - dims[d]) / 2;
        rest /= out[d];
        inside = inside && from >= 0 && from < dims[d];
        at += from * step;
        step *= dims[d];
      }
      if (inside) want[i] = v[static_cast<size_t>(at)];
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(dims) << ToString(out);
  }
}

TEST(Col2Im, AddsWhatBlocksHold) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const int64_t h = rng.Int(1, 6), w = rng.Int(1, 6), kh = rng.Int(1, h), kw = rng.Int(1, w),
                  sh = rng.Int(1, 2), sw = rng.Int(1, 2), pad = rng.Int(0, 1), n = rng.Int(1, 2),
                  c = rng.Int(1, 2);
    const int64_t bh = (h + 2 * pad - kh) / sh + 1, bw = (w + 2 * pad - kw) / sw + 1;
    GuardedTensor x(rng.Chance(0.5) ? DType::kF32 : DType::kF64, {n, c * kh * kw, bh * bw}, &rng,
                    rng.Chance(0.4));
    x.FillRandom(rng);
    OpTester t("Col2Im");
    t.In(x).In(HostTensor::From<int64_t>({2}, {h, w})).In(HostTensor::From<int64_t>({2}, {kh, kw}));
    t.Attr("strides", std::vector<int64_t>{sh, sw}).Attr("pads", std::vector<int64_t>(4, pad));
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get();
    std::vector<double> want(static_cast<size_t>(n * c * h * w));
    for (int64_t i = 0; i < n * c; ++i)
      for (int64_t a = 0; a < kh; ++a)
        for (int64_t b = 0; b < kw; ++b)
          for (int64_t p = 0; p < bh; ++p)
            for (int64_t q = 0; q < bw; ++q) {
              const int64_t y = p * sh - pad + a, z = q * sw - pad + b;
              if (y < 0 || y >= h || z < 0 || z >= w) continue;
              want[static_cast<size_t>((i * h + y) * w + z)] +=
                  v[static_cast<size_t>(((i * kh + a) * kw + b) * bh * bw + p * bw + q)];
            }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, 36 * 2 * testing::Epsilon(x.view().dtype) * 36, 0));
  }
}

}  // namespace
}  // namespace opsnn::op
