#include "graph/fusion/moves.h"

#include <string>
#include <utility>
#include <vector>

#include "base/knobs.h"
#include "graph/fusion/chain_builder.h"
#include "graph/fusion/edges.h"
#include "graph/fusion/region.h"
#include "graph/ir/known_ops.h"
#include "op/declaration.h"
#include "plan/judge.h"

namespace opsnn::graph {
namespace {

struct Recorder {
  const Graph& imported;
  const device::DeviceProfile& profile;
  Knobs knobs;
  Graph& g;

  plan::ConversionEdge Conversion(const Node& n, ValueId from, ValueId to) const {
    plan::ConversionEdge e;
    e.where = n.name;
    e.elements = NumElements(g.values[from].desc.dims);
    e.shape = ShapeText(g.values[from].desc.dims);
    e.from = g.values[from].desc.dtype;
    e.to = g.values[to].desc.dtype;
    return e;
  }

  // Shows what is done, whatever the judge says of it.
  void Record(plan::Decision d, plan::Verdict done, const char* why) const {
    if (d.verdict != done)
      d.reason = StrFormat("%s; the judge would %s: %s", why, Name(d.verdict), d.reason.c_str());
    d.verdict = done;
    g.decisions.push_back(std::move(d));
  }

  // The transposes that the pass gave up for transA and transB, which stand in this order in the origins.
  void ReadThrough(const Node& n) const {
    std::vector<size_t> transposed;
    if (n.attrs.Int("transA", 0) != 0) transposed.push_back(0);
    if (n.attrs.Int("transB", 0) != 0) transposed.push_back(1);
    size_t next = 0;
    for (const NodeId origin : n.origins) {
      if (origin < 0 || static_cast<size_t>(origin) >= imported.nodes.size()) continue;
      const Node& was = imported.nodes[static_cast<size_t>(origin)];
      if (was.op != Known().Transpose || next == transposed.size()) continue;
      const ValueId operand = n.inputs[transposed[next++]];
      plan::ConversionEdge e = Conversion(n, operand, operand);
      e.chain = "transpose+" + n.op->name;
      e.where = was.name;
      Record(plan::JudgeConversion(e, profile, knobs), plan::Verdict::kFuse,
             "panels are packed from either order at the same speed");
    }
  }

  // A transpose that is another name for the same memory: what stands beside it reads or writes that order.
  void InPlace(const Node& n) const {
    if (n.origins.size() != 1) return;  // joined with a cast, which has a decision of its own
    plan::ConversionEdge e = Conversion(n, n.inputs[0], n.outputs[0]);
    e.chain = "transpose";
    Record(plan::JudgeConversion(e, profile, knobs), plan::Verdict::kFuse,
           "what stands beside it works in that order");
  }

  void StaysApart(const Node& n) const {
    plan::ConversionEdge e = Conversion(n, n.inputs[0], n.outputs[0]);
    const bool transpose = n.op == Known().Transpose;
    e.chain = transpose ? "transpose" : std::string("cast ") + Name(e.from) + " to " + Name(e.to);
    e.changes_layout = transpose;
    plan::Decision d = plan::JudgeConversion(e, profile, knobs);
    // The passes that might have found it a place did not run.
    if (knobs.fusion == FusionMode::kOff) return g.decisions.push_back(std::move(d));
    Record(std::move(d), plan::Verdict::kRefuse,
           transpose ? "no kernel beside it walks in another order"
                     : "no kernel beside it converts as it loads");
  }

  // Row reductions and pools with pointwise nodes behind them, which no pass looks at.
  void TakesNoChain(const Node& n) const {
    if (!n.op->declaration || n.op->takes_tail || n.op == Known().Program) return;
    const std::string_view family = n.op->declaration->family;
    const bool rows = family == "softmax" || family == "norm" || family == "reduce";
    if (!rows && family != "pooling") return;
    for (const Node& user : g.nodes)
      if (!user.dead && !user.inputs.empty() && !user.outputs.empty() && user.inputs[0] == n.outputs[0])
        TakesNoChain(n, user, rows);
  }

  void TakesNoChain(const Node& n, const Node& user, bool rows) const {
    const bool chain = user.op == Known().Program || IsFusablePointwise(g, user);
    const op::TensorDesc& y = g.values[n.outputs[0]].desc;
    if (!chain || g.values[user.outputs[0]].desc.dims != y.dims) return;
    const double bytes = static_cast<double>(NumElements(y.dims)) * static_cast<double>(SizeOf(y.dtype));
    const auto at = static_cast<NodeId>(&n - g.nodes.data()),
               behind = static_cast<NodeId>(&user - g.nodes.data());
    g.decisions.push_back(plan::RefuseEdge(
        ChainName(g, at, {behind}), user.name, ShapeText(y.dims), y.dtype,
        StrFormat("%s keeps a kernel of its own, which takes no chain behind it; joined, %.2f MiB would be "
                  "neither written nor read back",
                  rows ? "a row reduction" : "a pool", bytes / (1 << 20)),
        profile));
  }

  void Drawn(const Node& n) const {
    const op::TensorDesc& x = g.values[n.inputs[0]].desc;
    plan::RandomEdge e;
    e.chain = "random+mask+scale";
    e.where = n.name, e.shape = ShapeText(x.dims);
    e.elements = NumElements(x.dims);
    e.dtype = x.dtype;
    e.mask_kept = n.outputs.size() > 1 && n.outputs[1] != kNoValue;
    ProgramBuilder b;
    const SlotId mask = b.Input(), value = b.Input(), scale = b.Input();
    b.Output(b.Binary(StageOp::kMul, b.Binary(StageOp::kMul, value, scale), mask));
    const Program apply = std::move(b).Build();
    e.apply = &apply;
    Record(plan::JudgeRandom(e, profile, knobs), plan::Verdict::kFuse, "the operator draws as it writes");
  }
};

}  // namespace

void RecordMoves(const Graph& imported, const device::DeviceProfile& profile, FusionMode fusion, Graph& g) {
  static const op::OpDef* const drawn = op::FindOperator("DropoutTraining");
  Knobs knobs = GetKnobs();
  knobs.fusion = fusion;  // of the model, which beats the setting
  const Recorder record{imported, profile, std::move(knobs), g};
  for (const Node& n : g.nodes) {
    if (n.dead || n.inputs.empty() || n.inputs[0] < 0 || n.outputs.empty() || n.outputs[0] < 0) continue;
    if (!IsKnown(g.values[n.inputs[0]].desc.dims)) continue;  // planned during the run
    if (n.op == drawn) record.Drawn(n);
    if (n.op == Known().MatMul) record.ReadThrough(n);
    record.TakesNoChain(n);
    if (n.tail || (n.op != Known().Transpose && n.op != Known().Cast)) continue;
    if (n.op == Known().Transpose && n.aliasing != Aliasing::kNone) {
      record.InPlace(n);
    } else {
      record.StaysApart(n);
    }
  }
}

}  // namespace opsnn::graph
