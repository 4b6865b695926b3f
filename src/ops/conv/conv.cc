#include "ops/conv/conv_op.h"

OPSNN_DEFINE_OPERATOR(Conv) { DefineConv(def, false); }
