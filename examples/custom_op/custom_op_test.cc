// An operator of one's own behind a product: right, fused where the judge says so, and the same either way.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

TEST(CustomOperator, BehindAProduct) {
  constexpr int64_t kM = 37, kK = 24, kN = 50;
  GraphMaker m;
  const ConstTensor weights = m.RandomTensor({kK, kN}), bias = m.RandomTensor({kN});
  m.Out(m.Op("BiasLisht", {m.Op("MatMul", {m.In("x", {kM, kK}), m.Const(weights)}), m.Const(bias)}));
  const std::vector<double> x = ToDoubles(*m.RandomFeeds().at("x")), w = ToDoubles(*weights),
                            b = ToDoubles(*bias);
  std::vector<double> want;
  for (int64_t i = 0; i < kM * kN; ++i) {
    double z = b[static_cast<size_t>(i % kN)];
    for (int64_t k = 0; k < kK; ++k)
      z += x[static_cast<size_t>(i / kN * kK + k)] * w[static_cast<size_t>(k * kN + i % kN)];
    want.push_back(z * std::tanh(z));
  }
  // z is a sum of k products of up to 4 in f32; the slope of the activation is below 1.2.
  const double tolerance = 1.2 * kK * 4 * kK * 0x1p-24;
  const Outcome fused = RunGraph(m, Mode(FusionMode::kForce)), apart = RunGraph(m, Mode(FusionMode::kOff));
  for (const Outcome* o : {&fused, &apart}) {
    ASSERT_EQ(o->outputs.size(), 1u);
    EXPECT_EQ("", testing::Compare(o->outputs[0], want, tolerance, 0x1p-22));
  }
  EXPECT_EQ(fused.Count("BiasLisht"), 0) << "it is the epilogue of the product";
  EXPECT_EQ(apart.Count("BiasLisht"), 1);
  EXPECT_EQ(fused.outputs, apart.outputs);
  ASSERT_FALSE(fused.decisions.empty());
  EXPECT_EQ(fused.decisions[0].chain.substr(0, 6), "matmul") << fused.decisions[0].reason;
}

}  // namespace
}  // namespace opsnn::graph
