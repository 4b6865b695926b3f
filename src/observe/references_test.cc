// verify on random operands of operators whose references are of their own kind: quantisation, losses,
// Einsum, sampling.
#include "graph/graph_tester.h"
#include "graph/infer.h"
#include "observe/verify.h"

namespace opsnn::observe {
namespace {

using graph::GraphMaker;
using graph::ValueId;

void ExpectVerified(GraphMaker& m, const graph::Feeds& feeds, FusionMode fusion = FusionMode::kAuto) {
  graph::Graph g = m.graph();
  ASSERT_TRUE(graph::InferGraph(g, {.fold = false, .concrete = false}).ok());
  graph::SessionOptions options;
  options.passes_off = "";
  options.policy = NumericsPolicy::kExcess;
  options.fusion = fusion;
  auto fused = graph::Session::Create(g, options);
  options.fusion = FusionMode::kOff;
  auto unfused = graph::Session::Create(g, options);
  ASSERT_TRUE(fused.ok() && unfused.ok());
  auto report = Verify(**fused, **unfused, feeds, nullptr);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->ok) << report->first_bad << " " << report->first_difference;
  EXPECT_EQ(report->unchecked, 0);
  for (const NodeCheck& c : report->checks)
    if (!c.ok || !c.checked)
      ADD_FAILURE() << c.node << " " << c.op << ": " << c.note << ", share " << c.share;
}

ConstTensor Bytes(GraphMaker& m, const Dims& dims, int64_t lo = 0, int64_t hi = 255) {
  std::vector<uint8_t> v(static_cast<size_t>(NumElements(dims)));
  for (uint8_t& x : v) x = static_cast<uint8_t>(m.rng().Int(lo, hi));
  return HostTensor::From<uint8_t>(dims, v);
}

ConstTensor Classes(GraphMaker& m, const Dims& dims, int64_t classes) {
  std::vector<int64_t> v(static_cast<size_t>(NumElements(dims)));
  for (int64_t& x : v) x = m.rng().Int(0, classes - 1);
  return HostTensor::From<int64_t>(dims, v);
}

// Parts and whole; the statistics of the first are what the second passes on.
TEST(VerifyReferences, BatchStatistics) {
  for (auto _ : testing::FuzzFor(200)) {
    GraphMaker m;
    const int64_t c = m.rng().Int(1, 20);
    ValueId y = m.In("x", {3, c, 6, 7});
    for (int i = 0; i < 2; ++i) {
      y = m.Op("Conv", {y, m.Random({c, c, 3, 3}), m.Random({c})},
               {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      const ValueId norm =
          m.Op("BatchNormalizationTraining",
               {y, m.Random({c}, 0.5, 2), m.Random({c}), m.Random({c}), m.Random({c}, 0.5, 2)}, {}, 3);
      m.Out(norm + 1);
      m.Out(norm + 2);
      y = m.Op("Relu", {norm});
    }
    m.Out(y);
    ExpectVerified(m, m.RandomFeeds());
  }
}

// Chains of floats end at a rounding, and many values lie at ties (scale 2^-4, steps of 2^-5).
TEST(VerifyReferences, Quantisation) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    const ValueId x = m.In("x", {2, 6, 9, 7}), zero = m.Const(Bytes(m, {}));
    const ValueId a = m.Op("Gelu", {m.Op("Add", {x, m.Scalar(0.25)})});
    const ValueId q = m.Op("QuantizeLinear", {a, m.Scalar(0.0625f), zero});
    const ValueId ties = m.Op("Round", {m.Op("Mul", {x, m.Scalar(32)})});
    m.Out(m.Op("QuantizeLinear", {m.Op("Mul", {ties, m.Scalar(0.03125f)}), m.Scalar(0.0625f), zero}));
    const ValueId w = m.Const(Bytes(m, {5, 6, 3, 3})), wz = m.Const(Bytes(m, {5}));
    m.Out(m.Op("ConvInteger", {q, w, zero, wz}));
    const ValueId conv = m.Op("QLinearConv", {q, m.Scalar(0.0625f), zero, w, m.Random({5}, 0.001, 0.01), wz,
                                              m.Scalar(0.1f), m.Const(Bytes(m, {}))});
    m.Out(m.Op("DequantizeLinear", {conv, m.Scalar(0.1f), zero}));
    m.Out(m.Op("QLinearMatMul", {m.Const(Bytes(m, {4, 33})), m.Scalar(0.02f), zero,
                                 m.Const(Bytes(m, {33, 8})), m.Scalar(0.03f), zero, m.Scalar(0.5f), zero}));
    const ValueId d = m.Op("DynamicQuantizeLinear", {a}, {}, 3);
    for (int i = 0; i < 3; ++i) m.Out(d + i);
    ExpectVerified(m, m.RandomFeeds());
  }
}

// Products that store integers: rounding decides by steps, per tensor, column and row.
TEST(VerifyReferences, QuantisedProducts) {
  for (const int64_t axis : {0, 1}) {
    GraphMaker m;
    const Dims params = {axis == 0 ? 21 : 30};
    ValueId y = m.Op("MatMul", {m.In("x", {21, 40}), m.Random({40, 30})});
    y = m.Op("Gelu", {m.Op("Add", {y, m.Random({30})})});
    m.Out(m.Op("QuantizeLinear", {y, m.Random(params, 0.02, 0.1), m.Random(params, -9, 9, DType::kS8)},
               {{"axis", axis}}));
    const ValueId z = m.Op("Gemm", {m.In("z", {9, 8}), m.Random({8, 7})});
    m.Out(m.Op("QuantizeLinear", {m.Op("Relu", {z}), m.In("scale", axis == 0 ? Dims{9} : Dims{7})},
               {{"axis", axis}}));
    graph::Feeds feeds = m.RandomFeeds();
    feeds["scale"] = m.RandomTensor(axis == 0 ? Dims{9} : Dims{7}, 0.02, 0.1);
    ExpectVerified(m, feeds, FusionMode::kForce);
  }
}

TEST(VerifyReferences, LossesAndProducts) {
  for (const char* reduction : {"none", "sum", "mean"}) {
    GraphMaker m;
    const ValueId x = m.In("x", {3, 7, 5}), t = m.Const(Classes(m, {3, 5}, 7)), w = m.Random({7}, 0.1, 2);
    const ValueId loss =
        m.Op("SoftmaxCrossEntropyLoss", {x, t, w}, {{"reduction", std::string(reduction)}}, 2);
    m.Out(loss);
    m.Out(loss + 1);
    m.Out(m.Op("NegativeLogLikelihoodLoss", {x, t, w},
               {{"reduction", std::string(reduction)}, {"ignore_index", int64_t{2}}}));
    ExpectVerified(m, m.RandomFeeds());
  }
  for (const char* equation :
       {"ij,jk->ik", "bij,bjk", "...ij,...jk->...ik", "ii->i", "ij,jk,kl->il", "ij->"}) {
    GraphMaker m;
    const std::string e = equation;
    const Dims square{6, 6}, cube{4, 6, 6};
    const Dims dims = e[0] == 'i' ? square : cube;
    std::vector<ValueId> in = {m.In("x", dims)};
    if (e.find(',') != std::string::npos) in.push_back(m.Random(dims));
    if (e == "ij,jk,kl->il") in.push_back(m.Random(dims));
    m.Out(m.Op("Einsum", in, {{"equation", e}}));
    ExpectVerified(m, m.RandomFeeds());
  }
}

TEST(VerifyReferences, ImagesAndWindows) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 3, 11, 8});
  for (const char* padding : {"zeros", "border", "reflection"})
    for (const int64_t corners : {0, 1})
      for (const char* mode : {"linear", "nearest", "cubic"})
        m.Out(m.Op("GridSample", {x, m.Random({2, 5, 4, 2}, -1.5, 1.5)},
                   {{"mode", std::string(mode)},
                    {"padding_mode", std::string(padding)},
                    {"align_corners", corners}}));
  const ValueId rois = m.Const(HostTensor::From<float>({2, 4}, {1, 1, 6.5, 7, 0, 2, 9, 13}));
  m.Out(m.Op("RoiAlign", {x, rois, m.Const(HostTensor::From<int64_t>({2}, {1, 0}))},
             {{"output_height", int64_t{3}}, {"output_width", int64_t{2}}}));
  m.Out(m.Op("LRN", {x}, {{"size", int64_t{3}}}));
  m.Out(m.Op("MeanVarianceNormalization", {x}));
  m.Out(m.Op("LpPool", {x}, {{"kernel_shape", std::vector<int64_t>{3, 2}}, {"p", int64_t{3}}}));
  m.Out(m.Op("GlobalLpPool", {x}));
  const ValueId pooled = m.Op("MaxPool", {m.Op("Round", {x})},
                              {{"kernel_shape", std::vector<int64_t>{3, 2}},
                               {"strides", std::vector<int64_t>{2, 1}},
                               {"pads", std::vector<int64_t>{1, 0, 1, 1}}},
                              2);
  m.Out(pooled);
  m.Out(pooled + 1);
  m.Out(m.Op("Det", {m.Op("Slice", {x, m.Ints({0}), m.Ints({8}), m.Ints({2})})}));
  m.Out(m.Op("Hardmax", {x}, {{"axis", int64_t{1}}}));
  m.Out(m.Op("CenterCropPad", {x, m.Ints({2, 4, 9, 11})}));
  const ValueId columns = m.Op("Reshape", {x, m.Ints({1, 12, 44})});
  m.Out(m.Op("Col2Im", {columns, m.Ints({5, 12}), m.Ints({2, 2})}));
  ExpectVerified(m, m.RandomFeeds());
}

// Sizes that only the run tells: all parts are checked, and what was selected while planning.
TEST(VerifyReferences, SizesFromValues) {
  GraphMaker m;
  const ValueId x = m.In("x", {2, 5, 4}), scores = m.In("scores", {2, 3, 5});
  const ValueId boxes = m.Op("Sigmoid", {m.Op("Mul", {x, m.Random({4})})});
  const ValueId chosen = m.Op("NonMaxSuppression", {boxes, scores, m.Ints({3}), m.Scalar(0.3f)});
  m.Out(chosen);
  const ValueId kept = m.Op("GatherND", {x, m.Op("Transpose", {m.Op("NonZero", {m.Op("Relu", {x})})})});
  m.Out(m.Op("Exp", {kept}));
  m.Out(m.Op("Unique", {m.Op("Round", {kept})}, {}, 4));
  m.Out(boxes);
  ExpectVerified(m, m.RandomFeeds());
}

}  // namespace
}  // namespace opsnn::observe
