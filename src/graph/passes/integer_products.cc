// DequantizeLinear -> MatMul, Gemm or Conv, as quantising exporters write it, becomes the integer product of
// what was dequantised: ((a - za) * sa) x ((b - zb) * sb) = ((a - za) x (b - zb)) * (sa * sb), the product
// exact in s32. Only roundings differ, so the `exact` policy keeps the parts.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "graph/fusion/dequantised.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

class Finder {
 public:
  Finder(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  Status Run() {
    const KnownOps& k = Known();
    if (!k.MatMulInteger || !k.ConvInteger || !k.DequantizeLinear) return OkStatus();
    const NodeId count = r_.num_nodes();
    for (NodeId n = 0; n < count; ++n) {
      const std::optional<QuantisedProduct> p = AsQuantisedProduct(r_, n);
      if (!p) continue;
      ++c_.matches;
      if (p->refusal || !MultipliesBytesFaster()) continue;
      ++c_.effects;
      OPSNN_RETURN_IF_ERROR(Replace(n, *p));
    }
    return OkStatus();
  }

 private:
  // The last of the new nodes answers for the group: the values before it are none of the model's.
  Status Replace(NodeId n, const QuantisedProduct& p) {
    const Node old = g_.nodes[n];
    const ValueId result = old.outputs[0];
    std::vector<NodeId> origins = old.origins;
    for (size_t i = 0; i < 2; ++i) {
      const auto& of = g_.nodes[g_.values[old.inputs[i]].producer].origins;
      origins.insert(origins.end(), of.begin(), of.end());
    }
    const ValueId weights =
        p.transposed_b ? r_.AddConstant(g_.values[p.b.q].name + ":rows", p.transposed_b) : p.b.q;
    const ValueId scale = r_.AddConstant(old.name + ":scale", p.scale);
    const bool conv = old.op == Known().Conv;
    const ValueId bias = p.bias ? r_.AddConstant(old.name + ":bias", p.bias) : kNoValue;
    const bool biased = bias != kNoValue;
    r_.Kill(n);
    const ValueId sums = r_.AddUnsized(result, ":sums", DType::kS32),
                  real = r_.AddUnsized(result, ":real", DType::kF32);
    const NodeId product = r_.AddNode(conv ? Known().ConvInteger : Known().MatMulInteger, old.name,
                                      {p.a.q, weights, p.a.zero, p.b.zero}, {sums});
    if (conv) g_.nodes[product].attrs = old.attrs;
    if (old.op == Known().Gemm) g_.nodes[product].attrs.Set("matrices", int64_t{1});
    const NodeId cast = r_.AddNode(Known().Cast, old.name + "/real", {sums}, {real});
    g_.nodes[cast].attrs.Set("to", int64_t{Info(DType::kF32).onnx});
    const ValueId scaled = biased ? r_.AddUnsized(result, ":scaled", DType::kF32) : result;
    NodeId last = r_.AddNode(Known().Mul, old.name + "/scale", {real, scale}, {scaled});
    if (biased) last = r_.AddNode(Known().Add, old.name + "/bias", {scaled, bias}, {result});
    g_.nodes[last].origins = std::move(origins);
    return OkStatus();
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status IntegerProducts(Graph& g, PassContext& c) { return Finder(g, c).Run(); }

}  // namespace opsnn::graph
