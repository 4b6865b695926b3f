#include "observe/recompute.h"

#include <algorithm>
#include <cmath>

#include "graph/infer.h"
#include "graph/ir/reordered.h"

namespace opsnn::observe {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

// Inside a chain a half intermediate may be rounded or not.
void AddStore(Bounded* b) {
  const double eps = UnitRoundoff(b->value.dtype);
  b->error.resize(b->value.v.size(), 0);
  for (size_t i = 0; i < b->error.size(); ++i) {
    if (std::isfinite(b->value.v[i])) b->error[i] += eps * std::fabs(b->value.v[i]);
  }
}

Result<int> InferFed(Graph& g, const graph::Feeds& feeds) {
  constexpr int64_t kSmall = 64;  // inputs that may be shapes or axes
  for (ValueId v : g.inputs) {
    const auto feed = feeds.find(g.values[v].name);
    if (feed == feeds.end()) continue;
    op::TensorDesc& d = g.values[v].desc;
    d.dims = feed->second->dims();
    d.known_rank = true;
    if (d.dims.rank() <= 1 && feed->second->size() <= kSmall) d.constant = feed->second;
  }
  graph::InferOptions options;
  options.fold = false;
  options.concrete = false;
  return graph::InferGraph(g, options);
}

// What was captured in another order than the model's, back to that. The model's own value may have been
// captured as well; each is checked where it was made.
Status BackToModel(const graph::Prepared& p, Form* form) {
  for (const graph::Value& v : p.graph().values) {
    const auto captured = v.reordered ? form->captured.find(v.name) : form->captured.end();
    if (captured == form->captured.end()) continue;
    const HostTensor& t = *captured->second;
    ConstTensor back = graph::PermutedTensor(t, t.dims(), graph::Inverse(v.reordered->perm));
    if (!back)
      return Errorf(Code::kRuntime, "no memory for value \"%s\" in the model's order", v.name.c_str());
    captured->second = back;
    form->captured.emplace(v.reordered->of, std::move(back));
    form->of_model[v.name] = v.reordered->of;
  }
  return OkStatus();
}

}  // namespace

const std::string& Form::OfModel(const std::string& value) const {
  const auto it = of_model.find(value);
  return it == of_model.end() ? value : it->second;
}

std::vector<std::string> Form::OfModel(std::vector<std::string> values) const {
  for (std::string& v : values) v = OfModel(v);
  return values;
}

Result<Form> RunForm(graph::Session& session, const graph::Feeds& feeds) {
  Form form;
  graph::RunOptions options;
  options.capture = [&](const Node& n, const std::string& value, ConstTensor t) {
    if (form.steps.empty() || form.steps.back().first != &n) form.steps.push_back({&n, {}});
    form.steps.back().second.push_back(value);
    form.captured[value] = std::move(t);
  };
  OPSNN_ASSIGN_OR_RETURN(graph::RunResult result, session.Run(feeds, options));
  form.prepared = std::move(result.later);
  form.prepared.push_back(result.prepared);
  form.outputs = std::move(result.outputs);
  for (const auto& p : form.prepared) OPSNN_RETURN_IF_ERROR(BackToModel(*p, &form));
  for (const auto& [name, t] : feeds) form.captured[name] = t;
  return form;
}

Descs InferDescs(const Graph& imported, const graph::Feeds& feeds, const Form& form) {
  Graph g = imported;
  const auto inferred = InferFed(g, feeds);
  Descs descs;
  for (const auto& p : form.prepared)
    for (const graph::Value& v : p->graph().values)
      if (v.desc.known_rank && IsKnown(v.desc.dims)) descs[v.name] = v.desc;
  for (const graph::Value& v : g.values) {
    if (inferred.ok() && v.desc.known_rank && IsKnown(v.desc.dims)) descs[v.name] = v.desc;
  }
  return descs;
}

Result<Graph> WithChosenBodies(const Graph& imported, const graph::Feeds& feeds) {
  for (const Graph::Default& d : imported.defaults)
    if (feeds.count(d.as_input.name)) return imported;  // the session is another then
  Graph g = imported;
  OPSNN_RETURN_IF_ERROR(InferFed(g, feeds).status());
  for (graph::Value& v : g.values)
    if (v.producer >= 0) v.desc.constant = nullptr;
  for (size_t i = 0; i < g.inputs.size(); ++i) g.values[g.inputs[i]] = imported.values[imported.inputs[i]];
  for (size_t i = 0; i < g.nodes.size(); ++i) g.nodes[i].origins = {static_cast<NodeId>(i)};
  return g;
}

Recomputer::Recomputer(const Graph& imported, const Captured& captured, const Descs& descs, bool rewritten)
    : g_(imported), captured_(captured), descs_(descs), rewritten_(rewritten) {
  reads_left_.assign(g_.values.size(), 0);
  for (size_t v = 0; v < g_.values.size(); ++v) ids_[g_.values[v].name] = static_cast<ValueId>(v);
  for (const Node& n : g_.nodes) {
    for (ValueId v : n.inputs) {
      if (v != graph::kNoValue) ++reads_left_[v];
    }
  }
  read_again_.assign(g_.values.size(), false);
  for (const Node& n : g_.nodes) {
    const bool seen = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
      return v != graph::kNoValue && captured_.count(g_.values[v].name) > 0;
    });
    for (ValueId v : n.inputs) {
      if (v != graph::kNoValue && !seen) read_again_[v] = true;
    }
  }
}

// From the value back to one of the nodes; nothing is added where the way does not lead there.
void Recomputer::AddIdentities(const std::string& value, std::vector<NodeId>* nodes) const {
  const auto id = ids_.find(value);
  std::vector<NodeId> way;
  for (ValueId v = id == ids_.end() ? graph::kNoValue : id->second; v != graph::kNoValue;) {
    const NodeId n = g_.values[v].producer;
    if (n < 0) return;
    if (std::find(nodes->begin(), nodes->end(), n) != nodes->end()) {
      nodes->insert(nodes->end(), way.begin(), way.end());
      return;
    }
    way.push_back(n);
    v = g_.nodes[n].inputs.empty() ? graph::kNoValue : g_.nodes[n].inputs[0];
  }
}

Status Recomputer::Evaluate(std::vector<NodeId> nodes, int winograd, const std::vector<std::string>& values) {
  for (const std::string& v : values) AddIdentities(v, &nodes);
  winograd_ = winograd;
  local_.clear();
  sums_.clear();
  read_folded_ = false;
  std::sort(nodes.begin(), nodes.end());
  in_chain_ = nodes.size() > 1;
  Status status;
  for (NodeId id : nodes) {
    status = EvaluateNode(g_.nodes[id], &local_);
    if (!status.ok()) break;
  }
  in_chain_ = false;
  winograd_ = 0;
  Release();
  return status;
}

// A value that is read again later is made again from what was captured.
void Recomputer::Release() {
  for (ValueId v : read_now_) {
    if (--reads_left_[v] > 0) continue;
    read_.erase(v);
    if (!read_again_[v]) errors_.erase(g_.values[v].name);
  }
  read_now_.clear();
}

const Bounded* Recomputer::Local(const std::string& value) const {
  const auto id = ids_.find(value);
  if (id == ids_.end()) return nullptr;
  const auto it = local_.find(id->second);
  return it == local_.end() ? nullptr : &it->second;
}

const std::vector<double>* Recomputer::SumRounding(const std::string& value) const {
  const auto it = sums_.find(value);
  return it == sums_.end() ? nullptr : &it->second;
}

Result<const Bounded*> Recomputer::Read(const std::string& value) {
  const auto id = ids_.find(value);
  if (id == ids_.end()) return InvalidArgument("value \"%s\" is not one of the model's", value.c_str());
  return Find(id->second);
}

Result<const Bounded*> Recomputer::Find(ValueId v) {
  if (auto it = local_.find(v); it != local_.end()) return &it->second;
  read_folded_ |= folded_.count(v) > 0;
  if (auto it = read_.find(v); it != read_.end()) return &it->second;
  const graph::Value& value = g_.values[v];
  const auto captured = captured_.find(value.name);
  const HostTensor* t = captured != captured_.end() ? captured->second.get() : value.desc.constant.get();
  if (t) {
    Bounded& b = read_[v];
    b.value = ref::FromHost(*t);
    b.captured = true;
    if (auto it = errors_.find(value.name); it != errors_.end()) b.error = it->second;
    return &b;
  }
  if (value.producer < 0) return InvalidArgument("value \"%s\" was not captured", value.name.c_str());
  OPSNN_RETURN_IF_ERROR(EvaluateNode(g_.nodes[value.producer], &read_));
  if (!read_[v].error.empty()) {
    folded_.insert(v);
    read_folded_ = true;
  }
  return &read_[v];
}

Status Recomputer::EvaluateNode(const Node& n, Map* into) {
  std::vector<const Bounded*> inputs;
  for (ValueId v : n.inputs) {
    if (v == graph::kNoValue) {
      inputs.push_back(nullptr);
      continue;
    }
    OPSNN_ASSIGN_OR_RETURN(const Bounded* b, Find(v));
    inputs.push_back(b);
    read_now_.push_back(v);
  }
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  std::vector<Dims> dims;
  DType dtype = DType::kF32;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    auto it = n.outputs[i] == graph::kNoValue ? descs_.end() : descs_.find(g_.values[n.outputs[i]].name);
    dims.push_back(it == descs_.end() ? Dims() : it->second.dims);
    if (i == 0 && it != descs_.end()) dtype = it->second.dtype;
  }
  BoundedCall call;
  call.op = n.op->name;
  call.attrs = &n.attrs.get();
  call.inputs = inputs;
  call.num_outputs = static_cast<int>(n.outputs.size());
  call.output_dims = dims;
  call.output_dtype = dtype;
  call.rewritten = in_chain_ && rewritten_;
  call.winograd = n.op->name == "Conv" ? winograd_ : 0;
  OPSNN_ASSIGN_OR_RETURN(std::vector<Bounded> results, EvaluateBounded(call));
  if (const ValueId y = n.outputs[0]; hidden_ && y != graph::kNoValue && hidden_(g_.values[y].name)) {
    std::vector<double> sums;
    OPSNN_RETURN_IF_ERROR(TermSums(call, &sums));
    for (double& s : sums) s *= 4 * UnitRoundoff(DType::kF32);
    if (!sums.empty()) sums_[g_.values[y].name] = std::move(sums);
  }
  for (size_t i = 0; i < results.size() && i < n.outputs.size(); ++i) {
    if (n.outputs[i] == graph::kNoValue) continue;
    if (in_chain_ && IsHalf(results[i].value.dtype)) AddStore(&results[i]);
    (*into)[n.outputs[i]] = std::move(results[i]);
  }
  return OkStatus();
}

}  // namespace opsnn::observe
