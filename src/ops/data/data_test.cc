// Every data-movement operator against its definition, written out index by index on doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "op/op_tester.h"

namespace opsnn::ops {
namespace {

using op::OpTester;
using testing::GuardedTensor;
using testing::Rng;

constexpr DType kAllTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kS8,
                               DType::kU8,  DType::kS16, DType::kS32, DType::kS64,  DType::kBool};
DType RandomType(Rng& rng) { return kAllTypes[rng.Int(0, kNumDTypes - 1)]; }

ConstTensor Ints(const std::vector<int64_t>& v) {
  return HostTensor::From<int64_t>({static_cast<int64_t>(v.size())}, v);
}

std::vector<int64_t> Unflatten(int64_t flat, const Dims& dims) {
  std::vector<int64_t> index(dims.rank());
  for (int i = dims.rank() - 1; i >= 0; --i) {
    index[i] = flat % dims[i];
    flat /= dims[i];
  }
  return index;
}

int64_t Flatten(const std::vector<int64_t>& index, const Dims& dims) {
  int64_t flat = 0;
  for (int i = 0; i < dims.rank(); ++i) flat = flat * dims[i] + index[i];
  return flat;
}

// y[index] = x[source(index)] for every index of dims.
template <typename Source>
std::vector<double> Pick(const std::vector<double>& x, const Dims& x_dims, const Dims& dims, Source source) {
  std::vector<double> y(NumElements(dims));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = x[Flatten(source(Unflatten(static_cast<int64_t>(i), dims)), x_dims)];
  }
  return y;
}

GuardedTensor RandomTensor(Rng& rng, DType t, const Dims& dims) {
  GuardedTensor x(t, dims, &rng, rng.Chance(0.4));
  x.FillRandom(rng, 0, 100);
  return x;
}

// Runs with contiguous or strided outputs and compares output 0, dims included.
void Expect(Rng& rng, OpTester& t, const Dims& dims, const std::vector<double>& want) {
  if (rng.Chance(0.4)) t.StridedOutputs(rng);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  ASSERT_EQ(t.OutDesc().dims, dims);
  ASSERT_EQ(t.Out().Get(), want);
}

TEST(TransposeTest, RandomPermutations) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(0, 7, 3000, true);
    std::vector<int64_t> perm(dims.rank());
    std::iota(perm.begin(), perm.end(), 0);
    const bool reverse = rng.Chance(0.2);
    if (reverse) {
      std::reverse(perm.begin(), perm.end());
    } else {
      std::shuffle(perm.begin(), perm.end(), rng.engine());
    }
    Dims out = dims;
    for (int i = 0; i < dims.rank(); ++i) out[i] = dims[static_cast<int>(perm[i])];
    const GuardedTensor x = RandomTensor(rng, RandomType(rng), dims);
    OpTester t("Transpose");
    t.In(x);
    if (!reverse) t.Attr("perm", perm);
    Expect(rng, t, out, Pick(x.Get(), dims, out, [&](const std::vector<int64_t>& i) {
             std::vector<int64_t> s(i.size());
             for (size_t k = 0; k < i.size(); ++k) s[perm[k]] = i[k];
             return s;
           }));
    if (HasFatalFailure()) return;
  }
}

TEST(TransposeTest, BadPermutation) {
  GuardedTensor x(DType::kF32, {2, 3});
  for (const std::vector<int64_t>& perm : {std::vector<int64_t>{0, 0}, {0}, {0, 2}, {-1, 0}}) {
    OpTester t("Transpose");
    t.In(x).Attr("perm", perm);
    EXPECT_EQ(t.Infer().code(), Code::kInvalid);
    EXPECT_NE(t.status().message().find("Transpose: attribute perm is ["), std::string::npos);
    EXPECT_NE(t.status().message().find("allowed: a permutation of 0..1"), std::string::npos);
  }
}

TEST(ConcatSplitTest, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    const Dims base = rng.Shape(1, 5, 500);
    const int axis = static_cast<int>(rng.Int(0, base.rank() - 1));
    const DType type = RandomType(rng);
    const int n = static_cast<int>(rng.Int(1, 4));
    std::vector<GuardedTensor> parts;
    std::vector<int64_t> sizes;
    Dims whole = base;
    whole[axis] = 0;
    for (int i = 0; i < n; ++i) {
      Dims d = base;
      d[axis] = rng.Int(0, 9);
      sizes.push_back(d[axis]);
      whole[axis] += d[axis];
      parts.push_back(RandomTensor(rng, type, d));
    }
    OpTester concat("Concat");
    for (const GuardedTensor& p : parts) concat.In(p);
    concat.Attr("axis", int64_t{rng.Chance(0.5) ? axis : axis - base.rank()});
    std::vector<double> want(NumElements(whole));
    std::vector<std::vector<double>> values;
    for (const GuardedTensor& p : parts) values.push_back(p.Get());
    for (size_t e = 0; e < want.size(); ++e) {
      std::vector<int64_t> index = Unflatten(static_cast<int64_t>(e), whole);
      int p = 0;
      while (index[axis] >= sizes[p]) index[axis] -= sizes[p++];
      want[e] = values[p][Flatten(index, parts[p].view().dims)];
    }
    Expect(rng, concat, whole, want);
    if (HasFatalFailure()) return;

    OpTester split("Split");
    split.In(concat.Out()).In(Ints(sizes)).Outputs(n).Attr("axis", int64_t{axis});
    ASSERT_TRUE(split.Run().ok()) << split.status().message();
    for (int i = 0; i < n; ++i) ASSERT_EQ(split.Out(i).Get(), values[i]);
  }
}

TEST(ConcatSplitTest, Errors) {
  GuardedTensor a(DType::kF32, {2, 3}), b(DType::kF32, {2, 4}), c(DType::kF64, {2, 3});
  OpTester concat("Concat");
  concat.In(a).In(b).Attr("axis", int64_t{0});
  EXPECT_EQ(concat.Infer().message(),
            "Concat: inputs[1] has shape [2,4]; allowed: [2,3] except along axis 0");
  OpTester types("Concat");
  types.In(a).In(c).Attr("axis", int64_t{0});
  EXPECT_EQ(types.Infer().code(), Code::kInvalid);
  OpTester axis("Concat");
  axis.In(a).Attr("axis", int64_t{2});
  EXPECT_EQ(axis.Infer().message(), "Concat: attribute axis is 2; allowed: [-2, 1]");
  OpTester split("Split");
  split.In(a).In(Ints({1, 1})).Outputs(2).Attr("axis", int64_t{1});
  EXPECT_NE(split.Infer().message().find("Split: split is [1,1] for 2 outputs of an axis of size 3"),
            std::string::npos);
}

TEST(SplitTest, UnevenPieces) {
  GuardedTensor x(DType::kS32, {7});
  x.Set({0, 1, 2, 3, 4, 5, 6});
  OpTester t("Split");
  t.In(x).Outputs(3);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out(0).Get(), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(t.Out(2).Get(), (std::vector<double>{6}));
}

// Python's range(size)[start:end:step], the slow way.
std::vector<int64_t> PythonSlice(int64_t size, int64_t start, int64_t end, int64_t step) {
  std::vector<int64_t> picked;
  if (start < 0) start += size;
  if (end < 0) end += size;
  if (step > 0) {
    for (int64_t i = std::max<int64_t>(start, 0); i < std::min(end, size); i += step) picked.push_back(i);
  } else {
    for (int64_t i = std::min(start, size - 1); i > std::max<int64_t>(end, -1) && i >= 0; i += step) {
      picked.push_back(i);
    }
  }
  return picked;
}

TEST(SliceTest, RandomWindows) {
  Rng rng;
  for (auto _ : testing::FuzzFor(250)) {
    const Dims dims = rng.Shape(1, 5, 2000, true);
    std::vector<int64_t> axes, starts, ends, steps;
    std::vector<std::vector<int64_t>> picked;
    for (int i = 0; i < dims.rank(); ++i) picked.push_back(PythonSlice(dims[i], 0, dims[i], 1));
    for (int i = 0; i < dims.rank(); ++i) {
      if (rng.Chance(0.4)) continue;
      axes.push_back(rng.Chance(0.5) ? i : i - dims.rank());
      starts.push_back(rng.Int(-dims[i] - 2, dims[i] + 2));
      ends.push_back(rng.Chance(0.2) ? INT64_MAX : rng.Int(-dims[i] - 2, dims[i] + 2));
      steps.push_back(rng.Chance(0.5) ? rng.Int(1, 3) : rng.Int(-3, -1));
      picked[i] = PythonSlice(dims[i], starts.back(), ends.back(), steps.back());
    }
    Dims out = dims;
    for (int i = 0; i < dims.rank(); ++i) out[i] = static_cast<int64_t>(picked[i].size());
    const GuardedTensor x = RandomTensor(rng, RandomType(rng), dims);
    OpTester t("Slice");
    t.In(x).In(Ints(starts)).In(Ints(ends)).In(Ints(axes)).In(Ints(steps));
    Expect(rng, t, out, Pick(x.Get(), dims, out, [&](std::vector<int64_t> i) {
             for (size_t k = 0; k < i.size(); ++k) i[k] = picked[k][i[k]];
             return i;
           }));
    if (HasFatalFailure()) {
      ADD_FAILURE() << ToString(dims) << Ints(starts)->size();
      return;
    }
  }
}

TEST(SliceTest, Extremes) {
  GuardedTensor x(DType::kS64, {3});
  x.Set({1, 2, 3});
  OpTester back("Slice");
  back.In(x).In(Ints({-1})).In(Ints({INT64_MIN})).In(Ints({0})).In(Ints({-1}));
  ASSERT_TRUE(back.Run().ok());
  EXPECT_EQ(back.Out().Get(), (std::vector<double>{3, 2, 1}));
  OpTester one("Slice");
  one.In(x).In(Ints({2})).In(Ints({INT64_MIN})).In(Ints({0})).In(Ints({INT64_MIN}));
  ASSERT_TRUE(one.Run().ok());
  EXPECT_EQ(one.Out().Get(), (std::vector<double>{3}));
  OpTester zero("Slice");
  zero.In(x).In(Ints({0})).In(Ints({1})).In(Ints({0})).In(Ints({0}));
  EXPECT_EQ(zero.Infer().message(), "Slice: steps is [0]; allowed: not 0");
  OpTester twice("Slice");
  twice.In(x).In(Ints({0, 0})).In(Ints({1, 1})).In(Ints({0, -1}));
  EXPECT_NE(twice.Infer().message().find("names axis 0 twice"), std::string::npos);
}

TEST(SliceTest, UnknownWindowGivesUnknownDims) {
  GuardedTensor x(DType::kF32, {3, 4}), starts(DType::kS64, {1});
  OpTester t("Slice");
  t.In(x).In(starts).In(Ints({1})).In(Ints({1}));
  ASSERT_TRUE(t.Infer().ok());
  EXPECT_EQ(t.OutDesc().dims, (Dims{3, kUnknownDim}));
  EXPECT_EQ(t.Run().message(), "Slice: starts or ends depend on the data; they must be known before running");
}

TEST(GatherTest, RandomAxes) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(1, 4, 1000), idx_dims = rng.Shape(0, 3, 20, true);
    const int axis = static_cast<int>(rng.Int(0, dims.rank() - 1));
    GuardedTensor idx(rng.Chance(0.5) ? DType::kS64 : DType::kS32, idx_dims, &rng, rng.Chance(0.3));
    std::vector<double> picks(NumElements(idx_dims));
    for (double& p : picks) p = static_cast<double>(rng.Int(-dims[axis], dims[axis] - 1));
    idx.Set(picks);
    Dims out;
    for (int i = 0; i < axis; ++i) out.push_back(dims[i]);
    for (const int64_t d : idx_dims) out.push_back(d);
    for (int i = axis + 1; i < dims.rank(); ++i) out.push_back(dims[i]);
    const GuardedTensor x = RandomTensor(rng, RandomType(rng), dims);
    OpTester t("Gather");
    t.In(x).In(idx).Attr("axis", int64_t{axis});
    Expect(rng, t, out, Pick(x.Get(), dims, out, [&](const std::vector<int64_t>& i) {
             std::vector<int64_t> s(i.begin(), i.begin() + axis);
             const std::vector<int64_t> j(i.begin() + axis, i.begin() + axis + idx_dims.rank());
             const auto p = static_cast<int64_t>(picks[Flatten(j, idx_dims)]);
             s.push_back(p < 0 ? p + dims[axis] : p);
             s.insert(s.end(), i.begin() + axis + idx_dims.rank(), i.end());
             return s;
           }));
    if (HasFatalFailure()) return;
  }
}

TEST(GatherTest, IndexOutOfRange) {
  GuardedTensor x(DType::kF32, {5}), idx(DType::kS64, {2});
  idx.Set({1, 5});
  OpTester t("Gather");
  t.In(x).In(idx);
  EXPECT_EQ(t.Run().message(), "Gather: indices: index 5 at position 1 is outside [-5, 4]");
  EXPECT_EQ(t.status().code(), Code::kInvalid);
}

TEST(GatherElementsTest, PicksAlongAxis) {
  GuardedTensor x(DType::kF32, {2, 3}), idx(DType::kS32, {2, 2});
  x.Set({1, 2, 3, 4, 5, 6});
  idx.Set({2, -3, 0, 1});
  OpTester t("GatherElements");
  t.In(x).In(idx).Attr("axis", int64_t{1});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{3, 1, 4, 5}));
}

TEST(GatherNdTest, TuplesAndScatterBack) {
  GuardedTensor x(DType::kF32, {2, 2, 2}), idx(DType::kS64, {2, 1, 2});
  x.Set({0, 1, 2, 3, 4, 5, 6, 7});
  idx.Set({0, 1, 1, 0});
  OpTester t("GatherND");
  t.In(x).In(idx);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.OutDesc().dims, (Dims{2, 1, 2}));
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{2, 3, 4, 5}));
  GuardedTensor updates(DType::kF32, {2, 1, 2});
  updates.Set({10, 11, 12, 13});
  OpTester s("ScatterND");
  s.In(x).In(idx).In(updates);
  ASSERT_TRUE(s.Run().ok()) << s.status().message();
  EXPECT_EQ(s.Out().Get(), (std::vector<double>{0, 1, 10, 11, 12, 13, 6, 7}));
  OpTester batched("GatherND");
  GuardedTensor rows(DType::kS64, {2, 1});
  rows.Set({1, 0});
  batched.In(x).In(rows).Attr("batch_dims", int64_t{1});
  ASSERT_TRUE(batched.Run().ok()) << batched.status().message();
  EXPECT_EQ(batched.Out().Get(), (std::vector<double>{2, 3, 4, 5}));
}

int64_t PadSource(const std::string& mode, int64_t i, int64_t n) {  // -1: the constant
  if (i >= 0 && i < n) return i;
  if (mode == "edge") return i < 0 ? 0 : n - 1;
  if (mode == "reflect") return i < 0 ? -i : 2 * (n - 1) - i;
  if (mode == "wrap") return (i + n) % n;
  return -1;
}

TEST(PadTest, RandomModes) {
  Rng rng;
  const char* modes[] = {"constant", "reflect", "edge", "wrap"};
  for (auto _ : testing::FuzzFor(250)) {
    const std::string mode = modes[rng.Int(0, 3)];
    const Dims dims = rng.Shape(1, 4, 600);
    std::vector<int64_t> pads(2 * dims.rank());
    Dims out = dims;
    for (int i = 0; i < dims.rank(); ++i) {
      const int64_t limit = mode == "reflect" ? dims[i] - 1 : mode == "wrap" ? dims[i] : 5;
      const int64_t cut = mode == "constant" ? -(dims[i] / 2) : 0;
      pads[i] = rng.Int(cut, std::min<int64_t>(limit, 5));
      pads[i + dims.rank()] = rng.Int(cut, std::min<int64_t>(limit, 5));
      out[i] += pads[i] + pads[i + dims.rank()];
    }
    const DType type = RandomType(rng);
    const GuardedTensor x = RandomTensor(rng, type, dims);
    GuardedTensor value(type, {});
    value.FillRandom(rng, 1, 50);
    const bool given = rng.Chance(0.6);
    const std::vector<double> values = x.Get();
    const double fill = given ? value.Get()[0] : 0;
    std::vector<double> want(NumElements(out));
    for (size_t e = 0; e < want.size(); ++e) {
      std::vector<int64_t> i = Unflatten(static_cast<int64_t>(e), out);
      bool inside = true;
      for (int k = 0; k < dims.rank(); ++k) {
        i[k] = PadSource(mode, i[k] - pads[k], dims[k]);
        inside = inside && i[k] >= 0;
      }
      want[e] = inside ? values[Flatten(i, dims)] : fill;
    }
    OpTester t("Pad");
    t.In(x).In(Ints(pads)).Attr("mode", mode);
    if (given) t.In(value);
    Expect(rng, t, out, want);
    if (HasFatalFailure()) {
      ADD_FAILURE() << mode << " " << ToString(dims);
      return;
    }
  }
}

TEST(PadTest, Errors) {
  GuardedTensor x(DType::kF32, {3, 4});
  OpTester reflect("Pad");
  reflect.In(x).In(Ints({3, 0, 0, 0})).Attr("mode", std::string("reflect"));
  EXPECT_EQ(reflect.Infer().message(),
            "Pad: pads along axis 0 of size 3 is 3; allowed in mode reflect: at most 2");
  OpTester few("Pad");
  few.In(x).In(Ints({1, 1}));
  EXPECT_EQ(few.Infer().message(), "Pad: pads has 2 values; allowed: 4, two per axis");
  OpTester cut("Pad");
  cut.In(x).In(Ints({-2, 0, -2, 0}));
  EXPECT_EQ(cut.Infer().code(), Code::kInvalid);
}

TEST(ReshapeTest, Shapes) {
  Rng rng;
  const GuardedTensor x = RandomTensor(rng, DType::kF16, {2, 3, 4});
  const struct {
    std::vector<int64_t> shape;
    Dims want;
  } cases[] = {
      {{24}, {24}}, {{-1}, {24}}, {{0, -1}, {2, 12}}, {{4, 3, -1, 1}, {4, 3, 2, 1}}, {{0, 0, 0}, {2, 3, 4}}};
  for (const auto& k : cases) {
    OpTester t("Reshape");
    t.In(x).In(Ints(k.shape));
    Expect(rng, t, k.want, x.Get());
  }
}

TEST(ReshapeTest, UnknownDims) {
  GuardedTensor shape(DType::kS64, {3}), x(DType::kF32, {2, 3});
  OpTester t("Reshape");
  t.In(x).In(shape);
  ASSERT_TRUE(t.Infer().ok());
  EXPECT_EQ(t.OutDesc().dims, (Dims{kUnknownDim, kUnknownDim, kUnknownDim}));
}

TEST(ReshapeTest, Errors) {
  GuardedTensor x(DType::kF32, {2, 3}), empty(DType::kF32, {0, 3});
  const auto message = [](const GuardedTensor& x, std::vector<int64_t> shape) {
    OpTester t("Reshape");
    t.In(x).In(Ints(shape));
    return t.Infer().message();
  };
  EXPECT_EQ(message(x, {2, -1, -1}),
            "Reshape: shape [2,-1,-1] for an input of shape [2,3]: more than one -1; allowed: at most one");
  EXPECT_EQ(message(x, {4}),
            "Reshape: shape [4] for an input of shape [2,3]: the numbers of elements differ; "
            "allowed: the same number");
  EXPECT_NE(message(x, {4, -1}).find("no size in place of -1"), std::string::npos);
  EXPECT_NE(message(x, {1, 2, 0}).find("there is none at its place"), std::string::npos);
  EXPECT_NE(message(x, {-2}).find("a dim below -1"), std::string::npos);
  EXPECT_EQ(message(empty, {0, 5, 3}).empty(), true);  // 0 keeps the dim: no elements on both sides
  OpTester zero("Reshape");
  zero.In(empty).In(Ints({3, 0})).Attr("allowzero", int64_t{1});
  ASSERT_TRUE(zero.Run().ok());
  EXPECT_EQ(zero.OutDesc().dims, (Dims{3, 0}));
}

TEST(ViewsTest, FlattenSqueezeUnsqueezeIdentity) {
  Rng rng;
  const GuardedTensor x = RandomTensor(rng, DType::kS16, {2, 1, 3, 1});
  OpTester flatten("Flatten");
  flatten.In(x).Attr("axis", int64_t{-1});
  Expect(rng, flatten, {6, 1}, x.Get());
  OpTester all("Squeeze");
  all.In(x);
  Expect(rng, all, {2, 3}, x.Get());
  OpTester one("Squeeze");
  one.In(x).In(Ints({-1}));
  Expect(rng, one, {2, 1, 3}, x.Get());
  OpTester bad("Squeeze");
  bad.In(x).In(Ints({0}));
  EXPECT_EQ(bad.Infer().message(),
            "Squeeze: axes [0] names axis 0 of data [2,1,3,1]; allowed: dims of size 1");
  OpTester unsqueeze("Unsqueeze");
  unsqueeze.In(x).In(Ints({0, -1}));
  Expect(rng, unsqueeze, {1, 2, 1, 3, 1, 1}, x.Get());
  OpTester identity("Identity");
  identity.In(x);
  Expect(rng, identity, x.view().dims, x.Get());
}

// Sizes that no memory holds are errors, not overflows.
TEST(ErrorsTest, HugeSizes) {
  GuardedTensor x(DType::kF32, {2, 4, 2, 2});
  OpTester reshape("Reshape"), tile("Tile"), pad("Pad"), depth("DepthToSpace"), split("Split");
  reshape.In(x).In(Ints({int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_NE(reshape.Infer().message().find("does not fit 63 bits"), std::string::npos);
  tile.In(x).In(Ints({INT64_MAX, 1, 1, 1}));
  EXPECT_NE(tile.Infer().message().find("allowed: sizes that fit 63 bits"), std::string::npos);
  pad.In(x).In(Ints({INT64_MAX, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(pad.Infer().code(), Code::kInvalid);
  depth.In(x).Attr("blocksize", INT64_MAX);
  EXPECT_EQ(depth.Infer().message(),
            "DepthToSpace: attribute blocksize is 9223372036854775807; allowed: 1 to 32767");
  split.In(x).In(Ints({INT64_MAX, INT64_MAX})).Outputs(2);
  EXPECT_EQ(split.Infer().code(), Code::kInvalid);
}

TEST(ViewsTest, SameMemoryIsLeftAlone) {
  GuardedTensor x(DType::kF32, {2, 3});
  x.Set({1, 2, 3, 4, 5, 6});
  OpTester t("Reshape");
  t.In(x).In(Ints({3, 2})).InPlace(0);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(x.Get(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(DropoutTest, CopyAndMask) {
  Rng rng;
  const GuardedTensor x = RandomTensor(rng, DType::kF32, {3, 5});
  OpTester t("Dropout");
  t.In(x).Outputs(2);
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out(0).Get(), x.Get());
  EXPECT_EQ(t.Out(1).Get(), std::vector<double>(15, 1.0));
}

TEST(ShapeTest, PartsAreConstants) {
  GuardedTensor x(DType::kU8, {2, 3, 4});
  OpTester t("Shape");
  t.In(x).Attr("start", int64_t{-2});
  ASSERT_TRUE(t.Run().ok()) << t.status().message();
  EXPECT_EQ(t.Out().Get(), (std::vector<double>{3, 4}));
  ASSERT_NE(t.OutDesc().constant, nullptr);
  EXPECT_EQ(ToInts(*t.OutDesc().constant), (std::vector<int64_t>{3, 4}));
  OpTester size("Size");
  size.In(x);
  ASSERT_TRUE(size.Run().ok());
  EXPECT_EQ(size.Out().Get(), std::vector<double>{24});
}

TEST(ExpandTest, Broadcasts) {
  Rng rng;
  const GuardedTensor x = RandomTensor(rng, DType::kBF16, {3, 1});
  OpTester t("Expand");
  t.In(x).In(Ints({2, 1, 4}));
  Expect(rng, t, {2, 3, 4}, Pick(x.Get(), {3, 1}, {2, 3, 4}, [](const std::vector<int64_t>& i) {
           return std::vector<int64_t>{i[1], 0};
         }));
  OpTester bad("Expand");
  bad.In(x).In(Ints({2, 2}));
  EXPECT_EQ(bad.Infer().message(),
            "Expand: shape is [2,2] for an input of shape [3,1]; allowed: shapes that broadcast");
}

TEST(TileTest, RandomRepeats) {
  Rng rng;
  for (auto _ : testing::FuzzFor(150)) {
    const Dims dims = rng.Shape(0, 7, 60);
    std::vector<int64_t> repeats(dims.rank());
    Dims out = dims;
    for (int i = 0; i < dims.rank(); ++i) out[i] *= repeats[i] = rng.Int(rng.Chance(0.1) ? 0 : 1, 2);
    const GuardedTensor x = RandomTensor(rng, RandomType(rng), dims);
    OpTester t("Tile");
    t.In(x).In(Ints(repeats));
    Expect(rng, t, out, Pick(x.Get(), dims, out, [&](std::vector<int64_t> i) {
             for (int k = 0; k < dims.rank(); ++k) i[k] %= dims[k];
             return i;
           }));
    if (HasFatalFailure()) return;
  }
}

TEST(ConstantOfShapeTest, FillsWithValue) {
  OpTester zeros("ConstantOfShape");
  zeros.In(Ints({2, 3}));
  ASSERT_TRUE(zeros.Run().ok());
  EXPECT_EQ(zeros.OutDesc().dtype, DType::kF32);
  EXPECT_EQ(zeros.Out().Get(), std::vector<double>(6, 0.0));
  OpTester sevens("ConstantOfShape");
  sevens.In(Ints({})).Attr("value", ConstTensor(HostTensor::From<int64_t>({1}, {7})));
  ASSERT_TRUE(sevens.Run().ok());
  EXPECT_EQ(sevens.OutDesc().dims, Dims{});
  EXPECT_EQ(sevens.Out().Get(), std::vector<double>{7});
}

TEST(RangeTest, CountsAndErrors) {
  const auto scalar = [](int64_t v) { return HostTensor::From<int64_t>({}, {v}); };
  const auto run = [&](int64_t start, int64_t limit, int64_t delta) {
    OpTester t("Range");
    t.In(scalar(start)).In(scalar(limit)).In(scalar(delta));
    EXPECT_TRUE(t.Run().ok()) << t.status().message();
    return t.Out().Get();
  };
  EXPECT_EQ(run(0, 5, 2), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(run(0, 4, 2), (std::vector<double>{0, 2}));
  EXPECT_EQ(run(5, 0, -2), (std::vector<double>{5, 3, 1}));
  EXPECT_EQ(run(5, 0, 2), (std::vector<double>{}));
  EXPECT_EQ(run(0, 5, -2), (std::vector<double>{}));
  OpTester zero("Range");
  zero.In(scalar(0)).In(scalar(1)).In(scalar(0));
  EXPECT_EQ(zero.Infer().message(), "Range: delta is 0; allowed: not 0");
  OpTester real("Range");
  real.In(HostTensor::From<float>({}, {0.5f})).In(HostTensor::From<float>({}, {2.0f}));
  real.In(HostTensor::From<float>({}, {0.5f}));
  ASSERT_TRUE(real.Run().ok());
  EXPECT_EQ(real.Out().Get(), (std::vector<double>{0.5, 1, 1.5}));
}

TEST(DepthToSpaceTest, BothModesAndBack) {
  Rng rng;
  const int64_t b = 2;
  const Dims dims = {2, 12, 3, 5}, out = {2, 3, 6, 10};
  const GuardedTensor x = RandomTensor(rng, DType::kF32, dims);
  for (const std::string mode : {"DCR", "CRD"}) {
    OpTester t("DepthToSpace");
    t.In(x).Attr("blocksize", b).Attr("mode", mode);
    Expect(rng, t, out, Pick(x.Get(), dims, out, [&](const std::vector<int64_t>& i) {
             const int64_t block = (i[2] % b) * b + i[3] % b;
             const int64_t c = mode == "DCR" ? block * 3 + i[1] : i[1] * b * b + block;
             return std::vector<int64_t>{i[0], c, i[2] / b, i[3] / b};
           }));
    if (mode != "DCR") continue;
    OpTester back("SpaceToDepth");
    back.In(t.Out()).Attr("blocksize", b);
    Expect(rng, back, dims, x.Get());
  }
}

}  // namespace
}  // namespace opsnn::ops
