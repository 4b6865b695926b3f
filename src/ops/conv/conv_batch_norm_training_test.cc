// Convolution with normalisation over the batch, against its two parts and against a double reference.
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;
using Ints = std::vector<int64_t>;

struct NormedCase {
  Dims x, w, out;
  Ints pads, strides;
  int64_t groups = 1;
};

NormedCase RandomNormed(Rng& rng) {
  NormedCase k;
  const int spatial = static_cast<int>(rng.Int(1, 3));
  k.groups = rng.Chance(0.6) ? 1 : rng.Int(2, 3);
  k.x = Dims{rng.Int(1, 3), k.groups * rng.Int(1, 9)};
  k.w = Dims{k.groups * rng.Int(1, 12), k.x[1] / k.groups};
  k.out = Dims{k.x[0], k.w[0]};
  Ints ends;
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = rng.Int(1, 3), stride = rng.Int(1, 2), in = rng.Int(3, spatial == 3 ? 6 : 14);
    k.pads.push_back(rng.Int(0, 1)), ends.push_back(rng.Int(0, 1)), k.strides.push_back(stride);
    k.x.push_back(in), k.w.push_back(kernel);
    k.out.push_back((in + k.pads.back() + ends.back() - kernel) / stride + 1);
  }
  k.pads.insert(k.pads.end(), ends.begin(), ends.end());
  return k;
}

TEST(ConvBatchNormTraining, RandomCalls) {
  Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    const NormedCase k = RandomNormed(rng);
    const DType dtypes[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
    const DType dtype = dtypes[rng.Int(0, 3)];
    const int64_t channels = k.w[0], inner = NumElements(k.out) / (k.out[0] * channels);
    GuardedTensor x(dtype, k.x, &rng, rng.Chance(0.3)), w(dtype, k.w), b(dtype, {channels});
    GuardedTensor p[4] = {{DType::kF32, {channels}},
                          {DType::kF32, {channels}},
                          {DType::kF32, {channels}},
                          {DType::kF32, {channels}}};
    for (GuardedTensor* v : {&x, &w, &b, &p[0], &p[1], &p[2], &p[3]}) v->FillRandom(rng);
    constexpr double kEpsilon = 1e-2, kMomentum = 0.7;
    const Attrs conv = MakeAttrs({{"group", k.groups}, {"pads", k.pads}, {"strides", k.strides}});
    OpTester t("ConvBatchNormTraining");
    for (const auto& [name, v] : conv.all()) t.Attr(name, v);
    t.Attr("epsilon", kEpsilon).Attr("momentum", kMomentum).Outputs(3);
    t.In(x).In(w);
    for (GuardedTensor& v : p) t.In(v);
    const bool has_bias = rng.Chance(0.6);
    if (has_bias) t.In(b);
    if (dtype == DType::kF32 && rng.Chance(0.4)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    ASSERT_EQ(t.OutDesc().dims, k.out);

    std::vector<ref::Tensor> in = {ToRef(x), ToRef(w)};
    if (has_bias) in.push_back(ToRef(b));
    const Reference r = Evaluate("Conv", conv, in, DType::kF64);
    const std::vector<double>& v = r.outputs[0].v;
    const std::vector<double> scale = p[0].Get(), shift = p[1].Get();
    std::vector<double> want(v.size()), bounds(v.size()), means = p[2].Get(), vars = p[3].Get(), slack_mean,
                                                          slack_var;
    for (int64_t c = 0; c < channels; ++c) {
      const auto each = [&](auto f) {
        for (int64_t i = 0; i < k.out[0] * inner; ++i)
          f(static_cast<size_t>((i / inner * channels + c) * inner + i % inner));
      };
      const auto n = static_cast<double>(k.out[0] * inner);
      double mean = 0, var = 0, off = 0;  // off: what a sum of products may be off by
      each([&](size_t i) {
        mean += v[i] / n;
        off = std::max(off, testing::ContractionTolerance(r.abs_sum[i], v[i], r.reduction_length + 1,
                                                          DType::kF32, DType::kF32));
      });
      each([&](size_t i) { var += (v[i] - mean) * (v[i] - mean) / n; });
      const double eps = testing::Epsilon(DType::kF32), spread = std::sqrt(var),
                   off_mean = off + 20 * eps * (spread + std::fabs(mean)),
                   off_var = 2 * off_mean * (spread + off_mean) + 40 * eps * var;
      const double inverse = 1 / std::sqrt(var + kEpsilon);
      const auto at = static_cast<size_t>(c);
      each([&](size_t i) {
        const double away = v[i] - mean;
        want[i] = away * inverse * scale[at] + shift[at];
        bounds[i] = std::fabs(scale[at]) * inverse *
                        (off + off_mean + std::fabs(away) * (off_var * inverse * inverse + 8 * eps)) +
                    8 * eps * (std::fabs(want[i]) + std::fabs(shift[at])) +
                    testing::Epsilon(dtype) * std::fabs(want[i]) +
                    (dtype == DType::kF16 ? 0x1p-24 : 0x1p-120);
      });
      means[at] = kMomentum * means[at] + (1 - kMomentum) * mean;
      vars[at] = kMomentum * vars[at] + (1 - kMomentum) * var;
      slack_mean.push_back(off_mean + 2 * eps * std::fabs(means[at]));
      slack_var.push_back(off_var + 2 * eps * std::fabs(vars[at]));
    }
    ASSERT_EQ("", testing::Compare(t.Out().Get(), want, bounds)) << Name(dtype) << " " << ToString(k.x);
    ASSERT_EQ("", testing::Compare(t.Out(1).Get(), means, slack_mean));
    ASSERT_EQ("", testing::Compare(t.Out(2).Get(), vars, slack_var));
  }
}

// f32 differs from the parts in how statistics are summed alone.
TEST(ConvBatchNormTraining, AgreesWithItsParts) {
  Rng rng;
  GuardedTensor x(DType::kF32, {3, 20, 13, 17}), w(DType::kF32, {37, 20, 3, 3});
  GuardedTensor p[4] = {{DType::kF32, {37}}, {DType::kF32, {37}}, {DType::kF32, {37}}, {DType::kF32, {37}}};
  x.FillRandom(rng), w.FillRandom(rng);
  OpTester whole("ConvBatchNormTraining"), conv("Conv"), norm("BatchNormalizationTraining");
  const Ints pads{1, 1, 1, 1};
  whole.Attr("pads", pads).Outputs(3).In(x).In(w);
  ASSERT_TRUE(conv.Attr("pads", pads).In(x).In(w).Run().ok()) << conv.status().message();
  norm.Outputs(3).In(conv.Out());
  for (GuardedTensor& v : p) v.FillRandom(rng), whole.In(v), norm.In(v);
  ASSERT_TRUE(whole.Run().ok()) << whole.status().message();
  ASSERT_TRUE(norm.Run().ok()) << norm.status().message();
  const double slack = 64 * testing::Epsilon(DType::kF32);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ("", testing::Compare(whole.Out(i).Get(), norm.Out(i).Get(), slack, slack)) << i;
}

TEST(ConvBatchNormTraining, EmptyBatchAndRefusals) {
  GuardedTensor w(DType::kF32, {5, 4, 3}), good(DType::kF32, {5}), bad(DType::kF32, {4});
  {
    GuardedTensor x(DType::kF32, {0, 4, 9});
    OpTester t("ConvBatchNormTraining");
    t.Outputs(3).In(x).In(w).In(good).In(good).In(good).In(good);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    for (const double v : t.Out(1).Get()) EXPECT_TRUE(std::isnan(v));
  }
  GuardedTensor x(DType::kF32, {2, 4, 9});
  OpTester t("ConvBatchNormTraining");
  t.In(x).In(w).In(good).In(bad).In(good).In(good);
  EXPECT_EQ(t.Run().code(), Code::kInvalid);
  EXPECT_NE(t.status().message().find("shift has shape [4]; allowed: [5]"), std::string::npos)
      << t.status().message();
}

}  // namespace
}  // namespace opsnn::op
