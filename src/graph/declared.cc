#include "graph/declared.h"

#include <cctype>
#include <map>
#include <string_view>
#include <unordered_map>

#include "base/knobs.h"
#include "base/log.h"

namespace opsnn::graph {
namespace {

// ONNX wants names of dims to be identifiers. Exporters also write "?", "-1" and the like for "any".
bool IsName(const std::string& name) {
  if (name.empty() || name == "None" || name == "none") return false;
  bool wordlike = std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  for (const char c : name) wordlike = wordlike && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  return wordlike;
}

std::string Producer(const Graph& g, ValueId v) {
  const NodeId n = g.values[v].producer;
  return n < 0 ? "" : " of node \"" + g.nodes[n].name + "\" (" + g.nodes[n].op->name + ")";
}

}  // namespace

std::string DimsText(const Dims& dims, const std::vector<std::string>& names) {
  std::string s = "[";
  for (int i = 0; i < dims.rank(); ++i) {
    const bool named = i < static_cast<int>(names.size()) && !names[static_cast<size_t>(i)].empty();
    s += (i ? "," : "") + (dims[i] >= 0 ? std::to_string(dims[i])
                           : named      ? names[static_cast<size_t>(i)]
                                        : std::string("?"));
  }
  return s + "]";
}

Status CheckDeclared(const Graph& g, const Declared& d, ValueId v, bool sizes_fixed) {
  const op::TensorDesc& found = g.values[v].desc;
  const auto who = [&] { return std::string(d.kind) + " \"" + d.value + "\"" + Producer(g, v); };
  if (d.dtype && *d.dtype != found.dtype)
    return InvalidArgument("%s has dtype %s; the model declares %s.", who().c_str(), Name(found.dtype),
                           Name(*d.dtype));
  if (!d.known_rank || !found.known_rank) return OkStatus();
  std::string wrong;  // the dims that contradict
  if (d.dims.rank() == found.dims.rank()) {
    for (int i = 0; i < d.dims.rank(); ++i)
      if (d.dims[i] >= 0 && found.dims[i] >= 0 && d.dims[i] != found.dims[i])
        wrong += StrFormat("%sdim %d is %lld, not %lld", wrong.empty() ? "" : ", ", i,
                           static_cast<long long>(found.dims[i]), static_cast<long long>(d.dims[i]));
    if (wrong.empty()) return OkStatus();
  } else {
    wrong = StrFormat("rank %d, not %d", found.dims.rank(), d.dims.rank());
    sizes_fixed = true;
  }
  const std::string text = who() + " has shape " + DimsText(found.dims, g.values[v].dim_names) +
                           "; the model declares " + DimsText(d.dims, d.dim_names) + " (" + wrong + ").";
  if (sizes_fixed || GetKnobs().strict) return InvalidArgument("%s", text.c_str());
  OPSNN_LOG(kWarn, "%s", text.c_str());
  return OkStatus();
}

std::vector<ValueId> DeclaredValues(const Graph& g) {
  std::vector<ValueId> values;
  if (g.declared.empty()) return values;
  std::unordered_map<std::string_view, ValueId> ids;
  for (size_t v = 0; v < g.values.size(); ++v) ids[g.values[v].name] = static_cast<ValueId>(v);
  for (const Declared& d : g.declared) {
    const auto it = ids.find(d.value);
    values.push_back(it == ids.end() ? kNoValue : it->second);
  }
  return values;
}

Status CheckAllDeclared(const Graph& g, const std::vector<ValueId>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != kNoValue) OPSNN_RETURN_IF_ERROR(CheckDeclared(g, g.declared[i], values[i], false));
  return OkStatus();
}

Status CheckDimNames(const Graph& g, const std::vector<Dims>& dims) {
  struct First {
    size_t input;
    int dim;
    int64_t size;
  };
  std::map<std::string_view, First> bound;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Value& v = g.values[g.inputs[i]];
    for (int k = 0; k < dims[i].rank() && k < static_cast<int>(v.dim_names.size()); ++k) {
      const std::string& name = v.dim_names[static_cast<size_t>(k)];
      if (!IsName(name)) continue;
      const auto [it, fresh] = bound.emplace(name, First{i, k, dims[i][k]});
      if (fresh || it->second.size == dims[i][k]) continue;
      return InvalidArgument(
          "input \"%s\" of shape %s: its dim %d (%s) is %lld, but dim %d of input \"%s\" (%s as well) is "
          "%lld; "
          "dims of one name must be equal.",
          v.name.c_str(), ToString(dims[i]).c_str(), k, name.c_str(), static_cast<long long>(dims[i][k]),
          it->second.dim, g.values[g.inputs[it->second.input]].name.c_str(), name.c_str(),
          static_cast<long long>(it->second.size));
    }
  }
  return OkStatus();
}

}  // namespace opsnn::graph
