#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/buffer.h"
#include "graph/call.h"
#include "graph/ir/known_ops.h"

namespace opsnn::graph {
namespace {

size_t Align(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

struct Block {
  size_t bytes, offset;
  int first, last;
};

bool Overlap(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// Places blocks in the given order, each at the lowest offset of the smallest gap that fits among the blocks
// placed before that live at the same time. Returns the arena's size.
size_t Place(std::vector<Block>& blocks, const std::vector<int>& order) {
  std::vector<const Block*> placed;  // sorted by offset
  size_t total = 0;
  for (int i : order) {
    Block& b = blocks[i];
    size_t end = 0, best_gap = SIZE_MAX, best = SIZE_MAX;
    for (const Block* p : placed) {
      if (!Overlap(*p, b)) continue;
      if (p->offset >= end + b.bytes && p->offset - end < best_gap) best_gap = p->offset - end, best = end;
      end = std::max(end, p->offset + p->bytes);
    }
    b.offset = best != SIZE_MAX ? best : end;
    total = std::max(total, b.offset + b.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &b,
                                   [](const Block* x, const Block* y) { return x->offset < y->offset; }),
                  &b);
  }
  return total;
}

// A pointwise node may write over an operand that dies in it; kernels promise that for equal views.
bool ComputesInPlace(const Node& n) {
  return n.op->program != nullptr || (n.op == Known().Program && n.attrs.Int("row_rank", 0) == 0);
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
    members_.emplace_back();
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  void Join(int buffer, ValueId v, int step, size_t offset = 0) {
    plan_.buffer_of[v] = buffer;
    plan_.offset_of[v] = offset;
    members_[buffer].push_back(v);
    Buffer& b = plan_.buffers[buffer];
    b.last = std::max({b.last, step, std::min(last_use_[v], steps())});
  }

  void AssignBuffers() {
    plan_.buffer_of.assign(g_.values.size(), -1);
    plan_.offset_of.assign(g_.values.size(), 0);
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

  // Which values are written as parts of a later node's output.
  void FindWholes() {
    whole_.assign(g_.values.size(), kNoValue);
    for (const Node& n : g_.nodes)
      if (n.aliasing == Aliasing::kInputsAreParts)
        for (ValueId v : n.inputs) whole_[v] = n.outputs[0];
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
      const bool dies = std::all_of(members_[b].begin(), members_[b].end(),
                                    [&](ValueId m) { return last_use_[m] <= step; });
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

  void PlaceArena() {
    std::vector<Block> blocks;
    std::vector<int> buffer;  // by block; -1 - step for a workspace
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& b = plan_.buffers[i];
      if (b.kind != BufferKind::kArena || b.bytes == 0) continue;
      blocks.push_back({Align(b.bytes), 0, b.first, b.last});
      buffer.push_back(static_cast<int>(i));
    }
    for (int i = 0; i < steps(); ++i) {
      if (workspace_[i] == 0) continue;
      blocks.push_back({Align(workspace_[i]), 0, i, i});
      buffer.push_back(-1 - i);
    }
    std::vector<int> by_time(blocks.size());
    std::iota(by_time.begin(), by_time.end(), 0);
    std::vector<int> by_size = by_time, by_area = by_time;
    std::stable_sort(by_time.begin(), by_time.end(),
                     [&](int a, int b) { return blocks[a].first < blocks[b].first; });
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });
    std::stable_sort(by_area.begin(), by_area.end(), [&](int a, int b) {
      const auto area = [&](int x) { return blocks[x].bytes * (blocks[x].last - blocks[x].first + 1); };
      return area(a) > area(b);
    });
    plan_.arena_bytes = SIZE_MAX;
    std::vector<Block> best;
    for (const auto& [name, order] :
         {std::pair("size", &by_size), std::pair("time", &by_time), std::pair("area", &by_area)}) {
      const size_t total = Place(blocks, *order);
      if (total < plan_.arena_bytes) plan_.arena_bytes = total, plan_.strategy = name, best = blocks;
    }
    plan_.workspace_offset.assign(steps(), 0);
    plan_.curve.assign(steps(), 0);
    for (size_t i = 0; i < best.size(); ++i) {
      (buffer[i] >= 0 ? plan_.buffers[buffer[i]].offset : plan_.workspace_offset[-1 - buffer[i]]) =
          best[i].offset;
      for (int s = best[i].first; s <= std::min(best[i].last, steps() - 1); ++s)
        plan_.curve[s] += best[i].bytes;
    }
    for (size_t live : plan_.curve) plan_.live_peak = std::max(plan_.live_peak, live);
  }

  const Graph& g_;
  const std::vector<size_t>& workspace_;
  const std::vector<bool>& is_view_;
  MemoryPlan plan_;
  std::vector<int> last_use_;                  // by value; -1: never read
  std::vector<std::vector<ValueId>> members_;  // by buffer
  std::vector<ValueId> whole_;                 // by value: what it is written into as a part, or kNoValue
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

MemoryPlan PlanMemory(const Graph& g, const std::vector<size_t>& workspace,
                      const std::vector<bool>& is_view) {
  return Planner(g, workspace, is_view).Run();
}

}  // namespace opsnn::graph
