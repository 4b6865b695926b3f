// Softmax and LogSoftmax along any axis: a row program where the axis is innermost, else the column kernel.
#ifndef OPSNN_OPS_SOFTMAX_SOFTMAX_COMMON_H_
#define OPSNN_OPS_SOFTMAX_SOFTMAX_COMMON_H_

#include "op/operator.h"

namespace opsnn::ops {

void DefineSoftmax(op::OpDef& def, bool log);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_SOFTMAX_SOFTMAX_COMMON_H_
