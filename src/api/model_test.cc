#include "opsnn/model.h"

#include <gtest/gtest.h>

#include "opsnn/operator_model.h"

namespace opsnn {
namespace {

Result<Model> Relu() {
  OpSpec spec;
  spec.op = "relu";
  spec.ints["x"] = {3, 4};
  return MakeOperatorModel(spec);
}

Feeds FeedsOf(const Model& m, double value) {
  auto t = Tensor::From<float>({3, 4}, std::vector<float>(12, static_cast<float>(value)));
  return {{m.inputs()[0].name, *t}};
}

TEST(Tensor, WithoutMemoryOrSense) {
  EXPECT_TRUE(Tensor().ToDoubles().empty());
  EXPECT_TRUE(Tensor::Share(DType::kF32, {1 << 20}, nullptr).ToDoubles().empty());
  float v[3] = {};
  EXPECT_TRUE(Tensor::Share(DType::kF32, {-3}, std::shared_ptr<void>(v, [](void*) {})).ToDoubles().empty());
  EXPECT_NE(SaveNpy("/nonexistent.npy", Tensor()).message().find("no values"), std::string::npos);
  EXPECT_NE(Tensor::Make(DType::kF32, {2, -1}).status().message().find("dims[1] is -1"), std::string::npos);
  EXPECT_NE(Tensor::Make(static_cast<DType>(99), {4}).status().message().find("dtype is 99"),
            std::string::npos);
}

TEST(Model, OutputsAreUsedAgain) {
  auto m = Relu();
  ASSERT_TRUE(m.ok()) << m.status().message();
  std::vector<Tensor> out;
  ASSERT_TRUE(m->Run(FeedsOf(*m, 2), &out).ok());
  ASSERT_EQ(out.size(), 1u);
  const void* first = out[0].raw();
  EXPECT_EQ(out[0].ToDoubles(), std::vector<double>(12, 2));
  ASSERT_TRUE(m->Run(FeedsOf(*m, 5), &out).ok());
  EXPECT_EQ(out[0].raw(), first);
  EXPECT_EQ(out[0].ToDoubles(), std::vector<double>(12, 5));
}

TEST(Model, OutputsThatDoNotFitAreReplaced) {
  auto m = Relu();
  ASSERT_TRUE(m.ok()) << m.status().message();
  for (auto wrong : {*Tensor::Make(DType::kF32, {4, 3}), *Tensor::Make(DType::kS32, {3, 4}), Tensor()}) {
    std::vector<Tensor> out{wrong, wrong};
    if (wrong.valid()) out.pop_back();
    ASSERT_TRUE(m->Run(FeedsOf(*m, 1), &out).ok());
    ASSERT_EQ(out.size(), 1u);
    EXPECT_NE(out[0].raw(), wrong.raw());
    EXPECT_EQ(out[0].dims(), (std::vector<int64_t>{3, 4}));
    EXPECT_EQ(out[0].ToDoubles(), std::vector<double>(12, 1));
  }
}

TEST(Model, OutputsInAFeedAreRefused) {
  auto m = Relu();
  ASSERT_TRUE(m.ok()) << m.status().message();
  const Feeds feeds = FeedsOf(*m, 1);
  std::vector<Tensor> out{feeds.begin()->second};
  const Status s = m->Run(feeds, &out);
  EXPECT_EQ(s.code(), Code::kInvalid);
  EXPECT_NE(s.message().find("overlaps input"), std::string::npos) << s.message();
  EXPECT_EQ(m->Run(feeds, nullptr).code(), Code::kNull);
}

TEST(Model, PlansLargeWeightsWithoutThem) {
  OpSpec spec;
  spec.op = "matmul";
  spec.ints = {{"m", {64}}, {"n", {1 << 20}}, {"k", {1 << 20}}};
  spec.epilogue = {"bias", "relu"};
  spec.plan_only = true;
  auto m = MakeOperatorModel(spec);
  ASSERT_TRUE(m.ok()) << m.status().message();
  std::vector<std::string> assumed;
  auto decisions = m->Explain(m->FillShapes({}, &assumed));
  ASSERT_TRUE(decisions.ok()) << decisions.status().message();
  EXPECT_FALSE(decisions->empty());
  EXPECT_TRUE(assumed.empty());
}

}  // namespace
}  // namespace opsnn
