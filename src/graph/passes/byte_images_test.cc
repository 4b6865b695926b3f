// Images of bytes in blocks of channels: convolutions that make bytes, depthwise ones, sums and max pools.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/graph_tester.h"
#include "isa/tier.h"

namespace opsnn::graph {
namespace {

constexpr int64_t kFloat = 1;  // ONNX number of the type

SessionOptions Options(FusionMode fusion, NumericsPolicy policy) {
  SessionOptions o = Mode(fusion);
  o.policy = policy;
  return o;
}

struct Conv {
  int64_t in, out, kernel = 1, stride = 1, group = 1;
  DType x = DType::kU8, y = DType::kU8;
};

// ConvInteger and what makes bytes of its sums.
ValueId AddConv(GraphMaker& m, ValueId x, const Conv& c, const char* activation = "") {
  const int64_t pad = c.kernel / 2;
  const ValueId w = m.Random({c.out, c.in / c.group, c.kernel, c.kernel}, -128, 127, DType::kS8);
  const ValueId sums = m.Op("ConvInteger", {x, w, m.Random({}, 0, 100, c.x)},
                            {{"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                             {"strides", std::vector<int64_t>{c.stride, c.stride}},
                             {"group", c.group}});
  ValueId y = m.Op("Mul", {m.Op("Cast", {sums}, {{"to", kFloat}}), m.Random({c.out, 1, 1}, 0.001, 0.01)});
  y = m.Op("Add", {y, m.Random({1, c.out, 1, 1}, -9, 9)});
  if (*activation) y = m.Op(activation, {y});
  return m.Op("QuantizeLinear", {y, m.Scalar(0.37f), m.Random({}, 0, 100, c.y)});
}

int Blocked(const Outcome& o) {
  int n = 0;
  for (const Node& node : o.prepared->graph().nodes)
    for (ValueId v : node.outputs) {
      if (node.dead || v == kNoValue) continue;
      const op::TensorDesc& d = o.prepared->graph().values[v].desc;
      n += SizeOf(d.dtype) == 1 && d.layout.format == Format::kNC1HWC0 && node.op->name != "TransData";
    }
  return n;
}

// Fused in blocks against node by node in the model's order: all the same bits, with any number of threads.
void ExpectSameBits(GraphMaker& m, int blocked, const std::string& what) {
  for (const NumericsPolicy policy : {NumericsPolicy::kExact, NumericsPolicy::kExcess}) {
    const Outcome apart = RunGraph(m, Options(FusionMode::kOff, policy));
    const Outcome fused = RunGraph(m, Options(FusionMode::kForce, policy));
    EXPECT_EQ(fused.outputs, apart.outputs) << what;
    if (isa::HasVnni()) {
      EXPECT_EQ(Blocked(fused), blocked) << what;
    }
    const ScopedThreadLimit one(1);
    EXPECT_EQ(RunGraph(m, Options(FusionMode::kForce, policy)).outputs, fused.outputs) << what;
  }
}

TEST(ByteImages, AChainOfConvolutions) {
  const DType types[] = {DType::kU8, DType::kS8};
  for (int i = 0; i < 12; ++i) {
    GraphMaker m;
    const DType t = types[i & 1], u = types[i / 2 & 1];
    const int64_t c = 40 + i * 7, size = 5 + i * 3;
    ValueId y =
        AddConv(m, m.In("x", {2, 3, size, size + 2}, DType::kU8), {3, c, 3, 1 + i % 2, 1, DType::kU8, t});
    y = AddConv(m, y, {c, c, 3, 1 + i / 4 % 2, c, t, u}, i % 3 ? "" : "Relu");
    y = AddConv(m, y, {c, 33, 1, 1, 1, u, t});
    y = m.Op("MaxPool", {y}, {{"kernel_shape", std::vector<int64_t>{2, 2}}});
    m.Out(AddConv(m, y, {33, 24, 3, 1, 1, t, DType::kU8}));
    ExpectSameBits(m, 5, StrFormat("case %d", i));
  }
}

// What stands in for the chain is left as it was: channels in groups, zero points of weights, scales that are
// fed, results in f32.
TEST(ByteImages, OthersStayAsTheyWere) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 32, 9, 9}, DType::kU8);
  m.Out(AddConv(m, x, {32, 64, 3, 1, 2}));
  const ValueId sums =
      m.Op("ConvInteger", {x, m.Random({8, 32, 1, 1}, -9, 9, DType::kS8), m.Random({}, 0, 9, DType::kU8),
                           m.Random({8}, -9, 9, DType::kS8)});
  m.Out(m.Op("QuantizeLinear",
             {m.Op("Cast", {sums}, {{"to", kFloat}}), m.Scalar(9), m.Random({}, 0, 9, DType::kU8)}));
  const ValueId plain = m.Op("ConvInteger", {x, m.Random({8, 32, 1, 1}, -9, 9, DType::kS8)});
  m.Out(m.Op("Mul", {m.Op("Cast", {plain}, {{"to", kFloat}}), m.In("s", {})}));
  ExpectSameBits(m, 0, "");
}

// As quantising exporters write it: residual sums and pools between what is dequantised and quantised again.
GraphMaker Residual(int64_t size, bool pool) {
  GraphMaker m;
  const ValueId s = m.Scalar(0.05f), z = m.Const(HostTensor::From<uint8_t>({}, {120}));
  const auto real = [&](ValueId q) { return m.Op("DequantizeLinear", {q, s, z}); };
  const auto bytes = [&](ValueId v) { return m.Op("QuantizeLinear", {v, s, z}); };
  const auto conv = [&](ValueId v, int64_t in, int64_t out, int64_t k) {
    const ValueId w =
        m.Op("DequantizeLinear", {m.Random({out, in, k, k}, -128, 127, DType::kS8), m.Scalar(0.004f)});
    return bytes(m.Op("Conv", {real(v), w, m.Random({out})}, {{"pads", std::vector<int64_t>(4, k / 2)}}));
  };
  ValueId y = conv(bytes(m.In("x", {1, 3, size, size})), 3, 40, 3);
  if (pool) {
    y = bytes(m.Op("MaxPool", {real(y)},
                   {{"kernel_shape", std::vector<int64_t>{3, 3}},
                    {"strides", std::vector<int64_t>{2, 2}},
                    {"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
  }
  const ValueId a = conv(y, 40, 40, 3);
  m.Out(conv(bytes(m.Op("Add", {real(a), real(y)})), 40, 24, 1));
  return m;
}

TEST(ByteImages, ResidualSumsAndPools) {
  for (const bool pool : {false, true}) {
    GraphMaker m = Residual(23, pool);
    const Outcome apart = RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExcess));
    const Outcome fused = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExcess));
    if (isa::HasVnni()) {
      EXPECT_EQ(Blocked(fused), 4 + pool);
      EXPECT_EQ(fused.Count("DequantizeLinear"), 0);
      EXPECT_EQ(fused.Count("QuantizeLinear"), 1);  // of x
    }
    double most = 0;
    for (size_t i = 0; i < apart.outputs[0].size(); ++i)
      most = std::max(most, std::fabs(apart.outputs[0][i] - fused.outputs[0][i]));
    EXPECT_LE(most, 3);  // ties of what stands before the last layer
    GraphMaker kept = Residual(23, pool);
    EXPECT_EQ(RunGraph(kept, Options(FusionMode::kForce, NumericsPolicy::kExact)).outputs,
              RunGraph(kept, Options(FusionMode::kOff, NumericsPolicy::kExact)).outputs);
  }
}

// A max pool moves in front of DequantizeLinear, and what is quantised again as it was is what it was.
TEST(ByteImages, PoolsOnBytes) {
  for (const bool same : {true, false}) {
    for (const int64_t dilation : {1, 2}) {
      GraphMaker m;
      const ValueId s = m.Scalar(0.3f), z = m.Const(HostTensor::From<int8_t>({}, {-7}));
      const ValueId x = m.Op("DequantizeLinear", {m.In("x", {2, 5, 8, 9}, DType::kS8), s, z});
      const ValueId y = m.Op("MaxPool", {x},
                             {{"kernel_shape", std::vector<int64_t>{2, 2}},
                              {"pads", std::vector<int64_t>{1, 0, 0, 1}},
                              {"dilations", std::vector<int64_t>{dilation, dilation}}});
      m.Out(m.Op("Relu", {m.Op("DequantizeLinear",
                               {m.Op("QuantizeLinear", {y, same ? s : m.Scalar(0.31f), z}), s, z})}));
      m.Out(y);
      const Outcome fused = RunGraph(m, Options(FusionMode::kForce, NumericsPolicy::kExact));
      EXPECT_EQ(fused.outputs, RunGraph(m, Options(FusionMode::kOff, NumericsPolicy::kExact)).outputs);
      EXPECT_EQ(fused.Effects("byte_pools"), dilation == 1 ? 1 + same : 0);
      EXPECT_EQ(fused.outputs.size(), 2u);
    }
  }
}

}  // namespace
}  // namespace opsnn::graph
