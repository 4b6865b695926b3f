// ScatterElements, NonZero, Compress, Unique and Hardmax against their definitions.
#include <algorithm>
#include <cmath>

#include "op/pointwise_tester.h"

namespace opsnn::op {
namespace {

using testing::GuardedTensor;
using testing::Rng;

constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS8,
                          DType::kU8,  DType::kS16, DType::kS32, DType::kS64,  DType::kBool};

ConstTensor AsConstant(const GuardedTensor& t) {
  auto c = std::make_shared<HostTensor>(t.view().dtype, t.view().dims);
  const std::vector<double> v = t.Get();
  for (size_t i = 0; i < v.size(); ++i)
    WriteElement(c->as<char>() + i * SizeOf(c->dtype()), c->dtype(), v[i]);
  return c;
}

TEST(ScatterElements, RandomAxesAndReductions) {
  Rng rng;
  for (auto _ : testing::FuzzFor(250)) {
    const DType type = kAll[rng.Int(0, 9)];
    const Dims dims = rng.Shape(1, 4, 600);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    Dims index_dims = dims;
    for (int i = 0; i < dims.rank(); ++i)
      index_dims[i] = i == axis ? rng.Int(0, 2 * dims[i]) : rng.Int(1, dims[i]);
    const DType index_type = rng.Chance(0.5) ? DType::kS64 : DType::kS32;
    GuardedTensor x(type, dims, &rng, rng.Chance(0.4)),
        indices(index_type, index_dims, &rng, rng.Chance(0.3)),
        updates(type, index_dims, &rng, rng.Chance(0.3));
    x.FillRandom(rng, 0, 3), updates.FillRandom(rng, 0, 3);
    std::vector<double> picks(static_cast<size_t>(NumElements(index_dims)));
    for (double& p : picks) p = static_cast<double>(rng.Int(-dims[axis], dims[axis] - 1));
    indices.Set(picks);
    const char* reductions[] = {"none", "add", "mul", "max", "min"};
    const std::string how = reductions[type == DType::kBool ? 0 : rng.Int(0, 4)];
    OpTester t("ScatterElements");
    t.In(x).In(indices).In(updates);
    const Attrs attrs = MakeAttrs({{"axis", int64_t{axis}}, {"reduction", how}});
    for (const auto& [name, v] : attrs.all()) t.Attr(name, v);
    const Reference r = Evaluate("ScatterElements", attrs, {ToRef(x), ToRef(indices), ToRef(updates)}, type);
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    if (how == "none" || how == "max" || how == "min") {
      ASSERT_EQ(t.Out().Get(), r.outputs[0].v) << how << " " << Name(type);
      continue;
    }
    if (IsFloat(type)) {  // a rounding for every update of an element, each of at most the largest value
      double most = 1;
      for (const double v : r.outputs[0].v) most = std::max(most, std::fabs(v));
      if (!(most < 6e4)) continue;
      const double steps = static_cast<double>(index_dims[axis]) + 1;
      ASSERT_EQ("",
                testing::Compare(t.Out().Get(), r.outputs[0].v, steps * testing::Epsilon(type) * most, 0));
    } else {
      double most = 0;
      for (const double v : r.outputs[0].v) most = std::max(most, std::fabs(v));
      if (how == "mul" && index_dims[axis] > 20) continue;  // beyond what doubles hold exactly
      ASSERT_EQ(t.Out().Get(), r.outputs[0].v) << how << " " << Name(type);
    }
  }
}

TEST(ScatterElements, StrayIndexWritesNothing) {
  GuardedTensor x(DType::kF32, {3}), indices(DType::kS64, {2}), updates(DType::kF32, {2});
  indices.Set({0, 3});
  OpTester t("ScatterElements");
  t.In(x).In(indices).In(updates);
  EXPECT_EQ(t.Run().message(), "ScatterElements: indices: index 3 at position 1 is outside [-3, 2]");
}

TEST(NonZero, EveryTypeAndScalars) {
  Rng rng;
  for (const DType type : kAll) {
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{5}, Dims{3, 4, 5}}) {
      GuardedTensor x(type, dims);
      std::vector<double> v(static_cast<size_t>(NumElements(dims)));
      for (double& e : v) e = rng.Chance(0.5) ? 0 : rng.Chance(0.2) && IsFloat(type) ? -0.0 : 1;
      x.Set(v);
      std::vector<std::vector<double>> columns;
      for (size_t i = 0; i < v.size(); ++i) {
        if (v[i] == 0) continue;
        std::vector<double> index;
        int64_t rest = static_cast<int64_t>(i);
        for (int d = dims.rank() - 1; d >= 0; --d)
          index.insert(index.begin(), static_cast<double>(rest % dims[d])), rest /= dims[d];
        if (dims.rank() == 0) index = {0};
        columns.push_back(index);
      }
      std::vector<double> want;
      for (int r = 0; r < std::max(dims.rank(), 1); ++r)
        for (const auto& column : columns) want.push_back(column[static_cast<size_t>(r)]);
      OpTester t("NonZero");
      t.In(AsConstant(x));
      ASSERT_TRUE(t.Run().ok()) << t.status().message();
      EXPECT_EQ(t.Out().Get(), want) << Name(type) << ToString(dims);
      EXPECT_EQ(t.OutDesc().dims, (Dims{std::max(dims.rank(), 1), static_cast<int64_t>(columns.size())}));
    }
  }
  GuardedTensor x(DType::kF32, {2, 3});
  OpTester unknown("NonZero");
  unknown.In(x);
  ASSERT_TRUE(unknown.Infer().ok());
  EXPECT_EQ(unknown.OutDesc().dims, (Dims{2, kUnknownDim}));
}

TEST(Compress, AxesAndFlat) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const Dims dims = rng.Shape(1, 4, 500);
    const bool flat = rng.Chance(0.3);
    const int axis = flat ? 0 : static_cast<int>(rng.Int(0, dims.rank() - 1));
    const int64_t size = flat ? NumElements(dims) : dims[axis];
    GuardedTensor x(kAll[rng.Int(0, 9)], dims, &rng, rng.Chance(0.4)),
        condition(DType::kBool, {rng.Int(0, size)});
    x.FillRandom(rng, 0, 9), condition.FillRandom(rng, 0, 1);
    OpTester t("Compress");
    t.In(x).In(AsConstant(condition));
    if (!flat) t.Attr("axis", int64_t{axis});
    if (rng.Chance(0.3)) t.StridedOutputs(rng);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    int64_t inner = 1;
    for (int i = axis + 1; !flat && i < dims.rank(); ++i) inner *= dims[i];
    const std::vector<double> v = x.Get(), keep = condition.Get();
    std::vector<double> want;
    for (size_t i = 0; i < v.size(); ++i) {
      const auto at = static_cast<size_t>(static_cast<int64_t>(i) / inner % size);
      if (at < keep.size() && keep[at] != 0) want.push_back(v[i]);
    }
    ASSERT_EQ(t.Out().Get(), want) << ToString(dims) << axis;
  }
}

TEST(Unique, SortedAndInOrderOfAppearance) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const DType type = kAll[rng.Int(0, 9)];
    GuardedTensor x(type, {rng.Int(0, 40)});
    std::vector<double> v(static_cast<size_t>(x.view().size()));
    for (double& e : v)
      e = IsFloat(type) && rng.Chance(0.1) ? std::nan("")
                                           : static_cast<double>(rng.Int(0, type == DType::kBool ? 1 : 5));
    x.Set(v);
    const bool sorted = rng.Chance(0.5);
    OpTester t("Unique");
    t.In(AsConstant(x)).Attr("sorted", int64_t{sorted}).Outputs(4);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    std::vector<double> first;
    for (size_t i = 0; i < v.size(); ++i) {
      if (std::none_of(first.begin(), first.end(),
                       [&](double j) { return same(v[static_cast<size_t>(j)], v[i]); }))
        first.push_back(static_cast<double>(i));
    }
    if (sorted) {
      std::sort(first.begin(), first.end(), [&](double a, double b) {
        const double p = v[static_cast<size_t>(a)], q = v[static_cast<size_t>(b)];
        return std::isnan(q) ? !std::isnan(p) : p < q;
      });
    }
    std::vector<double> values, inverse(v.size()), counts(first.size());
    for (size_t k = 0; k < first.size(); ++k) {
      values.push_back(v[static_cast<size_t>(first[k])]);
      for (size_t i = 0; i < v.size(); ++i) {
        if (!same(v[i], values[k])) continue;
        inverse[i] = static_cast<double>(k);
        ++counts[k];
      }
    }
    ASSERT_EQ("", testing::Compare(t.Out(0).Get(), values, 0, 0));
    ASSERT_EQ(t.Out(1).Get(), first);
    ASSERT_EQ(t.Out(2).Get(), inverse);
    ASSERT_EQ(t.Out(3).Get(), counts);
  }
}

TEST(Unique, RowsAlongAnAxis) {
  GuardedTensor x(DType::kS64, {3, 2});
  x.Set({4, 1, 2, 2, 4, 1});
  OpTester t("Unique");
  t.In(AsConstant(x)).Attr("axis", int64_t{0}).Outputs(2);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out(0).Get(), (std::vector<double>{2, 2, 4, 1}));
  EXPECT_EQ(t.Out(1).Get(), (std::vector<double>{1, 0}));
}

TEST(Hardmax, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(100)) {
    const DType type = kAll[rng.Int(0, 3)];
    const Dims dims = rng.Shape(1, 4, 600, true);
    const int64_t axis = rng.Int(-dims.rank(), dims.rank() - 1);
    const int at = static_cast<int>(axis < 0 ? axis + dims.rank() : axis);
    GuardedTensor x(type, dims, &rng, rng.Chance(0.4));
    std::vector<double> v(static_cast<size_t>(NumElements(dims))), want(v.size());
    for (double& e : v) e = static_cast<double>(rng.Int(-3, 3));
    x.Set(v);
    int64_t inner = 1;
    for (int i = at + 1; i < dims.rank(); ++i) inner *= dims[i];
    for (size_t i = 0; i < v.size(); ++i) {
      const int64_t j = static_cast<int64_t>(i) / inner % dims[at];
      bool best = true;
      for (int64_t k = 0; k < dims[at]; ++k) {
        const double other = v[static_cast<size_t>(static_cast<int64_t>(i) + (k - j) * inner)];
        best = best && (k < j ? other < v[i] : other <= v[i]);
      }
      want[i] = best;
    }
    OpTester t("Hardmax");
    t.In(x).Attr("axis", axis);
    const bool in_place = rng.Chance(0.3);
    if (in_place) t.InPlace(0);
    ASSERT_TRUE(t.Run().ok()) << t.status().message();
    ASSERT_EQ(in_place ? x.Get() : t.Out().Get(), want) << ToString(dims) << axis;
  }
}

}  // namespace
}  // namespace opsnn::op
