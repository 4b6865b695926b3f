// ONNX -> Graph.
#ifndef OPSNN_ONNX_IMPORT_H_
#define OPSNN_ONNX_IMPORT_H_

#include <memory>
#include <string>
#include <string_view>

#include "graph/ir/graph.h"
#include "graph/session.h"

namespace opsnn::onnx {

// Reads a model file. Operators come out in the form of the latest opset, Constant nodes and initializers as
// constants, symbolic dimensions with their names. Each node's `origins` is its own id.
// Errors are one sentence that starts with the path and names the node.
Result<graph::Graph> ImportFile(const std::string& path);
// The same from bytes; `folder` is where external tensor data lies ("" = such models are refused).
Result<graph::Graph> ImportBytes(std::string_view bytes, const std::string& folder = "");

// Import and graph::Session::Create in one step.
Result<std::unique_ptr<graph::Session>> LoadSession(const std::string& path,
                                                    const graph::SessionOptions& options);
Result<std::unique_ptr<graph::Session>> LoadSessionFromBytes(std::string_view bytes,
                                                             const graph::SessionOptions& options);

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_IMPORT_H_
