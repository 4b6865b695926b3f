#include <algorithm>
#include <string>
#include <vector>

#include "graph/fusion/chain_builder.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// The channels of one block: a result that fits in it wastes the fewest lanes as a pointwise convolution.
constexpr int64_t kOneBlock = 16;

bool AllEqual(const std::vector<int64_t>& v, int64_t want) {
  return std::all_of(v.begin(), v.end(), [&](int64_t x) { return x == want; });
}

// The size b of non-overlapping b x b tiles that this transposed convolution writes, or 0 if it is another
// kind.
int64_t TileSize(const Rewriter& r, const Node& n) {
  if (n.dead || n.tail || n.op != Known().ConvTranspose || n.inputs.size() < 2 || n.outputs.size() != 1 ||
      n.inputs[1] == kNoValue)
    return 0;
  const op::TensorDesc& w = r.desc(n.inputs[1]);
  if (!w.constant || w.dtype != DType::kF32 || w.dims.rank() != 4 || w.dims[2] != w.dims[3] ||
      w.constant->size() == 0)
    return 0;
  const int64_t b = w.dims[2];
  const std::vector<int64_t> strides = n.attrs.Ints("strides");
  if (b < 2 || strides.empty() || !AllEqual(strides, b) || n.attrs.Int("group", 1) != 1) return 0;
  if (!AllEqual(n.attrs.Ints("pads"), 0) || !AllEqual(n.attrs.Ints("output_padding"), 0) ||
      !AllEqual(n.attrs.Ints("dilations"), 1) || n.attrs.Has("output_shape"))
    return 0;
  const std::string pad = n.attrs.String("auto_pad", "NOTSET");
  if (pad != "NOTSET" && pad != "VALID") return 0;
  if (n.inputs.size() > 2 && n.inputs[2] != kNoValue && !IsBias(r.desc(n.inputs[2]), w.dims[1])) return 0;
  return w.dims[1] * b * b <= kOneBlock ? b : 0;
}

// (C, M, b, b) of the transposed convolution -> (M * b * b, C, 1, 1) of the pointwise one.
ConstTensor PointwiseWeights(const HostTensor& w) {
  const int64_t c = w.dims()[0], taps = w.size() / std::max<int64_t>(c, 1);
  auto out = std::make_shared<HostTensor>(DType::kF32, Dims{taps, c, 1, 1});
  if (!out->ok()) return nullptr;
  for (int64_t i = 0; i < c; ++i)
    for (int64_t t = 0; t < taps; ++t) out->as<float>()[t * c + i] = w.as<float>()[i * taps + t];
  return out;
}

ConstTensor RepeatedBias(const HostTensor& bias, int64_t times) {
  std::vector<float> v;
  for (int64_t i = 0; i < bias.size(); ++i) v.insert(v.end(), times, bias.as<float>()[i]);
  return HostTensor::From<float>({static_cast<int64_t>(v.size())}, v);
}

// A pointwise node with one operand that is no scalar constant.
bool IsUnary(const Rewriter& r, const Graph& g, NodeId n, ValueId x) {
  const Node& node = g.nodes[n];
  if (node.dead || node.tail || !node.op->program || node.outputs.size() != 1) return false;
  for (ValueId v : node.inputs)
    if (v != kNoValue && v != x && (!r.Scalar(v) || r.desc(v).dims.rank() > 4)) return false;
  return r.desc(node.outputs[0]).dtype == DType::kF32;
}

class TileRewriter {
 public:
  TileRewriter(Graph& g, PassContext& c)
      : r_(g), g_(g), c_(c), conv_(Known().Conv), to_space_(Known().DepthToSpace) {}

  Status Run() {
    if (!conv_ || !to_space_) return OkStatus();
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) {
      const int64_t b = TileSize(r_, g_.nodes[n]);
      if (b == 0) continue;
      ++c_.matches, ++c_.effects;
      OPSNN_RETURN_IF_ERROR(Split(n, b));
    }
    return OkStatus();
  }

 private:
  ValueId Middle(ValueId like) {
    Value v;
    v.name = g_.values[like].name + ":depth";
    v.desc.dtype = DType::kF32;
    v.desc.known_rank = false;
    return r_.AddValue(std::move(v));
  }

  // The rearranging node answers for the whole group: the values before it are none of the model's.
  Status Split(NodeId n, int64_t b) {
    const Node old = g_.nodes[n];
    const ConstTensor weights = PointwiseWeights(*r_.desc(old.inputs[1]).constant);
    if (!weights) return Errorf(Code::kRuntime, "no memory for rearranged weights.");
    Node conv;
    conv.name = old.name;
    conv.op = conv_;
    conv.inputs = {old.inputs[0], r_.AddConstant(g_.values[old.inputs[1]].name + ":pointwise", weights)};
    if (old.inputs.size() > 2 && old.inputs[2] != kNoValue)
      conv.inputs.push_back(r_.AddConstant(g_.values[old.inputs[2]].name + ":pointwise",
                                           RepeatedBias(*r_.desc(old.inputs[2]).constant, b * b)));
    conv.num_op_inputs = static_cast<int>(conv.inputs.size());
    conv.outputs = {Middle(old.outputs[0])};
    Node space;
    space.name = old.name + "/tiles";
    space.op = to_space_;
    space.attrs.Set("blocksize", b);
    space.attrs.Set("mode", std::string("CRD"));
    space.inputs = conv.outputs;
    space.num_op_inputs = 1;
    space.outputs = old.outputs;
    space.origins = old.origins;
    r_.Kill(n);
    r_.AddNode(std::move(conv));
    Sink(r_.AddNode(std::move(space)));
    return OkStatus();
  }

  // Pointwise nodes behind the rearranging node go before it, where they can join the convolution.
  void Sink(NodeId space) {
    while (r_.SingleUse(g_.nodes[space].outputs[0])) {
      const ValueId tiles = g_.nodes[space].outputs[0], depth = g_.nodes[space].inputs[0];
      const NodeId n = r_.Users(tiles)[0];
      if (!IsUnary(r_, g_, n, tiles)) return;
      const ValueId result = g_.nodes[n].outputs[0], moved = Middle(result);
      for (size_t i = 0; i < g_.nodes[n].inputs.size(); ++i)
        if (g_.nodes[n].inputs[i] == tiles) r_.SetInput(n, i, depth);
      g_.nodes[n].outputs[0] = moved;
      g_.values[moved].producer = n;
      r_.SetInput(space, 0, moved);
      g_.values[tiles].producer = -1;
      g_.nodes[space].outputs[0] = result;
      g_.values[result].producer = space;
      auto& origins = g_.nodes[n].origins;
      g_.nodes[space].origins.insert(g_.nodes[space].origins.end(), origins.begin(), origins.end());
      origins.clear();
    }
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  const op::OpDef* conv_;
  const op::OpDef* to_space_;
};

}  // namespace

Status TransposedConv(Graph& g, PassContext& c) { return TileRewriter(g, c).Run(); }

}  // namespace opsnn::graph
