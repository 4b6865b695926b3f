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
    const int spatial = rng.Chance(0.2) ? 1 : rng.Chance(0.3) ? 3 : 2;
    const DType all[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kS8,
                         DType::kU8,  DType::kS16, DType::kS32,  DType::kS64};
    const DType dtype = all[rng.Int(0, max ? 8 : 3)];
    Dims dims{rng.Int(1, 2), rng.Int(1, 40)};
    Ints kernel, strides, dilations, pads(static_cast<size_t>(2 * spatial));
    int64_t positions = 1;
    for (int i = 0; i < spatial; ++i) {
      kernel.push_back(rng.Int(1, 4)), strides.push_back(rng.Int(1, 3)),
          dilations.push_back(rng.Chance(0.7) ? 1 : 2);
      const int64_t extent = (kernel.back() - 1) * dilations.back() + 1;
      dims.push_back(rng.Int(extent, spatial == 3 ? 9 : 20));
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
      const DType dtype = rng.Chance(0.6) ? DType::kF32 : rng.Chance(0.5) ? DType::kBF16 : DType::kF64;
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

// The maximum of every window, the first of equals, and its place.
TEST(Pool, MaxIndices) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int spatial = static_cast<int>(rng.Int(1, 3));
    const bool column_major = rng.Chance(0.4);
    Dims dims{rng.Int(1, 2), rng.Int(1, 3)};
    Ints kernel, strides, dilations, pads(static_cast<size_t>(2 * spatial));
    for (int i = 0; i < spatial; ++i) {
      kernel.push_back(rng.Int(1, 3)), strides.push_back(rng.Int(1, 3)), dilations.push_back(rng.Int(1, 2));
      dims.push_back(rng.Int((kernel.back() - 1) * dilations.back() + 1, 8));
      pads[static_cast<size_t>(i)] = rng.Int(0, kernel.back() - 1);
      pads[static_cast<size_t>(i + spatial)] = rng.Int(0, kernel.back() - 1);
    }
    const DType all[] = {DType::kF32, DType::kF16, DType::kF64, DType::kS8, DType::kU8};
    GuardedTensor x(all[rng.Int(0, 4)], dims, &rng, rng.Chance(0.3));
    std::vector<double> v(static_cast<size_t>(NumElements(dims)));
    for (double& e : v) e = static_cast<double>(rng.Int(0, 20));
    x.Set(v);
    const Attrs attrs = MakeAttrs({{"kernel_shape", kernel},
                                   {"strides", strides},
                                   {"pads", pads},
                                   {"dilations", dilations},
                                   {"storage_order", int64_t{column_major}}});
    OpTester t("MaxPool");
    for (const auto& [name, a] : attrs.all()) t.Attr(name, a);
    t.In(x).Outputs(2);
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const Reference r = Evaluate("MaxPool", attrs, {ToRef(x)}, x.view().dtype);
    ASSERT_EQ(t.Out(0).Get(), r.outputs[0].v);
    // Each position holds the maximum, lies in the window's image, and no earlier one of the window does.
    const std::vector<double> y = t.Out(0).Get(), at = t.Out(1).Get();
    const Dims out = t.OutDesc().dims;
    int64_t area = 1, out_area = 1;
    for (int i = 2; i < dims.rank(); ++i) area *= dims[i], out_area *= out[i];
    for (size_t o = 0; o < y.size(); ++o) {
      const int64_t plane = static_cast<int64_t>(o) / out_area;
      int64_t rest = static_cast<int64_t>(o) % out_area;
      Dims first = Dims::Filled(spatial, 0), tap = first;
      for (int i = spatial - 1; i >= 0; --i) {
        first[i] = rest % out[2 + i] * strides[static_cast<size_t>(i)] - pads[static_cast<size_t>(i)];
        rest /= out[2 + i];
      }
      int64_t want = -1;
      int64_t taps = 1;
      for (const int64_t k : kernel) taps *= k;
      for (int64_t k = 0; k < taps && want < 0; ++k) {
        int64_t left = k, flat = 0, column = 0, step = 1;
        bool inside = true;
        for (int i = spatial - 1; i >= 0; --i) {
          tap[i] = first[i] + left % kernel[static_cast<size_t>(i)] * dilations[static_cast<size_t>(i)];
          left /= kernel[static_cast<size_t>(i)];
          inside = inside && tap[i] >= 0 && tap[i] < dims[2 + i];
        }
        for (int i = 0; i < spatial; ++i) {
          flat = flat * dims[2 + i] + tap[i];
          column += tap[i] * step;
          step *= dims[2 + i];
        }
        if (inside && v[static_cast<size_t>(plane * area + flat)] == y[o])
          want = plane * area + (column_major ? column : flat);
      }
      ASSERT_EQ(at[o], static_cast<double>(want)) << ToString(dims) << " output " << o;
    }
  }
}

TEST(Pool, LpMatchesItsFormula) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const int spatial = static_cast<int>(rng.Int(1, 3));
    const bool global = rng.Chance(0.3);
    const int64_t p = rng.Int(1, 3);
    Dims dims{rng.Int(1, 2), rng.Int(1, 20)};
    Ints kernel, strides, pads(static_cast<size_t>(2 * spatial));
    int64_t positions = 1;
    for (int i = 0; i < spatial; ++i) {
      kernel.push_back(rng.Int(1, 3)), strides.push_back(rng.Int(1, 2));
      dims.push_back(rng.Int(kernel.back(), 8));
      pads[static_cast<size_t>(i)] = rng.Int(0, kernel.back() - 1);
      positions *= global ? dims[2 + i] : kernel.back();
    }
    const DType all[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
    const DType dtype = all[rng.Int(0, 3)];
    const bool blocked = !global && dtype == DType::kF32 && spatial == 2 && rng.Chance(0.5);
    TestImage x(rng, dtype, dims, blocked ? kBlocked : Layout{});
    OpTester t(global ? "GlobalLpPool" : "LpPool");
    t.In(x.stored, dims, x.layout).Attr("p", p);
    // |x|^p averaged with the window's full size as divisor, times that size, is the sum.
    Attrs average = MakeAttrs({{"kernel_shape", global ? Ints(dims.begin() + 2, dims.end()) : kernel},
                               {"count_include_pad", int64_t{1}}});
    if (!global) {
      t.Attr("kernel_shape", kernel).Attr("strides", strides).Attr("pads", pads);
      average.Set("strides", strides);
      average.Set("pads", pads);
    }
    if (blocked) {
      t.OutLayout(0, kBlocked);
    } else if (rng.Chance(0.4)) {
      t.StridedOutputs(rng);
    }
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    ref::Tensor powers = ToRef(x.logical);
    powers.dtype = DType::kF64;
    for (double& v : powers.v) v = std::pow(std::fabs(v), static_cast<double>(p));
    std::vector<double> want = Evaluate("AveragePool", average, {powers}, DType::kF64).outputs[0].v, bounds;
    const double eps = testing::Epsilon(dtype == DType::kF64 ? DType::kF64 : DType::kF32);
    for (double& w : want) {
      w = std::pow(w * static_cast<double>(positions), 1.0 / static_cast<double>(p));
      bounds.push_back((2 * std::sqrt(static_cast<double>(positions)) + 16) * eps * w +
                       2 * testing::Epsilon(dtype) * w + SmallestValue(dtype));
    }
    ASSERT_EQ("",
              testing::Compare(FromStored(t.OutDesc().dims, t.OutDesc().layout, t.Out().Get()), want, bounds))
        << t.variant() << " " << ToString(dims) << " p " << p;
  }
}

TEST(Pool, HugeWindowsCostWhatTheImageCosts) {
  // A window of 60000 x 60000 whose padding covers all but the image: minutes if padding were visited.
  const int64_t k = 60000;
  GuardedTensor x(DType::kF32, {1, 1, 3, 3}), y(DType::kS32, {1, 1, 3, 3});
  x.Set({1, 2, 3, 4, 5, 6, 7, 8, 9}), y.Set({1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const GuardedTensor* in : {&x, &y}) {
    OpTester t("MaxPool");
    t.In(*in).Attr("kernel_shape", Ints{k, k}).Attr("pads", Ints{k / 2, k / 2, k / 2 - 1, k / 2 - 1});
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_EQ(t.Out().Get(), std::vector<double>(9, 9));  // every window sees the whole image
  }
}

TEST(MaxUnpool, PutsMaximaBack) {
  GuardedTensor x(DType::kF32, {1, 1, 2, 2}), at(DType::kS64, {1, 1, 2, 2});
  x.Set({1, 2, 3, 4}), at.Set({5, 7, 13, 15});
  OpTester t("MaxUnpool");
  t.In(x).In(at).Attr("kernel_shape", Ints{2, 2}).Attr("strides", Ints{2, 2});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4}));
  at.Set({5, 7, 13, 16});
  OpTester stray("MaxUnpool");
  stray.In(x).In(at).Attr("kernel_shape", Ints{2, 2}).Attr("strides", Ints{2, 2});
  EXPECT_EQ(stray.Run().message(), "MaxUnpool: position 16 at element 3 of I is outside [0, 15]");
}

// A window wider than the padded input by less than a stride is one window, of what there is.
TEST(Pool, WindowWiderThanThePaddedInput) {
  struct Row {
    const char* op;
    int64_t kernel, pad, ceil, include;
    double want;
  };
  for (const Row& r : {Row{"AveragePool", 5, 0, 0, 0, 2}, Row{"AveragePool", 5, 0, 1, 1, 2},
                       Row{"AveragePool", 6, 1, 0, 0, 2}, Row{"AveragePool", 6, 1, 0, 1, 1.5},
                       Row{"MaxPool", 6, 0, 1, 0, 3}}) {
    GuardedTensor x(DType::kF32, {1, 1, 1, 3});
    x.Set({1, 2, 3});
    OpTester t(r.op);
    t.In(x).Attr("kernel_shape", Ints{1, r.kernel}).Attr("strides", Ints{1, 4}).Attr("ceil_mode", r.ceil);
    t.Attr("pads", Ints{0, r.pad, 0, 0});
    if (r.op == std::string("AveragePool")) t.Attr("count_include_pad", r.include);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    EXPECT_EQ(t.OutDesc().dims, (Dims{1, 1, 1, 1}));
    EXPECT_EQ(t.Out().Get(), std::vector<double>{r.want}) << r.op << r.kernel;
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
      {{1, 3, 4, 4, 4, 4},
       MakeAttrs({{"kernel_shape", Ints{2, 2, 2, 2}}}),
       1,
       Code::kInvalid,
       "rank 3 (N, C, L)"},
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
