// Window functions of signal processing: sums of a few cosines.
#ifndef OPSNN_OPS_SIGNAL_WINDOW_FUNCTION_H_
#define OPSNN_OPS_SIGNAL_WINDOW_FUNCTION_H_

#include "op/operator.h"

namespace opsnn::ops {

// y[n] = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N the size, or one less for the symmetric form.
void DefineWindow(op::OpDef& def, double a0, double a1, double a2);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_SIGNAL_WINDOW_FUNCTION_H_
