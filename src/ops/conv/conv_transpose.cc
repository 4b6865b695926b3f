#include "ops/conv/conv_op.h"

OPSNN_DEFINE_OPERATOR(ConvTranspose) { DefineConv(def, true); }
