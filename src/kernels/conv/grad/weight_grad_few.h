// The weight gradient of few input channels, whose images would be mostly padding in blocks.
//
// The gradient of the output is cut into blocks of channels a few rows at a time, in L1, where every kernel
// position meets it. The input is read one value at a time, from a copy in which the columns that a kernel
// column meets lie side by side and padding is written out as zeros.
#ifndef OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_FEW_H_
#define OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_FEW_H_

#include "kernels/conv/grad/weight_grad.h"

namespace opsnn::conv {

// Does this form compute the shape?
bool FitsFewChannels(const ConvShape& s);

// Fills in a plan whose `given` and `tier` are set.
void PlanFewChannels(WeightGradPlan* p);

void RunFewChannels(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_FEW_H_
