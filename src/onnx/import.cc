#include "onnx/import.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <unordered_set>
#include <utility>

#include "base/caught.h"
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

  Result<graph::Graph> Run() {
    graph_.name = model_.graph_name;
    OPSNN_RETURN_IF_ERROR(FindVersions());
    OPSNN_RETURN_IF_ERROR(AddBorder());
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      NodeDef& n = model_.nodes[i];
      if (n.name.empty()) n.name = StrFormat("%s_%zu", n.op_type.c_str(), i);
      const Status s = AddNode(n);
      if (!s.ok()) return s.WithContext("node \"" + n.name + "\" (" + n.op_type + ")");
    }
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
      OPSNN_ASSIGN_OR_RETURN(const graph::ValueId v, builder_.Find(in));
      c.inputs.push_back(v);
    }
    if (!op::FindOperator(c.op_type) || !n.unsupported_attr.empty()) {
      if (!IsReplaced(c.op_type) && !op::FindOperator(c.op_type)) return Unknown(c.op_type);
      if (!n.unsupported_attr.empty())
        return Errorf(Code::kNotImplemented,
                      "attribute \"%s\" is a subgraph, a sparse tensor or a type, which is not supported.",
                      n.unsupported_attr.c_str());
    }
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
