// Messages of operators, in words of the aclnn function that called them.
#ifndef OPSNN_CAPI_WORDS_H_
#define OPSNN_CAPI_WORDS_H_

#include <span>
#include <string>

#include "capi/function.h"

namespace opsnn::capi {

// `operands` names the parameters from which the operator's inputs come, the first num_inputs, and its
// outputs;
// "" where none does. "Gather: indices: index 9 ..." is "aclnnNLLLoss: target: index 9 ...", and "attribute
// axis" is "dim".
Status InWordsOf(const OpsnnFunction& function, const op::OpDef* op, std::span<const std::string> operands,
                 size_t num_inputs, const Status& status);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_WORDS_H_
