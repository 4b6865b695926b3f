// What the reader takes out of an ONNX file: plain structs, close to the schema, tensors already copied.
#ifndef OPSNN_ONNX_MODEL_H_
#define OPSNN_ONNX_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "onnx/external_data.h"
#include "op/attrs.h"
#include "tensor/host_tensor.h"

namespace opsnn::onnx {

struct Model;

struct NodeDef {
  std::string name, op_type, domain;
  std::vector<std::string> inputs, outputs;  // "" where an optional operand is absent
  op::Attrs attrs;
  std::vector<std::pair<std::string, std::shared_ptr<Model>>> graphs;  // attributes that are graphs
  std::string unsupported_attr;  // an attribute of a kind we cannot hold (subgraph, sparse, ...), or ""
  std::string wrong_attr;        // a sentence on an attribute that contradicts itself or another, or ""
};

struct ValueInfo {
  std::string name;
  int elem_type = 0;  // TensorProto.DataType; 0: not said
  bool is_tensor = true;
  bool has_shape = false;
  std::vector<int64_t> dims;           // kUnknownDim where symbolic
  std::vector<std::string> dim_names;  // "" where known or anonymous
};

struct Model {
  int64_t ir_version = 0;
  std::string producer, graph_name;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain ("" is ai.onnx), version
  bool has_graph = false;
  std::vector<NodeDef> nodes;
  std::vector<std::pair<std::string, ConstTensor>> initializers;
  std::vector<ValueInfo> inputs, outputs, values;  // values: declared for what lies between
};

// Parses the bytes of a ModelProto. `folder` is where external tensor data is looked up; without one a model
// with external data is refused. Any input gives a Model or a one-sentence error.
Result<Model> ReadModel(std::string_view bytes, const DataFolder& folder);

// "float", "int64", ... of a TensorProto.DataType, for messages.
std::string DataTypeName(int64_t onnx_type);

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_MODEL_H_
