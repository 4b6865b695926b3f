// ArgMax and ArgMin are one operator in two directions.
#ifndef OPSNN_OPS_INDEX_ARG_EXTREME_H_
#define OPSNN_OPS_INDEX_ARG_EXTREME_H_

#include "op/operator.h"

namespace opsnn::ops {

// Fills in infer and plan; `name` is the operator's and outlives it.
void DefineArgExtreme(op::OpDef& def, const char* name, bool largest);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_INDEX_ARG_EXTREME_H_
