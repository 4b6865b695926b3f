#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "onnx/onnx_fields.h"
#include "opsnn/selftest.h"
#include "protozero/pbf_writer.hpp"

namespace opsnn {
namespace {

namespace field = onnx::field;
using protozero::pbf_writer;

constexpr int kFloat = 1;                   // TensorProto.DataType
constexpr int kAttrInt = 2, kAttrInts = 7;  // AttributeProto.AttributeType
constexpr int kOpset = 17, kIrVersion = 8;

struct Attr {
  const char* name;
  std::vector<int64_t> ints;
};

class Writer {
 public:
  explicit Writer(std::string* graph) : graph_(*graph) {}

  void Node(const char* op, const std::vector<std::string>& inputs, const std::string& output,
            const std::vector<Attr>& attrs = {}) {
    pbf_writer node(graph_, field::GraphProto::node);
    for (const std::string& i : inputs) node.add_string(field::NodeProto::input, i);
    node.add_string(field::NodeProto::output, output);
    node.add_string(field::NodeProto::name, "node_" + output);
    node.add_string(field::NodeProto::op_type, op);
    for (const Attr& a : attrs) {
      pbf_writer attr(node, field::NodeProto::attribute);
      attr.add_string(field::AttributeProto::name, a.name);
      if (a.ints.size() == 1) {
        attr.add_int64(field::AttributeProto::i, a.ints[0]);
        attr.add_enum(field::AttributeProto::type, kAttrInt);
      } else {
        for (int64_t v : a.ints) attr.add_int64(field::AttributeProto::ints, v);
        attr.add_enum(field::AttributeProto::type, kAttrInts);
      }
    }
  }

  // Weights from a small linear congruential generator, uniform with the variance that keeps activations in
  // scale.
  void Weights(const std::string& name, const std::vector<int64_t>& dims, int64_t fan_in) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    const float range = std::sqrt(6.0f / static_cast<float>(fan_in));
    std::string raw(static_cast<size_t>(n) * sizeof(float), '\0');
    for (int64_t i = 0; i < n; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      const float v = (static_cast<float>(state_ >> 8) * 0x1p-23f - 1) * range;
      std::memcpy(&raw[static_cast<size_t>(i) * sizeof(float)], &v, sizeof v);
    }
    pbf_writer tensor(graph_, field::GraphProto::initializer);
    for (int64_t d : dims) tensor.add_int64(field::TensorProto::dims, d);
    tensor.add_int32(field::TensorProto::data_type, kFloat);
    tensor.add_string(field::TensorProto::name, name);
    tensor.add_bytes(field::TensorProto::raw_data, raw);
  }

  // A float input or output; names stand for symbolic dims, numbers for fixed ones.
  void Border(uint32_t kind, const std::string& name, const std::vector<std::string>& dims) {
    pbf_writer value(graph_, kind);
    value.add_string(field::ValueInfoProto::name, name);
    pbf_writer type(value, field::ValueInfoProto::type);
    pbf_writer tensor(type, field::TypeProto::tensor_type);
    tensor.add_enum(field::TypeProto_Tensor::elem_type, kFloat);
    pbf_writer shape(tensor, field::TypeProto_Tensor::shape);
    for (const std::string& d : dims) {
      pbf_writer dim(shape, field::TensorShapeProto::dim);
      if (d[0] >= '0' && d[0] <= '9')
        dim.add_int64(field::TensorShapeProto_Dimension::dim_value, std::stoll(d));
      else
        dim.add_string(field::TensorShapeProto_Dimension::dim_param, d);
    }
  }

 private:
  pbf_writer graph_;
  uint32_t state_ = 1;
};

void WriteGraph(std::string* bytes) {
  Writer w(bytes);
  w.Border(field::GraphProto::input, "image", {"N", "3", "H", "W"});
  w.Border(field::GraphProto::output, "probability", {"N", "10"});
  w.Weights("stem_w", {24, 3, 3, 3}, 27);
  w.Weights("stem_b", {24}, 24);
  w.Node("Conv", {"image", "stem_w", "stem_b"}, "stem", {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});
  w.Node("Relu", {"stem"}, "stem_relu");
  w.Weights("depthwise_w", {24, 1, 3, 3}, 9);
  w.Weights("depthwise_b", {24}, 24);
  w.Node("Conv", {"stem_relu", "depthwise_w", "depthwise_b"}, "depthwise",
         {{"group", {24}}, {"pads", {1, 1, 1, 1}}});
  w.Node("HardSwish", {"depthwise"}, "depthwise_act");
  w.Weights("point_w", {24, 24, 1, 1}, 24);
  w.Weights("point_b", {24}, 24);
  w.Node("Conv", {"depthwise_act", "point_w", "point_b"}, "point");
  w.Node("Add", {"point", "stem_relu"}, "residual");
  w.Node("Relu", {"residual"}, "residual_relu");
  w.Node("GlobalAveragePool", {"residual_relu"}, "pooled");
  w.Node("Flatten", {"pooled"}, "features", {{"axis", {1}}});
  w.Weights("fc_w", {10, 24}, 24);
  w.Weights("fc_b", {10}, 10);
  w.Node("Gemm", {"features", "fc_w", "fc_b"}, "logits", {{"transB", {1}}});
  w.Node("Softmax", {"logits"}, "probability", {{"axis", {1}}});
}

}  // namespace

std::string SelftestModel() {
  std::string graph;
  WriteGraph(&graph);
  pbf_writer(graph).add_string(field::GraphProto::name, "selftest");
  std::string model;
  pbf_writer m(model);
  m.add_int64(field::ModelProto::ir_version, kIrVersion);
  m.add_string(field::ModelProto::producer_name, "opsnn");
  m.add_message(field::ModelProto::graph, graph);
  pbf_writer opset(m, field::ModelProto::opset_import);
  opset.add_int64(field::OperatorSetIdProto::version, kOpset);
  return model;
}

}  // namespace opsnn
