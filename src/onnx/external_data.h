// Tensor data that lies in a file beside the model.
#ifndef OPSNN_ONNX_EXTERNAL_DATA_H_
#define OPSNN_ONNX_EXTERNAL_DATA_H_

#include <cstdint>
#include <string>

#include "onnx/mapped_file.h"
#include "onnx/wire.h"

namespace opsnn::onnx {

// The entries of a TensorProto's external_data, as text.
struct ExternalData {
  bool has_location = false, has_offset = false, has_length = false;
  std::string location, offset, length;

  // One StringStringEntryProto; keys that are not known (a checksum) are passed over.
  void ReadEntry(Message m);
};

// Where a model's files may lie.
struct DataFolder {
  std::string path;    // of the model; "": it came as bytes, and there are none
  std::string linked;  // where the model's name is a link: the folder of what it leads to
};

// Copies the `need` bytes of a tensor. The file must lie in the folder or below, links followed. An error
// continues the sentence "tensor NAME ".
Status CopyExternal(const ExternalData& data, const DataFolder& folder, uint64_t need, void* out);

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_EXTERNAL_DATA_H_
