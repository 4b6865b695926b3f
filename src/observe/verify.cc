#include "observe/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "observe/compare.h"
#include "observe/error_model.h"

namespace opsnn::observe {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

using Captured = std::map<std::string, ConstTensor>;

double Epsilon(DType t) {
  switch (t) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// Recomputes parts of the imported graph from captured values.
class Recomputer {
 public:
  Recomputer(const Graph& imported, const Captured& captured,
             const std::map<std::string, op::TensorDesc>& descs)
      : g_(imported), captured_(captured), descs_(descs) {}

  // Evaluates `nodes` (ids of the imported graph, ascending); results stay in `local_` until the next call.
  Status Recompute(const std::vector<NodeId>& nodes) {
    local_.clear();
    for (NodeId id : nodes) OPSNN_RETURN_IF_ERROR(EvaluateNode(g_.nodes[id], &local_));
    return OkStatus();
  }
  const Bounded* Local(const std::string& name) const {
    for (const auto& [id, b] : local_) {
      if (g_.values[id].name == name) return &b;
    }
    return nullptr;
  }

 private:
  using Map = std::unordered_map<ValueId, Bounded>;

  // The value as the run read it; values that were folded away are recomputed from what they depend on.
  Result<const Bounded*> Find(ValueId v) {
    if (auto it = local_.find(v); it != local_.end()) return &it->second;
    if (auto it = read_.find(v); it != read_.end()) return &it->second;
    const graph::Value& value = g_.values[v];
    if (auto it = captured_.find(value.name); it != captured_.end())
      return &(read_[v] = {ref::FromHost(*it->second), {}});
    if (value.desc.constant) return &(read_[v] = {ref::FromHost(*value.desc.constant), {}});
    if (value.producer < 0) return InvalidArgument("value \"%s\" was not captured", value.name.c_str());
    OPSNN_RETURN_IF_ERROR(EvaluateNode(g_.nodes[value.producer], &read_));
    return &read_[v];
  }

  Status EvaluateNode(const Node& n, Map* into) {
    std::vector<const Bounded*> inputs;
    for (ValueId v : n.inputs) {
      if (v == graph::kNoValue) {
        inputs.push_back(nullptr);
        continue;
      }
      OPSNN_ASSIGN_OR_RETURN(const Bounded* b, Find(v));
      inputs.push_back(b);
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
    call.attrs = &n.attrs;
    call.inputs = inputs;
    call.num_outputs = static_cast<int>(n.outputs.size());
    call.output_dims = dims;
    call.output_dtype = dtype;
    OPSNN_ASSIGN_OR_RETURN(std::vector<Bounded> results, EvaluateBounded(call));
    for (size_t i = 0; i < results.size() && i < n.outputs.size(); ++i) {
      if (n.outputs[i] != graph::kNoValue) (*into)[n.outputs[i]] = std::move(results[i]);
    }
    return OkStatus();
  }

  const Graph& g_;
  const Captured& captured_;
  const std::map<std::string, op::TensorDesc>& descs_;
  Map local_;  // of the node being checked
  Map read_;   // captured values and folded arithmetic, as f64
};

std::string OpName(const Node& n, const Graph& imported) {
  std::string name;
  for (NodeId id : n.origins) name += (name.empty() ? "" : "+") + imported.nodes[id].op->name;
  return name.empty() ? n.op->name : name;
}

// Checks one output of a node against its recomputation.
NodeCheck CheckOutput(const Node& n, const std::string& value, const ConstTensor& got, const Bounded& want,
                      const Graph& imported) {
  NodeCheck check;
  check.node = n.name + (n.outputs.size() > 1 ? ":" + value : "");
  check.op = OpName(n, imported);
  if (got->size() != want.value.size()) {
    check.ok = false;
    check.share = std::numeric_limits<double>::infinity();
    check.note = StrFormat("%lld elements, the reference has %lld", static_cast<long long>(got->size()),
                           static_cast<long long>(want.value.size()));
    return check;
  }
  std::vector<double> bound(want.value.v.size(), 0);
  if (IsFloat(got->dtype())) {
    const double store = Epsilon(got->dtype());
    for (size_t i = 0; i < bound.size(); ++i) {
      const double v = std::isfinite(want.value.v[i]) ? std::fabs(want.value.v[i]) : 0;
      bound[i] = kBoundFactor * (want.error.empty() ? 0 : want.error[i]) + 2 * store * v + 1e-37;
    }
  }
  std::vector<double> values = ToDoubles(*got), expected = want.value.v;
  // What overflows the compute type may come out as an infinity or NaN: there is nothing to compare then.
  if (IsFloat(got->dtype()) && got->dtype() != DType::kF64) {
    const double largest = got->dtype() == DType::kF16 ? 65504.0 : std::numeric_limits<float>::max();
    for (size_t i = 0; i < values.size(); ++i) {
      const double reach =
          std::fabs(expected[i]) + (want.error.empty() ? 0 : want.error[i] / (4 * Epsilon(DType::kF32)));
      if (!std::isfinite(values[i]) && !(reach < largest)) values[i] = expected[i] = 0;
    }
  }
  const Comparison c = Compare(values, expected, bound);
  check.cosine = c.cosine;
  check.max_abs = c.max_abs;
  check.max_rel = c.max_rel;
  check.share = c.share;
  check.bound = c.bound;
  check.ok = !(c.share > 1);
  return check;
}

struct Form {
  Captured captured;
  std::vector<std::pair<const Node*, std::vector<std::string>>> steps;  // with the values each produced
  std::shared_ptr<const graph::Prepared> prepared;
};

Result<Form> RunForm(graph::Session& session, const graph::Feeds& feeds) {
  Form form;
  graph::RunOptions options;
  options.capture = [&](const Node& n, const std::string& value, ConstTensor t) {
    if (form.steps.empty() || form.steps.back().first != &n) form.steps.push_back({&n, {}});
    form.steps.back().second.push_back(value);
    form.captured[value] = std::move(t);
  };
  OPSNN_ASSIGN_OR_RETURN(graph::RunResult result, session.Run(feeds, options));
  form.prepared = result.prepared;
  for (const auto& [name, t] : feeds) form.captured[name] = t;
  return form;
}

// Descs of all values of the imported graph, by name, at these shapes: those of the unfused form.
std::map<std::string, op::TensorDesc> Descs(const Graph& g) {
  std::map<std::string, op::TensorDesc> descs;
  for (const graph::Value& v : g.values) descs[v.name] = v.desc;
  return descs;
}

// Rounding errors add up over a whole model: fused and unfused values may drift apart by this share of the
// largest magnitude. 2^11 units of roundoff: 1.2e-4 for f32, the bound that whole models are held to.
constexpr double kDriftUnits = 2048;

std::string FirstDifference(const Form& fused, const Form& unfused) {
  for (const auto& [node, values] : fused.steps) {
    for (const std::string& value : values) {
      auto it = unfused.captured.find(value);
      const ConstTensor& a = fused.captured.at(value);
      if (it == unfused.captured.end() || a->size() != it->second->size()) continue;
      const std::vector<double> want = ToDoubles(*it->second);
      double largest = 0;
      for (double v : want) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
      const double allowed = IsFloat(a->dtype()) ? kDriftUnits * Epsilon(a->dtype()) * largest + 1e-37 : 0;
      const Comparison c = Compare(ToDoubles(*a), want, std::vector<double>(want.size(), allowed));
      if (c.share > 1)
        return StrFormat("%s (node %s): max abs difference %.3g, allowed %.3g", value.c_str(),
                         node->name.c_str(), c.max_abs, allowed);
    }
  }
  return "";
}

}  // namespace

Result<VerifyReport> Verify(graph::Session& fused, graph::Session& unfused, const graph::Feeds& feeds,
                            const std::function<void(int, int)>& progress) {
  OPSNN_ASSIGN_OR_RETURN(Form a, RunForm(unfused, feeds));
  OPSNN_ASSIGN_OR_RETURN(Form b, RunForm(fused, feeds));
  const auto descs = Descs(a.prepared->graph());
  const int total = static_cast<int>(a.steps.size() + b.steps.size());
  VerifyReport report;
  int done = 0;
  for (const Form* form : {&a, &b}) {
    const Graph& imported = form == &a ? unfused.imported() : fused.imported();
    Recomputer recomputer(imported, form->captured, descs);
    for (const auto& [node, values] : form->steps) {
      if (progress) progress(done, total);
      ++done;
      std::vector<NodeId> origins = node->origins;
      if (origins.empty())
        continue;  // layout conversions that passes inserted: their values are checked by readers
      std::sort(origins.begin(), origins.end());
      const Status s = recomputer.Recompute(origins);
      for (const std::string& value : values) {
        NodeCheck check;
        const Bounded* want = s.ok() ? recomputer.Local(value) : nullptr;
        if (want) {
          check = CheckOutput(*node, value, form->captured.at(value), *want, imported);
        } else {
          check.node = node->name;
          check.op = OpName(*node, imported);
          check.note = s.ok() ? "value \"" + value + "\" is not one of the model's" : s.message();
        }
        if (form == &b) check.op = "fused " + check.op;
        ++report.nodes;
        if (!check.ok && report.first_bad.empty()) report.first_bad = check.node;
        if (report.worst.node.empty() || check.share > report.worst.share) report.worst = check;
        report.checks.push_back(std::move(check));
      }
    }
  }
  report.first_difference = FirstDifference(b, a);
  report.ok = report.first_bad.empty() && report.first_difference.empty();
  return report;
}

}  // namespace opsnn::observe
