// Conv, BatchNormalization over the statistics of the batch, and what is pointwise behind them, as one node.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "graph/fusion/edges.h"
#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;

// Norm of a convolution in training form; `statistics` makes the running ones outputs of the model.
ValueId TrainedConv(GraphMaker& m, ValueId x, int64_t in, int64_t out, int spatial, bool bias,
                    bool statistics) {
  Dims w{out, in};
  for (int i = 0; i < spatial; ++i) w.push_back(3);
  std::vector<ValueId> operands = {x, m.Random(w)};
  if (bias) operands.push_back(m.Random({out}));
  const ValueId v = m.Op("Conv", operands, {{"pads", Ints(static_cast<size_t>(2 * spatial), 1)}});
  const ValueId y =
      m.Op("BatchNormalizationTraining",
           {v, m.Random({out}, 0.5, 2), m.Random({out}), m.Random({out}), m.Random({out}, 0.5, 2)},
           {{"epsilon", 1e-3}, {"momentum", 0.8}}, statistics ? 3 : 1);
  if (statistics) {
    m.Out(y + 1);
    m.Out(y + 2);
  }
  return y;
}

TEST(ConvBatchNorm, EqualsItsParts) {
  for (auto _ : testing::FuzzFor(300)) {
    GraphMaker m;
    testing::Rng& rng = m.rng();
    const int spatial = static_cast<int>(rng.Int(1, 3));
    const int64_t in = rng.Int(1, 20), out = rng.Int(1, 40);
    Dims d{rng.Int(1, 3), in};
    for (int i = 0; i < spatial; ++i) d.push_back(rng.Int(3, 9));
    const bool residual = rng.Chance(0.5);
    ValueId y = TrainedConv(m, m.In("x", d), in, out, spatial, rng.Chance(0.5), rng.Chance(0.5));
    if (residual) {
      d[1] = out;
      y = m.Op("Add", {y, m.In("r", d)});
    }
    m.Out(m.Op("Relu", {y}));
    // Sums of up to 20 * 27 products of operands up to 4, divided by deviations of that size.
    const Outcome o = ExpectFusionKeepsResults(m, 16);
    EXPECT_EQ(o.Effects("conv_batch_norm"), 1);
    EXPECT_EQ(o.Count("ConvBatchNormTraining"), 1);
    EXPECT_EQ(o.prepared->nodes_run(), 1);
  }
}

// By the definition of the nodes: the parts read and write an image three times, the whole once.
TEST(ConvBatchNorm, ReadsAndWritesOnce) {
  for (const char* norm : {"training", "inference"}) {
    GraphMaker m;
    constexpr int64_t kBatch = 2, kChannels = 32, kSide = 24;
    const Dims d{kBatch, kChannels, kSide, kSide};
    const bool training = norm == std::string("training");
    const ValueId x = m.In("x", d);
    ValueId y;
    if (training) {
      y = TrainedConv(m, x, kChannels, kChannels, 2, false, false);
    } else {
      const ValueId v = m.Op("Conv", {x, m.Random({kChannels, kChannels, 3, 3})}, {{"pads", Ints(4, 1)}});
      y = m.Op("BatchNormalization", {v, m.Random({kChannels}, 0.5, 2), m.Random({kChannels}),
                                      m.Random({kChannels}), m.Random({kChannels}, 0.5, 2)});
    }
    m.Out(m.Op("Relu", {y}));
    const int64_t image = NumElements(d) * static_cast<int64_t>(sizeof(float));
    const auto images = [&](const Outcome& o) {
      int64_t bytes = 0;
      for (const Step& s : o.prepared->steps()) {
        const Node& n = o.prepared->graph().nodes[s.node];
        for (ValueId v : n.inputs)
          if (v != kNoValue && o.prepared->graph().values[v].desc.dims == d) bytes += image;
        for (ValueId v : n.outputs)
          if (v != kNoValue && n.op->name != "TransData") bytes += image;
      }
      return bytes / image;
    };
    SessionOptions plain = Mode(FusionMode::kOff, "layout");
    EXPECT_EQ(images(RunGraph(m, plain)), 6) << norm;
    const Outcome whole = RunGraph(m, Mode(FusionMode::kForce, "layout"));
    EXPECT_EQ(images(whole), 2) << norm;
    constexpr int64_t kWeights = (kChannels * 9 + 8) * kChannels * 4;
    EXPECT_LE(whole.prepared->bytes_moved(), 2 * image + kWeights) << norm;
  }
}

// The judge is asked, and what it says is on record; a second reader of the convolution forbids it.
TEST(ConvBatchNorm, IsDecidedAndRefused) {
  GraphMaker m;
  m.Out(TrainedConv(m, m.In("x", {2, 16, 14, 14}), 16, 16, 2, true, false));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  const auto asked = [](const Outcome& o) {
    return std::count_if(o.decisions.begin(), o.decisions.end(), [](const plan::Decision& d) {
      return d.chain == "conv+batchnormalizationtraining" && !d.reason.empty();
    });
  };
  EXPECT_EQ(asked(o), 1);
  SessionOptions exact = Mode(FusionMode::kForce);
  exact.policy = NumericsPolicy::kExact;
  EXPECT_EQ(RunGraph(m, exact).Count("ConvBatchNormTraining"), 0);

  GraphMaker two;
  const ValueId v = two.Op("Conv", {two.In("x", {2, 8, 6, 6}), two.Random({8, 8, 1, 1})});
  two.Out(two.Op("BatchNormalizationTraining",
                 {v, two.Random({8}), two.Random({8}), two.Random({8}), two.Random({8}, 0.5, 2)}));
  two.Out(v);
  EXPECT_EQ(RunGraph(two, Mode(FusionMode::kForce)).Count("ConvBatchNormTraining"), 0);
}

// The whole adds its statistics up in another order than the parts, so that the verdict may not follow the
// number of threads.
TEST(ConvBatchNorm, IsDecidedForAnyThreadCount) {
  for (const Dims& x : {Dims{4, 3, 20, 33}, Dims{4, 8, 33, 9}, Dims{2, 3, 22, 33}, Dims{8, 64, 28, 28}}) {
    for (const int64_t out : {1, 8, 64}) {
      GraphMaker m;
      m.Out(TrainedConv(m, m.In("x", x), x[1], out, 2, false, false));
      int whole[3] = {};
      for (int i = 0; i < 3; ++i) {
        SetNumThreads(i + 1);
        whole[i] = RunGraph(m, Mode(FusionMode::kAuto)).Count("ConvBatchNormTraining");
      }
      SetNumThreads(0);
      EXPECT_TRUE(whole[1] == whole[0] && whole[2] == whole[0]) << ShapeText(x) << " to " << out;
    }
  }
}

TEST(ConvBatchNorm, WinogradIsWorthMore) {
  for (const int64_t kernel : {3, 5, 7}) {
    GraphMaker m;
    const ValueId v = m.Op("Conv", {m.In("x", {2, 64, 28, 28}), m.Random({64, 64, kernel, kernel})});
    m.Out(m.Op("BatchNormalizationTraining",
               {v, m.Random({64}), m.Random({64}), m.Random({64}), m.Random({64}, 0.5, 2)}));
    const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
    // Whether the 7x7 pays is the judge's to say, and depends on the vectors of the machine.
    if (kernel != 7) {
      EXPECT_EQ(o.Count("ConvBatchNormTraining"), 0);
    }
    const bool told = std::any_of(o.decisions.begin(), o.decisions.end(), [](const plan::Decision& d) {
      return d.verdict == plan::Verdict::kRefuse && d.reason.find("Winograd") != std::string::npos;
    });
    EXPECT_EQ(told, kernel != 7);
  }
}

}  // namespace
}  // namespace opsnn::graph
