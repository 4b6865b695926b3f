// A pointwise chain and the softmax or norm that reads its result become one row program: scale+mask+softmax,
// residual+norm, embedding+add+norm.
#include <optional>

#include "graph/call.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "program/moments.h"

namespace opsnn::graph {
namespace {

using enum StageOp;

struct RowProgram {
  Program program;
  std::vector<ValueId> operands;  // of its inputs 1..
  int row_rank = 0;
};

Program Softmax() {
  ProgramBuilder b;
  const SlotId x = b.Input();
  const SlotId e = b.Unary(kExp, b.Binary(kSub, x, b.Unary(kRowMax, x)));
  b.Output(b.Binary(kMul, e, b.Unary(kReciprocal, b.Unary(kRowSum, e))));
  return std::move(b).Build();
}

// Layer norm, or RMS norm without the mean.
Program Norm(bool centred, double epsilon, bool scale, bool bias) {
  ProgramBuilder b;
  const SlotId x = b.Input(), gamma = scale ? b.Input() : kNoSlot, beta = bias ? b.Input() : kNoSlot;
  RowMoments row{kNoSlot, x, kNoSlot};
  if (centred) {
    row = AddRowMoments(b, x);
  } else {
    row.variance = b.Unary(kRowMean, b.Unary(kSquare, x));
  }
  SlotId y = b.Binary(kMul, row.centred, b.Unary(kRsqrt, b.Unary(kAffine, row.variance, 1, epsilon)));
  if (scale) y = b.Binary(kMul, y, gamma);
  if (bias) y = b.Binary(kAdd, y, beta);
  b.Output(y);
  return std::move(b).Build();
}

class RowFuser {
 public:
  RowFuser(Graph& g, PassContext& c) : r_(g), g_(g), c_(c) {}

  void Run() {
    if (!Known().Program) return;
    for (NodeId n = 0, count = r_.num_nodes(); n < count; ++n)
      if (const auto row = AsRowProgram(n)) Try(n, *row);
  }

 private:
  std::optional<RowProgram> AsRowProgram(NodeId id) const {
    const Node& n = g_.nodes[id];
    if (n.dead || n.tail || n.outputs.size() != 1 || n.inputs.empty() || n.inputs[0] == kNoValue)
      return std::nullopt;
    for (ValueId v : n.inputs)
      if (v != kNoValue && r_.desc(v).dtype != DType::kF32) return std::nullopt;
    const int64_t rank = r_.desc(n.inputs[0]).dims.rank(), given = n.attrs.Int("axis", -1);
    const int64_t row_rank = given < 0 ? -given : rank - given;
    if (rank == 0 || NumElements(r_.desc(n.inputs[0]).dims) == 0) return std::nullopt;
    RowProgram p;
    p.row_rank = static_cast<int>(row_rank);
    if (n.op == Known().Softmax) {
      if (row_rank != 1) return std::nullopt;
      p.program = Softmax();
    } else if (n.op && (n.op == Known().LayerNormalization || n.op == Known().RMSNormalization)) {
      const bool scale = n.inputs.size() > 1 && n.inputs[1] != kNoValue,
                 bias = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
      p.program = Norm(n.op == Known().LayerNormalization, n.attrs.Float("epsilon", 1e-5), scale, bias);
      if (scale) p.operands.push_back(n.inputs[1]);
      if (bias) p.operands.push_back(n.inputs[2]);
    } else {
      return std::nullopt;
    }
    return p;
  }

  void Try(NodeId n, const RowProgram& row) {
    const ValueId x = g_.nodes[n].inputs[0];
    const NodeId p = r_.Producer(x);
    if (p < 0 || !r_.SingleUse(x)) return;
    const Node& head = g_.nodes[p];
    std::vector<ValueId> inputs;
    Program first;
    if (head.op == Known().Program && head.tail && head.attrs.Int("row_rank", 0) == 0) {
      first = head.tail->program;
      inputs = head.inputs;
    } else if (head.op == Known().MatMul) {
      if (MayHoldRows(g_, p, n) && row.row_rank == 1) TryBehindProduct(n, p, row);
      return;
    } else if (IsFusablePointwise(g_, head)) {
      ChainBuilder b(g_, c_.policy);
      if (!b.AddNode(head)) return;
      first = b.Build(x);
      inputs = b.inputs();
    } else {
      return;
    }
    for (ValueId v : inputs)
      if (r_.desc(v).layout != Layout()) return;
    auto joined = Join(first, 0, row.program, 0);
    if (!joined.ok()) return;
    inputs.insert(inputs.end(), row.operands.begin(), row.operands.end());
    ++c_.matches;
    if (!Decide(n, p, row, *joined)) return;
    ++c_.effects;
    Apply(n, p, row.row_rank, std::move(*joined), std::move(inputs));
  }

  // The product then runs in blocks of whole rows, with the row program as a pass over each.
  void TryBehindProduct(NodeId n, NodeId p, const RowProgram& row) {
    const Node& head = g_.nodes[p];
    std::vector<ValueId> tail(head.inputs.begin() + head.num_op_inputs, head.inputs.end());
    Program program = row.program;
    if (head.tail) {
      auto joined = Join(head.tail->program, 0, row.program, 0);
      if (!joined.ok()) return;
      program = std::move(*joined);
    }
    tail.insert(tail.end(), row.operands.begin(), row.operands.end());
    // A block of rows must be one matrix to the tail as well.
    const Dims& out = r_.desc(head.outputs[0]).dims;
    for (ValueId v : tail) {
      const Dims& d = r_.desc(v).dims;
      if (d != out && NumElements(d) != 1 && NumElements(d) != d.back()) return;
    }
    auto e = AsContraction(g_, p);
    if (!e) return;
    e->chain = ChainName(g_, p, {n});
    e->where = g_.nodes[n].name;
    e->tail = &program;
    for (ValueId v : tail) {
      if (r_.desc(v).dims == r_.desc(head.outputs[0]).dims) {
        ++e->full_operands;
      } else {
        e->small_operand_bytes += static_cast<int64_t>(StoredBytes(r_.desc(v)));
      }
    }
    ++c_.matches;
    if (!JudgeRows(g_, c_, *e)) return;
    ++c_.effects;
    auto fused = std::make_shared<op::FusedTail>();
    fused->program = std::move(program);
    fused->regions = g_.decisions.back().regions;
    Node made = head;
    made.inputs.resize(static_cast<size_t>(head.num_op_inputs));
    made.inputs.insert(made.inputs.end(), tail.begin(), tail.end());
    made.tail = std::move(fused);
    made.outputs = g_.nodes[n].outputs;
    made.origins.insert(made.origins.end(), g_.nodes[n].origins.begin(), g_.nodes[n].origins.end());
    r_.Kill(n);
    r_.Kill(p);
    r_.AddNode(std::move(made));
  }

  bool Decide(NodeId n, NodeId head, const RowProgram& row, const Program& joined) {
    const Dims& dims = r_.desc(g_.nodes[n].inputs[0]).dims;
    plan::RowEdge e;
    e.chain = ChainName(g_, head, {n});
    e.where = g_.nodes[n].name;
    e.shape = ShapeText(g_, n);
    e.cols = 1;
    for (int i = dims.rank() - row.row_rank; i < dims.rank(); ++i) e.cols *= dims[i];
    e.rows = NumElements(dims) / e.cols;
    e.program = &joined;
    // Alone, softmax and norms run as templates that hold the row in registers, twice as fast as a joined
    // program where memory is not what they wait for.
    const size_t bytes = 2 * StoredBytes(r_.desc(g_.nodes[n].inputs[0]));
    if (c_.profile->is_host() && c_.fusion == FusionMode::kAuto &&
        static_cast<double>(bytes) <= std::max(c_.profile->l1_bytes(), c_.profile->l2_bytes())) {
      Refuse(g_, c_, e.chain, n, DType::kF32,
             "the intermediate stays in a cache, where the row kernel of its own is faster");
      return false;
    }
    return Judge(g_, c_, e);
  }

  void Apply(NodeId n, NodeId head, int row_rank, Program joined, std::vector<ValueId> inputs) {
    auto tail = std::make_shared<op::FusedTail>();
    tail->program = std::move(joined);
    Node made;
    made.op = Known().Program;
    made.attrs.Set("row_rank", int64_t{row_rank});
    made.num_op_inputs = static_cast<int>(inputs.size());
    made.inputs = std::move(inputs);
    made.tail = std::move(tail);
    r_.ReplaceBoth(head, n, std::move(made));
  }

  Rewriter r_;
  Graph& g_;
  PassContext& c_;
};

}  // namespace

Status RowChain(Graph& g, PassContext& c) {
  RowFuser(g, c).Run();
  return OkStatus();
}

}  // namespace opsnn::graph
