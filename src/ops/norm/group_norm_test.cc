// Normalisations over groups, channels and chosen axes against their definitions on doubles.
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

// Values are within [-2, 2] and so are scale and bias: errors of the statistics are relative to that, and are
// enlarged by 1 / deviation.
double Bound(DType t, int64_t n, double inverse, double want) {
  const double eps = testing::Epsilon(t == DType::kF64 ? DType::kF64 : DType::kF32);
  const double length = 2 * std::sqrt(static_cast<double>(n)) + 16;
  return length * eps * 4 * (1 + inverse) * (1 + inverse) + 2 * testing::Epsilon(t) * std::fabs(want) +
         SmallestValue(t);
}

// Runs the call and compares, each element with its own bound.
void Expect(OpTester& t, Rng& rng, const std::vector<double>& want, const std::vector<double>& bounds,
            const std::string& what) {
  if (rng.Chance(0.4)) t.StridedOutputs(rng);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  ASSERT_EQ("", testing::Compare(t.Out().Get(), want, bounds)) << what;
}

TEST(GroupNorm, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(250)) {
    const DType type = kFloats[rng.Int(0, 3)];
    const bool instance = rng.Chance(0.5), per_group = rng.Chance(0.4);
    const int64_t groups = rng.Int(1, 6), size = instance ? 1 : rng.Int(1, 5), channels = groups * size;
    Dims dims = {rng.Int(1, 3), channels};
    for (int i = static_cast<int>(rng.Int(0, 3)); i > 0; --i) dims.push_back(rng.Size(20));
    const int64_t inner = NumElements(dims) / (dims[0] * channels), n = size * inner;
    GuardedTensor x(type, dims, &rng, rng.Chance(0.5));
    const Dims params = {per_group ? groups : channels};
    GuardedTensor scale(type, params, &rng, rng.Chance(0.3)), bias(type, params);
    x.FillRandom(rng), scale.FillRandom(rng), bias.FillRandom(rng);
    constexpr double kEpsilon = 1e-2;
    OpTester t(instance ? "InstanceNormalization" : "GroupNormalization");
    t.In(x).In(scale).In(bias).Attr("epsilon", kEpsilon);
    if (!instance) t.Attr("num_groups", groups);
    const std::vector<double> v = x.Get(), s = scale.Get(), b = bias.Get();
    std::vector<double> want(v.size()), bounds(v.size());
    for (size_t first = 0; first < v.size(); first += static_cast<size_t>(n)) {
      double mean = 0, var = 0;
      for (int64_t i = 0; i < n; ++i) mean += v[first + i] / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i)
        var += (v[first + i] - mean) * (v[first + i] - mean) / static_cast<double>(n);
      const double inverse = 1 / std::sqrt(var + kEpsilon);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t channel = static_cast<int64_t>(first + i) / inner % channels;
        const auto p = static_cast<size_t>(per_group ? channel / size : channel);
        want[first + i] = (v[first + i] - mean) * inverse * s[p] + b[p];
        bounds[first + i] = Bound(type, n, inverse, want[first + i]);
      }
    }
    Expect(t, rng, want, bounds,
           StrFormat("%s %s groups %d", Name(type), ToString(dims).c_str(), int(groups)));
    if (HasFailure()) return;
  }
}

// Far from zero the mean rounds by as much as the data spread; the result must not.
TEST(GroupNorm, DataFarFromZero) {
  constexpr int64_t kInner = 64;
  for (const bool per_group : {false, true}) {
    GuardedTensor x(DType::kF32, {2, 4, kInner}), scale(DType::kF32, {per_group ? 2 : 4}),
        bias(DType::kF32, {per_group ? 2 : 4});
    std::vector<double> v(2 * 4 * kInner), ones(per_group ? 2 : 4, 1.0), zeros(ones.size(), 0.0);
    for (size_t i = 0; i < v.size(); ++i) v[i] = 10000 + static_cast<double>(i * 7 % 128) / 1024;
    x.Set(v), scale.Set(ones), bias.Set(zeros);
    OpTester t("GroupNormalization");
    t.In(x).In(scale).In(bias).Attr("epsilon", 1e-12).Attr("num_groups", int64_t{2});
    std::vector<double> want(v.size()), bounds(v.size());
    constexpr size_t kRow = 2 * kInner;
    for (size_t first = 0; first < v.size(); first += kRow) {
      double mean = 0, var = 0;
      for (size_t i = 0; i < kRow; ++i) mean += v[first + i] / kRow;
      for (size_t i = 0; i < kRow; ++i) var += (v[first + i] - mean) * (v[first + i] - mean) / kRow;
      for (size_t i = 0; i < kRow; ++i) {
        want[first + i] = (v[first + i] - mean) / std::sqrt(var + 1e-12);
        bounds[first + i] = 16 * testing::Epsilon(DType::kF32) * (std::fabs(want[first + i]) + 1);
      }
    }
    Rng rng;
    Expect(t, rng, want, bounds, "far from zero");
  }
}

TEST(GroupNorm, EmptyAndNan) {
  GuardedTensor none(DType::kF32, {0, 4, 3}), four(DType::kF32, {4});
  four.Set({1, 1, 1, 1});
  OpTester empty("GroupNormalization");
  empty.In(none).In(four).In(four).Attr("num_groups", int64_t{2});
  ASSERT_TRUE(empty.Run().ok()) << empty.status().message();
  GuardedTensor x(DType::kF32, {1, 4, 2});
  x.Set({1, 2, NAN, 4, 5, 6, 7, 8});
  OpTester t("GroupNormalization");
  t.In(x).In(four).In(four).Attr("num_groups", int64_t{2});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  const std::vector<double> y = t.Out().Get();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i < 4) << i;
}

TEST(GroupNorm, RefusesWithReason) {
  GuardedTensor x(DType::kF32, {1, 4, 2}), three(DType::kF32, {3});
  OpTester groups("GroupNormalization");
  groups.In(x).In(three).In(three).Attr("num_groups", int64_t{3});
  EXPECT_EQ(groups.Run().message(),
            "GroupNormalization: attribute num_groups is 3 for 4 channels; allowed: divisors of that");
  OpTester scale("InstanceNormalization");
  scale.In(x).In(three).In(three);
  EXPECT_NE(scale.Run().message().find("scale has shape [3]; allowed: [4]"), std::string::npos)
      << scale.status().message();
}

// y = f(row) for every row along `axes`, rows in row-major order of the axes.
template <typename F>
std::vector<double> OverAxes(const std::vector<double>& x, const Dims& dims, const std::vector<bool>& in_row,
                             F f) {
  std::vector<std::vector<size_t>> rows;
  std::map<std::vector<int64_t>, size_t> index;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<int64_t> key;
    int64_t rest = static_cast<int64_t>(i);
    for (int d = dims.rank() - 1; d >= 0; --d) {
      if (!in_row[static_cast<size_t>(d)]) key.push_back(rest % dims[d]);
      rest /= dims[d];
    }
    const auto [it, fresh] = index.emplace(key, rows.size());
    if (fresh) rows.emplace_back();
    rows[it->second].push_back(i);
  }
  std::vector<double> y(x.size());
  for (const auto& row : rows) {
    std::vector<double> values;
    for (const size_t i : row) values.push_back(x[i]);
    const std::vector<double> result = f(values);
    for (size_t k = 0; k < row.size(); ++k) y[row[k]] = result[k];
  }
  return y;
}

TEST(MeanVariance, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const DType type = kFloats[rng.Int(0, 3)];
    const Dims dims = rng.Shape(1, 4, 1500);
    std::vector<bool> in_row(static_cast<size_t>(dims.rank()));
    std::vector<int64_t> axes;
    int64_t n = 1;
    for (int i = 0; i < dims.rank(); ++i) {
      if (!rng.Chance(0.6) && !(axes.empty() && i == dims.rank() - 1)) continue;
      in_row[static_cast<size_t>(i)] = true;
      axes.push_back(rng.Chance(0.3) ? i - dims.rank() : i);
      n *= dims[i];
    }
    if (n < 3) continue;  // the deviation may be next to nothing: every error is enlarged without bound
    GuardedTensor x(type, dims, &rng, rng.Chance(0.5));
    x.FillRandom(rng);
    double most = 0;
    const std::vector<double> want = OverAxes(x.Get(), dims, in_row, [&](std::vector<double> row) {
      double mean = 0, var = 0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (const double v : row) var += (v - mean) * (v - mean) / static_cast<double>(row.size());
      for (double& v : row) v = (v - mean) / (std::sqrt(var) + 1e-9);
      most = std::max(most, 1 / (std::sqrt(var) + 1e-9));
      return row;
    });
    std::vector<double> bounds;
    for (const double w : want) bounds.push_back(Bound(type, n, most, w));
    OpTester t("MeanVarianceNormalization");
    t.In(x).Attr("axes", axes);
    Expect(t, rng, want, bounds, ToString(dims));
    if (HasFailure()) return;
  }
}

TEST(BatchNormTraining, StatisticsOfTheBatch) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const DType type = kFloats[rng.Int(0, 3)];
    Dims dims = {rng.Int(1, 4), rng.Int(1, 9)};
    for (int i = static_cast<int>(rng.Int(0, 2)); i > 0; --i) dims.push_back(rng.Size(12));
    const int64_t channels = dims[1], inner = NumElements(dims) / (dims[0] * channels), n = dims[0] * inner;
    GuardedTensor x(type, dims, &rng, rng.Chance(0.4));
    GuardedTensor p[4] = {{DType::kF32, {channels}},
                          {DType::kF32, {channels}},
                          {DType::kF32, {channels}},
                          {DType::kF32, {channels}}};
    x.FillRandom(rng);
    constexpr double kEpsilon = 1e-2, kMomentum = 0.7;
    OpTester t("BatchNormalizationTraining");
    t.In(x);
    for (GuardedTensor& v : p) v.FillRandom(rng), t.In(v);
    t.Attr("epsilon", kEpsilon).Attr("momentum", kMomentum).Outputs(3);
    const std::vector<double> v = x.Get(), scale = p[0].Get(), shift = p[1].Get();
    std::vector<double> want(v.size()), bounds(v.size()), means = p[2].Get(), vars = p[3].Get();
    for (int64_t c = 0; c < channels; ++c) {
      const auto each = [&](auto f) {
        for (int64_t i = 0; i < n; ++i)
          f(static_cast<size_t>((i / inner * channels + c) * inner + i % inner));
      };
      double mean = 0, var = 0;
      each([&](size_t i) { mean += v[i] / static_cast<double>(n); });
      each([&](size_t i) { var += (v[i] - mean) * (v[i] - mean) / static_cast<double>(n); });
      const double inverse = 1 / std::sqrt(var + kEpsilon);
      const auto k = static_cast<size_t>(c);
      each([&](size_t i) {
        want[i] = (v[i] - mean) * inverse * scale[k] + shift[k];
        bounds[i] = Bound(type, n, inverse, want[i]);
      });
      means[k] = kMomentum * means[k] + (1 - kMomentum) * mean;
      vars[k] = kMomentum * vars[k] + (1 - kMomentum) * var;
    }
    Expect(t, rng, want, bounds, ToString(dims));
    const double slack = Bound(DType::kF32, n, 1, 0);
    EXPECT_EQ("", testing::Compare(t.Out(1).Get(), means, slack, 0));
    EXPECT_EQ("", testing::Compare(t.Out(2).Get(), vars, slack, 0));
    if (HasFailure()) return;
  }
}

TEST(LpNorm, RandomAxesAndZeroRows) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const DType type = kFloats[rng.Int(0, 3)];
    const Dims dims = rng.Shape(1, 4, 1500, true);
    const int64_t axis = rng.Int(-dims.rank(), dims.rank() - 1), p = rng.Int(1, 2);
    std::vector<bool> in_row(static_cast<size_t>(dims.rank()));
    const int at = static_cast<int>(axis < 0 ? axis + dims.rank() : axis);
    in_row[static_cast<size_t>(at)] = true;
    GuardedTensor x(type, dims, &rng, rng.Chance(0.5));
    if (rng.Chance(0.1)) {
      x.Set(std::vector<double>(static_cast<size_t>(NumElements(dims)), 0.0));
    } else {
      x.FillRandom(rng);
    }
    const std::vector<double> want = OverAxes(x.Get(), dims, in_row, [&](std::vector<double> row) {
      double sum = 0;
      for (const double v : row) sum += p == 1 ? std::fabs(v) : v * v;
      if (p == 2) sum = std::sqrt(sum);
      for (double& v : row) v = sum == 0 ? 0 : v / sum;
      return row;
    });
    std::vector<double> bounds;
    const double eps = testing::Epsilon(type == DType::kF64 ? DType::kF64 : DType::kF32);
    for (const double w : want) {
      bounds.push_back((2 * std::sqrt(static_cast<double>(dims[at])) + 8) * eps * std::fabs(w) +
                       2 * testing::Epsilon(type) * std::fabs(w) + SmallestValue(type));
    }
    OpTester t("LpNormalization");
    t.In(x).Attr("axis", axis).Attr("p", p);
    Expect(t, rng, want, bounds, ToString(dims));
    if (HasFailure()) return;
  }
}

TEST(Lrn, RandomShapes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const DType type = kFloats[rng.Int(0, 3)];
    Dims dims = {rng.Int(1, 2), rng.Int(1, 12)};
    for (int i = static_cast<int>(rng.Int(0, 2)); i > 0; --i) dims.push_back(rng.Size(70, true));
    const int64_t size = rng.Int(1, 7), channels = dims[1];
    GuardedTensor x(type, dims, &rng, rng.Chance(0.5));
    x.FillRandom(rng);
    constexpr double kAlpha = 0.3, kBeta = 0.75, kBias = 1.5;
    OpTester t("LRN");
    t.In(x).Attr("size", size).Attr("alpha", kAlpha).Attr("beta", kBeta).Attr("bias", kBias);
    const std::vector<double> v = x.Get();
    const int64_t inner = NumElements(dims) / (dims[0] * channels);
    std::vector<double> want, bounds;
    const double eps = testing::Epsilon(type == DType::kF64 ? DType::kF64 : DType::kF32);
    for (size_t i = 0; i < v.size(); ++i) {
      const int64_t c = static_cast<int64_t>(i) / inner % channels;
      double sum = 0;
      for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
        if (k < 0 || k >= channels) continue;
        const double u = v[i + static_cast<size_t>((k - c) * inner)];
        sum += u * u;
      }
      want.push_back(v[i] / std::pow(kBias + kAlpha / static_cast<double>(size) * sum, kBeta));
      bounds.push_back((16 * eps + 2 * testing::Epsilon(type)) * std::fabs(want.back()) +
                       SmallestValue(type));
    }
    Expect(t, rng, want, bounds, ToString(dims));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace opsnn::op
