// Small models built like the image networks people run, each against itself unfused.
#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

std::vector<int64_t> V(std::initializer_list<int64_t> v) { return v; }

// A convolution with a window of k x k that keeps the size at stride 1, and a bias.
ValueId Conv(GraphMaker& m, ValueId x, int64_t in, int64_t out, int64_t k = 1, int64_t stride = 1,
             int64_t group = 1) {
  const double range = 1.0 / std::sqrt(static_cast<double>(in / group * k * k));
  return m.Op(
      "Conv", {x, m.Random({out, in / group, k, k}, -range, range), m.Random({out}, -0.1, 0.1)},
      {{"pads", V({k / 2, k / 2, k / 2, k / 2})}, {"strides", V({stride, stride})}, {"group", group}});
}

ValueId Norm(GraphMaker& m, ValueId x, int64_t c) {
  return m.Op("BatchNormalization",
              {x, m.Random({c}, 0.5, 2), m.Random({c}), m.Random({c}, -0.2, 0.2), m.Random({c}, 0.5, 2)});
}

ValueId Swish(GraphMaker& m, ValueId x) { return m.Op("Mul", {x, m.Op("Sigmoid", {x})}); }

// As exporters of PP-OCR and MobileNetV3 write it.
ValueId HardSwish(GraphMaker& m, ValueId x) {
  const ValueId clip = m.Op("Clip", {m.Op("Add", {x, m.Scalar(3)}), m.Scalar(0), m.Scalar(6)});
  return m.Op("Div", {m.Op("Mul", {x, clip}), m.Scalar(6)});
}

enum class Gate { kSigmoid, kHardSigmoid };

// Squeeze and excitation: the image scaled by what two layers make of its means.
ValueId SqueezeExcite(GraphMaker& m, ValueId x, int64_t c, int64_t squeezed, Gate gate) {
  const ValueId mean = m.Op("GlobalAveragePool", {x});
  const ValueId a = Conv(m, mean, c, squeezed);
  const ValueId b = Conv(m, gate == Gate::kSigmoid ? Swish(m, a) : m.Op("Relu", {a}), squeezed, c);
  return m.Op("Mul", {x, gate == Gate::kSigmoid ? m.Op("Sigmoid", {b})
                                                : m.Op("HardSigmoid", {b}, {{"alpha", 0.2}, {"beta", 0.5}})});
}

TEST(CvZoo, EfficientNetBlocks) {
  for (int64_t batch : {1, 3}) {
    GraphMaker m;
    ValueId x = Swish(m, Norm(m, Conv(m, m.In("x", {batch, 3, 20, 20}), 3, 16, 3, 2), 16));
    for (int i = 0; i < 2; ++i) {
      const ValueId wide = Swish(m, Norm(m, Conv(m, x, 16, 48), 48));
      const ValueId deep = Swish(m, Norm(m, Conv(m, wide, 48, 48, 5, 1, 48), 48));
      const ValueId back = Norm(m, Conv(m, SqueezeExcite(m, deep, 48, 4, Gate::kSigmoid), 48, 16), 16);
      x = m.Op("Add", {x, back});
    }
    m.Out(m.Op("Flatten", {m.Op("GlobalAveragePool", {x})}));
    const Outcome o = ExpectFusionKeepsResults(m, 10);
    EXPECT_EQ(o.Count("BatchNormalization"), 0);
    EXPECT_EQ(o.Count("Sigmoid"), 0);
    EXPECT_EQ(o.Count("Conv"), 11);
    // Two means, two scalings and the pool at the end remain beside the convolutions.
    EXPECT_LE(o.prepared->nodes_run(), 11 + 5);
  }
}

TEST(CvZoo, MobileNetV3Blocks) {
  GraphMaker m;
  ValueId x = HardSwish(m, Norm(m, Conv(m, m.In("x", {2, 3, 17, 23}), 3, 16, 3, 2), 16));
  const ValueId wide = HardSwish(m, Norm(m, Conv(m, x, 16, 40), 40));
  const ValueId deep = HardSwish(m, Norm(m, Conv(m, wide, 40, 40, 3, 1, 40), 40));
  x = m.Op("Add", {x, Norm(m, Conv(m, SqueezeExcite(m, deep, 40, 12, Gate::kHardSigmoid), 40, 16), 16)});
  m.Out(x);
  const Outcome o = ExpectFusionKeepsResults(m, 10);
  EXPECT_EQ(o.Effects("hardswish"), 3);
  EXPECT_EQ(o.Count("Clip") + o.Count("Div") + o.Count("HardSwish") + o.Count("HardSigmoid"), 0);
}

// A pointwise convolution and what follows it run on the same mean: a chain without anything in between.
TEST(CvZoo, GlobalAverageAndPointwiseChain) {
  GraphMaker m;
  const ValueId x = Conv(m, m.In("x", {2, 8, 9, 11}), 8, 40, 3);
  ValueId y = m.Op("GlobalAveragePool", {m.Op("Relu", {x})});
  y = m.Op("Relu", {Conv(m, y, 40, 24)});
  y = HardSwish(m, Conv(m, y, 24, 10));
  m.Out(m.Op("Flatten", {y}));
  const Outcome o = ExpectFusionKeepsResults(m, 10);
  // Three convolutions, the mean, conversions of input and result.
  EXPECT_LE(o.prepared->nodes_run(), 6);
}

ValueId Upsampled(GraphMaker& m, ValueId x) {
  return m.Op("Resize", {x, kNoValue, m.Const(HostTensor::From<float>({4}, {1, 1, 2, 2}))},
              {{"mode", std::string("nearest")},
               {"coordinate_transformation_mode", std::string("asymmetric")},
               {"nearest_mode", std::string("floor")}});
}

ValueId Stage(GraphMaker& m, ValueId x, int64_t in, int64_t out) {
  return m.Op("Relu",
              {Norm(m, Conv(m, m.Op("Relu", {Norm(m, Conv(m, x, in, out, 3), out)}), out, out, 3), out)});
}

ValueId Halved(GraphMaker& m, ValueId x) {
  return m.Op("MaxPool", {x}, {{"kernel_shape", V({2, 2})}, {"strides", V({2, 2})}});
}

// Encoder, decoder with skip connections: what is upsampled and what was kept are written side by side.
TEST(CvZoo, UNet) {
  for (int64_t batch : {1, 2}) {
    GraphMaker m;
    const ValueId a = Stage(m, m.In("x", {batch, 3, 16, 24}), 3, 16);
    const ValueId b = Stage(m, Halved(m, a), 16, 32);
    const ValueId c = Stage(m, Halved(m, b), 32, 48);
    const ValueId d = Stage(m, m.Op("Concat", {b, Upsampled(m, c)}, {{"axis", int64_t{1}}}), 80, 32);
    const ValueId e = Stage(m, m.Op("Concat", {Upsampled(m, d), a}, {{"axis", int64_t{1}}}), 48, 16);
    m.Out(m.Op("Sigmoid", {Conv(m, e, 16, 1)}));
    const Outcome o = ExpectFusionKeepsResults(m, 10);
    const Outcome copied = RunGraph(m, Mode(FusionMode::kForce, "parts_in_place"));
    if (batch > 1) continue;  // images of several pieces lie apart
    EXPECT_EQ(o.Effects("parts_in_place"), 2);
    EXPECT_EQ(o.outputs, copied.outputs);
    EXPECT_LT(o.prepared->bytes_moved(), copied.prepared->bytes_moved());
  }
}

// Every layer reads the concatenation of all before it. Written as exporters of PyTorch (all parts every
// time) or of Keras (the last concatenation and the new part) do.
TEST(CvZoo, DenseNet) {
  for (bool nested : {false, true}) {
    GraphMaker m;
    std::vector<ValueId> parts = {Conv(m, m.In("x", {1, 3, 12, 10}), 3, 32, 3)};
    ValueId all = parts[0];
    int64_t channels = 32;
    for (int i = 0; i < 4; ++i, channels += 16) {
      const ValueId narrow = Conv(m, m.Op("Relu", {Norm(m, all, channels)}), channels, 64);
      parts.push_back(Conv(m, m.Op("Relu", {narrow}), 64, 16, 3));
      all = nested ? m.Op("Concat", {all, parts.back()}, {{"axis", int64_t{1}}})
                   : m.Op("Concat", parts, {{"axis", int64_t{1}}});
    }
    m.Out(Conv(m, m.Op("Relu", {Norm(m, all, channels)}), channels, 8));
    const Outcome o = ExpectFusionKeepsResults(m, 100);
    const Outcome copied = RunGraph(m, Mode(FusionMode::kForce, "parts_in_place"));
    EXPECT_EQ(o.Effects("parts_in_place"), 4) << nested;
    EXPECT_EQ(o.outputs, copied.outputs);
    EXPECT_LT(o.prepared->bytes_moved(), copied.prepared->bytes_moved());
  }
}

// Channels that do not fill their block cannot lie side by side in blocks.
TEST(CvZoo, ConcatOfHalfBlocksIsCopied) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 16, 8, 8});
  const ValueId y = m.Op("Concat", {Conv(m, x, 16, 24, 3), Conv(m, x, 16, 16, 3)}, {{"axis", int64_t{1}}});
  m.Out(Conv(m, y, 40, 16));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 10).Effects("parts_in_place"), 0);
  GraphMaker last;
  const ValueId u = last.In("x", {1, 16, 8, 8});
  const ValueId v =
      last.Op("Concat", {Conv(last, u, 16, 16, 3), Conv(last, u, 16, 24, 3)}, {{"axis", int64_t{1}}});
  last.Out(Conv(last, v, 40, 16));
  EXPECT_EQ(ExpectFusionKeepsResults(last, 10).Effects("parts_in_place"), 1);
}

// A head of YOLOv8: a convolution per level; boxes from the expectation over 16 bins, centres and sizes from
// anchors, classes by sigmoid; all levels behind each other.
TEST(CvZoo, YoloHeadWithDecoding) {
  constexpr int64_t kBins = 16, kClasses = 5;
  const int64_t sizes[2][2] = {{6, 8}, {3, 4}};
  GraphMaker m;
  std::vector<ValueId> levels;
  int64_t total = 0;
  for (int i = 0; i < 2; ++i) {
    const ValueId x = m.In("x" + std::to_string(i), {1, 32, sizes[i][0], sizes[i][1]});
    const ValueId box = Conv(m, Swish(m, Norm(m, Conv(m, x, 32, 32, 3), 32)), 32, 4 * kBins);
    const ValueId cls = Conv(m, Swish(m, Norm(m, Conv(m, x, 32, 32, 3), 32)), 32, kClasses);
    const ValueId both = m.Op("Concat", {box, cls}, {{"axis", int64_t{1}}});
    levels.push_back(m.Op("Reshape", {both, m.Ints({1, 4 * kBins + kClasses, -1})}));
    total += sizes[i][0] * sizes[i][1];
  }
  const ValueId all = m.Op("Concat", levels, {{"axis", int64_t{2}}});
  const ValueId box = m.Op("Split", {all, m.Ints({4 * kBins, kClasses})}, {{"axis", int64_t{1}}}, 2),
                cls = box + 1;
  ValueId bins =
      m.Op("Transpose", {m.Op("Reshape", {box, m.Ints({1, 4, kBins, total})})}, {{"perm", V({0, 2, 1, 3})}});
  bins = m.Op("Softmax", {bins}, {{"axis", int64_t{1}}});
  std::vector<float> steps(kBins);
  for (int i = 0; i < kBins; ++i) steps[static_cast<size_t>(i)] = static_cast<float>(i);
  const ValueId edges =
      m.Op("Reshape", {m.Op("Conv", {bins, m.Const(HostTensor::From<float>({1, kBins, 1, 1}, steps))}),
                       m.Ints({1, 4, total})});
  const ValueId low = m.Op("Split", {edges, m.Ints({2, 2})}, {{"axis", int64_t{1}}}, 2), high = low + 1;
  const ValueId anchors = m.Random({1, 2, total}, 0, 8);
  const ValueId from = m.Op("Sub", {anchors, low}), to = m.Op("Add", {anchors, high});
  const ValueId centre = m.Op("Div", {m.Op("Add", {from, to}), m.Scalar(2)}), size = m.Op("Sub", {to, from});
  const ValueId boxes =
      m.Op("Mul", {m.Op("Concat", {centre, size}, {{"axis", int64_t{1}}}), m.Random({1, 1, total}, 8, 32)});
  m.Out(m.Op("Concat", {boxes, m.Op("Sigmoid", {cls})}, {{"axis", int64_t{1}}}));
  const Outcome o = ExpectFusionKeepsResults(m, 1000);
  EXPECT_EQ(o.Count("BatchNormalization"), 0);
  EXPECT_GE(o.Effects("parts_in_place"), 1);
}

// A head of YOLOv5: sigmoid of the raw map, then centre and size by their own formulas, and a Concat of the
// pieces.
TEST(CvZoo, YoloHeadOfAnchors) {
  constexpr int64_t kAnchors = 3, kValues = 9, kH = 5, kW = 6;
  GraphMaker m;
  const ValueId raw = Conv(m, m.In("x", {2, 32, kH, kW}), 32, kAnchors * kValues);
  const ValueId grid = m.Op("Transpose", {m.Op("Reshape", {raw, m.Ints({2, kAnchors, kValues, kH, kW})})},
                            {{"perm", V({0, 1, 3, 4, 2})}});
  const ValueId s = m.Op("Sigmoid", {grid});
  const ValueId xy = m.Op("Split", {s, m.Ints({2, 2, kValues - 4})}, {{"axis", int64_t{4}}}, 3);
  const ValueId centre =
      m.Op("Mul", {m.Op("Add", {m.Op("Mul", {xy, m.Scalar(2)}), m.Random({1, kAnchors, kH, kW, 2}, -0.5, 5)}),
                   m.Scalar(8)});
  const ValueId twice = m.Op("Mul", {xy + 1, m.Scalar(2)});
  const ValueId size =
      m.Op("Mul", {m.Op("Pow", {twice, m.Scalar(2)}), m.Random({1, kAnchors, kH, kW, 2}, 4, 16)});
  m.Out(m.Op("Reshape",
             {m.Op("Concat", {centre, size, xy + 2}, {{"axis", int64_t{4}}}), m.Ints({2, -1, kValues})}));
  ExpectFusionKeepsResults(m, 1000);
}

}  // namespace
}  // namespace opsnn::graph
