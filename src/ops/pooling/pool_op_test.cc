#include <cmath>

#include "op/image_tester.h"
#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;
using Ints = std::vector<int64_t>;
const Layout kBlocked{Format::kNC1HWC0, 16};

// Sums of k values of magnitude 2 in f32, then one rounding to the dtype.
double Bound(DType dtype, int64_t k) {
  return testing::ContractionTolerance(2, 2, k, DType::kF32, DType::kF32) + 4 * testing::Epsilon(dtype);
}

TEST(Pool, RandomCalls) {
  Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    const bool max = rng.Chance(0.5);
    const int spatial = rng.Chance(0.2) ? 1 : 2;
    const DType all[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kS8,
                         DType::kU8,  DType::kS16, DType::kS32,  DType::kS64};
    const DType dtype = all[rng.Int(0, max ? 8 : 2)];
    Dims dims{rng.Int(1, 2), rng.Int(1, 40)};
    Ints kernel, strides, dilations, pads(static_cast<size_t>(2 * spatial));
    int64_t positions = 1;
    for (int i = 0; i < spatial; ++i) {
      kernel.push_back(rng.Int(1, 4)), strides.push_back(rng.Int(1, 3)),
          dilations.push_back(rng.Chance(0.7) ? 1 : 2);
      const int64_t extent = (kernel.back() - 1) * dilations.back() + 1;
      dims.push_back(rng.Int(extent, 20));
      pads[static_cast<size_t>(i)] = rng.Int(0, kernel.back() - 1);
      pads[static_cast<size_t>(i + spatial)] = rng.Int(0, kernel.back() - 1);
      positions *= kernel.back();
    }
    Attrs attrs = MakeAttrs({{"kernel_shape", kernel},
                             {"strides", strides},
                             {"ceil_mode", rng.Int(0, 1)},
                             {"dilations", dilations}});
    if (rng.Chance(0.8)) {
      attrs.Set("pads", pads);
    } else {
      attrs.Set("auto_pad", std::string(rng.Chance(0.5) ? "SAME_UPPER" : "SAME_LOWER"));
    }
    if (!max) attrs.Set("count_include_pad", rng.Int(0, 1));
    const bool blocked = dtype == DType::kF32 && spatial == 2 && rng.Chance(0.6);
    TestImage x(rng, dtype, dims, blocked ? kBlocked : Layout{});
    OpTester t(max ? "MaxPool" : "AveragePool");
    for (const auto& [name, v] : attrs.all()) t.Attr(name, v);
    t.In(x.stored, dims, x.layout);
    if (dtype == DType::kF32 && spatial == 2 && rng.Chance(0.6)) {
      t.OutLayout(0, kBlocked);
    } else if (rng.Chance(0.5)) {
      t.StridedOutputs(rng);
    }
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Reference r = Evaluate(max ? "MaxPool" : "AveragePool", attrs, {ToRef(x.logical)}, dtype);
    ASSERT_EQ(t.OutDesc().dims, r.outputs[0].dims);
    const std::vector<double> bounds(r.outputs[0].v.size(), max ? 0 : Bound(dtype, positions));
    ASSERT_EQ("", testing::Compare(FromStored(t.OutDesc().dims, t.OutDesc().layout, t.Out().Get()),
                                   r.outputs[0].v, bounds))
        << t.variant() << " " << ToString(dims);
  }
}

TEST(Pool, Global) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
      const DType dtype = rng.Chance(0.7) ? DType::kF32 : DType::kBF16;
      const Dims dims{rng.Int(1, 2), rng.Int(1, 40), rng.Int(1, 15), rng.Int(1, 15)};
      TestImage x(rng, dtype, dims, dtype == DType::kF32 && rng.Chance(0.5) ? kBlocked : Layout{});
      OpTester t(op);
      t.In(x.stored, dims, x.layout);
      if (dtype == DType::kF32 && rng.Chance(0.5)) t.OutLayout(0, kBlocked);
      ASSERT_TRUE(t.Run().ok()) << t.status().message();
      const Reference r = Evaluate(op, {}, {ToRef(x.logical)}, dtype);
      ASSERT_EQ(t.OutDesc().dims, r.outputs[0].dims);
      const std::vector<double> bounds(r.outputs[0].v.size(),
                                       op[6] == 'M' ? 0 : Bound(dtype, dims[2] * dims[3]));
      ASSERT_EQ("", testing::Compare(FromStored(t.OutDesc().dims, t.OutDesc().layout, t.Out().Get()),
                                     r.outputs[0].v, bounds));
    }
  }
}

TEST(Pool, RefusesWithReason) {
  struct Row {
    Dims x;
    Attrs attrs;
    int outputs;
    Code code;
    const char* says;
  };
  const Row rows[] = {
      {{1, 3, 4, 4}, MakeAttrs({{"kernel_shape", Ints{2}}}), 1, Code::kInvalid, "kernel_shape has 1 values"},
      {{1, 3, 4, 4}, MakeAttrs({{"kernel_shape", Ints{2, 0}}}), 1, Code::kInvalid, "sizes from 1"},
      {{1, 3, 4, 4},
       MakeAttrs({{"kernel_shape", Ints{5, 5}}}),
       1,
       Code::kInvalid,
       "not larger than the padded input"},
      {{1, 3, 4, 4},
       MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"pads", Ints{2, 0, 0, 0}}}),
       1,
       Code::kInvalid,
       "less than 2"},
      {{1, 3, 4, 4},
       MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{1, 0}}}),
       1,
       Code::kInvalid,
       "strides[1] is 0"},
      {{1, 3, 4, 4, 4},
       MakeAttrs({{"kernel_shape", Ints{2, 2, 2}}}),
       1,
       Code::kNotImplemented,
       "3-D pooling"},
      {{1, 3, 4, 4}, MakeAttrs({{"kernel_shape", Ints{2, 2}}}), 2, Code::kNotImplemented, "Indices"},
  };
  for (const Row& r : rows) {
    GuardedTensor x(DType::kF32, r.x);
    OpTester t("MaxPool");
    t.In(x).Outputs(r.outputs);
    for (const auto& [name, v] : r.attrs.all()) t.Attr(name, v);
    EXPECT_EQ(t.Run().code(), r.code) << r.says;
    EXPECT_NE(t.status().message().find(r.says), std::string::npos) << t.status().message();
  }
}

}  // namespace
}  // namespace opsnn::op
