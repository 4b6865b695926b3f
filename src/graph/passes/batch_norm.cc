#include <cmath>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// Scale and shift of each channel as constants that broadcast over images, worked out as the operator does.
struct Factors {
  ConstTensor scale, shift;
};
std::optional<Factors> FactorsOf(const Rewriter& r, const Node& n) {
  const op::TensorDesc& x = r.desc(n.inputs[0]);
  if (n.inputs.size() != 5 || !x.known_rank || x.dims.rank() < 2 || x.dtype != DType::kF32)
    return std::nullopt;
  const float* p[4];
  for (size_t i = 0; i < 4; ++i) {
    if (n.inputs[i + 1] == kNoValue) return std::nullopt;
    const ConstTensor& t = r.desc(n.inputs[i + 1]).constant;
    if (!t || t->dtype() != DType::kF32) return std::nullopt;
    p[i] = t->as<float>();
  }
  const int64_t channels = r.desc(n.inputs[1]).constant->size();
  if (x.dims[1] != channels) return std::nullopt;
  for (size_t i = 2; i < 5; ++i)
    if (r.desc(n.inputs[i]).constant->size() != channels) return std::nullopt;
  const double epsilon = n.attrs.Float("epsilon", 1e-5);
  std::vector<float> scale, shift;
  for (int64_t c = 0; c < channels; ++c) {
    const double factor = p[0][c] / std::sqrt(static_cast<double>(p[3][c]) + epsilon);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(p[1][c] - p[2][c] * factor));
  }
  Dims dims = Dims::Filled(x.dims.rank() - 1, 1);
  dims[0] = channels;
  return Factors{HostTensor::From<float>(dims, scale), HostTensor::From<float>(dims, shift)};
}

}  // namespace

Status BatchNorm(Graph& g, PassContext& c) {
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId id = 0; id < count; ++id) {
    if (!r.Is(id, Known().BatchNormalization) || g.nodes[id].outputs.size() != 1) continue;
    const ValueId y = g.nodes[id].outputs[0];
    if (!r.SingleUse(y) || !g.nodes[r.Users(y)[0]].op->program) continue;
    ++c.matches;
    const auto factors = FactorsOf(r, g.nodes[id]);
    if (!factors || !factors->scale || !factors->shift) continue;
    ++c.effects;
    const std::string name = g.values[y].name;
    Value middle;
    middle.name = name + ":scaled";
    middle.desc = r.desc(y);
    Node mul;
    mul.name = g.nodes[id].name + "/scale";
    mul.op = Known().Mul;
    mul.inputs = {g.nodes[id].inputs[0], r.AddConstant(name + ":scale", factors->scale)};
    mul.num_op_inputs = 2;
    mul.outputs = {r.AddValue(std::move(middle))};
    mul.origins = g.nodes[id].origins;
    const ValueId scaled = mul.outputs[0];
    r.AddNode(std::move(mul));
    r.Replace(id, Known().Add, {scaled, r.AddConstant(name + ":shift", factors->shift)}, {}, {id});
  }
  return OkStatus();
}

}  // namespace opsnn::graph
