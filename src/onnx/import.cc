#include "onnx/import.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/caught.h"
#include "graph/control.h"
#include "graph/declared.h"
#include "onnx/mapped_file.h"
#include "onnx/model.h"
#include "onnx/normalize.h"
#include "tensor/limits.h"

namespace opsnn::onnx {
namespace {

Result<graph::Value> InputValue(const ValueInfo& info) {
  graph::Value v;
  v.name = info.name;
  const auto dtype = info.is_tensor && info.elem_type > 0 ? DTypeFromOnnx(info.elem_type) : std::nullopt;
  if (!dtype)
    return InvalidArgument(
        "input \"%s\" is %s, which is not supported.", info.name.c_str(),
        info.is_tensor ? ("a tensor of type " + DataTypeName(info.elem_type)).c_str() : "not a tensor");
  if (info.dims.size() > kMaxRank)
    return InvalidArgument("input \"%s\" has rank %zu; at most %d is supported.", info.name.c_str(),
                           info.dims.size(), kMaxRank);
  v.desc.dtype = *dtype;
  v.desc.known_rank = info.has_shape;
  v.desc.dims = Dims(std::span<const int64_t>(info.dims));
  if (!WithinLimits(v.desc.dims))
    return InvalidArgument("input \"%s\" is too large: shape %s.", info.name.c_str(),
                           ToString(v.desc.dims).c_str());
  v.dim_names = info.dim_names;
  return v;
}

class Importer {
 public:
  explicit Importer(Model model) : model_(std::move(model)), builder_(&graph_) {}

  // Of a graph inside a node of `outer`, whose values it may read.
  Importer(Model model, Importer* outer)
      : model_(std::move(model)), builder_(&graph_), outer_(outer), opset_(outer->opset_) {}

  // What the model reads from around it becomes inputs of the graph, behind its own; `captured` says which.
  Result<graph::Graph> Body(std::vector<graph::ValueId>* captured) {
    OPSNN_RETURN_IF_ERROR(AddBorder());
    OPSNN_RETURN_IF_ERROR(AddNodes());
    for (const ValueInfo& o : model_.outputs) {
      OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, Lookup(o.name));
      graph_.outputs.push_back(v);
    }
    OPSNN_RETURN_IF_ERROR(graph_.Sort());
    *captured = std::move(captured_);
    return std::move(graph_);
  }

  Result<graph::Graph> Run() {
    graph_.name = model_.graph_name;
    OPSNN_RETURN_IF_ERROR(FindVersions());
    OPSNN_RETURN_IF_ERROR(AddBorder());
    OPSNN_RETURN_IF_ERROR(AddNodes());
    if (model_.outputs.empty()) return InvalidArgument("the graph has no outputs.");
    for (const ValueInfo& o : model_.outputs) {
      if (!builder_.Has(o.name))
        return InvalidArgument("nothing produces the graph output \"%s\".", o.name.c_str());
      OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, builder_.Find(o.name));
      if (graph_.values[v].dim_names.empty() &&
          static_cast<int>(o.dim_names.size()) == graph_.values[v].desc.dims.rank())
        graph_.values[v].dim_names = o.dim_names;
      graph_.outputs.push_back(v);
      OPSNN_RETURN_IF_ERROR(Declare("output", o));
    }
    for (const ValueInfo& info : model_.values) OPSNN_RETURN_IF_ERROR(Declare("value", info));
    OPSNN_RETURN_IF_ERROR(graph_.Sort());
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      graph_.nodes[i].origins = {static_cast<graph::NodeId>(i)};
    return std::move(graph_);
  }

 private:
  Status AddNodes() {
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      NodeDef& n = model_.nodes[i];
      if (n.name.empty()) n.name = StrFormat("%s_%zu", n.op_type.c_str(), i);
      const Status s = AddNode(n);
      if (!s.ok()) return s.WithContext("node \"" + n.name + "\" (" + n.op_type + ")");
    }
    return OkStatus();
  }

  Result<graph::ValueId> Lookup(const std::string& name) {
    if (builder_.Has(name) || !outer_) return builder_.Find(name);
    OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, outer_->Lookup(name));
    const graph::Graph& around = outer_->graph_;
    const bool may_be_fed = std::any_of(around.defaults.begin(), around.defaults.end(),
                                        [v](const graph::Graph::Default& d) { return d.value == v; });
    graph::ValueId here;
    if (around.values[v].desc.constant && !may_be_fed) {
      here = graph_.AddConstant(name, around.values[v].desc.constant);
    } else {
      graph::Value mine;
      mine.name = name;
      mine.desc = around.values[v].desc;
      mine.desc.constant = nullptr;
      here = graph_.AddValue(std::move(mine));
      graph_.inputs.push_back(here);
      captured_.push_back(v);
    }
    OPSNN_RETURN_IF_ERROR(builder_.Define(name, here));
    return here;
  }

  static constexpr size_t kLoopOperands = 2;  // M and cond; of the body: the number of the pass and cond

  // What the graphs inside a node are given, and what of it goes around from pass to pass.
  struct Inside {
    std::vector<const char*> graphs;  // the attributes that hold them
    std::vector<DType> inputs;
    size_t states = 0, first_state = 0;  // among its inputs
    size_t hidden = 0;                   // results before those of the node
    size_t carried() const { return states + hidden; }
  };

  // If, Loop and Scan: the graphs inside, and what they read as operands behind the node's own.
  Status AddControl(NodeDef& n, Call c) {
    OPSNN_ASSIGN_OR_RETURN(const Inside inside, InsideOf(c));
    std::vector<graph::Graph> bodies;
    const size_t own = c.inputs.size();
    for (const char* name : inside.graphs) {
      const auto it =
          std::find_if(n.graphs.begin(), n.graphs.end(), [name](const auto& g) { return g.first == name; });
      if (it == n.graphs.end()) return InvalidArgument("attribute \"%s\" is missing; it is a graph.", name);
      Result<graph::Graph> body = ReadBody(std::move(*it->second), inside, own, &c);
      if (!body.ok()) return body.status().WithContext(std::string("graph \"") + name + "\"");
      bodies.push_back(std::move(*body));
    }
    std::vector<int64_t> dtypes;
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const auto type = [&](const graph::Graph& g) {
        return g.values[g.outputs[i + inside.hidden]].desc.dtype;
      };
      dtypes.push_back(static_cast<int64_t>(type(bodies[0])));
      if (type(bodies.back()) != type(bodies[0]))
        return InvalidArgument("output %zu is %s in then_branch and %s in else_branch; allowed: one type.", i,
                               Name(type(bodies[0])), Name(type(bodies.back())));
    }
    c.attrs.Set("dtypes", dtypes);
    if (c.op_type != "If") c.attrs.Set("states", static_cast<int64_t>(inside.states));
    const size_t nodes = graph_.nodes.size(), operands = c.inputs.size();
    OPSNN_RETURN_IF_ERROR(builder_.Emit(std::move(c), opset_));
    if (graph_.nodes.size() == nodes) return OkStatus();  // nobody can read its result
    graph::Node& made = graph_.nodes.back();
    made.inputs.resize(operands, graph::kNoValue);
    made.num_op_inputs = static_cast<int>(operands);
    for (size_t i = 0; i < made.outputs.size(); ++i)
      if (made.outputs[i] != graph::kNoValue)
        graph_.values[made.outputs[i]].desc.dtype = static_cast<DType>(dtypes[i]);
    graph::SetBodies(made, std::move(bodies));
    return OkStatus();
  }

  // Checks the node's own operands.
  Result<Inside> InsideOf(Call& c) {
    Inside in;
    in.graphs = {"body"};
    if (c.op_type == "If") in.graphs = {"then_branch", "else_branch"};
    for (const char* internal : {"bodies", "dtypes", "passes", "states"})
      if (c.attrs.Has(internal))
        return InvalidArgument("unknown attribute \"%s\"; allowed: %s.", internal,
                               c.op_type == "If" ? "then_branch, else_branch" : "body");
    if (c.op_type == "If") {
      if (c.inputs.size() != 1)
        return InvalidArgument("it has %zu inputs; allowed: 1, cond.", c.inputs.size());
      if (c.inputs[0] == graph::kNoValue) return InvalidArgument("its input cond is missing.");
      return in;
    }
    size_t at = 0;  // the first operand that the body sees
    if (c.op_type == "Loop") {
      if (c.inputs.size() < kLoopOperands) c.inputs.resize(kLoopOperands, graph::kNoValue);
      at = kLoopOperands;
      in.inputs = {DType::kS64, DType::kBool};
      in.states = c.inputs.size() - kLoopOperands;
      in.first_state = kLoopOperands;
      in.hidden = 1;
    } else {
      OPSNN_ASSIGN_OR_RETURN(in.states, ScanStates(c));
    }
    for (size_t i = at; i < c.inputs.size(); ++i) {
      if (c.inputs[i] == graph::kNoValue)
        return InvalidArgument("%s %zu is missing.", i < at + in.states ? "state" : "operand", i - at);
      in.inputs.push_back(graph_.values[c.inputs[i]].desc.dtype);
    }
    return in;
  }

  // Of the operands of a Scan the last are scanned.
  Result<size_t> ScanStates(const Call& c) const {
    if (opset_ < 9)
      return Errorf(Code::kNotImplemented, "with a batch of its own, as in opset 8, it is not supported.");
    const int64_t scans = c.attrs.Int("num_scan_inputs", 0), given = static_cast<int64_t>(c.inputs.size());
    if (scans < 1 || scans > given)
      return InvalidArgument("num_scan_inputs is %lld; allowed: 1 to %lld, its inputs.",
                             static_cast<long long>(scans), static_cast<long long>(given));
    const auto states = static_cast<size_t>(given - scans);
    const size_t results = c.outputs.size() < states ? 0 : c.outputs.size() - states;
    for (const auto& [attr, count] :
         {std::pair("scan_input_axes", static_cast<size_t>(scans)),
          std::pair("scan_input_directions", static_cast<size_t>(scans)),
          std::pair("scan_output_axes", results), std::pair("scan_output_directions", results)}) {
      const std::vector<int64_t> list = c.attrs.Ints(attr);
      if (!list.empty() && list.size() != count)
        return InvalidArgument("%s has %zu values; allowed: %zu or none.", attr, list.size(), count);
      const bool direction = std::string_view(attr).find("directions") != std::string_view::npos;
      for (const int64_t v : list)
        if (direction && v != 0 && v != 1)
          return InvalidArgument("%s holds %lld; allowed: 0, 1.", attr, static_cast<long long>(v));
    }
    return states;
  }

  // What the graph captures becomes operands of the call, which has `own` of its own.
  Result<graph::Graph> ReadBody(Model body, const Inside& inside, size_t own, Call* c) {
    const size_t inputs = inside.inputs.size(), results = c->outputs.size() + inside.hidden;
    if (body.inputs.size() != inputs || body.outputs.size() != results || c->outputs.size() < inside.states)
      return InvalidArgument(
          "it has %zu inputs and %zu outputs where the node has %zu and %zu; allowed: %zu and %zu%s.",
          body.inputs.size(), body.outputs.size(), own, c->outputs.size(), inputs,
          std::max(results, inside.carried()),
          c->op_type == "If" ? "" : ", an output of the node for each state");
    for (size_t i = 0; i < inputs; ++i) {
      ValueInfo& info = body.inputs[i];
      if (info.is_tensor && info.elem_type == 0) info.elem_type = Info(inside.inputs[i]).onnx;
    }
    std::vector<graph::ValueId> captured;
    OPSNN_ASSIGN_OR_RETURN(graph::Graph g, Importer(std::move(body), this).Body(&captured));
    if (g.inputs.size() != inputs + captured.size())
      return InvalidArgument("an input of it has an initializer; allowed: none has.");
    const auto check = [&](const char* kind, graph::ValueId v, DType want) {
      const graph::Value& value = g.values[v];
      if (value.desc.dtype == want) return OkStatus();
      return InvalidArgument("its %s \"%s\" is %s; allowed: %s, as what is handed to it.", kind,
                             value.name.c_str(), Name(value.desc.dtype), Name(want));
    };
    for (size_t i = 0; i < inputs; ++i) OPSNN_RETURN_IF_ERROR(check("input", g.inputs[i], inside.inputs[i]));
    const size_t first = inside.first_state - inside.hidden;  // of what goes around, cond included
    for (size_t i = 0; i < inside.carried(); ++i)
      OPSNN_RETURN_IF_ERROR(check("output", g.outputs[i], inside.inputs[first + i]));
    c->inputs.insert(c->inputs.end(), captured.begin(), captured.end());
    return g;
  }

  // Newer versions may give operators another meaning.
  Status FindVersions() {
    constexpr int64_t kNewestIr = 13, kNewestOpset = 25;
    if (model_.ir_version < 1 || model_.ir_version > kNewestIr)
      return InvalidArgument("the model has IR version %lld; supported are 1 to %lld.",
                             static_cast<long long>(model_.ir_version), static_cast<long long>(kNewestIr));
    std::unordered_set<std::string> domains;
    for (const auto& [domain, version] : model_.opsets) {
      if (!domains.insert(domain).second)
        return InvalidArgument("the model names the opset of domain %s twice; allowed: once.",
                               domain.empty() ? "ai.onnx" : domain.c_str());
      if (!domain.empty()) continue;
      opset_ = version;
      if (version < 1 || version > kNewestOpset)
        return InvalidArgument("the model uses opset %lld of ai.onnx; supported are 1 to %lld.",
                               static_cast<long long>(version), static_cast<long long>(kNewestOpset));
    }
    // Only files of the first IR versions have no opset; they mean 1.
    if (opset_ == 0 && model_.ir_version < 3) opset_ = 1;
    return OkStatus();
  }

  Status AddBorder() {
    for (auto& [name, tensor] : model_.initializers)
      OPSNN_RETURN_IF_ERROR(builder_.Define(name, graph_.AddConstant(name, std::move(tensor))));
    std::unordered_set<std::string> seen;
    for (const ValueInfo& info : model_.inputs) {
      if (!seen.insert(info.name).second)
        return InvalidArgument("two inputs are named \"%s\".", info.name.c_str());
      if (builder_.Has(info.name)) {
        OPSNN_RETURN_IF_ERROR(AddDefault(info));
        continue;
      }
      OPSNN_ASSIGN_OR_RETURN(graph::Value v, InputValue(info));
      graph_.inputs.push_back(graph_.AddValue(std::move(v)));
      OPSNN_RETURN_IF_ERROR(builder_.Define(info.name, graph_.inputs.back()));
    }
    return OkStatus();
  }

  // An input with an initializer: it may be fed. Files of before IR version 4 had to list every weight like
  // this; there it is a constant.
  Status AddDefault(const ValueInfo& info) {
    if (model_.ir_version < 4) return OkStatus();
    OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, builder_.Find(info.name));
    const op::TensorDesc& constant = graph_.values[v].desc;
    if (info.is_tensor && info.elem_type == 0) {  // no type given: that of the initializer
      graph_.defaults.push_back({v, {info.name, {constant.dtype, constant.dims}}});
      return OkStatus();
    }
    Result<graph::Value> input = InputValue(info);
    if (!input.ok() || input->desc.dtype != constant.dtype)
      return InvalidArgument("input \"%s\" is declared as %s, its initializer is %s.", info.name.c_str(),
                             DataTypeName(info.elem_type).c_str(), Name(constant.dtype));
    graph_.defaults.push_back({v, std::move(*input)});
    return OkStatus();
  }

  // What the model says of a value must agree with what its node gives, now or when shapes are known.
  Status Declare(const char* kind, const ValueInfo& info) {
    if (!info.is_tensor || !builder_.Has(info.name)) return OkStatus();
    OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, builder_.Find(info.name));
    graph::Declared d;
    d.kind = kind;
    d.value = info.name;
    if (info.elem_type > 0) {
      d.dtype = DTypeFromOnnx(info.elem_type);
      if (!d.dtype)
        return InvalidArgument("%s \"%s\" is declared as a tensor of %s, which is not supported.", kind,
                               info.name.c_str(), DataTypeName(info.elem_type).c_str());
    }
    if (info.dims.size() > kMaxRank)
      return InvalidArgument("%s \"%s\" is declared with rank %zu; at most %d is supported.", kind,
                             info.name.c_str(), info.dims.size(), kMaxRank);
    d.known_rank = info.has_shape;
    d.dims = Dims(std::span<const int64_t>(info.dims));
    d.dim_names = info.dim_names;
    OPSNN_RETURN_IF_ERROR(graph::CheckDeclared(graph_, d, v, true));
    graph_.declared.push_back(std::move(d));
    return OkStatus();
  }

  Status AddNode(NodeDef& n) {
    if (!n.domain.empty()) {
      int64_t version = 0;
      for (const auto& [domain, v] : model_.opsets)
        if (domain == n.domain) version = v;
      return Errorf(Code::kNotImplemented, "operator %s (domain %s, opset %lld) is not supported.",
                    n.op_type.c_str(), n.domain.c_str(), static_cast<long long>(version));
    }
    if (opset_ < 1) return InvalidArgument("the model does not say which ONNX opset it uses.");
    if (n.outputs.empty()) return InvalidArgument("it has no outputs.");
    if (!n.wrong_attr.empty()) return InvalidArgument("%s", n.wrong_attr.c_str());
    Call c{n.op_type, n.name, {}, std::move(n.outputs), std::move(n.attrs)};
    for (const std::string& in : n.inputs) {
      if (in.empty()) {
        c.inputs.push_back(graph::kNoValue);
        continue;
      }
      OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, Lookup(in));
      c.inputs.push_back(v);
    }
    const bool control = c.op_type == "If" || c.op_type == "Loop" || c.op_type == "Scan";
    if (!control && !n.graphs.empty()) n.unsupported_attr = n.graphs[0].first;
    if (!op::FindOperator(c.op_type) || !n.unsupported_attr.empty()) {
      if (!IsReplaced(c.op_type) && !op::FindOperator(c.op_type)) return Unknown(c.op_type);
      if (!n.unsupported_attr.empty())
        return Errorf(Code::kNotImplemented,
                      "attribute \"%s\" is a subgraph, a sparse tensor or a type, which is not supported.",
                      n.unsupported_attr.c_str());
    }
    if (control) return AddControl(n, std::move(c));
    while (c.outputs.size() > 1 && c.outputs.back().empty()) c.outputs.pop_back();
    OPSNN_RETURN_IF_ERROR(CheckOperands(c));
    OPSNN_RETURN_IF_ERROR(Normalize(builder_, c, opset_));
    return c.op_type.empty() ? OkStatus() : builder_.Emit(std::move(c), opset_);
  }

  // Operators that Normalize replaces by others; all others must be known.
  static bool IsReplaced(const std::string& op_type) {
    for (const char* op : {"CastLike", "Constant", "Scatter", "Upsample"})
      if (op_type == op) return true;
    return false;
  }

  // Rules read input 0 and 1 of some operators without asking.
  Status CheckOperands(const Call& c) {
    const bool reads_none = c.op_type == "Constant";
    if (!reads_none && !c.inputs.empty() && c.inputs[0] == graph::kNoValue)
      return InvalidArgument("its first input is missing.");
    for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "Dropout", "Upsample", "Resize"})
      if (c.op_type == op && c.inputs.empty()) return InvalidArgument("its first input is missing.");
    if (opset_ <= 6 && c.attrs.Has("broadcast") && (c.inputs.size() < 2 || c.inputs[1] == graph::kNoValue))
      return InvalidArgument("its second input is missing.");
    return OkStatus();
  }

  Status Unknown(const std::string& op_type) const {
    return Errorf(Code::kNotImplemented, "operator %s (domain ai.onnx, opset %lld) is not supported.",
                  op_type.c_str(), static_cast<long long>(opset_));
  }

  Model model_;
  graph::Graph graph_;
  GraphBuilder builder_;
  Importer* outer_ = nullptr;             // of a graph inside a node
  std::vector<graph::ValueId> captured_;  // values of `outer_` that this graph reads
  int64_t opset_ = 0;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The folder of the file that the path leads to, where it is a link; "" where it is none.
std::string LinkedFolder(const std::string& path) {
  struct stat st;
  char buffer[PATH_MAX];
  if (lstat(path.c_str(), &st) != 0 || !S_ISLNK(st.st_mode) || !realpath(path.c_str(), buffer)) return "";
  return FolderOf(buffer);
}

Result<graph::Graph> Import(std::string_view bytes, const DataFolder& folder) {
  // Containers throw; no exception leaves the module.
  return NoThrow([&]() -> Result<graph::Graph> {
    OPSNN_ASSIGN_OR_RETURN(Model model, ReadModel(bytes, folder));
    return Importer(std::move(model)).Run();
  });
}

}  // namespace

Result<graph::Graph> ImportBytes(std::string_view bytes, const std::string& folder) {
  return Import(bytes, {folder, ""});
}

Result<graph::Graph> ImportFile(const std::string& path) {
  OPSNN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  Result<graph::Graph> g = Import(file.bytes(), {FolderOf(path), LinkedFolder(path)});
  if (!g.ok()) return g.status().WithContext(path);
  if (g->name.empty()) g->name = path.substr(path.rfind('/') + 1);
  return g;
}

Result<std::unique_ptr<graph::Session>> LoadSession(const std::string& path,
                                                    const graph::SessionOptions& options) {
  OPSNN_ASSIGN_OR_RETURN(graph::Graph g, ImportFile(path));
  auto s = graph::Session::Create(std::move(g), options);
  if (!s.ok()) return s.status().WithContext(path);
  return s;
}

Result<std::unique_ptr<graph::Session>> LoadSessionFromBytes(std::string_view bytes,
                                                             const graph::SessionOptions& options) {
  OPSNN_ASSIGN_OR_RETURN(graph::Graph g, ImportBytes(bytes));
  return graph::Session::Create(std::move(g), options);
}

}  // namespace opsnn::onnx
