// Under the exact policy a fused chain gives the bits of its nodes run one by one, also where the chain
// spells an activation that the engine has as one stage.
#include <gtest/gtest.h>

#include <cstring>

#include "onnx/import.h"
#include "onnx/model_writer.h"
#include "testing/testing.h"

namespace opsnn::cases {
namespace {

using onnx::AttrWriter;
using onnx::ModelWriter;
using onnx::RawTensor;

constexpr int64_t kChannels = 5, kSide = 13;

ModelWriter& Scalar(ModelWriter& w, const std::string& name, float v) {
  return w.Initializer(RawTensor<float>(name, 1, {}, {v}));
}

// x -> convolution -> c -> `chain` -> y
std::string WithChain(testing::Rng& rng, const std::function<void(ModelWriter&)>& chain) {
  ModelWriter w(17);
  const std::string side = std::to_string(kSide);
  w.Input("x", {"1", std::to_string(kChannels), side, side}).Output("y");
  std::vector<float> weights(kChannels * kChannels * 9);
  for (float& v : weights) v = static_cast<float>(rng.Real(-1, 1));
  w.Initializer(RawTensor<float>("w", 1, {kChannels, kChannels, 3, 3}, weights));
  w.Node("Conv", {"x", "w"}, {"c"}, {AttrWriter::Ints("pads", {1, 1, 1, 1})});
  chain(w);
  return w.Bytes();
}

ConstTensor RunModel(const std::string& bytes, FusionMode fusion, const ConstTensor& x) {
  graph::SessionOptions options;
  options.fusion = fusion;
  options.policy = NumericsPolicy::kExact;
  auto session = onnx::LoadSessionFromBytes(bytes, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  auto r = (*session)->Run({{"x", x}});
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r->outputs[0];
}

void ExpectSameBits(const std::string& bytes, const ConstTensor& x) {
  const ConstTensor plain = RunModel(bytes, FusionMode::kOff, x);
  for (const FusionMode fusion : {FusionMode::kAuto, FusionMode::kForce}) {
    const ConstTensor fused = RunModel(bytes, fusion, x);
    ASSERT_EQ(fused->bytes(), plain->bytes());
    EXPECT_EQ(std::memcmp(fused->data(), plain->data(), plain->bytes()), 0);
  }
}

void ExpectSameBits(const std::function<void(ModelWriter&)>& chain) {
  testing::Rng rng;
  std::vector<float> values(kChannels * kSide * kSide);
  for (float& v : values) v = static_cast<float>(rng.Real(-2, 2));
  ExpectSameBits(WithChain(rng, chain), HostTensor::From<float>({1, kChannels, kSide, kSide}, values));
}

TEST(ExactPolicy, DecomposedHardSwish) {
  ExpectSameBits([](ModelWriter& w) {
    Scalar(Scalar(Scalar(w, "three", 3), "zero", 0), "six", 6);
    w.Node("Add", {"c", "three"}, {"a"}).Node("Clip", {"a", "zero", "six"}, {"g"});
    w.Node("Mul", {"c", "g"}, {"m"}).Node("Div", {"m", "six"}, {"y"});
  });
}

TEST(ExactPolicy, DecomposedSilu) {
  ExpectSameBits([](ModelWriter& w) { w.Node("Sigmoid", {"c"}, {"s"}).Node("Mul", {"c", "s"}, {"y"}); });
}

TEST(ExactPolicy, DecomposedGelu) {
  ExpectSameBits([](ModelWriter& w) {
    Scalar(Scalar(Scalar(w, "root", 1.41421354f), "one", 1), "half", 0.5f);
    w.Node("Div", {"c", "root"}, {"d"}).Node("Erf", {"d"}, {"e"}).Node("Add", {"e", "one"}, {"p"});
    w.Node("Mul", {"c", "p"}, {"m"}).Node("Mul", {"m", "half"}, {"y"});
  });
}

TEST(ExactPolicy, SquareAndAffine) {
  ExpectSameBits([](ModelWriter& w) {
    Scalar(Scalar(Scalar(w, "two", 2), "third", 1.0f / 3), "b", 0.7f);
    w.Node("Pow", {"c", "two"}, {"q"}).Node("Mul", {"q", "third"}, {"r"}).Node("Add", {"r", "b"}, {"s"});
    w.Node("Relu", {"s"}, {"t"}).Node("Add", {"t", "c"}, {"y"});
  });
}

// Attention's products: transposed operands that the fused form may read in place, by few rows and many.
TEST(ExactPolicy, TransposedOperands) {
  testing::Rng rng;
  constexpr int64_t kHeads = 3, kDepth = 64;
  for (const int64_t length : {1, 2, 5, 7, 8, 13, 33, 70}) {
    ModelWriter w(17);
    const std::string n = std::to_string(length), width = std::to_string(kHeads * kDepth);
    w.Input("x", {"1", n, width}).Output("y");
    w.Initializer(RawTensor<int64_t>("s", 7, {4}, {1, -1, kHeads, kDepth}));
    Scalar(w, "eight", 8);
    w.Node("Relu", {"x"}, {"q"}).Node("Tanh", {"x"}, {"k"});
    w.Node("Reshape", {"q", "s"}, {"q1"})
        .Node("Reshape", {"k", "s"}, {"k1"})
        .Node("Reshape", {"x", "s"}, {"v1"});
    w.Node("Transpose", {"q1"}, {"q2"}, {AttrWriter::Ints("perm", {0, 2, 1, 3})});
    w.Node("Transpose", {"k1"}, {"k2"}, {AttrWriter::Ints("perm", {0, 2, 3, 1})});
    w.Node("Transpose", {"v1"}, {"v2"}, {AttrWriter::Ints("perm", {0, 2, 1, 3})});
    w.Node("MatMul", {"q2", "k2"}, {"p"}).Node("Div", {"p", "eight"}, {"d"});
    w.Node("Softmax", {"d"}, {"a"}, {AttrWriter::Int("axis", -1)}).Node("MatMul", {"a", "v2"}, {"h"});
    w.Node("Transpose", {"h"}, {"y"}, {AttrWriter::Ints("perm", {0, 2, 1, 3})});
    std::vector<float> values(static_cast<size_t>(length * kHeads * kDepth));
    for (float& v : values) v = static_cast<float>(rng.Real(-2, 2));
    SCOPED_TRACE(length);
    ExpectSameBits(w.Bytes(), HostTensor::From<float>({1, length, kHeads * kDepth}, values));
  }
}

}  // namespace
}  // namespace opsnn::cases
