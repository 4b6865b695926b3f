#include "onnx/model.h"
#include "onnx/onnx_fields.h"
#include "onnx/tensor_data.h"
#include "onnx/wire.h"

namespace opsnn::onnx {
namespace {

class Reader {
 public:
  explicit Reader(const DataFolder& folder) : folder_(folder) {}

  Model ReadModelProto(Message m) {
    namespace f = field::ModelProto;
    while (m.Next()) {
      switch (m.field()) {
        case f::ir_version:
          model_.ir_version = m.Int();
          break;
        case f::producer_name:
          model_.producer = m.String();
          break;
        case f::opset_import:
          ReadOpset(m.Sub());
          break;
        case f::graph:
          ReadGraph(m.Sub(), &model_);
          break;
        default:
          break;
      }
    }
    return std::move(model_);
  }

 private:
  void ReadOpset(Message m) {
    std::string domain;
    int64_t version = 0;
    while (m.Next()) {
      if (m.field() == field::OperatorSetIdProto::domain) domain = m.String();
      if (m.field() == field::OperatorSetIdProto::version) version = m.Int();
    }
    model_.opsets.emplace_back(domain == "ai.onnx" ? "" : domain, version);
  }

  void ReadGraph(Message m, Model* into) {
    namespace f = field::GraphProto;
    into->has_graph = true;
    while (m.Next()) {
      switch (m.field()) {
        case f::name:
          into->graph_name = m.String();
          break;
        case f::node:
          into->nodes.push_back(ReadNode(m.Sub()));
          break;
        case f::initializer:
          into->initializers.push_back(ReadTensor(m.Sub(), folder_));
          break;
        case f::input:
          into->inputs.push_back(ReadValueInfo(m.Sub()));
          break;
        case f::output:
          into->outputs.push_back(ReadValueInfo(m.Sub()));
          break;
        case f::value_info:
          into->values.push_back(ReadValueInfo(m.Sub()));
          break;
        case f::sparse_initializer:
          throw ReadError{InvalidArgument("the model has sparse initializers, which are not supported.")};
        default:
          break;
      }
    }
  }

  NodeDef ReadNode(Message m) {
    namespace f = field::NodeProto;
    NodeDef n;
    while (m.Next()) {
      switch (m.field()) {
        case f::input:
          n.inputs.push_back(m.String());
          break;
        case f::output:
          n.outputs.push_back(m.String());
          break;
        case f::name:
          n.name = m.String();
          break;
        case f::op_type:
          n.op_type = m.String();
          break;
        case f::domain:
          n.domain = m.String();
          break;
        case f::attribute:
          ReadAttribute(m.Sub(), &n);
          break;
        default:
          break;
      }
    }
    if (n.domain == "ai.onnx") n.domain.clear();
    return n;
  }

  // The schema says which member is set through `type`; early writers left it out, so the member that is
  // there decides where it is missing. A proto3 writer leaves out a zero, an empty string and an empty list.
  void ReadAttribute(Message m, NodeDef* n) {
    namespace f = field::AttributeProto;
    std::string name;
    int64_t type = 0, members = 0;  // members: one bit per type that has a value
    op::AttrValue value = int64_t{0};
    bool unsupported = false;
    std::shared_ptr<Model> graph;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> strings;
    const auto set = [&](int64_t of_type, op::AttrValue v) {
      value = std::move(v), members |= int64_t{1} << of_type;
    };
    while (m.Next()) {
      switch (m.field()) {
        case f::name:
          name = m.String();
          break;
        case f::type:
          type = m.Int();
          break;
        case f::f:
          set(kFloat, static_cast<double>(m.Float()));
          break;
        case f::i:
          set(kInt, m.Int());
          break;
        case f::s:
          set(kString, m.String());
          break;
        case f::t:
          set(kTensor, ReadTensor(m.Sub(), folder_).second);
          break;
        case f::ints:
          m.Append(&ints);
          break;
        case f::floats:
          m.Append(&floats);
          break;
        case f::strings:
          strings.push_back(m.String());
          break;
        case f::g:
          graph = ReadBody(m.Sub());
          break;
        case f::graphs:
        case f::tensors:
        case f::tp:
        case f::type_protos:
        case f::sparse_tensor:
        case f::sparse_tensors:
        case f::ref_attr_name:
          unsupported = true;
          break;
        default:
          break;
      }
    }
    if (!floats.empty()) set(kFloats, std::vector<double>(floats.begin(), floats.end()));
    if (!ints.empty()) set(kInts, std::move(ints));
    if (!strings.empty()) set(kStrings, std::move(strings));
    if (graph && !unsupported) {
      n->graphs.emplace_back(name, std::move(graph));
      return;
    }
    if (unsupported) {
      n->unsupported_attr = name;
      return;
    }
    if (n->wrong_attr.empty()) n->wrong_attr = WrongAttribute(*n, name, type, members);
    if (members == 0) {
      if (type == kFloat) value = 0.0;
      if (type == kString) value = std::string();
      if (type == kFloats) value = std::vector<double>();
      if (type == kInts) value = std::vector<int64_t>();
      if (type == kStrings) value = std::vector<std::string>();
      if (type == 0 || type == kTensor) return;
    }
    n->attrs.Set(name, std::move(value));
  }

  // A graph inside a node.
  std::shared_ptr<Model> ReadBody(Message m) {
    constexpr int kDeepest = 16;
    if (depth_ == kDeepest)
      throw ReadError{
          InvalidArgument("graphs are nested more than %d deep, which is not supported.", kDeepest)};
    ++depth_;
    auto body = std::make_shared<Model>();
    ReadGraph(m, body.get());
    --depth_;
    return body;
  }

  // AttributeType of the schema.
  enum : int64_t { kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kFloats = 6, kInts = 7, kStrings = 8 };

  // What contradicts itself in an attribute, or "".
  static std::string WrongAttribute(const NodeDef& n, const std::string& name, int64_t type,
                                    int64_t members) {
    static constexpr const char* kNames[] = {"", "FLOAT",  "INT",  "STRING", "TENSOR",
                                             "", "FLOATS", "INTS", "STRINGS"};
    std::string held;
    for (int64_t t = 1; t < static_cast<int64_t>(std::size(kNames)); ++t)
      if (members >> t & 1) held += (held.empty() ? "" : " and ") + std::string(kNames[t]);
    if (name.empty()) return "an attribute has no name.";
    if (n.attrs.Has(name)) return "attribute \"" + name + "\" is given twice; allowed: once.";
    if (members & (members - 1))
      return "attribute \"" + name + "\" holds values of " + held + "; allowed: of one type.";
    if (type > 0 && type < static_cast<int64_t>(std::size(kNames)) && members != 0 && !(members >> type & 1))
      return "attribute \"" + name + "\" is declared as " + kNames[type] + " and holds " + held + ".";
    return "";
  }

  ValueInfo ReadValueInfo(Message m) {
    ValueInfo v;
    while (m.Next()) {
      if (m.field() == field::ValueInfoProto::name) v.name = m.String();
      if (m.field() == field::ValueInfoProto::type) ReadType(m.Sub(), &v);
    }
    return v;
  }

  void ReadType(Message m, ValueInfo* v) {
    namespace f = field::TypeProto;
    while (m.Next()) {
      switch (m.field()) {
        case f::tensor_type:
          ReadTensorType(m.Sub(), v);
          break;
        case f::sequence_type:
        case f::map_type:
        case f::optional_type:
        case f::sparse_tensor_type:
          v->is_tensor = false;
          break;
        default:
          break;
      }
    }
  }

  void ReadTensorType(Message m, ValueInfo* v) {
    while (m.Next()) {
      if (m.field() == field::TypeProto_Tensor::elem_type) v->elem_type = static_cast<int>(m.Int());
      if (m.field() != field::TypeProto_Tensor::shape) continue;
      v->has_shape = true;
      Message shape = m.Sub();
      while (shape.Next())
        if (shape.field() == field::TensorShapeProto::dim) ReadDim(shape.Sub(), v);
    }
  }

  void ReadDim(Message m, ValueInfo* v) {
    int64_t size = kUnknownDim;
    std::string param;
    while (m.Next()) {
      if (m.field() == field::TensorShapeProto_Dimension::dim_value) size = m.Int();
      if (m.field() == field::TensorShapeProto_Dimension::dim_param) param = m.String();
    }
    if (size < 0) size = kUnknownDim;  // some exporters write -1 for "any"
    v->dims.push_back(size);
    v->dim_names.push_back(size == kUnknownDim ? param : "");
  }

  const DataFolder& folder_;
  Model model_;
  int depth_ = 0;  // of graphs inside nodes
};

}  // namespace

Result<Model> ReadModel(std::string_view bytes, const DataFolder& folder) {
  if (bytes.empty()) return InvalidArgument("the model is empty (0 bytes).");
  try {
    Model m = Reader(folder).ReadModelProto(Message(bytes));
    if (!m.has_graph) return InvalidArgument("the bytes are not a valid ONNX model (there is no graph).");
    return m;
  } catch (const ReadError& e) {
    return e.status;
  }
}

std::string DataTypeName(int64_t t) {
  static constexpr const char* kNames[] = {
      "undefined", "float",   "uint8",  "int8",   "uint16", "int16",     "int32",      "int64",   "string",
      "bool",      "float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"};
  if (t >= 0 && t < static_cast<int64_t>(std::size(kNames))) return kNames[t];
  return StrFormat("%lld (unknown)", static_cast<long long>(t));
}

}  // namespace opsnn::onnx
