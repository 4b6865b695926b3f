// Size buckets: where padding a dim changes nothing, and where it would.
#include "graph/buckets.h"

#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;

TEST(Buckets, NearestUp) {
  EXPECT_EQ(BucketOf(kPresetBuckets, 0), 0);
  EXPECT_EQ(BucketOf(kPresetBuckets, 1), 256);
  EXPECT_EQ(BucketOf(kPresetBuckets, 256), 256);
  EXPECT_EQ(BucketOf(kPresetBuckets, 257), 512);
  EXPECT_EQ(BucketOf(kPresetBuckets, 1025), 2048);
  EXPECT_EQ(BucketOf(kPresetBuckets, 2049), 4096);
  const int64_t own[] = {3, 10};
  EXPECT_EQ(BucketOf(own, 4), 10);
  EXPECT_EQ(BucketOf(own, 31), 40);
}

// The axes of the results of `m` where dim `axis` of its only input is bucketed.
Result<std::vector<BucketAxis>> Axes(const GraphMaker& m, Dims dims, int axis) {
  auto s = Session::Create(m.graph(), Mode(FusionMode::kAuto));
  if (!s.ok()) return s.status();
  return (*s)->OwnRows({{m.graph().values[m.graph().inputs[0]].name, dims}}, {axis}, dims[axis]);
}

TEST(Buckets, ImagesOfABatchAreTheirOwn) {
  GraphMaker m;
  ValueId y =
      m.Op("Conv", {m.In("x", {kUnknownDim, 3, 8, 8}), m.Random({4, 3, 3, 3})}, {{"pads", Ints(4, 1)}});
  y = m.Op("Relu", {m.Op("Add", {y, m.Random({4, 1, 1})})});
  y = m.Op("MaxPool", {y}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  y = m.Op("Flatten", {y});
  y = m.Op("Softmax", {m.Op("Gemm", {y, m.Random({64, 10}), m.Random({10})})});
  m.Out(y);
  m.Out(m.Op("Reshape", {y, m.Ints({-1})}));
  const auto axes = Axes(m, {8, 3, 8, 8}, 0);
  ASSERT_TRUE(axes.ok()) << axes.status().message();
  EXPECT_EQ((*axes)[0].axis, 0);
  EXPECT_EQ((*axes)[0].factor, 1);
  EXPECT_EQ((*axes)[1].axis, 0);
  EXPECT_EQ((*axes)[1].factor, 10);
}

// An attention whose batch may be padded, while its tokens read each other.
TEST(Buckets, TokensOfAnAttentionAreNot) {
  GraphMaker m;
  const ValueId x = m.In("x", {kUnknownDim, kUnknownDim, 16});
  const ValueId q = m.Op("Add", {m.Op("MatMul", {x, m.Random({16, 16})}), m.Random({16})});
  const ValueId k =
      m.Op("Transpose", {m.Op("LayerNormalization", {x, m.Random({16})})}, {{"perm", Ints{0, 2, 1}}});
  m.Out(m.Op("MatMul", {m.Op("Softmax", {m.Op("MatMul", {q, k})}), x}));
  EXPECT_TRUE(Axes(m, {4, 6, 16}, 0).ok());
  const auto tokens = Axes(m, {4, 6, 16}, 1);
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.status().message().find("MatMul"), std::string::npos) << tokens.status().message();
}

TEST(Buckets, NodesThatMixAreNamed) {
  const auto refused = [](const char* op, auto build) {
    GraphMaker m;
    m.Out(build(m, m.In("x", {kUnknownDim, 6})));
    const auto axes = Axes(m, {4, 6}, 0);
    ASSERT_FALSE(axes.ok()) << op;
    EXPECT_NE(axes.status().message().find(op), std::string::npos) << axes.status().message();
  };
  refused("ReduceMean", [](GraphMaker& m, ValueId x) { return m.Op("ReduceMean", {x, m.Ints({0})}); });
  refused("Softmax", [](GraphMaker& m, ValueId x) { return m.Op("Softmax", {x}, {{"axis", int64_t{0}}}); });
  refused("Concat", [](GraphMaker& m, ValueId x) { return m.Op("Concat", {x, x}, {{"axis", int64_t{0}}}); });
  refused("CumSum", [](GraphMaker& m, ValueId x) { return m.Op("CumSum", {x, m.Ints({0})}); });
  refused("MatMul", [](GraphMaker& m, ValueId x) {
    return m.Op("MatMul", {m.Op("Transpose", {x}, {{"perm", Ints{1, 0}}}), x});
  });
  // The number of rows as a number.
  refused("Mul", [](GraphMaker& m, ValueId x) {
    const ValueId rows = m.Op("ReduceProd", {m.Op("Shape", {x})}, {{"keepdims", int64_t{0}}});
    return m.Op("Mul", {x, m.Op("Cast", {rows}, {{"to", int64_t{1}}})});
  });
}

}  // namespace
}  // namespace opsnn::graph
