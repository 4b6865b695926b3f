#include "opsnn/model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "onnx/model_writer.h"
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Pages of this process that are no file's.
int64_t PrivateBytes() {
  long long pages = 0, of_files = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    EXPECT_EQ(std::fscanf(f, "%*d %lld %lld", &pages, &of_files), 2);
    std::fclose(f);
  }
  return (pages - of_files) * sysconf(_SC_PAGESIZE);
}

// Four convolutions of 128 channels over images of any size.
std::string Convolutions() {
  onnx::ModelWriter m(17);
  m.Input("x0", {"1", "128", "H", "W"}).Output("x4");
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    m.Initializer(
        onnx::RawTensor<float>("w" + n, 1, {128, 128, 3, 3}, std::vector<float>(128 * 128 * 9, 0.01f)));
    m.Node("Conv", {"x" + n, "w" + n}, {"x" + std::to_string(i + 1)},
           {onnx::AttrWriter::Ints("pads", {1, 1, 1, 1})});
  }
  return m.Bytes();
}

// What running 20 sizes adds to the process is what the accounts say, within a tenth either way.
TEST(Model, AccountsHoldWhatTheProcessHolds) {
  const std::string bytes = Convolutions();
  constexpr int64_t kBesides = 4 << 20;  // stacks of threads, tables of the library, verdicts
  const int64_t before = PrivateBytes();
  auto m = Model::LoadBytes(bytes.data(), bytes.size());
  ASSERT_TRUE(m.ok()) << m.status().message();
  int64_t most = 0, accounted = 0;
  for (int64_t i = 0; i < 20; ++i) {
    auto feeds = m->RandomFeeds({{"x0", {1, 128, 20 + i * 7 % 41, 24 + i * 11 % 37}}}, 1);
    ASSERT_TRUE(feeds.ok());
    RunStats stats;
    ASSERT_TRUE(m->RunProfiled(*feeds, &stats).ok());
    most = std::max(most, PrivateBytes() - before);
    accounted = std::max(accounted, stats.total_bytes);
    EXPECT_GE(stats.total_bytes,
              stats.constant_bytes + stats.weight_bytes + stats.peak_bytes + stats.io_bytes);
  }
  EXPECT_LE(static_cast<double>(most), 1.1 * static_cast<double>(accounted) + kBesides);
  // What earlier tests left in the heap is used again, and pages that nobody touched are not there.
  EXPECT_LE(static_cast<double>(accounted), 1.1 * static_cast<double>(most) + kBesides);
}
#endif

}  // namespace
}  // namespace opsnn
