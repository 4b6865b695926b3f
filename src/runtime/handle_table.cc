#include "runtime/handle_table.h"

namespace opsnn::runtime {

const char* Name(HandleKind kind) {
  switch (kind) {
    case HandleKind::kTensor:
      return "aclTensor";
    case HandleKind::kScalar:
      return "aclScalar";
    case HandleKind::kIntArray:
      return "aclIntArray";
    case HandleKind::kFloatArray:
      return "aclFloatArray";
    case HandleKind::kBoolArray:
      return "aclBoolArray";
    case HandleKind::kTensorList:
      return "aclTensorList";
    case HandleKind::kScalarList:
      return "aclScalarList";
    case HandleKind::kExecutor:
      return "aclOpExecutor";
    case HandleKind::kStream:
      return "aclrtStream";
    case HandleKind::kEvent:
      return "aclrtEvent";
    case HandleKind::kContext:
      return "aclrtContext";
    case HandleKind::kDataBuffer:
      return "aclDataBuffer";
    case HandleKind::kModel:
      return "aclmdlRI";
    case HandleKind::kNotify:
      return "aclrtNotify";
    case HandleKind::kCntNotify:
      return "aclrtCntNotify";
    case HandleKind::kStreamConfig:
      return "aclrtStreamConfigHandle";
    case HandleKind::kNone:
      break;
  }
  return "unknown object";
}

}  // namespace opsnn::runtime
