// ModelWriter: small ONNX models in memory. For tests.
#ifndef OPSNN_ONNX_MODEL_WRITER_H_
#define OPSNN_ONNX_MODEL_WRITER_H_

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "onnx/onnx_fields.h"

namespace opsnn::onnx {

struct AttrWriter {
  std::string bytes;
  static AttrWriter Int(const std::string& name, int64_t v) {
    AttrWriter a(name, 2);
    protozero::pbf_writer(a.bytes).add_int64(field::AttributeProto::i, v);
    return a;
  }
  static AttrWriter Float(const std::string& name, float v) {
    AttrWriter a(name, 1);
    protozero::pbf_writer(a.bytes).add_float(field::AttributeProto::f, v);
    return a;
  }
  static AttrWriter String(const std::string& name, const std::string& v) {
    AttrWriter a(name, 3);
    protozero::pbf_writer(a.bytes).add_bytes(field::AttributeProto::s, v);
    return a;
  }
  static AttrWriter Ints(const std::string& name, const std::vector<int64_t>& v) {
    AttrWriter a(name, 7);
    protozero::pbf_writer w(a.bytes);
    for (int64_t i : v) w.add_int64(field::AttributeProto::ints, i);
    return a;
  }
  static AttrWriter Floats(const std::string& name, const std::vector<float>& v) {
    AttrWriter a(name, 6);
    protozero::pbf_writer w(a.bytes);
    for (float f : v) w.add_float(field::AttributeProto::floats, f);
    return a;
  }
  static AttrWriter Tensor(const std::string& name, const std::string& tensor) {
    AttrWriter a(name, 4);
    protozero::pbf_writer(a.bytes).add_message(field::AttributeProto::t, tensor);
    return a;
  }
  static AttrWriter Graph(const std::string& name, const std::string& graph = {}) {
    AttrWriter a(name, 5);
    protozero::pbf_writer(a.bytes).add_message(field::AttributeProto::g, graph);
    return a;
  }

 private:
  AttrWriter(const std::string& name, int32_t type) {
    protozero::pbf_writer w(bytes);
    w.add_string(field::AttributeProto::name, name);
    w.add_enum(field::AttributeProto::type, type);
  }
};

// A TensorProto with raw data.
template <typename T>
std::string RawTensor(const std::string& name, int32_t type, const std::vector<int64_t>& dims,
                      const std::vector<T>& values) {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  for (int64_t d : dims) w.add_int64(field::TensorProto::dims, d);
  w.add_int32(field::TensorProto::data_type, type);
  w.add_string(field::TensorProto::name, name);
  w.add_bytes(field::TensorProto::raw_data, reinterpret_cast<const char*>(values.data()),
              values.size() * sizeof(T));
  return bytes;
}

class ModelWriter {
 public:
  explicit ModelWriter(int64_t opset) : opset_(opset) {}

  // dims: a number, or a name for a symbolic size.
  ModelWriter& Input(const std::string& name, const std::vector<std::string>& dims, int32_t type = 1) {
    return Border(field::GraphProto::input, name, dims, type);
  }
  ModelWriter& Output(const std::string& name, const std::vector<std::string>& dims = {}, int32_t type = 1) {
    return Border(field::GraphProto::output, name, dims, type);
  }
  ModelWriter& ValueInfo(const std::string& name, const std::vector<std::string>& dims, int32_t type = 1) {
    return Border(field::GraphProto::value_info, name, dims, type);
  }
  ModelWriter& IrVersion(int64_t version) {
    ir_version_ = version;
    return *this;
  }
  ModelWriter& Opset(const std::string& domain, int64_t version) {
    std::string id;
    protozero::pbf_writer w(id);
    w.add_string(field::OperatorSetIdProto::domain, domain);
    w.add_int64(field::OperatorSetIdProto::version, version);
    protozero::pbf_writer(more_opsets_).add_message(field::ModelProto::opset_import, id);
    return *this;
  }
  ModelWriter& Initializer(const std::string& tensor) {
    protozero::pbf_writer(graph_).add_message(field::GraphProto::initializer, tensor);
    return *this;
  }
  ModelWriter& Node(const std::string& op, const std::vector<std::string>& in,
                    const std::vector<std::string>& out, const std::vector<AttrWriter>& attrs = {},
                    const std::string& domain = "") {
    std::string node;
    protozero::pbf_writer w(node);
    for (const std::string& s : in) w.add_string(field::NodeProto::input, s);
    for (const std::string& s : out) w.add_string(field::NodeProto::output, s);
    w.add_string(field::NodeProto::op_type, op);
    if (!domain.empty()) w.add_string(field::NodeProto::domain, domain);
    for (const AttrWriter& a : attrs) w.add_message(field::NodeProto::attribute, a.bytes);
    protozero::pbf_writer(graph_).add_message(field::GraphProto::node, node);
    return *this;
  }
  const std::string& GraphBytes() const { return graph_; }  // for AttrWriter::Graph
  std::string Bytes() const {
    std::string model, id;
    protozero::pbf_writer(id).add_int64(field::OperatorSetIdProto::version, opset_);
    protozero::pbf_writer w(model);
    if (ir_version_) w.add_int64(field::ModelProto::ir_version, ir_version_);
    w.add_message(field::ModelProto::graph, graph_);
    w.add_message(field::ModelProto::opset_import, id);
    return model + more_opsets_;
  }

 private:
  ModelWriter& Border(uint32_t list, const std::string& name, const std::vector<std::string>& dims,
                      int32_t type) {
    std::string shape, tensor, type_proto, info;
    for (const std::string& d : dims) {
      std::string dim;
      protozero::pbf_writer w(dim);
      if (!d.empty() && (d[0] == '-' || (d[0] >= '0' && d[0] <= '9'))) {
        w.add_int64(field::TensorShapeProto_Dimension::dim_value, std::stoll(d));
      } else if (!d.empty()) {
        w.add_string(field::TensorShapeProto_Dimension::dim_param, d);
      }
      protozero::pbf_writer(shape).add_message(field::TensorShapeProto::dim, dim);
    }
    protozero::pbf_writer t(tensor);
    t.add_int32(field::TypeProto_Tensor::elem_type, type);
    if (!dims.empty()) t.add_message(field::TypeProto_Tensor::shape, shape);
    protozero::pbf_writer(type_proto).add_message(field::TypeProto::tensor_type, tensor);
    protozero::pbf_writer w(info);
    w.add_string(field::ValueInfoProto::name, name);
    w.add_message(field::ValueInfoProto::type, type_proto);
    protozero::pbf_writer(graph_).add_message(list, info);
    return *this;
  }

  int64_t opset_, ir_version_ = 7;
  std::string graph_, more_opsets_;
};

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_MODEL_WRITER_H_
