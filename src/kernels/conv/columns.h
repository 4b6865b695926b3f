// Convolution as a product: every output pixel's window is written out as a column (im2col), then a pointwise
// convolution of the columns follows. The general form that others are compared with: it needs a buffer of
// taps times the input, where the direct forms need none.
#ifndef OPSNN_KERNELS_CONV_COLUMNS_H_
#define OPSNN_KERNELS_CONV_COLUMNS_H_

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Why this shape cannot be computed so; null if it can.
const char* ColumnsRefusal(const ConvShape& s);

// Floats of the buffer, whole blocks.
int64_t ColumnFloats(const ConvShape& s);

// Fills in a plan whose shape, variant and tier are set.
void LayOutColumns(ConvPlan* p);

void RunColumns(const ConvPlan& plan, const ConvArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_COLUMNS_H_
