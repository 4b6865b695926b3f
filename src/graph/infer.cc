#include "graph/infer.h"

#include <algorithm>

#include "graph/call.h"
#include "graph/control.h"
#include "graph/ir/known_ops.h"
#include "tensor/limits.h"

namespace opsnn::graph {
namespace {

// Operators that read their input's shape only.
bool ReadsShapeOnly(const op::OpDef& op) { return &op == Known().Shape || &op == Known().Size; }

// By value: bytes of what a folded constant goes back to; 0 for a constant of the model.
using Sources = std::vector<size_t>;

bool Computable(const Graph& g, const Node& n, const InferOptions& o, const Sources& sources,
                size_t* source) {
  size_t in_bytes = 0;
  *source = 0;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    const auto at = n.inputs.begin() + static_cast<ptrdiff_t>(i);
    if (v == kNoValue || std::find(n.inputs.begin(), at, v) != at) continue;
    const op::TensorDesc& d = g.values[v].desc;
    if (ReadsShapeOnly(*n.op) && d.known_rank && IsKnown(d.dims)) continue;
    if (!d.constant) return false;
    in_bytes += d.constant->bytes();
    const size_t of = static_cast<size_t>(v) < sources.size() ? sources[static_cast<size_t>(v)] : 0;
    *source += of ? of : d.constant->bytes();
  }
  constexpr size_t kGrown = size_t{1}
                            << 30;  // results beyond that are no larger than what they are made from
  // What grows from step to step (the state of a loop) ends much earlier than what grows once.
  constexpr size_t kGrownOften = size_t{64} << 20;
  const size_t most = std::min(kGrown, std::max(4 * *source, kGrownOften));
  const size_t limit = std::max({o.max_fold_bytes, std::min(4 * in_bytes, most), in_bytes});
  for (ValueId v : n.outputs) {
    if (v == kNoValue) continue;
    const op::TensorDesc& d = g.values[v].desc;
    if (!d.known_rank || !IsKnown(d.dims)) return false;
    const auto count = CheckedNumElements(d.dims);
    if (!count || static_cast<uint64_t>(*count) > limit / SizeOf(d.dtype)) return false;
  }
  return true;
}

bool IsOpen(const Graph& g, const Node& n) {
  return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
    return v != kNoValue && (!g.values[v].desc.known_rank || !IsKnown(g.values[v].desc.dims));
  });
}

Status CheckConcrete(const Graph& g, const Node& n) {
  for (ValueId v : n.outputs) {
    if (v == kNoValue) continue;
    const op::TensorDesc& d = g.values[v].desc;
    if (!d.known_rank || !IsKnown(d.dims))
      return Errorf(
          Code::kNotImplemented,
          "node \"%s\" (%s): the shape %s of its output depends on values that are only known when it "
          "runs, which is not supported.",
          n.name.c_str(), n.op->name.c_str(), d.known_rank ? ToString(d.dims).c_str() : "[*]");
    if (!WithinLimits(d.dims))
      return InvalidArgument("node \"%s\" (%s): its output of shape %s is too large.", n.name.c_str(),
                             n.op->name.c_str(), ToString(d.dims).c_str());
  }
  return OkStatus();
}

// Does a node read one of those?
bool ReadsFrom(const Graph& g, const Node& n, const std::vector<bool>& marked) {
  return std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
    return v != kNoValue && g.values[v].producer >= 0 && marked[static_cast<size_t>(g.values[v].producer)];
  });
}

// `decided`: there are nodes that hold graphs and wait for one to take their place; what reads them waits
// too.
Result<int> InferOnce(Graph& g, const InferOptions& o, Sources* sources, bool* decided) {
  int folded = 0;
  size_t source = 0;
  if (o.open) o.open->assign(g.nodes.size(), false);
  std::vector<bool> waiting;
  if (std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return !n.dead && BodiesOf(n); }))
    waiting.assign(g.nodes.size(), false);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    if (n.dead || n.tail) continue;
    if (!waiting.empty() && (IsDecided(g, n) || ReadsFrom(g, n, waiting))) {
      waiting[i] = *decided = true;
      continue;
    }
    if (o.open && ReadsFrom(g, n, *o.open)) {
      (*o.open)[i] = true;
      continue;
    }
    const bool ranks_known = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
      return v == kNoValue || g.values[v].desc.known_rank;
    });
    if (!ranks_known && !o.concrete) continue;
    const Status s = InferNode(g, n);
    if (!s.ok()) {
      if (o.concrete) return s;
      continue;
    }
    if (o.open && IsOpen(g, n)) {
      (*o.open)[i] = true;
      continue;
    }
    if (o.concrete) OPSNN_RETURN_IF_ERROR(CheckConcrete(g, n));
    if (!Computable(g, n, o, *sources, &source)) continue;
    auto results = EvaluateNode(g, n);
    if (!results.ok()) {
      if (o.concrete) return results.status();
      continue;
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k] == kNoValue) continue;
      Value& v = g.values[n.outputs[k]];
      v.desc.constant = (*results)[k];
      if (sources->size() < g.values.size()) sources->resize(g.values.size(), 0);
      (*sources)[static_cast<size_t>(n.outputs[k])] = std::max<size_t>(source, 1);
      if (o.fold) v.producer = -1;
    }
    if (o.fold) n.dead = true;
    ++folded;
  }
  return folded;
}

}  // namespace

Result<int> InferGraph(Graph& g, const InferOptions& o) {
  Sources sources;
  for (int folded = 0;;) {
    bool decided = false;
    OPSNN_ASSIGN_OR_RETURN(const int more, InferOnce(g, o, &sources, &decided));
    folded += more;
    if (!decided) return folded;
    OPSNN_RETURN_IF_ERROR(InlineDecided(g));
  }
}

}  // namespace opsnn::graph
