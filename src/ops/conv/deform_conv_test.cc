#include <algorithm>
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;
using Ints = std::vector<int64_t>;

struct DeformCase {
  Dims x, w, offset, mask;
  Attrs attrs;
  Dims out;
  bool has_mask = false, has_bias = true, planes = false;
};

DeformCase RandomDeform(Rng& rng) {
  DeformCase k;
  const int64_t groups = rng.Chance(0.6) ? 1 : rng.Int(2, 3), offset_groups = rng.Chance(0.6) ? 1 : 2;
  const int64_t kernel[] = {rng.Int(1, 3), rng.Int(1, 3)}, stride[] = {rng.Int(1, 2), rng.Int(1, 2)};
  k.x = Dims{rng.Int(0, 2), 6 * rng.Int(1, 4), rng.Int(3, 7), rng.Int(3, 9)};
  k.w = Dims{groups * rng.Int(1, 6), k.x[1] / groups, kernel[0], kernel[1]};
  k.out = Dims{k.x[0], k.w[0]};
  Ints pads(4);
  for (size_t i = 0; i < 2; ++i) {
    pads[i] = rng.Int(0, 1), pads[i + 2] = rng.Int(0, 1);
    k.out.push_back((k.x[static_cast<int>(i) + 2] + pads[i] + pads[i + 2] - kernel[i]) / stride[i] + 1);
  }
  k.planes = rng.Chance(0.4), k.has_mask = rng.Chance(0.5), k.has_bias = rng.Chance(0.7);
  const int64_t values = offset_groups * kernel[0] * kernel[1];
  const bool inside = k.planes && k.has_mask;
  k.offset = Dims{k.x[0], (inside ? 3 : 2) * values, k.out[2], k.out[3]};
  k.mask = Dims{k.x[0], values, k.out[2], k.out[3]};
  k.has_mask = k.has_mask && !k.planes;
  k.attrs = MakeAttrs({{"group", groups},
                       {"offset_group", offset_groups},
                       {"offset_planes", int64_t{k.planes}},
                       {"pads", pads},
                       {"strides", Ints{stride[0], stride[1]}}});
  return k;
}

TEST(DeformConv, RandomCalls) {
  Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    const DeformCase k = RandomDeform(rng);
    const DType dtypes[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
    const DType dtype = dtypes[rng.Int(0, 3)];
    GuardedTensor x(dtype, k.x), w(dtype, k.w), offset(dtype, k.offset), b(dtype, {k.w[0]}),
        mask(dtype, k.mask);
    for (GuardedTensor* t : {&x, &w, &offset, &b, &mask}) t->FillRandom(rng);
    OpTester t("DeformConv");
    for (const auto& [name, v] : k.attrs.all()) t.Attr(name, v);
    std::vector<ref::Tensor> in = {ToRef(x), ToRef(w), ToRef(offset), ToRef(b), ToRef(mask)};
    t.In(x).In(w).In(offset);
    if (k.has_bias) {
      t.In(b);
    } else {
      t.Absent();
      std::fill(in[3].v.begin(), in[3].v.end(), 0.0);
    }
    if (k.has_mask) {
      t.In(mask);
    } else {
      in.pop_back();
    }
    t.Outputs(2);
    if (dtype == DType::kF32 && rng.Chance(0.5)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Reference r = Evaluate("DeformConv", k.attrs, in, dtype, 2);
    ASSERT_EQ(t.OutDesc().dims, r.outputs[0].dims);
    std::vector<double> bounds;
    for (size_t i = 0; i < r.abs_sum.size(); ++i)
      bounds.push_back(testing::ContractionTolerance(r.abs_sum[i], r.outputs[0].v[i], r.reduction_length + 1,
                                                     DType::kF32, dtype));
    ASSERT_EQ("", testing::Compare(t.Out().Get(), r.outputs[0].v, bounds))
        << Name(dtype) << " " << ToString(k.x);
  }
}

// Offsets of zero are a convolution; a whole step to the right is one of the image moved by a pixel.
TEST(DeformConv, WholeSteps) {
  GuardedTensor x(DType::kF32, {1, 1, 1, 4}), w(DType::kF32, {1, 1, 1, 2}), offset(DType::kF32, {1, 4, 1, 3});
  x.Set({1, 2, 3, 4});
  w.Set({10, 1});
  offset.Set({0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});  // second position: down 0, right 1
  OpTester t("DeformConv");
  ASSERT_TRUE(t.In(x).In(w).In(offset).Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{13, 24, 30}));
}

TEST(DeformConv, RefusesWithReason) {
  struct Row {
    Dims x, w, offset;
    Attrs attrs;
    const char* says;
  };
  const Row rows[] = {
      {{1, 4, 5}, {2, 4, 3}, {1, 6, 3}, {}, "rank 4"},
      {{1, 4, 5, 5}, {2, 4, 3, 3}, {1, 17, 3, 3}, {}, "offset has shape [1,17,3,3]; allowed: [1,18,3,3]"},
      {{1, 4, 5, 5}, {2, 4, 3, 3}, {1, 18, 3, 4}, {}, "offset has shape"},
      {{1, 4, 5, 5},
       {2, 4, 3, 3},
       {1, 54, 3, 3},
       MakeAttrs({{"offset_group", int64_t{3}}}),
       "offset_group is 3"},
      {{1, 4, 5, 5}, {2, 4, 3, 3}, {1, 18, 3, 3}, MakeAttrs({{"strides", Ints{0, 1}}}), "strides[0] is 0"},
      {{1, 4, 2, 2}, {2, 4, 3, 3}, {1, 18, 1, 1}, {}, "not larger than the padded input"},
  };
  for (const Row& r : rows) {
    GuardedTensor x(DType::kF32, r.x), w(DType::kF32, r.w), offset(DType::kF32, r.offset);
    OpTester t("DeformConv");
    t.In(x).In(w).In(offset);
    for (const auto& [name, v] : r.attrs.all()) t.Attr(name, v);
    EXPECT_EQ(t.Run().code(), Code::kInvalid) << r.says;
    EXPECT_NE(t.status().message().find(r.says), std::string::npos) << t.status().message();
  }
}

}  // namespace
}  // namespace opsnn::op
