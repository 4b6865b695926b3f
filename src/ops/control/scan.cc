#include "ops/control/control_op.h"

OPSNN_DEFINE_OPERATOR(Scan) { DefineControl(def); }
