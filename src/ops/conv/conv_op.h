// Conv and ConvTranspose: one implementation. Attributes are read and checked by Resolve, the fused tail is
// cut by tail.h into what the kernel does in registers and a program, and ConvKernel binds both to
// kernels/conv.
#ifndef OPSNN_OPS_CONV_CONV_OP_H_
#define OPSNN_OPS_CONV_CONV_OP_H_

#include "kernels/conv/conv.h"
#include "op/operator.h"
#include "op/window.h"

namespace opsnn::ops {

void DefineConv(op::OpDef& def, bool transposed);

// What a call means once its shapes are known; sizes may be kUnknownDim during inference.
struct ConvCall {
  op::Window window;
  int64_t groups = 1;
  Dims out;  // logical dims of Y
};
// x and w are logical dims of known rank.
Result<ConvCall> ResolveConv(const char* name, bool transposed, const Dims& x, const Dims& w,
                             const op::Attrs& attrs);

// The kernels' view of such a call; its layouts are for the caller to set.
Result<conv::ConvShape> ShapeOfCall(const char* name, bool transposed, const Dims& x, const Dims& w,
                                    const op::Attrs& attrs);

// The tile of Winograd's algorithm that is fastest for a Conv of known shapes (attribute winograd), or 0.
int WinogradTile(const op::TensorDesc& x, const op::TensorDesc& w, const op::Attrs& attrs);

Result<op::KernelPtr> PlanConvolution(const char* name, bool transposed, const op::PlanContext& c);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONV_CONV_OP_H_
