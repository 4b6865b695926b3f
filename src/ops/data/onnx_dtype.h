// Attributes that hold an ONNX dtype number.
#ifndef OPSNN_OPS_DATA_ONNX_DTYPE_H_
#define OPSNN_OPS_DATA_ONNX_DTYPE_H_

#include "op/attrs.h"

namespace opsnn::ops {

// The dtype named by attribute `name`, `fallback` when it is absent; an error names what is allowed.
inline Result<DType> DTypeAttr(const char* op, const op::Attrs& attrs, const char* name, DType fallback) {
  if (!attrs.Has(name)) return fallback;
  const int64_t number = attrs.Int(name, 0);
  const auto t = number > 0 && number < 64 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (t) return *t;
  std::string allowed;
  for (const DTypeInfo& info : kDTypeInfo) {
    allowed += StrFormat("%s%d (%s)", allowed.empty() ? "" : ", ", int{info.onnx}, info.name);
  }
  return InvalidArgument("%s: attribute %s is %lld; allowed: %s", op, name, static_cast<long long>(number),
                         allowed.c_str());
}

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_DATA_ONNX_DTYPE_H_
