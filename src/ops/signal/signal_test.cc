// ReverseSequence, EyeLike, window functions, transforms, Det, CenterCropPad and Col2Im.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

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

TEST(Det, NanAnywhereGivesNan) {
  Rng rng;
  for (int64_t n = 1; n <= 4; ++n) {
    for (int64_t at = 0; at < n * n; ++at) {
      for (const bool zeros : {false, true}) {  // zeros make every pivot but NaN 0
        GuardedTensor x(DType::kF64, {n, n});
        std::vector<double> v(static_cast<size_t>(n * n));
        for (double& e : v) e = zeros ? 0 : rng.Real(-1, 1);
        v[static_cast<size_t>(at)] = std::nan("");
        x.Set(v);
        OpTester t("Det");
        t.In(x);
        ASSERT_TRUE(t.Run().ok()) << t.status().message();
        EXPECT_TRUE(std::isnan(t.Out().Get()[0])) << n << " " << at << " " << zeros;
      }
    }
  }
  GuardedTensor x(DType::kF64, {2, 2});
  x.Set({0, 1, std::nan(""), 2});
  OpTester t("Det");
  t.In(x);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_TRUE(std::isnan(t.Out().Get()[0]));
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

TEST(Col2Im, SizesThatOverflowAreRefused) {
  using Ints = std::vector<int64_t>;
  const int64_t big = int64_t{1} << 30, wild = std::numeric_limits<int64_t>::max();
  struct Row {
    Ints image, block, dilations, pads;
  };
  for (const Row& r :
       {Row{Ints(3, big), Ints(3, big), Ints(3, 1), Ints(6, 0)},  // 2^90 taps
        Row{Ints(3, big), Ints(3, 1), Ints(3, 1), Ints(6, 0)},    // 2^90 positions
        Row{{8}, {wild}, {wild}, {0, 0}}, Row{{8}, {3}, {1}, {wild, wild}}, Row{{wild}, {3}, {1}, {0, 1}}}) {
    GuardedTensor x(DType::kF32, {1, 4, 4});
    const auto n = static_cast<int64_t>(r.image.size());
    OpTester t("Col2Im");
    t.In(x).In(HostTensor::From<int64_t>({n}, r.image)).In(HostTensor::From<int64_t>({n}, r.block));
    t.Attr("dilations", r.dilations).Attr("pads", r.pads);
    EXPECT_EQ(t.Run().code(), Code::kInvalid) << t.status().message();
  }
}

// The transform by its definition.
std::vector<std::complex<double>> Slow(const std::vector<std::complex<double>>& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::complex<double>> y(x.size());
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < n; ++j) {
      const double angle =
          (inverse ? 2 : -2) * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
      y[static_cast<size_t>(k)] += x[static_cast<size_t>(j)] * std::polar(1.0, angle);
    }
    if (inverse) y[static_cast<size_t>(k)] /= static_cast<double>(n);
  }
  return y;
}

// Sums of n terms below 3 in f64, then one rounding.
double TransformBound(int64_t n) { return 64 * static_cast<double>(n) * testing::Epsilon(DType::kF64); }

TEST(Dft, EveryLengthAndAxis) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int64_t n = rng.Int(1, 70), length = rng.Chance(0.5) ? n : rng.Int(1, 70), parts = rng.Int(1, 2);
    const int64_t before = rng.Int(1, 3), after = rng.Int(1, 3);
    const bool inverse = rng.Chance(0.4), onesided = !inverse && parts == 1 && rng.Chance(0.5);
    const DType type = rng.Chance(0.5) ? DType::kF32 : DType::kF64;
    GuardedTensor x(type, {before, n, after, parts}, &rng, rng.Chance(0.4));
    x.FillRandom(rng);
    OpTester t("DFT");
    t.In(x);
    length == n&& rng.Chance(0.5) ? t.Absent() : t.In(HostTensor::From<int64_t>({}, {length}));
    t.In(HostTensor::From<int64_t>({}, {rng.Chance(0.5) ? 1 : -3}));
    t.Attr("inverse", int64_t{inverse}).Attr("onesided", int64_t{onesided});
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const int64_t bins = onesided ? length / 2 + 1 : length;
    ASSERT_EQ(t.OutDesc().dims, (Dims{before, bins, after, 2}));
    const std::vector<double> v = x.Get();
    std::vector<double> want(static_cast<size_t>(before * bins * after * 2));
    for (int64_t o = 0; o < before; ++o) {
      for (int64_t i = 0; i < after; ++i) {
        std::vector<std::complex<double>> row(static_cast<size_t>(length));
        for (int64_t k = 0; k < std::min(n, length); ++k) {
          const auto at = static_cast<size_t>(((o * n + k) * after + i) * parts);
          row[static_cast<size_t>(k)] = {v[at], parts == 2 ? v[at + 1] : 0};
        }
        row = Slow(row, inverse);
        for (int64_t k = 0; k < bins; ++k) {
          const auto at = static_cast<size_t>(((o * bins + k) * after + i) * 2);
          want[at] = row[static_cast<size_t>(k)].real(), want[at + 1] = row[static_cast<size_t>(k)].imag();
        }
      }
    }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, TransformBound(length), testing::Epsilon(type)))
        << n << " as " << length;
  }
}

TEST(Stft, FramesOfAWindow) {
  Rng rng;
  for (auto _ : testing::FuzzFor(80)) {
    const int64_t size = rng.Int(4, 60), length = rng.Int(1, size), step = rng.Int(1, 9),
                  batch = rng.Int(1, 2);
    const bool windowed = rng.Chance(0.6), onesided = rng.Chance(0.5);
    GuardedTensor x(DType::kF32, {batch, size, 1}, &rng, rng.Chance(0.4)), w(DType::kF32, {length});
    x.FillRandom(rng), w.FillRandom(rng, 0, 1);
    OpTester t("STFT");
    t.In(x).In(HostTensor::From<int64_t>({}, {step}));
    windowed ? t.In(w) : t.Absent();
    t.In(HostTensor::From<int64_t>({}, {length})).Attr("onesided", int64_t{onesided});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const std::vector<double> v = x.Get(), factors = w.Get();
    std::vector<double> want;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t first = 0; first + length <= size; first += step) {
        std::vector<std::complex<double>> frame;
        for (int64_t k = 0; k < length; ++k)
          frame.push_back(v[static_cast<size_t>(b * size + first + k)] *
                          (windowed ? factors[static_cast<size_t>(k)] : 1));
        frame = Slow(frame, false);
        for (int64_t k = 0; k < (onesided ? length / 2 + 1 : length); ++k) {
          want.push_back(frame[static_cast<size_t>(k)].real());
          want.push_back(frame[static_cast<size_t>(k)].imag());
        }
      }
    }
    ASSERT_EQ("",
              testing::Compare(t.Out().Get(), want, TransformBound(length), testing::Epsilon(DType::kF32)));
  }
  GuardedTensor x(DType::kF32, {1, 4});
  OpTester t("STFT");
  t.In(x).In(HostTensor::From<int64_t>({}, {1})).Absent().In(HostTensor::From<int64_t>({}, {5}));
  EXPECT_EQ(t.Run().code(), Code::kInvalid);
}

TEST(MelWeightMatrix, TrianglesOverlap) {
  OpTester t("MelWeightMatrix");
  t.In(HostTensor::From<int64_t>({}, {8}))
      .In(HostTensor::From<int64_t>({}, {256}))
      .In(HostTensor::From<int64_t>({}, {8192}));
  t.In(HostTensor::From<float>({}, {0.0f})).In(HostTensor::From<float>({}, {4096.0f}));
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dims, (Dims{129, 8}));
  const std::vector<double> w = t.Out().Get();
  for (int64_t m = 0; m < 8; ++m) {  // one maximum of 1 in each column, rising before and falling behind it
    std::vector<double> column;
    for (int64_t f = 0; f < 129; ++f) column.push_back(w[static_cast<size_t>(f * 8 + m)]);
    const auto top = std::max_element(column.begin(), column.end());
    EXPECT_EQ(*top, 1);
    EXPECT_TRUE(std::is_sorted(column.begin(), top + 1));
    EXPECT_TRUE(std::is_sorted(std::make_reverse_iterator(column.end()), std::make_reverse_iterator(top)));
  }
}

TEST(MelWeightMatrix, EdgesFarBeyondTheSpectrum) {
  for (const float low : {0.0f, 1e37f}) {
    OpTester t("MelWeightMatrix");
    t.In(HostTensor::From<int64_t>({}, {3}))
        .In(HostTensor::From<int64_t>({}, {16}))
        .In(HostTensor::From<int64_t>({}, {1}));
    t.In(HostTensor::From<float>({}, {low})).In(HostTensor::From<float>({}, {1e38f}));
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    for (const double w : t.Out().Get()) {
      EXPECT_GE(w, 0);
      EXPECT_LE(w, low > 0 ? 0 : 1);
    }
  }
}

}  // namespace
}  // namespace opsnn::op
