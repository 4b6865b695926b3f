#include "graph/plan_template.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "graph/control.h"
#include "graph/ir/known_ops.h"
#include "tensor/limits.h"

namespace opsnn::graph {
namespace {

constexpr size_t kMostNodes = 4096;
// Constants up to this many bytes are merged where they are equal (CommonSubexpressions).
constexpr size_t kSmallConstant = 256;
constexpr int kMostTemplates = 4;    // of a model: each takes about as much as a plan
constexpr size_t kMostChanged = 16;  // constants that shapes were computed to

bool SameContent(const ConstTensor& a, const ConstTensor& b) {
  return a->dtype() == b->dtype() && a->dims() == b->dims() &&
         (a->bytes() == 0 || std::memcmp(a->data(), b->data(), a->bytes()) == 0);
}

// Which dims of a value may differ from size to size: images and pixels, not channels.
bool Varies(int axis) { return axis != 1; }

// Dims are compared where they stand at the same place.
int Place(int rank, int axis) { return rank * (kMaxRank + 1) + axis; }

}  // namespace

// ---- Questions

void Questions::Keep(Ask ask, Answer answer, bool judged) {
  kept_ += judged;
  if (answer == Answer::kOther) closed_ = true;
  if (!closed_) list_.emplace_back(std::move(ask), answer);
}

bool Questions::SameAnswers(const Graph& g, const PassContext& c) const {
  return std::all_of(list_.begin(), list_.end(), [&](const auto& q) { return q.first(g, c) == q.second; });
}

// ---- PlanTemplate

bool PlanTemplate::Serves(const Graph& g) {
  if (g.nodes.size() > kMostNodes) return false;
  const KnownOps& k = Known();
  const op::OpDef* const others[] = {k.MatMul,           k.MatMulInteger,    k.Gemm,
                                     k.FeedForward,      k.Softmax,          k.LayerNormalization,
                                     k.RMSNormalization, k.Transpose,        k.BatchNormalizationTraining,
                                     k.QuantizeLinear,   k.DequantizeLinear, k.ConvBatchNormTraining};
  bool images = false;
  for (const Node& n : g.nodes) {
    if (std::find(std::begin(others), std::end(others), n.op) != std::end(others)) return false;
    if (n.tail || n.aliasing != Aliasing::kNone || BodiesOf(n)) return false;
    images = images || n.op == k.Conv;
  }
  return images;
}

PlanTemplate::PlanTemplate(const Graph& before, std::shared_ptr<const PlanTemplate> others) {
  if (others && others->count_ < kMostTemplates) {  // else those of now count more than those of once
    count_ = others->count_ + 1;
    others_ = std::move(others);
  }
  for (const Node& n : before.nodes) before_.push_back({n.op, n.attrs, n.inputs, n.outputs});
  inputs_ = before.inputs, results_ = before.outputs;
  std::map<std::pair<int, int64_t>, int> known;
  for (const Value& v : before.values) {
    dims_.push_back(v.desc.dims);
    constants_.push_back(v.desc.constant);
    const Dims& dims = v.desc.dims;
    for (int i = 0; i < dims.rank(); ++i) {
      const int place = Place(dims.rank(), i);
      const auto [it, fresh] = known.emplace(std::pair(place, dims[i]), static_cast<int>(sizes_.size()));
      if (fresh) sizes_.emplace_back(place, dims[i]);
      classes_.push_back(it->second);
    }
  }
}

bool PlanTemplate::Finish(const Graph& after, Questions questions, std::vector<PassStat> stats) {
  if (!questions.complete() || after.values.size() != dims_.size()) return false;
  for (size_t v = 0; v < after.values.size(); ++v) {
    const op::TensorDesc& d = after.values[v].desc;
    if (d.layout != Layout() || !d.strides.empty() || after.values[v].offset != 0 || after.values[v].stored)
      return false;
  }
  for (const Node& n : after.nodes)
    if (n.aliasing != Aliasing::kNone || (n.tail && !n.tail->regions.empty())) return false;
  KeepUsed(after);
  questions_ = std::move(questions);
  stats_ = std::move(stats);
  for (PassStat& s : stats_) s.us = 0;
  return true;
}

void PlanTemplate::KeepUsed(const Graph& after) {
  std::vector<ValueId> to(after.values.size(), kNoValue);
  const auto renumber = [&](std::vector<ValueId>& list) {
    for (ValueId& v : list) {
      if (v == kNoValue) continue;
      ValueId& now = to[static_cast<size_t>(v)];
      if (now == kNoValue) {
        now = static_cast<ValueId>(left_.size());
        left_.push_back(v);
      }
      v = now;
    }
  };
  nodes_ = after.nodes;
  left_inputs_ = after.inputs, left_outputs_ = after.outputs;
  renumber(left_inputs_);
  for (Node& n : nodes_) renumber(n.inputs), renumber(n.outputs);
  renumber(left_outputs_);
}

bool PlanTemplate::Fits(const Graph& g, const PassContext& c) const {
  return SameNodes(g) && SameDims(g) && SameConstants(g) && questions_.SameAnswers(g, c);
}

const PlanTemplate* PlanTemplate::Find(const Graph& g, const PassContext& c) const {
  const PlanTemplate* t = this;
  while (t && !t->Fits(g, c)) t = t->others_.get();
  return t;
}

bool PlanTemplate::SameNodes(const Graph& g) const {
  if (g.values.size() != dims_.size() || g.inputs != inputs_ || g.outputs != results_) return false;
  size_t i = 0;
  for (const Node& n : g.nodes) {
    if (n.dead) continue;
    if (i == before_.size()) return false;
    const NodeKey& was = before_[i++];
    if (n.op != was.op || !n.attrs.SameObject(was.attrs) || n.inputs != was.inputs ||
        n.outputs != was.outputs)
      return false;
  }
  return i == before_.size();
}

// Sizes that were equal are equal, others are not; 0 and 1 are what they were.
bool PlanTemplate::SameDims(const Graph& g) const {
  std::vector<std::pair<int, int64_t>> now;
  for (const auto& [place, size] : sizes_) now.emplace_back(place, -1);
  size_t at = 0;
  for (size_t v = 0; v < dims_.size(); ++v) {
    const Dims& d = g.values[v].desc.dims;
    const Dims& was = dims_[v];
    if (d.rank() != was.rank()) return false;
    for (int i = 0; i < d.rank(); ++i, ++at) {
      if (d[i] != was[i] && !Varies(i)) return false;
      int64_t& size = now[static_cast<size_t>(classes_[at])].second;
      if (size >= 0 && size != d[i]) return false;
      size = d[i];
    }
  }
  for (size_t k = 0; k < now.size(); ++k)
    if ((sizes_[k].second <= 1 || now[k].second <= 1) && sizes_[k] != now[k]) return false;
  std::sort(now.begin(), now.end());
  return std::adjacent_find(now.begin(), now.end()) == now.end();
}

// A constant that only says a size to those that read nothing else of it.
bool PlanTemplate::MayChange(const Graph& g, ValueId v) const {
  static const op::OpDef* const resize = op::FindOperator("Resize");
  for (const Node& n : g.nodes)
    for (size_t i = 0; i < n.inputs.size() && !n.dead; ++i)
      if (n.inputs[i] == v && (i == 0 || (n.op != resize && !n.op->is_view))) return false;
  return std::find(g.outputs.begin(), g.outputs.end(), v) == g.outputs.end();
}

bool PlanTemplate::SameConstants(const Graph& g) const {
  std::vector<size_t> changed;
  for (size_t v = 0; v < constants_.size(); ++v) {
    const ConstTensor &was = constants_[v], &is = g.values[v].desc.constant;
    if (was == is) continue;
    if (!was || !is || was->dtype() != is->dtype() || was->dims() != is->dims()) return false;
    if (SameContent(was, is)) continue;
    changed.push_back(v);
    if (changed.size() > kMostChanged || !MayChange(g, static_cast<ValueId>(v))) return false;
  }
  // Merged or not as they were.
  for (const size_t v : changed) {
    if (constants_[v]->bytes() > kSmallConstant) continue;
    for (size_t u = 0; u < constants_.size(); ++u) {
      if (u == v || !constants_[u] || constants_[u]->bytes() != constants_[v]->bytes()) continue;
      if (SameContent(constants_[u], constants_[v]) !=
          SameContent(g.values[u].desc.constant, g.values[v].desc.constant))
        return false;
    }
  }
  return true;
}

Graph PlanTemplate::Make(const Graph& g) const {
  Graph made;
  made.name = g.name;
  // Room for what layouts add: growing would copy all of it again.
  made.values.reserve(left_.size() + left_.size() / 4);
  made.nodes.reserve(nodes_.size() + nodes_.size() / 4);
  for (const ValueId v : left_) {
    const Value& from = g.values[static_cast<size_t>(v)];
    Value& to = made.values.emplace_back();
    to.name = from.name;
    to.desc = from.desc;
    to.dim_names = from.dim_names;
  }
  made.inputs = left_inputs_, made.outputs = left_outputs_;
  made.nodes = nodes_;
  for (size_t i = 0; i < made.nodes.size(); ++i)
    for (ValueId v : made.nodes[i].outputs)
      if (v != kNoValue) made.values[static_cast<size_t>(v)].producer = static_cast<NodeId>(i);
  return made;
}

}  // namespace opsnn::graph
