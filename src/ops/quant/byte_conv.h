// ConvInteger and the chain that makes bytes of its sums, on blocked images of bytes (kernels/conv/bytes).
#ifndef OPSNN_OPS_QUANT_BYTE_CONV_H_
#define OPSNN_OPS_QUANT_BYTE_CONV_H_

#include "op/operator.h"

namespace opsnn::ops {

// Null where this call could run so, with its image and its result in blocks of channels (an image of few
// channels as NCHW), else why not. The layouts of c are not read.
const char* ByteConvRefusal(const op::PlanContext& c);
Result<op::KernelPtr> PlanByteConv(const op::PlanContext& c);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_BYTE_CONV_H_
