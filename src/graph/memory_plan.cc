#include "graph/memory_plan.h"

#include <algorithm>

#include "base/buffer.h"
#include "graph/call.h"
#include "graph/ir/known_ops.h"
#include "graph/placement.h"

namespace opsnn::graph {
namespace {

size_t Align(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// A pointwise node may write over an operand that dies in it; kernels promise that for equal views.
bool ComputesInPlace(const Node& n) {
  return n.op->program != nullptr || (n.op == Known().Program && !IsRowProgram(n));
}

class Planner {
 public:
  Planner(const Graph& g, const std::vector<size_t>& workspace, const std::vector<bool>& is_view)
      : g_(g), workspace_(workspace), is_view_(is_view) {}

  MemoryPlan Run() {
    FindLastUses();
    AssignBuffers();
    AssignOutputs();
    PlaceArena();
    return std::move(plan_);
  }

  size_t Peak() {
    FindLastUses();
    AssignBuffers();
    AssignOutputs();
    std::vector<int> owners;
    return LivePeak(ArenaBlocks(&owners));
  }

 private:
  int steps() const { return static_cast<int>(g_.nodes.size()); }

  void FindLastUses() {
    last_use_.assign(g_.values.size(), -1);
    for (int i = 0; i < steps(); ++i)
      for (ValueId v : g_.nodes[i].inputs)
        if (v != kNoValue) last_use_[v] = i;
    for (ValueId v : g_.outputs) last_use_[v] = steps();  // alive to the end
  }

  int NewBuffer(BufferKind kind, ValueId v, int step) {
    Buffer b;
    b.kind = kind;
    b.bytes = StoredBytes(g_.values[v].desc);
    b.first = b.last = step;
    plan_.buffers.push_back(b);
    members_.push_back(kNoValue);
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  void Join(int buffer, ValueId v, int step, size_t offset = 0) {
    plan_.buffer_of[v] = buffer;
    plan_.offset_of[v] = offset;
    next_member_[v] = members_[buffer];
    members_[buffer] = v;
    Buffer& b = plan_.buffers[buffer];
    b.last = std::max({b.last, step, std::min(last_use_[v], steps())});
  }

  void AssignBuffers() {
    plan_.buffer_of.assign(g_.values.size(), -1);
    plan_.offset_of.assign(g_.values.size(), 0);
    next_member_.assign(g_.values.size(), kNoValue);
    plan_.buffers.reserve(g_.values.size());
    members_.reserve(g_.values.size());
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      const int b = NewBuffer(BufferKind::kInput, g_.inputs[i], 0);
      plan_.buffers[b].index = static_cast<int>(i);
      Join(b, g_.inputs[i], 0);
    }
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (!g_.values[v].IsConstant() || plan_.buffer_of[v] >= 0) continue;
      const ValueId id = static_cast<ValueId>(v);
      const int b = NewBuffer(BufferKind::kConstant, id, 0);
      plan_.buffers[b].constant = id;
      Join(b, id, 0);
    }
    FindWholes();
    for (int i = 0; i < steps(); ++i) {
      const Node& n = g_.nodes[i];
      for (size_t o = 0; o < n.outputs.size(); ++o)
        if (n.outputs[o] != kNoValue) AssignOutput(n, i, o);
    }
  }

  size_t PartOffset(ValueId v) const {
    return static_cast<size_t>(g_.values[v].offset) * SizeOf(g_.values[v].desc.dtype);
  }

  // Which values are written as parts of a later node's output. That may itself be a part, and the parts of a
  // longer one may be what a shorter one consists of.
  void FindWholes() {
    whole_.assign(g_.values.size(), kNoValue);
    for (auto n = g_.nodes.rbegin(); n != g_.nodes.rend(); ++n) {
      if (n->aliasing != Aliasing::kInputsAreParts) continue;
      const ValueId y = n->outputs[0];
      if (const ValueId in = whole_[n->inputs[0]]; in != kNoValue) {
        whole_[y] = in;
        continue;
      }
      for (ValueId v : n->inputs) whole_[v] = whole_[y] == kNoValue ? y : whole_[y];
    }
  }

  // The buffer of a value that is written in parts starts with the first of them.
  int WholeBuffer(ValueId whole, int step) {
    if (plan_.buffer_of[whole] < 0) Join(NewBuffer(BufferKind::kArena, whole, step), whole, step);
    return plan_.buffer_of[whole];
  }

  void AssignOutput(const Node& n, int step, size_t o) {
    const ValueId v = n.outputs[o];
    if (n.aliasing == Aliasing::kInputsAreParts) {  // its buffer came with the first part
      ++plan_.views;
      if (whole_[v] != kNoValue) Join(WholeBuffer(whole_[v], step), v, step, PartOffset(v));
      return;
    }
    if (whole_[v] != kNoValue) {
      Join(WholeBuffer(whole_[v], step), v, step, PartOffset(v));
      return;
    }
    if (is_view_[step] && (o == 0 || n.aliasing == Aliasing::kOutputsAreParts)) {
      ++plan_.views;
      const ValueId x = n.inputs[0];
      const size_t part = n.aliasing == Aliasing::kOutputsAreParts ? PartOffset(v) : 0;
      Join(plan_.buffer_of[x], v, step, plan_.offset_of[x] + part);
      return;
    }
    if (const ValueId x = o == 0 && ComputesInPlace(n) ? InPlaceOperand(n, step) : kNoValue; x != kNoValue) {
      ++plan_.in_place;
      Join(plan_.buffer_of[x], v, step, plan_.offset_of[x]);
      return;
    }
    Join(NewBuffer(BufferKind::kArena, v, step), v, step);
  }

  // A value that node i may overwrite: one of its operands, equal in shape, layout and dtype to the output,
  // all of whose buffer is dead after it, and which no other operand reads under another shape.
  ValueId InPlaceOperand(const Node& n, int step) const {
    const op::TensorDesc& out = g_.values[n.outputs[0]].desc;
    for (ValueId v : n.inputs) {
      if (v == kNoValue || !SameView(g_.values[v].desc, out)) continue;
      const int b = plan_.buffer_of[v];
      if (b < 0 || plan_.buffers[b].kind != BufferKind::kArena) continue;
      bool dies = true;
      for (ValueId m = members_[b]; m != kNoValue && dies; m = next_member_[m]) dies = last_use_[m] <= step;
      const bool alone = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId o) {
        return o == kNoValue || plan_.buffer_of[o] != b ||
               (SameView(g_.values[o].desc, out) && plan_.offset_of[o] == plan_.offset_of[v]);
      });
      if (dies && alone) return v;
    }
    return kNoValue;
  }

  static bool SameView(const op::TensorDesc& a, const op::TensorDesc& b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.layout == b.layout && a.IsContiguous() &&
           b.IsContiguous();
  }

  // An arena buffer that holds a graph output becomes that output's own memory; a second output in the same
  // buffer, or one that is an input or a constant, is copied at the end.
  void AssignOutputs() {
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      Buffer& b = plan_.buffers[plan_.buffer_of[g_.outputs[i]]];
      const ValueId v = g_.outputs[i];
      if (b.kind == BufferKind::kArena && b.bytes == StoredBytes(g_.values[v].desc) &&
          plan_.offset_of[v] == 0) {
        b.kind = BufferKind::kOutput;
        b.index = static_cast<int>(i);
      } else {
        plan_.output_copies.emplace_back(v, static_cast<int>(i));
      }
    }
  }

  // What needs room in the arena; `buffer` says by block whose it is: -1 - step for a workspace.
  std::vector<Block> ArenaBlocks(std::vector<int>* buffer) const {
    std::vector<Block> blocks;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& b = plan_.buffers[i];
      if (b.kind != BufferKind::kArena || b.bytes == 0) continue;
      blocks.push_back({Align(b.bytes), 0, b.first, b.last});
      buffer->push_back(static_cast<int>(i));
    }
    for (int i = 0; i < steps(); ++i) {
      if (workspace_[i] == 0) continue;
      blocks.push_back({Align(workspace_[i]), 0, i, i});
      buffer->push_back(-1 - i);
    }
    return blocks;
  }

  void PlaceArena() {
    std::vector<int> buffer;
    std::vector<Block> blocks = ArenaBlocks(&buffer);
    plan_.live_peak = LivePeak(blocks);
    const auto values =
        std::find_if(buffer.begin(), buffer.end(), [](int b) { return b < 0; }) - buffer.begin();
    plan_.value_peak = LivePeak({blocks.begin(), blocks.begin() + values});
    Placement placement = PlaceBlocks(blocks);
    plan_.arena_bytes = placement.bytes;
    plan_.strategy = std::move(placement.strategy);
    plan_.tried = std::move(placement.tried);
    plan_.workspace_offset.assign(steps(), 0);
    plan_.curve.assign(steps(), 0);
    for (size_t i = 0; i < blocks.size(); ++i) {
      (buffer[i] >= 0 ? plan_.buffers[buffer[i]].offset : plan_.workspace_offset[-1 - buffer[i]]) =
          blocks[i].offset;
      for (int s = blocks[i].first; s <= std::min(blocks[i].last, steps() - 1); ++s)
        plan_.curve[s] += blocks[i].bytes;
    }
  }

  const Graph& g_;
  const std::vector<size_t>& workspace_;
  const std::vector<bool>& is_view_;
  MemoryPlan plan_;
  std::vector<int> last_use_;         // by value; -1: never read
  std::vector<ValueId> members_;      // by buffer: the first of its values
  std::vector<ValueId> next_member_;  // by value: the next of its buffer
  std::vector<ValueId> whole_;        // by value: what it is written into as a part, or kNoValue
};

}  // namespace

bool CanAlias(const Graph& g, const Node& n) {
  if (n.aliasing != Aliasing::kNone) return true;
  if (n.outputs.size() != 1 || n.inputs.empty() || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue)
    return false;
  const op::TensorDesc& x = g.values[n.inputs[0]].desc;
  const op::TensorDesc& y = g.values[n.outputs[0]].desc;
  if (x.dtype != y.dtype || !x.IsContiguous() || !y.IsContiguous()) return false;
  if (n.op->is_view) return x.layout == Layout() && y.layout == Layout();
  if (n.op != Known().TransData || x.dims.rank() != 4) return false;
  // Blocked and plain order agree where there is one pixel per image and no padded channel. A single image
  // may be read from blocked to plain even with padding: it lies behind the real channels.
  const bool one_pixel = x.dims[2] == 1 && x.dims[3] == 1;
  const int c0 = std::max(x.layout.c0, y.layout.c0);
  const bool padded = c0 > 0 && x.dims[1] % c0 != 0;
  return one_pixel && (!padded || (x.dims[0] == 1 && x.layout.format == Format::kNC1HWC0));
}

size_t PeakOf(const Graph& g) {
  std::vector<bool> is_view;
  for (const Node& n : g.nodes) is_view.push_back(CanAlias(g, n));
  const std::vector<size_t> none(g.nodes.size(), 0);
  return Planner(g, none, is_view).Peak();
}

size_t ActivationBytes(const Graph& g) {
  size_t bytes = 0;
  for (const Node& n : g.nodes)
    for (ValueId v : n.outputs)
      if (v != kNoValue && !n.dead) bytes += StoredBytes(g.values[v].desc);
  return bytes;
}

// Walks the nodes and counts what is alive. Whatever may share bytes with its first operand is taken to do
// so.
size_t LeastPeak(const Graph& g) {
  std::vector<ValueId> root(g.values.size(), kNoValue);  // the value whose bytes it shares
  std::vector<int> readers(g.values.size(), 0);  // of a root and all that share its bytes, still to run
  std::vector<int> uses(g.values.size(), 0);
  for (const Node& n : g.nodes)
    for (ValueId v : n.inputs)
      if (v != kNoValue && !n.dead) ++uses[static_cast<size_t>(v)];
  std::vector<bool> lent(g.values.size(), false);  // results are the caller's
  for (ValueId v : g.outputs) lent[static_cast<size_t>(v)] = true;
  size_t live = 0, peak = 0;
  for (const Node& n : g.nodes) {
    if (n.dead) continue;
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      const ValueId x = n.inputs.empty() ? kNoValue : n.inputs[0];
      const bool shares = (n.op->program || CanAlias(g, n)) && x != kNoValue && root[x] != kNoValue;
      root[v] = shares ? root[x] : v;
      readers[root[v]] += uses[v];
      if (!shares && !lent[v]) live += StoredBytes(g.values[v].desc);
    }
    peak = std::max(peak, live);
    for (ValueId v : n.outputs)
      if (v != kNoValue && root[v] == v && readers[v] == 0 && !lent[v]) live -= StoredBytes(g.values[v].desc);
    for (ValueId v : n.inputs) {
      if (v == kNoValue || root[v] == kNoValue || --readers[root[v]] > 0 || lent[root[v]]) continue;
      live -= StoredBytes(g.values[root[v]].desc);
    }
  }
  return peak;
}

MemoryPlan PlanMemory(const Graph& g, const std::vector<size_t>& workspace,
                      const std::vector<bool>& is_view) {
  return Planner(g, workspace, is_view).Run();
}

}  // namespace opsnn::graph
