#include <cmath>

#include "op/image_tester.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

TEST(BatchNormalization, RandomCalls) {
  Rng rng;
  for (auto _ : testing::FuzzFor(300)) {
    const DType all[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
    const DType dtype = all[rng.Int(0, 3)];
    Dims dims{rng.Int(1, 3), rng.Int(1, 40)};
    const int spatial = static_cast<int>(rng.Int(0, 2));
    for (int i = 0; i < spatial; ++i) dims.push_back(rng.Int(1, 12));
    const bool blocked = spatial == 2 && dtype != DType::kF64 && rng.Chance(0.5);
    const Layout layout = blocked ? Layout{Format::kNC1HWC0, 16} : Layout{};
    TestImage x(rng, dtype, dims, layout);
    std::vector<ref::Tensor> in = {ToRef(x.logical)};
    GuardedTensor p[4] = {{DType::kF32, {dims[1]}},
                          {DType::kF32, {dims[1]}},
                          {DType::kF32, {dims[1]}},
                          {DType::kF32, {dims[1]}}};
    OpTester t("BatchNormalization");
    t.In(x.stored, dims, layout).Attr("epsilon", 1e-3);
    for (int i = 0; i < 4; ++i) {
      p[i].FillRandom(rng, i == 3 ? 0.1 : -1, 1);
      t.In(p[i]);
      in.push_back(ToRef(p[i]));
    }
    const bool in_place = rng.Chance(0.3);
    if (in_place) {
      t.InPlace(0);
    } else if (!blocked && rng.Chance(0.5)) {
      t.StridedOutputs(rng);
    }
    if (blocked) t.OutLayout(0, layout);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Reference r = Evaluate("BatchNormalization", MakeAttrs({{"epsilon", 1e-3}}), in, dtype);
    // Factors up to 1 / sqrt(0.1), values up to 2, and a shift that may cancel the product.
    const double bound = 8 * testing::Epsilon(DType::kF32) * (3.2 * 2 + 5) + testing::Epsilon(dtype) * 16;
    const GuardedTensor& out = in_place ? x.stored : t.Out();
    ASSERT_EQ("", testing::Compare(FromStored(dims, layout, out.Get()), r.outputs[0].v, bound, 0))
        << ToString(dims);
  }
}

TEST(BatchNormalization, RefusesWithReason) {
  GuardedTensor x(DType::kF32, {1, 3, 2, 2}), good(DType::kF32, {3}), bad(DType::kF32, {4});
  OpTester training("BatchNormalization");
  training.In(x).In(good).In(good).In(good).In(good).Attr("training_mode", int64_t{1});
  EXPECT_EQ(training.Run().code(), Code::kNotImplemented);
  OpTester sizes("BatchNormalization");
  sizes.In(x).In(good).In(good).In(bad).In(good);
  EXPECT_EQ(sizes.Run().code(), Code::kInvalid);
  EXPECT_NE(sizes.status().message().find("input_mean has shape [4]"), std::string::npos)
      << sizes.status().message();
}

}  // namespace
}  // namespace opsnn::op
