#include "ops/control/control_op.h"

OPSNN_DEFINE_OPERATOR(Loop) { DefineControl(def); }
