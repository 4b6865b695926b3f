// TensorProto -> HostTensor.
#ifndef OPSNN_ONNX_TENSOR_DATA_H_
#define OPSNN_ONNX_TENSOR_DATA_H_

#include <string>
#include <utility>

#include "onnx/external_data.h"
#include "onnx/wire.h"
#include "tensor/host_tensor.h"

namespace opsnn::onnx {

// Name and value of a TensorProto; throws ReadError.
std::pair<std::string, ConstTensor> ReadTensor(Message m, const DataFolder& folder);

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_TENSOR_DATA_H_
