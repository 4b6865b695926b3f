// The support table of the aclnn functions, generated: every published function, and which operator serves
// it.
#ifndef OPSNN_CAPI_LISTING_H_
#define OPSNN_CAPI_LISTING_H_

#include <span>

namespace opsnn::capi {

struct ApiRow {
  const char* api;  // "aclnnRelu"
  const char* op;   // "Relu"; "" when only declared
  bool implemented;
  const char* family;  // "activation"
  const char* header;  // "aclnnop/aclnn_relu.h"
  const char* dtypes;  // of its first tensor, "f32, f16"; as published when only declared
  const char* text;    // what it does, in one line (tools/function_texts.py)
};
std::span<const ApiRow> ApiRows();  // sorted by api

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_LISTING_H_
