// Conv and a BatchNormalization over the statistics of the batch behind it become ConvBatchNormTraining: the
// statistics come from rows of the convolution that are still in the cache.
#include "graph/call.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "op/advice.h"

namespace opsnn::graph {
namespace {

// (v - mean) * factor + shift: what runs over v once its statistics are known.
Program Normalisation() {
  ProgramBuilder b;
  const SlotId v = b.Input(), mean = b.Input(), factor = b.Input(), shift = b.Input();
  b.Output(b.Ternary(StageOp::kMulAdd, b.Binary(StageOp::kSub, v, mean), factor, shift));
  return std::move(b).Build();
}

bool AreFloats(const Rewriter& r, const Node& n) {
  for (ValueId v : n.inputs) {
    if (v == kNoValue) continue;
    const DType t = r.desc(v).dtype;
    if (t != DType::kF32 && !IsHalf(t)) return false;
  }
  return true;
}

// The convolution whose result this normalisation alone reads, else -1.
NodeId ConvBefore(const Rewriter& r, const Graph& g, const Node& norm) {
  constexpr size_t kOperands = 5;
  if (norm.inputs.size() != kOperands || !AreFloats(r, norm)) return -1;
  const NodeId conv = r.Producer(norm.inputs[0], Known().Conv);
  return conv >= 0 && r.SingleUse(norm.inputs[0]) && AreFloats(r, g.nodes[conv]) ? conv : -1;
}

// Both forms read v again to normalise it, so that is a full operand of either; the parts read it once more
// for the statistics.
bool Decide(Graph& g, const PassContext& c, NodeId conv, NodeId norm, const Program& apply) {
  auto e = AsContraction(g, conv, c.record);
  if (!e) return false;
  if (c.record) e->chain = ChainName(g, conv, {norm});
  e->tail = &apply;
  e->full_operands = 1;
  e->threads = 1;  // sums in another order than those of the parts: results must not follow the thread count
  const Node& n = g.nodes[norm];
  for (size_t i = 1; i < n.inputs.size(); ++i)
    e->small_operand_bytes += static_cast<int64_t>(StoredBytes(g.values[n.inputs[i]].desc));
  return Judge(g, c, *e);
}

// Winograd's algorithm has no rows to gather statistics from; where it pays it gains more than joining does.
bool RunsByWinograd(const Graph& g, const PassContext& c, const Node& conv) {
  const op::TensorDesc& w = g.values[conv.inputs[1]].desc;
  if (c.fusion == FusionMode::kForce || !w.constant || !w.IsContiguous()) return false;
  const bool square = w.dims.rank() == 4 && w.dims[2] == w.dims[3];
  return square && op::AdviceOf(*conv.op).winograd_tile(g.values[conv.inputs[0]].desc, w, conv.attrs) != 0;
}

}  // namespace

Status ConvBatchNorm(Graph& g, PassContext& c) {
  if (!Known().ConvBatchNormTraining) return OkStatus();
  Rewriter r(g);
  const Program apply = Normalisation();
  const NodeId count = r.num_nodes();
  for (NodeId n = 0; n < count; ++n) {
    if (!r.Is(n, Known().BatchNormalizationTraining)) continue;
    const NodeId conv = ConvBefore(r, g, g.nodes[n]);
    if (conv < 0 || NumElements(r.desc(g.nodes[n].outputs[0]).dims) == 0) continue;
    ++c.matches;
    if (RunsByWinograd(g, c, g.nodes[conv])) {
      Refuse(g, c, ChainName(g, conv, {n}), n, r.desc(g.nodes[conv].inputs[0]).dtype,
             "the convolution alone runs by Winograd's algorithm, which gains more than one read less");
      continue;
    }
    if (!Decide(g, c, conv, n, apply)) continue;
    ++c.effects;
    const Node &first = g.nodes[conv], &norm = g.nodes[n];
    std::vector<ValueId> inputs = {first.inputs[0], first.inputs[1]};
    inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    if (first.inputs.size() > 2 && first.inputs[2] != kNoValue) inputs.push_back(first.inputs[2]);
    op::Attrs attrs = first.attrs.get();
    attrs.Erase("im2col");  // not an attribute of the operator
    for (const char* name : {"epsilon", "momentum"})
      if (norm.attrs.Has(name)) attrs.Set(name, norm.attrs.get().all().at(name));
    r.Replace(n, Known().ConvBatchNormTraining, std::move(inputs), std::move(attrs), {conv, n});
  }
  return OkStatus();
}

}  // namespace opsnn::graph
