#include <algorithm>

#include "graph/call.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/dequantised.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/fusion/storing.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/plan_template.h"

namespace opsnn::graph {
namespace {

// An operand of a convolution's tail must be as large as the result or constant over each image's pixels.
bool FitsConvTail(const Dims& d, const Dims& out) {
  if (d == out) return true;
  for (int i = 0; i < d.rank(); ++i) {
    const int axis = out.rank() - d.rank() + i;
    if (axis >= 2 && d[i] != 1) return false;
  }
  return true;
}

// What the f32 kernels load, compute on and store. They accumulate halves in f32.
bool ComputesInF32(DType t) { return t == DType::kF32 || IsHalf(t); }

// May an operand or result of this type be part of a tail behind a result of type `product`? The kernels of
// f64 and s32 run any program on their blocks.
bool FitsTail(DType t, DType product) {
  return ComputesInF32(t) || (!ComputesInF32(product) && (t == DType::kF64 || t == DType::kS32));
}

// Cast from s32 to a float type: where a chain behind sums of integers begins. Null for other nodes. (bf16
// would be rounded twice on the way through f32.)
std::optional<op::BoundProgram> LeavesIntegers(const Graph& g, const Node& n) {
  if (n.dead || n.tail || n.op != Known().Cast || n.outputs.size() != 1 || n.outputs[0] == kNoValue)
    return std::nullopt;
  const DType from = g.values[n.inputs[0]].desc.dtype, to = g.values[n.outputs[0]].desc.dtype;
  if (from != DType::kS32 || !IsFloat(to) || to == DType::kBF16) return std::nullopt;
  op::BoundProgram bound;
  ProgramBuilder b;
  b.Output(b.Convert(b.Input(ComputeType::kS32), ComputeTypeOf(to)));
  bound.program = std::move(b).Build();
  bound.operands = {0};
  return bound;
}

Answer AnswerOf(const Graph& g) {
  const plan::Decision& d = g.decisions.back();
  return !d.regions.empty() ? Answer::kOther : plan::Fuses(d) ? Answer::kYes : Answer::kNo;
}

// What the judge is asked about a chain behind a product: by values, whatever their sizes.
struct TailEdge {
  ValueId product, output;
  int casts = 0;
  std::vector<ValueId> inputs;  // of the chain; the first is the product
  std::shared_ptr<const op::FusedTail> tail;

  void Describe(const Graph& g, plan::ContractionEdge* e) const {
    const op::TensorDesc& out = g.values[output].desc;
    e->out_dtype = out.dtype;
    e->cast_elements += casts * NumElements(out.dims);
    e->tail = &tail->program;
    for (size_t i = 1; i < inputs.size(); ++i) {
      const op::TensorDesc& d = g.values[inputs[i]].desc;
      if (d.dims == out.dims) {
        ++e->full_operands;
      } else {
        e->small_operand_bytes += static_cast<int64_t>(StoredBytes(d));
      }
    }
  }

  Answer Ask(const Graph& g, const PassContext& c) const {
    const NodeId seed = g.values[product].producer;
    auto e = seed < 0 ? std::nullopt : AsContraction(g, seed, false);
    if (!e) return Answer::kOther;
    Describe(g, &*e);
    return AskJudge(c, *std::move(e));
  }
};

class Fuser {
 public:
  Fuser(Graph& g, PassContext& c) : r_(g), g_(g), c_(c), programs_(g), storing_(r_) {}

  void Run() {
    // From the end: where two products meet in an addition, the later one takes it and finds the other's
    // result ready.
    for (NodeId n = r_.num_nodes() - 1; n >= 0; --n) {
      const Node& node = g_.nodes[n];
      if (node.dead || node.tail || !node.op->takes_tail || !OneImage(node)) continue;
      if (NumElements(r_.desc(node.outputs[0]).dims) == 0) continue;
      RefuseDequantised(n);
      Try(n);
    }
  }

 private:
  // Is output 0 the result that a tail continues? Running statistics beside it are none of its business.
  static bool OneImage(const Node& n) {
    return n.outputs.size() == 1 || n.op == Known().ConvBatchNormTraining;
  }

  bool Eligible(NodeId seed, NodeId n) {
    if (const auto* s = storing_.Find(n)) return MayStore(seed, s->node);
    const Node& node = g_.nodes[n];
    if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return false;
    const op::TensorDesc& out = r_.desc(g_.nodes[seed].outputs[0]);
    const op::TensorDesc& y = r_.desc(node.outputs[0]);
    if (y.dims != out.dims || !FitsTail(y.dtype, out.dtype)) return false;
    if (!programs_.Fusable(n) && !(out.dtype == DType::kS32 && LeavesIntegers(g_, node))) return false;
    const op::OpDef* op = g_.nodes[seed].op;
    const bool conv = op->layout == op::LayoutRule::kPrefers || op == Known().ConvInteger;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      if (v == kNoValue) return true;
      const op::TensorDesc& d = r_.desc(v);
      return FitsTail(d.dtype, out.dtype) && (!conv || FitsConvTail(d.dims, out.dims));
    });
  }

  // Products that compute in f32 or on bytes store whatever their chain ends in; blocks of channels are as
  // many as a type's vector holds, so that a convolution writes the type that it computes in.
  bool MayStore(NodeId seed, const Node& node) const {
    const op::OpDef* op = g_.nodes[seed].op;
    const op::TensorDesc& out = r_.desc(g_.nodes[seed].outputs[0]);
    const bool stores = op == Known().MatMulInteger || op == Known().ConvInteger ||
                        ((op == Known().MatMul || op == Known().Gemm) && ComputesInF32(out.dtype));
    const bool conv = op == Known().ConvInteger;
    return stores && r_.desc(node.outputs[0]).dims == out.dims &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
             return v == kNoValue || !conv || FitsConvTail(r_.desc(v).dims, out.dims);
           });
  }

  ChainBuilder Start(NodeId seed) const {
    ChainBuilder b(g_, c_.policy);
    const ValueId product = g_.nodes[seed].outputs[0];
    b.AddInput(product);
    // The kernel hands its tail the f32 sums; under the exact policy the chain sees what would be stored.
    if (c_.policy == NumericsPolicy::kExact) b.RoundAsStored(product);
    return b;
  }

  // Operands that are still dequantised here: the integer_products pass left them, and no product converts
  // while it loads or packs.
  void RefuseDequantised(NodeId n) {
    if (!c_.record) return;
    for (size_t i = 0; i < 2; ++i) {
      const NodeId p = r_.Producer(g_.nodes[n].inputs[i], Known().DequantizeLinear);
      if (p < 0) continue;
      Refuse(g_, c_, ChainName(g_, p, {n}), n, r_.desc(g_.nodes[n].inputs[i]).dtype,
             std::string("no integer product: ") + WhyNotIntegers(n) +
                 "; no kernel scales integers while it packs them: products load f32, f16 and bf16");
    }
  }

  const char* WhyNotIntegers(NodeId n) const {
    if (c_.policy == NumericsPolicy::kExact)
      return "under the exact policy dequantised values keep their rounding";
    if (!MultipliesBytesFaster()) return "this CPU multiplies bytes no faster than floats";
    const auto p = AsQuantisedProduct(r_, n);
    if (!p) return "there is none of this operator";
    if (p->b.node < 0 && r_.desc(g_.nodes[n].inputs[1]).constant)
      return "the weights are floats, their scales vary along the sums, or sums of that length go beyond 32 "
             "bits";
    return p->refusal ? p->refusal : "the pass integer_products is off";
  }

  bool Add(ChainBuilder& b, NodeId n) {
    if (const auto* s = storing_.Find(n)) return b.AddNode(s->node, s->program);
    if (const auto leaves = LeavesIntegers(g_, g_.nodes[n])) return b.AddNode(g_.nodes[n], *leaves);
    return b.AddNode(g_.nodes[n], *programs_.Fusable(n));
  }

  void Try(NodeId seed) {
    const ValueId product = g_.nodes[seed].outputs[0];
    Region region;
    region.output = product;
    ChainBuilder chain = Start(seed);
    size_t added = 0;
    if (AnyReader(r_, product, [&](NodeId n) { return Eligible(seed, n); }))
      region = GrowRegion(r_, seed, [&](NodeId n) { return Eligible(seed, n) && Add(chain, n) && ++added; });
    if (region.nodes.empty()) {
      RecordBoundary(r_, c_, programs_, seed, {}, product);
      return;
    }
    ++c_.matches;
    if (added != region.nodes.size()) {  // the last that joined led nowhere
      chain = Start(seed);
      for (NodeId n : region.nodes) Add(chain, n);
    }
    auto tail = std::make_shared<op::FusedTail>();
    tail->program = chain.Build(region.output);
    const bool f32 = ComputesInF32(r_.desc(product).dtype);
    // Quantised values are as exact as their ties: the chain computes what its nodes would one by one.
    if (!IsFloat(r_.desc(region.output).dtype)) tail->program.exact = true;
    if (f32 ? !tail->program.IsF32Pointwise() : tail->program.HasRowReduction()) return;
    if (!Decide(seed, region, chain, tail)) return;
    tail->regions = g_.decisions.back().regions;
    RecordBoundary(r_, c_, programs_, seed, region.nodes, region.output);
    ++c_.effects;
    Apply(seed, region, chain, std::move(tail));
  }

  bool Decide(NodeId seed, const Region& region, const ChainBuilder& chain,
              const std::shared_ptr<const op::FusedTail>& tail) {
    auto e = AsContraction(g_, seed, c_.record);
    if (!e) return false;
    TailEdge t{g_.nodes[seed].outputs[0], region.output, 0, chain.inputs(), tail};
    for (NodeId n : region.nodes) t.casts += g_.nodes[n].op == Known().Cast || storing_.Find(n);
    if (c_.record) e->chain = ChainName(g_, seed, region.nodes);
    t.Describe(g_, &*e);
    const bool fuses = Judge(g_, c_, *e);
    if (c_.questions)
      c_.questions->Keep([t = std::move(t)](const Graph& g, const PassContext& c) { return t.Ask(g, c); },
                         AnswerOf(g_));
    return fuses;
  }

  void Apply(NodeId seed, const Region& region, const ChainBuilder& chain,
             std::shared_ptr<const op::FusedTail> tail) {
    for (NodeId n : region.nodes) r_.Absorb(seed, n);
    for (ValueId v : chain.inputs()) storing_.Use(v);
    Node& node = g_.nodes[seed];
    node.num_op_inputs = static_cast<int>(node.inputs.size());
    node.tail = std::move(tail);
    for (size_t i = 1; i < chain.inputs().size(); ++i) {
      g_.nodes[seed].inputs.push_back(kNoValue);
      r_.SetInput(seed, g_.nodes[seed].inputs.size() - 1, chain.inputs()[i]);
    }
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
  NodePrograms programs_;
  StoringNodes storing_;
};

}  // namespace

Status EpilogueFusion(Graph& g, PassContext& c) {
  Fuser(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
