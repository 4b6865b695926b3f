#include <gtest/gtest.h>

#include <random>

#include "onnx/model_writer.h"
#include "opsnn/model.h"

namespace opsnn {
namespace {

constexpr int64_t kInner = 5, kColumns = 3;

// y = relu(x w); mixed = the mean over all rows where `mixes`.
std::string Rows(bool mixes) {
  std::vector<float> w;
  for (int i = 0; i < kInner * kColumns; ++i) w.push_back(static_cast<float>(i % 7) - 3);
  onnx::ModelWriter m(17);
  m.Initializer(onnx::RawTensor<float>("w", 1, {kInner, kColumns}, w));
  m.Input("x", {"rows", std::to_string(kInner)}).Output("y");
  m.Node("MatMul", {"x", "w"}, {"p"}).Node("Relu", {"p"}, {"y"});
  if (mixes) m.Node("ReduceMean", {"y"}, {"mixed"}, {onnx::AttrWriter::Ints("axes", {0})}).Output("mixed");
  return m.Bytes();
}

Result<Model> Load(bool mixes, std::optional<SizeBuckets> buckets) {
  ModelOptions o;
  o.buckets = std::move(buckets);
  const std::string bytes = Rows(mixes);
  return Model::LoadBytes(bytes.data(), bytes.size(), o);
}

Feeds RandomRows(int64_t rows) {
  Tensor t = *Tensor::Make(DType::kF32, {rows, kInner});
  std::mt19937 engine(static_cast<unsigned>(rows));
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = static_cast<float>(engine() % 9) - 4;
  return {{"x", t}};
}

TEST(SizeBuckets, FewPlansServeAllSizes) {
  auto plain = Load(false, std::nullopt), padded = Load(false, SizeBuckets{"x", 0, {4, 16}});
  ASSERT_TRUE(plain.ok() && padded.ok()) << padded.status().message();
  RunStats one, other;
  for (int64_t rows = 0; rows <= 33; ++rows) {
    const Feeds feeds = RandomRows(rows);
    auto a = plain->RunProfiled(feeds, &one), b = padded->RunProfiled(feeds, &other);
    ASSERT_TRUE(a.ok() && b.ok()) << b.status().message();
    EXPECT_EQ((*a)[0].dims(), (*b)[0].dims());
    EXPECT_EQ((*a)[0].ToDoubles(), (*b)[0].ToDoubles()) << rows;  // small integers: exact in any order
    std::vector<Tensor> lent;
    ASSERT_TRUE(padded->Run(feeds, &lent).ok());
    EXPECT_EQ(lent[0].ToDoubles(), (*b)[0].ToDoubles());
  }
  EXPECT_EQ(one.plans_made, 34);
  EXPECT_EQ(other.plans_made, 5);  // 0, 4, 16, 32 and 48 rows
}

TEST(SizeBuckets, WhatMixesRowsIsNamed) {
  auto m = Load(true, SizeBuckets{"x", 0, {}});
  ASSERT_TRUE(m.ok());
  EXPECT_TRUE(m->Run(RandomRows(256)).ok());  // nothing is padded
  const auto r = m->Run(RandomRows(3));
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.status().message().find("ReduceMean"), std::string::npos) << r.status().message();
}

TEST(SizeBuckets, WrongOptions) {
  const auto message = [](SizeBuckets b) { return Load(false, std::move(b)).status().message(); };
  EXPECT_NE(message({"z", 0, {}}).find("allowed"), std::string::npos);
  EXPECT_NE(message({"x", 2, {}}).find("allowed"), std::string::npos);
  EXPECT_NE(message({"x", 1, {}}).find("an open dim"), std::string::npos);
  EXPECT_NE(message({"x", 0, {4, 4}}).find("ascending"), std::string::npos);
  EXPECT_NE(message({"x", 0, {0}}).find("ascending"), std::string::npos);
}

}  // namespace
}  // namespace opsnn
